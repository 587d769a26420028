// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package rollout

import (
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
)

const (
	// joinPatience is for how long a new host may take until it can be logged in to: its Machine may be booting.
	joinPatience = 15 * time.Minute
	// awayPatience is for how long one that could be logged in to may be away, and a Node not ready, until it is said: whoever follows the
	// pool should not stop for the network, nor for a restart that somebody made on the host.
	awayPatience = 2 * time.Minute
	// personPatience is for how long pods may leave a host, because a person has asked for a drain or a reboot, until it is said that the pool
	// waits for that: without a time-out it may wait for a budget for days.
	personPatience = 15 * time.Minute
)

// unfit says what keeps the host of an instance from something that its pool wants of it and for which no operation can be recorded, and
// from when on that is said. Empty: nothing does. Of what goes on by itself, as long as it does, nothing is said: an operation of the
// controller runs, or the host joins the cluster. A drain that a person has asked for may wait for long.
func unfit(i *v1alpha1.WindowsInstance, pool *v1alpha1.WindowsNodePool, now time.Time) (kind waitKind, from time.Time) {
	status := &i.Status
	drains, since := drainedByPerson(status.Operation)
	if !i.DeletionTimestamp.IsZero() || status.Operation.Active() && !drains || status.ObservedGeneration != i.Generation ||
		pool != nil && pool.Spec.Paused { // which says so itself
		return "", time.Time{}
	}
	restart := pool != nil && status.AwaitsRestart(pool) && !pool.Spec.Restarts.After.After(now)
	outstanding := restart || status.CurrentRevision == "" || status.CurrentRevision != status.DesiredRevision
	configured := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionConfigured)
	switch {
	case outstanding && status.KeptOff() != nil:
		return waitsForDuplicate, time.Time{}
	case outstanding && (status.ReleaseBegunBy() != nil || leftToOthers(configured)):
		return waitsForTakeover, time.Time{}
	case status.KeptOff() != nil, status.ReleaseBegunBy() != nil, configured == nil,
		i.LeftAsItIs(pool) && !i.Spec.Paused: // it waits for a confirmation
		return "", time.Time{}
	case inputsMissing(status) != "":
		return waitsForInputs, meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionUpToDate).LastTransitionTime.Add(awayPatience)
	case !outstanding:
		return "", time.Time{}
	case i.Spec.Paused:
		return waitsForUnpause, time.Time{}
	case restart && configured.Reason == v1alpha1.ReasonNotManaged:
		return waitsForPayload, time.Time{}
	case drains:
		return waitsForOperation, since.Add(personPatience)
	}
	if c := noLogin(status); c != nil {
		patience := awayPatience
		if status.CurrentRevision == "" {
			patience = joinPatience
		}
		return waitsForLogin, c.LastTransitionTime.Add(patience)
	}
	if configured.Reason == v1alpha1.ReasonNotManaged || status.CurrentRevision == "" && status.Phase != v1alpha1.InstanceFailed { // it is about to get the agent, or to be configured
		return "", time.Time{}
	}
	if c := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionPreflightPassed); c != nil && c.Status == metav1.ConditionUnknown { // it could not be looked at once
		from = c.LastTransitionTime.Add(awayPatience)
	}
	return waitsForFitness, from
}

// drainedByPerson says whether pods leave a host because a person has asked for that, and since when.
func drainedByPerson(op *v1alpha1.Operation) (drains bool, since time.Time) {
	if !op.Active() || op.Cause != "" || op.ByController() || op.Type != v1alpha1.OperationDrain && op.Type != v1alpha1.OperationReboot {
		return false, time.Time{}
	}
	step, _ := op.Runs()
	if step == nil || step.StartedAt == nil || step.Name != v1alpha1.StepDrain && step.Name != v1alpha1.StepEvict {
		return false, time.Time{}
	}
	return true, step.StartedAt.Time
}

// leftToOthers says whether the host is only watched, as its condition Configured says, because others made it a node, or it was released to them.
func leftToOthers(configured *metav1.Condition) bool {
	return configured != nil && (configured.Reason == v1alpha1.ReasonForeignNode || configured.Reason == v1alpha1.ReasonManagedByWMCO)
}

// inputsMissing is what the condition of a host that is configured says if it cannot be worked out what it is to have: what was desired before
// stays desired, so that it may look up to date. Empty: it can be.
func inputsMissing(status *v1alpha1.WindowsInstanceStatus) string {
	if c := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionUpToDate); c != nil && c.Reason == v1alpha1.ReasonInputsMissing {
		return c.Message
	}
	return ""
}

// settle notes of hosts whose Nodes went down a moment ago that they may be back soon, and has it decided again when they should be.
func (p *pass) settle() {
	for i := range p.hosts {
		h := &p.hosts[i]
		if until := h.downSince.Add(awayPatience); !h.downSince.IsZero() && until.After(p.now) {
			h.justWentDown = true
			p.decideAgainAt(until)
		}
	}
}

// noLogin is the condition that says why the host cannot be logged in to. Nil: none does.
func noLogin(status *v1alpha1.WindowsInstanceStatus) *metav1.Condition {
	for _, kind := range []string{v1alpha1.ConditionResolved, v1alpha1.ConditionReachable, v1alpha1.ConditionHostKeyTrusted, v1alpha1.ConditionAuthenticated} {
		if c := meta.FindStatusCondition(status.Conditions, kind); c != nil && c.Status == metav1.ConditionFalse {
			return c
		}
	}
	return nil
}

// inHand says whether something is done to a host, or is about to be, after which it may be in service again. One that went down a moment ago
// may be back by itself.
func (h *host) inHand() bool {
	return h.justWentDown || h.retried || h.active || h.busy || h.holds != slotNone || h.prepares || h.uncordon || h.remedy.action != "" && !h.unremedied
}

// idle notes what hosts wait for that nothing was decided about: they are broken, or what is wanted of them cannot be begun.
func (p *pass) idle() {
	for i := range p.hosts {
		h := &p.hosts[i]
		if _, waits := p.waits[h.key]; waits || h.leaving || h.inHand() && h.unfit != waitsForOperation || p.granted.Has(h.key) {
			continue
		}
		switch {
		case h.broken != nil && h.unfit != waitsForOperation:
			p.wait(h, reason{kind: waitsForRepair})
		case h.unfit == "" || h.update: // which goes on by itself
		case h.unfitFrom.After(p.now):
			p.decideAgainAt(h.unfitFrom)
		default:
			p.wait(h, reason{kind: h.unfit, text: h.lacksInputs})
		}
	}
}
