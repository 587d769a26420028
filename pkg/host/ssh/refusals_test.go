// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package ssh

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"golang.org/x/crypto/ssh"
)

// newRefusals has each refusal in a row remembered for one minute more. The clock is that of the bubble.
func newRefusals() *Refusals {
	return NewRefusals(func(refusals int) time.Duration { return time.Duration(refusals) * time.Minute }, time.Now)
}

func behindBastion(owner, credential string) Target {
	return Target{Owner: owner, Bastion: &Bastion{Address: "192.0.2.10", User: "jump", Credential: Credential{ID: credential}}}
}

func bastionRefuses() error {
	return onBastion(&Error{Layer: LayerAuth, Reason: ReasonCredentialsRefused, Err: errors.New("no")}, "192.0.2.10:22")
}

func mustBegin(t *testing.T, r *Refusals, to Target) *attempt {
	t.Helper()
	a, err := r.begin(t.Context(), to, false)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// TestRefusalsWait: one tries for those who come meanwhile. They get what that one has found out, and the next one tries where it has given up.
func TestRefusalsWait(t *testing.T) {
	for _, tt := range []struct {
		name string
		err  error
		// giveUp: the one who tries has no time any more.
		giveUp bool
		// want is what the others get. Empty: one of them tries.
		want Reason
	}{
		{name: "refused", err: bastionRefuses(), want: ReasonCredentialsRefused},
		{name: "unreachable", err: onBastion(&Error{Layer: LayerConnect, Reason: ReasonConnectionRefused}, "192.0.2.10:22"), want: ReasonConnectionRefused},
		{name: "given up", err: &Error{Layer: LayerBastion, Reason: ReasonCanceled}, giveUp: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRefusals()
				ctx, cancel := context.WithCancel(t.Context())
				first := mustBegin(t, r, behindBastion("win-1", "1"))
				type result struct {
					a   *attempt
					err error
				}
				results := make(chan result, 2)
				for _, owner := range []string{"win-2", "win-3"} {
					go func() {
						a, err := r.begin(t.Context(), behindBastion(owner, "1"), false)
						results <- result{a, err}
					}()
				}
				impatient := make(chan error, 1)
				go func() {
					_, err := r.begin(ctx, behindBastion("win-4", "1"), false)
					impatient <- err
				}()
				synctest.Wait()
				if len(results) > 0 {
					t.Fatal("somebody does not wait")
				}
				cancel()
				if err := <-impatient; reasonOf(err) != ReasonCanceled {
					t.Errorf("who gave up got %v", err)
				}
				of := t.Context()
				if tt.giveUp {
					of = ctx
				}
				_ = r.end(of, first, tt.err)
				synctest.Wait()
				if tt.want == "" {
					one := <-results
					if one.err != nil || len(results) > 0 {
						t.Fatalf("nobody tries in its place, or both do: %v", one.err)
					}
					_ = r.end(t.Context(), one.a, nil)
					if other := <-results; other.err != nil || other.a.over != nil {
						t.Errorf("after one was let in: %v", other.err)
					} else {
						_ = r.end(t.Context(), other.a, nil)
					}
					return
				}
				for range 2 {
					if got := <-results; reasonOf(got.err) != tt.want {
						t.Errorf("got %v, want %s", got.err, tt.want)
					}
				}
			})
		})
	}
}

// TestRefusalsOfSeveral: logins that are under way when the first of them is refused are no further refusals, those that have not begun are
// not made, and that one of them had worked is no news.
func TestRefusalsOfSeveral(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRefusals()
		to := behindBastion("win-1", "1")
		_ = r.end(t.Context(), mustBegin(t, r, to), nil)
		first, second, third, late := mustBegin(t, r, to), mustBegin(t, r, to), mustBegin(t, r, to), mustBegin(t, r, to)
		for _, a := range []*attempt{first, second, third} {
			if !r.stands(a) {
				t.Fatal("it works, and somebody waits")
			}
		}
		for _, a := range []*attempt{first, second} {
			e, _ := AsError(r.end(t.Context(), a, bastionRefuses()))
			if at := time.Now().Add(time.Minute); !e.RetryAt.Equal(at) {
				t.Errorf("tried again at %s, want %s", e.RetryAt, at)
			}
		}
		if r.stands(late) {
			t.Error("it is tried once more")
		}
		_ = r.end(t.Context(), third, nil)
		if _, err := r.begin(t.Context(), to, false); reasonOf(err) != ReasonCredentialsRefused {
			t.Errorf("got %v", err)
		}
	})
}

