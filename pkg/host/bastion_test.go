// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package host

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/host/ssh"
	"github.com/openshift/windows-instance-api/test/hostsite"
	"github.com/openshift/windows-instance-api/test/winhost"
	"github.com/openshift/windows-instance-api/test/winhost/hosttest"
	"github.com/openshift/windows-instance-api/test/winhost/opensshd"
)

// bastionOf starts a bastion for the hosts of a site. Its credentials are in Secret default/jump.
func bastionOf(t *testing.T, s *site) *v1alpha1.Bastion {
	t.Helper()
	private, signer, err := winhost.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	server := opensshd.Start(t, opensshd.Options{AuthorizedKeys: []ssh.PublicKey{signer.PublicKey()}})
	s.Secrets["default/jump"] = map[string][]byte{"private-key.pem": private}
	return &v1alpha1.Bastion{
		Address: server.Host, Port: int32(server.Port), Username: server.User,
		HostKeys: []string{hostsite.Line(server.HostKey())}, CredentialsSecretRef: v1alpha1.SecretReference{Name: "jump"},
	}
}

// poolWith are pools of which each has the bastion.
func poolWith(b *v1alpha1.Bastion) func(context.Context, string, string) (*v1alpha1.WindowsNodePool, error) {
	return func(context.Context, string, string) (*v1alpha1.WindowsNodePool, error) {
		return &v1alpha1.WindowsNodePool{Spec: v1alpha1.WindowsNodePoolSpec{Template: v1alpha1.PoolTemplate{Bastion: b}}}, nil
	}
}

// TestLoginThroughBastion: whatever connects to a host does so through its bastion, its own before that of its pool.
func TestLoginThroughBastion(t *testing.T) {
	s := newSite(t, winhost.InProcessOptions{})
	bastion := bastionOf(t, s)
	wrong := bastion.DeepCopy()
	wrong.HostKeys = []string{hostsite.Line(hosttest.NewKey(t).PublicKey())}
	for _, tt := range []struct {
		name       string
		own, pools *v1alpha1.Bastion
		want       ssh.Reason // empty: through the bastion
	}{
		{"its own", bastion, nil, ""},
		{"that of the pool", nil, bastion, ""},
		{"its own before that of the pool", bastion, wrong, ""},
		{"its own, which is wrong, before that of the pool", wrong, bastion, ssh.ReasonHostKeyChanged},
	} {
		t.Run(tt.name, func(t *testing.T) {
			instance := s.Instance.DeepCopy()
			instance.Spec.Bastion, instance.Spec.PoolRef = tt.own, &v1alpha1.PoolReference{Name: "p"}
			connector := s.newConnector()
			connector.options.ReadPool = poolWith(tt.pools)
			defer connector.Forget(instance)
			peer, err := connector.Login(t.Context(), instance)
			if tt.want != "" {
				failed, ok := ssh.AsError(err)
				if !ok || failed.Layer != ssh.LayerBastion || failed.Reason != tt.want {
					t.Fatalf("got %v, want %s", err, tt.want)
				}
				return
			}
			if err != nil || peer.Bastion != bastion.Endpoint() || peer.Address.String() != s.Host.Address() || peer.Key != KeyOf(s.Host.HostKey()) {
				t.Fatalf("%+v, %v", peer, err)
			}
			if key, err := connector.HostKey(t.Context(), instance); err != nil || key != KeyOf(s.Host.HostKey()) {
				t.Errorf("its key: %v, %v", key, err)
			}
			rotation, err := connector.Rotation(t.Context(), instance, peer)
			if err != nil || rotation.Login.Bastion == nil || rotation.Proof.Bastion == nil {
				t.Errorf("a key would be replaced directly: %+v, %v", rotation, err)
			}
		})
	}
	peer, err := s.connector.Login(t.Context(), s.Instance)
	if err != nil || peer.Bastion != "" {
		t.Errorf("without one: %+v, %v", peer, err)
	}
}

// TestBastionIsMissing: a host with a bastion is never connected to without it.
func TestBastionIsMissing(t *testing.T) {
	s := newSite(t, winhost.InProcessOptions{})
	bastion := bastionOf(t, s)
	noKey := bastion.DeepCopy()
	noKey.HostKeys = []string{"nonsense"}
	for _, tt := range []struct {
		name    string
		bastion *v1alpha1.Bastion
		drop    string // Secret
		pool    error
		want    string
		of      string // bastion of the error
	}{
		{"no Secret", bastion, "default/jump", nil, "bastion " + bastion.Endpoint() + ": Secret default/jump: not found", bastion.Endpoint()},
		{"keys that cannot be read", noKey, "", nil, `"nonsense" cannot be read`, ""},
		{"pool that cannot be read", nil, "", errors.New("storage is down"), "Secret of pool default/p: reading the pool: storage is down", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			secrets := maps.Clone(s.Secrets)
			delete(secrets, tt.drop)
			connector := s.newConnector()
			connector.options.ReadSecret = secrets.Read
			connector.options.ReadPool = func(context.Context, string, string) (*v1alpha1.WindowsNodePool, error) { return nil, tt.pool }
			instance := s.Instance.DeepCopy()
			instance.Spec.Bastion, instance.Spec.PoolRef = tt.bastion, &v1alpha1.PoolReference{Name: "p"}
			instance.Spec.CredentialsSecretRef = &v1alpha1.SecretReference{Name: "own"}
			secrets["default/own"] = s.Secrets["operator/cloud-private-key"]
			before := s.Host.Connections()
			_, err := connector.Login(t.Context(), instance)
			_, keyErr := connector.HostKey(t.Context(), instance)
			trace := connector.Trace(t.Context(), instance)
			defer trace.Close()
			for _, err := range []error{err, keyErr, trace.BastionErr} {
				if err == nil || !strings.Contains(err.Error(), tt.want) {
					t.Errorf("got %v, want %q", err, tt.want)
				}
				var credentials *CredentialsError
				if errors.As(err, &credentials) != (tt.name != "keys that cannot be read") || credentials != nil && credentials.Bastion != tt.of {
					t.Errorf("got %+v", credentials)
				}
			}
			if layers := fmt.Sprintf("%d %s", len(trace.Steps), trace.Steps[0].Layer); layers != "1 DNS" || s.Host.Connections() != before {
				t.Errorf("the trace came to %s, and the host has %d connections", layers, s.Host.Connections())
			}
		})
	}
}
