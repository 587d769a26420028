// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package identity

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"
)

// slow is a Resolver that answers when the time of its caller is up, but for one name.
type slow struct{ asked map[string]int }

func (s slow) LookupNetIP(ctx context.Context, _, host string) ([]netip.Addr, error) {
	s.asked[host]++
	if host == "win-1.example.com." {
		return []netip.Addr{netip.MustParseAddr("10.0.0.5")}, nil
	}
	<-ctx.Done()
	return nil, ctx.Err()
}

// TestBackgroundKeepsNobodyWaiting: a name that does not resolve is looked up beside who asks, and others
// are answered meanwhile.
func TestBackgroundKeepsNobodyWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dns := slow{map[string]int{}}
		b := &Background{Resolver: dns}
		began := time.Now()
		for _, name := range []string{"hangs.example.com.", "win-1.example.com.", "hangs.example.com."} {
			if _, err := b.LookupNetIP(t.Context(), "ip", name); !errors.Is(err, ErrLookingUp) {
				t.Errorf("%s, the first time: %v", name, err)
			}
			synctest.Wait()
		}
		if got, err := b.LookupNetIP(t.Context(), "ip", "win-1.example.com."); err != nil || len(got) != 1 || got[0].String() != "10.0.0.5" {
			t.Errorf("got %v, %v", got, err)
		}
		if took := time.Since(began); took != 0 {
			t.Errorf("it took %s", took)
		}
		<-time.After(lookupTimeout + time.Nanosecond)
		synctest.Wait()
		if _, err := b.LookupNetIP(t.Context(), "ip", "hangs.example.com."); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("when DNS had its time: %v", err)
		}
		<-time.After(answerLifetime)
		if _, err := b.LookupNetIP(t.Context(), "ip", "win-1.example.com."); !errors.Is(err, ErrLookingUp) {
			t.Errorf("an answer that is too old: %v", err)
		}
		synctest.Wait()
		if dns.asked["win-1.example.com."] != 2 || dns.asked["hangs.example.com."] != 1 {
			t.Errorf("DNS was asked %v", dns.asked)
		}
	})
}

// TestBackgroundIsBounded: names that nobody needs any more are forgotten, and there is a limit to the others.
func TestBackgroundIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &Background{Resolver: dns{}}
		for i := range maxAnswers + 1 {
			if _, err := b.LookupNetIP(t.Context(), "ip", fmt.Sprint(i)); !errors.Is(err, ErrLookingUp) {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		if len(b.answers) != maxAnswers {
			t.Errorf("%d names are remembered", len(b.answers))
		}
		<-time.After(answerLifetime)
		_, _ = b.LookupNetIP(t.Context(), "ip", "one more")
		synctest.Wait()
		if _, err := b.LookupNetIP(t.Context(), "ip", "one more"); errors.Is(err, ErrLookingUp) || len(b.answers) != 1 {
			t.Errorf("%v, with %d names remembered", err, len(b.answers))
		}
	})
}
