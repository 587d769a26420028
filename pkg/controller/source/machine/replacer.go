// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package machine

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	configv1 "github.com/openshift/api/config/v1"
	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/controller/internal/message"
	"github.com/openshift/windows-instance-api/pkg/controller/internal/object"
)

// Reasons of events, which are those of WMCO.
const (
	reasonMachineDeleted    = "MachineDeleted"
	reasonDeletionFailed    = "MachineDeletionFailed"
	reasonDeletionRestraint = "MachineDeletionRestricted"
)

// replacer deletes Machines whose hosts have refused the key since they came, so that their MachineSets make others. It
// is safe for concurrent use.
type replacer struct {
	client   client.Client
	live     client.Reader // asked before something is deleted
	recorder record.EventRecorder
	told     *message.Reporter // why a Machine is not replaced
	// outdated says why no new Machine would get the key that is in use. Empty: it gets it.
	outdated func(context.Context) (string, error)
	now      func() time.Time

	// deciding is true from the look at all pools until the Machine is deleted, so that of two workers the second one finds
	// what the first one has recorded. It is enough within this process: the next leader waits for refusedFor before
	// it deletes anything, and the requests of the former one have ended by then.
	deciding atomic.Bool

	mu sync.Mutex // guards since, and is not held over requests
	// since is when a Machine was first seen with a host that refuses the key. A controller that starts again waits again.
	since map[types.NamespacedName]refusal
}

// busyFor is when to ask again if another worker is deciding about a Machine.
const busyFor = time.Second

type refusal struct {
	uid types.UID
	at  time.Time
}

// refusedUntil remembers that the host of a Machine refuses the key, and returns when it has for long enough.
func (r *replacer) refusedUntil(machine *machinev1beta1.Machine) time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	key := client.ObjectKeyFromObject(machine)
	if r.since[key].uid != machine.UID {
		r.since[key] = refusal{uid: machine.UID, at: r.now()}
	}
	return r.since[key].at.Add(refusedFor)
}

// forget is for a Machine whose host does not refuse the key, or that is gone.
func (r *replacer) forget(key types.NamespacedName) {
	r.mu.Lock()
	delete(r.since, key)
	r.mu.Unlock()
	r.told.Forget(key)
}

// waiting asks for the Machines whose hosts refuse the key: what the next one waits for may have happened.
func (r *replacer) waiting(context.Context, client.Object) []reconcile.Request {
	r.mu.Lock()
	defer r.mu.Unlock()
	requests := make([]reconcile.Request, 0, len(r.since))
	for key := range r.since {
		requests = append(requests, reconcile.Request{NamespacedName: key})
	}
	return requests
}

// replace deletes a Machine if it is one to be replaced. It returns when to ask again, zero for when something changes.
func (r *replacer) replace(ctx context.Context, machine *machinev1beta1.Machine, instance *v1alpha1.WindowsInstance, platform configv1.PlatformType) (time.Duration, error) {
	key := client.ObjectKeyFromObject(machine)
	if instance == nil || !refuses(instance) || setOf(machine) == "" {
		r.forget(key)
		return 0, nil
	}
	due := r.refusedUntil(machine)
	set, pool, err := r.owners(ctx, r.client, machine)
	if err != nil || !candidate(machine, instance, set, pool, platform) {
		return 0, err
	}
	if wait := due.Sub(r.now()); wait > 0 {
		return wait, nil
	}
	if !r.deciding.CompareAndSwap(false, true) {
		return busyFor, nil // another worker is deciding
	}
	defer r.deciding.Store(false)
	why, err := r.try(ctx, key, machine.UID, platform)
	if err != nil {
		return 0, err
	}
	if why == "" {
		r.forget(key)
		return 0, nil
	}
	r.told.Report(machine, reasonDeletionRestraint, map[string]string{"": why})
	return refusedFor, nil
}

// owners returns the MachineSet of a Machine and its pool, nil for none.
func (r *replacer) owners(ctx context.Context, reader client.Reader, machine *machinev1beta1.Machine) (*machinev1beta1.MachineSet, *v1alpha1.WindowsNodePool, error) {
	key := client.ObjectKey{Namespace: machine.Namespace, Name: setOf(machine)}
	set, err := object.Get(ctx, r.client, key, &machinev1beta1.MachineSet{})
	if err != nil {
		return nil, nil, err
	}
	pool, err := object.Get(ctx, reader, key, &v1alpha1.WindowsNodePool{})
	return set, pool, err
}

