// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package workpool

import (
	"context"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// Lane is a share of the workers of a [Pool].
type Lane string

// Limits bound what runs in a lane at the same time. Of four or more, one namespace gets three quarters
// at most: what hangs in one leaves workers to the others.
type Limits struct {
	// Workers is how many pieces of work have a worker. 0: there is no limit.
	Workers int
	// Detached is how many that gave their worker back may go on besides. 0: there is no limit.
	Detached int
}

// Work is something to be done about one object.
type Work struct {
	// Key is the object.
	Key types.NamespacedName
	// Lane is where it waits for a worker. The pool must have it.
	Lane Lane
	// Run does the work. It must end soon after its context, which is canceled by
	// [Pool.Cancel] and ends with the pool. With detach it gives its worker back and goes on,
	// to be called when it only waits from now on. That fails if too many have.
	Run func(ctx context.Context, detach func() bool)
	// Ended is called after Run, when other work about the object may have begun. Its
	// context is that of the pool. Nil: nothing is called.
	Ended func(ctx context.Context)
}

// Pool does work. It is a runnable of a manager and owns the goroutines of the work: Start
// returns when the last of them has ended. It is safe for concurrent use, and calls
// nothing with its lock held.
type Pool struct {
	mu sync.Mutex // guards what follows, and all fields of jobs
	// ctx is nil before Start; what is submitted before then waits.
	ctx   context.Context //nolint:containedctx // the lifetime of the runnable, which its work shares
	jobs  map[types.NamespacedName]*job
	lanes map[Lane]*lane
	wg    sync.WaitGroup
}

// lane is what waits and runs in a lane. Its fields are guarded by Pool.mu.
type lane struct {
	Limits
	// namespaces are those with anything in the lane.
	namespaces        map[string]*share
	running, detached int
	// submitted counts what was ever queued, for the order.
	submitted int
}

// share is what one namespace has in a lane.
type share struct {
	queue             []*job // the oldest first
	running, detached int
}

// shareOf is how many of n one namespace may have.
func shareOf(n int) int { return n - n/4 }

// job is a piece of work that waits or runs.
type job struct {
	Work
	cancel   context.CancelFunc // nil while it waits
	canceled bool
	detached bool
	order    int // among what was queued in its lane
	// successor waits for canceled work to end, so that there is never more than one piece
	// of work about an object.
	successor *job
}

// New returns a pool with lanes.
func New(limits map[Lane]Limits) *Pool {
	p := &Pool{jobs: map[types.NamespacedName]*job{}, lanes: map[Lane]*lane{}}
	for name, l := range limits {
		p.lanes[name] = &lane{Limits: l, namespaces: map[string]*share{}}
	}
	return p
}

// Start does work until ctx ends, and then waits for what runs.
func (p *Pool) Start(ctx context.Context) error {
	p.mu.Lock()
	p.ctx = ctx
	for _, l := range p.lanes {
		p.dispatchLocked(l) //nolint:contextcheck // work lives as long as the pool: its context is theirs
	}
	p.mu.Unlock()

	<-ctx.Done()

	// Who has the lock may just be beginning work; nobody does after that.
	p.mu.Lock()
	p.mu.Unlock() //nolint:staticcheck,gocritic // it is about those who had the lock
	p.wg.Wait()
	return nil
}

// NeedLeaderElection says that only the leader works.
func (p *Pool) NeedLeaderElection() bool { return true }

// Submit has work done. It returns false if there is work about the object that was not
// canceled: then w is not done. After canceled work w begins when that has ended.
func (p *Pool) Submit(w Work) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	next := &job{Work: w}
	if current, ok := p.jobs[w.Key]; ok {
		if !current.canceled || current.successor != nil {
			return false
		}
		current.successor = next
		return true
	}
	p.enqueueLocked(next)
	return true
}

// Move has work that still waits wait in another lane.
func (p *Pool) Move(key types.NamespacedName, to Lane) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if j, ok := p.jobs[key]; ok && j.cancel == nil && j.Lane != to {
		p.unqueueLocked(j)
		j.Lane = to
		p.enqueueLocked(j)
	}
}

// Busy says whether there is work about an object that was not canceled.
func (p *Pool) Busy(key types.NamespacedName) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	j, ok := p.jobs[key]
	return ok && (!j.canceled || j.successor != nil)
}

