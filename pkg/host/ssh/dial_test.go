// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package ssh

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// dials stands in for the network: each dial ends where its address would be allowed.
type dials struct {
	count atomic.Int32
	// fail is why it fails.
	fail error
	// wait, if not nil, holds them until it is closed.
	wait chan struct{}
}

func (d *dials) allow(netip.Addr) error {
	d.count.Add(1)
	if d.wait != nil {
		<-d.wait
	}
	return d.fail
}

// inBusyBubble is inBubble with a session that uses the connection up.
func inBusyBubble(t *testing.T, test func(t *testing.T, p *Pool, s *peer, d *dials, session *stream)) {
	t.Helper()
	d := &dials{fail: errors.New("the firewall counts connections")}
	inBubble(t, Options{MaxSessionsPerConn: 1, AllowAddress: d.allow}, func(t *testing.T, p *Pool, s *peer, _ *conn) {
		session, err := p.openStream(t.Context(), s.target(), sessionChannel)
		if err != nil {
			t.Fatal(err)
		}
		test(t, p, s, d, session)
	})
}

// TestFurtherConnectionIsTriedAgain: a host that has connections is not bothered with attempts for another, and not
// given up either. Who has waited in vain learns why.
func TestFurtherConnectionIsTriedAgain(t *testing.T) {
	inBusyBubble(t, func(t *testing.T, p *Pool, s *peer, d *dials, _ *stream) {
		ctx, cancel := context.WithTimeout(t.Context(), 12*time.Second)
		defer cancel()
		ended := ping(ctx, p, s.target())
		for _, want := range []int32{1, 1, 2, 2, 3} { // at 0, 4, 8 and 11 seconds
			if d.count.Load() != want {
				t.Errorf("%d attempts, want %d", d.count.Load(), want)
			}
			if want < 3 {
				pass(2750 * time.Millisecond)
				synctest.Wait()
			}
		}
		err := <-ended
		if reasonOf(err) != ReasonSessionLimitReached || !strings.Contains(err.Error(), "the firewall counts connections") || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		pass(time.Minute)
		if d.count.Load() != 3 || p.Stats().Dialing != 0 {
			t.Errorf("%d attempts, the last ones for nobody", d.count.Load())
		}
	})
}

// TestWorkingConnectionServesWhoWaits, also in the pause between two attempts.
func TestWorkingConnectionServesWhoWaits(t *testing.T) {
	inBusyBubble(t, func(t *testing.T, p *Pool, s *peer, d *dials, session *stream) {
		ended := ping(t.Context(), p, s.target())
		session.closeByCaller()
		if err := <-ended; err != nil || d.count.Load() != 1 {
			t.Errorf("after %d attempts: %v", d.count.Load(), err)
		}
	})
}

// TestPauseEndsWithTheLastConnection: once nothing is left that could serve those who wait, the next failure is theirs.
func TestPauseEndsWithTheLastConnection(t *testing.T) {
	inBusyBubble(t, func(t *testing.T, p *Pool, s *peer, d *dials, _ *stream) {
		began := time.Now()
		ended := ping(t.Context(), p, s.target())
		_ = s.raw.Close()
		if err := <-ended; reasonOf(err) != ReasonAddressRefused || d.count.Load() != 2 || time.Since(began) != 0 {
			t.Errorf("after %s and %d attempts: %v", time.Since(began), d.count.Load(), err)
		}
	})
}

// TestAbandonedDial: one that nobody waits for any more ends without harm to what came after it.
func TestAbandonedDial(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &dials{fail: errors.New("no"), wait: make(chan struct{})}
		p, s := New(Options{AllowAddress: d.allow}), newPeer(t)
		defer p.Close()
		ctx, leave := context.WithCancel(t.Context())
		ended := ping(ctx, p, s.target())
		leave()
		err := <-ended
		if _, hosts := left(p); reasonOf(err) != ReasonCanceled || hosts != 0 {
			t.Errorf("%v, and %d hosts are remembered", err, hosts)
		}
		if _, err := s.join(p); err != nil {
			t.Fatal(err)
		}
		close(d.wait)
		synctest.Wait()
		if err := p.Ping(t.Context(), s.target()); err != nil || p.Stats().Connections != 1 || p.Stats().Dials != 1 {
			t.Errorf("%v, %+v", err, p.Stats())
		}
		if n := len(p.Stats().DialFailures); n != 0 {
			t.Errorf("%d failures are counted of a dial that nobody waited for", n)
		}
	})
}

// TestFailedDialsTakeNoRoom: MaxConns is about connections.
func TestFailedDialsTakeNoRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &dials{fail: errors.New("no")}
		p, s := New(Options{MaxConns: 1, AllowAddress: d.allow}), newPeer(t)
		defer p.Close()
		for range 3 {
			if err := p.Ping(t.Context(), s.target()); reasonOf(err) != ReasonAddressRefused {
				t.Errorf("got %v", err)
			}
		}
		if conns, hosts := left(p); conns != 0 || hosts != 0 || p.Stats().DialFailures[ReasonAddressRefused] != 3 || p.Stats().Dialing != 0 {
			t.Errorf("%d connections to %d hosts, %+v", conns, hosts, p.Stats())
		}
	})
}
