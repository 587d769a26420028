// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package limits

import (
	"context"
	"fmt"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
)

// Limits bound the streams of one kind that are open at one time. A port forward counts
// once for each of its ports. 0 means no limit.
type Limits struct {
	PerHost        int // on one host
	PerUser        int // by one user
	PerUserAndHost int // by one user on one host, so that nobody keeps all others from it
	PerNamespace   int // on the hosts of one namespace, if no other one has any, see leaves; whoever reads: who has one makes users at will
	Total          int // by this server
}

// Negative says whether any of the limits is.
func (l Limits) Negative() bool {
	return min(l.PerHost, l.PerUser, l.PerUserAndHost, l.PerNamespace, l.Total) < 0
}

// Kind is what a stream is for. Each kind has limits of its own, so that many
// readers of logs do not keep out who has to repair a host. Its value is its name in messages,
// in the plural.
type Kind string

// The kinds of streams.
const (
	Logs        Kind = "logs"
	Exec        Kind = "exec sessions"
	PortForward Kind = "port forwards"
	// Query is what asks a host, and is over when it has answered.
	Query Kind = "checks, inspections and dry runs"
)

// retryAfterSeconds is the Retry-After of a refusal: when a stream ends cannot be
// predicted.
const retryAfterSeconds = 5

// Streams counts and ends the open streams of this server. Such requests are
// exempt from the server's own limits and from its graceful stop, so that both is
// done here. It is safe for concurrent use.
type Streams struct {
	mu       sync.Mutex // guards what follows
	kinds    map[Kind]*kindOfStreams
	open     map[*Stream]struct{} // or about to be
	draining bool
	cutting  bool          // the time in which streams may end in good order is over
	changed  chan struct{} // closed and replaced when a stream ends
}

// kindOfStreams counts the connections of the admitted streams of a kind.
type kindOfStreams struct {
	limits Limits
	counts map[share]int
}

// share is who or what has a limit: the server, if all is empty.
type share struct{ namespace, host, user string }

// shares are those that a stream counts for.
func (k *kindOfStreams) shares(at types.NamespacedName, user string) []struct {
	share
	limit  int
	refuse string
} {
	return []struct {
		share
		limit  int
		refuse string
	}{
		{share{}, k.limits.Total, "this server serves at most %d %s at one time"},
		{share{namespace: at.Namespace}, k.limits.PerNamespace, "at most %d %s of the hosts of one namespace may be open"},
		{share{namespace: at.Namespace, host: at.Name}, k.limits.PerHost, "at most %d %s of one host may be open"},
		{share{user: user}, k.limits.PerUser, "at most %d %s of one user may be open"},
		{share{namespace: at.Namespace, host: at.Name, user: user}, k.limits.PerUserAndHost, "at most %d %s of one host may be open for one user"},
	}
}

// New returns a Streams without any stream. A kind without limits in the map
// has none.
func New(limits map[Kind]Limits) *Streams {
	s := &Streams{
		kinds:   map[Kind]*kindOfStreams{},
		open:    map[*Stream]struct{}{},
		changed: make(chan struct{}),
	}
	for _, kind := range []Kind{Logs, Exec, PortForward, Query} {
		s.kinds[kind] = &kindOfStreams{limits: limits[kind], counts: map[share]int{}}
	}
	return s
}

// Stream is one that was admitted.
type Stream struct {
	streams *Streams
	stop    func() // ends it in good order; nil when nothing does
	cut     func() // breaks it off; nil when nothing does
	give    func() // back what it has of the limits
}

