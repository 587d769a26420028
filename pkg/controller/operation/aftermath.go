// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package operation

import (
	"context"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/controller/internal/message"
	"github.com/openshift/windows-instance-api/pkg/drain"
	"github.com/openshift/windows-instance-api/pkg/forbidden"
)

// conclude records the end of the operation, and sends the event about it.
func (e *execution) conclude(ctx context.Context, phase v1alpha1.OperationPhase, message string) error {
	now := e.clock.Now()
	// Of a host that a release may have given up it is known again whose it is, also where there was nothing to change.
	keeps := phase == v1alpha1.OperationSucceeded && e.operation().Type == v1alpha1.OperationReconfigure && e.instance.Status.ReleaseBegunBy() != nil
	if err := e.update(ctx, func(op *v1alpha1.Operation) {
		if op.Active() {
			conclude(op, phase, message, now)
		}
		if keeps {
			op.HostChanged = true
		}
		if e.unsent {
			op.BootID = ""
		}
	}); err != nil {
		return err
	}
	op := e.operation()
	e.metrics.ended(op, now)
	eventType := corev1.EventTypeNormal
	if phase == v1alpha1.OperationFailed {
		eventType = corev1.EventTypeWarning
	}
	e.announce(eventType, string(op.Type)+string(phase), message)
	for _, t := range tell(e.instance, op) {
		e.tellOther(t, op.Message)
	}
	log.FromContext(ctx).Info("The operation has ended", "phase", phase, "message", message)
	return nil
}

// cancel ends the operation because somebody asked for it, and restores the Node.
func (e *execution) cancel(ctx context.Context) error {
	if err := e.load(ctx); err != nil {
		return err
	}
	op := e.operation()
	message := "Canceled by " + op.CancelRequestedBy + "."
	switch {
	case deleted(e.instance) && machineOf(e.instance) != "":
		message = fmt.Sprintf("Canceled because Machine %s is being deleted.", machineOf(e.instance))
	case deleted(e.instance):
		message = "Canceled because the WindowsInstance is being deleted."
	case e.restored():
		message = "Canceled because it was requested before the WindowsInstance was created: it comes from a backup."
	}
	note, err := e.undo(ctx)
	if err != nil {
		return err
	}
	return e.conclude(ctx, v1alpha1.OperationCanceled, message+note)
}

// undo undoes what an operation that ends early has done, as far as that can be
// undone, and says what is left of it.
func (e *execution) undo(ctx context.Context) (string, error) {
	op := e.operation()
	switch {
	case op.Type == v1alpha1.OperationAdopt:
		return describeAdoption(op), nil
	case op.Type == v1alpha1.OperationRelease:
		return e.describeRelease(), nil
	case op.Type == v1alpha1.OperationReconfigure && e.touched():
		return e.leaveChanged(ctx)
	case begun(op, v1alpha1.StepVerifyUpdates):
		return " Updates were installed, and the Node has been taken care of.", nil
	case begun(op, v1alpha1.StepCleanup):
		return " The removal is incomplete: some of our files or services may still be on the host. The removal will be retried.", nil
	case e.mayBeSent():
		message := " The restart of the host was already requested, which cannot be undone."
		switch {
		case cordonedByUs(op) && op.Cause != "":
			message += describeCordonLeft(op)
		case cordonedByUs(op):
			message += fmt.Sprintf(" Node %s stays cordoned: uncordon it when the host is back and well.", op.Node.Name)
		}
		return message, nil
	case cordonedByUs(op) && deleted(e.instance) && machineOf(e.instance) != "":
		// The Machine API drains it at this moment: no pod must come back to it.
		return describeEvicted(op) + fmt.Sprintf(" Node %s stays cordoned, because it goes with its Machine.", op.Node.Name), nil
	case cordonedByUs(op):
		restored, err := e.orWhyNot(ctx, "uncordoned", e.restore)
		return describeEvicted(op) + restored, err
	case op.Type == v1alpha1.OperationDrain && begun(op, v1alpha1.StepCordon) && op.Node != nil: // it may have taken a cordon over
		restored, err := e.orWhyNot(ctx, "given back to the operation that had cordoned it", e.restore)
		return describeEvicted(op) + restored, err
	case op.Node != nil && op.Node.WasUnschedulable:
		return describeEvicted(op) + fmt.Sprintf(" Node %s stays cordoned, as it was before.", op.Node.Name), nil
	}
	return " Nothing was changed.", nil
}

