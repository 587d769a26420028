// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package agentclient

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
	"github.com/openshift/windows-instance-api/pkg/host/ssh"
	"github.com/openshift/windows-instance-api/test/winhost"
	"github.com/openshift/windows-instance-api/test/winhost/hosttest"
)

// pass lets time pass.
func pass(d time.Duration) {
	time.Sleep(d) //nolint:forbidigo // the time of the bubble
}

// TestWatch: what is heard ends a silence, what a caller does with it is none, and everything has an end.
func TestWatch(t *testing.T) {
	const silence, whole = 10 * time.Minute, 2 * time.Hour
	for _, tt := range []struct {
		name  string
		whole time.Duration
		use   func(*watch)
		took  time.Duration
		says  string
	}{
		{"silent", whole, func(*watch) {}, silence, "it reported nothing new for 10m0s"},
		{"heard once", whole, func(w *watch) { pass(9 * time.Minute); w.heard() }, 19 * time.Minute, "nothing new for 10m0s"},
		{"the caller is slow", whole, func(w *watch) { w.pause(); pass(time.Hour); w.heard() }, time.Hour + silence, "nothing new for 10m0s"},
		{"busy without an end", whole, func(w *watch) {
			for range 13 {
				pass(9 * time.Minute)
				w.heard()
			}
		}, whole, "it did not end within 2h0m0s"},
		{"busy, and may be", 0, func(w *watch) {
			for range 20 {
				pass(9 * time.Minute)
				w.heard()
			}
		}, 20*9*time.Minute + silence, "nothing new for 10m0s"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				ctx, w := newWatch(t.Context(), silence, tt.whole)
				defer w.end()
				if err := w.explain(io.EOF); err != io.EOF { //nolint:errorlint // as it is
					t.Errorf("before its end: %v", err)
				}
				go tt.use(w)
				<-ctx.Done()
				if took := time.Since(began); took != tt.took {
					t.Errorf("it ended after %s, want %s", took, tt.took)
				}
				err := w.explain(io.EOF)
				if hung := tt.took != tt.whole; hangs(context.Cause(ctx)) != hung {
					t.Errorf("it hangs: %v, want %v", !hung, hung)
				}
				if failed := (*Error)(nil); !errors.As(err, &failed) || failed.Step != StepRun || !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), tt.says) {
					t.Errorf("got %v", err)
				}
			})
		})
	}
	t.Run("ended", func(t *testing.T) {
		ctx, w := newWatch(t.Context(), time.Hour, time.Hour)
		w.end()
		if err := w.explain(io.EOF); ctx.Err() == nil || err != io.EOF { //nolint:errorlint // as it is
			t.Errorf("got %v, %v", ctx.Err(), err)
		}
	})
}

// TestSilenceAfterAnEvent: an agent that reported something and then nothing more is given up, too.
func TestSilenceAfterAnEvent(t *testing.T) {
	s := newSite(t, winhost.InProcessOptions{Command: func(ctx context.Context, c winhost.CommandLine) (uint32, bool) {
		_, _ = io.WriteString(c.Stdout, `{"event":{"item":"x","state":"Done"}}`+"\n")
		<-ctx.Done()
		return 1, true
	}})
	s.place(t, "hostile")
	s.client.patience.silence = 100 * time.Millisecond
	_, err := s.client.Cleanup(t.Context(), s.Instance, nil)
	if failed := (*Error)(nil); !errors.As(err, &failed) || failed.Step != StepRun || !strings.Contains(err.Error(), "nothing new for 100ms") {
		t.Errorf("got %v", err)
	}
	hosttest.Eventually(t, "the session is given back", func() bool { return s.Pool.Stats().Sessions == 0 })
}

// TestSilenceAtTheStart: a host on which the agent does not even start is silent as well.
func TestSilenceAtTheStart(t *testing.T) {
	s := newHostileSite(t, endless)
	s.SetFault(t, winhost.Fault{HangAtAccept: true})
	s.client.patience.silence = 100 * time.Millisecond
	_, err := s.client.runChange(t.Context(), mustTarget(t, s), "hostile", change{command: api.CommandCleanup})
	if failed := (*Error)(nil); !errors.As(err, &failed) || !strings.Contains(err.Error(), "nothing new for 100ms") {
		t.Errorf("got %v", err)
	}
}

