// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package rollout

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/drain"
)

// simulatedSteps are the steps of operations that matter to the scheduler, in their order.
func simulatedSteps(op *v1alpha1.Operation) []string {
	const (
		slot, cordon, evict, uncordon = v1alpha1.StepWaitForSlot, v1alpha1.StepCordon, v1alpha1.StepDrain, v1alpha1.StepUncordon
		restart                       = v1alpha1.StepRestart
	)
	switch {
	case op.Type == v1alpha1.OperationReconfigure:
		return []string{v1alpha1.StepPlan, slot, cordon, evict, v1alpha1.StepApply, uncordon}
	case op.Type == v1alpha1.OperationReboot && op.Reboot.InstallsUpdates():
		return []string{v1alpha1.StepDownloadUpdates, slot, cordon, evict, v1alpha1.StepInstallUpdates, restart, uncordon}
	case op.Type == v1alpha1.OperationReboot:
		return []string{v1alpha1.StepConnect, cordon, evict, restart, uncordon}
	case op.Type == v1alpha1.OperationRemove:
		return []string{v1alpha1.StepConnect, slot, cordon, evict, v1alpha1.StepDeleteNode}
	case op.Type == v1alpha1.OperationRestartServices:
		return []string{v1alpha1.StepConnect, v1alpha1.StepRestartServices}
	}
	return []string{uncordon}
}

// proceed does the next step of the operation of a member, as the controller of operations does. It says whether there was something to do.
func (c *cluster) proceed(m *member) bool {
	if m.instance == nil {
		return false
	}
	op := m.instance.Status.Operation
	switch {
	case !op.Active() && !m.instance.DeletionTimestamp.IsZero() && !c.paused(m):
		c.record(m, v1alpha1.NewOperation(v1alpha1.OperationRemove, "x"+m.instance.ResourceVersion, v1alpha1.OriginController, v1alpha1.ControllerRequester, time.Now()))
		return true
	case !op.Active():
		return false
	case op.At(v1alpha1.StepWaitForSlot):
		return c.waitForSlot(m, op)
	case m.next.IsZero() || m.next.After(time.Now()):
		return false
	}
	if m.granted.id == op.ID && !op.MayHaveChangedHost() && !cordons(op) && c.tooLate(m, op) {
		c.conclude(m, v1alpha1.OperationCanceled)
		return true
	}
	if op.Phase == v1alpha1.OperationPending && c.withdrawn(m, op) {
		c.giveUp(m, op)
		return true
	}
	m.next = c.after(c.takes())
	if op.Phase == v1alpha1.OperationPending {
		c.editOperation(m, func(op *v1alpha1.Operation) {
			op.Phase, op.StartedAt = v1alpha1.OperationRunning, new(metav1.Now())
			for _, name := range simulatedSteps(op) {
				op.Steps = append(op.Steps, v1alpha1.OperationStep{Name: name, State: v1alpha1.StepPending})
			}
			if m.node != nil {
				op.Node = &v1alpha1.OperationNode{Name: m.node.Name, UID: m.node.UID, WasUnschedulable: m.node.Spec.Unschedulable}
			}
		})
		return true
	}
	for i := range op.Steps {
		if step := &op.Steps[i]; !step.Ended() {
			c.do(m, step.Name)
			return true
		}
	}
	c.conclude(m, v1alpha1.OperationSucceeded)
	return true
}

// cordons says whether an operation has come to where it cordons the Node, or further.
func cordons(op *v1alpha1.Operation) bool {
	step := op.FindStep(v1alpha1.StepCordon)
	return step != nil && step.State != v1alpha1.StepPending && step.State != v1alpha1.StepSkipped
}

// takes is how long a step takes.
func (c *cluster) takes() time.Duration {
	if c.pace.step > 0 { // most steps end with the one before
		if c.draw("takes", 4) == 3 {
			return c.pace.step
		}
		return 0
	}
	return time.Duration(1+c.draw("takes", 120)) * time.Second
}

// record records an operation of somebody else than the scheduler.
func (c *cluster) record(m *member, op *v1alpha1.Operation) {
	m.next = c.after(time.Second)
	c.edit(m, func(i *v1alpha1.WindowsInstance) {
		if err := i.Status.Record(op); err != nil {
			c.t.Fatal(err)
		}
	})
}

