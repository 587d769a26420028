// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package configmap

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/controller/internal/apply"
	"github.com/openshift/windows-instance-api/pkg/controller/internal/object"
	acwindowsv1alpha1 "github.com/openshift/windows-instance-api/pkg/generated/applyconfiguration/windows/v1alpha1"
)

// putBackPatience is how long the last state of an instance is kept that is gone and has no entry. Whoever
// puts an entry back releases the host at once, which this controller may see before it sees the entry.
const putBackPatience = time.Minute

// leavers are the last states of instances that were deleted, by name, as long as their entry may be
// put back: one of the same name follows only when they are gone. It is safe for concurrent use.
type leavers struct {
	mu   sync.Mutex
	last map[string]leaver
}

type leaver struct {
	*v1alpha1.WindowsInstance

	// gone is when a pass first found neither the instance nor an entry. Zero: none has.
	gone time.Time
}

// see notes an instance of the ConfigMap that is being deleted, or is gone.
func (l *leavers) see(instance *v1alpha1.WindowsInstance, configMap types.NamespacedName) {
	if instance.DeletionTimestamp.IsZero() || !belongs(instance, configMap) {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.last == nil {
		l.last = map[string]leaver{}
	}
	l.last[instance.Name] = leaver{WindowsInstance: instance}
}

// retain forgets all that are gone, and have no entry, for some time.
func (l *leavers) retain(p *plan, now time.Time) {
	keep := maps.Clone(p.leaving)
	for _, entry := range slices.Concat(p.apply, p.waiting) {
		keep[entry.Name] = true
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for name, last := range l.last {
		switch {
		case !last.gone.IsZero() && !now.Before(last.gone.Add(putBackPatience)):
			delete(l.last, name) // also when this is the first pass since then
			continue
		case keep[name]:
			last.gone = time.Time{}
		case last.gone.IsZero():
			last.gone = now
		}
		l.last[name] = last
	}
}

func (l *leavers) get(name string) *v1alpha1.WindowsInstance {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.last[name].WindowsInstance
}

func (l *leavers) forget(instance *v1alpha1.WindowsInstance) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.last[instance.Name].WindowsInstance == instance {
		delete(l.last, instance.Name)
	}
}

// predecessor returns the last state of the instance that the host of an entry had before, nil if
// there was none.
func (r *Reconciler) predecessor(entry *Entry) *v1alpha1.WindowsInstance {
	before := r.left.get(entry.Name)
	if before != nil && !entry.isOf(before) {
		r.left.forget(before)
		return nil
	}
	return before
}

// succeed makes the instance of an entry that was put back. From its first moment on it has what people
// had set on the one before, as a host is configured by it at once.
func (r *Reconciler) succeed(ctx context.Context, before *v1alpha1.WindowsInstance, desired *acwindowsv1alpha1.WindowsInstanceApplyConfiguration) (*v1alpha1.WindowsInstance, error) {
	next, err := apply.OfOthers(before, fieldManager)
	if err != nil {
		return nil, fmt.Errorf("find what people had set on WindowsInstance %s: %w", before.Name, err)
	}
	next.ObjectMeta = metav1.ObjectMeta{Namespace: before.Namespace, Name: before.Name, Labels: next.Labels, Annotations: next.Annotations}
	if next.Spec.Removal != nil {
		next.Spec.Removal.Policy = "" // it was about the one before
	}
	// It must be known for that of the entry also if this process ends now. What the entry may leave out
	// later is not among this: whoever creates an object owns what it has.
	metav1.SetMetaDataAnnotation(&next.ObjectMeta, v1alpha1.SourceAnnotation, desired.Annotations[v1alpha1.SourceAnnotation])
	next.Spec.Address, next.Spec.Port, next.Spec.Username = *desired.Spec.Address, *desired.Spec.Port, *desired.Spec.Username
	next.Spec.PoolRef = &v1alpha1.PoolReference{Name: *desired.Spec.PoolRef.Name}
	switch err := r.client.Create(ctx, next, client.FieldOwner(fieldManager)); {
	case apierrors.IsAlreadyExists(err):
		return nil, &apply.ExistsError{Kind: "WindowsInstance", Name: client.ObjectKeyFromObject(next).String()}
	case err != nil:
		return nil, fmt.Errorf("create WindowsInstance %s with what people had set on the one before: %w", next.Name, err)
	}
	return next, nil
}

// giveBack gives the instance of an entry that was put back the host keys that the one before trusted,
// and holds it if something of ours is on the host. All else it finds on its host, as any instance does
// that takes a host over. A host that nothing was done to counts as none that was removed.
func (r *Reconciler) giveBack(ctx context.Context, p *plan, before *v1alpha1.WindowsInstance) error {
	// The next one is probed and held by others at the same time.
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		next, err := object.Get(ctx, r.applier.Live, client.ObjectKeyFromObject(before), &v1alpha1.WindowsInstance{})
		if err != nil || next == nil {
			return err
		}
		// The keys first: an instance that is held and has none was restored without its status.
		if err := r.giveKeys(ctx, next, before); err != nil {
			return err
		}
		return r.holdNext(ctx, next, before)
	})
	if err != nil {
		return fmt.Errorf("give WindowsInstance %s the host of the one before: %w", before.Name, err)
	}
	if !before.Status.RemovalBegun() {
		p.stayed = append(p.stayed, before.Name)
	}
	r.left.forget(before)
	return nil
}

// giveKeys has the keys replace one that was trusted only because it was the first, but none that
// somebody has confirmed meanwhile. next becomes what is stored.
func (r *Reconciler) giveKeys(ctx context.Context, next, before *v1alpha1.WindowsInstance) error {
	confirmed := func(key v1alpha1.HostKeyStatus) bool { return key.TrustedBy != v1alpha1.TrustedOnFirstUse }
	if len(before.Status.HostKeys) == 0 || slices.ContainsFunc(next.Status.HostKeys, confirmed) {
		return nil
	}
	read := next.DeepCopy()
	next.Status.HostKeys = before.Status.HostKeys
	return r.client.Status().Patch(ctx, next, client.MergeFromWithOptions(read, client.MergeFromWithOptimisticLock{}))
}

// holdNext has the host go with the next instance, also if that is deleted before it has reached the host.
func (r *Reconciler) holdNext(ctx context.Context, next, before *v1alpha1.WindowsInstance) error {
	removal := before.Status.NewestOperation(v1alpha1.OperationRemove)
	clean := removal != nil && removal.Phase == v1alpha1.OperationSucceeded
	read := next.DeepCopy()
	if before.Status.MachineID == "" || clean || !next.DeletionTimestamp.IsZero() || !controllerutil.AddFinalizer(next, v1alpha1.HostFinalizer) {
		return nil
	}
	return r.client.Patch(ctx, next, client.MergeFromWithOptions(read, client.MergeFromWithOptimisticLock{}))
}
