// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package relief

import (
	"context"
	"fmt"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/clock"
)

// relieved runs a test beside Relieve, in a bubble. held is what is live of what hosts sent.
func relieved(t *testing.T, budget uint64, test func(t *testing.T, m *Memory, held *atomic.Int64)) {
	synctest.Test(t, func(t *testing.T) {
		m, ctx, held := New(), t.Context(), &atomic.Int64{}
		ctx, cancel := context.WithCancel(ctx)
		var collections uint64
		over := make(chan struct{})
		go func() {
			defer close(over)
			m.Relieve(ctx, clock.RealClock{}, budget, func(bool) (live, collection uint64) {
				collections++
				return uint64(held.Load()), collections
			})
		}()
		synctest.Wait()
		test(t, m, held)
		cancel()
		<-over
	})
}

// heap is memory in which garbage stays until it is collected.
type heap struct {
	held, live, collections atomic.Uint64
	forced                  atomic.Int64
}

func (h *heap) measure(collect bool) (live, collection uint64) {
	if collect {
		h.forced.Add(1)
		h.collect()
	}
	return h.live.Load(), h.collections.Load()
}

func (h *heap) collect() {
	h.live.Store(h.held.Load())
	h.collections.Add(1)
}

// What came since the last collection counts, and is collected before it ends a stream: it may be garbage.
func TestRelieveCollectsFirst(t *testing.T) {
	const budget, much = 100 << 20, 40 << 20 // perByte of it is too much
	stalled := func(m *Memory) *Stream {
		s, _ := m.Track("n", "u")
		s.Backlog.Begin()
		pass(2 * minUntaken)
		return s
	}
	for name, test := range map[string]func(t *testing.T, m *Memory, h *heap) (s *Stream, ends bool, forced int64){
		"it is kept": func(_ *testing.T, m *Memory, h *heap) (*Stream, bool, int64) {
			s := stalled(m)
			h.held.Store(perByte * much)
			m.Received(much)
			pass(1)
			h.held.Store(0)
			h.collect()
			return s, true, 1
		},
		"it is garbage": func(_ *testing.T, m *Memory, _ *heap) (*Stream, bool, int64) {
			s := stalled(m)
			m.Received(much)
			return s, false, 1
		},
		"garbage of before": func(_ *testing.T, m *Memory, h *heap) (*Stream, bool, int64) {
			s := stalled(m)
			h.held.Store(budget / 5 * 4)
			h.collect()
			h.held.Store(0)
			return s, false, 1
		},
		"it was collected meanwhile": func(_ *testing.T, m *Memory, h *heap) (*Stream, bool, int64) {
			s := stalled(m)
			for range 3 {
				m.Received(much / 2)
				pass(1)
				h.collect()
				pass(1)
			}
			return s, false, 0
		},
		"nobody has a stream, and little came": func(_ *testing.T, m *Memory, h *heap) (*Stream, bool, int64) {
			h.held.Store(budget / 5 * 4)
			h.collect()
			pass(1)
			m.Received(budget / 16)
			return nil, false, 0
		},
		"nobody has a stream": func(_ *testing.T, m *Memory, h *heap) (*Stream, bool, int64) {
			h.held.Store(budget / 5 * 4)
			h.collect()
			pass(1)
			m.Received(budget/16 + 1)
			return nil, false, 1
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m, h := New(), &heap{}
				ctx, cancel := context.WithCancel(t.Context())
				over := make(chan struct{})
				go func() {
					defer close(over)
					m.Relieve(ctx, clock.RealClock{}, budget, h.measure)
				}()
				synctest.Wait()
				s, ends, forced := test(t, m, h)
				pass(3)
				if s != nil && ended(t, s) != ends {
					t.Errorf("the stream ended: %v", !ends)
				}
				if got := h.forced.Load(); got != forced {
					t.Errorf("memory was collected %d times, want %d", got, forced)
				}
				cancel()
				<-over
			})
		})
	}
}

// pass lets that many measurements be made.
func pass(measurements int) {
	time.Sleep(time.Duration(measurements) * reliefInterval) //nolint:forbidigo // the time of the bubble
	synctest.Wait()
}

// ended says whether a stream was ended for want of memory.
func ended(t *testing.T, o *Stream) bool {
	t.Helper()
	select {
	case err := <-o.Relieved():
		if !apierrors.IsServiceUnavailable(err) {
			t.Errorf("ended with %v", err)
		}
		return true
	default:
		return false
	}
}

