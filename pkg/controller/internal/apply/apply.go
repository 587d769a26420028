// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

// Package apply writes WindowsNodePools and WindowsInstances by server-side apply,
// and only when a write would change something. It imports nothing of this project
// but the API, its generated code, and package object.
package apply

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/controller/internal/object"
	acwindowsv1alpha1 "github.com/openshift/windows-instance-api/pkg/generated/applyconfiguration/windows/v1alpha1"
)

// Applier applies as one field manager. It is safe for concurrent use.
//
// Objects that are handed to it must have their managed fields: a cache must not
// strip them. If it does, everything stays correct, but each call is a request.
type Applier struct {
	// Client writes. Required.
	Client client.Client
	// Live reads from the API server, not from a cache. It is asked before an object
	// is made, because a cache may not know yet of an object that somebody else just
	// made, and an apply would take that object over. Required.
	Live client.Reader
	// FieldManager is the name to apply as. It must never change: fields applied
	// under an old name would stay for ever. Required.
	FieldManager string
}

// retryStale is when to try again after the cache turned out to be behind.
const retryStale = 2 * time.Second

// ExistsError says that an object which was to be made is there already.
type ExistsError struct {
	// Kind and Name say which object it is.
	Kind, Name string
}

func (e *ExistsError) Error() string {
	return fmt.Sprintf("%s %s exists already and is not in the cache yet", e.Kind, e.Name)
}

// Instance makes current what want says. A nil current means that there is no such
// instance: it is made, unless it turns out to be there, which is an *ExistsError.
// The first result says whether anything was written.
func (a *Applier) Instance(ctx context.Context, current *v1alpha1.WindowsInstance, want *acwindowsv1alpha1.WindowsInstanceApplyConfiguration) (bool, error) {
	key := client.ObjectKey{Namespace: *want.Namespace, Name: *want.Name}
	if current == nil {
		if err := a.mustBeAbsent(ctx, key, &v1alpha1.WindowsInstance{}, "WindowsInstance"); err != nil {
			return false, err
		}
	} else {
		have, err := acwindowsv1alpha1.ExtractWindowsInstance(current, a.FieldManager)
		if err != nil {
			return false, fmt.Errorf("read managed fields of WindowsInstance %s: %w", key, err)
		}
		have.Status = nil
		if same, err := equal(have, want); err != nil || same {
			return false, err
		}
		// With the UID, an instance that was deleted meanwhile is not made again.
		want.WithUID(current.UID)
	}
	if err := a.Client.Apply(ctx, want, client.FieldOwner(a.FieldManager), client.ForceOwnership); err != nil {
		return false, fmt.Errorf("apply WindowsInstance %s: %w", key, err)
	}
	return true, nil
}

// Pool is Instance for a pool. It returns the pool: current, or the one that was created.
func (a *Applier) Pool(ctx context.Context, current *v1alpha1.WindowsNodePool, want *acwindowsv1alpha1.WindowsNodePoolApplyConfiguration) (*v1alpha1.WindowsNodePool, error) {
	key := client.ObjectKey{Namespace: *want.Namespace, Name: *want.Name}
	if current == nil {
		if err := a.mustBeAbsent(ctx, key, &v1alpha1.WindowsNodePool{}, "WindowsNodePool"); err != nil {
			return nil, err
		}
	} else {
		have, err := acwindowsv1alpha1.ExtractWindowsNodePool(current, a.FieldManager)
		if err != nil {
			return nil, fmt.Errorf("read managed fields of WindowsNodePool %s: %w", key, err)
		}
		have.Status = nil
		if same, err := equal(have, want); err != nil || same {
			return current, err
		}
		want.WithUID(current.UID)
	}
	if err := a.Client.Apply(ctx, want, client.FieldOwner(a.FieldManager), client.ForceOwnership); err != nil {
		return nil, fmt.Errorf("apply WindowsNodePool %s: %w", key, err)
	}
	if current != nil {
		return current, nil
	}
	log.FromContext(ctx).Info("Created a pool", "pool", key)
	// The server has answered with the pool as it is.
	return &v1alpha1.WindowsNodePool{
		ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name, UID: ptr.Deref(want.UID, ""), Generation: ptr.Deref(want.Generation, 0)},
	}, nil
}

// RetryStale has a pass repeated after an [ExistsError] or a conflict: in a moment the cache knows
// of the object, or of its change. Every other error it returns.
func RetryStale(ctx context.Context, err error) (reconcile.Result, error) {
	if _, exists := errors.AsType[*ExistsError](err); exists || apierrors.IsConflict(err) {
		log.FromContext(ctx).V(2).Info("The cache is behind, trying again", "cause", err.Error())
		return reconcile.Result{RequeueAfter: retryStale}, nil
	}
	return reconcile.Result{}, err
}

// PoolStatus makes the part of the status of current that want has what want says.
// A field manager must always want the same fields and types of conditions: those
// it leaves out later are not noticed. One that owns recentRemovals wants an empty list,
// and not nil, when there are none. Several field managers can each own some of
// the conditions, because these are a map by type.
func (a *Applier) PoolStatus(ctx context.Context, current *v1alpha1.WindowsNodePool, want *acwindowsv1alpha1.WindowsNodePoolStatusApplyConfiguration) (bool, error) {
	key := client.ObjectKeyFromObject(current)
	fewer := want.RecentRemovals != nil && len(want.RecentRemovals) < len(current.Status.RecentRemovals)
	if has, err := contains(&current.Status, want); err != nil || has && !fewer {
		return false, err
	}
	pool := acwindowsv1alpha1.WindowsNodePool(current.Name, current.Namespace).WithUID(current.UID).WithStatus(want)
	if err := a.Client.Status().Apply(ctx, pool, client.FieldOwner(a.FieldManager), client.ForceOwnership); err != nil {
		return false, fmt.Errorf("apply status of WindowsNodePool %s: %w", key, err)
	}
	return true, nil
}

func (a *Applier) mustBeAbsent(ctx context.Context, key client.ObjectKey, obj client.Object, kind string) error {
	err := a.Live.Get(ctx, key, obj)
	switch {
	case err == nil:
		return &ExistsError{Kind: kind, Name: key.String()}
	case !object.Gone(err):
		return fmt.Errorf("read %s %s: %w", kind, key, err)
	default:
		return nil
	}
}
