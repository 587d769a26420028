// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package diagnose

import (
	"crypto/rand"
	"errors"
	"strings"
	"testing"
	"time"

	gossh "golang.org/x/crypto/ssh"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/host"
	"github.com/openshift/windows-instance-api/pkg/host/ssh"
	"github.com/openshift/windows-instance-api/test/hostsite"
	"github.com/openshift/windows-instance-api/test/winhost"
	"github.com/openshift/windows-instance-api/test/winhost/opensshd"
)

const atBastion = "192.0.2.10:22"

func onBastion(layer ssh.Layer, reason ssh.Reason, cause error) *ssh.Error {
	return &ssh.Error{Layer: ssh.LayerBastion, Reason: reason, Address: atBastion, Err: &ssh.Error{Layer: layer, Reason: reason, Address: atBastion, Err: cause}}
}

func atItself(reason ssh.Reason, cause error) *ssh.Error {
	return &ssh.Error{Layer: ssh.LayerBastion, Reason: reason, Address: atBastion, Err: cause}
}

// refusedUntil is a refused login that is remembered.
func refusedUntil(at time.Time) *ssh.Error {
	e := onBastion(ssh.LayerAuth, ssh.ReasonCredentialsRefused, errors.New("boom"))
	e.RetryAt = at
	return e
}

// TestRefusalsAreOneMessage: when a bastion is tried again is no cause for a write.
func TestRefusalsAreOneMessage(t *testing.T) {
	instance := &v1alpha1.WindowsInstance{}
	first, second := Diagnose(StageLogin, refusedUntil(time.Unix(1000, 0)), instance), Diagnose(StageLogin, refusedUntil(time.Unix(2000, 0)), instance)
	if first != second {
		t.Errorf("got %q, then %q", first.Message, second.Message)
	}
}

