// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package rollout

import (
	"context"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/controller/internal/message"
	"github.com/openshift/windows-instance-api/pkg/desired/revision"
	"github.com/openshift/windows-instance-api/pkg/words"
)

// eventRolledBack is the reason of the event that a revision is not rolled out any more.
const eventRolledBack = "RolledBack"

// eventRollbackEnded is the reason of the event that hosts get the newest revision, after one was rolled back or undone.
const eventRollbackEnded = "RollbackEnded"

// describeRollbackEnd says what hosts get, as nothing is rolled back or undone any more.
func describeRollbackEnd(was *v1alpha1.PoolRollback, newest string) string {
	if was.Revision == newest {
		return fmt.Sprintf("Hosts get revision %s again, %s.", newest, was.Past())
	}
	return fmt.Sprintf("Hosts get revision %s, as the template or the payload was changed. It follows revision %s, %s.", newest, was.Revision, was.Past())
}

// maxRolledBack bounds how many hosts a rollback names, as its field does.
const maxRolledBack = 1024

// downFor is for how long the Node of a host is not ready, unless that happens again and again, before the revision that the host was
// changed to is rolled back for it. A host whose Node comes back by itself, as after a network that failed for a moment or a restart by hand, would
// be disturbed once more, and its pool kept from what it is to have, for nothing.
const downFor = 5 * time.Minute

// brokenWith returns the hosts of a pool that its newest revision broke: they were to get it
// after since, or went down with it. One that had it is known by its pool revision, whatever else of the cluster is desired since, and one that did not
// get as far by what is desired of it. One that worked with it, and was broken by something else, is not one of them: one whose Node was
// ready with it for a while only, and to which it was not given again with success, did not. Nor is one that was
// broken by a revision before and did not get this one yet. again is after what time to look once more, as the Nodes of
// further hosts went down too short a time ago. Zero: there are none.
func brokenWith(newest string, instances []*v1alpha1.WindowsInstance, since, now time.Time) (broken []host, again time.Duration) {
	for _, i := range instances {
		h := newHost(i)
		flaps, wait := flapsWith(i, newest, instances, now)
		again = sooner(again, wait)
		if h.broken == nil {
			h.broken = flaps
		}
		if h.broken == nil || h.broken.Type != v1alpha1.OperationReconfigure || !h.broken.RequestedAt.After(since) || i.Status.PoolRevision != newest && !wasToGet(i, h.broken, newest) {
			continue
		}
		switch {
		case flaps != nil && flaps == h.broken:
		case h.broken.Phase == v1alpha1.OperationSucceeded, i.Status.PoolRevision == newest && downAfterUpdate(&i.Status) != nil: // and is down since
			down, wait := staysDown(i, newest, instances, now)
			again = sooner(again, wait)
			if !down {
				continue
			}
		case i.Status.PoolRevision == newest:
			continue
		}
		broken = append(broken, h)
	}
	slices.SortFunc(broken, func(a, b host) int { return compareAge(&a, &b) })
	return broken, again
}

// wasToGet says whether an operation was to give a host a revision of its pool. Where the operation does not say it, as one of an earlier release or
// one that gave a mix of two revisions, it was if it was recorded with what is desired of the host now and that is of the revision. That this is not
// known counts as if it were.
func wasToGet(i *v1alpha1.WindowsInstance, op *v1alpha1.Operation, name string) bool {
	if op.PoolRevision != "" {
		return op.PoolRevision == name
	}
	of := i.Status.DesiredPoolRevision
	return op.Revision == i.Status.DesiredRevision && (of == name || of == "")
}

// asNamedNow returns the instances that a rollback names. Where another one has come since that represents the host of one which is gone, as its
// entry was renamed, it is that one.
func asNamedNow(known *v1alpha1.PoolRollback, instances []*v1alpha1.WindowsInstance) []string {
	stay, heirs := map[string]bool{}, map[string]string{}
	for _, i := range instances {
		if !i.DeletionTimestamp.IsZero() {
			continue
		}
		stay[i.Name] = true
		if former := i.Annotations[v1alpha1.FormerInstanceAnnotation]; former != "" && !i.CreationTimestamp.Before(&known.Time) {
			heirs[former] = i.Name
		}
	}
	names := slices.Clone(known.Instances)
	for n, name := range names {
		if now := heirs[name]; now != "" && !stay[name] && !slices.Contains(names, now) {
			names[n] = now
		}
	}
	return names
}

