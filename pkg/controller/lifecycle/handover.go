// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package lifecycle

import (
	"context"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/hostkey"
	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/controller/csr/identity"
	"github.com/openshift/windows-instance-api/pkg/controller/internal/object"
)

// heirPatience is for how long an instance that was deleted waits for those of its pool that were
// not probed yet: one of them may be that of the same host, under another name or address.
const heirPatience = time.Minute

// heirInterval is how often it is looked for them meanwhile.
const heirInterval = 2 * time.Second

// heir finds the instance that stands for the host of one that was deleted from now on: it was
// renamed where it comes from. awaited: there is none, and there may be one in a moment.
func heir(deleted *v1alpha1.WindowsInstance, instances []v1alpha1.WindowsInstance) (found *v1alpha1.WindowsInstance, awaited bool) {
	for i := range instances {
		other := &instances[i]
		if other.UID == deleted.UID || !other.DeletionTimestamp.IsZero() || other.Namespace != deleted.Namespace || object.PoolName(other) != object.PoolName(deleted) ||
			other.CreationTimestamp.Before(&deleted.CreationTimestamp) ||
			v1alpha1.OtherProviderID(deleted.Spec.ProviderID, other.Spec.ProviderID) { // the second one may have got the address of the first one, which is gone
			continue
		}
		switch {
		case deleted.Status.SameHost(&other.Status), other.Status.MachineID == "" && sharesEndpoint(deleted, other) && sharesKey(deleted, other):
			if found == nil || other.CreationTimestamp.Before(&found.CreationTimestamp) {
				found = other
			}
		case !probed(other):
			awaited = true
		}
	}
	return found, awaited && found == nil
}

// sharesEndpoint says whether two instances are contacted at the same endpoint. That both say they are
// the same machine proves nothing.
func sharesEndpoint(a, b *v1alpha1.WindowsInstance) bool {
	of := identity.Contacts(b)
	return slices.ContainsFunc(identity.Contacts(a), func(at string) bool { return slices.Contains(of, at) })
}

// sharesKey says whether nothing speaks against two instances having a host key in common: the
// host of one that was kept off it was not asked. One that lets nobody in has proven one of the keys that
// are pinned, which is not recorded.
func sharesKey(deleted, other *v1alpha1.WindowsInstance) bool {
	var keys []string
	for _, key := range other.Status.HostKeys {
		keys = append(keys, key.Key)
	}
	if len(keys) == 0 && meta.IsStatusConditionTrue(other.Status.Conditions, v1alpha1.ConditionHostKeyTrusted) {
		keys = hostkey.Base64Of(other.Spec.HostKeys)
	}
	return len(keys) == 0 || slices.ContainsFunc(deleted.Status.HostKeys, func(k v1alpha1.HostKeyStatus) bool { return slices.Contains(keys, k.Key) })
}

// probed says whether it is known which host an instance has, or why that cannot be known. A
// name that DNS does not have yet, and a host that is about to boot, say neither.
func probed(instance *v1alpha1.WindowsInstance) bool {
	return instance.Status.MachineID != "" || instance.Status.KeptOff() != nil || slices.ContainsFunc(instance.Status.Conditions, func(c metav1.Condition) bool {
		switch c.Type {
		case v1alpha1.ConditionHostKeyTrusted, v1alpha1.ConditionAuthenticated:
			return c.Status == metav1.ConditionFalse
		}
		return false
	})
}

// inherit decides about an instance that was deleted and whose host another one has now, or may
// have in a moment. False: there is no such instance, or it is too late.
func (s snapshot) inherit() (action, bool) {
	status := &s.instance.Status
	removal := status.NewestAttempt(v1alpha1.OperationRemove)
	if status.RemovalBegun() || s.unknownKey() {
		return action{}, false // something was done, or it is not known to which host
	}
	until := s.actionable().Add(heirPatience)
	switch {
	case len(status.HostKeys) == 0 && !s.wanted:
		return action{}, false // nothing is known that could be handed over
	case s.heir != nil && len(status.HostKeys) > 0:
		return action{
			do: doHandOver, event: normal(eventLeft, "The host was not touched, because instance %s represents it from now on.", s.heir.Name),
		}, true
	case s.wanted && s.paused == "" && s.answers(removal):
		return action{
			do: doRelease, event: normal(eventLeft, "The host was not touched, because its source asks for it again. The instance that follows takes it over without disturbing it."),
		}, true
	case s.awaited && s.paused == "" && s.policy() != v1alpha1.RemovalAbandon && s.now.Before(until):
		again := s.now.Add(heirInterval)
		if until.Before(again) {
			again = until
		}
		return action{
			do: doNothing, pending: true, again: again,
			removed: s.removing("The removal begins at %s, or before when all new instances of its pool were probed: one of them may represent the same host.", timestamp(until)),
		}, true
	}
	return action{}, false
}

// answers says whether the host of an instance that was deleted answered when it was asked last.
// Only then can the instance that follows take the host over: one that knows nothing of its host
// goes without a trace if it is deleted before it has reached it.
func (s snapshot) answers(removal *v1alpha1.Operation) bool {
	if removal == nil {
		return meta.IsStatusConditionTrue(s.instance.Status.Conditions, v1alpha1.ConditionAuthenticated)
	}
	return !removal.HostUnreached()
}

