// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package ssh_test

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	hostssh "github.com/openshift/windows-instance-api/pkg/host/ssh"
	"github.com/openshift/windows-instance-api/test/winhost/opensshd"
)

// fakeClock stands still until it is stepped.
type fakeClock struct{ nanoseconds atomic.Int64 }

func (c *fakeClock) now() time.Time       { return time.Unix(0, c.nanoseconds.Load()).UTC() }
func (c *fakeClock) step(d time.Duration) { c.nanoseconds.Add(int64(d)) }

// remembering is a memory by a clock, with a pause of one minute, then two, and so on.
func remembering(c *fakeClock) *hostssh.Refusals {
	return hostssh.NewRefusals(func(refusals int) time.Duration { return time.Duration(refusals) * time.Minute }, c.now)
}

// fleetBehind are many hosts behind one bastion.
func fleetBehind(host hostssh.Target, bastion *hostssh.Bastion) []hostssh.Target {
	targets := make([]hostssh.Target, 100)
	for i := range targets {
		targets[i] = host
		targets[i].Owner, targets[i].Bastion = fmt.Sprintf("win-%d", i), bastion
	}
	return targets
}

// pingAll logs in to all hosts at once.
func pingAll(t *testing.T, p *hostssh.Pool, targets []hostssh.Target) []error {
	t.Helper()
	errs := make([]error, len(targets))
	var wg sync.WaitGroup
	for i, target := range targets {
		wg.Go(func() { errs[i] = p.Ping(testContext(t), target) })
	}
	wg.Wait()
	return errs
}

// TestBastionRefusesMany: a bastion that refuses the login is tried once for all hosts behind it, by all pools, then after growing pauses,
// and lets all in when it does not refuse it any more.
func TestBastionRefusesMany(t *testing.T) {
	host, bastion, target := behind(t, script{}, script{})
	bastion.locked.Store(true)
	var clock fakeClock
	options := hostssh.Options{Refusals: remembering(&clock)}
	p, other := newPool(t, options), hostssh.New(options)
	defer other.Close()
	targets := fleetBehind(target, target.Bastion)
	refused := func(logins int, retry time.Time) {
		t.Helper()
		for _, err := range append(pingAll(t, p, targets), pingAll(t, other, targets)...) {
			e := wantError(t, err, hostssh.LayerBastion, hostssh.ReasonCredentialsRefused)
			if on := e.OnBastion(); on == nil || on.Layer != hostssh.LayerAuth || e.Address != target.Bastion.Endpoint() || !e.RetryAt.Equal(retry) {
				t.Fatalf("got %v, tried again at %s, want %s", err, e.RetryAt, retry)
			}
		}
		if n := bastion.count(&bastion.accepted); n != logins {
			t.Fatalf("%d hosts have logged in %d times, want %d", len(targets), n, logins)
		}
	}
	start := clock.now()
	refused(1, start.Add(time.Minute))
	clock.step(time.Minute - 1)
	refused(1, start.Add(time.Minute))
	clock.step(1)
	refused(2, start.Add(3*time.Minute))
	bastion.locked.Store(false)
	clock.step(2*time.Minute - 1)
	refused(2, start.Add(3*time.Minute))
	clock.step(1)
	if err := errors.Join(pingAll(t, p, targets)...); err != nil {
		t.Errorf("after that: %v", err)
	}
	if n := host.count(&host.accepted); n != len(targets) {
		t.Errorf("%d connections to hosts, want %d", n, len(targets))
	}
}

