// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package plugin

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/words"
)

// action is a command that requests an operation and follows it.
type action struct {
	selection
	outputFlags
	dryRun      string
	wait, yes   bool
	waitTimeout time.Duration

	// overwrites says that a host that waits for a confirmation gets what is desired now.
	overwrites bool
	// repeatable says that the server refuses what was done before, which keeps the command from no other host.
	repeatable bool
	// unseen says what a dry run does not look at. Empty: nothing of interest.
	unseen string
	// noun names what is done, done says that it was: "drain", "drained".
	noun, done string
	// post requests the operation, and returns the answer and the operation in it.
	post func(ctx context.Context, c *client, t target, options metav1.CreateOptions) (runtime.Object, **v1alpha1.Operation, error)
	// showDryRun shows the answer to a dry run. Nil: a sentence is enough.
	showDryRun func(e *env, t target, answer runtime.Object) error
}

// actAtOnce is on how many hosts an operation is done at once by default: a pool whose hosts are all drained at once has nowhere to put their pods.
const actAtOnce = 1

// command completes a command that runs the action.
func (a *action) command(e *env, cmd *cobra.Command) *cobra.Command {
	cmd.Use += " (NAME... | -l SELECTOR | --pool POOL | -A)"
	if cmd.RunE == nil {
		cmd.RunE = func(cmd *cobra.Command, args []string) error { return a.run(cmd.Context(), e, args) }
	}
	a.selection.addFlags(e, cmd)
	a.outputFlags.addFlags(cmd)
	a.addParallel(cmd, actAtOnce)
	addDryRun(cmd, &a.dryRun, "none, or server: the server reports what it would do, and does nothing.")
	a.addWait(cmd, "Follow the operation until it has ended. It continues without that, too.")
	return cmd
}

// addDryRun adds the flag of a dry run, see [dryRunOf].
func addDryRun(cmd *cobra.Command, dryRun *string, usage string) {
	cmd.Flags().StringVar(dryRun, "dry-run", "none", usage)
	cmd.Flags().Lookup("dry-run").NoOptDefVal = "server"
	completeWords(cmd, "dry-run", "none", "server")
}

// dryRunOf are the values of dryRun in the options of a request.
func dryRunOf(flag string) ([]string, error) {
	switch flag {
	case "none":
		return nil, nil
	case "server":
		return []string{metav1.DryRunAll}, nil
	}
	return nil, fmt.Errorf("--dry-run=%s: must be none or server; only the server knows what a host needs", flag)
}

func (a *action) addWait(cmd *cobra.Command, usage string) {
	cmd.Flags().BoolVar(&a.wait, "wait", true, usage)
	cmd.Flags().DurationVar(&a.waitTimeout, "wait-timeout", 0, "For how long the operation is followed. 0: until it has ended.")
}

func (a *action) run(ctx context.Context, e *env, args []string) error {
	dryRun, err := dryRunOf(a.dryRun)
	if err != nil {
		return err
	}
	if dryRun != nil { // it does no harm
		a.goOn = nil
	}
	return a.eachSelected(ctx, e, args, &a.selection, func(ctx context.Context, e *env, c *client, t target) error {
		return a.one(ctx, e, c, t, metav1.CreateOptions{DryRun: dryRun, FieldValidation: strictly})
	})
}

