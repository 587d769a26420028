// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package windowsinstance

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
)

// StreamLimits bound the streams of one kind that are open at one time. A port forward counts
// once for each of its ports. 0 means no limit.
type StreamLimits struct {
	PerHost        int // on one host
	PerUser        int // by one user
	PerUserAndHost int // by one user on one host, so that nobody keeps all others from it
	PerNamespace   int // on the hosts of one namespace, whoever reads: who has one makes users at will
	Total          int // by this server
}

// Negative says whether any of the limits is.
func (l StreamLimits) Negative() bool {
	return min(l.PerHost, l.PerUser, l.PerUserAndHost, l.PerNamespace, l.Total) < 0
}

// StreamKind is what a stream is for. Each kind has limits of its own, so that many
// readers of logs do not keep out who has to repair a host. Its value is its name in messages,
// in the plural.
type StreamKind string

// The kinds of streams.
const (
	StreamLogs        StreamKind = "logs"
	StreamExec        StreamKind = "exec sessions"
	StreamPortForward StreamKind = "port forwards"
	// StreamQuery is what asks a host, and is over when it has answered.
	StreamQuery StreamKind = "checks, inspections and dry runs"
)

// retryAfterSeconds is the Retry-After of a refusal: when a stream ends cannot be
// predicted.
const retryAfterSeconds = 5

// Streams counts and ends the open streams of this server. Such requests are
// exempt from the server's own limits and from its graceful stop, so that both is
// done here. It is safe for concurrent use.
type Streams struct {
	mu       sync.Mutex // guards what follows
	kinds    map[StreamKind]*kindOfStreams
	open     map[*openStream]struct{}
	admitted int // open, or about to be
	draining bool
	inflow   inflow        // of all hosts
	changed  chan struct{} // closed and replaced when a stream ends
}

// kindOfStreams counts the connections of the admitted streams of a kind.
type kindOfStreams struct {
	limits StreamLimits
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

// NewStreams returns a Streams without any stream. A kind without limits in the map
// has none.
func NewStreams(limits map[StreamKind]StreamLimits) *Streams {
	s := &Streams{
		kinds:   map[StreamKind]*kindOfStreams{},
		open:    map[*openStream]struct{}{},
		changed: make(chan struct{}),
	}
	for _, kind := range []StreamKind{StreamLogs, StreamExec, StreamPortForward, StreamQuery} {
		s.kinds[kind] = &kindOfStreams{limits: limits[kind], counts: map[share]int{}}
	}
	return s
}

// admit counts a stream of user with the host of an instance, with as many connections as it has to the
// host, or refuses it: 429 when it would exceed a limit, 503 when the server is stopping. The returned
// release must be called once, when the stream is over.
func (s *Streams) admit(kind StreamKind, at types.NamespacedName, user string, connections int) (release func(), err error) {
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
	for _, of := range shares {
		k.counts[of.share] += connections
	}
	s.admitted++
	return sync.OnceFunc(func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, of := range shares {
			if k.counts[of.share] -= connections; k.counts[of.share] == 0 {
				delete(k.counts, of.share)
			}
		}
		s.admitted--
		close(s.changed)
		s.changed = make(chan struct{})
	}), nil
}

// admitRequest is admit for a request about the instance of that name, whether there is one or not: what else is
// asked of it may be costly.
func (s *Streams) admitRequest(ctx context.Context, kind StreamKind, name string, connections int) (release func(), err error) {
	at := types.NamespacedName{Namespace: genericapirequest.NamespaceValue(ctx), Name: name}
	return s.admit(kind, at, userOrUnknown(ctx), connections)
}

// track makes an admitted stream of a user one that Drain ends through stop, and Relieve through what it returns.
func (s *Streams) track(user string, stop func()) *openStream {
	o := &openStream{stop: stop, user: user, relieved: make(chan error, 1)}
	o.untrack = func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.open, o)
	}
	s.mu.Lock()
	s.open[o] = struct{}{}
	draining := s.draining
	s.mu.Unlock()
	if draining {
		stop()
	}
	return o
}

// Open is the number of streams that are open or being opened.
func (s *Streams) Open() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.admitted
}

// Drain admits no stream any more, asks all to end in good order, and waits until
// they have, or ctx is done.
func (s *Streams) Drain(ctx context.Context) error {
	s.mu.Lock()
	s.draining = true
	open := slices.Collect(maps.Keys(s.open))
	s.mu.Unlock()
	for _, o := range open {
		o.stop()
	}
	for {
		s.mu.Lock()
		left, changed := s.admitted, s.changed
		s.mu.Unlock()
		if left == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%d streams did not end in time: %w", left, ctx.Err())
		case <-changed:
		}
	}
}

func exceeded(limit, n int) bool { return limit > 0 && n > limit }
