// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package cluster

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

const (
	// againAfter is when a watch that is refused is tried again for the first time, and refusedPause the time
	// between later tries: an API server that has just started refuses what it will allow.
	againAfter   = 5 * time.Second
	refusedPause = time.Minute
)

// watches tell when inputs change. They transfer metadata only: what an input says is read when a snapshot is taken.
// One goroutine calls follow and close; the other methods may be called concurrently.
type watches struct {
	client metadata.Interface
	clock  clock.Clock
	// wake is called when something about an input may have changed. It must not block.
	wake func()

	mu      sync.Mutex // guards running
	running map[input]*watch
}

func newWatches(c metadata.Interface, clock clock.Clock, wake func()) *watches {
	return &watches{client: c, clock: clock, wake: wake, running: map[input]*watch{}}
}

// follow watches these inputs, and no others any more, until ctx ends or close is called.
func (w *watches) follow(ctx context.Context, inputs map[input]versions) {
	w.mu.Lock()
	var ended []*watch
	for i, one := range w.running {
		if _, wanted := inputs[i]; !wanted {
			ended = append(ended, one)
			delete(w.running, i)
		}
	}
	for i := range inputs {
		if w.running[i] == nil {
			w.running[i] = w.start(ctx, i)
		}
	}
	w.mu.Unlock()
	stop(ended)
}

// close ends all watches, and returns when nothing of them runs any more.
func (w *watches) close() {
	w.mu.Lock()
	ended := make([]*watch, 0, len(w.running))
	for _, one := range w.running {
		ended = append(ended, one)
	}
	clear(w.running)
	w.mu.Unlock()
	stop(ended)
}

func stop(ended []*watch) {
	for _, one := range ended {
		one.cancel()
	}
	for _, one := range ended {
		<-one.done
	}
}

// begin says that a snapshot begins now, which has what the watches show by now, or something newer. Without it a watch
// that lags behind, as one does whose connection is lost, would make one snapshot after the other.
func (w *watches) begin() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, one := range w.running {
		if now, known := one.versions(); known {
			one.before = now
		}
	}
}

// outdate reports whether a watch shows something else than what was seen, and than what it showed when the last
// snapshot began.
func (w *watches) outdate(s *seen) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i, one := range w.running {
		now, known := one.versions()
		if known && !s.current(i, now) && (one.before == nil || !maps.Equal(one.before, now)) {
			return true
		}
	}
	return false
}

// unchanged reports whether all inputs are watched, and are as they were seen.
func (w *watches) unchanged(s *seen) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range s.inputs {
		one := w.running[i]
		if one == nil {
			return false
		}
		if now, known := one.versions(); !known || !s.current(i, now) {
			return false
		}
	}
	return len(s.inputs) > 0
}

// refused reports whether something may not be watched that may be there.
func (w *watches) refused() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, one := range w.running {
		if err := one.refusal(); err != nil && !isAbsent(err) {
			return true
		}
	}
	return false
}

// watch is that of one input.
type watch struct {
	input  input
	cancel context.CancelFunc
	done   chan struct{} // closed when it has ended
	// before is what it showed when the last snapshot began; nil: nothing. It is guarded by the lock of all watches.
	before versions

	mu sync.Mutex // guards what follows
	// store has what there is; nil as long as that is not known.
	store cache.Store
	// refused is why it is not watched; nil if it is, or nothing is known yet.
	refused error
}

// start begins to watch an input.
func (w *watches) start(ctx context.Context, i input) *watch {
	ctx, cancel := context.WithCancel(ctx)
	one := &watch{input: i, cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(one.done)
		defer cancel()
		w.run(ctx, one)
	}()
	return one
}

