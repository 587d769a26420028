// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package diagnose

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/host"
	"github.com/openshift/windows-instance-api/pkg/host/agentclient"
	"github.com/openshift/windows-instance-api/pkg/host/agentclient/answer"
	"github.com/openshift/windows-instance-api/pkg/host/ssh"
)

func TestStatusError(t *testing.T) {
	connection := func(layer ssh.Layer, reason ssh.Reason) error {
		return fmt.Errorf("opening: %w", &ssh.Error{Layer: layer, Reason: reason, Address: "10.0.0.1:22", Err: errors.New("why")})
	}
	for _, test := range []struct {
		name   string
		err    error
		code   int32
		reason metav1.StatusReason
		layer  string
		retry  bool
		says   string
	}{
		{"name not resolved", connection(ssh.LayerDNS, ssh.ReasonNameNotResolved), 503, "ServiceUnavailable", "DNS", true, "10.0.0.1:22"},
		{"connection refused", connection(ssh.LayerConnect, ssh.ReasonConnectionRefused), 503, "ServiceUnavailable", "Connect", true, "10.0.0.1:22"},
		{"no answer to TCP", connection(ssh.LayerConnect, ssh.ReasonConnectionTimedOut), 503, "ServiceUnavailable", "Connect", true, "10.0.0.1:22"},
		{"accepted, then silent", connection(ssh.LayerHandshake, ssh.ReasonHandshakeTimedOut), 504, "Timeout", "Handshake", true, "10.0.0.1:22"},
		{"silent at a session", connection(ssh.LayerSession, ssh.ReasonTimedOut), 504, "Timeout", "Session", true, "10.0.0.1:22"},
		{"host key unknown", connection(ssh.LayerHostKey, ssh.ReasonHostKeyUnknown), 503, "ServiceUnavailable", "HostKey", true, "HostKeyTrusted"},
		{"host key changed", connection(ssh.LayerHostKey, ssh.ReasonHostKeyChanged), 503, "ServiceUnavailable", "HostKey", true, "10.0.0.1:22"},
		{"credentials refused", connection(ssh.LayerAuth, ssh.ReasonCredentialsRefused), 503, "ServiceUnavailable", "Auth", true, "10.0.0.1:22"},
		{"refused by the bastion", fmt.Errorf("opening: %w", refusedUntil(time.Unix(60, 0))), 503, "ServiceUnavailable", "Bastion", true, "boom. So that it locks nobody out, no host behind the bastion is connected to before 1970-01-01T00:01:00Z, unless the Secret"},
		{"too many sessions", connection(ssh.LayerSession, ssh.ReasonSessionLimitReached), 429, "TooManyRequests", "Session", true, "10.0.0.1:22"},
		{"too many connections", connection(ssh.LayerConnect, ssh.ReasonLimitReached), 429, "TooManyRequests", "Connect", true, "10.0.0.1:22"},
		{"connection lost", connection(ssh.LayerSession, ssh.ReasonConnectionLost), 503, "ServiceUnavailable", "Session", true, "10.0.0.1:22"},
		{"no credentials", &host.CredentialsError{Secret: "ns/name", Err: errors.New("not found")}, 503, "ServiceUnavailable", "Credentials", true, "ns/name"},
		{"credentials that could not be read", &host.CredentialsError{Secret: "ns/name", Unread: true, Err: errors.New("connection refused")}, 503, "ServiceUnavailable", "Credentials", true, "the host was not logged in to: Secret ns/name could not be read: connection refused"},
		{"agent cannot be put there", &agentclient.Error{Step: agentclient.StepUpload, Err: errors.New("disk full")}, 503, "ServiceUnavailable", "Agent", true, "disk full"},
		{"connection lost at the upload", &agentclient.Error{Step: agentclient.StepUpload, Err: connection(ssh.LayerSession, ssh.ReasonConnectionLost)}, 503, "ServiceUnavailable", "Session", true, "10.0.0.1:22"},
		{"agent silent", &agentclient.Error{Step: agentclient.StepRun, Err: fmt.Errorf("no answer: %w", context.DeadlineExceeded)}, 504, "Timeout", "Agent", true, "running it on the host"},
		{"out of time", fmt.Errorf("waiting: %w", context.DeadlineExceeded), 504, "Timeout", "Agent", true, "in time"},
		{"not found on the host", &agentclient.LogRefusedError{Refusal: api.LogError{Code: 404, Reason: "NotFound", Message: "no log of x"}}, 404, "NotFound", "", false, "no log of x"},
		{"forbidden on the host", &agentclient.LogRefusedError{Refusal: api.LogError{Code: 403, Reason: "Forbidden", Message: "access denied"}}, 403, "Forbidden", "", false, "access denied"},
		{"bad request", &agentclient.LogRefusedError{Refusal: api.LogError{Code: 400, Reason: "BadRequest", Field: "queries[1]", Message: "no such form"}}, 400, "BadRequest", "", false, "no such form"},
		{"command that cannot be expressed", &host.CommandError{Err: errors.New("argument 1: has a line break")}, 400, "BadRequest", "", false, "argument 1"},
		{"shell that is not known", &host.ShellError{Err: errors.New("it printed x")}, 503, "ServiceUnavailable", "Shell", true, "it printed x"},
		{"nothing listens", &host.PortError{Port: 8080, Err: connection(ssh.LayerSession, ssh.ReasonConnectionRefused)}, 503, "ServiceUnavailable", "Session", true, "port 8080: nothing"},
		{"forwarding not allowed", &host.PortError{Port: 8080, Err: connection(ssh.LayerSession, ssh.ReasonSessionRefused)}, 503, "ServiceUnavailable", "Session", true, "AllowTcpForwarding"},
		{"anything else", errors.New("surprise"), 500, "InternalError", "", false, "surprise"},
	} {
		t.Run(test.name, func(t *testing.T) {
			err := StatusError("win-1", test.err)
			var api apierrors.APIStatus
			if !errors.As(err, &api) {
				t.Fatalf("got %v, which is no Status", err)
			}
			status := api.Status()
			if status.Code != test.code || status.Reason != test.reason || status.Status != metav1.StatusFailure {
				t.Errorf("got code %d, reason %s, status %s", status.Code, status.Reason, status.Status)
			}
			if !strings.Contains(status.Message, test.says) {
				t.Errorf("the message is %q, want one with %q", status.Message, test.says)
			}
			seconds, retry := apierrors.SuggestsClientDelay(err)
			if retry != test.retry || retry && seconds < 1 {
				t.Errorf("try again: %v, after %d s", retry, seconds)
			}
			if test.layer == "" {
				return
			}
			if status.Details == nil || len(status.Details.Causes) != 1 || status.Details.Causes[0] != (metav1.StatusCause{Type: "Layer", Message: test.layer}) || status.Details.Name != "win-1" {
				t.Errorf("the details are %+v, want layer %s", status.Details, test.layer)
			}
		})
	}
}

