// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package operation

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/controller/internal/leading"
	"github.com/openshift/windows-instance-api/pkg/controller/internal/object"
	"github.com/openshift/windows-instance-api/pkg/drain"
)

// execution runs one operation. It is used by one goroutine.
type execution struct {
	*Reconciler

	key types.NamespacedName
	id  string
	// instance is the object as it was last read or written, with what was noted since. It is never changed in place.
	instance *v1alpha1.WindowsInstance
	// stored is the object as it was last read or written, and noted what is to be written with the next change of it.
	stored *v1alpha1.WindowsInstance
	noted  []func(*v1alpha1.WindowsInstanceStatus)
	// notedAt is when the oldest of these was noted.
	notedAt time.Time
	// stopLate ends what writes that meanwhile. Nil: nothing does.
	stopLate func()
	// yield lets other executions go first, see [runner.execute].
	yield func()
	// lifetime ends with the process or its leadership, and not when the operation is canceled.
	lifetime context.Context //nolint:containedctx // for the one call that a cancellation must not cut off
	// current is the name of the step that runs.
	current string
	// interrupted: the step that runs was begun before, and nobody knows how far it got.
	interrupted bool
	// unsent: the restart was recorded, and not asked for.
	unsent bool
	// needsRestart: the host, just configured, has said that it has to be restarted. agreed: it has just said that it will be.
	needsRestart, agreed bool
	// changed: the host has reported a first change, or it is not known whether it has begun.
	changed bool
	// resumed is when this execution took over what another one had begun, and found the steps as they were then. Zero: it did not.
	resumed time.Time
	found   []v1alpha1.OperationStep
	// lost are the times in which this execution waited for an API server that was away. They do not overlap.
	lost []span
	// facts are what the host said of itself, at factsAt, before it was planned what to do to it. Nil: it
	// was not asked by this execution.
	facts   *api.Facts
	factsAt time.Time
	// inspected is what the step Facts found out, for the steps Preflight and Agent. Nil: the host is asked again. It was asked and has
	// answered at the times inspectedFrom and inspectedUntil. inspectedBy is the digest of the agent that it had right before.
	inspected                     *api.Facts
	inspectedFrom, inspectedUntil time.Time
	inspectedBy                   string
	// nodeName is what the host said last that its node is called. Empty: it was not asked by this execution.
	nodeName string
	// planned is what the step Plan found out, for the one after it. Nil: it is planned again.
	planned *api.Plan
	// without: the host had no configuration, and all that this execution has asked for since are without what cannot be read.
	without bool
	// node is what was read of the Node right before, for what the step does next. Nil: it is read again.
	node *corev1.Node
	// replans is how often this execution went back to the step Plan.
	replans int
	// refused: the operation fails because a right was missing for as long as an API server that starts says so.
	refused bool
	// reported has the budgets and pods that there was an event about.
	reported sets.Set[string]
}

// drainer has the pods of a Node leave; see [drain.Drainer.Run].
type drainer interface {
	Run(ctx context.Context, node string, o drain.Options, report func(drain.Progress)) error
}

// run runs the operation. It returns early when ctx ends; another execution
// then goes on. canceled is closed when somebody asks for the end of the operation. It says after what time to
// see whether another process has it for good, zero if there is nothing left to do.
func (e *execution) run(ctx context.Context, canceled <-chan struct{}) (again time.Duration) {
	e.lifetime = ctx
	e.pace.running.Add(1)
	defer e.pace.running.Add(-1)
	for delay := rerunBackoff.DelayFunc(); ; {
		err := e.runSteps(ctx, canceled)
		switch {
		case errors.Is(err, errNotLeading):
			return leading.AgainAfter
		case err == nil || errors.Is(err, errOver) || ctx.Err() != nil:
			return 0
		}
		log.FromContext(ctx).Error(err, "The operation cannot run because its record cannot be written. It is tried again")
		e.yield()
		if sleepUnless(ctx, e.clock, delay(), canceled) {
			canceled = nil // from now on its record says so
		}
	}
}

