// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package rollout

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
)

// bounds is what a pool says of its hosts in numbers, by what is documented of its fields: the code under test must not say what it is judged by.
type bounds struct {
	maxUnavailable, maxFailures int
	// canary is how many hosts are updated first. Negative: all.
	canary int
	// maxUnhealthy is how many Nodes of the pool may be not ready while hosts are repaired, and unhealthyOf how many of so many of the cluster.
	maxUnhealthy int
	unhealthyOf  func(nodes int) int
}

// bounds are those of a pool that should have as many hosts as it has, or as it told a moment ago.
func (p *simulatedPool) bounds() bounds {
	return boundsOf(p.object, max(p.size, int(p.object.Status.DesiredReplicas)))
}

// boundsOf are those of a pool that should have so many hosts.
func boundsOf(pool *v1alpha1.WindowsNodePool, size int) bounds {
	rolling := pool.Spec.UpdateStrategy.RollingUpdate
	b := bounds{maxUnavailable: 1, canary: -1}
	if n := rolling.MaxUnavailable; n != nil {
		b.maxUnavailable = max(1, hostsOf(n, size, false))
	}
	if n := rolling.Canary; n != nil {
		b.canary = hostsOf(n, size, true)
	}
	if n := rolling.MaxFailures; n != nil {
		b.maxFailures = int(*n)
	}
	if r := pool.Spec.Remediation; r != nil {
		n, least := intstr.FromString("40%"), 1
		if r.MaxUnhealthy != nil && r.MaxUnhealthy.Type == intstr.Int {
			least = r.MaxUnhealthy.IntValue()
		} else if r.MaxUnhealthy != nil {
			n = *r.MaxUnhealthy
		}
		most := n
		if r.MaxUnhealthy != nil {
			most = *r.MaxUnhealthy
		}
		if hostsOf(&most, 100, false) > 0 { // else nothing is ever repaired
			b.maxUnhealthy = max(1, hostsOf(&most, size, false))
		}
		b.unhealthyOf = func(nodes int) int { return max(least, hostsOf(&n, nodes, false)) }
	}
	return b
}

// hostsOf is a number of hosts, or a percentage of so many.
func hostsOf(n *intstr.IntOrString, of int, up bool) int {
	if n.Type == intstr.Int {
		return n.IntValue()
	}
	percent, err := strconv.Atoi(strings.TrimSuffix(n.StrVal, "%"))
	if err != nil {
		panic(err)
	}
	if up {
		return (of*percent + 99) / 100
	}
	return of * percent / 100
}

// windowAt says whether a window that opens once a day is open, and when to ask again: when it closes, or opens.
func windowAt(w *v1alpha1.MaintenanceWindow, at time.Time) (open bool, again time.Time) {
	var minute, hour int
	if _, err := fmt.Sscanf(w.Schedule, "%d %d * * *", &minute, &hour); err != nil {
		panic(err)
	}
	zone, err := time.LoadLocation(w.TimeZone)
	if err != nil {
		panic(err)
	}
	year, month, day := at.In(zone).Date()
	for n := day - 1; ; n++ {
		opens := time.Date(year, month, n, hour, minute, 0, 0, zone)
		closes := opens.Add(time.Duration(w.DurationSeconds) * time.Second)
		switch {
		case opens.Hour() != hour || opens.Minute() != minute || !closes.After(at): // an hour that the clocks leave out does not come
		case opens.After(at):
			return false, opens
		default:
			return true, closes
		}
	}
}

// template is the part of a revision that comes from the pool. The other one comes from the cluster.
func template(revision string) string {
	name, _, _ := strings.Cut(revision, ".")
	return name
}

// comesBack is for how long a Node may be not ready until nobody expects it to be back by itself.
const comesBack = 2 * time.Minute

// sank says whether the Node of a member is down since it was changed or restarted.
func (m *member) sank() bool {
	return m.node != nil && !m.ready() && !m.changed.IsZero() && !m.downAt.After(m.changed.Add(time.Hour))
}

// wentDown says whether the Node of a member went down after an update that cost it something, whatever it is to have now, and whatever was tried since
// then: a restart in between makes nothing of it.
func (m *member) wentDown() bool {
	s := &m.instance.Status
	op, ready := s.Operation, meta.FindStatusCondition(s.Conditions, v1alpha1.ConditionNodeReady)
	if m.updatedBy == "" || m.node == nil || m.ready() || ready.Reason != v1alpha1.ReasonNodeNotReady { // which somebody has seen
		return false
	}
	at := ready.LastTransitionTime.Time
	return !at.After(m.updatedAt.Add(time.Hour)) && (m.attempted.IsZero() || !m.attempted.Before(at)) && (!op.Active() || at.Before(op.RequestedAt.Time)) &&
		slices.ContainsFunc(s.OperationList(), func(o *v1alpha1.Operation) bool { return o.ID == m.updatedBy })
}

