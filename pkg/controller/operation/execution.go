// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package operation

import (
	"context"
	"errors"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/record"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	windowsv1alpha1 "github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/drain"
)

// execution carries one operation out. It is used by one goroutine.
type execution struct {
	*stored

	hosts Hosts
	kube  kubernetes.Interface
	// cached reads Nodes and pools.
	cached   client.Reader
	drainer  drainer
	recorder record.EventRecorder
	metrics  *metrics

	// lifetime ends with the process or its leadership, and not when the operation is canceled.
	lifetime context.Context //nolint:containedctx // for the one call that a cancellation must not cut off
	// current is the name of the step that runs.
	current string
	// interrupted: the step that runs was begun before, and nobody knows how far it got.
	interrupted bool
	// unsent: the restart was recorded, and not asked for.
	unsent bool
	// told has the budgets and pods that there was an event about.
	told map[string]bool
}

// drainer has the pods of a Node leave; see [drain.Drainer.Run].
type drainer interface {
	Run(ctx context.Context, node string, o drain.Options, report func(drain.Progress)) error
}

// run carries the operation out. It returns early when ctx ends; another execution
// then goes on. canceled is closed when somebody asks for the end of the operation.
func (e *execution) run(ctx context.Context, canceled <-chan struct{}) {
	e.lifetime = ctx
	err := e.carryOut(ctx, canceled)
	if err != nil && !errors.Is(err, errOver) && ctx.Err() == nil {
		log.FromContext(ctx).Error(err, "The operation cannot be carried out, as its record cannot be written")
	}
}

