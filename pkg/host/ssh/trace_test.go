// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package ssh_test

import (
	"bytes"
	"errors"
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/crypto/ssh"

	hostssh "github.com/openshift/windows-instance-api/pkg/host/ssh"
)

// layersOf lists the layers of a trace; the reason follows where one failed.
func layersOf(t *testing.T, tr *hostssh.Trace) []string {
	t.Helper()
	var out []string
	for i, s := range tr.Steps {
		text := string(s.Layer)
		if s.Err != nil {
			e, ok := hostssh.AsError(s.Err)
			if !ok || i != len(tr.Steps)-1 {
				t.Fatalf("step %d of %d failed with %v", i+1, len(tr.Steps), s.Err)
			}
			text += " " + string(e.Reason)
		}
		if s.Duration < 0 {
			t.Errorf("%s took %s", s.Layer, s.Duration)
		}
		out = append(out, text)
	}
	return out
}

func TestTrace(t *testing.T) {
	stranger := newSigner(t, ssh.KeyAlgoED25519)
	otherType := newSigner(t, ssh.KeyAlgoECDSA256)
	quick := hostssh.Options{HandshakeTimeout: 300 * time.Millisecond}
	tests := []struct {
		name    string
		script  script
		options hostssh.Options
		change  func(*hostssh.Target)
		trace   hostssh.TraceOptions
		want    []string
	}{
		{name: "everything works", want: []string{"DNS", "Connect", "Handshake", "HostKey", "Auth", "Session"}},
		{name: "no credential at hand", trace: hostssh.TraceOptions{WithoutLogin: true}, want: []string{"DNS", "Connect", "Handshake", "HostKey"}},
		{name: "no address", change: func(t *hostssh.Target) { t.Address = "" }, want: []string{"DNS NameNotResolved"}},
		{name: "refused address", options: hostssh.Options{AllowAddress: func(netip.Addr) error { return errors.New("no") }}, want: []string{"DNS AddressRefused"}},
		{name: "closed port", change: func(t *hostssh.Target) { t.Port = closedPort() }, want: []string{"DNS", "Connect ConnectionRefused"}},
		{name: "silence", script: script{raw: silent}, options: quick, want: []string{"DNS", "Connect", "Handshake HandshakeTimedOut"}},
		{name: "first contact", change: func(t *hostssh.Target) { t.HostKeys = nil }, want: []string{"DNS", "Connect", "Handshake", "HostKey HostKeyUnknown"}},
		{name: "another key", change: func(t *hostssh.Target) { t.HostKeys = []ssh.PublicKey{stranger.PublicKey()} }, want: []string{"DNS", "Connect", "Handshake", "HostKey HostKeyChanged"}},
		{name: "a key of another type", change: func(t *hostssh.Target) { t.HostKeys = []ssh.PublicKey{otherType.PublicKey()} }, want: []string{"DNS", "Connect", "Handshake", "HostKey HostKeyChanged"}},
		{name: "refused key", script: script{refuseKeys: true}, want: []string{"DNS", "Connect", "Handshake", "HostKey", "Auth CredentialsRefused"}},
		{name: "silent at login", script: script{wrap: after(writesBeforeAuth, silent)}, options: unhurried, want: []string{"DNS", "Connect", "Handshake", "HostKey", "Auth TimedOut"}},
		{name: "no session", script: script{maxSessions: -1}, want: []string{"DNS", "Connect", "Handshake", "HostKey", "Auth", "Session SessionRefused"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := newServer(t, tt.script)
			p := newPool(t, tt.options)
			target := s.target()
			if tt.change != nil {
				tt.change(&target)
			}
			tr := p.Trace(testContext(t), target, tt.trace)
			defer tr.Close()
			got := layersOf(t, tr)
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			beyondHandshake := len(got) > 3
			if beyondHandshake != (tr.HostKey != nil) || tr.HostKey != nil && !bytes.Equal(tr.HostKey.Marshal(), s.script.hostKeys[0].PublicKey().Marshal()) {
				t.Errorf("the host key is %v", tr.HostKey)
			}
			if loggedIn := len(got) > 5; loggedIn != (tr.Pool != nil) || loggedIn != (tr.ServerVersion != "") {
				t.Errorf("pool %v, server version %q", tr.Pool, tr.ServerVersion)
			}
		})
	}
}

// TestTraceIsOnItsOwn: a trace uses no connection of the pool and leaves none behind, and
// what goes on with it makes no other.
func TestTraceIsOnItsOwn(t *testing.T) {
	s := newServer(t, script{})
	p := newPool(t, hostssh.Options{})
	if err := p.Ping(testContext(t), s.target()); err != nil {
		t.Fatal(err)
	}
	tr := p.Trace(testContext(t), s.target(), hostssh.TraceOptions{})
	if n := s.count(&s.accepted); n != 2 {
		t.Errorf("the server has %d connections, want one of the pool and one of the trace", n)
	}
	var out bytes.Buffer
	if err := tr.Pool.Run(testContext(t), s.target(), "echo hello", nil, &out); err != nil || s.count(&s.accepted) != 2 {
		t.Errorf("going on: %v after %d connections", err, s.count(&s.accepted))
	}
	tr.Close()
	if got := p.Stats().Connections; got != 1 {
		t.Errorf("the pool has %d connections", got)
	}
	if err := tr.Pool.Ping(testContext(t), s.target()); err == nil {
		t.Error("a closed trace can be used")
	}
	// Of a closed pool nothing is traced.
	_ = p.Close()
	tr = p.Trace(testContext(t), s.target(), hostssh.TraceOptions{})
	defer tr.Close()
	if got := layersOf(t, tr); !cmp.Equal(got, []string{"DNS PoolClosed"}) {
		t.Errorf("got %v", got)
	}
}
