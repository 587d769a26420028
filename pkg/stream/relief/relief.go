// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package relief

import (
	"cmp"
	"context"
	"math"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/openshift/windows-instance-api/pkg/stream"
)

const (
	// reliefInterval is short, so that hosts have to wait but briefly when they have sent what is allowed until
	// memory is measured again.
	reliefInterval = 250 * time.Millisecond
	// minUntaken is how many times in a row a client must have taken nothing before its stream may be ended:
	// a second, in which one that is only slow takes something.
	minUntaken = 4
	// window is what a stream that nobody reads keeps in memory: channelWindowSize of golang.org/x/crypto/ssh,
	// which cannot be changed, in packets of 32 KiB, each of which takes 40 KiB.
	window = (2 << 20) / 32 * 40
	// perByte is how much memory a byte takes at most that a host sends: small packets take more than large ones.
	perByte = 2
	// minInflow is what hosts may send in an interval in any case. What else takes all of the memory must not make all
	// hosts fall silent.
	minInflow = 1 << 20
)

// Memory knows the open streams of this server, and what hosts send for them. It is safe for
// concurrent use.
type Memory struct {
	inflow inflow     // of all hosts
	mu     sync.Mutex // guards what follows
	open   map[*Stream]struct{}
}

// New returns a Memory without any stream.
func New() *Memory { return &Memory{open: map[*Stream]struct{}{}} }

// Stream is a stream that is open.
type Stream struct {
	// Backlog is told what its client takes.
	Backlog stream.Backlog

	namespace, user string
	relieved        chan error

	// What Relieve saw last, and did, which alone uses them: how much was taken, how much of it since the time before,
	// and how many times in a row that was nothing.
	taken, late int64
	untaken     int
	// ending says that Relieve ends it already.
	ending bool
}

// Track makes a stream, which a user has with a host of a namespace, one that Relieve may end. The returned untrack
// must be called when it is over.
func (m *Memory) Track(namespace, user string) (s *Stream, untrack func()) {
	s = &Stream{namespace: namespace, user: user, relieved: make(chan error, 1)}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.open[s] = struct{}{}
	return s, func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		delete(m.open, s)
	}
}

// Relieved receives why the stream has to end, once, if it has to. What owns the stream ends it.
func (s *Stream) Relieved() <-chan error { return s.relieved }

// End asks what owns the stream to end it, for want of memory. It must be called once at most.
func (s *Stream) End() {
	s.relieved <- apierrors.NewServiceUnavailable("it was ended because what the host sent was read too slowly, and the server is short of memory")
}

// Budget is how much live memory this process should have at most, by GOMEMLIMIT; 0 when that is not set.
// The third above it is for what is not live any more and for what does not belong to the heap.
func Budget() uint64 {
	limit := debug.SetMemoryLimit(-1)
	if limit == math.MaxInt64 {
		return 0
	}
	return uint64(limit) / 3 * 2
}

// Live is what the last collection of garbage has left of the heap of this process, and its stacks, and which
// collection that was. It can make one first.
func Live(collect bool) (live, collection uint64) {
	if collect {
		runtime.GC()
	}
	samples := []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/memory/classes/heap/stacks:bytes"}, {Name: "/gc/cycles/total:gc-cycles"}}
	metrics.Read(samples)
	return samples[0].Value.Uint64() + samples[1].Value.Uint64(), samples[2].Value.Uint64()
}

// Received counts what hosts send, and waits while they have to send more slowly because memory is short.
func (m *Memory) Received(bytes int) { m.inflow.take(bytes) }

// Relieve keeps live memory within the budget until ctx is done. Until it is measured again, hosts may send half of
// what is left of the budget, so that they are slowed down and it is not exceeded. From three quarters of it on, streams
// are ended: first those whose clients have taken nothing for a second or more, of what their hosts sent; when
// there are none and memory stays short for a second, those that take least. Either are those of the namespaces that
// have the most, see owed. A server without memory would end all.
func (m *Memory) Relieve(ctx context.Context, c clock.WithTicker, budget uint64, memory func(collect bool) (live, collection uint64)) {
	ticker := c.NewTicker(reliefInterval)
	defer ticker.Stop()
	defer m.inflow.release()
	enough := budget / 4 * 3
	var last, since uint64 // the last collection, and what was received since
	short := 0             // how many times in a row memory was short while all clients took something
	for {
		stalled, others := m.owed()
		live, collection := memory(false)
		if collection != last {
			last, since = collection, 0
		}
		since += m.inflow.count()
		if live+perByte*since > enough && (len(stalled)+len(others) > 0 || since > budget/16) {
			// Much of it may be garbage by now.
			live, last = memory(true)
			since = 0
		}
		have := live + perByte*since
		m.inflow.allow(max(budget-min(budget, have), minInflow) / perByte)
		if have <= enough || len(stalled) > 0 {
			short = 0
		} else if short++; short >= minUntaken {
			stalled, short = others, 0
		}
		if have > enough && len(stalled) > 0 {
			relieve(ctx, stalled[:min(len(stalled), int((have-enough)/window)+1)], have, enough)
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C():
		}
	}
}

// relieve ends streams.
func relieve(ctx context.Context, streams []*Stream, have, enough uint64) {
	klog.FromContext(ctx).Info("Ending streams that are read too slowly, because memory is short", "streams", len(streams), "live", have, "enough", enough)
	for _, s := range streams {
		s.ending = true
		s.End()
	}
}

// owed are the streams whose clients have not taken what was sent, of namespaces that have at least as many of them as
// namespaces have on average: who has a namespace makes users at will, and takes a little now and then, and neither
// has those of others end. Those that take nothing, of the namespaces and users with most first, and of these the
// longest; and those that take something, the least first.
func (m *Memory) owed() (stalled, others []*Stream) {
	m.mu.Lock()
	defer m.mu.Unlock()
	total, in := 0, map[string]int{}
	of := map[[2]string]int{}
	for s := range m.open {
		if s.ending {
			continue
		}
		taken, owed := s.Backlog.Taken()
		s.taken, s.late = taken, taken-s.taken
		if !owed || s.late > 0 {
			s.untaken = 0
		} else {
			s.untaken++
		}
		if !owed {
			continue
		}
		total++
		in[s.namespace]++
		of[s.owner()]++
		if s.untaken >= minUntaken {
			stalled = append(stalled, s)
		} else {
			others = append(others, s)
		}
	}
	few := func(s *Stream) bool { return in[s.namespace]*len(in) < total }
	stalled, others = slices.DeleteFunc(stalled, few), slices.DeleteFunc(others, few)
	most := func(a, b *Stream) int {
		return cmp.Or(cmp.Compare(in[b.namespace], in[a.namespace]), cmp.Compare(of[b.owner()], of[a.owner()]))
	}
	slices.SortFunc(stalled, func(a, b *Stream) int { return cmp.Or(most(a, b), cmp.Compare(b.untaken, a.untaken)) })
	slices.SortFunc(others, func(a, b *Stream) int { return cmp.Compare(a.late, b.late) })
	return stalled, others
}

// owner is who has the stream: users are counted by namespace.
func (s *Stream) owner() [2]string { return [2]string{s.namespace, s.user} }
