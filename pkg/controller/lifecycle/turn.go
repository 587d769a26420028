// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package lifecycle

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/controller/internal/confirm"
	"github.com/openshift/windows-instance-api/pkg/controller/internal/message"
	"github.com/openshift/windows-instance-api/pkg/controller/internal/ration"
	"github.com/openshift/windows-instance-api/pkg/words"
)

const (
	// turnInterval is how often it is looked whether a removal that waits for others can begin.
	turnInterval = 10 * time.Second
	// maxNamed is how many hosts a message names.
	maxNamed = 30
)

// turn says whether the removal of a host may begin, as far as the other hosts of its pool decide.
// The zero value: it may.
type turn struct {
	// remember is what the pool is to remember before it begins. Nil: nothing more than it does.
	remember []v1alpha1.PoolRemoval
	// remaining is what else was confirmed, and is not in remember.
	remaining *v1alpha1.PoolConfirmedRemovals
	// confirmed: the confirmation on the pool is used for it.
	confirmed bool
	// why it may not, for people. Empty: it may.
	why string
	// asks: somebody has to confirm it.
	asks bool
	// refuses: the confirmation on the pool is not for the hosts that wait.
	refuses bool
}

// turnOf decides about one instance that was deleted. members are the instances of its pool, or
// those without one, where pool is nil.
//
// Where a source made the instance the source has decided: people cannot delete it. A pool without a
// place for questions of its own has no limit, but its hosts go one after the other, so that a
// mistake is noticed in time.
func turnOf(limit ration.Limit, instance *v1alpha1.WindowsInstance, pool *v1alpha1.WindowsNodePool, members []v1alpha1.WindowsInstance, now time.Time) turn {
	if fromSource(instance) {
		return turn{}
	}
	q := removalsOf(members, now)
	if pool == nil || pool.Spec.Source.ConfigMap != nil {
		return q.oneByOne(instance)
	}
	r := limit.Decide(q.Request, pool.Status.RecentRemovals, now)
	record := r.Find(instance)
	// A confirmation is for all that waited, also for those that the pool had no space for. Whoever was deleted after them comes after them.
	covered := confirm.Covered(pool, r.Fresh)
	waiting := r.Waiting[min(len(covered), len(r.Waiting)):]
	waits, confirmed := slices.ContainsFunc(waiting, is(instance)), confirm.Covers(pool, waiting)
	switch {
	case record != nil && record.Confirmed:
		return turn{}
	case waits && confirmed:
		return begin(&r, instance, r.Waiting, true, now)
	case slices.ContainsFunc(covered, is(instance)):
		return begin(&r, instance, covered, false, now)
	case waits:
		return turn{asks: true, refuses: confirm.Given(pool), why: question(limit, pool, waiting)}
	case !slices.ContainsFunc(r.Now, is(instance)):
		return turn{why: fmt.Sprintf("The removal begins when fewer than %d hosts of the pool are being removed.", ration.AtOnce)}
	case record != nil:
		return turn{}
	}
	r.Record(now, false, instance)
	return turn{remember: r.Recent, remaining: confirm.Remaining(covered)}
}

// begin has the removal of all that was confirmed begin, as far as the pool can remember it. The rest follows as those before are done.
func begin(r *ration.Removals, instance *v1alpha1.WindowsInstance, all []*v1alpha1.WindowsInstance, confirmed bool, now time.Time) turn {
	before := len(r.Recent)
	r.Record(now, true, all...)
	left := all[len(r.Recent)-before:]
	t := turn{confirmed: confirmed}
	if confirmed || len(r.Recent) > before {
		t.remember, t.remaining = r.Recent, confirm.Remaining(left)
	}
	if slices.ContainsFunc(left, is(instance)) {
		t.why = fmt.Sprintf("The removal is confirmed. It begins when others have ended: a pool records %d removals at the same time.", ration.MaxRecords)
	}
	return t
}

// removals are the hosts of a pool whose removal this controller decides about.
type removals struct {
	ration.Request
	// busy is whether one of them is being removed at this moment.
	busy bool
}

