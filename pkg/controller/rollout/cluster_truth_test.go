// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package rollout

import (
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/words"
)

// counts is what the status of a pool says of its hosts in numbers, and in conditions that are true or not.
type counts struct {
	Generation                                     int64
	Replicas, Desired, Ready, Updated, Unavailable int32
	AllUpdated, Paused                             bool
	BlockedBy                                      string
}

// situation is what is true of a pool at a time.
type situation struct {
	counts
	// active have operations that change them and do not wait, troubled are broken, or down, or could not be updated. away are out of service, or broken
	// and back in service. getting have what they are to have, or get something.
	active, troubled, broken, away, down, getting []string
	// settles: something else is wanted since a moment ago.
	settles bool
	// downloads says whether updates of Windows are downloaded, or wait, in its namespace.
	downloads func() bool
	works     bool // on one of them something is done, also on those that leave
	bounds    bounds
	// window says whether that of the pool is open, and when to ask again.
	window func() (open bool, again time.Time)
}

func (c *cluster) situationOf(p *simulatedPool) situation {
	s := situation{counts: counts{Generation: p.object.Generation, Paused: p.object.Spec.Paused, BlockedBy: c.scheduler.blockedBy(poolKey{p.object.Namespace, p.object.Name}).text}}
	var have int32
	back := p.rolledBack()
	for _, m := range p.members {
		if m.instance == nil {
			continue
		}
		name, op, stays := m.key.Name, m.instance.Status.Operation, m.instance.DeletionTimestamp.IsZero()
		s.Replicas++
		s.works = s.works || op.Active()
		updated := m.has == c.toHave(p) && !heldBack(m.instance, back)
		if updated {
			s.Updated++
		}
		if m.has == m.instance.Status.DesiredRevision || hasNewest(m.instance, p.object) || op.Active() && op.Type == v1alpha1.OperationReconfigure {
			s.getting = append(s.getting, name)
		}
		busy := op.Active() && op.Type != v1alpha1.OperationReconfigure && op.Type != v1alpha1.OperationUncordon && op.Cause != v1alpha1.CauseWindowsUpdates
		if m.outOfService() || m.broke || busy {
			s.away = append(s.away, name)
		}
		if m.node != nil && !m.ready() {
			s.down = append(s.down, name)
		}
		if !stays {
			continue
		}
		s.Desired++
		if updated {
			have++
		}
		if m.ready() {
			s.Ready++
		}
		waits := s.BlockedBy != "" && op.Active() && op.At(v1alpha1.StepWaitForSlot) && !op.Admitted()
		if op.Active() && (op.Type == v1alpha1.OperationReconfigure && m.node != nil || op.Cause != "") && !waits {
			s.active = append(s.active, name)
		}
		if m.broke && m.node != nil {
			s.broken = append(s.broken, name)
		}
		if m.failed || m.node != nil && !m.ready() || len(m.instance.Status.WindowsUpdates.Failed) > 0 || op.BrokenOff() && op.Cause == v1alpha1.CauseWindowsUpdates {
			s.troubled = append(s.troubled, name)
		}
	}
	s.downloads = sync.OnceValue(func() bool {
		return slices.ContainsFunc(c.members, func(m *member) bool {
			return m.key.Namespace == p.object.Namespace && m.instance != nil && m.instance.Status.Operation.Active() && m.instance.Status.Operation.Cause == v1alpha1.CauseWindowsUpdates
		})
	})
	s.bounds = p.bounds()
	s.window = sync.OnceValues(func() (bool, time.Time) { return windowAt(p.object.Spec.UpdateStrategy.Window, time.Now()) })
	s.Unavailable = s.Desired - s.Ready
	seen := c.reconciler.seen[types.NamespacedName{Namespace: p.object.Namespace, Name: p.object.Name}]
	s.settles = seen.changed && time.Since(seen.at) < settleTime
	s.AllUpdated = have == s.Desired && (back.ByPerson() || !s.settles) // who has gone back is known at once
	return s
}

// audit fails the test if the status of a pool that was just computed, or of any, does not say what is true, or a sum is wrong.
func (c *cluster) audit(all bool) {
	if all {
		c.recount()
	}
	if c.scheduler == nil || c.cached != nil {
		return
	}
	for _, p := range c.pools {
		if p.woken || !all && !p.told || !p.due.IsZero() && time.Until(p.due) <= max(gatherTime, c.pace.rest) { // it is about to say something else
			continue
		}
		p.told = false
		c.agrees(p)
	}
}

