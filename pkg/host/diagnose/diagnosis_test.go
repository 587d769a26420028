// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package diagnose

import (
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"errors"
	"fmt"
	"net"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/crypto/ssh"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/host"
	"github.com/openshift/windows-instance-api/pkg/host/agentclient"
	hostssh "github.com/openshift/windows-instance-api/pkg/host/ssh"
	"github.com/openshift/windows-instance-api/pkg/host/transfer"
)

// silent is a deadline that passed, with more to say.
type silent string

func (s silent) Error() string { return string(s) }

func (silent) Unwrap() error { return context.DeadlineExceeded }

// hostKeyOf derives a host key from a name.
func hostKeyOf(t *testing.T, name string) ssh.PublicKey {
	t.Helper()
	seed := sha256.Sum256([]byte(name))
	key, err := ssh.NewPublicKey(ed25519.NewKeyFromSeed(seed[:]).Public())
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// diagnosed is an instance that something is wrong with.
func diagnosed() *v1alpha1.WindowsInstance {
	return &v1alpha1.WindowsInstance{
		ObjectMeta: metav1.ObjectMeta{Namespace: "windows-hosts", Name: "win-1"},
		Spec:       v1alpha1.WindowsInstanceSpec{Address: "10.1.42.1", Port: 22, Username: "Administrator"},
	}
}

func TestDiagnose(t *testing.T) {
	sshErr := func(layer hostssh.Layer, reason hostssh.Reason) error {
		return &hostssh.Error{Layer: layer, Reason: reason, Address: "10.1.42.1:22", Err: errors.New("cause of the library.")}
	}
	changed := &hostssh.Error{Layer: hostssh.LayerHostKey, Reason: hostssh.ReasonHostKeyChanged,
		Err: &hostssh.HostKeyError{Presented: hostKeyOf(t, "new"), Pinned: []ssh.PublicKey{hostKeyOf(t, "old")}}}
	penalized := &hostssh.Error{Layer: hostssh.LayerHandshake, Reason: hostssh.ReasonConnectionReset, Address: "10.1.42.1:22", Err: &hostssh.GreetingError{Said: hostssh.Penalized}}
	otherType := &hostssh.Error{Layer: hostssh.LayerHostKey, Reason: hostssh.ReasonHostKeyChanged,
		Err: &hostssh.HostKeyError{Pinned: []ssh.PublicKey{hostKeyOf(t, "old")}}}

	for _, test := range []struct {
		name string
		at   Stage
		err  error
		want string // condition=status/reason
		says string // part of the message
	}{
		{"unknown name", StageResolve, sshErr(hostssh.LayerDNS, hostssh.ReasonNameNotResolved), "Resolved=False/NameNotResolved", "DNS knows no address for 10.1.42.1"},
		{"refused address", StageResolve, sshErr(hostssh.LayerDNS, hostssh.ReasonAddressRefused), "Resolved=False/AddressRefused", "--allowed-host-cidrs"},
		{"refused address at dial time", StageLogin, sshErr(hostssh.LayerConnect, hostssh.ReasonAddressRefused), "Resolved=False/AddressRefused", "cause of the library"},
		{"DNS is silent", StageResolve, sshErr(hostssh.LayerDNS, hostssh.ReasonTimedOut), "Resolved=False/NameNotResolved", "DNS does not answer"},
		{"nothing listens", StageHostKey, sshErr(hostssh.LayerConnect, hostssh.ReasonConnectionRefused), "Reachable=False/ConnectionRefused", "Nothing listens on 10.1.42.1:22: install and start the OpenSSH server (service sshd), and open TCP port 22"},
		{"no answer", StageHostKey, sshErr(hostssh.LayerConnect, hostssh.ReasonConnectionTimedOut), "Reachable=False/ConnectionTimedOut", "firewall"},
		{"no answer by the deadline of the caller", StageLogin, sshErr(hostssh.LayerConnect, hostssh.ReasonTimedOut), "Reachable=False/ConnectionTimedOut", "firewall"},
		{"no route", StageHostKey, sshErr(hostssh.LayerConnect, hostssh.ReasonHostUnreachable), "Reachable=False/HostUnreachable", "no route"},
		{"reset", StageHostKey, sshErr(hostssh.LayerHandshake, hostssh.ReasonConnectionReset), "Reachable=False/ConnectionReset", "closes the connection"},
		{"penalty", StageHostKey, penalized, "Reachable=False/ConnectionReset", "PerSourcePenalties"},
		{"reset at login", StageLogin, sshErr(hostssh.LayerAuth, hostssh.ReasonConnectionReset), "Authenticated=False/ConnectionLost", "tried again"},
		{"silent after accept", StageHostKey, sshErr(hostssh.LayerHandshake, hostssh.ReasonHandshakeTimedOut), "Reachable=False/HandshakeTimedOut", "restart the service sshd"},
		{"handshake over the deadline of the caller", StageHostKey, sshErr(hostssh.LayerHandshake, hostssh.ReasonTimedOut), "Reachable=False/HandshakeTimedOut", "handshake"},
		{"an HTTP server", StageHostKey, sshErr(hostssh.LayerHandshake, hostssh.ReasonNotSSH), "Reachable=False/NotSSH", "spec.port"},
		{"no common algorithm", StageHostKey, sshErr(hostssh.LayerHandshake, hostssh.ReasonHandshakeFailed), "Reachable=False/HandshakeFailed", "cause of the library. Update OpenSSH"},
		{"another host key", StageLogin, changed, "HostKeyTrusted=False/HostKeyChanged", "kubectl patch"},
		{"no host key of a trusted type", StageLogin, otherType, "HostKeyTrusted=False/HostKeyChanged", "no host key of a trusted type"},
		{"no key was recorded", StageLogin, sshErr(hostssh.LayerHostKey, hostssh.ReasonHostKeyUnknown), "HostKeyTrusted=Unknown/NotTried", "not been recorded"},
		{"an expired certificate", StageLogin, &hostssh.Error{Layer: hostssh.LayerAuth, Reason: hostssh.ReasonCredentialsRefused, Remark: "The certificate has expired."}, "Authenticated=False/CredentialsRefused", "the Secret as well. The certificate has expired."},
		{"Secret is missing", StageLogin, &host.CredentialsError{Secret: "openshift/cloud-private-key", Err: errors.New("not found")}, "Authenticated=False/CredentialsMissing", "Secret openshift/cloud-private-key: not found"},
		{"Secret could not be read", StageLogin, &host.CredentialsError{Secret: "openshift/cloud-private-key", Unread: true, Err: errors.New("connection refused")}, "Authenticated=Unknown/NotTried", "The host was not logged in to: Secret openshift/cloud-private-key could not be read: connection refused. It is tried again"},
		{"Secret of the bastion could not be read", StageHostKey, &host.CredentialsError{Secret: "team/jump", Bastion: "10.9.9.1:22", Unread: true, Err: errors.New("connection refused")}, "Authenticated=Unknown/NotTried", "bastion 10.9.9.1:22: Secret team/jump could not be read: connection refused."},
		{"credentials refused", StageLogin, sshErr(hostssh.LayerAuth, hostssh.ReasonCredentialsRefused), "Authenticated=False/CredentialsRefused", "administrators_authorized_keys"},
		{"silent while logging in", StageLogin, sshErr(hostssh.LayerAuth, hostssh.ReasonTimedOut), "Authenticated=False/AuthenticationTimedOut", "did not answer while"},
		{"no session", StageLogin, sshErr(hostssh.LayerSession, hostssh.ReasonSessionRefused), "Authenticated=False/SessionRefused", "MaxSessions"},
		{"connection lost", StageFacts, sshErr(hostssh.LayerSession, hostssh.ReasonConnectionLost), "Authenticated=False/ConnectionLost", "restarting"},
		{"agent cannot be put there", StageFacts, &agentclient.Error{Step: agentclient.StepUpload, Err: errors.New("disk full")}, "PreflightPassed=Unknown/AgentNotInstalled", "disk full"},
		{"agent is another one there", StageFacts, &agentclient.Error{Step: agentclient.StepVerify, Err: errors.New("other digest")}, "PreflightPassed=Unknown/AgentNotInstalled", "other digest"},
		{"agent fails", StageFacts, &agentclient.Error{Step: agentclient.StepRun, Err: &hostssh.ExitError{Code: 1, Stderr: "boom"}}, "PreflightPassed=Unknown/AgentFailed", "boom"},
		{"the host is gone when the agent is to be put there", StageFacts, &agentclient.Error{Step: agentclient.StepUpload, Err: sshErr(hostssh.LayerConnect, hostssh.ReasonConnectionRefused)}, "Reachable=False/ConnectionRefused", "Nothing listens"},
		{"the host key changed when the agent is to be run", StageFacts, &agentclient.Error{Step: agentclient.StepRun, Err: changed}, "HostKeyTrusted=False/HostKeyChanged", "kubectl patch"},
		{"agent is silent", StageFacts, sshErr(hostssh.LayerSession, hostssh.ReasonTimedOut), "PreflightPassed=Unknown/AgentFailed", "did not answer in time"},
		{"the probe took too long", StageFacts, fmt.Errorf("facts: %w", context.DeadlineExceeded), "PreflightPassed=Unknown/AgentFailed", "did not answer in time"},
		{"a reason of the future", StageHostKey, sshErr(hostssh.LayerHandshake, "Surprise"), "Reachable=False/HandshakeFailed", "Surprise"},
		{"a session error of the future", StageFacts, sshErr(hostssh.LayerShell, "Surprise"), "PreflightPassed=Unknown/AgentFailed", "Surprise"},
		{"no payload", StageTransfer, &agentclient.PayloadError{Name: "kubelet.exe", Err: errors.New("which the payload of this process does not have")}, "Configured=False/ConfigurationFailed", "the host needs kubelet.exe, which the payload of this process does not have. Hosts are configured with what the flag --payload"},
		{"no room", StageTransfer, &transfer.Error{Name: "kubelet.exe", Err: fmt.Errorf("%w: C: has 1 MiB free", transfer.ErrDiskFull)}, "Configured=False/ConfigurationFailed", "Free space on its drive C"},
		{"other content on the host", StageTransfer, &transfer.Error{Name: "kubelet.exe", Err: transfer.ErrDigest}, "Configured=False/ConfigurationFailed", "cannot be trusted"},
		{"file in use", StageTransfer, &transfer.Error{Name: "kubelet.exe", Err: transfer.ErrInUse}, "Configured=False/ConfigurationFailed", "a program has it open"},
		{"payload that changes", StageTransfer, &transfer.Error{Name: "kubelet.exe", Err: transfer.ErrSourceChanged}, "Configured=False/ConfigurationFailed", "restart the controller"},
		{"host that does not let files be written", StageTransfer, &transfer.Error{Name: "kubelet.exe", Err: transfer.ErrWrite}, "Configured=False/ConfigurationFailed", `User Administrator needs to be able to write to C:\Windows\windows-node-agent`},
		{"connection lost while sending", StageTransfer, &transfer.Error{Name: "kubelet.exe", Err: sshErr(hostssh.LayerSession, hostssh.ReasonConnectionLost)}, "Authenticated=False/ConnectionLost", "restarting"},
		{"agent that cannot compare", StagePlan, &agentclient.Error{Step: agentclient.StepRun, Err: errors.New("boom.")}, "Configured=False/ConfigurationFailed", "failed on the host: boom."},
		{"agent that says nothing new", StageApply, &agentclient.Error{Step: agentclient.StepRun, Err: silent("it reported nothing new for 10m0s")}, "Configured=False/ConfigurationFailed", "reported nothing new for 10m"},
		{"agent that cannot be put there", StageApply, &agentclient.Error{Step: agentclient.StepUpload, Err: errors.New("access is denied")}, "PreflightPassed=Unknown/AgentNotInstalled", "could not be put on the host"},
		{"silent while it is configured", StageApply, sshErr(hostssh.LayerSession, hostssh.ReasonTimedOut), "Configured=False/ConfigurationFailed", "did not answer in time"},
		{"anything while it is configured", StageApply, errors.New("boom"), "Configured=False/ConfigurationFailed", "The host cannot be configured: boom."},
		{"anything while it is cleaned", StageCleanup, errors.New("boom"), "Removed=False/RemovalFailed", "The host cannot be cleaned: boom."},
		{"agent that cannot clean", StageCleanup, &agentclient.Error{Step: agentclient.StepRun, Err: errors.New("boom")}, "Removed=False/RemovalFailed", "boom"},
		{"agent that cannot be removed", StageCleanup, &agentclient.Error{Step: agentclient.StepRemove, Err: errors.New("it runs")}, "Removed=False/RemovalFailed", "cleaned, but for the program windows-node-agent: it runs."},
		{"gone while it is cleaned", StageCleanup, sshErr(hostssh.LayerConnect, hostssh.ReasonConnectionTimedOut), "Reachable=False/ConnectionTimedOut", "firewall"},
		{"an error of no known kind", StageLogin, errors.New("reading pool p: boom"), "Authenticated=False/CredentialsMissing", "reading pool p: boom"},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := Diagnose(test.at, test.err, diagnosed())
			if text := fmt.Sprintf("%s=%s/%s", got.Condition, got.Status, got.Reason); text != test.want {
				t.Errorf("got %s, want %s", text, test.want)
			}
			if !strings.Contains(got.Message, test.says) {
				t.Errorf("message %q does not say %q", got.Message, test.says)
			}
			if strings.Contains(got.Message, "%!") || strings.Contains(got.Message, "..") {
				t.Errorf("bad message %q", got.Message)
			}
		})
	}
}