func (e *execution) carryOut(ctx context.Context, canceled <-chan struct{}) error {
	if err := e.load(ctx); err != nil {
		return err
	}
	if e.operation().Phase == windowsv1alpha1.OperationPending {
		if err := e.start(ctx); err != nil {
			return err
		}
	}
	steps, cancel := context.WithCancelCause(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel(nil)
	wg.Go(func() {
		select {
		case <-canceled:
			cancel(errCanceled)
		case <-steps.Done():
		}
	})
	for first := true; e.operation().Active(); first = false {
		step := nextStep(e.operation())
		if step == nil {
			return e.conclude(ctx, windowsv1alpha1.OperationSucceeded, e.summary())
		}
		if e.operation().CancelRequestedAt != nil {
			cancel(errCanceled)
		}
		e.interrupted = first && step.State == windowsv1alpha1.StepRunning
		err := e.step(ctx, steps, step.Name)
		switch {
		case err == nil:
		case errors.Is(err, errOver) || ctx.Err() != nil:
			return err
		case errors.Is(err, errCanceled):
			return e.cancel(ctx)
		default:
			return e.conclude(ctx, windowsv1alpha1.OperationFailed, e.failure(err))
		}
	}
	return errOver
}

// start records how the operation will go, or why it cannot.
func (e *execution) start(ctx context.Context) error {
	refusal, err := e.refusal(ctx)
	if err != nil {
		return err
	}
	var node *windowsv1alpha1.OperationNode
	if refusal == "" {
		if node, err = e.findNode(ctx); err != nil {
			return err
		}
		if t := e.operation().Type; node == nil && (t == windowsv1alpha1.OperationDrain || t == windowsv1alpha1.OperationUncordon) {
			refusal = "The host has no Node: no Node has its address or its provider ID, so that there is nothing to drain or uncordon."
		}
	}
	names := plan(e.operation())
	if names == nil && refusal == "" {
		refusal = fmt.Sprintf("This version of the controller does not know operations of type %s.", e.operation().Type)
	}
	now := e.clock.Now()
	if err := e.update(ctx, func(op *windowsv1alpha1.Operation) {
		op.Phase, op.Steps, op.Node = windowsv1alpha1.OperationRunning, newSteps(names), node
		op.StartedAt = timestamp(now)
	}); err != nil {
		return err
	}
	if refusal != "" {
		return e.conclude(ctx, windowsv1alpha1.OperationFailed, refusal)
	}
	op := e.operation()
	e.event(corev1.EventTypeNormal, string(op.Type)+"Started", fmt.Sprintf("Operation %s, which %s asked for, has begun.", op.ID, op.RequestedBy))
	return nil
}

// refusal says why nothing may be done to the host, empty if it may.
func (e *execution) refusal(ctx context.Context) (string, error) {
	if c := meta.FindStatusCondition(e.instance.Status.Conditions, windowsv1alpha1.ConditionResolved); c != nil && c.Reason == windowsv1alpha1.ReasonDuplicateHost {
		return "This instance does not stand for the host: " + c.Message, nil
	}
	if e.instance.Spec.Paused {
		return "The host is left alone as spec.paused is true. Set it to false, and ask again.", nil
	}
	ref := e.instance.Spec.PoolRef
	if ref == nil {
		return "", nil
	}
	pool := &windowsv1alpha1.WindowsNodePool{}
	err := retryAPI(ctx, e.clock, "Reading the pool", func() error {
		return e.cached.Get(ctx, client.ObjectKey{Namespace: e.instance.Namespace, Name: ref.Name}, pool)
	})
	if err != nil {
		return "", client.IgnoreNotFound(err)
	}
	if pool.Spec.Paused {
		return fmt.Sprintf("The host is left alone as spec.paused of pool %s is true. Set it to false, and ask again.", pool.Name), nil
	}
	return "", nil
}

// findNode returns the Node of the host as it is now, nil if there is none.
func (e *execution) findNode(ctx context.Context) (*windowsv1alpha1.OperationNode, error) {
	ref := e.instance.Status.Node
	if ref == nil {
		return nil, nil //nolint:nilnil // no Node is an ordinary answer
	}
	var node *corev1.Node
	err := retryAPI(ctx, e.clock, "Reading the Node", func() (err error) {
		node, err = e.kube.CoreV1().Nodes().Get(ctx, ref.Name, metav1.GetOptions{})
		return err
	})
	if apierrors.IsNotFound(err) || err == nil && node.UID != ref.UID {
		return nil, nil //nolint:nilnil // likewise
	}
	if err != nil {
		return nil, err
	}
	return &windowsv1alpha1.OperationNode{Name: node.Name, UID: node.UID, WasUnschedulable: node.Spec.Unschedulable}, nil
}

// step carries one step out, from its begin to its end. ctx is that of the records,
// which go on when steps is canceled.
func (e *execution) step(ctx, steps context.Context, name string) error {
	run, ok := stepFuncs[name]
	if !ok {
		return fmt.Errorf("this version of the controller does not know the step %s", name)
	}
	if steps.Err() != nil {
		return context.Cause(steps)
	}
	e.current = name
	began := e.clock.Now()
	if err := e.update(ctx, func(op *windowsv1alpha1.Operation) {
		if step := findStep(op, name); step != nil {
			if step.StartedAt == nil {
				op.Progress = nil // that of the step before
			}
			begin(step, began)
		}
		op.Message = doing(name, op)
	}); err != nil {
		return err
	}
	done, err := run(e, steps)
	if err != nil {
		return err
	}
	state := windowsv1alpha1.StepSucceeded
	if done.skipped {
		state = windowsv1alpha1.StepSkipped
	}
	ended := e.clock.Now()
	if err := e.update(ctx, func(op *windowsv1alpha1.Operation) {
		if step := findStep(op, name); step != nil {
			end(step, state, done.message, ended)
		}
		// What the step waited for last is over.
		op.Message, op.BlockedBy = done.message, nil
	}); err != nil {
		return err
	}
	if done.enough {
		return e.conclude(ctx, windowsv1alpha1.OperationSucceeded, done.message)
	}
	return nil
}

// confirm makes sure, right before something that cannot be taken back, that it still
// is to be done.
func (e *execution) confirm(ctx context.Context) error {
	if err := e.load(ctx); err != nil {
		return err
	}
	if e.operation().CancelRequestedAt != nil {
		return errCanceled
	}
	return ctx.Err()
}

// say records what is going on, if that has changed.
func (e *execution) say(ctx context.Context, format string, args ...any) error {
	message := fmt.Sprintf(format, args...)
	return e.update(ctx, func(op *windowsv1alpha1.Operation) { op.Message = message })
}

// cancel ends the operation because somebody asked for it, and puts the Node back.
func (e *execution) cancel(ctx context.Context) error {
	if err := e.load(ctx); err != nil {
		return err
	}
	op := e.operation()
	message := "Canceled by " + op.CancelRequestedBy + "."
	switch {
	case e.mayBeSent():
		message += " The restart of the host was asked for before, which cannot be taken back."
		if cordonedByUs(op) {
			message += fmt.Sprintf(" Node %s stays cordoned: uncordon it when the host is back and well.", op.Node.Name)
		}
	case cordonedByUs(op):
		restored, err := e.restore(ctx)
		if err != nil {
			if ctx.Err() != nil || errors.Is(err, errOver) {
				return err
			}
			restored = fmt.Sprintf("Node %s stays cordoned, as it cannot be uncordoned: %v.", op.Node.Name, err)
		}
		message += evicted(op) + " " + restored
	case op.Node != nil && op.Node.WasUnschedulable:
		message += evicted(op) + fmt.Sprintf(" Node %s stays cordoned, as it was before.", op.Node.Name)
	default:
		message += " Nothing was changed."
	}
	return e.conclude(ctx, windowsv1alpha1.OperationCanceled, message)
}

// evicted says which pods are gone although the operation was broken off.
func evicted(op *windowsv1alpha1.Operation) string {
	if p := op.Progress; p != nil && p.Done > 0 {
		return fmt.Sprintf(" %d of %d pods had left and do not come back by themselves.", p.Done, p.Total)
	}
	if step := findStep(op, stepDrain); step != nil && step.State == windowsv1alpha1.StepSucceeded {
		return fmt.Sprintf(" The drain was over. %s They do not come back by themselves.", step.Message)
	}
	return ""
}

// conclude records the end, and says it to everybody else.
func (e *execution) conclude(ctx context.Context, phase windowsv1alpha1.OperationPhase, message string) error {
	now := e.clock.Now()
	if err := e.update(ctx, func(op *windowsv1alpha1.Operation) {
		if op.Active() {
			conclude(op, phase, message, now)
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
	if phase == windowsv1alpha1.OperationFailed {
		eventType = corev1.EventTypeWarning
	}
	e.event(eventType, string(op.Type)+string(phase), message)
	log.FromContext(ctx).Info("The operation has ended", "phase", phase, "message", message)
	return nil
}

// failure says why the operation failed, in what state the host was left and what to do.
func (e *execution) failure(err error) string {
	op := e.operation()
	message := sentence(err.Error())
	if op.Type == windowsv1alpha1.OperationReboot && !e.mayBeSent() {
		message += " The host was not restarted."
	}
	if !cordonedByUs(op) {
		return message
	}
	if op.Type == windowsv1alpha1.OperationDrain {
		return message + fmt.Sprintf(" Node %s stays cordoned: drain again, or uncordon it.", op.Node.Name)
	}
	return message + fmt.Sprintf(" Node %s stays cordoned: put right what is wrong, then reboot again or uncordon it.", op.Node.Name)
}

// mayBeSent says whether the restart of the host was, or may have been, asked for.
func (e *execution) mayBeSent() bool { return e.operation().BootID != "" && !e.unsent }

// cordonedByUs says whether the Node is, or may be, cordoned because of the operation.
func cordonedByUs(op *windowsv1alpha1.Operation) bool {
	step := findStep(op, stepCordon)
	return op.Node != nil && !op.Node.WasUnschedulable && step != nil && step.StartedAt != nil
}

// summary is how an operation that went well ended.
func (e *execution) summary() string {
	op := e.operation()
	switch op.Type {
	case windowsv1alpha1.OperationDrain:
		total := int32(0)
		if op.Progress != nil {
			total = op.Progress.Total
		}
		return fmt.Sprintf("Node %s is cordoned, and its pods have left: %d.", op.Node.Name, total)
	case windowsv1alpha1.OperationReboot:
		message := "The host was restarted."
		for _, name := range []string{stepNodeReady, stepUncordon} {
			if step := findStep(op, name); step != nil && step.State == windowsv1alpha1.StepSucceeded {
				message += " " + step.Message
			}
		}
		return message
	}
	return op.Steps[len(op.Steps)-1].Message
}

// doing says what a step does, for people.
func doing(name string, op *windowsv1alpha1.Operation) string {
	node := "the host"
	if op.Node != nil {
		node = "Node " + op.Node.Name
	}
	return map[string]string{
		stepConnect:       "Connecting to the host.",
		stepCheckPending:  "Looking whether Windows waits for a restart.",
		stepCordon:        "Cordoning " + node + ".",
		stepEvict:         "Evicting the pods of " + node + ".",
		stepDrain:         "Evicting the pods of " + node + ".",
		stepRestart:       "Restarting the host.",
		stepBoot:          "Waiting until the host is back.",
		stepServices:      "Waiting for the services of the host.",
		stepMetadataRoute: "Putting the routes to the metadata service back.",
		stepNodeReady:     "Waiting until " + node + " is ready.",
		stepUncordon:      "Uncordoning " + node + ".",
		stepFacts:         "Looking at the host.",
		stepPreflight:     "Judging whether the host is fit to be a node.",
		stepAgent:         "Putting our agent on the host.",
		stepVerify:        "Verifying the host.",
	}[name]
}

// sentence begins with a capital letter and ends with a full stop.
func sentence(text string) string {
	if text == "" {
		return ""
	}
	if text[0] >= 'a' && text[0] <= 'z' {
		text = string(text[0]-'a'+'A') + text[1:]
	}
	if last := text[len(text)-1]; last != '.' {
		text += "."
	}
	return text
}
