// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package machine

import (
	"fmt"
	"strings"
	"time"

	configv1 "github.com/openshift/api/config/v1"
	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/controller/internal/object"
)

// refusedFor is for how long a host must refuse the key before its Machine is replaced: user data that still runs may be
// about to authorize the key. WMCO waits as long.
const refusedFor = 5 * time.Minute

// refuses says whether the host of an instance refuses the cluster-wide key.
func refuses(instance *v1alpha1.WindowsInstance) bool {
	condition := meta.FindStatusCondition(instance.Status.Conditions, v1alpha1.ConditionAuthenticated)
	return condition != nil && condition.Reason == v1alpha1.ReasonCredentialsRefused
}

// loggedInTo says whether a host was ever logged in to, also if our agent never ran on it.
func loggedInTo(instance *v1alpha1.WindowsInstance) bool {
	return instance.Status.MachineID != "" || controllerutil.ContainsFinalizer(instance, v1alpha1.HostFinalizer)
}

// neverJoined says whether nothing was ever done on the host of a Machine, so that nothing is lost with it.
func neverJoined(machine *machinev1beta1.Machine, instance *v1alpha1.WindowsInstance) bool {
	status := &instance.Status
	return machine.Status.NodeRef == nil && ptr.Deref(machine.Status.Phase, "") == machinev1beta1.PhaseProvisioned &&
		status.Node == nil && !loggedInTo(instance) && status.System == nil && status.CurrentRevision == "" && status.Operation == nil && len(status.History) == 0
}

// usesClusterKey says whether a host is logged in to with the cluster-wide key, which is the one in the user data.
func usesClusterKey(instance *v1alpha1.WindowsInstance, pool *v1alpha1.WindowsNodePool) bool {
	return instance.Spec.CredentialsSecretRef == nil && (pool == nil || pool.Spec.Template.CredentialsSecretRef == nil)
}

// candidate says whether a Machine is one to be replaced, as long as its host refuses the key for [refusedFor]: its
// MachineSet makes another one, whose user data authorizes the key, and nobody has said that it should stay.
func candidate(machine *machinev1beta1.Machine, instance *v1alpha1.WindowsInstance, set *machinev1beta1.MachineSet, pool *v1alpha1.WindowsNodePool, platform configv1.PlatformType) bool {
	return instance != nil && belongs(instance) && !ofAnother(instance, machine) && instance.DeletionTimestamp.IsZero() &&
		refuses(instance) && neverJoined(machine, instance) &&
		set != nil && set.DeletionTimestamp.IsZero() && pool != nil && pool.DeletionTimestamp.IsZero() && poolOf(set, pool) != "" &&
		object.PausedBy(instance, pool) == "" && usesClusterKey(instance, pool) &&
		platform != configv1.VSpherePlatformType && // where no user data is run: the key is in the template
		pool.Annotations[v1alpha1.ReplaceMachinesAnnotation] != v1alpha1.ReplaceMachinesNever
}

// replaced is the Machine of a pool that was replaced last, as the annotation of the pool has it.
type replaced struct {
	name string
	uid  types.UID
	at   time.Time
}

// String is the value of the annotation.
func (r replaced) String() string {
	return fmt.Sprintf("%s %s %s", r.name, r.uid, r.at.UTC().Format(time.RFC3339))
}

// lastReplaced returns what a pool says of it. The zero value is none. What nobody can read counts as one of now, so that
// nothing is deleted.
func lastReplaced(pool *v1alpha1.WindowsNodePool, now time.Time) replaced {
	value, there := pool.Annotations[v1alpha1.ReplacedMachineAnnotation]
	if !there {
		return replaced{}
	}
	if fields := strings.Fields(value); len(fields) == 3 {
		if at, err := time.Parse(time.RFC3339, fields[2]); err == nil {
			return replaced{name: fields[0], uid: types.UID(fields[1]), at: at}
		}
	}
	return replaced{at: now}
}

// exclusiveFor is for how long the replacement of a Machine keeps those of other pools waiting: its successor has to boot,
// install OpenSSH and be logged in to. After that it is its own pool that has stopped, and not all of them.
const exclusiveFor = 30 * time.Minute

// isExclusive says whether a Machine was replaced so recently that other pools wait. A clock that is a little ahead changes
// nothing, and a record that nobody can read is no Machine.
func (r replaced) isExclusive(now time.Time) bool {
	return r.uid != "" && now.Sub(r.at).Abs() < exclusiveFor
}

// waitsForOther says which Machine of another pool was replaced, as long as no host of that pool that came since has accepted
// the key. Empty: there is none, and this pool may have one replaced.
func waitsForOther(pool *v1alpha1.WindowsNodePool, pools []v1alpha1.WindowsNodePool, instances []v1alpha1.WindowsInstance, now time.Time) string {
	for i := range pools {
		other := &pools[i]
		last := lastReplaced(other, now)
		this := other.Namespace == pool.Namespace && other.Name == pool.Name
		if this || !last.isExclusive(now) || !exhausted(last, membersOf(other, instances)) {
			continue
		}
		return fmt.Sprintf("Machine %s of WindowsNodePool %s/%s was replaced at %s, and no host that came since has accepted the key. "+
			"One Machine of the cluster is replaced at a time. That one keeps others waiting until %s at the latest.",
			last.name, other.Namespace, other.Name, last.at.UTC().Format(time.RFC3339), last.at.Add(exclusiveFor).UTC().Format(time.RFC3339))
	}
	return ""
}