// try deletes a Machine, or says why not. It decides by what the API server has, records in the pool what it is about to
// do, and deletes the Machine only as it has seen it: one that has become a node meanwhile stays. deciding is true.
func (r *replacer) try(ctx context.Context, key client.ObjectKey, uid types.UID, platform configv1.PlatformType) (why string, err error) {
	machine, err := object.Get(ctx, r.client, key, &machinev1beta1.Machine{})
	if err != nil || machine == nil || machine.UID != uid {
		return "", err
	}
	instance, err := object.Get(ctx, r.live, key, &v1alpha1.WindowsInstance{})
	if err != nil {
		return "", err
	}
	set, pool, err := r.owners(ctx, r.live, machine)
	if err != nil || !candidate(machine, instance, set, pool, platform) {
		return "", err
	}
	var instances v1alpha1.WindowsInstanceList
	if err := r.client.List(ctx, &instances, client.UnsafeDisableDeepCopy); err != nil {
		return "", fmt.Errorf("list instances: %w", err)
	}
	// The cache may not have yet what was recorded a moment ago. That it is late with a host that accepts the key harms nothing.
	var pools v1alpha1.WindowsNodePoolList
	if err := r.live.List(ctx, &pools); err != nil {
		return "", fmt.Errorf("list pools: %w", err)
	}
	if other := lostKey(instances.Items, pools.Items); other != nil {
		return fmt.Sprintf("The Machine is not replaced, although its host refuses the key, because that of WindowsInstance %s, which has accepted it before, does too: "+
			"the key in use is not the one that hosts have.", client.ObjectKeyFromObject(other)), nil
	}
	last, members := lastReplaced(pool, r.now()), membersOf(pool, instances.Items)
	recorded := last.uid == machine.UID
	if !recorded && exhausted(last, members) {
		s := successionOf(pool, members, r.now())
		if !s.stopped {
			return "The Machine is not replaced yet: " + s.why, nil
		}
		return "The Machine is not replaced: " + s.why, nil
	}
	// One that was recorded and not deleted has kept the others waiting. Later it asks like all.
	if !recorded || !last.isExclusive(r.now()) {
		if why := waitsForOther(pool, pools.Items, instances.Items, r.now()); why != "" {
			return "The Machine is not replaced yet: " + why, nil
		}
	}
	if why, err := r.outdated(ctx); err != nil || why != "" {
		return "The Machine is not replaced, although its host refuses the key, because " + why, err
	}
	if !recorded {
		// Of two Machines of a set only one is recorded: the other one finds another version of the pool.
		if err := r.record(ctx, pool, machine, client.MergeFromWithOptimisticLock{}); err != nil {
			return "", err
		}
	}
	err = r.client.Delete(ctx, machine, client.Preconditions{UID: &machine.UID, ResourceVersion: &machine.ResourceVersion})
	switch {
	case object.Gone(err):
		return "", nil
	case apierrors.IsForbidden(err):
		r.recorder.Event(machine, corev1.EventTypeWarning, reasonDeletionFailed, "The host has refused the key for five minutes, and the Machine may not be deleted. "+
			"Delete it, or let the controller: kubectl apply -f artifacts/openshift/machine-replacement.yaml")
		return "the controller may not delete Machines.", nil
	case err != nil:
		return "", fmt.Errorf("delete Machine %s: %w", key, err)
	}
	log.FromContext(ctx).Info("Deleted a Machine whose host refuses the key", "machine", klog.KObj(machine))
	r.recorder.Event(machine, corev1.EventTypeNormal, reasonMachineDeleted, "The host has refused the key for five minutes since it came. The Machine is deleted, so that its MachineSet makes another one.")
	if recorded && !last.isExclusive(r.now()) {
		// Other pools wait from now on. Not before: a Machine that may never be deleted would keep them waiting for ever.
		return "", r.record(ctx, pool, machine)
	}
	return "", nil
}

// record writes into a pool that a Machine is replaced now.
func (r *replacer) record(ctx context.Context, pool *v1alpha1.WindowsNodePool, machine *machinev1beta1.Machine, opts ...client.MergeFromOption) error {
	before := pool.DeepCopy()
	if pool.Annotations == nil {
		pool.Annotations = map[string]string{}
	}
	pool.Annotations[v1alpha1.ReplacedMachineAnnotation] = replaced{name: machine.Name, uid: machine.UID, at: r.now()}.String()
	if err := r.client.Patch(ctx, pool, client.MergeFromWithOptions(before, opts...)); err != nil {
		return fmt.Errorf("record in WindowsNodePool %s that a Machine is replaced: %w", client.ObjectKeyFromObject(pool), err)
	}
	return nil
}

// membersOf returns those of the instances that belong to a pool.
func membersOf(pool *v1alpha1.WindowsNodePool, instances []v1alpha1.WindowsInstance) []v1alpha1.WindowsInstance {
	var members []v1alpha1.WindowsInstance
	for i := range instances {
		if instances[i].Namespace == pool.Namespace && object.PoolName(&instances[i]) == pool.Name {
			members = append(members, instances[i])
		}
	}
	return members
}

// refusalChanged lets pass that a host begins, or ceases, to refuse the key, and that there is one that does.
var refusalChanged = predicate.Funcs{
	CreateFunc: func(e event.CreateEvent) bool { return refusing(e.Object) },
	UpdateFunc: func(e event.UpdateEvent) bool { return refusing(e.ObjectOld) != refusing(e.ObjectNew) },
	DeleteFunc: func(e event.DeleteEvent) bool { return refusing(e.Object) },
}

// acceptedNow lets pass that a host begins to accept the key. The next Machine waits for that.
var acceptedNow = predicate.Funcs{
	CreateFunc:  func(event.CreateEvent) bool { return false },
	UpdateFunc:  func(e event.UpdateEvent) bool { return accepts(e.ObjectNew) && !accepts(e.ObjectOld) },
	DeleteFunc:  func(event.DeleteEvent) bool { return false },
	GenericFunc: func(event.GenericEvent) bool { return false },
}

func accepts(obj client.Object) bool {
	instance, ok := obj.(*v1alpha1.WindowsInstance)
	return ok && meta.IsStatusConditionTrue(instance.Status.Conditions, v1alpha1.ConditionAuthenticated)
}

func refusing(obj client.Object) bool {
	instance, ok := obj.(*v1alpha1.WindowsInstance)
	return ok && refuses(instance)
}
