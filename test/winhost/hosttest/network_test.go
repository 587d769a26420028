// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package hosttest

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
	"github.com/openshift/windows-instance-api/test/winhost"
)

// requireNetwork skips the test where hosts cannot have networks of their own.
func requireNetwork(t *testing.T) {
	t.Helper()
	if err := winhost.NetworkAvailable(); err != nil {
		t.Skipf("hosts cannot have networks of their own here: %v", err)
	}
}

// TestWineNetwork: a host with a network of its own is reached at its address there, before
// and after it boots anew, and sees one adapter with a default route. Relays for it work from
// here, too. Nothing of it is left when it is closed.
func TestWineNetwork(t *testing.T) {
	requireNetwork(t)
	Require(t, winhost.TierWine)
	signer := NewKey(t)
	h, err := winhost.Start(t.Context(), winhost.Options{Tier: winhost.TierWine, Network: true, AuthorizedKeys: []ssh.PublicKey{signer.PublicKey()}})
	if err != nil {
		t.Fatal(err)
	}
	closed := false
	defer func() {
		if !closed {
			_ = h.Close()
		}
	}()
	link := "winhost-" + strconv.Itoa(int(binary.BigEndian.Uint16(net.ParseIP(h.Address()).To4()[2:])))
	if found := links(t); !slices.Contains(found, link) {
		t.Errorf("the host's link %s is not among %q", link, found)
	}
	program, _ := installAgent(t, h, signer)
	facts := func() *api.Interface {
		var f api.Facts
		if err := json.Unmarshal(output(t, h, signer, program+" facts", nil), &f); err != nil {
			t.Fatal(err)
		}
		for _, i := range f.Network.Interfaces {
			if !i.Loopback {
				return &i
			}
		}
		t.Fatalf("there is no adapter in %+v", f.Network.Interfaces)
		return nil
	}
	want := h.Address() + "/16"
	if i := facts(); !slices.Contains(i.Addresses, want) || !slices.Contains(i.Gateways, winhost.Gateway) {
		t.Errorf("the adapter is %+v, want %s by way of %s", i, want, winhost.Gateway)
	}
	if err := h.Reboot(); err != nil {
		t.Fatal(err)
	}
	if i := facts(); !slices.Contains(i.Addresses, want) {
		t.Errorf("after a boot, the adapter is %+v", i)
	}

	server, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	relay, err := winhost.NewRelay(server.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		for {
			c, err := server.Accept()
			if err != nil {
				return
			}
			_, _ = c.Write([]byte("from this machine"))
			_ = c.Close()
		}
	}()
	c, err := net.Dial("tcp4", relay.Address())
	if err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(c); err != nil || string(got) != "from this machine" {
		t.Errorf("through the relay comes %q, %v", got, err)
	}
	if err := errors.Join(c.Close(), relay.Close()); err != nil {
		t.Error(err)
	}
	if c, err := net.Dial("tcp4", relay.Address()); err == nil {
		_ = c.Close()
		t.Error("the relay is closed and takes connections")
	}

	address := net.JoinHostPort(h.Address(), strconv.Itoa(h.Port()))
	closed = true
	if err := h.Close(); err != nil {
		t.Error(err)
	}
	if c, err := net.Dial("tcp4", address); err == nil {
		_ = c.Close()
		t.Error("the host is closed and takes connections")
	}
	if left := links(t); slices.Contains(left, link) {
		t.Errorf("%s is left", link)
	}
}

// links are the interfaces of this machine that lead to hosts.
func links(t *testing.T) []string {
	t.Helper()
	all, err := net.Interfaces()
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, i := range all {
		if strings.HasPrefix(i.Name, "winhost-") {
			names = append(names, i.Name)
		}
	}
	return names
}

// TestNetworkOfOtherTiers: who asks for what a tier has not is told so.
func TestNetworkOfOtherTiers(t *testing.T) {
	for _, tier := range []string{winhost.TierInProcess, winhost.TierOpenSSH} {
		if _, err := winhost.Start(t.Context(), winhost.Options{Tier: tier, Network: true}); !errors.Is(err, winhost.ErrCannotExpress) {
			t.Errorf("%s: %v", tier, err)
		}
	}
}
