// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package ssh

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/crypto/ssh"
)

// pending collects requests for channels that a peer has not answered yet.
type pending chan ssh.NewChannel

func newPending(s *peer) pending {
	p := make(pending, 10)
	s.open = func(n ssh.NewChannel) { p <- n }
	return p
}

// ping is Ping in the background.
func ping(ctx context.Context, p *Pool, t Target) <-chan error {
	ended := make(chan error, 1)
	go func() { ended <- p.Ping(ctx, t) }()
	synctest.Wait()
	return ended
}

// TestRefusalIsJudgedAtTheEnd: while the host still thinks about one session, the refusal of another says nothing yet.
// Nothing more is tried until it does.
func TestRefusalIsJudgedAtTheEnd(t *testing.T) {
	for _, tt := range []struct {
		name    string
		first   func(ssh.NewChannel) // the answer that comes last
		forward bool                 // a forward is open, which is no session
		learned uint64
		want    Reason // of the sessions that wait
	}{
		{"the other one is opened", accept, false, 1, ""},
		{"the other one is refused, too", refuse, false, 0, ReasonSessionRefused},
		{"with a forward, opened", accept, true, 1, ""},
		{"with a forward, refused", refuse, true, 0, ReasonSessionRefused},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, Options{MaxConnsPerHost: 1}, func(t *testing.T, p *Pool, s *peer, _ *conn) {
				if tt.forward {
					forward, err := p.Dial(t.Context(), s.target(), 80)
					if err != nil {
						t.Fatal(err)
					}
					defer func() { // whatever sessions come to
						synctest.Wait()
						if err := forward.s.endError(); !errors.Is(err, errNoStatus) {
							t.Errorf("the forward ended: %v", err)
						}
					}()
				}
				asked := newPending(s)
				ctx, leave := context.WithCancel(t.Context())
				defer leave()
				opened := make(chan error, 1)
				go func() {
					_, err := p.openStream(t.Context(), s.target(), sessionChannel)
					opened <- err
				}()
				synctest.Wait()
				second := ping(ctx, p, s.target())
				held := <-asked
				refuse(<-asked)
				synctest.Wait()
				third, leaveThird := context.WithCancel(t.Context())
				ended := ping(third, p, s.target())
				if n := len(asked); n > 0 || len(second) > 0 {
					t.Errorf("%d more were tried, %d given up", n, len(second))
				}
				leaveThird()
				<-ended
				tt.first(held)
				if err := <-opened; reasonOf(err) != tt.want {
					t.Errorf("the other one got %v", err)
				}
				synctest.Wait()
				if got := p.Stats().LimitsLearned; got != tt.learned {
					t.Errorf("%d limits were learned, want %d", got, tt.learned)
				}
				if tt.want == "" { // it waits for the other one to end
					if n := p.Stats().Waiting; n != 1 {
						t.Errorf("%d wait", n)
					}
					return
				}
				if err := <-second; reasonOf(err) != tt.want {
					t.Errorf("the refused one got %v", err)
				}
			})
		})
	}
}

// TestRefusingHostIsAskedAnew: a host that opens no session at all is not judged by its old connection once it was
// repaired, and that connection does not stay.
func TestRefusingHostIsAskedAnew(t *testing.T) {
	inBubble(t, Options{}, func(t *testing.T, p *Pool, s *peer, c *conn) {
		s.open = refuse
		err := p.Ping(t.Context(), s.target())
		if reasonOf(err) != ReasonSessionRefused || !strings.Contains(err.Error(), "open failed") {
			t.Errorf("got %v, which does not say what the host said", err)
		}
		if conns, hosts := left(p); conns != 0 || hosts != 0 {
			t.Errorf("%d connections to %d hosts are left", conns, hosts)
		}
		_ = s.conn.Wait() // the host has seen its end, too
	})
}

// TestHostThatStillCountsSessions: one that has opened sessions and refuses the next, though all of them are over for us, is asked
// over another connection.
func TestHostThatStillCountsSessions(t *testing.T) {
	d := &dials{fail: errors.New("no")}
	inBubble(t, Options{AllowAddress: d.allow}, func(t *testing.T, p *Pool, s *peer, _ *conn) {
		if err := p.Ping(t.Context(), s.target()); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		s.open = refuse
		if err := p.Ping(t.Context(), s.target()); reasonOf(err) != ReasonAddressRefused {
			t.Errorf("got %v, want the failure of another dial", err)
		}
		if conns, hosts := left(p); conns != 0 || hosts != 0 || p.Stats().LimitsLearned != 0 {
			t.Errorf("%d connections to %d hosts are left, %+v", conns, hosts, p.Stats())
		}
	})
}

// TestLateAnswers: what the host answers after its caller has left harms nobody, and a session that is opened then is
// closed again.
func TestLateAnswers(t *testing.T) {
	for name, answer := range map[string]func(ssh.NewChannel){"opened": accept, "refused": refuse} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, Options{}, func(t *testing.T, p *Pool, s *peer, _ *conn) {
				held := newPending(s)
				ctx, leave := context.WithCancel(t.Context())
				ended := ping(ctx, p, s.target())
				leave()
				if err := <-ended; reasonOf(err) != ReasonCanceled {
					t.Errorf("got %v", err)
				}
				if n := p.Stats().Sessions; n != 1 {
					t.Errorf("%d sessions are counted while the host may open one", n)
				}
				answer(<-held)
				synctest.Wait()
				if n := p.Stats().Sessions; n != 0 {
					t.Errorf("%d sessions are counted when none is open", n)
				}
			})
		})
	}
}

