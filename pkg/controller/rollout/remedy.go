// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package rollout

import (
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
)

// sameTrouble is how long a Node must have been ready after it was repaired for what comes then to be another trouble.
const sameTrouble = time.Hour

// remedy is what is to be done about a host whose Node is not ready.
type remedy struct {
	// action is next. Empty: nothing.
	action v1alpha1.PoolRemediationAction
	// due is from when on.
	due time.Time
	// tried: everything was, and the Node is still not ready. forgotten: that may be so; what was done then has left the history.
	tried, forgotten bool
	// kept: something would be done from due on, but somebody has cordoned the Node and may be at work on the host.
	kept bool
	// neverBegan: it was tried before, and each time it failed before anything was done to the host, for example because pods did not leave.
	neverBegan bool
}

// remedyOf says what is to be done about the host of an instance, because its Node is not ready.
func remedyOf(i *v1alpha1.WindowsInstance, pool *v1alpha1.WindowsNodePool) remedy {
	if pool == nil || pool.Spec.Remediation == nil || !repairable(i, pool) {
		return remedy{}
	}
	c := meta.FindStatusCondition(i.Status.Conditions, v1alpha1.ConditionNodeReady)
	if c == nil || c.Status == metav1.ConditionTrue || c.Reason != v1alpha1.ReasonNodeNotReady {
		return remedy{}
	}
	policy := *pool.Spec.Remediation.DeepCopy()
	v1alpha1.SetDefaults_PoolRemediation(&policy)
	if scaled(policy.MaxUnhealthy, 100, false) == 0 {
		return remedy{} // nothing is ever repaired, as with a MachineHealthCheck
	}
	due, before := c.LastTransitionTime.Time, c.LastTransitionTime.Time
	tried := sets.New[v1alpha1.PoolRemediationAction]()
	kept, newest := map[v1alpha1.PoolRemediationAction]int{}, map[v1alpha1.PoolRemediationAction]*v1alpha1.Operation{}
	for _, op := range i.Status.Operations() {
		if op.Cause != v1alpha1.CauseNodeNotReady || op.FinishedAt == nil {
			continue
		}
		if op.FinishedAt.Time.Before(earlier(before.Add(-sameTrouble), c.LastTransitionTime.Time)) {
			break // as long as the Node has not been ready it is the same trouble, however long the next repair had to wait
		}
		if leftAlone(op) {
			continue
		}
		action := actionOf(op)
		if keptFromHost(op) {
			kept[action]++
			if newest[action] == nil || op.FinishedAt.After(newest[action].FinishedAt.Time) {
				newest[action] = op
			}
			continue
		}
		due, before = later(due, op.FinishedAt.Time), op.RequestedAt.Time
		tried.Insert(action)
	}
	// An update that fails is tried again and again, and may have pushed out of the history what was tried. A full one may have
	// gaps between those that it keeps for long.
	if history := i.Status.History; len(history) >= v1alpha1.MaxHistory && history[v1alpha1.GaplessHistory-1].RequestedAt.After(earlier(before, c.LastTransitionTime.Time)) {
		return remedy{forgotten: true}
	}
	for _, action := range policy.Actions {
		if tried.Has(action) {
			continue
		}
		due = due.Add(time.Duration(*policy.AfterSeconds) * time.Second)
		if n := kept[action]; n > 0 {
			due = later(due, newest[action].FinishedAt.Add(pauseAfter(newest[action], pool, restartBackoff, n)))
		}
		return remedy{action: action, due: due, neverBegan: kept[action] > 0}
	}
	return remedy{tried: true}
}

// unlessCordoned is what is to be done about a host whose Node somebody else than us has cordoned, or not.
func (r remedy) unlessCordoned(byOthers bool) remedy {
	if byOthers && r.action != "" {
		return remedy{kept: true, due: r.due}
	}
	return r
}

// leftAlone says whether a repair did nothing to its host, because the Node was ready again when it began, or because it
// was withdrawn.
func leftAlone(op *v1alpha1.Operation) bool {
	if op.Phase == v1alpha1.OperationFailed {
		return false
	}
	for _, name := range []string{v1alpha1.StepRestartServices, v1alpha1.StepRestart} {
		if step := op.FindStep(name); step != nil {
			return step.State == v1alpha1.StepPending || step.State == v1alpha1.StepSkipped
		}
	}
	return op.Withdrawn()
}

// keptFromHost says whether a repair failed before the host was asked for it, for example because it could not be reached, somebody is logged on
// to it, or pods do not leave. It may still help.
func keptFromHost(op *v1alpha1.Operation) bool {
	if op.Phase != v1alpha1.OperationFailed {
		return false
	}
	if op.Type == v1alpha1.OperationReboot {
		return op.BootID == ""
	}
	return op.Untouched()
}

func actionOf(op *v1alpha1.Operation) v1alpha1.PoolRemediationAction {
	if op.Type == v1alpha1.OperationRestartServices {
		return v1alpha1.RemediateRestartServices
	}
	return v1alpha1.RemediateRestart
}

// impact is what an action costs.
func (r remedy) impact() v1alpha1.ChangeImpact {
	if r.action == v1alpha1.RemediateRestartServices {
		return v1alpha1.ImpactRestart
	}
	return v1alpha1.ImpactReboot
}