// machineOf names the Machine that an instance was made from. Empty: none.
func machineOf(instance *v1alpha1.WindowsInstance) string {
	if name, ok := strings.CutPrefix(instance.Annotations[v1alpha1.SourceAnnotation], "Machine "); ok {
		return name
	}
	return ""
}

// leaveChanged says how a host is left whose configuration ends without success after it was
// begun, and keeps new pods away from it until one succeeds.
func (e *execution) leaveChanged(ctx context.Context) (string, error) {
	op := e.operation()
	message := " The host is configured, but whether it works as a node is not known."
	if finish := op.FindStep(v1alpha1.StepFinish); !finish.Ended() {
		message = " The host is half way between two configurations: reconfigure it again, or remove it."
	}
	if e.mayBeSent() && !op.FindStep(v1alpha1.StepBoot).Ended() {
		message += " It was asked to restart."
	}
	note, err := e.isolateIfDisturbed(ctx)
	return message + note, err
}

// touched says whether the host may be other than it was before the operation.
func (e *execution) touched() bool {
	return e.changed || e.operation().MayHaveChangedHost() || e.mayBeSent()
}

// isolateIfDisturbed keeps new pods away from a host that was changed without success, and says
// so. A change that disturbs no pod leaves the host as fit for them as it was, unless the
// host was no Node before.
func (e *execution) isolateIfDisturbed(ctx context.Context) (string, error) {
	op := e.operation()
	if join := op.FindStep(v1alpha1.StepJoin); op.Impact == v1alpha1.ImpactNone && op.Node != nil && (join == nil || join.State != v1alpha1.StepSucceeded) {
		return " The change concerns no pod, so the Node stays as it is.", nil
	}
	return e.orWhyNot(ctx, "cordoned", e.isolate)
}

// isolate cordons the Node of the host, if there is one by now, and says so.
func (e *execution) isolate(ctx context.Context) (string, error) {
	if e.operation().Node == nil { // a probe may have found it meanwhile
		if err := e.load(ctx); err != nil {
			return "", err
		}
	}
	node := e.nodeReference()
	if node == nil {
		return "", nil
	}
	found, err := e.cordonNode(ctx, node.Name, node.UID)
	switch {
	case apierrors.IsNotFound(err):
		return "", nil
	case err != nil:
		return "", err
	case found.ByOther:
		return fmt.Sprintf("Node %s stays cordoned, as it was before.", node.Name), nil
	}
	return fmt.Sprintf("Node %s stays cordoned until the host is reconfigured with success.", node.Name), nil
}

// orWhyNot does something to the Node, and says why it cannot be done if that is so. Its
// error is that of the record.
func (e *execution) orWhyNot(ctx context.Context, done string, do func(context.Context) (string, error)) (string, error) {
	note, err := do(ctx)
	switch {
	case err == nil && note == "":
		return "", nil
	case err == nil:
		return " " + note, nil
	case ctx.Err() != nil || errors.Is(err, errOver):
		return "", err
	}
	return fmt.Sprintf(" The Node cannot be %s: %v.", done, err), nil
}

// fail ends the operation without success. It says why, in what state the host was left
// and what to do.
func (e *execution) fail(ctx context.Context, cause error) error {
	e.refused = forbidden.MayPass(cause)
	note, err := e.aftermath(ctx)
	if err != nil {
		return err
	}
	return e.conclude(ctx, v1alpha1.OperationFailed, withNote(message.Sentence(cause.Error()), note))
}

