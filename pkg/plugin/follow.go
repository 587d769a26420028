// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package plugin

import (
	"context"
	"errors"
	"fmt"
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
)

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
	for f.last.Active() {
		err := f.watch(ctx)
		switch {
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case err != nil && !isTransient(err):
			return nil, err
		case err != nil:
			f.progress.trouble(err)
		}
		if !f.last.Active() {
			break
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(retryWatch):
		}
	}
	return f.last, nil
}

// isTransient says whether an error while an operation is followed may go away by itself.
func isTransient(err error) bool {
	status, ok := errors.AsType[*apierrors.StatusError](err)
	if !ok {
		return !errors.Is(err, errGone)
	}
	return status.ErrStatus.Code >= 500 || apierrors.IsTooManyRequests(err) || apierrors.IsNotFound(err) && !aboutInstance(err)
}

// operationFollower shows one operation.
type operationFollower struct {
	c        *client
	t        target
	last     *v1alpha1.Operation // as it was seen last
	progress *progress
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

// watch shows every change until the operation or the watch has ended.
func (f *operationFollower) watch(ctx context.Context) error {
	instances := f.c.windows.WindowsInstances(f.t.Namespace)
	instance, err := instances.Get(ctx, f.t.Name, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("following the operation: %w", err)
	}
	if !f.update(instance) {
		return fmt.Errorf("%w: too many came after it in the history of windowsinstance/%s", errGone, f.t.Name)
	}
	if !f.last.Active() {
		return nil
	}
	w, err := instances.Watch(ctx, metav1.ListOptions{
		FieldSelector: fields.OneTermEqualSelector("metadata.name", f.t.Name).String(), ResourceVersion: instance.ResourceVersion,
	})
	if err != nil {
		return fmt.Errorf("following the operation: %w", err)
	}
	defer w.Stop()
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-ticker.C:
			f.progress.tick(f.last)
		case event, open := <-w.ResultChan():
			if !open || event.Type == watch.Error {
				return nil
			}
			if event.Type == watch.Deleted {
				return fmt.Errorf("%w: windowsinstance/%s was removed", errGone, f.t.Name)
			}
			if instance, ok := event.Object.(*v1alpha1.WindowsInstance); ok && f.update(instance) && !f.last.Active() {
				return nil
			}
		}
	}
}