// exhausted says whether no further Machine of a pool is replaced, the one that was last excepted: no host that came since
// has accepted the key. The host of the recorded Machine counts, too, because its deletion may never have happened. Members are the instances of the pool.
func exhausted(last replaced, members []v1alpha1.WindowsInstance) bool {
	if last.at.IsZero() {
		return false
	}
	for i := range members {
		counts := !members[i].CreationTimestamp.Time.Before(last.at) || last.uid != "" && isOf(&members[i], last.uid)
		if counts && meta.IsStatusConditionTrue(members[i].Status.Conditions, v1alpha1.ConditionAuthenticated) {
			return false
		}
	}
	return true
}

// lostKey returns an instance whose host was logged in to with the cluster-wide key, and does not accept it now. Then
// the key has changed, and no Machine is to blame. Nil: there is none. Hosts that are logged in to with another Secret, their
// own or that of their pool, say nothing about the key.
func lostKey(instances []v1alpha1.WindowsInstance, pools []v1alpha1.WindowsNodePool) *v1alpha1.WindowsInstance {
	byName := map[types.NamespacedName]*v1alpha1.WindowsNodePool{}
	for i := range pools {
		byName[types.NamespacedName{Namespace: pools[i].Namespace, Name: pools[i].Name}] = &pools[i]
	}
	for i := range instances {
		instance := &instances[i]
		condition := meta.FindStatusCondition(instance.Status.Conditions, v1alpha1.ConditionAuthenticated)
		var pool *v1alpha1.WindowsNodePool
		if ref := instance.Spec.PoolRef; ref != nil {
			if pool = byName[types.NamespacedName{Namespace: instance.Namespace, Name: ref.Name}]; pool == nil {
				continue // it is not logged in to without its pool
			}
		}
		if !loggedInTo(instance) || !usesClusterKey(instance, pool) || condition == nil {
			continue
		}
		if condition.Reason == v1alpha1.ReasonCredentialsRefused || condition.Reason == v1alpha1.ReasonCredentialsMissing {
			return instance
		}
	}
	return nil
}

// succession is how it stands with the host that takes the place of the Machine of a pool that was replaced last.
type succession struct {
	// why no further Machine of the pool is replaced. Empty: one may be, or none is to be.
	why string
	// stopped: somebody has to do something about it, which why says.
	stopped bool
	// until is when that changes by itself, if no host accepts the key before. Zero: it does not.
	until time.Time
}

// successionOf decides that for a pool with Machines whose hosts refuse the key. Others than the successor refuse it as well until it is
// their turn. The successor may as long as its user data runs.
func successionOf(pool *v1alpha1.WindowsNodePool, members []v1alpha1.WindowsInstance, now time.Time) succession {
	last := lastReplaced(pool, now)
	if !exhausted(last, members) {
		return succession{}
	}
	var refused *v1alpha1.WindowsInstance // of those that refuse the key, the one that came last
	for i := range members {
		if m := &members[i]; refuses(m) && m.Status.MachineID == "" && !isOf(m, last.uid) && (refused == nil || refused.CreationTimestamp.Before(&m.CreationTimestamp)) {
			refused = m
		}
	}
	if refused == nil {
		return succession{}
	}
	allow := fmt.Sprintf("See what user data does on the host: its image may not run it. Then: kubectl annotate wnp %s -n %s %s-", pool.Name, pool.Namespace, v1alpha1.ReplacedMachineAnnotation)
	if last.uid == "" {
		return succession{stopped: true, why: fmt.Sprintf("The host of Machine %s refuses the key, and the annotation %s of WindowsNodePool %s/%s, which says which Machine was replaced last, cannot be read, so no more Machines are replaced. %s",
			refused.Name, v1alpha1.ReplacedMachineAnnotation, pool.Namespace, pool.Name, allow)}
	}
	at := last.at.UTC().Format(time.RFC3339)
	if last.at.Sub(now) >= exclusiveFor {
		return succession{stopped: true, why: fmt.Sprintf("Machine %s was replaced at %s, says the annotation %s of WindowsNodePool %s/%s, which is still to come: a clock ran ahead, so that it is not known which hosts came since, and no more Machines are replaced. "+
			"%s", last.name, at, v1alpha1.ReplacedMachineAnnotation, pool.Namespace, pool.Name, allow)}
	}
	until := last.at.Add(exclusiveFor)
	stopped := fmt.Sprintf("Machine %s was replaced at %s, and no host that came since has accepted the key, so no more Machines are replaced. %s", last.name, at, allow)
	if came := refused.CreationTimestamp.Time; !came.Before(last.at) {
		until = came.Add(refusedFor)
		stopped = fmt.Sprintf("The host of Machine %s refuses the key, as that of Machine %s did, which was replaced, so no more Machines are replaced. %s", refused.Name, last.name, allow)
	}
	if !now.Before(until) {
		return succession{stopped: true, why: stopped}
	}
	return succession{until: until, why: fmt.Sprintf("Machine %s was replaced at %s, and no host that came since has accepted the key yet. One Machine of the cluster is replaced at a time.", last.name, at)}
}

// isOf says whether an instance was made from the Machine with that UID.
func isOf(instance *v1alpha1.WindowsInstance, machine types.UID) bool {
	for _, owner := range instance.OwnerReferences {
		if owner.Kind == kindMachine && owner.UID == machine {
			return true
		}
	}
	return false
}