// alsoBrokenBy returns the hosts that were changed before a revision was rolled back, and went down with it since; again is as with
// [brokenWith]. What was asked for in the second of the rollback counts as asked for after it, as for [hasGoneBack].
func alsoBrokenBy(known *v1alpha1.PoolRollback, instances []*v1alpha1.WindowsInstance, now time.Time) (names []string, again time.Duration) {
	for _, i := range instances {
		op := downAfterUpdate(&i.Status)
		flaps, wait := flapsWith(i, known.Revision, instances, now)
		again = sooner(again, wait)
		if flaps != nil {
			op = flaps
		}
		if op == nil || i.Status.PoolRevision != known.Revision || !op.RequestedAt.Before(&known.Time) || known.Broke(i.Name) {
			continue
		}
		down := flaps != nil
		if !down {
			down, wait = staysDown(i, known.Revision, instances, now)
			again = sooner(again, wait)
		}
		if down {
			names = append(names, i.Name)
		}
	}
	slices.Sort(names)
	return names, again
}

// staysDown says whether the Node of a host has been down for [downFor], and if it has not yet, after what time to ask again. It does not say so while
// an operation may have taken the Node down, nor if hosts of the pool without the revision went down at about the same time: something else took all
// of them down. Those that are being changed at the moment may have gone down for the one or the other, so that it waits for the end of that.
func staysDown(i *v1alpha1.WindowsInstance, revision string, instances []*v1alpha1.WindowsInstance, now time.Time) (down bool, again time.Duration) {
	at, known := nodeDownAt(i)
	if !known {
		return false, 0
	}
	if left := at.Add(downFor).Sub(now); left > 0 {
		return false, left
	}
	down = true
	for _, other := range instances {
		also, ok := downSince(&other.Status)
		if !ok || other.Status.PoolRevision == revision || also.Sub(at).Abs() >= downFor {
			continue
		}
		if broke := brokenBy(&other.Status); broke != nil && wasToGet(other, broke, revision) {
			continue // by the same
		}
		if _, known := nodeDownAt(other); known {
			return false, 0
		}
		down, again = false, downFor // what its operation is about is known when that ends
	}
	return down, again
}

// flapsWith returns the configuration with a revision since which the Node of a host has gone down again and again, however soon it was
// ready each time. Nil: there is none, or it is not known yet whether all hosts went down with it, which is asked again after some time.
func flapsWith(i *v1alpha1.WindowsInstance, revision string, instances []*v1alpha1.WindowsInstance, now time.Time) (op *v1alpha1.Operation, again time.Duration) {
	if op, n := timesDownSince(i, revision, instances, now.Add(-togetherFor)); n >= flapsOften {
		return op, 0
	}
	if _, n := timesDownSince(i, revision, instances, now); n >= flapsOften {
		return nil, togetherFor
	}
	return nil, 0
}

// timesDownSince returns the configuration that has given a host a revision at a cost, and how often its Node has gone down within
// [blamedFor] after it, until then. Times at which hosts went down that do not have the revision do not count, nor those at which all did, see [allWentDown]. Nil: there is none.
func timesDownSince(i *v1alpha1.WindowsInstance, revision string, instances []*v1alpha1.WindowsInstance, until time.Time) (op *v1alpha1.Operation, n int) {
	op = succeededLast(&i.Status, (*v1alpha1.Operation).MayHaveChangedHost)
	if op == nil || op.FinishedAt == nil || !op.Disturbed() || i.Status.PoolRevision != revision {
		return nil, 0
	}
	for _, at := range i.Status.NodeNotReadyTimes {
		if at.Before(op.FinishedAt) || at.After(until) || at.After(op.FinishedAt.Add(blamedFor)) || slices.ContainsFunc(instances, func(other *v1alpha1.WindowsInstance) bool {
			return other.Status.PoolRevision != revision && slices.ContainsFunc(other.Status.NodeNotReadyTimes, func(also metav1.Time) bool { return also.Sub(at.Time).Abs() < downFor })
		}) || allWentDown(i, instances, at.Time) {
			continue
		}
		n++
	}
	return op, n
}

// togetherFor is how far apart the Nodes of a pool are seen to go down that one thing takes down.
const togetherFor = time.Minute

// allWentDown says whether all other hosts of a pool, two at least, went down together with one, whatever revision they have: an outage of the API
// server or of a network took them down. By then all of them may have the revision, so that none is left without it which shows that.
func allWentDown(i *v1alpha1.WindowsInstance, instances []*v1alpha1.WindowsInstance, at time.Time) bool {
	together := 0
	for _, other := range instances {
		switch {
		case other.Name == i.Name:
		case slices.ContainsFunc(other.Status.NodeNotReadyTimes, func(also metav1.Time) bool { return also.Sub(at).Abs() <= togetherFor }):
			together++
		case wasReady(&other.Status, at) || !saysNothingOf(&other.Status, at):
			return false
		}
	}
	return together >= 2
}

