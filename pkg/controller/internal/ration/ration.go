// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

// Package ration decides how many hosts of a pool may be removed within a time before somebody
// confirms it, and how many of them at once. It remembers nothing: what was removed lately is in
// the status of the pool. It imports nothing of this project but the API.
package ration

import (
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
)

const (
	// AtOnce is how many hosts are removed at the same time as long as nobody has confirmed
	// their removal.
	AtOnce = 3
	// MaxRecords is how many removals the status of a pool holds.
	MaxRecords = 1024
)

// Limit is how many hosts of a pool may be removed within a time before somebody confirms it.
type Limit struct {
	// Most is a number, or a percentage of the hosts that allows at least one. Only a host that
	// something of ours is on, or may be, since a window before the removal was asked for counts as
	// one: a list of others that takes the place of the right one does not raise the limit for those that it lacks.
	Most intstr.IntOrString
	// Window is the time.
	Window time.Duration
}

// Request is what there is to decide about: the hosts of a pool that one controller removes. Those
// of another one count by what the pool remembers of them.
type Request struct {
	// Ours are the instances by their names.
	Ours map[string]*v1alpha1.WindowsInstance
	// Remove are those of them that are to be removed, which has not begun, in the order in which
	// they are.
	Remove []*v1alpha1.WindowsInstance
	// Leaving has the names of those that are being removed already.
	Leaving map[string]bool
	// Unreached is how many of these hold up no others: see [Stalled].
	Unreached int
	// Since is when the first of them was to be removed, as far as it is known: hosts that came while a
	// removal waits do not raise the limit for it, however long it waits. Zero, or later than now: now.
	Since time.Time
	// Hold has every removal wait for a confirmation that has not begun.
	Hold bool
}

// Removals is what becomes of the instances that are to be removed.
type Removals struct {
	// Now are removed now.
	Now []*v1alpha1.WindowsInstance
	// Later is how many are removed when fewer are being removed.
	Later int
	// Waiting stay until somebody confirms that they are to go.
	Waiting []*v1alpha1.WindowsInstance
	// Fresh are all of [Request.Remove] that are not in Recent.
	Fresh []*v1alpha1.WindowsInstance
	// Held: the limit would allow what waits.
	Held bool
	// Recent is what the pool is to remember, in the order of time. Before the removal of others
	// begins they are to be among them: see [Removals.Record].
	Recent []v1alpha1.PoolRemoval
}

// Decide says which removals begin. recent is what the pool remembers.
//
// What would exceed the limit removes no host at all: it is more likely a mistake than not, and a
// tenth of a mistake is one, too. What had begun before, by the record, is completed.
func (l Limit) Decide(q Request, recent []v1alpha1.PoolRemoval, now time.Time) Removals {
	var r Removals
	removing := map[string]bool{}
	for _, instance := range q.Remove {
		removing[instance.Name] = true
	}
	begun := map[string]bool{} // recorded, and the instance is still there
	gone := 0
	for _, record := range l.prune(recent, now) {
		instance := q.Ours[record.Name]
		switch {
		case instance == nil, instance.CreationTimestamp.After(record.Time.Time):
			if record.Confirmed {
				continue
			}
			gone++
		case q.Leaving[record.Name], removing[record.Name]:
			begun[record.Name] = true
		default:
			continue // it is to stay again, before anything was done to it
		}
		r.Recent = append(r.Recent, record)
	}
	used := len(r.Recent)
	for name := range q.Leaving {
		if !begun[name] {
			used++
		}
	}

	var going, fresh []*v1alpha1.WindowsInstance
	for _, instance := range q.Remove {
		if begun[instance.Name] {
			going = append(going, instance)
		} else {
			fresh = append(fresh, instance)
		}
	}
	since := now
	if !q.Since.IsZero() && q.Since.Before(now) {
		since = q.Since
	}
	allowed := len(fresh) <= l.of(l.count(q.Ours, since)+gone)-used
	if allowed && !q.Hold {
		going = append(going, fresh...)
	} else {
		r.Waiting, r.Held = fresh, allowed && len(fresh) > 0
	}
	r.Fresh = fresh
	r.Now = going[:min(len(going), max(0, AtOnce-len(q.Leaving)+q.Unreached))]
	r.Later = len(going) - len(r.Now)
	return r
}

