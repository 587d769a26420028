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
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/controller/internal/apply"
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
// had set on the one before, because a host is configured by it at once, and trusts the host keys that the one
// before trusted, because it is probed at once. It is held if something of ours is on the host: that then goes with
// it, also if it is deleted before it has reached the host.
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
	if keys := before.Status.HostKeys; len(keys) > 0 {
		if err := next.GiveHostKeys(keys); err != nil {
			return nil, err
		}
	}
	if ours(before) {
		next.Finalizers = []string{v1alpha1.HostFinalizer}
	}
	switch err := r.client.Create(ctx, next, client.FieldOwner(fieldManager)); {
	case apierrors.IsAlreadyExists(err):
		return nil, &apply.ExistsError{Kind: "WindowsInstance", Name: client.ObjectKeyFromObject(next).String()}
	case err != nil:
		return nil, fmt.Errorf("create WindowsInstance %s with what people had set on the one before: %w", next.Name, err)
	}
	return next, nil
}

// givenBack notes that the instance of an entry that was put back is there. What is on its host it finds, as any
// instance does that takes a host over. A host that nothing was done to counts as none that was removed.
func (r *Reconciler) givenBack(p *plan, before *v1alpha1.WindowsInstance) {
	if !before.Status.RemovalBegun() {
		p.stayed = append(p.stayed, before.Name)
	}
	r.left.forget(before)
}

// ours says whether something of ours is on the host of an instance that is gone.
func ours(before *v1alpha1.WindowsInstance) bool {
	removal := before.Status.NewestOperation(v1alpha1.OperationRemove)
	clean := removal != nil && removal.Phase == v1alpha1.OperationSucceeded
	return before.Status.MachineID != "" && !clean
}