// run watches an input until ctx ends. What the cluster refuses is tried again, rarely, and said once.
func (w *watches) run(ctx context.Context, one *watch) {
	logger := log.FromContext(ctx).WithName("desired").WithValues("input", one.input.String())
	said := false
	for refusals := 1; ; refusals++ {
		worked, err := w.once(ctx, one, func() {
			if said {
				said = false
				logger.Info("The input is watched now")
			}
		})
		if ctx.Err() != nil {
			return
		}
		if worked {
			refusals = 1
		}
		pause := refusedPause
		if refusals == 1 {
			pause = againAfter
		} else if !said {
			said = true
			if isAbsent(err) {
				logger.Info("The cluster does not serve the input, which is tried again each minute", "cause", err.Error())
			} else {
				logger.Info("The input may not be watched, so changes of it reach hosts after up to a minute: allow windows-controller to list and watch it, with a Role or ClusterRole", "cause", err.Error())
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-w.clock.After(pause):
		}
	}
}

// once watches an input until the cluster refuses it, which is the error, or ctx ends. Worked says that it did in
// between; then it has called working.
func (w *watches) once(ctx context.Context, one *watch, working func()) (worked bool, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	informer := metadatainformer.NewFilteredMetadataInformer(w.client, one.input.GroupVersionResource, one.input.namespace, 0, cache.Indexers{}, func(o *metav1.ListOptions) {
		if one.input.name != "" {
			o.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, one.input.name).String()
		}
	}).Informer()
	if err := informer.SetTransform(onlyVersion); err != nil {
		return false, fmt.Errorf("watching %s: %w", one.input, err)
	}
	if err := informer.SetWatchErrorHandlerWithContext(func(ctx context.Context, _ *cache.Reflector, err error) {
		if apierrors.IsForbidden(err) || isAbsent(err) {
			cancel(err)
			return
		}
		// Nothing new for people: an API server that is away fails all that is done with it, and there are two dozen
		// watches. The informer tries again, at growing intervals.
		log.FromContext(ctx).V(2).Info("A watch of an input has ended", "input", one.input.String(), "cause", err.Error())
	}); err != nil {
		return false, fmt.Errorf("watching %s: %w", one.input, err)
	}
	registration, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { w.wake() },
		UpdateFunc: func(any, any) { w.wake() },
		DeleteFunc: func(any) { w.wake() },
	})
	if err != nil {
		return false, fmt.Errorf("watching %s: %w", one.input, err)
	}
	var synced sync.WaitGroup
	synced.Go(func() {
		select {
		case <-ctx.Done():
		case <-registration.HasSyncedChecker().Done():
			worked = true
			working()
			one.set(informer.GetStore(), nil)
			w.wake() // also if there is nothing
		}
	})
	informer.RunWithContext(ctx)
	synced.Wait()
	err = context.Cause(ctx)
	one.set(nil, err)
	w.wake()
	return worked, err
}

// set says what is known of the input.
func (one *watch) set(store cache.Store, refused error) {
	one.mu.Lock()
	defer one.mu.Unlock()
	one.store, one.refused = store, refused
}

// refusal is why the input is not watched.
func (one *watch) refusal() error {
	one.mu.Lock()
	defer one.mu.Unlock()
	return one.refused
}

// versions returns what there is of the input, as far as that is known. Of a kind that is not served there is
// nothing.
func (one *watch) versions() (now versions, known bool) {
	one.mu.Lock()
	defer one.mu.Unlock()
	now = versions{}
	if one.store == nil {
		return now, one.refused != nil && isAbsent(one.refused)
	}
	for _, item := range one.store.List() {
		if object, err := meta.Accessor(item); err == nil {
			now[object.GetName()] = object.GetResourceVersion()
		}
	}
	return now, true
}

// onlyVersion keeps of the metadata of an object what tells whether it has changed.
func onlyVersion(item any) (any, error) {
	object, ok := item.(*metav1.PartialObjectMetadata)
	if !ok {
		return item, nil // what an informer makes of a deletion that it missed
	}
	object.ObjectMeta = metav1.ObjectMeta{Namespace: object.Namespace, Name: object.Name, UID: object.UID, ResourceVersion: object.ResourceVersion}
	return object, nil
}
