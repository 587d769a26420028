// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package transfer

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync"

	"golang.org/x/time/rate"

	"github.com/openshift/windows-instance-api/pkg/host/ssh"
)

// minBurst is the smallest burst of a limit: a little more than the 32 KiB of
// an SFTP request, whose size the limit must not exceed.
const minBurst = 64 << 10

// newLimit returns a limit of bytes per second; nil if there is to be none. Up to a tenth
// of a second's worth goes out at once.
func newLimit(bytesPerSecond int64) *rate.Limiter {
	if bytesPerSecond <= 0 {
		return nil
	}
	return rate.NewLimiter(rate.Limit(bytesPerSecond), int(max(minBurst, bytesPerSecond/10)))
}

// limited is a reader that is read no faster than its limits allow.
type limited struct {
	ctx    context.Context
	r      io.Reader
	limits []*rate.Limiter
	// err is an error of waiting, to tell it from one of writing.
	err error
}

func (l *limited) Read(b []byte) (int, error) {
	n, err := l.r.Read(b[:min(len(b), minBurst)])
	for _, limit := range l.limits {
		if limit == nil || n == 0 {
			continue
		}
		if wait := limit.WaitN(l.ctx, n); wait != nil {
			l.err = fmt.Errorf("waiting for the bandwidth limit: %w", wait)
			return 0, l.err
		}
	}
	return n, err
}

// hosts are the hosts to which something is being transferred.
type hosts struct {
	bytesPerSecond int64

	mu sync.Mutex // guards what follows
	m  map[string]*host
}

// host is what the transfers to one host share.
type host struct {
	limit *rate.Limiter
	slot  chan struct{} // has an element while a transfer is running
	users int           // guarded by hosts.mu
}

// place is where a target is. The same address is that of another host behind another bastion.
func place(t ssh.Target) string {
	at := t.Endpoint()
	if t.Bastion != nil {
		at += " through " + t.Bastion.Endpoint()
	}
	return strings.ToLower(at)
}

// enter waits until no other transfer to the host is running. leave must be called at the end.
func (h *hosts) enter(ctx context.Context, t ssh.Target) (_ *host, leave func(), _ error) {
	key := place(t)
	h.mu.Lock()
	one := h.m[key]
	if one == nil {
		one = &host{limit: newLimit(h.bytesPerSecond), slot: make(chan struct{}, 1)}
		h.m[key] = one
	}
	one.users++
	h.mu.Unlock()
	gone := func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		if one.users--; one.users == 0 {
			delete(h.m, key)
		}
	}
	select {
	case one.slot <- struct{}{}:
		return one, func() { <-one.slot; gone() }, nil
	case <-ctx.Done():
		gone()
		return nil, nil, context.Cause(ctx)
	}
}