func TestStatusErrorOfABadField(t *testing.T) {
	err := StatusError("win-1", &agentclient.LogRefusedError{Refusal: api.LogError{Code: 400, Reason: "BadRequest", Field: "queries[1]", Message: "no such form"}})
	var api apierrors.APIStatus
	if !errors.As(err, &api) {
		t.Fatal(err)
	}
	want := metav1.StatusCause{Type: metav1.CauseTypeFieldValueInvalid, Field: "queries[1]", Message: "no such form"}
	if details := api.Status().Details; details == nil || len(details.Causes) != 1 || details.Causes[0] != want {
		t.Errorf("the details are %+v", details)
	}
}

func TestStatusErrorOfAClientThatLeft(t *testing.T) {
	if err := StatusError("win-1", fmt.Errorf("reading: %w", context.Canceled)); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

// TestHostileMessages: what a host writes to its standard error, or answers over SFTP, gets
// into messages in a form that fits into the API and that terminals do not act upon.
func TestHostileMessages(t *testing.T) {
	hostile := errors.New("\x1b[2J\u202e" + strings.Repeat("ä", 1<<20))
	for name, err := range map[string]error{
		"agent":   &agentclient.Error{Step: agentclient.StepRun, Err: hostile},
		"upload":  &agentclient.Error{Step: agentclient.StepUpload, Err: hostile},
		"session": &ssh.Error{Layer: ssh.LayerSession, Reason: ssh.ReasonSessionRefused, Err: hostile},
		"shell":   &host.ShellError{Err: hostile},
		"port":    &host.PortError{Port: 1, Err: hostile},
		"other":   hostile,
	} {
		t.Run(name, func(t *testing.T) {
			for by, message := range map[string]string{
				"StatusError": StatusError("win-1", err).Error(),
				"Diagnose":    Diagnose(StageFacts, err, &v1alpha1.WindowsInstance{}).Message,
			} {
				if len(message) > answer.MaxText+256 || !utf8.ValidString(message) || strings.ContainsAny(message, "\x1b\u202e") || !strings.Contains(message, "?[2J?ä") {
					t.Errorf("%s: %d bytes: %.100q", by, len(message), message)
				}
			}
		})
	}
}