// Admit counts a stream of user with the host of an instance, with as many connections as it has to the
// host, or refuses it: 429 when it would exceed a limit, 503 when the server is stopping.
func (s *Streams) Admit(kind Kind, at types.NamespacedName, user string, connections int) (*Stream, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.draining {
		return nil, apierrors.NewServiceUnavailable("the server is shutting down: try again, another one will answer")
	}
	k := s.kinds[kind]
	shares := k.shares(at, user)
	for _, of := range shares {
		if exceeded(of.limit, k.counts[of.share]+connections) {
			return nil, apierrors.NewTooManyRequests(fmt.Sprintf(of.refuse+", and this would be more", of.limit, kind), retryAfterSeconds)
		}
	}
	if !k.leaves(at.Namespace, connections) {
		return nil, apierrors.NewTooManyRequests(fmt.Sprintf(
			"the hosts of namespace %s have as many of the %s of this server as it leaves to one namespace while others have theirs, %d, and this would be more",
			at.Namespace, kind, k.counts[share{namespace: at.Namespace}]), retryAfterSeconds)
	}
	for _, of := range shares {
		k.counts[of.share] += connections
	}
	admitted := &Stream{streams: s, give: func() {
		for _, of := range shares {
			if k.counts[of.share] -= connections; k.counts[of.share] == 0 {
				delete(k.counts, of.share)
			}
		}
	}}
	s.open[admitted] = struct{}{}
	return admitted, nil
}

// OnDrain has stop end the stream in good order when the server stops, or now when it does already. If it has not ended in time
// after that, which for one that is opened later is no time at all, cut breaks it off; nil: nothing does.
func (s *Stream) OnDrain(stop, cut func()) {
	s.streams.mu.Lock()
	s.stop, s.cut = stop, cut
	draining, cutting := s.streams.draining, s.streams.cutting
	s.streams.mu.Unlock()
	if draining {
		stop()
	}
	if cutting && cut != nil {
		cut()
	}
}

// Release must be called when the stream is over. More calls do nothing.
func (s *Stream) Release() {
	all := s.streams
	all.mu.Lock()
	defer all.mu.Unlock()
	if _, open := all.open[s]; !open {
		return
	}
	delete(all.open, s)
	s.give()
	close(all.changed)
	all.changed = make(chan struct{})
}

// Open is the number of streams that are open or being opened.
func (s *Streams) Open() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.open)
}

// Drain admits no stream any more, asks all to end in good order, and waits until
// they have. Those that have not when ctx is done are broken off, which the error says.
func (s *Streams) Drain(ctx context.Context) error {
	s.mu.Lock()
	s.draining = true
	s.mu.Unlock()
	s.each(func(stream *Stream) func() { return stream.stop })
	for {
		s.mu.Lock()
		left, changed := len(s.open), s.changed
		s.mu.Unlock()
		if left == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			s.mu.Lock()
			s.cutting = true
			s.mu.Unlock()
			s.each(func(stream *Stream) func() { return stream.cut })
			return fmt.Errorf("%d streams did not end in time: %w", left, ctx.Err())
		case <-changed:
		}
	}
}

// each calls, outside of the lock, what of has of each open stream.
func (s *Streams) each(of func(*Stream) func()) {
	s.mu.Lock()
	var calls []func()
	for stream := range s.open {
		if call := of(stream); call != nil {
			calls = append(calls, call)
		}
	}
	s.mu.Unlock()
	for _, call := range calls {
		call()
	}
}

// leaves says whether a namespace that gets as many more leaves enough for others. It may have of what is free
// and its own the part that it would have alone of all, and half in any case. So each namespace that has as many as
// it may leaves a part of what was free, and it takes several to keep another one from its first stream, not two.
func (k *kindOfStreams) leaves(namespace string, more int) bool {
	l := k.limits
	if l.Total == 0 || l.PerNamespace == 0 {
		return true
	}
	has, free := k.counts[share{namespace: namespace}]+more, l.Total-k.counts[share{}]-more
	part, rest := l.PerNamespace, l.Total-l.PerNamespace
	if part < rest {
		part, rest = 1, 1
	}
	return has*rest <= part*free
}

func exceeded(limit, n int) bool { return limit > 0 && n > limit }