// Find returns what the pool remembers of the removal of an instance. Nil: nothing.
func (r *Removals) Find(instance *v1alpha1.WindowsInstance) *v1alpha1.PoolRemoval {
	return find(r.Recent, instance)
}

// Confirmed says whether, by what a pool remembers, somebody has confirmed the removal of an instance.
func Confirmed(recent []v1alpha1.PoolRemoval, instance *v1alpha1.WindowsInstance) bool {
	record := find(recent, instance)
	return record != nil && record.Confirmed
}

func find(recent []v1alpha1.PoolRemoval, instance *v1alpha1.WindowsInstance) *v1alpha1.PoolRemoval {
	for i := range recent {
		if record := &recent[i]; record.Name == instance.Name && !instance.CreationTimestamp.After(record.Time.Time) {
			return record
		}
	}
	return nil
}

// Record adds removals to what the pool is to remember, as far as there is space.
func (r *Removals) Record(now time.Time, confirmed bool, instances ...*v1alpha1.WindowsInstance) {
	for _, instance := range instances {
		if len(r.Recent) >= MaxRecords {
			return
		}
		if r.Find(instance) == nil {
			r.Recent = append(r.Recent, v1alpha1.PoolRemoval{Name: instance.Name, Time: metav1.NewTime(now).Rfc3339Copy(), Confirmed: confirmed})
		}
	}
}

// String says what may be done without a confirmation.
func (l Limit) String() string {
	most, note := fmt.Sprintf("%d hosts", l.Most.IntValue()), ""
	switch {
	case l.Most.Type == intstr.String:
		most = l.Most.StrVal + " of the hosts, and always one,"
		note = " Hosts that came within that time before, or that were never logged in to, are not counted."
	case l.Most.IntValue() == 1:
		most = "1 host"
	}
	return fmt.Sprintf("Without a confirmation, %s may be removed within %s (--max-removals, --removal-window).%s", most, l.Window, note)
}

// count returns how many of these instances count as hosts. Our finalizer says that something of ours
// may be on a host; it comes before that does. since is when the question came up.
func (l Limit) count(instances map[string]*v1alpha1.WindowsInstance, since time.Time) int {
	n := 0
	for _, instance := range instances {
		if slices.Contains(instance.Finalizers, v1alpha1.HostFinalizer) && !instance.CreationTimestamp.After(since.Add(-l.Window)) {
			n++
		}
	}
	return n
}

// of returns how many of so many hosts may be removed.
func (l Limit) of(hosts int) int {
	n := l.Most.IntValue()
	if l.Most.Type == intstr.String {
		// The flag was checked.
		n, _ = intstr.GetScaledValueFromIntOrPercent(&l.Most, hosts, false)
		n = max(n, 1)
	}
	return min(n, MaxRecords)
}

// prune returns the records that count at a time. One of a later time was made while the clock
// was wrong, and counts from now on.
func (l Limit) prune(records []v1alpha1.PoolRemoval, now time.Time) []v1alpha1.PoolRemoval {
	var out []v1alpha1.PoolRemoval
	for _, record := range records {
		if record.Time.After(now) {
			record.Time = metav1.NewTime(now).Rfc3339Copy()
		}
		if now.Before(record.Time.Add(l.Window)) {
			out = append(out, record)
		}
	}
	slices.SortStableFunc(out, func(a, b v1alpha1.PoolRemoval) int { return a.Time.Compare(b.Time.Time) })
	return out
}

// Expiry returns when the first of the records no longer counts. Zero: there is none.
func (l Limit) Expiry(records []v1alpha1.PoolRemoval) time.Time {
	if len(records) == 0 {
		return time.Time{}
	}
	return records[0].Time.Add(l.Window)
}

// Stalled says whether the removal of a host holds up no others, because that may be for ever: it
// waits for its next attempt, or the host does not answer, also while that is tried again.
func Stalled(status *v1alpha1.WindowsInstanceStatus) bool {
	if newest := status.NewestOperation(v1alpha1.OperationRemove); newest != nil && !newest.Active() {
		return true
	}
	for _, o := range status.Operations() {
		if o.Type == v1alpha1.OperationRemove && (o.HostUnreached() || !o.Untouched()) {
			return o.HostUnreached()
		}
	}
	return false
}