// TestBrokenConnection: a connection whose network has failed is not used again, and what the network said is passed on.
func TestBrokenConnection(t *testing.T) {
	t.Run("noticed by its user", func(t *testing.T) {
		inBubble(t, Options{}, func(t *testing.T, p *Pool, s *peer, c *conn) {
			c.wire.fail(io.ErrUnexpectedEOF) // and the library has not told yet
			err := p.Ping(t.Context(), s.target())
			if reasonOf(err) != ReasonConnectionLost || !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Errorf("got %v", err)
			}
			if st := p.Stats(); st.Connections != 0 || st.Lost != 1 {
				t.Errorf("it would be used again: %+v", st)
			}
		})
	})
	t.Run("noticed by its reader", func(t *testing.T) {
		inBubble(t, Options{}, func(t *testing.T, p *Pool, s *peer, c *conn) {
			session, err := p.openStream(t.Context(), s.target(), sessionChannel)
			if err != nil {
				t.Fatal(err)
			}
			c.wire.fail(io.ErrUnexpectedEOF)
			if err := session.endError(); err == nil || reasonOf(err) != ReasonConnectionLost || !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Errorf("got %v", err)
			}
		})
	})
	t.Run("noticed by itself", func(t *testing.T) {
		inBubble(t, Options{}, func(t *testing.T, p *Pool, s *peer, c *conn) {
			session, err := p.openStream(t.Context(), s.target(), sessionChannel)
			if err != nil {
				t.Fatal(err)
			}
			_ = s.raw.Close()
			<-session.ended
			if err := session.endError(); reasonOf(err) != ReasonConnectionLost || !errors.Is(err, io.EOF) || err.Address != "192.0.2.1:22" {
				t.Errorf("its user got %v", err)
			}
			p.wg.Wait()
			if conns, hosts := left(p); conns != 0 || hosts != 0 || p.Stats().Lost != 1 {
				t.Errorf("%d connections to %d hosts are left, %+v", conns, hosts, p.Stats())
			}
		})
	})
	t.Run("what is no SSH any more", func(t *testing.T) {
		inBubble(t, Options{}, func(t *testing.T, p *Pool, s *peer, c *conn) {
			session, err := p.openStream(t.Context(), s.target(), sessionChannel)
			if err != nil {
				t.Fatal(err)
			}
			_, _ = s.raw.Write(make([]byte, 1<<10))
			<-session.ended
			// There is no error of the network.
			if err := session.endError(); reasonOf(err) != ReasonConnectionLost || errors.Unwrap(err) == nil {
				t.Errorf("its user got %v, without a cause", err)
			}
		})
	})
}

// TestConnectionThatEndsBeforeItsUse: what was reserved on it is given back, and another may be tried.
func TestConnectionThatEndsBeforeItsUse(t *testing.T) {
	inBubble(t, Options{}, func(t *testing.T, p *Pool, s *peer, _ *conn) {
		c, err := p.acquire(t.Context(), s.target(), kindSession)
		if err != nil {
			t.Fatal(err)
		}
		_ = s.raw.Close()
		<-c.done
		if _, err := c.openStream(t.Context(), sessionChannel); !errors.Is(err, errTryAgain) {
			t.Errorf("got %v", err)
		}
		if c.used[kindSession] != 0 || c.opening != 0 {
			t.Errorf("%d sessions are counted, %d are being opened", c.used[kindSession], c.opening)
		}
	})
}

// TestLateConnection: one that is made while the pool is closed does not keep it from closing, nor stay.
func TestLateConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, s := New(Options{}), newPeer(t)
		e, err := s.login(p)
		if err != nil {
			t.Fatal(err)
		}
		p.mu.Lock()
		h := p.hostLocked(s.target())
		p.closed = true
		p.takeRoomLocked(h.key.namespace)
		p.adoptLocked(h, e, true)
		p.mu.Unlock()
		began := time.Now()
		p.wg.Wait()
		if d := time.Since(began); d != 0 {
			t.Errorf("it was closed after %s", d)
		}
		_ = p.Close()
		if conns, _ := left(p); conns != 0 {
			t.Error("it stayed")
		}
	})
}

// TestOldestIdleConnectionMakesRoom: of those that nobody uses the one goes that was not used for longest.
func TestOldestIdleConnectionMakesRoom(t *testing.T) {
	inBubble(t, Options{MaxConns: 2}, func(t *testing.T, p *Pool, s *peer, used *conn) {
		if err := p.Ping(t.Context(), s.target()); err != nil {
			t.Fatal(err)
		}
		pass(time.Minute)
		fresh, err := newPeer(t).join(p)
		if err != nil {
			t.Fatal(err)
		}
		p.mu.Lock()
		p.queued = append(p.queued, &claim{}) // another one waits for room
		p.makeRoomLocked()
		p.makeRoomLocked() // it has room already
		usedGoes, freshGoes := used.cause != nil, fresh.cause != nil
		p.queued = nil
		p.mu.Unlock()
		if !usedGoes || freshGoes {
			t.Errorf("the old one goes: %v, the new one: %v", usedGoes, freshGoes)
		}
		if p.Stats().IdleClosed != 1 {
			t.Errorf("%d were closed", p.Stats().IdleClosed)
		}
	})
}
