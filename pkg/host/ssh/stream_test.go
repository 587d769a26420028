// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package ssh

import (
	"context"
	"errors"
	"io"
	"slices"
	"testing"
	"testing/synctest"

	"golang.org/x/crypto/ssh"
)

// opened is a session as the peer has it.
type opened struct {
	ssh.Channel
	requests <-chan *ssh.Request
}

// openTo opens a session to a peer that leaves it to the test.
func openTo(t *testing.T, p *Pool, s *peer) (*stream, opened) {
	t.Helper()
	far := make(chan opened, 1)
	s.open = func(n ssh.NewChannel) {
		channel, requests, err := n.Accept()
		if err != nil {
			t.Error(err)
		}
		far <- opened{channel, requests}
	}
	near, err := p.openStream(t.Context(), s.target(), sessionChannel)
	if err != nil {
		t.Fatal(err)
	}
	return near, <-far
}

// TestHowACommandEnded is what the host said first, as long as we have not closed the session and the message can be read.
func TestHowACommandEnded(t *testing.T) {
	type message struct {
		name    string
		payload any
	}
	status := func(code uint32) message { return message{"exit-status", struct{ Code uint32 }{code}} }
	signal := func(name string) message {
		return message{"exit-signal", struct {
			Signal         string
			Dumped         bool
			Text, Language string
		}{Signal: name}}
	}
	for _, tt := range []struct {
		name   string
		closed bool // by us, before
		says   []message
		want   *ExitError // nil: success
		lost   Reason     // the end is not known, for this reason
	}{
		{"success", false, []message{status(0)}, nil, ""},
		{"failure", false, []message{status(5)}, &ExitError{Code: 5}, ""},
		{"two", false, []message{status(5), status(0), signal("KILL")}, &ExitError{Code: 5}, ""},
		{"a signal", false, []message{signal("TERM"), status(0)}, &ExitError{Code: 143, Signal: "TERM"}, ""},
		{"a signal of its own", false, []message{signal("WINCH")}, &ExitError{Code: 128, Signal: "WINCH"}, ""},
		{"what cannot be read", false, []message{{"exit-status", struct{ Code string }{"x"}}, {"exit-signal", struct{ Code uint32 }{9}}, status(6)}, &ExitError{Code: 6}, ""},
		{"nothing", false, nil, nil, ReasonConnectionLost},
		{"after we closed it", true, []message{status(0)}, nil, ReasonSessionClosed},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, Options{}, func(t *testing.T, p *Pool, s *peer, _ *conn) {
				near, far := openTo(t, p, s)
				go ssh.DiscardRequests(far.requests)
				if tt.closed {
					near.closeByCaller()
				}
				for _, m := range tt.says {
					_, _ = far.SendRequest(m.name, false, ssh.Marshal(m.payload))
				}
				_ = far.Close()
				err := (&Process{near}).Wait()
				var exit *ExitError
				switch {
				case tt.lost != "":
					if reasonOf(err) != tt.lost {
						t.Errorf("got %v, want %s", err, tt.lost)
					}
				case tt.want == nil:
					if err != nil {
						t.Errorf("got %v", err)
					}
				case !errors.As(err, &exit) || *exit != *tt.want:
					t.Errorf("got %v, want %v", err, tt.want)
				}
			})
		})
	}
}

// TestWhatAHostAsksOfUs is refused, and answered, so that it does not wait.
func TestWhatAHostAsksOfUs(t *testing.T) {
	inBubble(t, Options{}, func(t *testing.T, p *Pool, s *peer, _ *conn) {
		near, far := openTo(t, p, s)
		if ok, err := far.SendRequest("env", true, nil); ok || err != nil {
			t.Errorf("a request about a session: %v, %v", ok, err)
		}
		if ok, _, err := s.conn.SendRequest("tcpip-forward", true, nil); ok || err != nil {
			t.Errorf("a request about the connection: %v, %v", ok, err)
		}
		_, _, err := s.conn.OpenChannel("forwarded-tcpip", nil)
		if refused := (*ssh.OpenChannelError)(nil); !errors.As(err, &refused) || refused.Reason != ssh.Prohibited {
			t.Errorf("a channel to us: %v", err)
		}
		near.closeByCaller()
	})
}

// TestHangUp: a command that runs is told to end before its session is closed; what is none is only closed.
func TestHangUp(t *testing.T) {
	for _, running := range []bool{true, false} {
		inBubble(t, Options{}, func(t *testing.T, p *Pool, s *peer, _ *conn) {
			near, far := openTo(t, p, s)
			if running {
				go func() {
					r := <-far.requests
					_ = r.Reply(true, nil)
				}()
				if err := near.run(t.Context(), "ping -t", nil); err != nil {
					t.Fatal(err)
				}
			}
			near.closeByCaller()
			var got []string
			for r := range far.requests {
				got = append(got, r.Type)
			}
			if (len(got) == 1 && got[0] == "signal") != running || !running && len(got) > 0 {
				t.Errorf("running %v: the host got %q", running, got)
			}
			synctest.Wait()
			if st := p.Stats(); st.Sessions != 0 || st.Idle != 1 {
				t.Errorf("it was not given back: %+v", st)
			}
		})
	}
}

