// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package ssh

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/crypto/ssh"
)

// TestSilenceIsMeasured: a host that is silent for the documented time is given up, not a moment
// before, and whoever used the connection learns it.
func TestSilenceIsMeasured(t *testing.T) {
	inBubble(t, Options{}, func(t *testing.T, p *Pool, s *peer, _ *conn) {
		session, err := p.openStream(t.Context(), s.target(), sessionChannel)
		if err != nil {
			t.Fatal(err)
		}
		s.deaf.Store(true)
		// At the first look it had just answered.
		if n := after(p, (15+59)*time.Second); n != 1 {
			t.Error("it was given up too early")
		}
		if n := after(p, 2*time.Second); n != 0 || p.Stats().Lost != 1 {
			t.Errorf("it was not given up: %+v", p.Stats())
		}
		<-session.ended
		if err := session.endError(); reasonOf(err) != ReasonConnectionLost || !strings.Contains(err.Error(), "did not answer for 1m0s") {
			t.Errorf("its user got %v", err)
		}
		if n := s.asked.Load(); n != 1 {
			t.Errorf("%d keepalives were sent, want one until it is answered", n)
		}
	})
}

// TestAnswersEndSilence: what comes in time counts, whether it is an answer or anything else.
func TestAnswersEndSilence(t *testing.T) {
	inBubble(t, Options{IdleTimeout: 24 * time.Hour}, func(t *testing.T, p *Pool, s *peer, _ *conn) {
		if n := after(p, time.Hour); n != 1 || s.asked.Load() < 100 {
			t.Errorf("%d connections after %d keepalives to a host that answers", n, s.asked.Load())
		}
		s.deaf.Store(true)
		for range 10 {
			if n := after(p, 40*time.Second); n != 1 {
				t.Fatal("it was given up although it said something")
			}
			_, _, _ = s.conn.SendRequest("hello@example.com", false, nil)
		}
		if n := after(p, 2*time.Minute); n != 0 {
			t.Error("it was not given up when it was silent")
		}
	})
}

// TestIdleTime is counted from the last use, and not at all while there is one.
func TestIdleTime(t *testing.T) {
	inBubble(t, Options{}, func(t *testing.T, p *Pool, s *peer, _ *conn) {
		pass(4 * time.Minute)
		session, err := p.openStream(t.Context(), s.target(), sessionChannel)
		if err != nil {
			t.Fatal(err)
		}
		if n := after(p, time.Hour); n != 1 {
			t.Fatal("a connection in use was closed")
		}
		pass(3 * time.Minute) // between two looks of the watch
		session.closeByCaller()
		if n := after(p, 5*time.Minute-time.Second); n != 1 {
			t.Error("it was closed before it was idle for 5 minutes")
		}
		if n := after(p, 2*time.Second); n != 0 || p.Stats().IdleClosed != 1 || p.Stats().Lost != 0 {
			t.Errorf("it was not closed: %+v", p.Stats())
		}
	})
}

// TestHandshakeTime: the key exchange has its limit, authentication begins another, and what follows has none.
func TestHandshakeTime(t *testing.T) {
	for _, tt := range []struct {
		name   string
		think  time.Duration
		layer  Layer
		reason Reason
		took   time.Duration
	}{
		{"in time, each", 9 * time.Second, "", "", 18 * time.Second},
		{"too late", 11 * time.Second, LayerHandshake, ReasonHandshakeTimedOut, 10 * time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p, s := New(Options{IdleTimeout: 24 * time.Hour}), newPeer(t)
				defer p.Close()
				s.think = tt.think
				began := time.Now()
				_, err := s.join(p)
				if e, ok := AsError(err); ok && (e.Layer != tt.layer || e.Reason != tt.reason) || ok != (tt.layer != "") {
					t.Errorf("got %v", err)
				}
				if took := time.Since(began); took != tt.took {
					t.Errorf("it took %s, want %s", took, tt.took)
				}
				if err != nil {
					pass(time.Hour) // until the peer has noticed
					return
				}
				if after(p, time.Hour) != 1 {
					t.Error("the limit is still there")
				}
				if err := p.Ping(t.Context(), s.target()); err != nil || p.Stats().Dials != 0 {
					t.Errorf("an hour later: %v", err)
				}
			})
		})
	}
}

// TestUnansweredSession: a host that answers keepalives and opens no session is not waited for, and what it
// opens later is closed.
func TestUnansweredSession(t *testing.T) {
	inBubble(t, Options{}, func(t *testing.T, p *Pool, s *peer, c *conn) {
		s.open = func(ssh.NewChannel) {}
		began := time.Now()
		err := p.Ping(t.Context(), s.target())
		if e, ok := AsError(err); !ok || e.Layer != LayerSession || e.Reason != ReasonTimedOut {
			t.Errorf("got %v", err)
		}
		if took := time.Since(began); took != 10*time.Second {
			t.Errorf("it took %s", took)
		}
		if n := p.Stats().Sessions; n != 1 {
			t.Errorf("%d sessions are counted, and the host may still open one", n)
		}
	})
}

// TestForwardWaitsForAThirdParty: the limit on opening a session is none on a port.
func TestForwardWaitsForAThirdParty(t *testing.T) {
	inBubble(t, Options{}, func(t *testing.T, p *Pool, s *peer, _ *conn) {
		s.open = func(ssh.NewChannel) {}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		began := time.Now()
		_, err := p.Dial(ctx, s.target(), 80)
		if reasonOf(err) != ReasonTimedOut || !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != time.Minute {
			t.Errorf("after %s: %v", time.Since(began), err)
		}
	})
}
