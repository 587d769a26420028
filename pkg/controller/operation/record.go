// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package operation

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/controller/internal/object"
)

var (
	// errOver means that there is nothing left to do: the operation has ended, another
	// one has taken its place, or the instance is gone.
	errOver = errors.New("the operation is over")
	// errNotLeading means that another process has the operation. It is [errOver] for this execution; whether it is for this process, only
	// time tells: what says who leads may have been wrong for a moment.
	errNotLeading = fmt.Errorf("another process works on it: %w", errOver)
	// errCanceled means that the operation is [execution.unwanted].
	errCanceled = errors.New("the operation was canceled")
)

// operation is the operation as it is now: as it was last read or written, with what was noted since.
func (e *execution) operation() *v1alpha1.Operation { return e.instance.Status.Operation }

// unwanted says whether the operation is to end early: somebody asked for that,
// its instance is being deleted, after which its host is only removed, or it is that of a backup.
func (e *execution) unwanted() bool {
	return e.operation().CancelRequestedAt != nil || deleted(e.instance) || e.restored()
}

// restored says whether the operation was requested long before its instance was created: it comes
// from a backup, and whoever asked for it did not want it to happen now. The hour is for clocks
// that differ, and for a backup that is restored at once. An instance that was created in the future,
// by a clock that was wrong, says nothing.
func (e *execution) restored() bool {
	created := e.instance.CreationTimestamp.Time
	return !created.After(e.clock.Now()) && e.operation().RequestedAt.Add(time.Hour).Before(created)
}

// deleted says whether the operation of an instance is in vain as that is being deleted.
func deleted(instance *v1alpha1.WindowsInstance) bool {
	return !instance.DeletionTimestamp.IsZero() && instance.Status.Operation.Type != v1alpha1.OperationRemove
}

// load reads the operation, and goes on trying until ctx ends. It fails with [errOver],
// and with the error of ctx.
func (e *execution) load(ctx context.Context) error {
	return e.retryRecord(ctx, "Reading the operation", func() error { return e.read(ctx) })
}

// retryRecord calls f, which reads or writes the operation, until it succeeds, or the operation is over, or ctx ends. Most of what else is done waits for it,
// so that an outage is noted for the deadlines.
func (e *execution) retryRecord(ctx context.Context, doing string, f func() error) error {
	from := e.clock.Now()
	err := retryAPI(ctx, e.clock, doing, isOver, f)
	if until := e.clock.Now(); until.Sub(from) >= outage {
		e.lose(from, until)
	}
	return err
}

func (e *execution) read(ctx context.Context) error {
	e.stopRecordingLate()
	instance := &v1alpha1.WindowsInstance{}
	if err := e.live.Get(ctx, e.key, instance); err != nil {
		if object.Gone(err) {
			return errOver
		}
		return fmt.Errorf("reading the instance: %w", err)
	}
	if e.instance != nil && e.instance.UID != instance.UID {
		return errOver
	}
	if op := instance.Status.Operation; !op.Active() || op.ID != e.id {
		return errOver
	}
	e.stored, e.instance = instance, e.withNoted(instance)
	return nil
}

// note changes the operation, and leaves it to the next write to record that. What is noted is lost when the process ends: it must only say
// what was found out, or that something is begun that changes neither the host nor its Node. change is as that of update.
func (e *execution) note(change func(*v1alpha1.WindowsInstanceStatus)) {
	e.stopRecordingLate() // what it writes has not got this
	if len(e.noted) == 0 {
		e.notedAt = e.clock.Now()
	}
	e.noted = append(e.noted, change)
	noted := e.instance.DeepCopy()
	change(&noted.Status)
	e.instance = noted
}

// withNoted is an instance with everything that was noted and not written.
func (e *execution) withNoted(instance *v1alpha1.WindowsInstance) *v1alpha1.WindowsInstance {
	if len(e.noted) == 0 {
		return instance
	}
	return with(instance, e.noted)
}

// with is a copy of an instance with what was noted.
func with(instance *v1alpha1.WindowsInstance, noted []func(*v1alpha1.WindowsInstanceStatus)) *v1alpha1.WindowsInstance {
	changed := instance.DeepCopy()
	for _, change := range noted {
		change(&changed.Status)
	}
	return changed
}

// noteInterval is how long a note waits to be written while few operations run.
const noteInterval = 2 * time.Second

