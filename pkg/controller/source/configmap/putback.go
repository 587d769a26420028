// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package configmap

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

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

// see notes an instance that is being deleted, or is gone.
func (l *leavers) see(instance *v1alpha1.WindowsInstance) {
	if instance.DeletionTimestamp.IsZero() {
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
		case keep[name]:
			last.gone = time.Time{}
		case last.gone.IsZero():
			last.gone = now
		case !now.Before(last.gone.Add(putBackPatience)):
			delete(l.last, name)
			continue
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

// giveBack gives the instance of an entry that was put back what people had set on the one before
// and the host key that is trusted. All else it finds on its host, as any instance does that takes
// a host over. A host that nothing was done to counts as none that was removed.
func (r *Reconciler) giveBack(ctx context.Context, p *plan, entry *Entry) error {
	before := r.left.get(entry.Name)
	if before == nil {
		return nil
	}
	if belongs(before, r.configMap) && entry.isOf(before) {
		if err := r.handOver(ctx, before); err != nil {
			return err
		}
		if !before.Status.RemovalBegun() {
			p.stayed = append(p.stayed, before.Name)
		}
	}
	r.left.forget(before)
	return nil
}

func (r *Reconciler) handOver(ctx context.Context, before *v1alpha1.WindowsInstance) error {
	// What is given is for the instance that was made just now, and for nothing that somebody did since.
	next, err := object.Get(ctx, r.applier.Live, client.ObjectKeyFromObject(before), &v1alpha1.WindowsInstance{})
	if err != nil || next == nil {
		return err
	}
	// The key first: an instance that is held and has none was restored without its status.
	if len(before.Status.HostKeys) > 0 {
		known := map[string]any{
			"metadata": map[string]any{"uid": next.UID, "resourceVersion": next.ResourceVersion},
			"status":   map[string]any{"hostKeys": before.Status.HostKeys},
		}
		if err := patch(known, func(p client.Patch) error { return r.client.Status().Patch(ctx, next, p) }); err != nil {
			return fmt.Errorf("give WindowsInstance %s the host key of the one before: %w", next.Name, err)
		}
	}
	people, err := apply.OfOthers(before, fieldManager)
	if err != nil {
		return fmt.Errorf("find what people had set on WindowsInstance %s: %w", next.Name, err)
	}
	given := acwindowsv1alpha1.WindowsInstance(next.Name, next.Namespace).WithUID(next.UID).WithResourceVersion(next.ResourceVersion)
	if people.ObjectMetaApplyConfiguration != nil {
		given.WithLabels(people.Labels).WithAnnotations(people.Annotations)
	}
	if given.Spec = people.Spec; given.Spec != nil && given.Spec.Removal != nil {
		given.Spec.Removal.Policy = nil // it was about the one before
	}
	if before.Status.MachineID != "" {
		// Something of ours is on the host. It goes with the next one, also if that is deleted before
		// it has reached the host.
		given.WithFinalizers(v1alpha1.HostFinalizer)
	}
	if err := patch(given, func(p client.Patch) error { return r.client.Patch(ctx, next, p) }); err != nil {
		return fmt.Errorf("give WindowsInstance %s what people had set on the one before: %w", next.Name, err)
	}
	return nil
}

// patch sends content as a merge patch.
func patch(content any, send func(client.Patch) error) error {
	data, err := json.Marshal(content)
	if err != nil {
		return err
	}
	return send(client.RawPatch(types.MergePatchType, data))
}