// runSteps runs the steps that are left until the operation has ended.
func (e *execution) runSteps(ctx context.Context, canceled <-chan struct{}) error {
	e.noted = nil // it may be what could not be written
	if err := e.load(ctx); err != nil {
		return err
	}
	switch {
	case e.operation().Phase == v1alpha1.OperationRunning:
		e.resumed, e.found = e.clock.Now(), slices.Clone(e.operation().Steps)
		if step := nextStep(e.operation()); step != nil && step.State == v1alpha1.StepRunning && slices.Contains(changingSteps, step.Name) {
			e.changed = true
		}
		if e.unwanted() {
			break
		}
		if why, err := e.tooLate(ctx); err != nil || why != "" {
			if err != nil {
				return err
			}
			// Whoever leads by now may have begun it in time.
			if err := e.ensureLeading(ctx); err != nil {
				return err
			}
			return e.conclude(ctx, v1alpha1.OperationCanceled, why)
		}
		if err := e.drainAgain(ctx); err != nil {
			return err
		}
	case e.unwanted():
		return e.cancel(ctx)
	default:
		if err := e.start(ctx); err != nil {
			return err
		}
	}
	cancelable, cancel := context.WithCancelCause(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel(nil)
	wg.Go(func() {
		select {
		case <-canceled:
			cancel(errCanceled)
		case <-cancelable.Done():
		}
	})
	for first := true; e.operation().Active(); first = false {
		step := nextStep(e.operation())
		if step == nil {
			return e.conclude(ctx, v1alpha1.OperationSucceeded, e.describeSuccess())
		}
		if e.unwanted() {
			cancel(errCanceled)
		}
		e.interrupted = first && step.State == v1alpha1.StepRunning
		err := e.step(ctx, cancelable, step.Name)
		switch {
		case err == nil:
		case errors.Is(err, errOver) || ctx.Err() != nil:
			return err
		default:
			// The Node and the record are those of the process that leads.
			if err := e.ensureLeading(ctx); err != nil {
				return err
			}
			if errors.Is(err, errCanceled) {
				return e.cancel(ctx)
			}
			if not, ok := errors.AsType[*withdrawnError](err); ok {
				return e.conclude(ctx, v1alpha1.OperationCanceled, not.why)
			}
			return e.fail(ctx, err)
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
	var node *v1alpha1.OperationNode
	if refusal == "" {
		if node, err = e.findNode(ctx); err != nil {
			return err
		}
		if t := e.operation().Type; node == nil && (t == v1alpha1.OperationDrain || t == v1alpha1.OperationUncordon) {
			refusal = "The host has no Node: no Node has its address or its provider ID, so that there is nothing to drain or uncordon."
		}
	}
	why, err := e.withdrawn(ctx)
	if err == nil && why == "" {
		why, err = e.tooLate(ctx)
	}
	if err != nil {
		return err
	}
	if why != "" {
		return e.conclude(ctx, v1alpha1.OperationCanceled, why)
	}
	names := plan(e.operation(), e.Configuration != nil)
	if names == nil && refusal == "" {
		refusal = fmt.Sprintf("This version of the controller does not know operations of type %s.", e.operation().Type)
	}
	now := e.clock.Now()
	if err := e.updateStatus(ctx, func(status *v1alpha1.WindowsInstanceStatus) {
		op := status.Operation
		op.Phase, op.Steps, op.Node = v1alpha1.OperationRunning, newSteps(names), node
		op.StartedAt = timestamp(now)
		if refusal == "" {
			beginNext(op, now)
			status.Phase = cmp.Or(op.HostPhase(), status.Phase) // or package instance had to write that next
		}
	}); err != nil {
		return err
	}
	if refusal != "" {
		return e.conclude(ctx, v1alpha1.OperationFailed, refusal)
	}
	op := e.operation()
	e.announce(corev1.EventTypeNormal, string(op.Type)+"Started", fmt.Sprintf("Operation %s, which %s requested, has begun.", op.ID, op.RequestedBy))
	return nil
}

// refusal says why nothing may be done to the host, empty if it may.
func (e *execution) refusal(ctx context.Context) (string, error) {
	if c := e.instance.Status.KeptOff(); c != nil {
		return "This instance does not represent the host: " + c.Message, nil
	}
	if e.operation().Type != v1alpha1.OperationRemove && !e.instance.Status.Identified() { // a removal logs in first
		return fmt.Sprintf("The controller has not logged in to the host of this instance yet, so it is not known whether the host, and its Node, are those of this instance. "+
			"To try the way to the host: kubectl windows check %s -n %s", e.instance.Name, e.instance.Namespace), nil
	}
	if t := e.operation().Type; t == v1alpha1.OperationDrain || t == v1alpha1.OperationUncordon {
		return "", nil // the host itself is not touched
	}
	pool, err := e.pool(ctx)
	if err != nil {
		return "", err
	}
	if field := object.PausedBy(e.instance, pool); field != "" {
		return fmt.Sprintf("%s is true, so the controller does nothing on the host. Set it to false, and ask again.", field), nil
	}
	return "", nil
}

// pool is the pool of the instance, nil if it has none.
func (e *execution) pool(ctx context.Context) (pool *v1alpha1.WindowsNodePool, err error) {
	err = retryAPI(ctx, e.clock, "Reading the pool", isFinal, func() (err error) {
		pool, err = object.PoolOf(ctx, e.client, e.instance)
		return err
	})
	return pool, err
}

// statusNode returns the Node that the status names, nil if there is none, or another one of that name.
func (e *execution) statusNode(ctx context.Context) (*corev1.Node, error) {
	ref := e.instance.Status.Node
	if ref == nil {
		return nil, nil //nolint:nilnil // no Node is an ordinary answer
	}
	node, err := e.readNode(ctx, ref.Name)
	if err != nil || node == nil || node.UID != ref.UID {
		return nil, err
	}
	return node, nil
}

// findNode returns the Node that the status names as it is now, nil if there is none.
func (e *execution) findNode(ctx context.Context) (*v1alpha1.OperationNode, error) {
	node, err := e.statusNode(ctx)
	if node == nil || err != nil {
		return nil, err
	}
	return &v1alpha1.OperationNode{Name: node.Name, UID: node.UID, WasUnschedulable: node.Spec.Unschedulable}, nil
}

// nodeReference names the Node of the operation, else the one that the status names: a host
// may become a Node while an operation runs. Nil: there is none.
func (e *execution) nodeReference() *v1alpha1.NodeReference {
	if node := e.operation().Node; node != nil {
		return &v1alpha1.NodeReference{Name: node.Name, UID: node.UID}
	}
	return e.instance.Status.Node
}

// step runs one step, from its begin to its end. ctx is that of the records,
// which are still written when cancelable is canceled.
func (e *execution) step(ctx, cancelable context.Context, name string) error {
	known, ok := steps[name]
	if !ok {
		return fmt.Errorf("this version of the controller does not know the step %s", name)
	}
	if cancelable.Err() != nil {
		return context.Cause(cancelable)
	}
	e.current, e.node = name, nil
	began := e.clock.Now()
	begins := func(status *v1alpha1.WindowsInstanceStatus) {
		op := status.Operation
		if step := op.FindStep(name); step != nil {
			if step.StartedAt == nil {
				op.Progress = nil // that of the step before
			}
			begin(step, began)
		}
		op.Message = known.describe(op.Node)
	}
	defer e.stopRecordingLate()
	if onlyReads(e.operation(), name) {
		e.note(begins)
		e.recordLate(ctx)
	} else if err := e.updateStatus(ctx, begins); err != nil {
		return err
	}
	done, err := known.run(e, cancelable)
	if err != nil {
		return err
	}
	state := v1alpha1.StepSucceeded
	if done.skipped {
		state = v1alpha1.StepSkipped
	}
	e.stopRecordingLate()
	ended := e.clock.Now()
	e.note(func(status *v1alpha1.WindowsInstanceStatus) { // what comes next writes it
		op := status.Operation
		// What the step waited for last is over.
		op.Message, op.BlockedBy = done.message, nil
		if done.again != "" {
			rewind(op, done.again, name)
			return
		}
		if step := op.FindStep(name); step != nil {
			end(step, state, done.message, ended)
		}
		if done.node != nil {
			op.Node = done.node
		}
		if done.restarted {
			status.RestartedAt = timestamp(ended)
		}
		if done.released {
			leaveToOthers(status)
		}
		op.JoinsAgain = op.JoinsAgain && !done.joined
		for other, why := range done.skips {
			if step := op.FindStep(other); step != nil && step.State == v1alpha1.StepPending {
				end(step, v1alpha1.StepSkipped, why, ended)
			}
		}
	})
	if reason := stepReasons[name]; reason != "" && state == v1alpha1.StepSucceeded && done.again == "" && !done.untold {
		e.announce(corev1.EventTypeNormal, reason, done.message)
	}
	switch {
	case done.refusal != "":
		return e.conclude(ctx, v1alpha1.OperationFailed, done.refusal)
	case done.enough:
		return e.conclude(ctx, v1alpha1.OperationSucceeded, done.message)
	}
	return nil
}

// beginNext records that the next step runs together with what comes before. Those that change the host are begun by themselves: of
// one that was begun and interrupted nobody knows how far it came.
func beginNext(op *v1alpha1.Operation, now time.Time) {
	next := nextStep(op)
	if next == nil || next.State != v1alpha1.StepPending || slices.Contains(changingSteps, next.Name) {
		return
	}
	begin(next, now)
	op.Progress, op.Message = nil, steps[next.Name].describe(op.Node)
}

// ensureWanted makes sure, right before something that cannot be taken back, that it still
// is to be done.
func (e *execution) ensureWanted(ctx context.Context) error {
	if err := e.ensureLeading(ctx); err != nil {
		return err
	}
	if err := e.load(ctx); err != nil {
		return err
	}
	if e.unwanted() {
		return errCanceled
	}
	return ctx.Err()
}

// ensureRepresents makes sure, before the host or its Node is changed for the first time, that no other
// instance has the host. What the status says of that may be older than a login for that one.
func (e *execution) ensureRepresents(ctx context.Context) error {
	if t := e.operation().Type; t != v1alpha1.OperationReconfigure && t != v1alpha1.OperationAdopt || e.instance.Status.ChangedHost() {
		return nil
	}
	var why string
	if err := retryAPI(ctx, e.clock, "Asking which instance represents the host", isFinal, func() (err error) {
		why, err = e.Represented(ctx, e.instance)
		return err
	}); err != nil {
		return fmt.Errorf("finding out which instance represents the host: %w", err)
	}
	if why != "" {
		return fmt.Errorf("this instance does not represent the host: %s", why)
	}
	return nil
}

// ensureLeading makes sure, before the host is changed, that no other process has taken over. What
// is under way on the host when one does is what the lock of the host is for.
func (e *execution) ensureLeading(ctx context.Context) error {
	if e.Leads == nil {
		return nil
	}
	leads := false
	// A Lease that was deleted is there again within half a minute; without it nobody leads.
	never := func(error) bool { return false }
	if err := retryAPI(ctx, e.clock, "Asking which process works", never, func() (err error) {
		leads, err = e.Leads(ctx)
		return err
	}); err != nil {
		return fmt.Errorf("finding out whether another process has taken over: %w", err)
	}
	if !leads {
		return errNotLeading
	}
	return nil
}

// recordMessage records what is going on, if that has changed.
func (e *execution) recordMessage(ctx context.Context, format string, args ...any) error {
	message := fmt.Sprintf(format, args...)
	return e.update(ctx, func(op *v1alpha1.Operation) { op.Message = message })
}
