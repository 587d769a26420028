// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package plugin

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
)

// errWaitTimeout ends the following of an operation that goes on.
var errWaitTimeout = errors.New("--wait-timeout is over")

const (
	// tick is how often the line with the elapsed time is drawn anew.
	tick = time.Second
	// retryWatch is how long is waited before a server that cannot be reached is
	// asked again.
	retryWatch = time.Second
)

// follow shows the course of an operation until it has ended, and returns it as it
// ended. It goes on when the server is restarted: the operation does, too.
func (e *env) follow(ctx context.Context, c *client, t target, operation *v1alpha1.Operation, timeout time.Duration) (*v1alpha1.Operation, error) {
	if timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, timeout, errWaitTimeout)
		defer cancel()
	}
	p := newProgress(e, t)
	defer p.clear()
	p.show(operation)
	f := &operationFollower{c: c, t: t, id: operation.ID, progress: p}
	for operation.Active() {
		found, version, err := f.read(ctx)
		switch {
		case ctx.Err() != nil:
		case err != nil && !passes(err):
			return nil, err
		case err != nil:
			p.trouble(err)
		default:
			operation = found
			p.show(operation)
			if operation.Active() {
				if operation, err = f.watch(ctx, version, operation); err != nil {
					return nil, err
				}
			}
			if ctx.Err() == nil {
				continue
			}
		}
		if err := pause(ctx, retryWatch); err != nil {
			return nil, context.Cause(ctx)
		}
	}
	return operation, nil
}

// passes says whether an error while an operation is followed may pass by itself.
func passes(err error) bool {
	status, ok := errors.AsType[*apierrors.StatusError](err)
	if !ok {
		return !errors.Is(err, errGone)
	}
	return status.ErrStatus.Code >= 500 || apierrors.IsTooManyRequests(err) || apierrors.IsNotFound(err) && !aboutInstance(err)
}

// errGone is for an operation that nobody knows any more.
var errGone = errors.New("the operation is known no more: too many came after it")

// operationFollower looks at one operation.
type operationFollower struct {
	c        *client
	t        target
	id       string
	progress *progress
}

// read returns the operation and the version of the instance.
func (f *operationFollower) read(ctx context.Context) (operation *v1alpha1.Operation, version string, err error) {
	instance, err := f.c.windows.WindowsInstances(f.t.Namespace).Get(ctx, f.t.Name, metav1.GetOptions{})
	if err != nil {
		return nil, "", fmt.Errorf("following the operation: %w", err)
	}
	operation = f.find(instance)
	if operation == nil {
		return nil, "", errGone
	}
	return operation, instance.ResourceVersion, nil
}

// find returns the operation, wherever it is by now.
func (f *operationFollower) find(instance *v1alpha1.WindowsInstance) *v1alpha1.Operation {
	if op := instance.Status.Operation; op != nil && op.ID == f.id {
		return op
	}
	i := slices.IndexFunc(instance.Status.History, func(op v1alpha1.Operation) bool { return op.ID == f.id })
	if i < 0 {
		return nil
	}
	return &instance.Status.History[i]
}

// watch shows every change until the operation or the watch has ended. It returns the
// operation as it was seen last.
func (f *operationFollower) watch(ctx context.Context, version string, last *v1alpha1.Operation) (*v1alpha1.Operation, error) {
	w, err := f.c.windows.WindowsInstances(f.t.Namespace).Watch(ctx, metav1.ListOptions{
		FieldSelector: fields.OneTermEqualSelector("metadata.name", f.t.Name).String(), ResourceVersion: version,
	})
	if err != nil {
		if ctx.Err() == nil && !passes(err) {
			return nil, fmt.Errorf("following the operation: %w", err)
		}
		return last, pauseOrCause(ctx)
	}
	defer w.Stop()
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return last, context.Cause(ctx)
		case <-ticker.C:
			f.progress.tick(last)
		case event, open := <-w.ResultChan():
			if !open || event.Type == watch.Error {
				return last, pauseOrCause(ctx)
			}
			instance, ok := event.Object.(*v1alpha1.WindowsInstance)
			if !ok {
				continue
			}
			if event.Type == watch.Deleted {
				return nil, fmt.Errorf("windowsinstance/%s was removed, and the operation with it", f.t.Name)
			}
			if found := f.find(instance); found != nil {
				last = found
				f.progress.show(last)
				if !last.Active() {
					return last, nil
				}
			}
		}
	}
}

// pauseOrCause waits before the next try. Its error is why ctx ended.
func pauseOrCause(ctx context.Context) error {
	if pause(ctx, retryWatch) != nil {
		return context.Cause(ctx)
	}
	return nil
}

func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
