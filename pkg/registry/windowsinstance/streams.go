// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package windowsinstance

import (
	"context"
	"fmt"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// StreamLimits bound the log streams that are open at one time. 0 means no limit.
type StreamLimits struct {
	PerHost int // on one host
	PerUser int // by one user
	Total   int // by this server
}

// retryAfterSeconds is what a refused client is told to wait: streams end when
// people are done reading, which nobody can foretell.
const retryAfterSeconds = 5

// Streams counts and ends the open log streams of this server. Such requests are
// exempt from the server's own limits and from its graceful stop, so that both is
// done here. It is safe for concurrent use.
type Streams struct {
	limits StreamLimits

	mu       sync.Mutex // guards what follows
	perHost  map[string]int
	perUser  map[string]int
	open     map[*openStream]struct{}
	pending  int // admitted, not yet open
	draining bool
	changed  chan struct{} // closed and replaced when a stream goes away
}

// openStream is one stream that is being read.
type openStream struct {
	stop func()
}

// NewStreams returns a Streams without any stream.
func NewStreams(limits StreamLimits) *Streams {
	return &Streams{
		limits:  limits,
		perHost: map[string]int{},
		perUser: map[string]int{},
		open:    map[*openStream]struct{}{},
		changed: make(chan struct{}),
	}
}

// admit counts a stream of user on host, or refuses it: 429 when a limit is
// reached, 503 when the server is stopping. The returned release must be called
// once, when the stream is over.
func (s *Streams) admit(host, user string) (release func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.draining:
		return nil, apierrors.NewServiceUnavailable("the server is shutting down: try again, another one will answer")
	case reached(s.limits.Total, s.pending+len(s.open)):
		return nil, apierrors.NewTooManyRequests(fmt.Sprintf("this server streams %d logs, which is its limit", s.limits.Total), retryAfterSeconds)
	case reached(s.limits.PerHost, s.perHost[host]):
		return nil, apierrors.NewTooManyRequests(fmt.Sprintf("%d logs of this host are being streamed, which is the limit for one host", s.limits.PerHost), retryAfterSeconds)
	case reached(s.limits.PerUser, s.perUser[user]):
		return nil, apierrors.NewTooManyRequests(fmt.Sprintf("you are streaming %d logs, which is the limit for one user", s.limits.PerUser), retryAfterSeconds)
	}
	s.perHost[host]++
	s.perUser[user]++
	s.pending++
	return sync.OnceFunc(func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		decrement(s.perHost, host)
		decrement(s.perUser, user)
		s.pending--
		s.notify()
	}), nil
}

// track makes an admitted stream one that Drain ends through stop. The returned
// function must be called once, when the stream is over, before its release.
func (s *Streams) track(stop func()) (untrack func()) {
	stream := &openStream{stop: stop}
	s.mu.Lock()
	s.open[stream] = struct{}{}
	s.pending-- // counted in open from now on
	draining := s.draining
	s.mu.Unlock()
	if draining {
		stop()
	}
	return sync.OnceFunc(func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.open, stream)
		s.pending++
		s.notify()
	})
}

// notify tells Drain that something went away; s.mu is held.
func (s *Streams) notify() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// Open is the number of streams that are open or being opened.
func (s *Streams) Open() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.pending + len(s.open)
}

// Drain admits no stream any more, asks all to end in good order, and waits until
// they have, or ctx is done.
func (s *Streams) Drain(ctx context.Context) error {
	s.mu.Lock()
	s.draining = true
	stops := make([]func(), 0, len(s.open))
	for stream := range s.open {
		stops = append(stops, stream.stop)
	}
	s.mu.Unlock()
	for _, stop := range stops {
		stop()
	}
	for {
		s.mu.Lock()
		left, changed := s.pending+len(s.open), s.changed
		s.mu.Unlock()
		if left == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%d log streams did not end in time: %w", left, ctx.Err())
		case <-changed:
		}
	}
}

func reached(limit, n int) bool { return limit > 0 && n >= limit }

func decrement(m map[string]int, key string) {
	if m[key]--; m[key] == 0 {
		delete(m, key)
	}
}
