// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package operation

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/controller/internal/object"
	"github.com/openshift/windows-instance-api/pkg/drain"
	"github.com/openshift/windows-instance-api/pkg/forbidden"
)

// maxBlockedBy is the limit of status.operation.blockedBy.
const maxBlockedBy = 16

// noNode is how the steps for Nodes end for a host without one.
var noNode = result{skipped: true, message: "The host has no Node."}

// markOf is the trace that the operation leaves on its Node. A configuration, or a reboot, that
// failed leaves the Node cordoned until one of its kind succeeds: theirs is a purpose of its
// own. A drain is asked for because the Node is to stay cordoned, whatever comes after, also if one of them had
// cordoned it before.
func markOf(op *v1alpha1.Operation) drain.Mark {
	mark := drain.Mark{ID: op.ID, Who: drain.AskedForBy(op.RequestedBy), Keeps: op.Type == v1alpha1.OperationDrain}
	if op.Cause == v1alpha1.CauseCameBack { // it lifts the cordon of a restart
		mark.Purpose = string(v1alpha1.OperationReboot)
	}
	if op.Type == v1alpha1.OperationReconfigure || op.Type == v1alpha1.OperationReboot {
		mark.Purpose = string(op.Type)
	}
	return mark
}

// cordon cordons the Node, unless it is already.
func (e *execution) cordon(ctx context.Context) (result, error) {
	node := e.operation().Node
	if node == nil {
		return noNode, nil
	}
	if op := e.operation(); op.Type == v1alpha1.OperationReconfigure && op.FindStep(v1alpha1.StepWaitForSlot) == nil {
		if lost, err := e.awaitAdmission(ctx); err != nil || lost != "" { // releases before that step have waited here
			return planAgain(lost), err
		}
	}
	if err := e.ensureRestartable(ctx); err != nil {
		return result{}, err
	}
	if err := e.ensureWanted(ctx); err != nil {
		return result{}, err
	}
	if err := e.ensureRepresents(ctx); err != nil {
		return result{}, err
	}
	found, err := e.cordonNode(ctx, node.Name, node.UID)
	if apierrors.IsNotFound(err) && e.operation().Type == v1alpha1.OperationRemove { // as the Machine API does with that of a Machine
		is, readErr := e.readNode(ctx, node.Name)
		if readErr != nil {
			return result{}, readErr
		}
		if is == nil {
			return result{skipped: true, message: fmt.Sprintf("Node %s was deleted meanwhile.", node.Name)}, nil
		}
	}
	if err != nil {
		return result{}, err
	}
	if found.TakenOver && e.operation().Type == v1alpha1.OperationDrain {
		return result{message: fmt.Sprintf("Node %s was already cordoned by operation %s, and stays so until somebody uncordons it.", node.Name, found.Owner)}, nil
	}
	if found.TakenOver {
		return result{message: fmt.Sprintf("Node %s has been cordoned since an earlier %s that failed.", node.Name, e.operation().Type)}, nil
	}
	if !found.ByOther {
		return result{message: fmt.Sprintf("Node %s is cordoned.", node.Name)}, nil
	}
	if !node.WasUnschedulable { // it was cordoned after the operation had begun
		if err := e.update(ctx, func(op *v1alpha1.Operation) { op.Node.WasUnschedulable = true }); err != nil {
			return result{}, err
		}
	}
	message := fmt.Sprintf("Node %s was already cordoned", node.Name)
	if found.Owner != "" {
		message += " by operation " + found.Owner
	}
	return result{skipped: true, message: message + " and stays cordoned."}, nil
}

// cordonNode cordons a Node with the mark of the operation.
func (e *execution) cordonNode(ctx context.Context, name string, uid types.UID) (found drain.Cordoned, err error) {
	err = e.onNode(ctx, name, func() (err error) {
		found, err = drain.Cordon(ctx, e.Kube, name, uid, markOf(e.operation()))
		return err
	})
	return found, err
}

// onNode changes a Node until the API server takes it.
func (e *execution) onNode(ctx context.Context, name string, f func() error) error {
	return retryAPI(ctx, e.clock, "Changing the Node", isFinal, func() error {
		err := f()
		switch {
		case errors.Is(err, drain.ErrNodeReplaced):
			// As if the Node were gone, which it is.
			return apierrors.NewNotFound(corev1.Resource("nodes"), name)
		case e.refused && forbidden.MayPass(err): // people need not wait for as long once more to learn of it
			return finalError{err}
		}
		return err
	})
}

// progress records how far a drain is, and tells of what is in its way.
func (e *execution) progress(ctx context.Context, node string, counted v1alpha1.OperationProgress, p drain.Progress) error {
	blocked := p.Blocked[:min(len(p.Blocked), maxBlockedBy)]
	message := fmt.Sprintf("Evicting the pods of Node %s: %d of %d have left.", node, counted.Done, counted.Total)
	if p.Terminating > 0 {
		message += fmt.Sprintf(" Being deleted: %d.", p.Terminating)
	}
	if n := len(p.Blocked); n > 0 {
		message += fmt.Sprintf(" Blocked: %d, the first is pod %s.", n, p.Blocked[0])
	}
	if err := e.update(ctx, func(op *v1alpha1.Operation) {
		op.Progress, op.BlockedBy, op.Message = &counted, blocked, message
	}); err != nil {
		return err
	}
	for _, b := range p.Blocked {
		if key := b.Budget + " " + b.Namespace + "/" + b.Name; !e.reported.Has(key) {
			e.reported.Insert(key)
			e.event(corev1.EventTypeWarning, eventEvictionBlocked, "The drain is blocked by pod "+b.String()+". It is tried again every few seconds.")
		}
	}
	return nil
}