// recordLate has what was noted written [pace.noteInterval] after the oldest of it, unless stopRecordingLate is called before.
func (e *execution) recordLate(ctx context.Context) {
	if len(e.noted) == 0 {
		return
	}
	base, noted, stop, done := e.stored, e.noted, make(chan struct{}), make(chan *v1alpha1.WindowsInstance, 1)
	timer := e.clock.NewTimer(e.pace.noteInterval() - e.clock.Since(e.notedAt))
	go func() {
		defer timer.Stop()
		select {
		case <-timer.C():
			done <- e.writeNoted(ctx, base, noted)
		case <-stop:
			done <- nil
		}
	}()
	e.stopLate = func() {
		close(stop)
		if written := <-done; written != nil {
			e.stored, e.instance, e.noted = written, written, nil
		}
	}
}

// lateAttempts is how often writeNoted tries. The write that comes next is made in any case.
const lateAttempts = 3

// writeNoted writes what was noted about the object as it was read, and returns that; nil if it could not. Of the execution it only
// uses what never changes, as that goes on meanwhile.
func (e *execution) writeNoted(ctx context.Context, base *v1alpha1.WindowsInstance, noted []func(*v1alpha1.WindowsInstanceStatus)) *v1alpha1.WindowsInstance {
	for range lateAttempts {
		written := with(base, noted)
		boundMessages(written.Status.Operation)
		err := object.UpdateStatus(ctx, e.client, written)
		if err == nil {
			return written
		}
		// Somebody else has written, and not the process that has taken over: that would go on from what it has read.
		if !apierrors.IsConflict(err) || e.ensureLeading(ctx) != nil {
			return nil
		}
		now := &v1alpha1.WindowsInstance{}
		if err := e.live.Get(ctx, e.key, now); err != nil || now.UID != base.UID {
			return nil
		}
		if op := now.Status.Operation; !op.Active() || op.ID != e.id {
			return nil
		}
		base = now
	}
	return nil
}

// stopRecordingLate ends what recordLate has begun.
func (e *execution) stopRecordingLate() {
	if stop := e.stopLate; stop != nil {
		e.stopLate = nil
		stop()
	}
}

// update changes the operation, and goes on trying until ctx ends. change may be
// called more than once, and must give the same again when what it did is there already.
// It fails like load.
func (e *execution) update(ctx context.Context, change func(*v1alpha1.Operation)) error {
	return e.updateStatus(ctx, func(status *v1alpha1.WindowsInstanceStatus) { change(status.Operation) })
}

// updateStatus is update for what is beside the operation in the status.
func (e *execution) updateStatus(ctx context.Context, change func(*v1alpha1.WindowsInstanceStatus)) error {
	e.stopRecordingLate()
	return e.retryRecord(ctx, "Writing the operation", func() error {
		for {
			changed := e.withNoted(e.stored).DeepCopy()
			change(&changed.Status)
			if op := changed.Status.Operation; e.changed && op.Type == v1alpha1.OperationReconfigure {
				op.HostChanged = true
			}
			boundMessages(changed.Status.Operation)
			if equality.Semantic.DeepEqual(changed.Status, e.stored.Status) {
				e.instance, e.noted = e.stored, nil
				return nil
			}
			err := object.UpdateStatus(ctx, e.client, changed)
			switch {
			case err == nil:
				e.stored, e.instance, e.noted = changed, changed, nil
				return nil
			case object.Gone(err):
				return errOver
			case !apierrors.IsConflict(err):
				// It may have been written all the same; then the next attempt is a conflict.
				return fmt.Errorf("writing the status: %w", err)
			}
			// Somebody else has written. If it is the process that has taken over, what this
			// one knows is old.
			if err := e.ensureLeading(ctx); err != nil {
				return err
			}
			if err := e.read(ctx); err != nil {
				return err
			}
		}
	})
}

// isOver says whether the record of the operation cannot be read or written any more.
// Everything else passes: rights that are missing are given again, and a server that is
// starting does not know yet what it serves.
func isOver(err error) bool {
	return errors.Is(err, errOver) || apierrors.IsInvalid(err) || apierrors.IsBadRequest(err)
}

// isFinal says whether an error of the API server about another object stays as it is, a refusal if [retryAPI] has waited for its end.
func isFinal(err error) bool {
	var says finalError
	return errors.As(err, &says) || isOver(err) || object.Gone(err) || apierrors.IsForbidden(err)
}

// doesNotPass says so of an error that may as well be about what was read, as an input that is missing: nothing but trouble with the API server passes.
func doesNotPass(err error) bool { return !object.Passes(err) }

// finalError has [retryAPI] not try again.
type finalError struct{ error }

func (e finalError) Unwrap() error { return e.error }
