// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package ssh

import (
	"crypto/ed25519"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/crypto/ssh"
)

func TestHostPort(t *testing.T) {
	tests := []struct {
		name   string
		target Target
		want   string
	}{
		{"default port", Target{Address: "host.example.com"}, "host.example.com:22"},
		{"port", Target{Address: "192.0.2.1", Port: 2222}, "192.0.2.1:2222"},
		{"IPv6", Target{Address: "2001:db8::1"}, "[2001:db8::1]:22"},
		{"IPv6 in brackets", Target{Address: "[2001:db8::1]", Port: 2222}, "[2001:db8::1]:2222"},
		{"IPv6 with a zone", Target{Address: "fe80::1%eth0"}, "[fe80::1%eth0]:22"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := tt.target.Endpoint(); got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}

// TestIdentity: targets share what was found out about a host if they are the same in everything.
func TestIdentity(t *testing.T) {
	key, err := ssh.NewPublicKey(make(ed25519.PublicKey, ed25519.PublicKeySize))
	if err != nil {
		t.Fatal(err)
	}
	target := Target{Owner: "o", Address: "Host.example.com", User: "u", Credential: Credential{ID: "c"}, HostKeys: []ssh.PublicKey{key}}
	bastion := Bastion{Address: "Bastion.example.com", User: "b", Credential: Credential{ID: "d"}, HostKeys: []ssh.PublicKey{key}}
	target.Bastion = &bastion
	same := target
	same.Address, same.Port = "host.example.com", DefaultPort
	same.Bastion = &Bastion{"bastion.example.com", DefaultPort, "b", Credential{ID: "d"}, []ssh.PublicKey{key}}
	if same.Identity() != target.Identity() {
		t.Error("the same target has two identities")
	}
	through := func(change func(*Bastion)) func(*Target) {
		return func(t *Target) {
			b := bastion
			change(&b)
			t.Bastion = &b
		}
	}
	for name, change := range map[string]func(*Target){
		"bastion":               func(t *Target) { t.Bastion = nil },
		"address of bastion":    through(func(b *Bastion) { b.Address = "other.example.com" }),
		"port of bastion":       through(func(b *Bastion) { b.Port = 2222 }),
		"user of bastion":       through(func(b *Bastion) { b.User = "other" }),
		"credential of bastion": through(func(b *Bastion) { b.Credential.ID = "other" }),
		"host keys of bastion":  through(func(b *Bastion) { b.HostKeys = nil }),
		"owner":                 func(t *Target) { t.Owner = "other" },
		"namespace":             func(t *Target) { t.Namespace = "other" },
		"address":               func(t *Target) { t.Address = "other.example.com" },
		"port":                  func(t *Target) { t.Port = 2222 },
		"user":                  func(t *Target) { t.User = "other" },
		"credential":            func(t *Target) { t.Credential.ID = "other" },
		"host keys":             func(t *Target) { t.HostKeys = nil },
		"parts":                 func(t *Target) { t.Owner, t.Address = "oh", "ost.example.com" },
	} {
		other := target
		change(&other)
		if other.Identity() == target.Identity() || other.key() == target.key() {
			t.Errorf("another %s: the same identity", name)
		}
	}
}

func TestPreferIPv4(t *testing.T) {
	parse := func(list string) []netip.Addr {
		var addrs []netip.Addr
		for a := range strings.FieldsSeq(list) {
			addrs = append(addrs, netip.MustParseAddr(a))
		}
		return addrs
	}
	tests := []struct{ name, in, want string }{
		{"mixed", "2001:db8::1 192.0.2.1 2001:db8::2 192.0.2.2", "192.0.2.1 192.0.2.2 2001:db8::1 2001:db8::2"},
		{"IPv4 in IPv6", "2001:db8::1 ::ffff:192.0.2.1", "192.0.2.1 2001:db8::1"},
		{"IPv6 only", "2001:db8::2 2001:db8::1", "2001:db8::1 2001:db8::2"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := preferIPv4(parse(tt.in))
			if d := cmp.Diff(parse(tt.want), got, cmp.Comparer(func(a, b netip.Addr) bool { return a == b })); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestTail(t *testing.T) {
	tests := []struct {
		name   string
		writes []string
		want   string
	}{
		{"nothing", nil, ""},
		{"less than the limit", []string{"ab", "c"}, "abc"},
		{"exactly the limit", []string{"abcd", "efgh"}, "abcdefgh"},
		{"more, bit by bit", []string{"abcd", "efgh", "ij", "k"}, "defghijk"},
		{"more at once", []string{"abc", "0123456789"}, "23456789"},
		{"a character cut in two", []string{"äaaaaaaa"}, "\uFFFDaaaaaaa"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tail := &tail{limit: 8}
			for _, w := range tt.writes {
				if n, err := tail.Write([]byte(w)); n != len(w) || err != nil {
					t.Errorf("Write: %d, %v", n, err)
				}
			}
			if got := tail.String(); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestEveryReasonIsExplained(t *testing.T) {
	for _, r := range []Reason{
		ReasonNameNotResolved, ReasonAddressRefused, ReasonAddressUndecided, ReasonConnectionRefused, ReasonConnectionTimedOut, ReasonHostUnreachable,
		ReasonConnectionReset, ReasonHandshakeTimedOut, ReasonNotSSH, ReasonHandshakeFailed, ReasonHostKeyUnknown,
		ReasonHostKeyChanged, ReasonCredentialsRefused, ReasonSessionRefused, ReasonSessionLimitReached, ReasonConnectionLost,
		ReasonTimedOut, ReasonCanceled, ReasonSessionClosed, ReasonLimitReached, ReasonPoolClosed,
	} {
		if explanations[r] == "" {
			t.Errorf("%s has no explanation", r)
		}
	}
}
