// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package faultnet

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"syscall"
	"testing"
	"time"

	"github.com/openshift/windows-instance-api/test/winhost/fault"
)

// newEcho is a front of a server that sends back what it gets.
func newEcho(t *testing.T) *Front {
	t.Helper()
	f, err := New(nil, "127.0.0.1", 0, func(_ context.Context, c net.Conn) { _, _ = io.Copy(c, c) })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	})
	return f
}

func dial(t *testing.T, f *Front) (net.Conn, error) {
	t.Helper()
	var d net.Dialer
	c, err := d.DialContext(t.Context(), "tcp", f.Addr().String())
	if err == nil {
		t.Cleanup(func() { _ = c.Close() })
	}
	return c, err
}

// TestPowerWhileAProcessIsForked holds the socket as a process does that is forked while the front is switched off.
func TestPowerWhileAProcessIsForked(t *testing.T) {
	f := newEcho(t)
	if err := f.Up(); err != nil {
		t.Fatal(err)
	}
	copied, err := f.listener.File()
	if err != nil {
		t.Fatal(err)
	}
	defer copied.Close()
	f.Down()
	if _, err := dial(t, f); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("switched off: got %v, want connection refused", err)
	}
	if err := f.Up(); err != nil {
		t.Fatal(err)
	}
	if _, err := dial(t, f); err != nil {
		t.Error(err)
	}
}

func TestPower(t *testing.T) {
	f := newEcho(t)
	refused := func(when string) {
		t.Helper()
		if _, err := dial(t, f); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("%s: got %v, want connection refused", when, err)
		}
	}
	refused("before it is switched on")
	for range 3 {
		if err := f.Up(); err != nil {
			t.Fatal(err)
		}
		c, err := dial(t, f)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Write([]byte("x")); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(c, make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
		if n := f.Connections(); n != 1 {
			t.Errorf("%d connections, want 1", n)
		}
		f.Down()
		if n := f.Connections(); n != 0 {
			t.Errorf("%d connections without power", n)
		}
		if _, err := c.Read(make([]byte, 1)); err == nil {
			t.Error("the connection outlived the power")
		}
		refused("after it is switched off")
	}
}

// TestRefuse: the port can be closed and opened, on and off, and power does not open it.
func TestRefuse(t *testing.T) {
	f := newEcho(t)
	if err := f.SetFault(fault.Fault{RefuseTCP: true}); err != nil {
		t.Fatal(err)
	}
	if err := f.Up(); err != nil {
		t.Fatal(err)
	}
	if _, err := dial(t, f); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("got %v, want connection refused", err)
	}
	if err := f.SetFault(fault.Fault{}); err != nil {
		t.Fatal(err)
	}
	if _, err := dial(t, f); err != nil {
		t.Error(err)
	}
}

// TestRelay: what goes through a relay is complete and in order, both ways.
func TestRelay(t *testing.T) {
	f := newEcho(t)
	if err := errors.Join(f.SetFault(fault.Fault{Latency: time.Millisecond}), f.Up()); err != nil {
		t.Fatal(err)
	}
	c, err := dial(t, f)
	if err != nil {
		t.Fatal(err)
	}
	want := make([]byte, 3<<20)
	for i := range want {
		want[i] = byte(i * i >> 8)
	}
	go func() { _, _ = c.Write(want) }()
	got := make([]byte, len(want))
	if _, err := io.ReadFull(c, got); err != nil || !bytes.Equal(got, want) {
		t.Errorf("got something else back (%v)", err)
	}
}

// TestCut: exactly as many bytes pass as are allowed, then comes a reset.
func TestCut(t *testing.T) {
	f := newEcho(t)
	if err := errors.Join(f.SetFault(fault.Fault{CutAfterBytes: 1500}), f.Up()); err != nil {
		t.Fatal(err)
	}
	c, err := dial(t, f)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Write(make([]byte, 1000)); err != nil {
		t.Fatal(err)
	}
	n, err := io.Copy(io.Discard, c)
	if n > 500 || !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("got %d bytes and %v, want at most 500 and a reset", n, err)
	}
}

// TestSamePort: the port belongs to the front also while it does not listen.
func TestSamePort(t *testing.T) {
	f := newEcho(t)
	other, err := HoldPort("127.0.0.1", 0)
	if err != nil {
		t.Fatal(err)
	}
	if other.Addr().Port == f.Addr().Port {
		t.Error("two got the same port")
	}
	if err := other.Release(); err != nil {
		t.Error(err)
	}
	if _, err := HoldPort("localhost", 0); err == nil {
		t.Error("a name is no address")
	}
}

func TestClosed(t *testing.T) {
	f := newEcho(t)
	if err := errors.Join(f.Up(), f.Close(), f.Close()); err != nil {
		t.Fatal(err)
	}
	if err := f.Up(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("Up: %v", err)
	}
	if err := f.SetFault(fault.Fault{}); !errors.Is(err, net.ErrClosed) {
		t.Errorf("SetFault: %v", err)
	}
}