// However many hosts send, and however fast, to clients that read nothing, no more is held than the budget.
func TestInflowIsBounded(t *testing.T) {
	const budget, hosts, packet, base = 100 << 20, 500, 32 << 10, 20 << 20
	relieved(t, budget, func(t *testing.T, m *Memory, held *atomic.Int64) {
		held.Store(base)
		pass(1)
		done := make(chan struct{})
		for range hosts {
			o, untrack := m.Track("n", "u")
			o.Backlog.Begin()
			// What is closed holds nothing from then on, also while its host is not heard.
			var mu sync.Mutex
			kept, closed := int64(0), false
			go func() {
				for range window / (packet * perByte) {
					mu.Lock()
					if closed {
						mu.Unlock()
						return
					}
					kept += packet * perByte
					held.Add(packet * perByte)
					mu.Unlock()
					m.Received(packet)
				}
			}()
			go func() {
				defer untrack()
				select {
				case <-o.Relieved():
				case <-done:
				}
				mu.Lock()
				defer mu.Unlock()
				held.Add(-kept)
				closed = true
			}()
		}
		highest := int64(0)
		for range 100 {
			pass(1)
			highest = max(highest, held.Load())
		}
		// What was read at once from all networks is not taken back, the last that was allowed may exceed what is left, and
		// none is stalled until it was seen for some intervals, in each of which hosts may send something.
		if limit := int64(budget + (hosts+1)*packet*perByte + minUntaken*minInflow); highest > limit || highest < budget/2 {
			t.Errorf("%d MiB were held, of %d", highest>>20, limit>>20)
		}
		m.mu.Lock()
		if len(m.open) > budget/4*3/window {
			t.Errorf("%d streams are left", len(m.open))
		}
		m.mu.Unlock()
		close(done)
	})
}

// What is short of memory ends streams that nobody reads, and as many as it takes; not those that are read, be it
// slowly, or wait for the host.
func TestRelieve(t *testing.T) {
	const budget, enough = 100 << 20, 75 << 20
	relieved(t, budget, func(t *testing.T, m *Memory, held *atomic.Int64) {
		open := func(user string) *Stream {
			o, _ := m.Track("n", user)
			o.Backlog.Begin()
			return o
		}
		waiting, reading := open("w"), open("r")
		waiting.Backlog.End()
		stop := make(chan struct{})
		defer close(stop)
		go func() { // slowly
			for ticker := time.NewTicker(minUntaken * reliefInterval * 3 / 4); ; {
				select {
				case <-stop:
					return
				case <-ticker.C:
					reading.Backlog.Begin()
					reading.Backlog.End()
				}
			}
		}()
		first := open("a")
		pass(2)
		second := open("b")
		pass(2)
		third := open("c")
		pass(2 * minUntaken)
		if ended(t, first) {
			t.Error("a stream was ended although there is memory")
		}
		held.Store(enough + window + 1)
		pass(1)
		held.Store(enough)
		pass(2 * minUntaken)
		for name, test := range map[string]struct {
			stream *Stream
			want   bool
		}{"waiting": {waiting, false}, "reading": {reading, false}, "first": {first, true}, "second": {second, true}, "third": {third, false}} {
			if got := ended(t, test.stream); got != test.want {
				t.Errorf("%s: ended %v, want %v", name, got, test.want)
			}
		}
		// Those that end already relieve nothing more.
		held.Store(enough + 1)
		pass(1)
		held.Store(enough)
		if !ended(t, third) {
			t.Error("nothing more was ended")
		}
		held.Store(enough + 1)
		pass(1)
		held.Store(enough)
		if ended(t, reading) || ended(t, waiting) {
			t.Error("a stream that is read was ended")
		}
	})
}

// Who has the most streams that nobody reads is the first to lose some.
func TestRelieveByUser(t *testing.T) {
	const budget, enough = 100 << 20, 75 << 20
	relieved(t, budget, func(t *testing.T, m *Memory, held *atomic.Int64) {
		one, _ := m.Track("n", "one")
		one.Backlog.Begin()
		pass(1)
		var many []*Stream
		for range 3 {
			o, _ := m.Track("n", "many")
			o.Backlog.Begin()
			many = append(many, o)
		}
		pass(2 * minUntaken)
		held.Store(enough + 2*window + 1)
		pass(1)
		held.Store(0)
		if ended(t, one) {
			t.Error("the only one of a user was ended")
		}
		for i, o := range many {
			if !ended(t, o) {
				t.Errorf("%d of the others was not", i)
			}
		}
	})
}

