// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package instance

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/openshift/windows-instance-api/pkg/host"
	"github.com/openshift/windows-instance-api/pkg/host/diagnose"
	"github.com/openshift/windows-instance-api/pkg/host/ssh"
)

// Every step is blamed on the condition that it finds out; package diagnose tests the words.
func TestClassify(t *testing.T) {
	boom := errors.New("boom")
	for _, test := range []struct {
		name string
		at   diagnose.Stage
		err  error
		want string // condition=status/reason
	}{
		{"resolve", diagnose.StageResolve, boom, "Resolved=False/NameNotResolved"},
		{"host key", diagnose.StageHostKey, boom, "Reachable=False/HandshakeFailed"},
		{"login", diagnose.StageLogin, boom, "Authenticated=False/CredentialsMissing"},
		{"facts", diagnose.StageFacts, boom, "PreflightPassed=Unknown/AgentFailed"},
		{"pin that cannot be read", diagnose.StageHostKey, &unusableKeyError{boom}, "HostKeyTrusted=Unknown/NotTried"},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := classify(test.at, test.err, newInstance("win-1", "10.1.42.1"))
			if text := fmt.Sprintf("%s=%s/%s", got.Condition, got.Status, got.Reason); text != test.want {
				t.Errorf("got %s, want %s", text, test.want)
			}
			if !strings.Contains(got.Message, "boom") {
				t.Errorf("message %q does not say why", got.Message)
			}
		})
	}
}

// onBastion is a failure on the way to a bastion.
func onBastion(layer ssh.Layer, reason ssh.Reason) error {
	return &ssh.Error{Layer: ssh.LayerBastion, Reason: reason, Address: "10.9.9.9:22", Err: &ssh.Error{Layer: layer, Reason: reason}}
}

func TestHung(t *testing.T) {
	for _, test := range []struct {
		name string
		err  error
		want bool
	}{
		{"no answer", &ssh.Error{Layer: ssh.LayerConnect, Reason: ssh.ReasonConnectionTimedOut}, true},
		{"silent in the handshake", &ssh.Error{Layer: ssh.LayerHandshake, Reason: ssh.ReasonHandshakeTimedOut}, true},
		{"silent in a session", &ssh.Error{Layer: ssh.LayerSession, Reason: ssh.ReasonTimedOut}, true},
		{"deadline of the probe", context.DeadlineExceeded, true},
		{"bastion does not answer", onBastion(ssh.LayerConnect, ssh.ReasonConnectionTimedOut), true},
		{"bastion is silent in the handshake", onBastion(ssh.LayerHandshake, ssh.ReasonHandshakeTimedOut), true},
		{"bastion is silent in the login", onBastion(ssh.LayerAuth, ssh.ReasonTimedOut), true},
		{"nobody waits any more for a bastion", &ssh.Error{Layer: ssh.LayerBastion, Reason: ssh.ReasonTimedOut}, true},
		{"DNS is silent about a bastion", onBastion(ssh.LayerDNS, ssh.ReasonTimedOut), false},
		{"bastion refuses", onBastion(ssh.LayerAuth, ssh.ReasonCredentialsRefused), false},
		{"refused", &ssh.Error{Layer: ssh.LayerConnect, Reason: ssh.ReasonConnectionRefused}, false},
		{"DNS is silent", &ssh.Error{Layer: ssh.LayerDNS, Reason: ssh.ReasonTimedOut}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := hung(diagnose.StageLogin, test.err, newInstance("win-1", "10.1.42.1")); got != test.want {
				t.Errorf("got %t, want %t", got, test.want)
			}
		})
	}
}

func TestReasonsAreFitForConditions(t *testing.T) {
	for _, reason := range []ssh.Reason{ssh.ReasonConnectionRefused, ssh.ReasonNotSSH, ssh.ReasonCredentialsRefused} {
		f := classify(diagnose.StageLogin, &ssh.Error{Layer: ssh.LayerConnect, Reason: reason}, newInstance("win-1", "10.1.42.1"))
		if f.Status == metav1.ConditionTrue || f.Reason == "" || f.Message == "" {
			t.Errorf("%s: got %+v", reason, f)
		}
	}
	if !diagnose.IsInconclusive(&ssh.Error{Layer: ssh.LayerConnect, Reason: ssh.ReasonLimitReached}) || diagnose.IsInconclusive(&host.CredentialsError{}) {
		t.Error("limits of ours tell nothing about a host, and a missing Secret does")
	}
}
