// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package operation

import (
	"context"
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// runner carries executions out: at most one for each instance, and a limited number
// at the same time. It is a runnable of the manager and owns the goroutines of the
// executions: Start returns when the last of them has ended.
type runner struct {
	places int
	// execute carries an operation out and returns when there is nothing left to do, or
	// ctx has ended. canceled is closed when somebody asks for the end of the operation.
	execute func(ctx context.Context, key types.NamespacedName, id string, canceled <-chan struct{})
	// notify is called when an execution has ended and the instance is free for the next one.
	notify func(ctx context.Context, key types.NamespacedName)

	mu sync.Mutex
	// ctx is nil before Start; what is submitted before then waits.
	ctx     context.Context //nolint:containedctx // the lifetime of the runnable, which its executions share
	stopped bool
	tasks   map[types.NamespacedName]*task
	queue   []*task
	// running is how many places are taken.
	running int
	// ended has the last operation of each instance that was carried out to its end: a
	// cache that is behind may still show it as active.
	ended map[types.NamespacedName]string
	wg    sync.WaitGroup
}

// task is an execution that waits or runs. All fields are guarded by runner.mu.
type task struct {
	key types.NamespacedName
	id  string
	// stop ends it as if the process did.
	stop    context.CancelFunc // nil while it waits
	dropped bool
	// short executions need no place.
	short bool
	// placed: it has one.
	placed   bool
	canceled chan struct{}
	isClosed bool
}

func newRunner(places int) *runner {
	return &runner{places: places, tasks: map[types.NamespacedName]*task{}, ended: map[types.NamespacedName]string{}}
}

// Start runs executions until ctx ends, and then waits for those that run.
func (r *runner) Start(ctx context.Context) error {
	r.mu.Lock()
	r.ctx = ctx
	r.dispatchLocked() //nolint:contextcheck // executions live as long as the runner: its context is theirs
	r.mu.Unlock()

	<-ctx.Done()

	r.mu.Lock()
	r.stopped = true
	r.mu.Unlock()
	r.wg.Wait()
	return nil
}

// NeedLeaderElection: only the leader carries operations out.
func (r *runner) NeedLeaderElection() bool { return true }

// submit has an operation carried out, unless it is already or the instance is busy
// with the one before; its end wakes the reconciler.
func (r *runner) submit(key types.NamespacedName, id string, short, canceled bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended[key] == id {
		return
	}
	t, ok := r.tasks[key]
	if !ok {
		t = &task{key: key, id: id, canceled: make(chan struct{})}
		r.tasks[key] = t
		r.queue = append(r.queue, t)
	}
	if t.id != id {
		return
	}
	t.short = t.short || short || canceled
	if canceled && !t.isClosed {
		t.isClosed = true
		close(t.canceled)
	}
	r.dispatchLocked()
}

// drop ends the execution for an instance that is gone. It does not wait for the end.
func (r *runner) drop(key types.NamespacedName) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.ended, key)
	t, ok := r.tasks[key]
	if !ok {
		return
	}
	t.dropped = true
	if t.stop == nil {
		delete(r.tasks, key) // dispatchLocked takes it out of the queue
		return
	}
	t.stop()
}

// yield gives the place of an execution to another one. It goes on without a place: to
// be called by one that waits for others and does nothing meanwhile.
func (r *runner) yield(key types.NamespacedName) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if t, ok := r.tasks[key]; ok {
		r.leaveLocked(t)
		r.dispatchLocked()
	}
}

func (r *runner) leaveLocked(t *task) {
	if t.placed {
		t.placed = false
		r.running--
	}
}

// load says how many executions run and how many wait.
func (r *runner) load() (running, waiting int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, t := range r.tasks {
		if t.stop != nil {
			running++
		} else {
			waiting++
		}
	}
	return running, waiting
}

// dispatchLocked starts what has a place or needs none, oldest first.
func (r *runner) dispatchLocked() {
	if r.ctx == nil || r.stopped || r.ctx.Err() != nil {
		return
	}
	waiting := r.queue[:0]
	for _, t := range r.queue {
		switch {
		case t.dropped:
		case t.short:
			r.startLocked(t, false)
		case r.running < r.places:
			r.startLocked(t, true)
		default:
			waiting = append(waiting, t)
		}
	}
	clear(r.queue[len(waiting):]) // let go of the rest although the array stays
	r.queue = waiting
}

func (r *runner) startLocked(t *task, place bool) {
	ctx, cancel := context.WithCancel(r.ctx)
	t.stop = cancel
	if t.placed = place; place {
		r.running++
	}
	r.wg.Go(func() {
		defer cancel()
		r.execute(ctx, t.key, t.id, t.canceled)

		r.mu.Lock()
		r.leaveLocked(t)
		delete(r.tasks, t.key)
		alive := r.ctx.Err() == nil
		if alive && !t.dropped {
			r.ended[t.key] = t.id
		}
		r.dispatchLocked() //nolint:contextcheck // what it starts lives as long as the runner
		runnerCtx := r.ctx
		r.mu.Unlock()
		if alive {
			r.notify(runnerCtx, t.key) //nolint:contextcheck // also for one that was dropped, whose own context is over
		}
	})
}