// TestDiagnoseBastion: what is wrong with a bastion says nothing about the host, and what to do about it and where.
func TestDiagnoseBastion(t *testing.T) {
	own := &v1alpha1.WindowsInstance{}
	own.Name, own.Namespace = "win-1", "team"
	own.Spec = v1alpha1.WindowsInstanceSpec{Address: "10.1.42.1", Port: 22, Bastion: &v1alpha1.Bastion{Address: "192.0.2.10"}, PoolRef: &v1alpha1.PoolReference{Name: "edge"}}
	pooled := own.DeepCopy()
	pooled.Spec.Bastion = nil
	presented, pinned := hostKeyOf(t, "presented"), hostKeyOf(t, "pinned")
	changed := &ssh.HostKeyError{Presented: presented, Pinned: []ssh.PublicKey{pinned}}
	boom := errors.New("boom")
	for _, tt := range []struct {
		name     string
		err      error
		instance *v1alpha1.WindowsInstance
		want     string // condition/reason
		says     []string
		// transient: it may be gone in a moment.
		transient bool
	}{
		{"no address", onBastion(ssh.LayerDNS, ssh.ReasonNameNotResolved, boom), own, "Reachable/BastionUnreachable", []string{"DNS knows no address for bastion " + atBastion, "in spec.bastion,"}, true},
		{"no address, of the pool", onBastion(ssh.LayerDNS, ssh.ReasonNameNotResolved, boom), pooled, "Reachable/BastionUnreachable", []string{"in spec.template.bastion of pool edge,"}, true},
		{"silent DNS", onBastion(ssh.LayerDNS, ssh.ReasonTimedOut, boom), own, "Reachable/BastionUnreachable", []string{"DNS does not answer"}, true},
		{"not allowed", onBastion(ssh.LayerConnect, ssh.ReasonAddressRefused, boom), own, "Reachable/BastionUnreachable", []string{"not allowed: boom", "--allowed-host-cidrs"}, false},
		{"closed port", onBastion(ssh.LayerConnect, ssh.ReasonConnectionRefused, boom), own, "Reachable/BastionUnreachable", []string{"Nothing listens on bastion " + atBastion}, true},
		{"no answer", onBastion(ssh.LayerConnect, ssh.ReasonConnectionTimedOut, boom), own, "Reachable/BastionUnreachable", []string{"does not answer", "firewall"}, true},
		{"no route", onBastion(ssh.LayerConnect, ssh.ReasonHostUnreachable, boom), own, "Reachable/BastionUnreachable", []string{"no route to bastion"}, true},
		{"no SSH", onBastion(ssh.LayerHandshake, ssh.ReasonNotSSH, boom), own, "Reachable/BastionUnreachable", []string{"SSH does not come as far as the login: boom"}, true},
		{"silent", onBastion(ssh.LayerAuth, ssh.ReasonTimedOut, boom), own, "Reachable/BastionUnreachable", []string{"did not answer in time"}, true},
		{"given up", atItself(ssh.ReasonTimedOut, boom), own, "Reachable/BastionUnreachable", []string{"did not answer in time"}, true},
		{"lost", atItself(ssh.ReasonConnectionLost, boom), own, "Reachable/BastionUnreachable", []string{"broke"}, true},
		{"another key", onBastion(ssh.LayerHostKey, ssh.ReasonHostKeyChanged, changed), own, "Reachable/BastionHostKeyChanged", []string{
			ssh.Fingerprint(presented), ssh.Fingerprint(pinned), "nothing was sent to it", "kubectl patch windowsinstances.windows.openshift.io win-1 -n team",
			`'{"spec":{"bastion":{"hostKeys":["` + host.KeyOf(presented).String() + `"]}}}'`,
		}, false},
		{"another key, of the pool", onBastion(ssh.LayerHostKey, ssh.ReasonHostKeyChanged, changed), pooled, "Reachable/BastionHostKeyChanged", []string{
			"kubectl patch windowsnodepools.windows.openshift.io edge -n team", `'{"spec":{"template":{"bastion":{"hostKeys":["`,
		}, false},
		{"a key of no type", onBastion(ssh.LayerHostKey, ssh.ReasonHostKeyChanged, &ssh.HostKeyError{Pinned: changed.Pinned}), own, "Reachable/BastionHostKeyChanged", []string{"no host key of a pinned type", "correct hostKeys in spec.bastion"}, false},
		{"credentials", onBastion(ssh.LayerAuth, ssh.ReasonCredentialsRefused, boom), own, "Reachable/BastionRefused", []string{"does not accept the credentials", "credentialsSecretRef in spec.bastion", "after at most 5 minutes, and at once when the Secret or spec.bastion changes", "kubectl windows check win-1 -n team"}, false},
		{"credentials, remembered", refusedUntil(time.Unix(1000, 0)), own, "Reachable/BastionRefused", []string{"does not accept the credentials", "after at most 5 minutes"}, true},
		{"an expired certificate", &ssh.Error{Layer: ssh.LayerBastion, Reason: ssh.ReasonCredentialsRefused, Address: atBastion, Err: boom, Remark: "The certificate has expired."}, own, "Reachable/BastionRefused", []string{"in spec.bastion. The certificate has expired."}, false},
		{"prohibited", atItself(ssh.ReasonForwardRefused, boom), own, "Reachable/BastionRefused", []string{"does not connect to 10.1.42.1:22: boom", "AllowTcpForwarding", "PermitOpen"}, false},
		{"no room", atItself(ssh.ReasonSessionRefused, boom), own, "Reachable/BastionRefused", []string{"no room for another connection"}, true},
		{"no Secret", &host.CredentialsError{Secret: "team/jump", Bastion: atBastion, Err: boom}, own, "Authenticated/CredentialsMissing", []string{"for bastion " + atBastion + ": Secret team/jump: boom.", "not contacted"}, false},

		{"host refuses", &ssh.Error{Layer: ssh.LayerConnect, Reason: ssh.ReasonConnectionRefused, From: atBastion, Err: boom}, own, "Reachable/ConnectionRefused", []string{"Nothing listens on 10.1.42.1:22, as bastion " + atBastion + " says", "service sshd"}, true},
		{"host does not answer", &ssh.Error{Layer: ssh.LayerConnect, Reason: ssh.ReasonConnectionTimedOut, From: atBastion, Err: boom}, own, "Reachable/ConnectionTimedOut", []string{"does not answer bastion", "on the way from the bastion"}, true},
		{"no route to the host", &ssh.Error{Layer: ssh.LayerConnect, Reason: ssh.ReasonHostUnreachable, From: atBastion, Err: boom}, own, "Reachable/HostUnreachable", []string{"Bastion " + atBastion + " cannot connect to 10.1.42.1:22: boom"}, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := Diagnose(StageLogin, tt.err, tt.instance)
			if got := d.Condition + "/" + d.Reason; got != tt.want || d.Status != "False" {
				t.Errorf("got %s=%s, want %s", got, d.Status, tt.want)
			}
			for _, says := range tt.says {
				if !strings.Contains(d.Message, says) {
					t.Errorf("%q does not say %q", d.Message, says)
				}
			}
			if got := IsTransient(tt.err); got != tt.transient {
				t.Errorf("transient: %t", got)
			}
			if !IsUnsent(tt.err) || ReachOf(tt.err).Contacted {
				t.Error("it is taken for something that the host said")
			}
		})
	}
}