// actionable is since when something can be done about the host of an instance that was deleted:
// neither it nor its pool was paused, and a controller worked. New instances are not probed before.
// A time that is still to come was written by a clock that ran ahead; waiting for it could take days.
func (s snapshot) actionable() time.Time {
	c := meta.FindStatusCondition(s.instance.Status.Conditions, v1alpha1.ConditionRemoved)
	if c == nil || c.Reason == v1alpha1.ReasonPaused {
		return s.now
	}
	if c.LastTransitionTime.After(s.now) {
		return time.Time{}
	}
	return c.LastTransitionTime.Time
}

// membersOf are the instances of the pool of an instance, itself among them, or those without one.
// They belong to the cache.
func membersOf(ctx context.Context, cache client.Reader, instance *v1alpha1.WindowsInstance) ([]v1alpha1.WindowsInstance, error) {
	var members v1alpha1.WindowsInstanceList
	if err := cache.List(ctx, &members, client.InNamespace(instance.Namespace), object.InPool(object.PoolName(instance)), client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing the instances of the pool: %w", err)
	}
	return members.Items, nil
}

// Superseded says why the host of an instance that was deleted is not to be removed although that
// was recorded, empty if it is. It is asked right before a removal does anything. cache has the indexes of
// [SetupWithManager]. An instance that came after the removal was recorded has as long to be probed as
// one that was there before. A removal that had begun before goes on: its host is half way.
func Superseded(ctx context.Context, cache client.Reader, wanted WantedFunc, instance *v1alpha1.WindowsInstance, now time.Time) (string, error) {
	if instance.Status.RemovalBegun() {
		return "", nil
	}
	if again, err := wanted(ctx, instance); err != nil || again {
		return "The host is not removed, because its source asks for it again.", err
	}
	members, err := membersOf(ctx, cache, instance)
	if err != nil {
		return "", err
	}
	found, awaited := heir(instance, members)
	switch {
	case found != nil:
		return fmt.Sprintf("The host is not removed, because instance %s represents it from now on.", found.Name), nil
	case awaited && now.Before(snapshot{instance: instance, now: now}.actionable().Add(heirPatience)):
		return "The host is not removed yet, because a new instance of its pool was not probed yet: it may represent the same host.", nil
	}
	return "", nil
}

// handOver gives all that is known of a host to the instance that has it from now on: which keys
// are trusted, which machine it is, its Node, its revision, with what of its pool it worked, and what was done to it. Only then
// is the other one released. What names the host by the other one finds it by [v1alpha1.FormerInstanceAnnotation].
func (r *Reconciler) handOver(ctx context.Context, s snapshot) error {
	to := s.heir.DeepCopy()
	if controllerutil.AddFinalizer(to, v1alpha1.HostFinalizer) || to.Annotations[v1alpha1.FormerInstanceAnnotation] != s.instance.Name {
		metav1.SetMetaDataAnnotation(&to.ObjectMeta, v1alpha1.FormerInstanceAnnotation, s.instance.Name)
		if err := r.client.Patch(ctx, to, client.MergeFromWithOptions(s.heir, client.MergeFromWithOptimisticLock{})); err != nil {
			return fmt.Errorf("holding instance %s: %w", to.Name, err)
		}
	}
	from := s.instance.Status.DeepCopy()
	to.Status.HostKeys, to.Status.MachineID, to.Status.Node = from.HostKeys, from.MachineID, from.Node
	to.Status.System, to.Status.Version = from.System, from.Version
	to.Status.CurrentRevision, to.Status.DesiredRevision, to.Status.DesiredPoolRevision = from.CurrentRevision, from.DesiredRevision, from.DesiredPoolRevision
	to.Status.PoolRevision, to.Status.PreviousPoolRevision = from.PoolRevision, from.PreviousPoolRevision
	to.Status.NodeNotReadyTimes = from.NodeNotReadyTimes
	if to.Status.RestartedAt == nil || to.Status.RestartedAt.Before(from.RestartedAt) {
		to.Status.RestartedAt = from.RestartedAt
	}
	to.Status.Inherit(from)
	// What is known of the configuration belongs to the revision, and since when the Node is not ready to the Node.
	for _, condition := range []string{v1alpha1.ConditionConfigured, v1alpha1.ConditionNodeReady} {
		if c := meta.FindStatusCondition(from.Conditions, condition); c != nil {
			c.ObservedGeneration = to.Generation
			meta.SetStatusCondition(&to.Status.Conditions, *c)
		}
	}
	if s.heir.Status.MachineID == "" {
		to.Status.Addresses, to.Status.HostIP, to.Status.Bastion = from.Addresses, from.HostIP, from.Bastion // its own are those where it was not found yet
	}
	if err := object.UpdateStatus(ctx, r.client, to); err != nil {
		return fmt.Errorf("handing the host over to instance %s: %w", to.Name, err)
	}
	return nil
}
