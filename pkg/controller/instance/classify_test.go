// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package instance

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/crypto/ssh"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/openshift/windows-instance-api/pkg/hostaccess"
	"github.com/openshift/windows-instance-api/pkg/sshpool"
)

func TestClassify(t *testing.T) {
	sshErr := func(layer sshpool.Layer, reason sshpool.Reason) error {
		return &sshpool.Error{Layer: layer, Reason: reason, Address: "10.1.42.1:22", Err: errors.New("cause of the library.")}
	}
	changed := &sshpool.Error{Layer: sshpool.LayerHostKey, Reason: sshpool.ReasonHostKeyChanged,
		Err: &sshpool.HostKeyError{Presented: newKey(t, "new"), Pinned: []ssh.PublicKey{newKey(t, "old")}}}
	otherType := &sshpool.Error{Layer: sshpool.LayerHostKey, Reason: sshpool.ReasonHostKeyChanged,
		Err: &sshpool.HostKeyError{Pinned: []ssh.PublicKey{newKey(t, "old")}}}

	for _, test := range []struct {
		name string
		at   step
		err  error
		want string // condition=status/reason
		says string // part of the message
	}{
		{"unknown name", stepResolve, sshErr(sshpool.LayerDNS, sshpool.ReasonNameNotResolved), "Resolved=False/NameNotResolved", "DNS knows no address for 10.1.42.1"},
		{"refused address", stepResolve, sshErr(sshpool.LayerDNS, sshpool.ReasonAddressRefused), "Resolved=False/AddressRefused", "--allowed-host-cidrs"},
		{"refused address at dial time", stepLogin, sshErr(sshpool.LayerConnect, sshpool.ReasonAddressRefused), "Resolved=False/AddressRefused", "cause of the library"},
		{"DNS is silent", stepResolve, sshErr(sshpool.LayerDNS, sshpool.ReasonTimedOut), "Resolved=False/NameNotResolved", "DNS does not answer"},
		{"nothing listens", stepHostKey, sshErr(sshpool.LayerConnect, sshpool.ReasonConnectionRefused), "Reachable=False/ConnectionRefused", "Nothing listens on 10.1.42.1:22: install and start the OpenSSH server (service sshd), and open TCP port 22"},
		{"no answer", stepHostKey, sshErr(sshpool.LayerConnect, sshpool.ReasonConnectionTimedOut), "Reachable=False/ConnectionTimedOut", "firewall"},
		{"no answer by the deadline of the caller", stepLogin, sshErr(sshpool.LayerConnect, sshpool.ReasonTimedOut), "Reachable=False/ConnectionTimedOut", "firewall"},
		{"no route", stepHostKey, sshErr(sshpool.LayerConnect, sshpool.ReasonHostUnreachable), "Reachable=False/HostUnreachable", "no route"},
		{"reset", stepHostKey, sshErr(sshpool.LayerHandshake, sshpool.ReasonConnectionReset), "Reachable=False/ConnectionReset", "closes the connection"},
		{"reset at login", stepLogin, sshErr(sshpool.LayerAuth, sshpool.ReasonConnectionReset), "Authenticated=False/ConnectionLost", "tried again"},
		{"silent after accept", stepHostKey, sshErr(sshpool.LayerHandshake, sshpool.ReasonHandshakeTimedOut), "Reachable=False/HandshakeTimedOut", "restart the service sshd"},
		{"handshake over the deadline of the caller", stepHostKey, sshErr(sshpool.LayerHandshake, sshpool.ReasonTimedOut), "Reachable=False/HandshakeTimedOut", "handshake"},
		{"an HTTP server", stepHostKey, sshErr(sshpool.LayerHandshake, sshpool.ReasonNotSSH), "Reachable=False/NotSSH", "spec.port"},
		{"no common algorithm", stepHostKey, sshErr(sshpool.LayerHandshake, sshpool.ReasonHandshakeFailed), "Reachable=False/HandshakeFailed", "cause of the library. Update OpenSSH"},
		{"another host key", stepLogin, changed, "HostKeyTrusted=False/HostKeyChanged", "kubectl patch"},
		{"no host key of a trusted type", stepLogin, otherType, "HostKeyTrusted=False/HostKeyChanged", "no host key of a trusted type"},
		{"no key was recorded", stepLogin, sshErr(sshpool.LayerHostKey, sshpool.ReasonHostKeyUnknown), "HostKeyTrusted=Unknown/NotTried", "not been recorded"},
		{"pin that cannot be read", stepHostKey, &unusableKeyError{errors.New("spec.hostKeys[0] is not a public key")}, "HostKeyTrusted=Unknown/NotTried", "spec.hostKeys[0]"},
		{"Secret is missing", stepLogin, &hostaccess.CredentialsError{Secret: "openshift/cloud-private-key", Err: errors.New("not found")}, "Authenticated=False/CredentialsMissing", "Secret openshift/cloud-private-key: not found"},
		{"credentials refused", stepLogin, sshErr(sshpool.LayerAuth, sshpool.ReasonCredentialsRefused), "Authenticated=False/CredentialsRefused", "administrators_authorized_keys"},
		{"silent while logging in", stepLogin, sshErr(sshpool.LayerAuth, sshpool.ReasonTimedOut), "Authenticated=False/AuthenticationTimedOut", "went silent"},
		{"no session", stepLogin, sshErr(sshpool.LayerSession, sshpool.ReasonSessionRefused), "Authenticated=False/SessionRefused", "MaxSessions"},
		{"connection lost", stepFacts, sshErr(sshpool.LayerSession, sshpool.ReasonConnectionLost), "Authenticated=False/ConnectionLost", "restarting"},
		{"agent cannot be put there", stepFacts, &hostaccess.AgentError{Step: hostaccess.StepUpload, Err: errors.New("disk full")}, "PreflightPassed=Unknown/AgentNotInstalled", "disk full"},
		{"agent is another one there", stepFacts, &hostaccess.AgentError{Step: hostaccess.StepVerify, Err: errors.New("other digest")}, "PreflightPassed=Unknown/AgentNotInstalled", "other digest"},
		{"agent fails", stepFacts, &hostaccess.AgentError{Step: hostaccess.StepRun, Err: &sshpool.ExitError{Code: 1, Stderr: "boom"}}, "PreflightPassed=Unknown/AgentFailed", "boom"},
		{"the host is gone when the agent is to be put there", stepFacts, &hostaccess.AgentError{Step: hostaccess.StepUpload, Err: sshErr(sshpool.LayerConnect, sshpool.ReasonConnectionRefused)}, "Reachable=False/ConnectionRefused", "Nothing listens"},
		{"the host key changed when the agent is to be run", stepFacts, &hostaccess.AgentError{Step: hostaccess.StepRun, Err: changed}, "HostKeyTrusted=False/HostKeyChanged", "kubectl patch"},
		{"agent is silent", stepFacts, sshErr(sshpool.LayerSession, sshpool.ReasonTimedOut), "PreflightPassed=Unknown/AgentFailed", "did not answer in time"},
		{"the probe took too long", stepFacts, fmt.Errorf("facts: %w", context.DeadlineExceeded), "PreflightPassed=Unknown/AgentFailed", "did not answer in time"},
		{"a reason of the future", stepHostKey, sshErr(sshpool.LayerHandshake, "Surprise"), "Reachable=False/HandshakeFailed", "Surprise"},
		{"a session error of the future", stepFacts, sshErr(sshpool.LayerShell, "Surprise"), "PreflightPassed=Unknown/AgentFailed", "Surprise"},
		{"an error of no known kind", stepLogin, errors.New("reading pool p: boom"), "Authenticated=False/CredentialsMissing", "reading pool p: boom"},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := classify(test.at, test.err, newInstance("win-1", "10.1.42.1"))
			if text := fmt.Sprintf("%s=%s/%s", got.condition, got.status, got.reason); text != test.want {
				t.Errorf("got %s, want %s", text, test.want)
			}
			if !strings.Contains(got.message, test.says) {
				t.Errorf("message %q does not say %q", got.message, test.says)
			}
			if strings.Contains(got.message, "%!") || strings.Contains(got.message, "..") {
				t.Errorf("bad message %q", got.message)
			}
		})
	}
}