// one requests the operation on one host.
func (a *action) one(ctx context.Context, e *env, c *client, t target, options metav1.CreateOptions) error {
	dryRun := len(options.DryRun) > 0
	answer, operation, err := a.post(ctx, c, t, options)
	if err != nil {
		return c.conflict(ctx, t, err)
	}
	switch {
	case dryRun && !a.asTable():
		return a.printTyped(e, answer)
	case dryRun && a.showDryRun != nil:
		return a.showDryRun(e, t, answer)
	case dryRun:
		return e.print(fmt.Sprintf("windowsinstance/%s would be %s (server dry run%s)\n", t.Name, a.done, a.unseen))
	case *operation == nil:
		return errors.New("the server recorded no operation")
	case !a.wait:
		if a.asTable() {
			return e.print(fmt.Sprintf("windowsinstance/%s: %s requested, operation %s\n", t.Name, a.noun, (*operation).ID))
		}
		return a.printTyped(e, answer)
	}
	ended, err := e.follow(ctx, c, t, *operation, a.waitTimeout)
	if err != nil {
		return a.interrupted(ctx, e, t, err)
	}
	*operation = ended
	switch {
	case !a.asTable():
		err = a.printTyped(e, answer)
	case ended.Phase != v1alpha1.OperationSucceeded: // the outcome says it
	case nothingToDo(ended):
		err = e.print(fmt.Sprintf("windowsinstance/%s not %s: %s\n", t.Name, a.done, words.OneLine(ended.Message)))
	default:
		err = e.print(fmt.Sprintf("windowsinstance/%s %s (%s)\n", t.Name, a.done, took(&ended.RequestedAt, ended.FinishedAt, time.Now())))
	}
	if err != nil {
		return err
	}
	return outcome(t, ended)
}

// nothingToDo says whether a reboot found that none was needed.
func nothingToDo(op *v1alpha1.Operation) bool {
	if op.Reboot.InstallsUpdates() {
		step := op.FindStep(v1alpha1.StepInstallUpdates)
		return step != nil && step.State == v1alpha1.StepSkipped
	}
	return op.Reboot != nil && op.Reboot.Mode == v1alpha1.RebootIfPending && op.BootID == ""
}

// interrupted says, when the operation is no longer followed, that it continues.
func (a *action) interrupted(ctx context.Context, e *env, t target, err error) error {
	continues := fmt.Sprintf("the %s of %s continues; see it with `kubectl windows describe %s -n %s`, end it with `kubectl windows cancel %s -n %s`",
		a.noun, t.Name, t.Name, t.Namespace, t.Name, t.Namespace)
	switch {
	case errors.Is(err, errWaitTimeout):
		return &ExitError{Code: ExitWaitTimeout, Err: fmt.Errorf("%w: %s", err, continues)}
	case ctx.Err() != nil:
		e.note("%s", continues)
		return ctx.Err()
	case errors.Is(err, errGone):
		return err
	}
	return fmt.Errorf("%w; %s", err, continues)
}

// outcome is how the plugin ends when the operation did.
func outcome(t target, operation *v1alpha1.Operation) error {
	text := fmt.Errorf("windowsinstance/%s: %s %s: %s", t.Name, nounOf(operation.Type), strings.ToLower(string(operation.Phase)), orNone(words.OneLine(operation.Message)))
	switch operation.Phase {
	case v1alpha1.OperationFailed:
		return &ExitError{Code: ExitOperationFailed, Err: text}
	case v1alpha1.OperationCanceled:
		return &ExitError{Code: ExitOperationCanceled, Err: text}
	}
	return nil
}

// conflict says, when another operation is in the way, who requested it and how far it is.
func (c *client) conflict(ctx context.Context, t target, err error) error {
	if !apierrors.IsConflict(err) {
		return err
	}
	instance, getErr := c.windows.WindowsInstances(t.Namespace).Get(ctx, t.Name, metav1.GetOptions{})
	if getErr != nil || !instance.Status.Operation.Active() {
		return err
	}
	op := instance.Status.Operation
	// The answer of the server says less than this.
	return &ExitError{Code: ExitConflict, Err: fmt.Errorf("windowsinstance/%s: %s requested a %s %s ago, and it is not finished: %s; wait for it, or end it with `kubectl windows cancel %s -n %s`",
		t.Name, op.RequestedBy, nounOf(op.Type), ago(op.RequestedAt.Time, time.Now()), progressText(op, true), t.Name, t.Namespace)}
}

// preconditions are for the instance that was looked up, so that no other one of its
// name is changed. An instance that may not be seen has none.
func preconditions(t target) *metav1.Preconditions {
	if t.UID == "" {
		return nil
	}
	return &metav1.Preconditions{UID: &t.UID}
}