// TestRefusalsAreBounded: whoever names many bastions has no other one forgotten, and what is known of none takes no room.
func TestRefusalsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRefusals()
		_ = r.end(t.Context(), mustBegin(t, r, behindBastion("win-1", "1")), bastionRefuses())
		_ = r.end(t.Context(), mustBegin(t, r, behindBastion("win-1", "works")), nil)
		for i := range 3 * maxLogins {
			time.Sleep(time.Millisecond) //nolint:forbidigo // the clock of the bubble
			_ = r.end(t.Context(), mustBegin(t, r, behindBastion("win-2", fmt.Sprintf("other %d", i))), bastionRefuses())
			if _, err := r.begin(t.Context(), behindBastion("win-1", "1"), false); reasonOf(err) != ReasonCredentialsRefused {
				t.Fatalf("after %d others: %v", i, err)
			}
		}
		if n := len(r.logins); n != maxLogins {
			t.Errorf("%d are remembered, want %d", n, maxLogins)
		}
		for _, l := range r.logins {
			if l.open || l.users > 0 {
				t.Errorf("%+v is remembered", l)
			}
		}
	})
	synctest.Test(t, func(t *testing.T) {
		r := newRefusals()
		_ = r.end(t.Context(), mustBegin(t, r, behindBastion("win-1", "1")), onBastion(&Error{Layer: LayerConnect, Reason: ReasonConnectionRefused}, "192.0.2.10:22"))
		if n := len(r.logins); n != 0 {
			t.Errorf("%d are remembered", n)
		}
	})
}

// TestRefusalsAreSmall: how much a bastion says when it refuses a login is up to who runs it, and as many are remembered as there are Secrets.
func TestRefusalsAreSmall(t *testing.T) {
	const most = 4 << 10
	methods := make([]string, 200_000)
	for i := range methods {
		methods[i] = strings.Repeat("x", 200)
	}
	offering := &authenticator{user: "jump", wire: &wire{}}
	_, refusal := offering.next(&ssh.ClientAuthContext{AllowedMethods: methods})
	if n := len(refusal.Error()); n > most {
		t.Errorf("a long list of methods is an error of %d bytes", n)
	}
	if kept := refusal.(*credentialsRefusedError).accepted; len(kept) > maxMethods+1 { //nolint:errorlint // it is what next returns
		t.Errorf("%d methods are kept", len(kept))
	}
	for name, cause := range map[string]error{
		"methods": &credentialsRefusedError{user: "jump", accepted: methods},
		"text":    errors.New(strings.Repeat("ü", 128<<10)),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRefusals()
				met := onBastion(&Error{Layer: LayerAuth, Reason: ReasonCredentialsRefused, Err: cause, Remark: strings.Repeat("x", 1<<16)}, "192.0.2.10:22")
				first := r.end(t.Context(), mustBegin(t, r, behindBastion("win-1", "1")), met)
				_, next := r.begin(t.Context(), behindBastion("win-2", "1"), false)
				failed, ok := AsError(next)
				if !ok || failed.Reason != ReasonCredentialsRefused || failed.OnBastion() == nil || failed.OnBastion().Layer != LayerAuth || failed.Error() == "" {
					t.Fatalf("got %v", next)
				}
				if n := len(next.Error()); n > most || !utf8.ValidString(next.Error()) {
					t.Errorf("%d bytes are remembered", n)
				}
				if errors.Is(next, cause) {
					t.Error("what the bastion said is remembered as a whole")
				}
				for _, l := range r.logins {
					if l.refused.Remark != "" || l.refused.OnBastion().Remark != "" {
						t.Error("a remark is remembered, which is that of the next one's credential")
					}
				}
				// Conditions have the message: the same cause is to be the same text for all.
				if first, _ := AsError(first); first.OnBastion().Err.Error() != failed.OnBastion().Err.Error() {
					t.Error("the first one is told something else than the others")
				}
			})
		})
	}
}