func TestHostKeyChangedSaysWhatToDo(t *testing.T) {
	instance := newInstance("win-1", "10.1.42.1")
	old, presented := newKey(t, "old"), newKey(t, "new")

	got := hostKeyChanged(presented, []ssh.PublicKey{old}, instance).message

	for _, want := range []string{
		ssh.FingerprintSHA256(old), ssh.FingerprintSHA256(presented), "recorded in status.hostKeys", "verify",
		`kubectl patch windowsinstances.windows.openshift.io win-1 -n windows-hosts --type=merge -p '{"spec":{"hostKeys":["` + keyLine(presented) + `"]}}'`,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is missing in %q", want, got)
		}
	}
	if !strings.HasSuffix(got, "'") {
		t.Errorf("something follows the command, so that it cannot be copied: %q", got)
	}
	instance.Spec.HostKeys = []string{keyLine(old)}
	if got := hostKeyChanged(presented, []ssh.PublicKey{old}, instance).message; !strings.Contains(got, "set in spec.hostKeys") {
		t.Errorf("got %q", got)
	}
}

// A host that keeps failing in the same way must not change its status each time.
func TestCauseIsTheSameEachTime(t *testing.T) {
	reset := func(localPort int) error {
		return &net.OpError{Op: "read", Net: "tcp",
			Source: &net.TCPAddr{IP: net.IPv4(10, 0, 0, 9), Port: localPort}, Addr: &net.TCPAddr{IP: net.IPv4(10, 1, 42, 1), Port: 22},
			Err: syscall.ECONNRESET}
	}
	first, second := cause(reset(40001)), cause(reset(51234))
	if first != second {
		t.Errorf("%q and %q differ", first, second)
	}
	if want := "read tcp 10.1.42.1:22: connection reset by peer"; first != want {
		t.Errorf("got %q, want %q", first, want)
	}
	if got := cause(errors.New("two\r\n lines.")); got != "two lines" {
		t.Errorf("got %q", got)
	}
	if got := cause(errors.New(strings.Repeat("ä", 2000))); len(got) > maxCause || !strings.HasSuffix(got, "ä…") {
		t.Errorf("got %d bytes ending in %q", len(got), got[len(got)-8:])
	}
}

