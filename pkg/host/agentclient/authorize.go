// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package agentclient

import (
	"context"
	"errors"
	"fmt"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/host"
	"github.com/openshift/windows-instance-api/pkg/host/ssh"
)

// NotProvenError means that a host was given a key and does not accept it. It keeps the former ones.
type NotProvenError struct {
	// Key is the key.
	Key host.Key
	// Err is why the login with it failed.
	Err error
}

// Error implements error.
func (e *NotProvenError) Error() string {
	return fmt.Sprintf("logging in with key %s failed: %v", e.Key.Fingerprint(), e.Err)
}

// Unwrap returns why the login failed.
func (e *NotProvenError) Unwrap() error { return e.Err }

// RotateKey has the host accept the key of its Secret in the place of former ones: it adds the key, proves that a new
// connection can be made with it alone, and only then removes the former keys, over such a connection. accepted is the fingerprint of the
// key that the host was logged in to with, empty for a password. It can be repeated after any error, and after the end of this process at
// any moment: what is done already is not done again. A host that accepts a certificate of the key gets the key only in the place of a
// former one. removed says that the files from which sshd takes keys by default have none of the former keys, and the key, unless the
// host accepts a certificate of it. Without it there were none to remove, or sshd takes the key from elsewhere. Errors are [NotProvenError]s and those of BootID.
func (a *Client) RotateKey(ctx context.Context, instance *v1alpha1.WindowsInstance, r host.Rotation, accepted string) (removed bool, err error) {
	request := api.AuthorizeRequest{Key: r.Key.String(), Password: accepted == "", Certified: r.Certified}
	for _, former := range r.Former {
		request.Former = append(request.Former, former.String())
	}
	var refused error
	// A host that accepts the key may have a former one in a file that lacks the key, which loses none before it has it. It may
	// also have recorded that another one took the place of the key, and forgets that.
	answer, err := a.authorize(ctx, login{r.Login, instance.Machine()}, request)
	if failed, ok := errors.AsType[*Error](err); ok && failed.Step == StepRefused {
		refused = err // somebody may have added the key elsewhere since this connection was made
	} else if err != nil {
		return false, err
	}
	if r.Certified && refused == nil && answer.Elsewhere {
		return true, nil // it was logged in to with the certificate, and there is nothing in its files to replace
	}
	switch err := a.prove(ctx, r.Proof); {
	case err != nil && refused != nil:
		return false, refused
	case err != nil:
		return false, &NotProvenError{Key: r.Key, Err: err}
	}
	if len(request.Former) == 0 {
		return false, nil
	}
	request.Remove = true
	answer, err = a.authorize(ctx, login{r.Proof, instance.Machine()}, request)
	return err == nil && !answer.Elsewhere, err
}

// authorize sends one request about the keys of a host.
func (a *Client) authorize(ctx context.Context, to login, request api.AuthorizeRequest) (answer api.AuthorizeAnswer, err error) {
	if _, err := a.queryTarget(ctx, to, query{command: api.CommandAuthorize, request: request}, &answer); err != nil {
		return answer, err
	}
	if answer.Refused != "" {
		return answer, &Error{Step: StepRefused, Err: errors.New(answer.Refused)}
	}
	return answer, nil
}

// prove logs in over a new connection, which is closed again.
func (a *Client) prove(ctx context.Context, target ssh.Target) error {
	trace := a.options.Pool.Trace(ctx, target, ssh.TraceOptions{})
	defer trace.Close()
	return trace.Steps[len(trace.Steps)-1].Err
}