// wasReady says whether the Node of a host has been ready all the time since before a time. That is known also while an operation is active.
func wasReady(status *v1alpha1.WindowsInstanceStatus, at time.Time) bool {
	c := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionNodeReady)
	return status.Node != nil && c != nil && c.Status == metav1.ConditionTrue && c.LastTransitionTime.Time.Before(at.Add(-togetherFor))
}

// saysNothingOf says whether it is not known of a host whether its Node went down at a time: it has none, or its Node was down already and still is, or
// an operation was active, during which that is not recorded.
func saysNothingOf(status *v1alpha1.WindowsInstanceStatus, at time.Time) bool {
	if since, down := downSince(status); status.Node == nil || down && since.Before(at) {
		return true
	}
	for _, op := range status.Operations() {
		if op.RequestedAt.Time.Before(at.Add(togetherFor)) && (op.Active() || op.FinishedAt != nil && op.FinishedAt.After(at.Add(-togetherFor))) {
			return true
		}
	}
	return false
}

// flapsOften is how often the Node of a host goes down after a revision until that is rolled back for it: a restart by hand and a
// network that failed for a moment are no reason.
const flapsOften = 3

// nodeDownAt is since when the Node of a host is not ready. False: it is, or its operation is what takes it down.
func nodeDownAt(i *v1alpha1.WindowsInstance) (time.Time, bool) {
	since, down := downSince(&i.Status)
	return since, down && (!i.Status.Operation.Active() || worksMeanwhile(i.Status.Operation))
}

// rollback returns what is rolled back of a pool whose newest revision is that one: what is already, with the hosts that went
// down with it since, or a new one, to the revision that to is. Nil: nothing is. To is empty if there is nothing to go back
// to, or if what is desired of the hosts may not be known yet. again is after what time to look once more, zero for not at all.
func rollback(pool *v1alpha1.WindowsNodePool, instances []*v1alpha1.WindowsInstance, newest, to string, now time.Time) (back *v1alpha1.PoolRollback, again time.Duration) {
	if known := pool.RolledBack(newest); known != nil && !known.ByPerson() {
		known = known.DeepCopy()
		known.Instances = asNamedNow(known, instances)
		down, again := alsoBrokenBy(known, instances, now)
		known.Instances = append(known.Instances, down[:max(0, min(len(down), maxRolledBack-len(known.Instances)))]...)
		return known, again
	}
	strategy := *pool.Spec.UpdateStrategy.DeepCopy()
	v1alpha1.SetDefaults_PoolUpdateStrategy(&strategy)
	if strategy.RollingUpdate.OnFailure != v1alpha1.FailureRollback || to == "" || to == newest {
		return nil, 0
	}
	// What the revision broke before somebody resumed it was known then.
	var since time.Time
	if resumed := strategy.RollingUpdate.ResumedAt; resumed != nil {
		since = resumed.Time
	}
	broken, again := brokenWith(newest, instances, since, now)
	if len(broken) <= int(*strategy.RollingUpdate.MaxFailures) {
		return nil, again
	}
	at := metav1.NewTime(now.Truncate(time.Second))
	if resumed := strategy.RollingUpdate.ResumedAt; resumed != nil && !resumed.Before(&at) { // it was tried again, and breaks hosts again
		at = metav1.NewTime(resumed.Add(time.Second))
	}
	back = &v1alpha1.PoolRollback{Revision: newest, To: to, Time: at}
	for _, h := range broken[:min(len(broken), maxRolledBack)] {
		back.Instances = append(back.Instances, h.key.Name)
	}
	first := broken[0]
	back.Message = message.ConditionMessage(fmt.Sprintf("Revision %s broke %s: operation %s changed host %s %s.",
		newest, words.Enumerate(back.Instances, maxNamed), first.broken.ID, first.key.Name, outcomeOf(first.broken)))
	return back, again
}

