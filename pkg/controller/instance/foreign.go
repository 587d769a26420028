// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package instance

import (
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/controller/internal/object"
	"github.com/openshift/windows-instance-api/pkg/controller/internal/origin"
	"github.com/openshift/windows-instance-api/pkg/desired/document"
	"github.com/openshift/windows-instance-api/pkg/wmco"
	"github.com/openshift/windows-instance-api/pkg/wmco/takeover"
)

// foreign says whether others made the host a node: there is a Node, and the host was never
// configured by us, nor is it about to be. It is not configured before somebody asks for
// that, as it has workload and whoever made it a node may keep it as it is. One that was released stays that of others, also while it
// has no Node.
func (e *evaluation) foreign() bool {
	last := e.status.NewestOperation(v1alpha1.OperationReconfigure)
	return e.managed && (e.node != nil || e.status.ReleasedBy() != nil) && e.status.CurrentRevision == "" && !e.instance.Status.MayHaveChangedHost() &&
		(last == nil || last.Revision == "" && !last.Active())
}

// ofWMCO says whether WMCO has made the host a node. Its Node says so, also of a host that cannot be reached at present: whose
// its certificate requests are does not depend on that.
func (e *evaluation) ofWMCO() bool {
	return e.foreign() && object.MadeByWMCO(e.node)
}

// leftToWMCO says whether WMCO runs, and has made the host a node or may be about to. WMCO marks a Node only when it has configured the host, and takes
// the mark away to configure the host again, so that a Node without one may be its own as well.
func (e *evaluation) leftToWMCO() bool {
	return e.foreign() && e.node != nil && !object.Ours(e.node) && errors.Is(e.inputs, document.ErrOtherOperator) &&
		(object.MarkedByWMCO(e.node) || e.hasWICD() || len(origin.Objects(e.instance)) > 0) // it takes on Machines and entries, and no others
}

// hasWICD says whether the daemon of WMCO was seen on the host.
func (e *evaluation) hasWICD() bool {
	return e.observation != nil && e.observation.report != nil && e.observation.report.wicd
}

// keysOfWMCO says whether it is left to WMCO which keys a host accepts: WMCO may run, and has the host, or may be configuring it,
// of which its Node says nothing before the end. A host that only accepts the key of its Secret would be lost to a WMCO that has
// another one. So it is with a host that was released, or may have been, whose Node says which key WMCO is to find.
func (e *evaluation) keysOfWMCO() bool {
	if e.status.ReleaseBegunBy() != nil {
		return true
	}
	if !e.managed { // nobody has found out whether WMCO runs
		return object.MarkedByWMCO(e.node)
	}
	mayRun := errors.Is(e.inputs, document.ErrOtherOperator) || !e.clusterRead() || e.status.ReleasedBy() != nil
	return mayRun && e.status.CurrentRevision == "" && !e.status.MayHaveChangedHost()
}

// clusterRead says whether the inputs of the cluster could be read, whatever is wrong with them: else a WMCO may run of which nobody
// knows.
func (e *evaluation) clusterRead() bool {
	return e.inputs == nil || errors.Is(e.inputs, document.ErrInputs)
}