// recount fails the test if the sums are not what they would be if everything was counted.
func (c *cluster) recount() {
	disturbed, sums := 0, map[*simulatedPool][2]int{}
	for _, m := range c.members {
		is, of := m.stands(), sums[m.in]
		disturbed += number(is.disturbed)
		sums[m.in] = [2]int{of[0] + number(is.there), of[1] + number(is.away)}
	}
	for _, p := range c.pools {
		if got := [2]int{p.size, p.away}; got != sums[p] || c.disturbed != disturbed {
			c.t.Fatalf("pool %s: %v are there and away, counted %v; of all %d are disturbed, counted %d", p.object.Name, sums[p], got, disturbed, c.disturbed)
		}
	}
}

// agrees fails the test if the status of a pool does not say what is true.
func (c *cluster) agrees(p *simulatedPool) situation {
	s, status := c.situationOf(p), &p.object.Status
	is := func(kind string) bool { return meta.IsStatusConditionTrue(status.Conditions, kind) }
	got := counts{
		Generation: status.ObservedGeneration, Replicas: status.Replicas, Desired: status.DesiredReplicas, Ready: status.ReadyReplicas, Updated: status.UpdatedReplicas, Unavailable: status.UnavailableReplicas,
		AllUpdated: is(v1alpha1.ConditionUpdated), Paused: is(v1alpha1.ConditionPaused), BlockedBy: status.BlockedBy,
	}
	if diff := cmp.Diff(s.counts, got); diff != "" {
		c.t.Fatalf("%s: the status of pool %s says something else than what is so (-so +says):\n%s", time.Now(), p.object.Name, diff)
	}
	var waiting []*member
	for _, m := range p.members {
		if why, waits := c.scheduler.last.waits[m.key]; waits && m.instance != nil && c.scheduler.last.poolOf[m.key].name == p.object.Name { // else it came after the last pass
			waiting = append(waiting, m)
			if !c.rests && !c.asked && !c.justified(m, why, &s) {
				c.t.Fatalf("%s: %s is said to wait for %+v, and %q: %+v", time.Now(), m.key, why, c.scheduler.WaitsFor(m.key), s.counts)
			}
		}
	}
	switch updating := is(v1alpha1.ConditionUpdating); {
	case len(s.active) > 0 && !updating, len(s.active) == 0 && updating && (s.Paused || len(waiting) == 0 && !s.settles):
		c.t.Fatalf("%s: pool %s says that it is being updated: %v; active are %v, and %d wait", time.Now(), p.object.Name, updating, s.active, len(waiting))
	}
	switch degraded := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionDegraded); {
	case is(v1alpha1.ConditionDegraded) && len(s.troubled) == 0 && !p.isRolledBack():
		c.t.Fatalf("%s: pool %s is degraded, and no host is: %+v", time.Now(), p.object.Name, degraded)
	case !is(v1alpha1.ConditionDegraded) && len(s.broken) > len(s.down):
		c.t.Fatalf("%s: pool %s is not degraded, and an update broke %v: %+v", time.Now(), p.object.Name, s.broken, degraded)
	}
	if (len(waiting) > 0) != (s.BlockedBy != "") {
		c.t.Fatalf("%s: %d hosts of pool %s wait, blocked by %q", time.Now(), len(waiting), p.object.Name, s.BlockedBy)
	}
	return s
}