// TestBastionRefusesOne: what is remembered is about one bastion with one user, credential and set of keys, whoever has them.
func TestBastionRefusesOne(t *testing.T) {
	stranger := hostssh.Credential{ID: "theirs", Remark: "Theirs has expired."}
	for _, tt := range []struct {
		name   string
		change func(*hostssh.Target)
		tried  bool
		works  bool
	}{
		{name: "another host", change: func(t *hostssh.Target) { t.Owner = "win-2" }},
		{name: "another namespace", change: func(t *hostssh.Target) { t.Owner, t.Namespace = "win-2", "other" }},
		{name: "another port of the host", change: func(t *hostssh.Target) { t.Port++ }},
		{name: "the same keys in another order", change: func(t *hostssh.Target) {
			t.Bastion.HostKeys = []ssh.PublicKey{t.Bastion.HostKeys[1], t.Bastion.HostKeys[0]}
		}},
		{name: "another content of the Secret", change: func(t *hostssh.Target) { t.Bastion.Credential = hostssh.Credential{ID: "wrong, too"} }, tried: true},
		{name: "the right content of the Secret", change: func(*hostssh.Target) {}, tried: true, works: true},
		{name: "another user", change: func(t *hostssh.Target) { t.Bastion.User = "other" }, tried: true},
		{name: "other keys of the bastion", change: func(t *hostssh.Target) { t.Bastion.HostKeys = t.Bastion.HostKeys[:1] }, tried: true},
		{name: "another address of the bastion", change: func(t *hostssh.Target) { t.Bastion.Address = "bastion.example" }, tried: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, bastion, target := behind(t, script{}, script{})
			right := target.Bastion.Credential
			target.Bastion.HostKeys = append(target.Bastion.HostKeys, newSigner(t, ssh.KeyAlgoED25519).PublicKey())
			target.Bastion.Credential = stranger
			p := newPool(t, hostssh.Options{Resolver: resolver{addrs: []string{"127.0.0.1"}}, Refusals: remembering(&fakeClock{})})
			wantError(t, p.Ping(testContext(t), target), hostssh.LayerBastion, hostssh.ReasonCredentialsRefused)
			before := bastion.count(&bastion.accepted)
			changed := target
			at := *target.Bastion
			changed.Bastion = &at
			if tt.change(&changed); tt.works {
				at.Credential = right
			}
			if at.Credential.Remark != "" {
				at.Credential.Remark = "Ours has expired."
			}
			err := p.Ping(testContext(t), changed)
			if (err == nil) != tt.works {
				t.Errorf("got %v", err)
			}
			if err != nil && at.Credential.Remark != "" && (!strings.HasSuffix(err.Error(), at.Credential.Remark) || strings.Contains(err.Error(), stranger.Remark)) {
				t.Errorf("%q has not what is said of their own credential", err)
			}
			if tried := bastion.count(&bastion.accepted) > before; tried != tt.tried {
				t.Errorf("logged in to: %v, want %v", tried, tt.tried)
			}
			// Nobody's attempt changes what is known of another one's.
			wantError(t, p.Ping(testContext(t), target), hostssh.LayerBastion, hostssh.ReasonCredentialsRefused)
		})
	}
}