// granted is what the scheduler has let the operation of a member do, and by what.
type granted struct {
	id string
	// anytime: it waits for no window.
	anytime bool
	window  *v1alpha1.MaintenanceWindow
	// early: it was admitted when it was recorded.
	early bool
}

// judge fails the test if the scheduler must not write what it does. m has what was there before.
func (c *cluster) judge(m *member, after *v1alpha1.WindowsInstance) {
	before, op, now := m.instance.Status.Operation, after.Status.Operation, time.Now()
	pool := c.poolOf(m)
	begins := before == nil || before.ID != op.ID
	takes := slotOf(op.AdmittedImpact)
	switch {
	case begins && before.Active():
		c.t.Fatalf("%s gets %+v during %+v", m.key, op, before)
	case begins && (c.paused(m) || !after.DeletionTimestamp.IsZero()):
		c.t.Fatalf("%s is paused or leaves, and gets %+v", m.key, op)
	case begins && op.Type == v1alpha1.OperationReconfigure && op.Cause == "" && m.has == op.Revision:
		c.t.Fatalf("%s gets what it has: %+v", m.key, op)
	case op.Type == v1alpha1.OperationReboot && op.Cause != v1alpha1.CauseWindowsUpdates:
		takes = slotDisruption
	case op.Type == v1alpha1.OperationRestartServices:
		takes = slotServiceRestart
	}
	b := m.in.bounds()
	repairs, removes, updates := op.Cause == v1alpha1.CauseNodeNotReady, op.Type == v1alpha1.OperationRemove, op.Type == v1alpha1.OperationReconfigure
	byPerson := updates && !op.ByController()
	ofBroken := updates && (op.HostChanged || m.broke || m.sank() && time.Since(m.downAt) >= comesBack || m.marked() && !m.drained() || !m.in.rolledBack().ByPerson() && c.goesBack(m) && template(op.Revision) != m.worked)
	anytime := repairs || removes || byPerson || ofBroken || op.Type == v1alpha1.OperationUncordon
	m.granted = granted{id: op.ID, anytime: anytime, window: pool.Spec.UpdateStrategy.Window, early: begins && op.AdmittedImpact != ""}
	if begins {
		c.judgeRequest(m, op)
	}
	if c.cached == nil { // else it may not know yet what has happened to other hosts
		if repairs && begins {
			c.judgeRepair(m, &b)
		}
		if harmless := takes == slotNone && updates && op.Cause == ""; !anytime && !harmless { // a renewed authority must reach those that work
			c.judgeFailures(m, op, &b)
		}
	}
	if takes == slotNone {
		return
	}
	if w := pool.Spec.UpdateStrategy.Window; w != nil && !anytime {
		if open, _ := windowAt(w, now); !open {
			c.t.Fatalf("%s is disturbed at %s, outside of the window: %+v", m.key, now, op)
		}
	}
	if renews := op.Cause == v1alpha1.CauseVersionChanged && op.Revision == m.has; updates && !renews && !anytime && c.cached == nil {
		c.judgeTrial(m, op, &b)
	}
	if takes != slotDisruption {
		return
	}
	all, away := c.disturbed+number(!m.counted.disturbed), m.in.away-number(m.counted.away)
	if all > c.disruptions {
		c.t.Fatalf("%s is the host number %d that is out of service for us, of %d: %+v", m.key, all, c.disruptions, op)
	}
	serves := c.cached == nil && m.serves()
	if serves { // as others do that somebody has cordoned as well
		away = 0
		for _, o := range m.in.members {
			away += number(o != m && o.counted.away && !o.serves())
		}
	}
	if !byPerson && (!m.outOfService() || serves) && away >= b.maxUnavailable {
		c.t.Fatalf("%s is drained while %d of its pool are out of service already, of %d: %+v", m.key, away, b.maxUnavailable, op)
	}
}