// Cancel ends the work about an object, if there is any. It does not wait for the end. It
// returns whether the work had not begun, and so never will.
func (p *Pool) Cancel(key types.NamespacedName) (never bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	j, ok := p.jobs[key]
	if !ok {
		return false
	}
	if j.cancel == nil {
		p.unqueueLocked(j)
		delete(p.jobs, key)
		return true
	}
	j.successor = nil
	j.canceled = true
	j.cancel()
	return false
}

// Load is how much there is to do in a lane.
type Load struct {
	// Running is what has a worker, Detached what has given it back and goes on.
	Running, Detached int
	// Waiting is what has not begun.
	Waiting int
}

// Load returns how much there is to do in a lane.
func (p *Pool) Load(name Lane) Load {
	p.mu.Lock()
	defer p.mu.Unlock()
	l := p.lanes[name]
	load := Load{Running: l.running, Detached: l.detached}
	for _, n := range l.namespaces {
		load.Waiting += len(n.queue)
	}
	return load
}

func (p *Pool) enqueueLocked(j *job) {
	l := p.lanes[j.Lane]
	p.jobs[j.Key] = j
	n, ok := l.namespaces[j.Key.Namespace]
	if !ok {
		n = &share{}
		l.namespaces[j.Key.Namespace] = n
	}
	l.submitted++
	j.order = l.submitted
	n.queue = append(n.queue, j)
	p.dispatchLocked(l)
}

func (p *Pool) unqueueLocked(j *job) {
	l := p.lanes[j.Lane]
	n := l.namespaces[j.Key.Namespace]
	n.queue = slices.DeleteFunc(n.queue, func(queued *job) bool { return queued == j })
	l.tidy(j.Key.Namespace)
}

// tidy forgets a namespace that has nothing in the lane.
func (l *lane) tidy(namespace string) {
	if n := l.namespaces[namespace]; len(n.queue) == 0 && n.running == 0 && n.detached == 0 {
		delete(l.namespaces, namespace)
	}
}

// next takes the work that begins next out of the queue: of the namespace that has least workers, and the oldest
// of those. Nil: nothing may begin.
func (l *lane) next() *job {
	if l.Workers > 0 && l.running >= l.Workers {
		return nil
	}
	var least *share
	for _, n := range l.namespaces {
		if len(n.queue) == 0 || l.Workers > 0 && n.running >= shareOf(l.Workers) {
			continue
		}
		if least == nil || n.running < least.running || n.running == least.running && n.queue[0].order < least.queue[0].order {
			least = n
		}
	}
	if least == nil {
		return nil
	}
	first := least.queue[0]
	least.queue = slices.Delete(least.queue, 0, 1)
	return first
}

// dispatchLocked begins what gets a worker.
func (p *Pool) dispatchLocked(l *lane) {
	if p.ctx == nil || p.ctx.Err() != nil {
		return
	}
	for j := l.next(); j != nil; j = l.next() {
		p.beginLocked(l, j)
	}
}

func (p *Pool) beginLocked(l *lane, j *job) {
	ctx, cancel := context.WithCancel(p.ctx)
	j.cancel = cancel
	l.running++
	l.namespaces[j.Key.Namespace].running++
	p.wg.Go(func() {
		defer cancel()
		j.Run(ctx, func() bool { return p.detach(l, j) }) //nolint:contextcheck // what gets the worker lives as long as the pool
		p.end(l, j)                                       //nolint:contextcheck // likewise
	})
}

// detach takes the worker from a piece of work that goes on without. It may have ended.
func (p *Pool) detach(l *lane, j *job) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.jobs[j.Key] != j || j.detached {
		return true
	}
	n := l.namespaces[j.Key.Namespace]
	if l.Detached > 0 && (l.detached >= l.Detached || n.detached >= shareOf(l.Detached)) {
		return false
	}
	j.detached = true
	l.running--
	n.running--
	l.detached++
	n.detached++
	p.dispatchLocked(l)
	return true
}

// end makes room for other work.
func (p *Pool) end(l *lane, j *job) {
	p.mu.Lock()
	n := l.namespaces[j.Key.Namespace]
	if j.detached {
		l.detached--
		n.detached--
	} else {
		l.running--
		n.running--
	}
	l.tidy(j.Key.Namespace)
	delete(p.jobs, j.Key)
	if j.successor != nil {
		p.enqueueLocked(j.successor)
	}
	p.dispatchLocked(l)
	ctx := p.ctx
	p.mu.Unlock()
	if j.Ended != nil {
		j.Ended(ctx)
	}
}
