// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package hosttest

import (
	"context"
	"io"
	"runtime"
	"strconv"
	"testing"

	"golang.org/x/crypto/ssh"

	"github.com/openshift/windows-instance-api/test/winhost"
)

func TestFleet(t *testing.T) {
	const count, hang, refuse = 200, 3, 2
	before := runtime.NumGoroutine()
	f, err := winhost.NewFleet(t.Context(), winhost.FleetOptions{Count: count, BadHang: hang, BadRefuse: refuse})
	if err != nil {
		t.Fatal(err)
	}
	closed := false
	defer func() {
		if !closed {
			_ = f.Close()
		}
	}()
	if len(f.Hosts) != count || len(f.Healthy()) != count-hang-refuse || len(f.Bad()) != hang+refuse {
		t.Fatalf("%d hosts, %d healthy, %d bad", len(f.Hosts), len(f.Healthy()), len(f.Bad()))
	}
	if n := (runtime.NumGoroutine() - before); n > 2*count {
		t.Errorf("%d goroutines for %d idle hosts", n, count)
	}
	addresses, names := map[string]bool{}, map[string]bool{}
	for _, h := range f.Hosts {
		addresses[h.Address()], names[h.Name()] = true, true
	}
	if len(addresses) != count || len(names) != count {
		t.Errorf("%d addresses and %d names for %d hosts", len(addresses), len(names), count)
	}

	// Everybody's connection at a time, with the one key.
	before = runtime.NumGoroutine()
	var clients []*ssh.Client
	for _, h := range f.Healthy() {
		clients = append(clients, dial(t, h, f.Signer))
	}
	if n := (runtime.NumGoroutine() - before) / len(clients); n > 20 {
		t.Errorf("%d goroutines for an idle connection, client included", n)
	}
	if _, err := ssh.ParsePrivateKey(f.PrivateKey); err != nil {
		t.Error(err)
	}
	for i, h := range f.Bad() {
		want := outcome{atHandshake, "hang"}
		hangs := atHandshake
		if i >= hang {
			want, hangs = outcome{atConnect, "refused"}, ""
		}
		if got := try(t, h, f.Signer, "hostname", hangs); got != want {
			t.Errorf("bad host %d: got %+v, want %+v", i, got, want)
		}
	}
	closed = true
	if err := f.Close(); err != nil {
		t.Error(err)
	}
	for _, c := range clients {
		_ = c.Wait() // their hosts are gone
	}
}

func TestFleetOptions(t *testing.T) {
	for _, o := range []winhost.FleetOptions{{}, {Count: 1, BadHang: 1, BadRefuse: 1}, {Count: 1, Tier: "mainframe"}, {Count: 1, BadHang: -1}} {
		if f, err := winhost.NewFleet(t.Context(), o); err == nil {
			_ = f.Close()
			t.Errorf("%+v: no error", o)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := winhost.NewFleet(ctx, winhost.FleetOptions{Count: 3}); err == nil {
		t.Error("a fleet was started under a canceled context")
	}
}

func BenchmarkFleet(b *testing.B) {
	for _, count := range []int{100, 1000} {
		b.Run(strconv.Itoa(count), func(b *testing.B) {
			for b.Loop() {
				f, err := winhost.NewFleet(b.Context(), winhost.FleetOptions{Count: count})
				if err != nil {
					b.Fatal(err)
				}
				if err := f.Close(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkCommand is one command over a connection of its own.
func BenchmarkCommand(b *testing.B) {
	for _, tier := range winhost.Tiers() {
		b.Run(tier, func(b *testing.B) {
			signer := NewKey(b)
			h := Start(b, winhost.Options{Tier: tier, AuthorizedKeys: []ssh.PublicKey{signer.PublicKey()}})
			for b.Loop() {
				if err := (&client{host: h, signer: signer}).run(b.Context(), "hostname", nil, io.Discard); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