// judgeRepair fails the test if somebody may be at work on the host, or too many Nodes are not ready for the trouble to be that of one host.
func (c *cluster) judgeRepair(m *member, b *bounds) {
	if m.node != nil && m.node.Spec.Unschedulable && !strings.HasSuffix(m.node.Annotations[v1alpha1.CordonedByAnnotation], " (asked for by windows-controller)") {
		c.t.Fatalf("%s is repaired although somebody has cordoned its Node", m.key)
	}
	var nodes, unready, inPool int
	for _, o := range c.members {
		if o.instance == nil || o.node == nil {
			continue
		}
		if c.paused(o) && !o.ready() && time.Since(o.downAt) >= time.Hour-time.Second { // somebody works on it; conditions have whole seconds
			continue
		}
		nodes++
		unready += number(!o.ready())
		inPool += number(o.in == m.in && !o.ready())
	}
	if inPool > b.maxUnhealthy || unready > b.unhealthyOf(nodes) {
		c.t.Fatalf("%s is repaired while %d of its pool are not ready, of %d, and %d of %d of all", m.key, inPool, b.maxUnhealthy, unready, nodes)
	}
}

// judgeFailures fails the test if updates have broken too many hosts for another one to be changed or restarted.
func (c *cluster) judgeFailures(m *member, op *v1alpha1.Operation, b *bounds) {
	var broken []string
	for _, o := range m.in.members {
		if o.instance != nil && o.instance.DeletionTimestamp.IsZero() && (o.broke || o.wentDown()) {
			broken = append(broken, o.key.Name)
		}
	}
	if len(broken) > b.maxFailures {
		c.t.Fatalf("%s gets %+v while updates have broken %v, of %d", m.key, op, broken, b.maxFailures)
	}
}

// judgeTrial fails the test if a host gets something that nobody has asked for, or that was tried on as many hosts as are to have it first.
func (c *cluster) judgeTrial(m *member, op *v1alpha1.Operation, b *bounds) {
	desired := m.instance.Status.DesiredRevision // which it gets, whatever was when it was recorded
	u, gives := c.poolOf(m).Spec.UpdateStrategy, template(desired)
	if back := m.in.rolledBack(); back.ByPerson() && c.goesBack(m) && gives == c.wantedAs[back.To] {
		return // somebody has asked for it
	}
	after := c.poolOf(m).Spec.Restarts.After
	if restart := after != nil && !after.After(time.Now()) && m.booted.Before(after.Time); u.Type == v1alpha1.OnRequest && !restart {
		c.t.Fatalf("%s is updated though nobody has asked for it: %+v", m.key, op)
	}
	if b.canary < 0 || m.in.proven[gives] && gives != m.worked { // it is known to work
		return
	}
	var tried []string
	for _, o := range m.in.members {
		if o == m || o.instance == nil || !o.instance.DeletionTimestamp.IsZero() {
			continue
		}
		is := o.instance.Status.Operation
		gets := is.Active() && is.Type == v1alpha1.OperationReconfigure && is.Revision == desired && slotOf(is.AdmittedImpact) != slotNone && (!ended(is, v1alpha1.StepPlan) || slotOf(is.Impact) != slotNone) && !ended(is, v1alpha1.StepUncordon)
		has := gives != m.worked && template(o.has) == gives || gives == m.worked && o.has == desired && !o.got.Before(m.lacksSince)
		if gets && o.has != desired || has && !is.Active() { // what costs nothing is tried when it has succeeded
			tried = append(tried, o.key.Name)
		}
	}
	if len(tried) >= b.canary {
		c.t.Fatalf("%s is updated, and %v are before it, of %d: %+v", m.key, tried, b.canary, op)
	}
}

// judgeCordon fails the test if the Node of a member is to be cordoned when the window is closed in which that was decided.
func (c *cluster) judgeCordon(m *member) {
	op, w := m.instance.Status.Operation, m.granted.window
	if m.granted.id != op.ID || m.granted.anytime || w == nil || !equality.Semantic.DeepEqual(w, c.poolOf(m).Spec.UpdateStrategy.Window) {
		return
	}
	if at := op.FindStep(v1alpha1.StepCordon).StartedAt; at != nil {
		if open, _ := windowAt(w, at.Time); !open {
			c.t.Fatalf("%s is cordoned at %s, outside of the window: %+v", m.key, at, op)
		}
	}
}

// tooLate says whether the window has closed since an operation was recorded in it, as the controller of operations asks before it disturbs
// the host or its Node.
func (c *cluster) tooLate(m *member, op *v1alpha1.Operation) bool {
	w := c.poolOf(m).Spec.UpdateStrategy.Window
	restarts := op.Type == v1alpha1.OperationReboot && op.Cause != v1alpha1.CauseNodeNotReady
	if w == nil || !op.ByController() || !restarts && (op.Type != v1alpha1.OperationReconfigure || slotOf(op.AdmittedImpact) == slotNone) {
		return false
	}
	recorded, _ := windowAt(w, op.RequestedAt.Time)
	open, _ := windowAt(w, time.Now())
	return recorded && !open
}
