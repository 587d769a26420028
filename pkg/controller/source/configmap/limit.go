// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package configmap

import (
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
)

const (
	// removalsAtOnce is how many hosts are removed at the same time as long as nobody has
	// confirmed their removal.
	removalsAtOnce = 3
	// maxRecords is how many removals the status of a pool holds.
	maxRecords = 1024
)

// limit is how many hosts of a pool may be removed within a time before somebody confirms it.
type limit struct {
	// most is a number, or a percentage of the hosts that allows at least one.
	most intstr.IntOrString
	// window is the time.
	window time.Duration
}

// removals is what becomes of the instances that no entry asks for.
type removals struct {
	// now are deleted in this pass.
	now []*v1alpha1.WindowsInstance
	// later is how many are deleted when fewer are being removed.
	later int
	// waiting stay until somebody confirms that they are to go.
	waiting []*v1alpha1.WindowsInstance
	// recent is what the pool is to remember, in the order of time. Those of now are in it.
	recent []v1alpha1.PoolRemoval
}

// ration decides which removals of a plan begin. recent is what the pool remembers.
//
// A change that would exceed the limit removes no host at all: what it wants is more likely a
// mistake than not, and a tenth of a mistake is one, too. What had begun before, by the
// record, is completed.
func (l limit) ration(p *plan, recent []v1alpha1.PoolRemoval, now time.Time) removals {
	var r removals
	removing := map[string]bool{}
	for _, instance := range p.remove {
		removing[instance.Name] = true
	}
	begun := map[string]bool{} // recorded, and the instance is still there
	gone := 0
	for _, record := range l.prune(recent, now) {
		instance := p.ours[record.Name]
		switch {
		case instance == nil, instance.CreationTimestamp.After(record.Time.Time):
			gone++
		case p.leaving[record.Name], removing[record.Name]:
			begun[record.Name] = true
		default:
			continue // it has an entry again, before anything was done to it
		}
		r.recent = append(r.recent, record)
	}
	used := len(r.recent)
	for name := range p.leaving {
		if !begun[name] {
			used++
		}
	}

	var going, fresh []*v1alpha1.WindowsInstance
	for _, instance := range p.remove {
		if begun[instance.Name] {
			going = append(going, instance)
		} else {
			fresh = append(fresh, instance)
		}
	}
	if len(fresh) <= l.of(len(p.ours)+gone)-used {
		going = append(going, fresh...)
	} else {
		r.waiting = fresh
	}
	r.now = going[:min(len(going), max(0, removalsAtOnce-len(p.leaving)+p.unreached))]
	r.later = len(going) - len(r.now)
	for _, instance := range r.now {
		if !begun[instance.Name] {
			r.recent = append(r.recent, v1alpha1.PoolRemoval{Name: instance.Name, Time: metav1.NewTime(now).Rfc3339Copy()})
		}
	}
	return r
}

// laterInterval is when to look again whether further removals can begin.
const laterInterval = time.Minute

// String says it in the middle of a sentence.
func (l limit) String() string {
	if l.most.Type == intstr.String {
		return l.most.StrVal + " of the hosts, and always one,"
	}
	return hosts(l.most.IntValue())
}

// of returns how many of so many hosts may be removed.
func (l limit) of(hosts int) int {
	n := l.most.IntValue()
	if l.most.Type == intstr.String {
		// The flag was checked.
		n, _ = intstr.GetScaledValueFromIntOrPercent(&l.most, hosts, false)
		n = max(n, 1)
	}
	return min(n, maxRecords)
}

// prune returns the records that count at a time. One of a later time was made while the clock
// was wrong, and counts from now on.
func (l limit) prune(records []v1alpha1.PoolRemoval, now time.Time) []v1alpha1.PoolRemoval {
	var out []v1alpha1.PoolRemoval
	for _, record := range records {
		if record.Time.After(now) {
			record.Time = metav1.NewTime(now).Rfc3339Copy()
		}
		if now.Before(record.Time.Add(l.window)) {
			out = append(out, record)
		}
	}
	slices.SortStableFunc(out, func(a, b v1alpha1.PoolRemoval) int { return a.Time.Compare(b.Time.Time) })
	return out
}

// expiry returns when the first of the records no longer counts. Zero: there is none.
func (l limit) expiry(records []v1alpha1.PoolRemoval) time.Time {
	if len(records) == 0 {
		return time.Time{}
	}
	return records[0].Time.Add(l.window)
}

// namesOf are the names of instances, sorted.
func namesOf(instances []*v1alpha1.WindowsInstance) []string {
	out := make([]string, len(instances))
	for i, instance := range instances {
		out[i] = instance.Name
	}
	slices.SortFunc(out, strings.Compare)
	return out
}
