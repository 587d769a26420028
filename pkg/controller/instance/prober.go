// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package instance

import (
	"context"
	"errors"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
)

// lane is a share of the probes that may run at the same time.
type lane int

const (
	// laneFast is for hosts that were never seen or that answered last time.
	laneFast lane = iota
	// laneSlow is for hosts that did not answer in time last time. However many of
	// them there are, they hold no place that hosts which answer need.
	laneSlow
)

func (l lane) String() string {
	if l == laneSlow {
		return "slow"
	}
	return "fast"
}

// demotedPerPlace bounds, per place of the fast lane, how many probes may be
// outside of the lanes because they hang.
const demotedPerPlace = 8

// errProbeCanceled is the cause with which the context of a canceled probe ends.
var errProbeCanceled = errors.New("the probe is not needed any more")

// probeFunc looks at a host. It must end soon after its context does.
type probeFunc func(ctx context.Context) *observation

// proberOptions are all required.
type proberOptions struct {
	// places is how many probes each lane runs at the same time.
	places map[lane]int
	// patience is after how long a probe of the fast lane that still runs gives its
	// place back: hosts that nobody knows yet may hang as well.
	patience time.Duration
	// timeout bounds a probe as a whole.
	timeout time.Duration
	clock   clock.WithDelayedExecution
	// record is called when a probe has ended, before the host may be probed again;
	// notify after that, and ctx ends with the prober. Neither is called for a probe
	// that was canceled, and none with a lock held.
	record func(key types.NamespacedName, o *observation)
	notify func(ctx context.Context, key types.NamespacedName)
}

// prober runs probes: at most one for each host at a time, and as many at the
// same time as the lanes have places. It is a runnable of the manager and owns
// the goroutines of its probes: Start returns when the last of them has ended.
type prober struct {
	proberOptions

	mu sync.Mutex
	// ctx is nil before Start; probes submitted before then wait.
	ctx     context.Context //nolint:containedctx // the lifetime of the runnable, which its probes share
	stopped bool
	probes  map[types.NamespacedName]*probe
	queues  map[lane][]*probe
	running map[lane]int
	demoted int
	wg      sync.WaitGroup
}

// probe is a probe that waits or runs. All fields are guarded by prober.mu.
type probe struct {
	key     types.NamespacedName
	lane    lane
	run     probeFunc
	cancel  context.CancelCauseFunc // nil while it waits
	timer   clock.Timer
	demoted bool
	// canceled: what it sees is of no use.
	canceled bool
	// successor waits for a canceled probe to end, so that the host never has two.
	successor *probe
}

func newProber(o proberOptions) *prober {
	return &prober{
		proberOptions: o,
		probes:        map[types.NamespacedName]*probe{},
		queues:        map[lane][]*probe{},
		running:       map[lane]int{},
	}
}

// Start runs probes until ctx ends, and then waits for those that run.
func (p *prober) Start(ctx context.Context) error {
	p.mu.Lock()
	p.ctx = ctx
	p.dispatchLocked() //nolint:contextcheck // probes live as long as the prober: its context is theirs
	p.mu.Unlock()

	<-ctx.Done()

	p.mu.Lock()
	p.stopped = true
	p.mu.Unlock()
	p.wg.Wait()
	return nil
}

// NeedLeaderElection: only the leader contacts hosts.
func (p *prober) NeedLeaderElection() bool { return true }

// submit has a host probed, unless that is under way already.
func (p *prober) submit(key types.NamespacedName, l lane, run probeFunc) {
	p.mu.Lock()
	defer p.mu.Unlock()
	next := &probe{key: key, lane: l, run: run}
	if current, ok := p.probes[key]; ok {
		if current.canceled && current.successor == nil {
			current.successor = next
		}
		return
	}
	p.enqueueLocked(next)
}

// busy says whether a probe of the host waits or runs.
func (p *prober) busy(key types.NamespacedName) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	current, ok := p.probes[key]
	return ok && (!current.canceled || current.successor != nil)
}

// cancel ends the probe of a host, if there is one. It does not wait for the end.
func (p *prober) cancel(key types.NamespacedName) {
	p.mu.Lock()
	defer p.mu.Unlock()
	current, ok := p.probes[key]
	if !ok {
		return
	}
	current.successor = nil
	current.canceled = true
	if current.cancel == nil {
		delete(p.probes, key) // dispatchLocked drops it from its queue
		return
	}
	current.cancel(errProbeCanceled)
}

// load says how many probes run and wait in a lane. Those that were taken out of
// the fast lane because they hang count as running in the slow one.
func (p *prober) load(l lane) (running, waiting int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	running = p.running[l]
	if l == laneSlow {
		running += p.demoted
	}
	for _, waits := range p.queues[l] {
		if !waits.canceled {
			waiting++
		}
	}
	return running, waiting
}

func (p *prober) enqueueLocked(next *probe) {
	p.probes[next.key] = next
	p.queues[next.lane] = append(p.queues[next.lane], next)
	p.dispatchLocked()
}

// dispatchLocked starts what has a place, oldest first.
func (p *prober) dispatchLocked() {
	if p.ctx == nil || p.stopped || p.ctx.Err() != nil {
		return
	}
	for _, l := range []lane{laneFast, laneSlow} {
		for len(p.queues[l]) > 0 && p.running[l] < p.places[l] {
			first := p.queues[l][0]
			p.queues[l][0] = nil // let go of it although the array stays
			p.queues[l] = p.queues[l][1:]
			if !first.canceled {
				p.startLocked(first)
			}
		}
	}
}

func (p *prober) startLocked(s *probe) {
	ctx, cancel := context.WithCancelCause(p.ctx)
	s.cancel = cancel
	p.running[s.lane]++
	if s.lane == laneFast {
		s.timer = p.clock.AfterFunc(p.patience, func() { p.demote(s) })
	}
	p.wg.Go(func() {
		defer cancel(nil)
		bounded, stop := context.WithTimeout(ctx, p.timeout)
		defer stop()
		o := s.run(bounded)
		p.finish(ctx, s, o)
	})
}

// demote takes the place in the fast lane from a probe that hangs. The probe goes on.
func (p *prober) demote(s *probe) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.probes[s.key] != s || s.demoted {
		return // it has ended
	}
	if p.demoted >= demotedPerPlace*p.places[laneFast] {
		s.timer = p.clock.AfterFunc(p.patience, func() { p.demote(s) })
		return
	}
	s.demoted = true
	p.running[laneFast]--
	p.demoted++
	p.dispatchLocked()
}

func (p *prober) finish(ctx context.Context, s *probe, o *observation) {
	p.mu.Lock()
	useful := !s.canceled && ctx.Err() == nil
	p.mu.Unlock()
	if useful {
		p.record(s.key, o)
	}

	p.mu.Lock()
	if s.timer != nil {
		s.timer.Stop()
	}
	if s.demoted {
		p.demoted--
	} else {
		p.running[s.lane]--
	}
	delete(p.probes, s.key)
	if s.successor != nil {
		p.enqueueLocked(s.successor) //nolint:contextcheck // it lives as long as the prober
	} else {
		p.dispatchLocked() //nolint:contextcheck // likewise
	}
	p.mu.Unlock()

	if useful {
		p.notify(ctx, s.key)
	}
}