// removalsOf sorts the instances of a pool by how far their removal is.
func removalsOf(members []v1alpha1.WindowsInstance, now time.Time) removals {
	q := removals{Request: ration.Request{Ours: map[string]*v1alpha1.WindowsInstance{}, Leaving: map[string]bool{}}}
	for i := range members {
		member := &members[i]
		if fromSource(member) {
			continue
		}
		q.Ours[member.Name] = member
		s := snapshot{instance: member, now: now}
		removal := member.Status.NewestAttempt(v1alpha1.OperationRemove)
		switch {
		case member.DeletionTimestamp.IsZero(), !s.held(), s.untouched(), s.policy() == v1alpha1.RemovalAbandon:
			// It stays, or nothing is removed from its host.
		case removal == nil && !member.Spec.Paused && s.instance.Status.KeptOff() == nil && !s.unknownKey():
			q.Remove = append(q.Remove, member)
		case removal != nil:
			q.Leaving[member.Name] = true
			if ration.Stalled(&member.Status) {
				q.Unreached++
			} else {
				q.busy = true
			}
		}
	}
	slices.SortFunc(q.Remove, func(a, b *v1alpha1.WindowsInstance) int {
		if c := a.DeletionTimestamp.Compare(b.DeletionTimestamp.Time); c != 0 {
			return c
		}
		return strings.Compare(a.Name, b.Name)
	})
	if len(q.Remove) > 0 {
		q.Since = q.Remove[0].DeletionTimestamp.Time
	}
	return q
}

// oneByOne has the first one go when no other does. What is tried again later lets others pass.
func (q removals) oneByOne(instance *v1alpha1.WindowsInstance) turn {
	if !q.busy && len(q.Remove) > 0 && is(instance)(q.Remove[0]) {
		return turn{}
	}
	return turn{why: "The removal begins when that of another host has ended: hosts without a pool, or in the pool of a ConfigMap that has no entry for them, are removed one after the other."}
}

// question asks whether hosts are to be removed. The command that confirms it comes first, so that
// an event has it in full.
func question(limit ration.Limit, pool *v1alpha1.WindowsNodePool, waiting []*v1alpha1.WindowsInstance) string {
	names := make([]string, len(waiting))
	for i, instance := range waiting {
		names[i] = instance.Name
	}
	slices.Sort(names)
	command := confirm.Command(client.ObjectKeyFromObject(pool), waiting)
	text := fmt.Sprintf("To confirm it: %s\n", command)
	if len(waiting) > 1 {
		text = fmt.Sprintf("To confirm it for all %d hosts that wait in the pool: %s\nThey are %s. ", len(waiting), command, words.Enumerate(names, maxNamed))
	}
	return fmt.Sprintf("The instance was deleted, and its host is not removed before somebody confirms it. %s%s", text, limit)
}

// fromSource says whether a ConfigMap or a MachineSet has the instance, or had it.
func fromSource(instance *v1alpha1.WindowsInstance) bool {
	return instance.Annotations[v1alpha1.SourceAnnotation] != ""
}

func is(instance *v1alpha1.WindowsInstance) func(*v1alpha1.WindowsInstance) bool {
	return func(other *v1alpha1.WindowsInstance) bool { return other.UID == instance.UID }
}

// remember has the pool remember a removal that is about to begin. Two that were decided about at
// the same time cannot both be written: the other one is a conflict, and decided again. It takes
// a confirmation off before what it confirms begins, because it counts once, and one that confirms
// something else, which it tells.
func (r *Reconciler) remember(ctx context.Context, pool *v1alpha1.WindowsNodePool, t turn) error {
	if t.remember == nil && !t.refuses {
		return nil
	}
	pool = pool.DeepCopy() // the one that was read belongs to the cache
	if t.confirmed || t.refuses {
		if _, err := confirm.Withdraw(ctx, r.client, pool); err != nil {
			return err
		}
	}
	if t.refuses {
		r.Recorder.Event(pool, corev1.EventTypeWarning, v1alpha1.ReasonConfirmationNeeded, message.EventNote(confirm.Refusal(t.why)))
		return nil
	}
	before := pool.DeepCopy()
	pool.Status.RecentRemovals, pool.Status.ConfirmedRemovals = t.remember, t.remaining
	if err := r.client.Status().Patch(ctx, pool, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		return fmt.Errorf("recording the removal in WindowsNodePool %s: %w", types.NamespacedName{Namespace: pool.Namespace, Name: pool.Name}, err)
	}
	return nil
}
