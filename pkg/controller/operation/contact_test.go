// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package operation

import (
	"context"
	"errors"
	"fmt"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/openshift/windows-instance-api/pkg/host"
	"github.com/openshift/windows-instance-api/pkg/host/agentclient"
	"github.com/openshift/windows-instance-api/pkg/host/ssh"
)

func TestErrorsOfHosts(t *testing.T) {
	failed := func(layer ssh.Layer, reason ssh.Reason) error {
		return fmt.Errorf("x: %w", &ssh.Error{Layer: layer, Reason: reason})
	}
	tests := []struct {
		name          string
		err           error
		wantTransient bool
		wantUnsent    bool
	}{
		{"no address", failed(ssh.LayerDNS, ssh.ReasonNameNotResolved), true, true},
		{"address not allowed", failed(ssh.LayerConnect, ssh.ReasonAddressRefused), false, true},
		{"down", failed(ssh.LayerConnect, ssh.ReasonConnectionRefused), true, true},
		{"starting", failed(ssh.LayerHandshake, ssh.ReasonConnectionReset), true, true},
		{"another host key", failed(ssh.LayerHostKey, ssh.ReasonHostKeyChanged), false, true},
		{"credentials", failed(ssh.LayerAuth, ssh.ReasonCredentialsRefused), false, true},
		{"silent while logging in", failed(ssh.LayerAuth, ssh.ReasonTimedOut), true, true},
		{"broken while it ran", failed(ssh.LayerSession, ssh.ReasonConnectionLost), true, false},
		{"no Secret", &host.CredentialsError{Secret: "a/b", Err: errors.New("not there")}, false, true},
		{"the agent says no", &agentclient.Error{Step: agentclient.StepRun, Err: errors.New("exit code 1")}, false, true},
		{"the agent is silent", &agentclient.Error{Step: agentclient.StepRun, Err: context.DeadlineExceeded}, true, false},
		{"silence", context.DeadlineExceeded, true, false},
		{"anything else", errors.New("x"), false, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if transient, unsent := isTransient(tt.err), unsentFor(tt.err); transient != tt.wantTransient || unsent != tt.wantUnsent {
				t.Errorf("transient %v, unsent %v, want %v, %v", transient, unsent, tt.wantTransient, tt.wantUnsent)
			}
		})
	}
}

// A server that is starting may not know the API yet; then nothing is over.
func TestGone(t *testing.T) {
	resource := schema.GroupResource{Group: "windows.openshift.io", Resource: "windowsinstances"}
	tests := []struct {
		name string
		err  error
		want bool
	}{
		{"the object", apierrors.NewNotFound(resource, "win-1"), true},
		{"the API", apierrors.NewGenericServerResponse(404, "GET", resource, "win-1", "404 page not found", 0, true), false},
		{"the server", errors.New("connection refused"), false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := gone(tt.err); got != tt.want {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}
