// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package diagnose

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/host"
	"github.com/openshift/windows-instance-api/pkg/host/agentclient"
	"github.com/openshift/windows-instance-api/pkg/host/agentclient/answer"
	"github.com/openshift/windows-instance-api/pkg/host/ssh"
)

// causeLayer is the type of the cause in a Status that names the layer that failed.
const causeLayer metav1.CauseType = "Layer"

// Seconds after which trying again may help.
const (
	retryUnreachable = 10
	retryBusy        = 5
)

// StatusError turns an error of package host into what an API client gets: 503 with the
// layer that failed when the host cannot be reached, 504 when it accepted and went
// silent, 429 when a limit is reached, and what the agent says when it refuses.
func StatusError(instance string, err error) error {
	if errors.Is(err, context.Canceled) {
		return err // the client is gone; nobody reads an answer
	}
	var (
		refused     *agentclient.LogRefusedError
		credentials *host.CredentialsError
		agent       *agentclient.Error
		command     *host.CommandError
		shell       *host.ShellError
		port        *host.PortError
		another     *agentclient.AnotherHostError
	)
	switch {
	case errors.As(err, &refused):
		return refusal(instance, refused)
	case errors.As(err, &credentials) && credentials.Unread:
		return hostStatus(instance, http.StatusServiceUnavailable, "Credentials", fmt.Sprintf("the host was not logged in to: %v", credentials), retryBusy)
	case errors.As(err, &credentials):
		return hostStatus(instance, http.StatusServiceUnavailable, "Credentials", fmt.Sprintf("no credentials for the host: %v", credentials), retryUnreachable)
	case errors.As(err, &another):
		return hostStatus(instance, http.StatusServiceUnavailable, string(ssh.LayerHostKey), another.Error()+"; see condition HostKeyTrusted", retryUnreachable)
	case errors.As(err, &command):
		return apierrors.NewBadRequest(command.Error())
	case errors.As(err, &shell):
		return hostStatus(instance, http.StatusServiceUnavailable, string(ssh.LayerShell), shell.Error(), retryUnreachable)
	case errors.As(err, &port):
		return hostStatus(instance, http.StatusServiceUnavailable, string(ssh.LayerSession), port.Error(), retryUnreachable)
	}
	if ssh, ok := ssh.AsError(err); ok {
		return sshStatus(instance, ssh)
	}
	if errors.As(err, &agent) {
		if errors.Is(err, context.DeadlineExceeded) {
			return hostStatus(instance, http.StatusGatewayTimeout, "Agent", agent.Error(), retryUnreachable)
		}
		return hostStatus(instance, http.StatusServiceUnavailable, "Agent", agent.Error(), retryUnreachable)
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return hostStatus(instance, http.StatusGatewayTimeout, "Agent", "the host did not answer in time", retryUnreachable)
	}
	return apierrors.NewInternalError(fmt.Errorf("host of %s: %s", instance, answer.Text(err.Error(), answer.MaxText)))
}

func sshStatus(instance string, err *ssh.Error) error {
	switch err.Reason {
	case ssh.ReasonHostKeyUnknown:
		return hostStatus(instance, http.StatusServiceUnavailable, string(err.Layer), "the host key of the host is not known yet: windows-controller records it when it first meets the host; see condition HostKeyTrusted", retryBusy)
	case ssh.ReasonHandshakeTimedOut, ssh.ReasonTimedOut:
		return hostStatus(instance, http.StatusGatewayTimeout, string(err.Layer), err.Error(), retryUnreachable)
	case ssh.ReasonSessionLimitReached, ssh.ReasonLimitReached:
		return hostStatus(instance, http.StatusTooManyRequests, string(err.Layer), err.Error(), retryBusy)
	}
	message := err.Error()
	if !err.RetryAt.IsZero() {
		message = fmt.Sprintf("%s. So that it locks nobody out, no host behind the bastion is connected to before %s, unless the Secret or the fields of the bastion change: "+
			"authorize the public key of the Secret there, or correct them. After the former: kubectl windows check %s", strings.TrimRight(message, "."), err.RetryAt.UTC().Format(time.RFC3339), instance)
	}
	return hostStatus(instance, http.StatusServiceUnavailable, string(err.Layer), message, retryUnreachable)
}

var reasons = map[int]metav1.StatusReason{
	http.StatusServiceUnavailable: metav1.StatusReasonServiceUnavailable,
	http.StatusGatewayTimeout:     metav1.StatusReasonTimeout,
	http.StatusTooManyRequests:    metav1.StatusReasonTooManyRequests,
}

func hostStatus(instance string, code int, layer, message string, retryAfter int32) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status:  metav1.StatusFailure,
		Code:    int32(code),
		Reason:  reasons[code],
		Message: answer.Text(message, answer.MaxText),
		Details: &metav1.StatusDetails{
			Group:             v1alpha1.GroupName,
			Kind:              "windowsinstances",
			Name:              instance,
			Causes:            []metav1.StatusCause{{Type: causeLayer, Message: layer}},
			RetryAfterSeconds: retryAfter,
		},
	}}
}

// refusal passes on what the agent answered.
func refusal(instance string, err *agentclient.LogRefusedError) error {
	r := err.Refusal
	status := apierrors.NewGenericServerResponse(r.Code, "get", schema.GroupResource{Group: v1alpha1.GroupName, Resource: "windowsinstances"}, instance, r.Message, 0, false)
	status.ErrStatus.Message = r.Message
	if r.Reason != "" {
		status.ErrStatus.Reason = metav1.StatusReason(r.Reason)
	}
	if r.Field != "" && status.ErrStatus.Details != nil {
		status.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: metav1.CauseTypeFieldValueInvalid, Field: r.Field, Message: r.Message}}
	}
	return status
}