func (c *cluster) editOperation(m *member, change func(*v1alpha1.Operation)) {
	c.edit(m, func(i *v1alpha1.WindowsInstance) { change(i.Status.Operation) })
}

// waitForSlot goes on when the scheduler lets it, and ends if it has to give way.
func (c *cluster) waitForSlot(m *member, op *v1alpha1.Operation) bool {
	removes := op.Type == v1alpha1.OperationRemove
	switch {
	case (removes || !op.HostChanged) && !cordons(op) && (c.paused(m) || op.Cause == v1alpha1.CauseVersionChanged && c.withdrawn(m, op)):
		c.giveUp(m, op)
		return true
	case !removes && op.Admitted() && m.granted.id == op.ID && m.granted.early && c.tooLate(m, op):
		c.conclude(m, v1alpha1.OperationCanceled)
		return true
	case removes && (op.AdmittedImpact != "" || op.Node == nil || m.instance.Status.RemovalGoesOn()), !removes && op.Admitted():
		m.next = time.Now().Add(time.Second)
		c.end(m, v1alpha1.StepWaitForSlot)
		return true
	case !removes && !m.instance.DeletionTimestamp.IsZero(),
		op.Type == v1alpha1.OperationReconfigure && op.ByController() && op.AdmittedImpact != "" && !op.HostChanged && (m.has != op.Revision || m.has != m.instance.Status.DesiredRevision), // it costs more than was admitted
		op.Cause == v1alpha1.CauseWindowsUpdates && c.scheduler.Postponed(m.key),
		m.instance.Status.GivesWay() && c.scheduler.GivesWayTo(m.key) != "":
		c.conclude(m, v1alpha1.OperationCanceled)
		return true
	}
	m.next = time.Time{}
	return false
}

// end ends a step with success, and begins the next one that is needed.
func (c *cluster) end(m *member, name string) {
	c.editOperation(m, func(op *v1alpha1.Operation) {
		for i := range op.Steps {
			if step := &op.Steps[i]; step.Name == name {
				step.State = v1alpha1.StepSucceeded
				next := slices.IndexFunc(op.Steps, func(s v1alpha1.OperationStep) bool { return !s.Ended() })
				if next >= 0 {
					op.Steps[next].State, op.Steps[next].StartedAt = v1alpha1.StepRunning, new(metav1.Now())
				}
			}
		}
	})
}

func (c *cluster) conclude(m *member, phase v1alpha1.OperationPhase) {
	m.next = time.Time{}
	if phase == v1alpha1.OperationSucceeded && m.instance.Status.Operation.Type == v1alpha1.OperationReconfigure {
		m.failed, m.broke, m.changed, m.updatedBy, m.attempted = false, false, time.Now(), "", time.Time{}
		if op := m.instance.Status.Operation; op.Impact != v1alpha1.ImpactNone && op.Node != nil && op.HostChanged {
			m.updatedBy, m.updatedAt = op.ID, time.Now()
		}
	}
	if m.instance.Status.Operation.BootID != "" { // a restart is to blame from its end on, as an update is
		m.changed = time.Now()
	}
	c.editOperation(m, func(op *v1alpha1.Operation) { op.Phase, op.FinishedAt = phase, new(metav1.Now()) })
	c.search(m)
}

// fails says whether one of n things goes wrong.
func (c *cluster) fails(n int) bool { return !c.well && c.draw("fails", n*max(1, c.pace.luck)) == 0 }