// TestRelieveByNamespace: who has a namespace makes users at will, and has each of them read now and then: that ends
// none of another namespace.
func TestRelieveByNamespace(t *testing.T) {
	const budget, enough = 100 << 20, 75 << 20
	for name, reads := range map[string]bool{"each reads nothing": false, "each reads now and then": true} {
		t.Run(name, func(t *testing.T) {
			relieved(t, budget, func(t *testing.T, m *Memory, held *atomic.Int64) {
				var admins []*Stream
				for range 2 {
					o, _ := m.Track("operator", "admin")
					o.Backlog.Begin()
					admins = append(admins, o)
				}
				pass(1)
				var many []*Stream
				for i := range 20 {
					o, _ := m.Track("tenant", fmt.Sprint("account-", i))
					o.Backlog.Begin()
					many = append(many, o)
				}
				held.Store(enough + window + 1)
				for range 2 * minUntaken {
					pass(1)
					if reads {
						for _, o := range many {
							o.Backlog.End()
							o.Backlog.Begin()
						}
					}
				}
				held.Store(0)
				for i, o := range admins {
					if ended(t, o) {
						t.Errorf("%d of the other namespace was ended", i)
					}
				}
				gone := 0
				for _, o := range many {
					if ended(t, o) {
						gone++
					}
				}
				if gone == 0 {
					t.Error("none was ended")
				}
			})
		})
	}
}

// When all read, and memory stays short, those that read least are ended: they would hold it for ever.
func TestRelieveOfSlowReaders(t *testing.T) {
	const budget, enough = 100 << 20, 75 << 20
	relieved(t, budget, func(t *testing.T, m *Memory, held *atomic.Int64) {
		waiting, _ := m.Track("n", "c")
		slow, _ := m.Track("n", "a")
		var fast []*Stream
		for range 8 {
			s, _ := m.Track("n", "b")
			s.Backlog.Begin()
			fast = append(fast, s)
		}
		read := func() {
			for _, s := range fast {
				for range 2 {
					s.Backlog.Begin()
					s.Backlog.End()
				}
			}
			slow.Backlog.Begin()
			slow.Backlog.End()
			pass(1)
		}
		slow.Backlog.Begin()
		anyFast := func() bool { return slices.ContainsFunc(fast, func(s *Stream) bool { return ended(t, s) }) }
		for range 2 { // not short for long
			held.Store(enough + 1)
			for range minUntaken - 1 {
				read()
			}
			held.Store(enough)
			read()
		}
		held.Store(enough + 1)
		for range minUntaken - 1 {
			read()
		}
		if ended(t, slow) || anyFast() {
			t.Error("a reader was ended at once")
		}
		read()
		if !ended(t, slow) || anyFast() || ended(t, waiting) {
			t.Error("not the slower one was ended")
		}
	})
}

// A host is heard again when there is memory, and when the server stops.
func TestInflowGoesOn(t *testing.T) {
	const budget = 100 << 20
	received := make(chan struct{})
	var memory *Memory
	relieved(t, budget, func(t *testing.T, m *Memory, held *atomic.Int64) {
		received, memory = make(chan struct{}), m
		held.Store(budget)
		pass(1)
		m.Received(minInflow) // more than that is not allowed
		go func() {
			m.Received(1)
			received <- struct{}{}
		}()
		synctest.Wait()
		select {
		case <-received:
			t.Error("a host is heard although there is no memory")
		default:
		}
		held.Store(0)
		pass(1)
		<-received
		held.Store(budget)
		pass(1)
	})
	memory.Received(budget)
	memory.Received(budget)
}

func TestBudget(t *testing.T) {
	if got := Budget(); got != 0 {
		t.Errorf("without a limit: %d", got)
	}
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(3 << 30))
	if got := Budget(); got != 2<<30 {
		t.Errorf("got %d", got)
	}
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	_, before := Live(false)
	if _, again := Live(false); again != before {
		t.Error("measuring collects")
	}
	live, collection := Live(true)
	if live == 0 || collection <= before {
		t.Errorf("%d bytes are live after collection %d, which follows %d", live, collection, before)
	}
}