// TestLastingCommand: a command that is to get to its end is told nothing when its session is closed, unless it hangs.
func TestLastingCommand(t *testing.T) {
	errHangs := errors.New("it hangs")
	for _, tt := range []struct {
		name  string
		close func(p *Process, cancel context.CancelCauseFunc)
		want  []string
	}{
		{"its caller left", func(_ *Process, cancel context.CancelCauseFunc) { cancel(nil) }, nil},
		{"it was closed", func(p *Process, _ context.CancelCauseFunc) { _ = p.Close() }, nil},
		{"it hangs", func(_ *Process, cancel context.CancelCauseFunc) { cancel(errHangs) }, []string{"signal"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, Options{}, func(t *testing.T, p *Pool, s *peer, _ *conn) {
				far := make(chan opened, 1)
				s.open = func(n ssh.NewChannel) {
					channel, requests, err := n.Accept()
					if err != nil {
						t.Error(err)
					}
					_ = (<-requests).Reply(true, nil)
					far <- opened{channel, requests}
				}
				ctx, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				process, err := p.StartLasting(ctx, s.target(), "agent apply", func(cause error) bool { return errors.Is(cause, errHangs) })
				if err != nil {
					t.Fatal(err)
				}
				tt.close(process, cancel)
				var got []string
				for r := range (<-far).requests {
					got = append(got, r.Type)
				}
				if !slices.Equal(got, tt.want) {
					t.Errorf("the host got %q, want %q", got, tt.want)
				}
				if err := process.Wait(); err == nil {
					t.Error("its end is known")
				}
			})
		})
	}
}

// TestClosedStream: whoever waits for one is told that it was closed, and by whom, and what is written to it then goes nowhere.
func TestClosedStream(t *testing.T) {
	inBubble(t, Options{}, func(t *testing.T, p *Pool, s *peer, _ *conn) {
		near, far := openTo(t, p, s)
		go ssh.DiscardRequests(far.requests)
		read := make(chan error, 1)
		go func() {
			_, err := near.stdout.Read(make([]byte, 1))
			read <- err
		}()
		synctest.Wait()
		near.closeByCaller()
		near.close(near.conn.lost(io.EOF)) // the first reason counts
		_, written := near.stdin.Write([]byte("x"))
		for what, err := range map[string]error{"a read that waited": <-read, "a write": written, "its end": near.stdin.Close(), "its user": near.endError()} {
			if reasonOf(err) != ReasonSessionClosed {
				t.Errorf("%s got %v", what, err)
			}
		}
	})
}

// TestEndOfInput: an end that was said already is not said again, and nothing follows it.
func TestEndOfInput(t *testing.T) {
	inBubble(t, Options{}, func(t *testing.T, p *Pool, s *peer, _ *conn) {
		near, far := openTo(t, p, s)
		go ssh.DiscardRequests(far.requests)
		if n, err := near.stdin.Write([]byte("all")); n != 3 || err != nil {
			t.Errorf("wrote %d, %v", n, err)
		}
		for range 2 {
			if err := near.stdin.Close(); err != nil {
				t.Error(err)
			}
		}
		if _, err := near.stdin.Write([]byte("more")); !errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("after the end: %v", err)
		}
		if got, err := io.ReadAll(far); err != nil || string(got) != "all" {
			t.Errorf("the host got %q, %v", got, err)
		}
		_ = far.Close()
		<-near.ended
		if _, err := near.stdout.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
			t.Errorf("the end of output is %v", err)
		}
	})
	inBubble(t, Options{}, func(t *testing.T, p *Pool, s *peer, _ *conn) {
		near, far := openTo(t, p, s)
		_ = far.Close() // needs no input
		<-near.ended
		if _, err := near.stdin.Write([]byte("x")); !errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("input that is not needed: %v", err)
		}
		if err := near.stdin.Close(); err != nil {
			t.Errorf("its end: %v", err)
		}
	})
}

// TestCloseWaits: nothing of a pool is left when Close returns.
func TestCloseWaits(t *testing.T) {
	inBubble(t, Options{}, func(t *testing.T, p *Pool, s *peer, _ *conn) {
		near, _ := openTo(t, p, s)
		_ = p.Close()
		p.mu.Lock()
		open, retired := p.total.open, near.conn.host.retired
		p.mu.Unlock()
		if open != 0 || len(retired) != 0 {
			t.Errorf("%d connections are left", open)
		}
		if err := near.endError(); reasonOf(err) != ReasonPoolClosed || err.Address == "" {
			t.Errorf("its user got %v", err)
		}
	})
}

// TestForgottenConnection: who used it is told, with the address that it led to.
func TestForgottenConnection(t *testing.T) {
	inBubble(t, Options{}, func(t *testing.T, p *Pool, s *peer, c *conn) {
		p.Forget(s.target().Owner)
		if err := c.loss(); !errors.Is(err, errForgotten) || err.Address != "192.0.2.1:22" {
			t.Errorf("got %v", err)
		}
		if n := p.Stats().Connections; n != 0 {
			t.Errorf("%d connections are left", n)
		}
	})
}