// do does a step.
func (c *cluster) do(m *member, name string) {
	op := m.instance.Status.Operation
	repaired := op.Cause == v1alpha1.CauseNodeNotReady && m.ready()
	switch name {
	case v1alpha1.StepConnect, v1alpha1.StepDownloadUpdates, v1alpha1.StepPlan:
		switch {
		case c.fails(20):
			c.conclude(m, v1alpha1.OperationFailed)
			return
		case repaired, op.Cause == v1alpha1.CauseRestartPending && m.pendingSince == "", op.Cause == v1alpha1.CauseRestartAnnotated && c.fulfillLate(m):
			c.conclude(m, v1alpha1.OperationSucceeded)
			return
		case name == v1alpha1.StepPlan:
			desired, costs := m.instance.Status.DesiredRevision, m.costs
			if m.has == desired && op.ByController() && op.Cause == "" { // it was to get something else a moment ago
				costs = v1alpha1.ImpactNone
			}
			c.editOperation(m, func(op *v1alpha1.Operation) {
				op.Revision, op.Impact = desired, costs
				for i := range op.Steps {
					if step := &op.Steps[i]; slotOf(costs) != slotDisruption && (step.Name == v1alpha1.StepCordon || step.Name == v1alpha1.StepDrain) {
						step.State = v1alpha1.StepSkipped
					}
				}
			})
		}
	case v1alpha1.StepCordon:
		c.judgeCordon(m)
		c.cordon(m)
	case v1alpha1.StepDrain:
		if c.fails(20) { // pods do not leave
			if op.Type != v1alpha1.OperationRemove {
				c.uncordon(m)
			}
			c.conclude(m, v1alpha1.OperationFailed)
			return
		}
	case v1alpha1.StepApply:
		c.apply(m)
		return
	case v1alpha1.StepInstallUpdates:
		if c.fails(8) {
			c.uncordon(m)
			c.edit(m, func(i *v1alpha1.WindowsInstance) {
				i.Status.WindowsUpdates.Failed = []v1alpha1.FailedUpdate{{Security: true, RetryAt: metav1.NewTime(time.Now().Add(24 * time.Hour))}}
			})
			c.conclude(m, v1alpha1.OperationFailed)
			return
		}
		if m.updatesSince == "" {
			c.t.Fatalf("%s installs updates, and there are none: %+v", m.key, op)
		}
		m.updatesSince, m.installs = "", m.updatesSince
		c.edit(m, func(i *v1alpha1.WindowsInstance) {
			i.Status.WindowsUpdates = &v1alpha1.WindowsUpdatesStatus{SearchedAt: new(metav1.Now())}
		})
	case v1alpha1.StepRestart:
		if !c.restart(m, repaired) {
			return
		}
	case v1alpha1.StepRestartServices:
		c.repaired(m, op)
		if m.down = m.down && !c.well && c.draw("repaired", 2) == 0; m.down {
			c.conclude(m, v1alpha1.OperationFailed)
			return
		}
		c.setReady(m, true)
	case v1alpha1.StepDeleteNode:
		c.leave(m)
		return
	case v1alpha1.StepUncordon:
		c.uncordon(m)
	}
	c.end(m, name)
}

// apply configures the host with what is desired of it now. If that costs more than was planned, there is another plan.
func (c *cluster) apply(m *member) {
	op, desired := m.instance.Status.Operation, m.instance.Status.DesiredRevision
	if op.Revision != desired && slotOf(m.costs) > slotOf(op.Impact) {
		c.editOperation(m, func(op *v1alpha1.Operation) {
			for i := range op.Steps {
				op.Steps[i].State = v1alpha1.StepPending
			}
		})
		return
	}
	c.editOperation(m, func(op *v1alpha1.Operation) {
		op.Revision, op.PoolRevision, op.HostChanged = desired, c.nameOf[template(desired)], true
	})
	op = m.instance.Status.Operation
	why := m.configuredFor(op)
	if op.Impact == v1alpha1.ImpactReboot && (m.has != op.Revision || why != updateTo(op.Revision)) {
		c.boots(m, why)
		c.fulfillRestart(m)
	}
	switch {
	case c.fails(10), m.down && op.Impact != v1alpha1.ImpactNone:
		if op.Impact != v1alpha1.ImpactNone {
			c.cordon(m)
		}
		m.has, m.failed, m.broke = "", true, m.broke || op.Impact != v1alpha1.ImpactNone && op.Node != nil
		m.attempted = op.RequestedAt.Time
		m.forgetUpdates("")
		c.edit(m, func(i *v1alpha1.WindowsInstance) { i.Status.CurrentRevision = "half of " + op.Revision })
		c.conclude(m, v1alpha1.OperationFailed)
		return
	}
	m.has, m.worked, m.got = op.Revision, template(op.Revision), time.Now()
	m.forgetUpdates(why)
	c.fulfillConfiguration(m)
	c.edit(m, func(i *v1alpha1.WindowsInstance) {
		if name := c.nameOf[m.worked]; name != i.Status.PoolRevision {
			i.Status.PoolRevision, i.Status.PreviousPoolRevision = name, i.Status.PoolRevision
		}
		i.Status.CurrentRevision = op.Revision
	})
	c.desire(m)
	c.setReady(m, !m.down)
	c.end(m, v1alpha1.StepApply)
}

