// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package identity

import (
	"context"
	"errors"
	"maps"
	"net/netip"
	"sync"
	"time"
)

const (
	// lookupTimeout bounds a lookup in DNS.
	lookupTimeout = 5 * time.Second
	// answerLifetime is how long what DNS has answered is used.
	answerLifetime = 30 * time.Second
	// maxAnswers bounds how many names are remembered, or looked up at the same time.
	maxAnswers = 1024
)

// RetryLookup is after how long who got [ErrLookingUp] asks again.
const RetryLookup = time.Second

// ErrLookingUp says that DNS has not answered yet.
var ErrLookingUp = errors.New("the name of the Node is being looked up in DNS")

// Background is a [Resolver] for workers, which must not wait for DNS: it looks a name up beside them, and
// answers with [ErrLookingUp] until it knows it. It is safe for concurrent use.
type Background struct {
	// Resolver is the one that waits.
	Resolver Resolver

	mu      sync.Mutex // guards what follows, and all answers
	answers map[string]*answer
}

// answer is what DNS says of a name.
type answer struct {
	addresses []netip.Addr
	err       error
	// until is when it expires. Zero: it is not there yet.
	until time.Time
}

// LookupNetIP implements [Resolver].
func (b *Background) LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	maps.DeleteFunc(b.answers, func(_ string, a *answer) bool { return !a.until.IsZero() && !time.Now().Before(a.until) })
	if a, ok := b.answers[host]; ok {
		if a.until.IsZero() {
			return nil, ErrLookingUp
		}
		return a.addresses, a.err
	}
	if len(b.answers) >= maxAnswers {
		return nil, ErrLookingUp // there is room in a moment
	}
	if b.answers == nil {
		b.answers = map[string]*answer{}
	}
	a := &answer{}
	b.answers[host] = a
	go func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lookupTimeout)
		defer cancel()
		addresses, err := b.Resolver.LookupNetIP(ctx, network, host)
		b.mu.Lock()
		defer b.mu.Unlock()
		a.addresses, a.err, a.until = addresses, err, time.Now().Add(answerLifetime)
	}()
	return nil, ErrLookingUp
}