// uncordon makes the Node schedulable: by whomever it was cordoned if that is what was
// asked for, and otherwise only if it was by this operation, or by one of its kind that
// failed before this one, which succeeds.
func (e *execution) uncordon(ctx context.Context) (result, error) {
	op := e.operation()
	if op.Node == nil {
		return noNode, nil
	}
	if untouched, err := e.neverCordoned(ctx); err != nil || untouched {
		return result{message: describeSchedulable(op), untold: true}, err
	}
	if err := e.ensureWanted(ctx); err != nil {
		return result{}, err
	}
	if op.Type != v1alpha1.OperationUncordon || op.Cause != "" {
		message, lifted, err := e.restoreNode(ctx)
		if err == nil && op.Cause == v1alpha1.CauseCameBack && e.cameBackRestarted() {
			var asked string
			asked, err = e.fulfillRestart(ctx)
			message += asked
		}
		return result{message: message, skipped: op.Type != v1alpha1.OperationReconfigure && message == asBefore(op), untold: !lifted}, err
	}
	var changed bool
	if err := e.onNode(ctx, op.Node.Name, func() (err error) {
		changed, err = drain.Uncordon(ctx, e.Kube, op.Node.Name, op.Node.UID)
		return err
	}); err != nil {
		return result{}, err
	}
	if !changed {
		return result{message: fmt.Sprintf("Node %s was schedulable already.", op.Node.Name), untold: true}, nil
	}
	return result{message: describeSchedulable(op)}, nil
}

// restore removes the cordon of the operation and says what became of it.
func (e *execution) restore(ctx context.Context) (message string, err error) {
	message, _, err = e.restoreNode(ctx)
	return message, err
}

// restoreNode removes the cordon of the operation, if it has one, and says what became of the Node.
func (e *execution) restoreNode(ctx context.Context) (message string, lifted bool, err error) {
	op := e.operation()
	var schedulable bool
	err = e.onNode(ctx, op.Node.Name, func() (err error) {
		schedulable, lifted, err = drain.Restore(ctx, e.Kube, op.Node.Name, op.Node.UID, markOf(op))
		return err
	})
	switch {
	case apierrors.IsNotFound(err):
		return fmt.Sprintf("Node %s was deleted meanwhile.", op.Node.Name), false, nil
	case err != nil:
		return "", false, err
	case !schedulable && op.Node.WasUnschedulable:
		return asBefore(op), false, nil
	case !schedulable:
		return fmt.Sprintf("Node %s stays cordoned because somebody else has cordoned it meanwhile.", op.Node.Name), false, nil
	}
	return describeSchedulable(op), lifted, nil
}

// neverCordoned says whether there is nothing to take back from the Node of a configuration, because it took pods when that began, needed no
// cordon, and takes pods now. Most updates of a fleet are such: then nobody has to be asked.
func (e *execution) neverCordoned(ctx context.Context) (bool, error) {
	op := e.operation()
	if step := op.FindStep(v1alpha1.StepCordon); op.Type != v1alpha1.OperationReconfigure || op.Node.WasUnschedulable || step == nil || step.State != v1alpha1.StepSkipped {
		return false, nil
	}
	node, err := e.cachedNode(ctx)
	return err == nil && node != nil && node.UID == op.Node.UID && !node.Spec.Unschedulable && node.Annotations[v1alpha1.CordonedByAnnotation] == "", err
}

func describeSchedulable(op *v1alpha1.Operation) string {
	return fmt.Sprintf("Node %s is schedulable.", op.Node.Name)
}

// asBefore says that the Node was cordoned by others before the operation.
func asBefore(op *v1alpha1.Operation) string {
	return fmt.Sprintf("Node %s stays cordoned, as it was before.", op.Node.Name)
}

// cachedNode reads the Node of the operation from the cache. Nil: it is gone. Another one
// of its name is taken for it: a host that comes back may have registered again.
func (e *execution) cachedNode(ctx context.Context) (*corev1.Node, error) {
	return object.Get(ctx, e.client, client.ObjectKey{Name: e.operation().Node.Name}, &corev1.Node{})
}

// ownNode reads the Node of the operation from the API server. Nil: it has none, or it is gone.
func (e *execution) ownNode(ctx context.Context) (*corev1.Node, error) {
	known := e.operation().Node
	if known == nil {
		return nil, nil //nolint:nilnil // no Node is an ordinary answer
	}
	return e.readNode(ctx, known.Name)
}

// readNode reads a Node from the API server. Nil: it does not exist.
func (e *execution) readNode(ctx context.Context, name string) (node *corev1.Node, err error) {
	err = retryAPI(ctx, e.clock, "Reading the Node", isFinal, func() (err error) {
		node, err = e.Kube.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		return err
	})
	if apierrors.IsNotFound(err) {
		return nil, nil //nolint:nilnil // no Node is an ordinary answer
	}
	return node, err
}
