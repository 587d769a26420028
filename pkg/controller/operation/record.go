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
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	windowsv1alpha1 "github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
)

var (
	// errOver means that there is nothing left to do: the operation has ended, another
	// one has taken its place, or the instance is gone.
	errOver = errors.New("the operation is over")
	// errCanceled means that the operation is [stored.unwanted].
	errCanceled = errors.New("the operation was canceled")
)

const (
	// apiRetryFirst and apiRetryLongest bound the pause before a request that the API server did
	// not take is made again.
	apiRetryFirst   = time.Second
	apiRetryLongest = 10 * time.Second
)

// stored is the operation as the API server has it. It is used by one goroutine.
type stored struct {
	client client.Client
	// live reads from the API server: a cache may still have what we have long changed.
	live  client.Reader
	clock clock.Clock
	key   types.NamespacedName
	id    string
	// instance is the object as it was last read or written. It is never changed in place.
	instance *windowsv1alpha1.WindowsInstance
}

// operation is the operation as it was last read or written.
func (r *stored) operation() *windowsv1alpha1.Operation { return r.instance.Status.Operation }

// unwanted says whether the operation shall end before its end: somebody asked for that,
// or its instance is being deleted, after which its host is only removed.
func (r *stored) unwanted() bool {
	return r.operation().CancelRequestedAt != nil || deleted(r.instance)
}

// deleted says whether the operation of an instance is in vain as that is being deleted.
func deleted(instance *windowsv1alpha1.WindowsInstance) bool {
	return !instance.DeletionTimestamp.IsZero() && instance.Status.Operation.Type != windowsv1alpha1.OperationRemove
}

// load reads the operation, and goes on trying until ctx ends. It fails with [errOver],
// and with the error of ctx.
func (r *stored) load(ctx context.Context) error {
	return retryUntil(ctx, r.clock, "Reading the operation", isOver, func() error { return r.read(ctx) })
}

func (r *stored) read(ctx context.Context) error {
	instance := &windowsv1alpha1.WindowsInstance{}
	if err := r.live.Get(ctx, r.key, instance); err != nil {
		if gone(err) {
			return errOver
		}
		return fmt.Errorf("reading the instance: %w", err)
	}
	if r.instance != nil && r.instance.UID != instance.UID {
		return errOver
	}
	if op := instance.Status.Operation; !op.Active() || op.ID != r.id {
		return errOver
	}
	r.instance = instance
	return nil
}

// update changes the operation, and goes on trying until ctx ends. change may be
// called more than once, and must give the same again when what it did is there already.
// It fails like load.
func (r *stored) update(ctx context.Context, change func(*windowsv1alpha1.Operation)) error {
	return retryUntil(ctx, r.clock, "Writing the operation", isOver, func() error {
		for {
			changed := r.instance.DeepCopy()
			change(changed.Status.Operation)
			if equality.Semantic.DeepEqual(changed.Status, r.instance.Status) {
				return nil
			}
			err := r.client.Status().Update(ctx, changed)
			switch {
			case err == nil:
				r.instance = changed
				return nil
			case gone(err):
				return errOver
			case !apierrors.IsConflict(err):
				// It may have been written all the same; then the next attempt is a conflict.
				return fmt.Errorf("writing the status: %w", err)
			}
			if err := r.read(ctx); err != nil {
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

// gone says whether an object is not there, as opposed to the API that it belongs to.
func gone(err error) bool {
	return apierrors.IsNotFound(err) && !apierrors.IsUnexpectedServerError(err)
}

// final says whether an error of the API server about another object stays as it is.
func final(err error) bool {
	var says finalError
	return errors.As(err, &says) || isOver(err) || gone(err) || apierrors.IsForbidden(err)
}

// finalError has [retryAPI] not try again.
type finalError struct{ error }

func (e finalError) Unwrap() error { return e.error }

// retryAPI calls f until it succeeds, or fails with a [final] error, or ctx ends.
func retryAPI(ctx context.Context, c clock.Clock, doing string, f func() error) error {
	return retryUntil(ctx, c, doing, final, f)
}

func retryUntil(ctx context.Context, c clock.Clock, doing string, isFinal func(error) bool, f func() error) error {
	for pause := apiRetryFirst; ; pause = min(2*pause, apiRetryLongest) {
		err := f()
		if err == nil || isFinal(err) {
			return err
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		log.FromContext(ctx).Info(doing+" did not work and is tried again", "cause", err.Error())
		if err := sleep(ctx, c, pause); err != nil {
			return err
		}
	}
}

// sleep lets time go by. It fails with the cause of ctx when that ends before.
func sleep(ctx context.Context, c clock.Clock, d time.Duration) error {
	timer := c.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C():
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