func TestHung(t *testing.T) {
	for _, test := range []struct {
		name string
		err  error
		want bool
	}{
		{"no answer", &sshpool.Error{Layer: sshpool.LayerConnect, Reason: sshpool.ReasonConnectionTimedOut}, true},
		{"silent in the handshake", &sshpool.Error{Layer: sshpool.LayerHandshake, Reason: sshpool.ReasonHandshakeTimedOut}, true},
		{"silent in a session", &sshpool.Error{Layer: sshpool.LayerSession, Reason: sshpool.ReasonTimedOut}, true},
		{"deadline of the probe", context.DeadlineExceeded, true},
		{"refused", &sshpool.Error{Layer: sshpool.LayerConnect, Reason: sshpool.ReasonConnectionRefused}, false},
		{"DNS is silent", &sshpool.Error{Layer: sshpool.LayerDNS, Reason: sshpool.ReasonTimedOut}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := hung(stepLogin, test.err, newInstance("win-1", "10.1.42.1")); got != test.want {
				t.Errorf("got %t, want %t", got, test.want)
			}
		})
	}
}

func TestReasonsAreFitForConditions(t *testing.T) {
	for _, reason := range []sshpool.Reason{sshpool.ReasonConnectionRefused, sshpool.ReasonNotSSH, sshpool.ReasonCredentialsRefused} {
		f := classify(stepLogin, &sshpool.Error{Layer: sshpool.LayerConnect, Reason: reason}, newInstance("win-1", "10.1.42.1"))
		if f.status == metav1.ConditionTrue || f.reason == "" || f.message == "" {
			t.Errorf("%s: got %+v", reason, f)
		}
	}
	if !inconclusive(&sshpool.Error{Layer: sshpool.LayerConnect, Reason: sshpool.ReasonLimitReached}) || inconclusive(&hostaccess.CredentialsError{}) {
		t.Error("limits of ours tell nothing about a host, and a missing Secret does")
	}
}
