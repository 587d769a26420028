// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package plugin

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
)

// errWaitTimeout ends the following of an operation that continues.
var errWaitTimeout = errors.New("--wait-timeout is over")

// errGone is for an operation that the instance does not know any more.
var errGone = errors.New("the operation is no longer known")

const (
	// tick is how often the line with the elapsed time is redrawn.
	tick = time.Second
	// retryWatch is the time between two requests to a server that cannot be reached.
	retryWatch = time.Second
	// watchLasts is how long a watch has to last until it counts as one: a server may grant it, and refuse in it what is watched.
	watchLasts = 5 * time.Second
)

// keepLooking calls look until what it shows is over, an error does not pass, or ctx ends, whose cause it then returns. look shows what
// there is, and then what changes, until that is over, or its connection ends, also without an error. It calls seen once it is connected.
// What fails right after that has not been seen: it is the same trouble that goes on. trouble is told, once for each time, that what is shown cannot be seen.
func keepLooking(ctx context.Context, look func(ctx context.Context, seen func()) (over bool, err error), trouble func(err error)) error {
	var (
		began     bool      // a refusal may be that of a server that was just restarted
		connected time.Time // since when it is. Zero: it is not
		lost      time.Time // since when it cannot be seen. Zero: it can
	)
	seen := func() { began, connected = true, time.Now() }
	for {
		connected = time.Time{}
		over, err := look(ctx, seen)
		if !connected.IsZero() && (err == nil || time.Since(connected) >= watchLasts) {
			lost = time.Time{}
		}
		first := lost.IsZero()
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case over:
			return err
		case err == nil:
		case errors.Is(err, errGone), !began && isRefusal(err):
			return err
		default:
			if first {
				lost = time.Now()
			}
			if !mayPass(err, time.Since(lost)) {
				return err
			}
			if first {
				trouble(err)
			}
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(retryWatch):
		}
	}
}

// isRefusal says whether a server has refused something because of who asks for it.
func isRefusal(err error) bool { return apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) }

// restartGrace is for how long a server that was just restarted may refuse what it
// granted before: it has not read yet who may do what, and what it serves.
const restartGrace = 30 * time.Second

// mayPass says whether what was followed may be had again later although it is
// refused now. since is for how long it is.
func mayPass(err error, since time.Duration) bool {
	status, ok := errors.AsType[*apierrors.StatusError](err)
	if !ok {
		return true // no connection
	}
	switch code := status.ErrStatus.Code; {
	case code >= http.StatusInternalServerError, code == http.StatusTooManyRequests, isTooOld(err):
		return true
	case code == http.StatusNotFound && aboutObject(err), code == http.StatusBadRequest, code == http.StatusUnprocessableEntity:
		return false
	}
	return since < restartGrace
}

// isTooOld says whether a server does not know any more what has changed since a version, so that all is to be read again.
func isTooOld(err error) bool { return apierrors.IsResourceExpired(err) || apierrors.IsGone(err) }

// follow shows the course of an operation until it has ended, and returns it as it
// ended. It continues when the server is restarted: the operation does, too.
func (e *env) follow(ctx context.Context, c *client, t target, operation *v1alpha1.Operation, timeout time.Duration) (*v1alpha1.Operation, error) {
	if timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, timeout, errWaitTimeout)
		defer cancel()
	}
	f := &operationFollower{c: c, t: t, last: operation, progress: newProgress(e, t)}
	defer f.progress.clear()
	f.progress.show(operation)
	if !operation.Active() {
		return operation, nil
	}
	if err := keepLooking(ctx, f.look, f.trouble); err != nil {
		return nil, err
	}
	return f.last, nil
}

// operationFollower shows one operation.
type operationFollower struct {
	c        *client
	t        target
	last     *v1alpha1.Operation // as it was seen last
	progress *progress
	// late is when windows-controller should have begun the operation. Nil: it is not seen whether it has.
	late <-chan time.Time
	// told says that this was the time.
	told bool
}

// trouble says that the operation cannot be seen. For as long nobody knows whether it was begun.
func (f *operationFollower) trouble(err error) {
	f.late = nil
	f.progress.trouble(err)
}

// update shows the operation as an instance has it. It reports false when the instance does
// not know it.
func (f *operationFollower) update(instance *v1alpha1.WindowsInstance) bool {
	for _, op := range instance.Status.Operations() {
		if op.ID == f.last.ID {
			f.last = op
			f.progress.show(op)
			return true
		}
	}
	return false
}

// removed says that the operation went with its instance.
func (f *operationFollower) removed() error {
	return fmt.Errorf("%w: windowsinstance/%s was removed", errGone, f.t.Name)
}

// look shows every change until the operation or the watch has ended.
func (f *operationFollower) look(ctx context.Context, seen func()) (over bool, err error) {
	instances := f.c.windows.WindowsInstances(f.t.Namespace)
	instance, err := instances.Get(ctx, f.t.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) && aboutObject(err) {
		return false, f.removed()
	}
	if err != nil {
		return false, fmt.Errorf("following the operation: %w", err)
	}
	if !f.update(instance) {
		return false, fmt.Errorf("%w: too many came after it in the history of windowsinstance/%s", errGone, f.t.Name)
	}
	if !f.last.Active() {
		return true, nil
	}
	w, err := instances.Watch(ctx, metav1.ListOptions{
		FieldSelector: fields.OneTermEqualSelector("metadata.name", f.t.Name).String(), ResourceVersion: instance.ResourceVersion,
	})
	if err != nil {
		return false, fmt.Errorf("following the operation: %w", err)
	}
	defer w.Stop()
	seen()
	if f.late == nil && !f.told {
		f.late = time.After(answersWithin)
	}
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return false, context.Cause(ctx)
		case <-ticker.C:
			f.progress.tick(f.last)
		case <-f.late:
			f.told = true
			f.progress.unbegun(f.last)
		case event, open := <-w.ResultChan():
			if !open || event.Type == watch.Error {
				return false, nil
			}
			if event.Type == watch.Deleted {
				return false, f.removed()
			}
			if instance, ok := event.Object.(*v1alpha1.WindowsInstance); ok && f.update(instance) && !f.last.Active() {
				return true, nil
			}
		}
	}
}