// aftermath says in what state an operation that failed leaves the host.
func (e *execution) aftermath(ctx context.Context) (string, error) {
	op := e.operation()
	if e.current == v1alpha1.StepVerifyUpdates { // the Node has been taken care of
		return "", nil
	}
	note := ""
	if op.Type == v1alpha1.OperationReboot && !e.mayBeSent() {
		note = " The host was not restarted."
	}
	switch {
	case op.Type == v1alpha1.OperationAdopt:
		return describeAdoption(op), nil
	case op.Type == v1alpha1.OperationRelease:
		return e.describeRelease(), nil
	case op.Type == v1alpha1.OperationReconfigure && e.touched():
		return e.isolateIfDisturbed(ctx)
	case op.Type == v1alpha1.OperationReconfigure && !cordonedByUs(op):
		return " The host was not changed.", nil
	case op.Type == v1alpha1.OperationReboot && !op.ByController() && v1alpha1.AwaitsReturn(e.current):
		left, err := e.orWhyNot(ctx, "marked as one that is uncordoned when the host is back", e.awaitReturn)
		return note + left, err
	case !cordonedByUs(op):
		return note, nil
	case op.Type == v1alpha1.OperationReconfigure:
		// Nothing was done to the host, so that its Node works as it did.
		restored, err := e.orWhyNot(ctx, "uncordoned", e.restore)
		return " The host was not changed." + restored, err
	case op.Type == v1alpha1.OperationRemove && e.current == v1alpha1.StepDrain:
		return fmt.Sprintf(" Node %[1]s stays cordoned because its host is being removed; the removal will be retried. Move the pods away in the meantime, for example: kubectl drain %[1]s", op.Node.Name), nil
	case op.Type == v1alpha1.OperationRemove:
		return fmt.Sprintf(" Node %s stays cordoned because its host is being removed.", op.Node.Name), nil
	case (op.Cause != "" || e.current == v1alpha1.StepInstallUpdates) && !e.mayBeSent():
		// Nobody asked for it, or updates were not installed: the host goes on as it did.
		restored, err := e.orWhyNot(ctx, "uncordoned", e.restore)
		return note + describeEvicted(op) + restored, err
	case op.Cause != "":
		return note + describeCordonLeft(op), nil
	case op.Type == v1alpha1.OperationDrain:
		return note + fmt.Sprintf(" Node %s stays cordoned: drain again, or uncordon it.", op.Node.Name), nil
	}
	return note + fmt.Sprintf(" Node %s stays cordoned: repair what is wrong, then reboot again or uncordon it.", op.Node.Name), nil
}

// describeCordonLeft says what becomes of the Node of a restart that the controller wanted, or that was only not over in time: package rollout has it
// uncordoned.
func describeCordonLeft(op *v1alpha1.Operation) string {
	return fmt.Sprintf(" Node %s stays cordoned until it is ready again, or somebody uncordons it.", op.Node.Name)
}

// awaitReturn has the Node of a host that was not back in time be uncordoned once it is ready again, if this operation has cordoned it: the
// mark says so, as the record of the operation leaves the history at some time.
func (e *execution) awaitReturn(ctx context.Context) (string, error) {
	op := e.operation()
	boot := op.FindStep(v1alpha1.StepBoot)
	if op.Node == nil || boot == nil || boot.StartedAt == nil {
		return "", nil
	}
	var noted bool
	err := e.onNode(ctx, op.Node.Name, func() (err error) {
		noted, err = drain.Await(ctx, e.Kube, op.Node.Name, op.Node.UID, markOf(op), boot.StartedAt.Time)
		return err
	})
	if apierrors.IsNotFound(err) {
		return "", nil
	}
	if err != nil || !noted {
		return "", err
	}
	return strings.TrimSpace(describeCordonLeft(op)), nil
}

// mayBeSent says whether the restart of the host was, or may have been, asked for.
func (e *execution) mayBeSent() bool { return e.operation().BootID != "" && !e.unsent }

// cordonedByUs says whether the Node is, or may be, cordoned because of the operation.
func cordonedByUs(op *v1alpha1.Operation) bool {
	step := op.FindStep(v1alpha1.StepCordon)
	return op.Node != nil && !op.Node.WasUnschedulable && step != nil && step.StartedAt != nil && step.State != v1alpha1.StepSkipped
}

// begun says whether a step was run, at least in part.
func begun(op *v1alpha1.Operation, name string) bool {
	step := op.FindStep(name)
	return step != nil && step.StartedAt != nil
}
