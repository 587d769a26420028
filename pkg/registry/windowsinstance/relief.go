// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package windowsinstance

import (
	"cmp"
	"context"
	"math"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/openshift/windows-instance-api/pkg/stream"
)

const (
	// reliefInterval is short, because hosts fill memory at the rate of a network.
	reliefInterval = 250 * time.Millisecond
	// minUntaken is how many times in a row a client must have taken nothing before its stream may be ended:
	// a second, in which one that is only slow takes something.
	minUntaken = 4
	// window is what a host may send in an SSH channel that nobody reads: channelWindowSize of
	// golang.org/x/crypto/ssh, which cannot be changed.
	window = 2 << 20
)

// openStream is a stream that is open.
type openStream struct {
	// stop ends it in good order.
	stop func()
	// backlog is told what its client takes.
	backlog stream.Backlog
	// relieved takes why the server had to end it. What owns the stream receives it.
	relieved chan error
	// untrack must be called once, when the stream is over, before its release.
	untrack func()

	// What Relieve saw last, which alone uses them: how much was taken, and how many times in a row it was
	// as much.
	taken   int64
	untaken int
}

// MemoryBudget is how much live memory this process should have at most, by GOMEMLIMIT; 0 when that is not set.
// The third above it is for what is not live any more and for what does not belong to the heap.
func MemoryBudget() uint64 {
	limit := debug.SetMemoryLimit(-1)
	if limit == math.MaxInt64 {
		return 0
	}
	return uint64(limit) / 3 * 2
}

// LiveMemory is the live heap of this process. What exceeds the limit at the last collection of garbage may
// be gone by now, so it collects first.
func LiveMemory(limit uint64) uint64 {
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	if metrics.Read(live); live[0].Value.Uint64() > limit {
		runtime.GC()
		metrics.Read(live)
	}
	return live[0].Value.Uint64()
}

// Relieve ends streams while there is more live memory than the budget, until ctx is done: those whose clients
// have taken nothing for longest, of what their hosts sent. A server without memory would end all.
func (s *Streams) Relieve(ctx context.Context, c clock.WithTicker, budget uint64, live func(limit uint64) uint64) {
	ticker := c.NewTicker(reliefInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C():
		}
		stalled := s.stalled()
		if len(stalled) == 0 {
			continue
		}
		if have := live(budget); have > budget {
			stalled = stalled[:min(len(stalled), int((have-budget)/window)+1)]
			klog.FromContext(ctx).Info("Ending streams whose clients read nothing, because memory is short", "streams", len(stalled), "live", have, "budget", budget)
			for _, o := range stalled {
				select {
				case o.relieved <- apierrors.NewServiceUnavailable("it was ended because nobody read what the host sent, and the server is short of memory"):
				default: // it is ending
				}
			}
		}
	}
}

// stalled are the streams whose clients take nothing, the longest first.
func (s *Streams) stalled() []*openStream {
	s.mu.Lock()
	defer s.mu.Unlock()
	var stalled []*openStream
	for o := range s.open {
		taken, owed := o.backlog.Taken()
		if !owed || taken != o.taken {
			o.taken, o.untaken = taken, 0
			continue
		}
		if o.untaken++; o.untaken >= minUntaken {
			stalled = append(stalled, o)
		}
	}
	slices.SortFunc(stalled, func(a, b *openStream) int { return cmp.Compare(b.untaken, a.untaken) })
	return stalled
}