// justified says whether what a host is said to wait for is true.
func (c *cluster) justified(m *member, why reason, s *situation) bool {
	u := c.poolOf(m).Spec.UpdateStrategy
	if c.goesBack(m) && (why.kind == waitsForRequest || why.kind == waitsForCanary || why.kind == waitsForResume) {
		return false
	}
	switch why.kind {
	case waitsForPlan:
		return m.instance.Status.DesiredRevision != m.instance.Status.CurrentRevision
	case waitsForRequest:
		return u.Type == v1alpha1.OnRequest
	case waitsForWindow:
		if u.Window == nil {
			return false
		}
		open, again := s.window()
		return !open && why.at.Equal(again)
	case waitsForCanary:
		return why.most == s.bounds.canary && len(s.getting) >= s.bounds.canary
	case waitsForBroken:
		return why.most == s.bounds.maxFailures && len(s.troubled) > s.bounds.maxFailures
	case waitsForFailed, waitsForFailedUpdates:
		return len(s.troubled) > s.bounds.maxFailures
	case waitsForPool:
		return why.most == s.bounds.maxUnavailable && len(s.away) >= s.bounds.maxUnavailable && len(why.hosts) <= len(s.away)
	case waitsForCluster:
		return why.most == c.disruptions && c.disturbed >= c.disruptions
	case waitsForFirst:
		return s.works
	case waitsForServiceRestarts:
		return len(why.hosts) >= why.most
	case waitsForDownload:
		return why.most > 0 && s.downloads()
	case waitsForHealth:
		return !m.ready()
	case waitsForUncordon:
		return m.node != nil && m.node.Spec.Unschedulable && !m.ready()
	case waitsForExhausted, waitsForForgotten:
		return m.node != nil && !m.ready()
	case waitsForTime:
		return why.at.After(time.Now())
	case waitsForRepair:
		return slices.Contains(s.troubled, m.key.Name)
	case waitsForResume:
		return heldBack(m.instance, m.in.rolledBack())
	case waitsForOperation:
		return m.instance.Status.Operation.Active()
	case waitsForUnpause:
		return m.instance.Spec.Paused
	case waitsForFitness:
		return m.node == nil || m.has != m.in.wanted
	}
	return false // nothing else happens here
}

// tells fails the test if the status of a pool, to which nothing more is done, does not say what is true.
func (c *cluster) tells(p *simulatedPool) {
	s, status := c.agrees(p), &p.object.Status
	var wait []string
	for _, m := range p.members {
		if m.instance != nil && (!c.done(m) || heldBack(m.instance, p.rolledBack())) {
			wait = append(wait, m.key.Name)
		}
	}
	slices.Sort(wait)
	groups := map[string][]string{}
	for _, name := range wait {
		text := c.scheduler.WaitsFor(types.NamespacedName{Namespace: p.object.Namespace, Name: name})
		groups[text] = append(groups[text], name)
	}
	if lines := strings.Count(status.BlockedBy, "\n") + number(status.BlockedBy != ""); lines != len(groups) || lines == 1 && !strings.HasPrefix(status.BlockedBy, words.Enumerate(wait, max(maxNamed, fitting(wait, maxListed)))+": ") {
		c.t.Fatalf("pool %s is blocked by %q, and %v wait", p.object.Name, status.BlockedBy, groups)
	}
	u := p.object.Spec.UpdateStrategy
	says := func(text string) bool { return strings.Contains(status.BlockedBy, text) }
	asks, more, resume := says("(spec.updateStrategy.type)"), says("spec.updateStrategy.rollingUpdate.canary"), says("(status.rolledBack)")
	if number(asks)+number(more)+number(resume) != len(groups) || asks && u.Type != v1alpha1.OnRequest || more && u.RollingUpdate.Canary == nil || resume && !p.isRolledBack() {
		c.t.Fatalf("pool %s with %+v is blocked by %q", p.object.Name, u, status.BlockedBy)
	}
	phase := v1alpha1.PoolReady
	switch {
	case p.isRolledBack():
		phase = v1alpha1.PoolDegraded
	case s.Unavailable > 0:
		phase = v1alpha1.PoolProgressing
	}
	newest := c.nameOf[template(p.wanted)]
	// An operation that has found out that it costs more may wait for what keeps those that have none.
	if meta.IsStatusConditionTrue(status.Conditions, v1alpha1.ConditionUpdating) != (len(s.active) > 0) || meta.IsStatusConditionTrue(status.Conditions, v1alpha1.ConditionDegraded) != p.isRolledBack() ||
		status.Phase != phase || status.UpdateRevision != newest || s.AllUpdated && !p.isRolledBack() && status.CurrentRevision != c.nameOf[template(c.toHave(p))] || !p.proven[c.wantedAs[status.CurrentRevision]] && status.CurrentRevision != "" {
		c.t.Fatalf("pool %s has rest, all updated: %v, to %s, and its status is %+v", p.object.Name, s.AllUpdated, newest, status)
	}
}