// TestAgentThatDoesNotEnd: after its last word it is not waited for any longer than that.
func TestAgentThatDoesNotEnd(t *testing.T) {
	s := newSite(t, winhost.InProcessOptions{Command: func(ctx context.Context, c winhost.CommandLine) (uint32, bool) {
		_, _ = io.WriteString(c.Stdout, `{"result":{"outcome":"Failed","error":"x"}}`+"\n")
		<-ctx.Done()
		return 1, true
	}})
	s.place(t, "hostile")
	s.client.patience.end = 50 * time.Millisecond
	result, err := s.client.Cleanup(t.Context(), s.Instance, nil)
	if err != nil || result.Outcome != api.OutcomeFailed {
		t.Errorf("got %+v, %v", result, err)
	}
	hosttest.Eventually(t, "the session is given back", func() bool { return s.Pool.Stats().Sessions == 0 })
}

// TestRemoveTries: what is in use is tried again for a while, and what is gone need not be removed.
func TestRemoveTries(t *testing.T) {
	inUse := errors.New("in use")
	for _, tt := range []struct {
		name  string
		fails func(try int) error
		left  time.Duration // until the context ends
		tries int
		took  time.Duration
		want  error
	}{
		{"at once", func(int) error { return nil }, time.Hour, 1, 0, nil},
		{"gone already", func(int) error { return fs.ErrNotExist }, time.Hour, 1, 0, nil},
		{"the third time", func(try int) error {
			if try < 3 {
				return inUse
			}
			return nil
		}, time.Hour, 3, 500 * time.Millisecond, nil},
		{"in use for ever", func(int) error { return inUse }, time.Hour, 61, 15 * time.Second, inUse},
		{"the caller leaves", func(int) error { return inUse }, 600 * time.Millisecond, 3, 600 * time.Millisecond, inUse},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), tt.left)
				defer cancel()
				began, tries := time.Now(), 0
				r := &remover{ctx: ctx, until: began.Add(15 * time.Second)}
				err := r.try(func() error { tries++; return tt.fails(tries) })
				if !errors.Is(err, tt.want) || tries != tt.tries || time.Since(began) != tt.took {
					t.Errorf("after %d tries in %s: %v", tries, time.Since(began), err)
				}
			})
		})
	}
}

// TestLogPatience: a program that does not answer as the agent does is not waited for, and leaves nothing behind.
func TestLogPatience(t *testing.T) {
	for _, tt := range []struct {
		name     string
		patience patience
		says     string
		want     string // part of the error
		late     bool   // a deadline passed, so that it is not placed again
	}{
		{"silence", patience{header: 50 * time.Millisecond, failure: time.Hour}, "", "it did not answer within 50ms", true},
		{"nonsense", patience{header: time.Hour, failure: 50 * time.Millisecond}, "nonsense\n", "does not answer as the agent", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newSite(t, winhost.InProcessOptions{Command: func(ctx context.Context, c winhost.CommandLine) (uint32, bool) {
				_, _ = io.WriteString(c.Stdout, tt.says)
				<-ctx.Done()
				return 1, true
			}})
			s.client.patience = tt.patience
			_, err := s.client.openLog(t.Context(), mustTarget(t, s), "hostile", api.LogRequest{Follow: true})
			failed := (*Error)(nil)
			if !errors.As(err, &failed) || failed.Step != StepRun || errors.Is(err, context.DeadlineExceeded) != tt.late || mayBeGone(err) == tt.late || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
			if _, ofConnection := ssh.AsError(err); ofConnection {
				t.Errorf("%v is none of the connection", err)
			}
			hosttest.Eventually(t, "the session is given back", func() bool { return s.Pool.Stats().Sessions == 0 })
		})
	}
}