// TestBastionIsInsistedOn: who insists tries at once, and for all others, but not for each of many hosts.
func TestBastionIsInsistedOn(t *testing.T) {
	_, bastion, target := behind(t, script{}, script{})
	bastion.locked.Store(true)
	var clock fakeClock
	p := newPool(t, hostssh.Options{Refusals: remembering(&clock)})
	insist := func(o hostssh.TraceOptions, want ...string) {
		t.Helper()
		tr := p.Trace(testContext(t), target, o)
		defer tr.Close()
		if got := layersOf(t, tr); strings.Join(got, " ") != strings.Join(want, " ") {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	logins := func(want int) {
		t.Helper()
		if n := bastion.count(&bastion.accepted); n != want {
			t.Errorf("logged in to %d times, want %d", n, want)
		}
	}
	insists := hostssh.TraceOptions{Insists: true}
	wantError(t, p.Ping(testContext(t), target), hostssh.LayerBastion, hostssh.ReasonCredentialsRefused)
	clock.step(10*time.Second - 1)
	insist(insists, "DNS", "Bastion CredentialsRefused")
	logins(1)
	clock.step(1)
	insist(hostssh.TraceOptions{}, "DNS", "Bastion CredentialsRefused")
	logins(1)
	insist(insists, "DNS", "Bastion CredentialsRefused")
	logins(2)
	bastion.locked.Store(false)
	clock.step(10 * time.Second)
	insist(insists, "DNS", "Bastion", "Connect", "Handshake", "HostKey", "Auth", "Session")
	if err := p.Ping(testContext(t), target); err != nil {
		t.Errorf("who does not insist is not let in: %v", err)
	}
}

// TestBastionRefusesAndIsDown: that a bastion cannot be reached is another thing than that it refuses a login, and does not make it forgotten.
func TestBastionRefusesAndIsDown(t *testing.T) {
	var down atomic.Bool
	_, bastion, target := behind(t, script{}, script{refuseKeys: true, wrap: func(c net.Conn) net.Conn {
		if down.Load() {
			c.Close()
		}
		return c
	}})
	var clock fakeClock
	p := newPool(t, hostssh.Options{Refusals: remembering(&clock)})
	fails := func(reason hostssh.Reason, connections int) *hostssh.Error {
		t.Helper()
		before := bastion.count(&bastion.accepted)
		e := wantError(t, p.Ping(testContext(t), target), hostssh.LayerBastion, reason)
		if n := bastion.count(&bastion.accepted) - before; n != connections {
			t.Errorf("%d connections to the bastion, want %d", n, connections)
		}
		return e
	}
	down.Store(true)
	fails(hostssh.ReasonConnectionReset, 1)
	fails(hostssh.ReasonConnectionReset, 1)
	down.Store(false)
	fails(hostssh.ReasonCredentialsRefused, 1)
	down.Store(true)
	fails(hostssh.ReasonCredentialsRefused, 0)
	clock.step(time.Minute)
	if e := fails(hostssh.ReasonConnectionReset, 1); !e.RetryAt.IsZero() {
		t.Errorf("it is not tried again before %s", e.RetryAt)
	}
	fails(hostssh.ReasonConnectionReset, 1)
	down.Store(false)
	if e, at := fails(hostssh.ReasonCredentialsRefused, 1), clock.now().Add(2*time.Minute); !e.RetryAt.Equal(at) {
		t.Errorf("the second refusal is remembered until %s, want %s", e.RetryAt, at)
	}
	fails(hostssh.ReasonCredentialsRefused, 0)
}

// TestSSHDRefusesMany shows how many failed logins OpenSSH sees of many hosts behind it, and that the right key ends them.
func TestSSHDRefusesMany(t *testing.T) {
	host, bastion := opensshd.Start(t, opensshd.Options{}), opensshd.Start(t, opensshd.Options{})
	at := sshdTarget(bastion)
	way := &hostssh.Bastion{Address: at.Address, Port: at.Port, User: at.User, HostKeys: at.HostKeys,
		Credential: hostssh.Credential{Signers: []ssh.Signer{newSigner(t, ssh.KeyAlgoED25519)}}}
	p := newPool(t, hostssh.Options{Refusals: remembering(&fakeClock{})})
	targets := fleetBehind(sshdTarget(host), way)
	for _, err := range pingAll(t, p, targets) {
		wantError(t, err, hostssh.LayerBastion, hostssh.ReasonCredentialsRefused)
	}
	eventually(t, "sshd logs it", func() bool { return strings.Contains(bastion.Log(), "Failed publickey") })
	if n := strings.Count(bastion.Log(), "Connection from "); n != 1 {
		t.Errorf("%d hosts have connected %d times:\n%s", len(targets), n, bastion.Log())
	}
	corrected := *way
	corrected.Credential = at.Credential
	target := targets[0]
	target.Bastion = &corrected
	if err := p.Ping(testContext(t), target); err != nil {
		t.Errorf("with the right key: %v", err)
	}
}