// left says for the conditions to whom a host is left that others made a node, and how it is taken over.
func (e *evaluation) left() (reason, text string) {
	name, namespace := e.instance.Name, e.instance.Namespace
	wicd := e.hasWICD()
	released := e.status.ReleasedBy()
	switch {
	case e.leftToWMCO():
		if !object.MarkedByWMCO(e.node) {
			return v1alpha1.ReasonManagedByWMCO, fmt.Sprintf("The host is Node %s, which the Windows Machine Config Operator (WMCO) may be making: it is only watched, and its certificate requests are left to WMCO. %s", e.node.Name, e.inputsMessage())
		}
		return v1alpha1.ReasonManagedByWMCO, fmt.Sprintf("The host is Node %s, which the Windows Machine Config Operator (WMCO) manages: it is only watched, and its certificate requests are left to WMCO. "+
			"To have it managed here, first end WMCO, which leaves its nodes as they are: oc scale deployment %s -n %s --replicas=0", e.node.Name, wmco.Deployment, wmco.Namespace)
	case e.node == nil: // only one that was released is left to others then
		return v1alpha1.ReasonForeignNode, fmt.Sprintf("The host was released to the Windows Machine Config Operator (WMCO) by operation %s, and has no Node: it is only watched. To have it configured here: kubectl windows reconfigure %s -n %s", released.ID, name, namespace)
	case released != nil && !released.Active() && object.Ours(e.node):
		return v1alpha1.ReasonForeignNode, fmt.Sprintf("The host was released by operation %s, which did not complete: Node %s still has what says that it is ours. The host is only watched. "+
			"To complete it: kubectl windows release %s -n %s", released.ID, e.node.Name, name, namespace)
	case released != nil && !wicd:
		return v1alpha1.ReasonForeignNode, fmt.Sprintf("The host, Node %s, was released to the Windows Machine Config Operator (WMCO) by operation %s, and is only watched. To take it back before WMCO has it: kubectl windows adopt %s -n %s. "+
			"When all hosts are released, start WMCO, which takes it on. %s", e.node.Name, released.ID, name, namespace, takeover.StartWMCO)
	case object.MadeByWMCO(e.node), !object.Ours(e.node) && (wicd || e.status.AdoptionBrokeOff(e.node.UID)):
		return v1alpha1.ReasonForeignNode, fmt.Sprintf("The host is Node %s, which the Windows Machine Config Operator (WMCO) has configured: it is only watched. "+
			"To take it over as it is, without a restart of anything: kubectl windows adopt %s -n %s", e.node.Name, name, namespace)
	}
	return v1alpha1.ReasonForeignNode, fmt.Sprintf("The host is already Node %s, which was not made by this controller: it is only watched. To take it over: kubectl windows reconfigure %s -n %s", e.node.Name, name, namespace)
}

// keepLeft is keep for the conditions that say to whom a host is left. That is no finding on the host: WMCO may end while it is paused, and
// then nobody but us approves the certificate requests of its kubelet. It may also have been made a Node since. As long as it is not known whether WMCO runs, they stay as they are.
func (e *evaluation) keepLeft(condition string) {
	c := e.get(condition)
	switch {
	case !e.clusterRead() || !e.foreign() || c == nil || c.Reason != v1alpha1.ReasonManagedByWMCO && c.Reason != v1alpha1.ReasonForeignNode && c.Reason != v1alpha1.ReasonInputsMissing:
		e.keep(condition)
	case condition == v1alpha1.ConditionUpToDate:
		e.revisionUnknown()
	default:
		reason, text := e.left()
		e.set(condition, metav1.ConditionUnknown, reason, text)
	}
}

// beforeRelease says whether an observation is older than the release of the host, so that what it says of its configuration is of
// before that.
func (e *evaluation) beforeRelease(o *observation) bool {
	released := e.status.ReleasedBy()
	return released != nil && (released.Active() || outdated(o, released, e.now))
}

// revisionUnknown records that nobody knows with which revision others have configured the host.
func (e *evaluation) revisionUnknown() {
	reason, _ := e.left()
	e.set(v1alpha1.ConditionUpToDate, metav1.ConditionUnknown, reason, "The host was not configured by this controller, so its revision is unknown.")
}

// halfReleased says whether nobody knows if the host was released, or a release is under way.
func (e *evaluation) halfReleased() bool {
	return e.managed && e.status.ReleaseBegunBy() != nil && !e.status.NewestOperation(v1alpha1.OperationReconfigure).Active()
}

// releaseBegun says for the conditions that nobody knows whose the host is, and how somebody decides that.
func (e *evaluation) releaseBegun(condition string) {
	op := e.status.ReleaseBegunBy()
	if op.Active() {
		e.keep(condition)
		return
	}
	name, namespace := e.instance.Name, e.instance.Namespace
	e.set(condition, metav1.ConditionUnknown, v1alpha1.ReasonForeignNode, fmt.Sprintf("Operation %s began to release the host and did not complete, so that nobody knows whether our agent is still in charge of it. "+
		"Nothing is configured on it by itself. To complete the release: kubectl windows release %s -n %s. To keep the host: kubectl windows reconfigure %[2]s -n %[3]s", op.ID, name, namespace))
}

// adoptedSince says whether the host was taken over after an operation on it, which says nothing of how it is since.
func (e *evaluation) adoptedSince(o *v1alpha1.Operation) bool {
	adopted := e.status.NewestOperation(v1alpha1.OperationAdopt)
	return adopted != nil && adopted.Phase == v1alpha1.OperationSucceeded && !adopted.RequestedAt.Before(&o.RequestedAt)
}
