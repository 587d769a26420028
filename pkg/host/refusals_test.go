// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package host

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/backoff"
	"github.com/openshift/windows-instance-api/pkg/host/ssh"
	"github.com/openshift/windows-instance-api/test/hostsite"
	"github.com/openshift/windows-instance-api/test/winhost"
	"github.com/openshift/windows-instance-api/test/winhost/opensshd"
)

// TestBastionBackoff: the failed logins of a process stay below what has fail2ban ban an address, which is five in ten minutes.
func TestBastionBackoff(t *testing.T) {
	var logins []time.Duration // since the first one
	for at, refusals := time.Duration(0), 1; refusals < 20; refusals++ {
		logins = append(logins, at)
		at += backoff.After(bastionBackoff, refusals)
	}
	for i := range len(logins) - 4 {
		if took := logins[i+4] - logins[i]; took <= 10*time.Minute {
			t.Errorf("five within %s, from the one after %s on", took, logins[i])
		}
	}
}

// TestBastionRefusesAPool: the hosts of a pool try its bastion once while it refuses the Secret, and use it as soon as that is corrected. Those of another
// namespace, with a Secret of their own, use it all the time.
func TestBastionRefusesAPool(t *testing.T) {
	s := newSite(t, winhost.InProcessOptions{})
	wrong, _, err := winhost.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	right, signer, err := winhost.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	server := opensshd.Start(t, opensshd.Options{AuthorizedKeys: []ssh.PublicKey{signer.PublicKey()}})
	bastion := &v1alpha1.Bastion{
		Address: server.Host, Port: int32(server.Port), Username: server.User,
		HostKeys: []string{hostsite.Line(server.HostKey())}, CredentialsSecretRef: v1alpha1.SecretReference{Name: "jump"},
	}
	secrets := maps.Clone(s.Secrets)
	secrets["default/jump"] = map[string][]byte{"private-key.pem": wrong}
	secrets["other/jump"] = map[string][]byte{"private-key.pem": right}
	pool := ssh.New(ssh.Options{Refusals: NewRefusals(func() time.Time { return time.Unix(0, 0) })})
	defer pool.Close()
	connector := New(Options{Pool: pool, ReadSecret: secrets.Read, ReadPool: poolWith(bastion), ClusterCredentials: hostsite.ClusterCredentials})
	login := func(namespace string, host int) error {
		instance := s.Instance.DeepCopy()
		instance.Namespace, instance.Name = namespace, fmt.Sprintf("win-%d", host)
		instance.Spec.PoolRef = &v1alpha1.PoolReference{Name: "edge"}
		_, err := connector.Login(t.Context(), instance)
		return err
	}
	connections := func() int { return strings.Count(server.Log(), "Connection from ") }
	for host := range 20 {
		failed, ok := ssh.AsError(login("default", host))
		if !ok || failed.Layer != ssh.LayerBastion || failed.Reason != ssh.ReasonCredentialsRefused || !failed.RetryAt.Equal(time.Unix(60, 0)) {
			t.Fatalf("host %d got %v", host, failed)
		}
	}
	if err := login("other", 0); err != nil {
		t.Errorf("in another namespace: %v", err)
	}
	if n := connections(); n != 2 {
		t.Errorf("%d logins, want one of each namespace", n)
	}
	secrets["default/jump"] = map[string][]byte{"private-key.pem": right}
	for host := range 3 {
		if err := login("default", host); err != nil {
			t.Errorf("after the Secret was corrected: %v", err)
		}
	}
}