// goesBackTo is the revision that the hosts of a pool can go back to from its newest one: the last that all of them worked
// with. Empty: there is none, or it is not kept as it was, which lost says then, or it differs in nothing that is known.
func (r *Reconciler) goesBackTo(ctx context.Context, pool *v1alpha1.WindowsNodePool, newest string) (to, lost string, err error) {
	to = pool.Status.CurrentRevision
	if to == "" || to == newest || pool.Spec.UpdateStrategy.RollingUpdate.OnFailure != v1alpha1.FailureRollback {
		return "", "", nil
	}
	kept, err := r.kept(ctx, pool, to)
	switch {
	case err != nil:
		return "", "", err
	case kept == nil:
		found, ok, err := r.keptLive(ctx, pool, to)
		switch {
		case err != nil:
			return "", "", err
		case !ok:
			return "", to, nil
		}
		// Somebody has removed its label while no controller ran; or the cache does not have it yet.
		return "", "", r.labelAgain(ctx, pool, found)
	}
	if of, err := r.kept(ctx, pool, newest); of == nil || err != nil ||
		len(kept.Programs) == 0 && equality.Semantic.DeepEqual(of.Template, kept.Template) {
		return "", "", err
	}
	return to, "", nil
}

// kept is a revision of a pool, nil if there is none of that name.
func (r *Reconciler) kept(ctx context.Context, pool *v1alpha1.WindowsNodePool, name string) (*revision.Revision, error) {
	kept, _, err := revision.Read(ctx, r.client, pool, name)
	return kept, err
}

// heldBack says whether the host of an instance keeps or gets another revision than that of its pool, which is rolled back. Where somebody
// has undone it, hosts are updated to another one, and none waits for anything.
func heldBack(i *v1alpha1.WindowsInstance, back *v1alpha1.PoolRollback) bool {
	return back != nil && !back.ByPerson() && (i.Status.PoolRevision != back.Revision || back.Broke(i.Name))
}

// hasOwn says whether what is desired of the host of an instance is known to be of another revision than the one that is rolled back. It may be that one
// still until the controller of instances has seen the rollback, or if the programs of the other one are nowhere any more.
func hasOwn(i *v1alpha1.WindowsInstance, back *v1alpha1.PoolRollback) bool {
	return i.Status.DesiredPoolRevision != "" && i.Status.DesiredPoolRevision != back.Revision
}

// hasGoneBack says whether the host of an instance that a rollback names was taken back with success since, so that it lacks what is desired for
// another reason. Where so much else has been done to it that no attempt to configure it is known any more, it has if its Node is ready. Attempts that
// failed until no success is known may all have been to take it back.
func hasGoneBack(i *v1alpha1.WindowsInstance, back *v1alpha1.PoolRollback) bool {
	failed := false
	ops, full := i.Status.OperationList(), len(i.Status.History) >= v1alpha1.MaxHistory
	for n, op := range ops {
		if op.Type != v1alpha1.OperationReconfigure {
			continue
		}
		if op.Phase == v1alpha1.OperationSucceeded {
			took, known := tookBack(op, ops[n+1:], back)
			if known || !full {
				return took
			}
			break // a full history may lack what was before
		}
		failed = failed || op.Phase == v1alpha1.OperationFailed
	}
	return !failed && full && meta.IsStatusConditionTrue(i.Status.Conditions, v1alpha1.ConditionNodeReady)
}

// tookBack says whether a configuration that succeeded, of a host that a rollback names, gave it what is desired since; before are the operations
// before it. In the same second as well: what broke the host was asked for long before, and the way back is at once. One that was asked for
// before that has given the host what was desired when it came to that: it took the host back if it ended after the rollback, and gave it something
// else than all those that had broken it. Without any it may itself be what broke the host later. It reports false for known if none of those before
// says it.
func tookBack(op *v1alpha1.Operation, before []*v1alpha1.Operation, back *v1alpha1.PoolRollback) (took, known bool) {
	if !op.RequestedAt.Before(&back.Time) {
		return true, true
	}
	if op.FinishedAt == nil || op.FinishedAt.Before(&back.Time) {
		return false, true
	}
	wasBroken := false
	for _, o := range before {
		switch {
		case o.Type != v1alpha1.OperationReconfigure:
		case o.Phase == v1alpha1.OperationSucceeded:
			return wasBroken, true
		case o.Phase == v1alpha1.OperationFailed && o.Disturbed():
			if wasBroken = true; o.Revision == op.Revision {
				return false, true
			}
		}
	}
	return wasBroken, wasBroken
}

// hasOfPool says whether the host of an instance has what the hosts of its pool are to have, as far as that can be worked out.
func hasOfPool(i *v1alpha1.WindowsInstance, back *v1alpha1.PoolRollback) bool {
	return isUpdated(i) && inputsMissing(&i.Status) == "" && !heldBack(i, back) && (!back.ByPerson() || i.Status.PoolRevision == back.To)
}
