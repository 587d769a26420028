// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package ssh

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/crypto/ssh"
)

func TestErrorTexts(t *testing.T) {
	one, two := newPeer(t).key.PublicKey(), newPeer(t).key.PublicKey()
	for _, tt := range []struct {
		err  error
		want string
	}{
		{&Error{Layer: LayerAuth, Reason: ReasonCredentialsRefused, Address: "192.0.2.1:22", Err: io.EOF}, "ssh 192.0.2.1:22: Auth: the host refused the credentials: EOF"},
		{&Error{Layer: LayerDNS, Reason: ReasonNameNotResolved}, "ssh: DNS: the name has no address"},
		{&Error{Layer: LayerConnect, Reason: "NewReason"}, "ssh: Connect: NewReason"},
		{&HostKeyError{Presented: one}, "the host presents " + describeKey(one)},
		{&HostKeyError{Presented: one, Pinned: []PublicKey{two, one}}, "the host presents " + describeKey(one) + ", pinned is " + describeKey(two) + ", " + describeKey(one)},
		{&HostKeyError{Pinned: []PublicKey{two}}, "the host presents a key of none of the pinned types, pinned is " + describeKey(two)},
		{&ExitError{Code: 3}, "command ended with exit code 3"},
		{&ExitError{Code: 3, Stderr: "first\nsecond \n\n"}, "command ended with exit code 3: second"},
		{&ExitError{Code: 137, Signal: "KILL", Stderr: "only\n"}, "command was ended by signal KILL: only"},
		{&credentialsRefusedError{user: "admin", accepted: []string{"password", "publickey"}}, `user "admin": no credential to try; the server accepts password, publickey`},
		{&credentialsRefusedError{user: "admin", attempted: []string{"publickey (x)", "password"}, accepted: []string{"password"}}, `user "admin": tried publickey (x), password; the server accepts password`},
	} {
		if got := tt.err.Error(); got != tt.want {
			t.Errorf("got %q, want %q", got, tt.want)
		}
	}
}

// TestConnectReason: of several addresses the one that answered says more than the one that did not.
func TestConnectReason(t *testing.T) {
	for _, tt := range []struct {
		err  error
		want Reason
	}{
		{syscall.ECONNREFUSED, ReasonConnectionRefused},
		{syscall.ECONNRESET, ReasonConnectionReset},
		{os.ErrDeadlineExceeded, ReasonConnectionTimedOut},
		{context.DeadlineExceeded, ReasonConnectionTimedOut},
		{syscall.ETIMEDOUT, ReasonConnectionTimedOut},
		{syscall.EHOSTUNREACH, ReasonHostUnreachable},
		{syscall.ENETUNREACH, ReasonHostUnreachable},
		{errors.Join(syscall.ETIMEDOUT, syscall.EHOSTUNREACH, syscall.ECONNREFUSED), ReasonConnectionRefused},
		{errors.Join(syscall.EHOSTUNREACH, syscall.ETIMEDOUT), ReasonConnectionTimedOut},
	} {
		if got := connectReason(&net.OpError{Op: "dial", Err: tt.err}); got != tt.want {
			t.Errorf("%v: got %s, want %s", tt.err, got, tt.want)
		}
	}
}

// TestGivenUp: who gave up, and waiting for what, is said of a dial at each layer.
func TestGivenUp(t *testing.T) {
	late, cancel := context.WithDeadline(t.Context(), time.Now())
	defer cancel()
	left, leave := context.WithCancel(t.Context())
	leave()
	closed, end := context.WithCancelCause(t.Context())
	end(errPoolClosed)
	var asked progress
	if l := asked.get(); l != LayerConnect {
		t.Errorf("a dial that has not begun is at %s", l)
	}
	for _, tt := range []struct {
		ctx   context.Context
		layer Layer
		want  Reason
	}{
		{late, LayerDNS, ReasonTimedOut},
		{late, LayerConnect, ReasonConnectionTimedOut},
		{late, LayerHandshake, ReasonHandshakeTimedOut},
		{late, LayerAuth, ReasonTimedOut},
		{left, LayerConnect, ReasonCanceled},
		{closed, LayerHandshake, ReasonPoolClosed},
	} {
		got := gaveUp(tt.ctx, tt.layer, "192.0.2.1:22")
		if got.Layer != tt.layer || got.Reason != tt.want || got.Address != "192.0.2.1:22" || !errors.Is(got, context.Cause(tt.ctx)) {
			t.Errorf("at %s: got %v, want %s", tt.layer, got, tt.want)
		}
	}
}