func TestHostKeyChangedSaysWhatToDo(t *testing.T) {
	instance := diagnosed()
	old, presented := hostKeyOf(t, "old"), hostKeyOf(t, "new")

	got := HostKeyChanged(host.KeyOf(presented), []host.Key{host.KeyOf(old)}, instance).Message

	for _, want := range []string{
		ssh.FingerprintSHA256(old), ssh.FingerprintSHA256(presented), "recorded in status.hostKeys", "verify",
		`kubectl patch windowsinstances.windows.openshift.io win-1 -n windows-hosts --type=merge -p '{"spec":{"hostKeys":["` + host.KeyOf(presented).String() + `"]}}'`,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is missing in %q", want, got)
		}
	}
	if !strings.HasSuffix(got, "'") {
		t.Errorf("something follows the command, so that it cannot be copied: %q", got)
	}
	instance.Spec.HostKeys = []string{host.KeyOf(old).String()}
	if got := HostKeyChanged(host.KeyOf(presented), []host.Key{host.KeyOf(old)}, instance).Message; !strings.Contains(got, "set in spec.hostKeys") {
		t.Errorf("got %q", got)
	}
}

func TestHostKeyUnlikeWMCOSaysWhatToDo(t *testing.T) {
	presented := host.KeyOf(hostKeyOf(t, "new"))

	got := HostKeyUnlikeWMCO(presented, "ssh-ed25519 SHA256:old (annotation a of Node n)", diagnosed())

	if got.Condition != v1alpha1.ConditionHostKeyTrusted || got.Status != metav1.ConditionFalse || got.Reason != v1alpha1.ReasonHostKeyChanged {
		t.Errorf("got %+v", got)
	}
	for _, want := range []string{
		"10.1.42.1:22 presents host key " + presented.Describe(), "met the host at this address with ssh-ed25519 SHA256:old (annotation a of Node n).", "nothing was done on it", "verify",
		"kubectl windows trust-host-key win-1 -n windows-hosts, or",
	} {
		if !strings.Contains(got.Message, want) {
			t.Errorf("%q is missing in %q", want, got.Message)
		}
	}
	// kubectl windows trust-host-key takes the key from there.
	if !strings.HasSuffix(got.Message, `"hostKeys":["`+presented.String()+`"]}}'`) {
		t.Errorf("it does not end with the command: %q", got.Message)
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