// restart restarts Windows, and says whether the operation goes on.
func (c *cluster) restart(m *member, needless bool) bool {
	op, pool := m.instance.Status.Operation, c.poolOf(m)
	if needless {
		return true
	}
	why := ""
	switch op.Cause {
	case v1alpha1.CauseRestartRequested:
		if why = op.ID; pool.Spec.Restarts.After != nil { // else the host has gone over to a pool that asks for none
			why = pool.Spec.Restarts.After.String()
		}
	case v1alpha1.CauseRestartPending:
		why = m.pendingSince
	case v1alpha1.CauseWindowsUpdates:
		why = m.installs
	case v1alpha1.CauseRestartAnnotated:
		why = m.restartAsked
	case v1alpha1.CauseNodeNotReady:
		c.repaired(m, op)
	}
	c.editOperation(m, func(op *v1alpha1.Operation) { op.BootID = "b" })
	c.boots(m, string(op.Cause)+why)
	if op.Cause == v1alpha1.CauseNodeNotReady && m.down {
		m.down = !c.well && c.draw("repaired", 2) == 0
	}
	if c.fails(8) {
		m.down = true
	}
	if late := m.down && c.draw("late", 2) == 1; late {
		m.late = m.restartAsked
	} else {
		c.fulfillRestart(m)
	}
	if m.down {
		c.setReady(m, false)
		c.conclude(m, v1alpha1.OperationFailed)
		return false
	}
	c.setReady(m, true)
	return true
}

// boots starts Windows again. Nothing that asks for that once gets it twice.
func (c *cluster) boots(m *member, why string) {
	m.boots[why]++
	if n := m.boots[why]; n > 1 && why != string(v1alpha1.CauseNodeNotReady) { // see what is repaired
		c.t.Fatalf("%s is restarted %d times: %s", m.key, n, why)
	}
	m.pendingSince, m.booted, m.changed = "", time.Now(), time.Now()
	c.edit(m, func(i *v1alpha1.WindowsInstance) {
		i.Status.RestartedAt = new(metav1.Now())
		meta.RemoveStatusCondition(&i.Status.Conditions, v1alpha1.ConditionRebootRequired)
	})
}

// repaired counts what is done about a Node that is not ready: each thing once.
func (c *cluster) repaired(m *member, op *v1alpha1.Operation) {
	why := string(op.Type) + m.downSince
	if m.repairs[why]++; m.repairs[why] > 1 {
		c.t.Fatalf("%s is repaired the same way %d times: %s", m.key, m.repairs[why], op.Type)
	}
}

// cordon cordons a Node that nobody else has cordoned, and takes over the cordon of an operation of its kind.
func (c *cluster) cordon(m *member) {
	if m.node == nil || m.node.Spec.Unschedulable {
		return
	}
	op := m.instance.Status.Operation
	c.setCordon(m, true, op.ID+" "+string(op.Type)+" "+drain.AskedForBy(op.RequestedBy))
}

// uncordon gives a Node back that an operation of this kind has cordoned.
func (c *cluster) uncordon(m *member) {
	purpose := m.instance.Status.Operation.Type
	if purpose == v1alpha1.OperationUncordon { // it lifts the cordon of a restart
		purpose = v1alpha1.OperationReboot
	}
	if m.node != nil && drain.MarkedFor(m.node, string(purpose)) != "" {
		c.setCordon(m, false, "")
	}
	if m.instance.Status.Operation.Cause == v1alpha1.CauseCameBack {
		c.fulfillLate(m)
	}
}