// TestGreetings: what a server says in place of its identification tells what it is.
func TestGreetings(t *testing.T) {
	library := errors.New("of the library")
	for _, tt := range []struct {
		name, said string
		network    error
		want       Reason
		says       string
	}{
		{"nothing", "", nil, ReasonHandshakeFailed, "of the library"},
		{"silence", "", os.ErrDeadlineExceeded, ReasonHandshakeTimedOut, os.ErrDeadlineExceeded.Error()},
		{"closed", "", io.EOF, ReasonConnectionReset, "EOF"},
		{"part of the identification", "SS", os.ErrDeadlineExceeded, ReasonHandshakeTimedOut, os.ErrDeadlineExceeded.Error()},
		{"identification without an end", "SSH-2.0-x", io.EOF, ReasonConnectionReset, "EOF"},
		{"too many connections", "Exceeded MaxStartups\r\n", io.EOF, ReasonConnectionReset, `sshd said "Exceeded MaxStartups": EOF`},
		{"penalty", "Not allowed at this time\r\n", io.EOF, ReasonConnectionReset, `sshd said "Not allowed at this time": EOF`},
		{"another protocol", "\n HTTP/1.1 400 Bad Request\r\nServer: x\r\n", nil, ReasonNotSSH, "of the library"},
		{"another protocol that waits", "220 mail", os.ErrDeadlineExceeded, ReasonNotSSH, os.ErrDeadlineExceeded.Error()},
		{"no text", "\xff\xfe\n", nil, ReasonNotSSH, "of the library"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			reason, err := explainGreeting([]byte(tt.said), tt.network, library)
			if reason != tt.want || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("got %s, %v, want %s, %s", reason, err, tt.want, tt.says)
			}
			// Whoever may name an address would read what answers anywhere in the network.
			if reason == ReasonNotSSH && strings.Contains(err.Error(), strings.Fields(tt.said)[0]) {
				t.Errorf("it tells what was said: %v", err)
			}
		})
	}
}

// TestIdentification: it may come after other lines and in pieces, and what came before it is kept, but not all.
func TestIdentification(t *testing.T) {
	for _, tt := range []struct {
		name  string
		parts []string
		want  bool
	}{
		{"at once", []string{"SSH-2.0-x\r\n"}, true},
		{"in pieces", []string{"S", "SH-", "2.0", "-x\r", "\n"}, true},
		{"after other lines", []string{"hello\r\n", "\nSSH\nSSH-2.0-x\n"}, true},
		{"without an end", []string{"SSH-2.0-x"}, false},
		{"in the middle of a line", []string{"x SSH-2.0-x\n"}, false},
		{"long lines", []string{strings.Repeat("x", 400) + "\n", strings.Repeat("y", 400) + "\n"}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var w wire
			for _, part := range tt.parts {
				w.record([]byte(part))
			}
			if got := w.identified.Load(); got != tt.want {
				t.Errorf("identified: %v", got)
			}
			all := strings.Join(tt.parts, "")
			if got := string(w.said()); got != all[:min(len(all), 512)] {
				t.Errorf("kept %q", got)
			}
		})
	}
}

// TestFirstFailureCounts, and that we closed the connection is none.
func TestFirstFailureCounts(t *testing.T) {
	var w wire
	w.fail(fmt.Errorf("read: %w", net.ErrClosed))
	if err := w.err(); err != nil {
		t.Errorf("our end is a failure: %v", err)
	}
	w.fail(syscall.ECONNRESET)
	w.fail(io.EOF)
	if err := w.err(); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("got %v", err)
	}
}

func TestForwardRefusals(t *testing.T) {
	for from, want := range map[ssh.RejectionReason]Reason{
		ssh.ConnectionFailed: ReasonConnectionRefused,
		ssh.ResourceShortage: ReasonSessionLimitReached,
		ssh.Prohibited:       ReasonSessionRefused,
	} {
		if got := forwardRefusal(from); got != want {
			t.Errorf("%s: got %s, want %s", from, got, want)
		}
	}
}

// TestQuestions: the password is the answer to one hidden question, and to nothing else that a server may ask.
func TestQuestions(t *testing.T) {
	hidden, shown := []bool{false}, []bool{true}
	type question struct {
		texts []string
		shown []bool
		want  []string
		fails bool
	}
	for name, questions := range map[string][]question{
		"password":           {{[]string{"Password: "}, hidden, []string{"right"}, false}},
		"after a notice":     {{nil, nil, nil, false}, {[]string{"Password: "}, hidden, []string{"right"}, false}, {nil, nil, nil, false}},
		"asked again":        {{[]string{"Password: "}, hidden, []string{"right"}, false}, {[]string{"Password: "}, hidden, nil, true}},
		"shown to onlookers": {{[]string{"User: "}, shown, nil, true}},
		"a second factor":    {{[]string{"Password: ", "Code: "}, []bool{false, false}, nil, true}},
	} {
		t.Run(name, func(t *testing.T) {
			answer := (&authenticator{credential: Credential{Password: "right"}}).answerOnce()
			for i, q := range questions {
				got, err := answer("", "", q.texts, q.shown)
				if d := cmp.Diff(q.want, got); d != "" || (err != nil) != q.fails {
					t.Errorf("question %d: %v, %s", i+1, err, d)
				}
			}
		})
	}
}

// TestDefaults are those that the comments promise.
func TestDefaults(t *testing.T) {
	got := Options{}.withDefaults()
	if got.Resolver != net.DefaultResolver || got.AllowAddress == nil || got.Received == nil || got.Refusals == nil || got.Refusals.pause(3) != time.Minute {
		t.Errorf("got %+v", got)
	}
	got.Resolver, got.AllowAddress, got.Received, got.Refusals = nil, nil, nil, nil
	want := Options{
		DialTimeout: 10 * time.Second, HandshakeTimeout: 10 * time.Second, KeepAliveInterval: 15 * time.Second, KeepAliveMisses: 3,
		IdleTimeout: 5 * time.Minute, MaxSessionsPerConn: 8, MaxForwardsPerConn: 64, MaxConnsPerHost: 4, MaxConns: 1024,
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}