// expired is the data of a Secret with a private key and a certificate of it that is not valid any more.
func expired(t *testing.T, private []byte) map[string][]byte {
	t.Helper()
	signer, err := gossh.ParsePrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	c := &gossh.Certificate{Key: signer.PublicKey(), CertType: gossh.UserCert, ValidBefore: 1}
	if err := c.SignCert(rand.Reader, signer); err != nil {
		t.Fatal(err)
	}
	return map[string][]byte{"private-key.pem": private, "private-key.pem-cert.pub": gossh.MarshalAuthorizedKey(c)}
}

// TestCheckThroughBastion: a bastion is a layer before that of the port.
func TestCheckThroughBastion(t *testing.T) {
	private, signer, err := winhost.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	strange, _, err := winhost.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	const expiredCertificate = "The certificate private-key.pem-cert.pub of Secret default/jump expired at 1970-01-01T00:00:01Z"
	for _, tt := range []struct {
		name   string
		config []string
		change func(*site)
		want   string
		says   string
	}{
		{name: "works", want: "everything", says: ", user "},
		{name: "does not forward", config: []string{"AllowTcpForwarding no"}, want: "Bastion BastionRefused", says: "AllowTcpForwarding"},
		{name: "another key", change: func(s *site) { s.Instance.Spec.Bastion.HostKeys = []string{hostsite.Line(hostKeyOf(t, "other"))} }, want: "Bastion BastionHostKeyChanged", says: "kubectl patch"},
		{name: "a certificate that has expired, and the key is refused", change: func(s *site) { s.Secrets["default/jump"] = expired(t, strange) }, want: "Bastion BastionRefused", says: expiredCertificate},
		{name: "a certificate that has expired, and the key is accepted", change: func(s *site) { s.Secrets["default/jump"] = expired(t, private) }, want: "everything", says: expiredCertificate},
		{name: "no Secret", change: func(s *site) { delete(s.Secrets, "default/jump") }, want: "Bastion CredentialsMissing", says: "default/jump"},
		{name: "no name of the host", change: func(s *site) { s.Instance.Spec.Address = "nowhere.invalid" }, want: "Resolve NameNotResolved", says: ""},
		{name: "closed port of the host", change: func(s *site) { s.SetFault(t, winhost.Fault{RefuseTCP: true}) }, want: "Connect ConnectionRefused"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			server := opensshd.Start(t, opensshd.Options{Config: tt.config, AuthorizedKeys: []ssh.PublicKey{signer.PublicKey()}})
			s := newSite(t, winhost.InProcessOptions{})
			if _, err := s.client.Facts(t.Context(), s.Instance); err != nil {
				t.Fatal(err)
			}
			s.Secrets["default/jump"] = map[string][]byte{"private-key.pem": private}
			s.Instance.Spec.Bastion = &v1alpha1.Bastion{
				Address: server.Host, Port: int32(server.Port), Username: server.User,
				HostKeys: []string{hostsite.Line(server.HostKey())}, CredentialsSecretRef: v1alpha1.SecretReference{Name: "jump"},
			}
			s.connect(t)
			if tt.change != nil {
				tt.change(s)
			}
			status := s.checker.Check(t.Context(), s.Instance)
			if got := resultsOf(t, status, checkLayers); got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
			if got := layer(status, CheckBastion).Message; !strings.Contains(got, tt.says) {
				t.Errorf("the layer says %q, want %q in it", got, tt.says)
			}
		})
	}
}
