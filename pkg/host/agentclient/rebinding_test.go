// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package agentclient

import (
	"context"
	"errors"
	"net/netip"
	"sync"
	"testing"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
	"github.com/openshift/windows-instance-api/pkg/host"
	"github.com/openshift/windows-instance-api/pkg/host/ssh"
	"github.com/openshift/windows-instance-api/test/winhost"
)

// rebinder resolves every name to an address that it is told.
type rebinder struct {
	mu      sync.Mutex
	address netip.Addr
}

func (r *rebinder) LookupNetIP(context.Context, string, string) ([]netip.Addr, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return []netip.Addr{r.address}, nil
}

func (r *rebinder) set(address netip.Addr) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.address = address
}

// TestRebinding has a name that stands for a host at first, and for an address at which
// none may be later: the rule on addresses holds for each connection, at the moment of
// the connection, whatever it is for.
func TestRebinding(t *testing.T) {
	s := newSite(t, winhost.InProcessOptions{})
	address := netip.MustParseAddr(s.Host.Address())
	names := &rebinder{address: address}
	// The host stands on loopback. It alone is opened on purpose.
	s.Pool = ssh.New(ssh.Options{Resolver: names, AllowAddress: host.AddressRules{Allowed: []netip.Prefix{netip.PrefixFrom(address, address.BitLen())}, Refused: []netip.Prefix{netip.MustParsePrefix("172.30.0.0/16")}}.Policy(nil, nil)})
	t.Cleanup(func() {
		if err := s.Pool.Close(); err != nil {
			t.Error(err)
		}
	})
	client := s.newClient(t)
	connector := s.connector
	instance := s.Instance.DeepCopy()
	instance.Spec.Address = "host.example.com"

	uses := map[string]func(context.Context) error{
		"login":    func(ctx context.Context) error { _, err := connector.Login(ctx, instance); return err },
		"host key": func(ctx context.Context) error { _, err := connector.HostKey(ctx, instance); return err },
		"facts":    func(ctx context.Context) error { _, err := client.Facts(ctx, instance); return err },
		"boot ID":  func(ctx context.Context) error { _, err := client.BootID(ctx, instance); return err },
		"log": func(ctx context.Context) error {
			stream, err := client.Logs(ctx, instance, api.LogRequest{})
			if err != nil {
				return err
			}
			return stream.Close()
		},
		"exec": func(ctx context.Context) error {
			session, err := connector.Exec(ctx, instance, []string{"hostname"}, nil)
			if err != nil {
				return err
			}
			return session.Close()
		},
		"port forward": func(ctx context.Context) error {
			conn, err := connector.Dial(ctx, instance, s.Host.Port())
			if err != nil {
				return err
			}
			return conn.Close()
		},
	}
	for name, use := range uses {
		t.Run(name, func(t *testing.T) {
			names.set(address)
			if err := use(t.Context()); isRefused(err) {
				t.Fatalf("the address of the host: %v", err)
			}
			for _, other := range []string{
				"127.0.0.1", "169.254.169.254", "::1", "fe80::1", "fe80::1%lo", "0.0.0.0", "::", "224.0.0.1", "::ffff:127.0.0.1", "::ffff:169.254.169.254",
				"64:ff9b::127.0.0.1", "2002:7f00:1::1", "172.30.0.1",
			} {
				client.Forget(instance) // as after a lost connection
				names.set(netip.MustParseAddr(other))
				if err := use(t.Context()); !isRefused(err) {
					t.Errorf("%s: got %v, want it refused", other, err)
				}
			}
		})
	}
}

func isRefused(err error) bool {
	var refused *ssh.Error
	return errors.As(err, &refused) && refused.Reason == ssh.ReasonAddressRefused
}
