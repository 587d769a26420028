// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package operation

import (
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/controller/internal/workpool"
)

const (
	// laneLimited is for executions that need a worker.
	laneLimited workpool.Lane = "limited"
	// laneRequested is for those that people wait for, which have workers of their own: a Node must not keep its pods because a fleet is being configured.
	laneRequested workpool.Lane = "requested"
	// laneShort is for those that take no time, and need none.
	laneShort workpool.Lane = "short"
)

// lanes are all of them.
var lanes = []workpool.Lane{laneLimited, laneRequested, laneShort}

// laneOf says where an operation waits for a worker. What people request has those of laneRequested, unless files may be sent to its host: the
// bound of memory for these counts the workers of laneLimited.
func laneOf(op *v1alpha1.Operation) workpool.Lane {
	switch op.Type {
	case v1alpha1.OperationUncordon:
		return laneShort
	case v1alpha1.OperationDrain, v1alpha1.OperationReboot, v1alpha1.OperationRestartServices:
		if !op.ByController() {
			return laneRequested
		}
	}
	return laneLimited
}

// runner runs executions: at most one for each instance, and a limited number
// at the same time. It is a runnable of the manager, as its pool is.
type runner struct {
	*workpool.Pool
	clock clock.Clock

	// execute runs an operation and returns when there is nothing left to do, or
	// ctx has ended. canceled is closed when somebody asks for the end of the operation.
	// With yield it gives its worker to another execution and goes on without one: to be
	// called by one that waits for others and does nothing meanwhile. again is after what time to run it
	// again at the latest. Zero: it was run to its end.
	execute func(ctx context.Context, key types.NamespacedName, id string, canceled <-chan struct{}, yield func()) (again time.Duration)
	// ready is [Options.Ready].
	ready func(ctx context.Context) error
	// notify is called when an execution has ended and the instance is free for the next one.
	notify func(ctx context.Context, key types.NamespacedName)

	mu    sync.Mutex // guards what follows, and all fields of tasks
	tasks map[types.NamespacedName]*task
	// ended has the last operation of each instance that was run to its end: a
	// cache that is behind may still show it as active.
	ended map[types.NamespacedName]string
}

// task is an execution that waits or runs.
type task struct {
	id       string
	canceled chan struct{}
	isClosed bool
	// again is as with [runner.execute].
	again time.Duration
}

func newRunner(workers int, c clock.Clock) *runner {
	return &runner{
		clock: c,
		Pool:  workpool.New(map[workpool.Lane]workpool.Limits{laneLimited: {Workers: workers}, laneRequested: {Workers: workers}, laneShort: {}}),
		tasks: map[types.NamespacedName]*task{}, ended: map[types.NamespacedName]string{},
	}
}

// Start runs operations until ctx ends.
func (r *runner) Start(ctx context.Context) error {
	if r.ready != nil && r.ready(ctx) != nil {
		return nil //nolint:nilerr // it only fails when ctx has ended
	}
	return r.Pool.Start(ctx)
}

// submit has an operation run, unless it does already or the instance is busy
// with the one before; its end wakes the reconciler.
func (r *runner) submit(key types.NamespacedName, id string, lane workpool.Lane, canceled bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended[key] == id {
		return
	}
	if canceled {
		lane = laneShort
	}
	t, ok := r.tasks[key]
	switch {
	case !ok:
		t = &task{id: id, canceled: make(chan struct{})}
		r.tasks[key] = t
		r.Submit(r.work(key, lane, t))
	case t.id != id:
		return
	case lane == laneShort:
		r.Move(key, lane)
	}
	if canceled && !t.isClosed {
		t.isClosed = true
		close(t.canceled)
	}
}

// work is an execution as work of the pool.
func (r *runner) work(key types.NamespacedName, lane workpool.Lane, t *task) workpool.Work {
	return workpool.Work{
		Key: key, Lane: lane,
		Run: func(ctx context.Context, detach func() bool) {
			again := r.execute(ctx, key, t.id, t.canceled, func() { detach() })
			r.mu.Lock()
			defer r.mu.Unlock()
			if t.again = again; again == 0 && ctx.Err() == nil { // neither dropped nor interrupted
				r.ended[key] = t.id
			}
		},
		Ended: func(ctx context.Context) {
			r.mu.Lock()
			delete(r.tasks, key)
			again := t.again
			r.mu.Unlock()
			if again > 0 {
				sleepUnless(ctx, r.clock, again, nil)
			}
			if ctx.Err() == nil {
				r.notify(ctx, key) // also for one that was dropped, whose own context is over
			}
		},
	}
}

// drop ends the execution for an instance that is gone. It does not wait for the end.
func (r *runner) drop(key types.NamespacedName) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.ended, key)
	if r.Cancel(key) {
		delete(r.tasks, key)
	}
}

// load says how many executions run and how many wait.
func (r *runner) load() (running, waiting int) {
	for _, lane := range lanes {
		load := r.Load(lane)
		running += load.Running + load.Detached
		waiting += load.Waiting
	}
	return running, waiting
}
