// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package plugin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/words"
)

// drainFlags are those of kubectl drain.
type drainFlags struct {
	gracePeriod                                           int
	skipWait                                              int32
	timeout                                               time.Duration
	ignoreDaemonSets, deleteEmptyDir, force, disableEvict bool
	podSelector, timeoutFlag                              string
	flags                                                 *pflag.FlagSet
}

func (d *drainFlags) addFlags(cmd *cobra.Command, timeoutFlag string) {
	d.flags, d.timeoutFlag = cmd.Flags(), timeoutFlag
	f := cmd.Flags()
	f.IntVar(&d.gracePeriod, "grace-period", -1, "Seconds that each pod gets to end. Negative: what the pod asks for; 1 when the cluster has not reached the Node for a minute.")
	f.DurationVar(&d.timeout, timeoutFlag, 10*time.Minute, "After how long the drain fails when pods are still there. 0: never.")
	f.BoolVar(&d.ignoreDaemonSets, "ignore-daemonsets", true, "Let pods of DaemonSets stay. Otherwise the drain fails where there are any.")
	f.BoolVar(&d.deleteEmptyDir, "delete-emptydir-data", false, "Evict pods with emptyDir volumes, too; what they hold is lost.")
	f.BoolVar(&d.force, "force", false, "Evict pods that no controller manages, too; nothing recreates them.")
	f.BoolVar(&d.disableEvict, "disable-eviction", false, "Delete pods instead of evicting them, which passes over PodDisruptionBudgets.")
	f.StringVar(&d.podSelector, "pod-selector", "", "Label selector of the pods to evict. Empty: all.")
	f.Int32Var(&d.skipWait, "skip-wait-for-delete-timeout", 0, "Seconds after the end of its grace period from which on a pod that is being deleted is not waited for any more. 0: it is waited for. Not set: 60 while the Node is not ready, otherwise 0.")
}

// changed says whether any of the flags was given.
func (d *drainFlags) changed() bool {
	return slices.ContainsFunc([]string{"grace-period", d.timeoutFlag, "ignore-daemonsets", "delete-emptydir-data", "force", "disable-eviction", "pod-selector", "skip-wait-for-delete-timeout"}, d.flags.Changed)
}

// options are what the flags mean. What was not given is left to the server.
func (d *drainFlags) options() v1alpha1.DrainOptions {
	o := v1alpha1.DrainOptions{
		DeleteEmptyDirData: d.deleteEmptyDir, Force: d.force, DisableEviction: d.disableEvict,
		PodSelector: d.podSelector,
	}
	if d.gracePeriod >= 0 {
		o.GracePeriodSeconds = new(int64(d.gracePeriod))
	}
	if d.flags.Changed(d.timeoutFlag) {
		o.TimeoutSeconds = new(wholeSeconds(d.timeout))
	}
	if d.flags.Changed("ignore-daemonsets") {
		o.IgnoreDaemonSets = &d.ignoreDaemonSets
	}
	if d.flags.Changed("skip-wait-for-delete-timeout") {
		o.SkipWaitForDeleteTimeoutSeconds = &d.skipWait
	}
	return o
}

func newDrain(e *env) *cobra.Command {
	var d drainFlags
	a := &action{noun: "drain", done: "drained", unseen: "; its pods were not looked at"}
	a.post = func(ctx context.Context, c *client, t target, options metav1.CreateOptions) (runtime.Object, **v1alpha1.Operation, error) {
		answer, err := c.windows.WindowsInstances(t.Namespace).Drain(ctx, t.Name, &v1alpha1.WindowsInstanceDrain{
			Spec: v1alpha1.WindowsInstanceDrainSpec{Preconditions: preconditions(t), DrainOptions: d.options()},
		}, options)
		return answer, &answer.Status.Operation, err
	}
	cmd := a.command(e, &cobra.Command{
		Use:   "drain",
		Short: "Cordon the node of a host and have its pods evicted",
		Long: `Cordon the Node of a host and have its pods evicted. The controller of the cluster does it:
it continues when this command ends, and Ctrl-C only ends the output. A Node whose drain fails stays cordoned.

With several hosts it is one after the other, and after one that fails, or Ctrl-C, no other is begun: the error
has the command to go on. The flags are those of kubectl drain.`,
		Example: `  # Until the last pod has left, for ten minutes at most
  kubectl windows drain win-6

  # Pods with emptyDir volumes too, for at most five minutes
  kubectl windows drain win-6 --delete-emptydir-data --timeout=5m

  # What it would do
  kubectl windows drain win-6 --dry-run=server`,
	})
	d.addFlags(cmd, "timeout")
	a.beCareful(e, cmd, "drain")
	return cmd
}

func newUncordon(e *env) *cobra.Command {
	a := &action{noun: "uncordon", done: "uncordoned"}
	a.post = func(ctx context.Context, c *client, t target, options metav1.CreateOptions) (runtime.Object, **v1alpha1.Operation, error) {
		answer, err := c.windows.WindowsInstances(t.Namespace).Uncordon(ctx, t.Name, &v1alpha1.WindowsInstanceUncordon{
			Spec: v1alpha1.WindowsInstanceUncordonSpec{Preconditions: preconditions(t)},
		}, options)
		return answer, &answer.Status.Operation, err
	}
	cmd := a.command(e, &cobra.Command{
		Use:     "uncordon",
		Short:   "Make the node of a host schedulable again",
		Example: `  kubectl windows uncordon win-6`,
	})
	a.askBeforeAll(e, cmd, "uncordon")
	return cmd
}

// rebootModes are the values of --mode.
var rebootModes = []v1alpha1.RebootMode{v1alpha1.RebootGraceful, v1alpha1.RebootIfPending, v1alpha1.RebootForce}

// installable are the values of --install-updates.
var installable = []v1alpha1.WindowsUpdatesInstall{v1alpha1.InstallNone, v1alpha1.InstallSecurity, v1alpha1.InstallAll}

func newReboot(e *env) *cobra.Command {
	var (
		d       drainFlags
		mode    string
		install string
		timeout time.Duration
	)
	a := &action{noun: "reboot", done: "rebooted", unseen: "; neither its pods nor who is logged on were looked at"}
	var cmd *cobra.Command
	a.post = func(ctx context.Context, c *client, t target, options metav1.CreateOptions) (runtime.Object, **v1alpha1.Operation, error) {
		spec := v1alpha1.WindowsInstanceRebootSpec{Preconditions: preconditions(t)}
		spec.Mode = v1alpha1.RebootMode(mode)
		if cmd.Flags().Changed("install-updates") {
			spec.InstallUpdates = v1alpha1.WindowsUpdatesInstall(install)
		}
		if cmd.Flags().Changed("timeout") {
			spec.TimeoutSeconds = new(wholeSeconds(timeout))
		}
		if d.changed() {
			spec.Drain = new(d.options())
		}
		answer, err := c.windows.WindowsInstances(t.Namespace).Reboot(ctx, t.Name, &v1alpha1.WindowsInstanceReboot{Spec: spec}, options)
		return answer, &answer.Status.Operation, err
	}
	cmd = a.command(e, &cobra.Command{
		Use:   "reboot",
		Short: "Restart a host",
		Long: `Restart a host: cordon its Node, drain it, restart Windows, wait until the Node is ready
again, and uncordon it. The controller of the cluster does it: it continues when this command
ends, and Ctrl-C only ends the output. With several hosts it is one after the other, and after one
that fails, or Ctrl-C, no other is begun: the error has the command to go on.

--mode=IfPending does nothing where Windows does not wait for a restart. --mode=Force
restarts at once, although people are logged on: it does not drain, so that pods are cut off. To have them
leave first: kubectl windows drain.

A Node whose reboot fails after it was cordoned stays so, until the next reboot or kubectl windows uncordon.

--install-updates=Security, or All, also installs the updates of Windows that wait: they are downloaded before
the drain and installed after it. Where none wait the host is left as it is.`,
		Example: `  kubectl windows reboot win-6

  # With the security updates that wait
  kubectl windows reboot win-6 --install-updates=Security

  # Those of a pool that wait for it, one after the other
  kubectl windows reboot --pool windows-instances --mode=IfPending`,
		RunE: func(cmd *cobra.Command, args []string) error {
			i := slices.IndexFunc(rebootModes, func(m v1alpha1.RebootMode) bool { return strings.EqualFold(string(m), mode) })
			if i < 0 {
				return fmt.Errorf("--mode=%s: must be Graceful, IfPending or Force", mode)
			}
			mode = string(rebootModes[i])
			at := slices.IndexFunc(installable, func(u v1alpha1.WindowsUpdatesInstall) bool { return strings.EqualFold(string(u), install) })
			if at < 0 {
				return fmt.Errorf("--install-updates=%s: must be None, Security or All", install)
			}
			install = string(installable[at])
			if rebootModes[i] == v1alpha1.RebootForce && d.changed() {
				return errors.New("--mode=Force does not drain: it takes no flags of a drain")
			}
			return a.run(cmd.Context(), e, args)
		},
	})
	d.addFlags(cmd, "drain-timeout")
	a.beCareful(e, cmd, "reboot")
	cmd.Flags().StringVar(&mode, "mode", string(v1alpha1.RebootGraceful), "Graceful, IfPending or Force.")
	cmd.Flags().DurationVar(&timeout, "timeout", 20*time.Minute, "How long the host gets from its restart until its Node is ready. Not set: an hour with --mode=IfPending or --install-updates, and for a host that waits for a restart.")
	cmd.Flags().StringVar(&install, "install-updates", string(v1alpha1.InstallNone), "None, Security or All: updates of Windows to install before the restart.")
	completeWords(cmd, "mode", "Graceful", "IfPending", "Force")
	completeWords(cmd, "install-updates", "None", "Security", "All")
	return cmd
}

func newReconfigure(e *env) *cobra.Command {
	a := &action{noun: "reconfiguration", done: "reconfigured", overwrites: true}
	a.post = func(ctx context.Context, c *client, t target, options metav1.CreateOptions) (runtime.Object, **v1alpha1.Operation, error) {
		answer, err := c.windows.WindowsInstances(t.Namespace).Reconfigure(ctx, t.Name, &v1alpha1.WindowsInstanceReconfigure{
			Spec: v1alpha1.WindowsInstanceReconfigureSpec{Preconditions: preconditions(t)},
		}, options)
		return answer, &answer.Status.Operation, err
	}
	a.showDryRun = func(e *env, t target, answer runtime.Object) error {
		plan := answer.(*v1alpha1.WindowsInstanceReconfigure).Status.Plan
		if len(plan) == 0 {
			return e.print(fmt.Sprintf("windowsinstance/%s: nothing would change (server dry run)\n", t.Name))
		}
		return e.print(planTable(plan, *a.print.NoHeaders))
	}
	cmd := a.command(e, &cobra.Command{
		Use:   "reconfigure",
		Short: "Bring a host to its desired configuration",
		Long: `Bring a host to its desired configuration, now: what keeps its pool from updating it, such as a window, a canary, or
hosts that an update broke, does not. What drains or restarts the host waits for --max-disruptive-operations of the cluster
only, and is drained as spec.updateStrategy.drain of its pool says: by default pods without a controller and with emptyDir volumes leave, too.
With several hosts it is one after the other, and after one that fails, or Ctrl-C, no other is
begun: the error has the command to go on. With --dry-run=server it shows what would
change and what each change costs: nothing, a restart of a service, a drain, or a reboot.`,
		Example: `  kubectl windows reconfigure win-6 --dry-run=server
  kubectl windows reconfigure win-6`,
	})
	a.beCareful(e, cmd, "reconfigure")
	return cmd
}

func planTable(plan []v1alpha1.PlannedChange, noHeaders bool) string {
	rows := [][]string{{"KIND", "NAME", "ACTION", "IMPACT", "MESSAGE"}}
	for _, change := range plan {
		rows = append(rows, []string{change.Kind, change.Name, change.Action, string(change.Impact), cmp.Or(words.OneLine(change.Message), "-")})
	}
	return formatTable(rows, noHeaders)
}

func newCancel(e *env) *cobra.Command {
	a := &action{noun: "end", done: "canceled"}
	var operationID string
	cmd := &cobra.Command{
		Use:   "cancel (NAME... | -l SELECTOR | --pool POOL | -A)",
		Short: "End the operation that runs on a host",
		Long: `End the operation that runs on a host. What is done stays done: the message of the
operation describes in what state the host was left.`,
		Example: `  kubectl windows cancel win-6`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return e.eachSelected(cmd.Context(), args, &a.selection, func(ctx context.Context, e *env, c *client, t target) error {
				return a.cancel(ctx, e, c, t, operationID)
			})
		},
	}
	a.selection.addFlags(e, cmd)
	a.addParallel(cmd, readersAtOnce)
	cmd.Flags().StringVar(&operationID, "operation", "", "Only if it is the operation with this ID. Empty: the one that runs.")
	a.addWait(cmd, "Follow the operation until it has ended.")
	a.askBeforeAll(e, cmd, "end the operations of")
	return cmd
}

func (a *action) cancel(ctx context.Context, e *env, c *client, t target, id string) error {
	if id == "" {
		switch {
		case t.UID == "":
			return fmt.Errorf("windowsinstance/%s: you may not read it, so which operation runs is not known: name it with --operation", t.Name)
		case !t.Status.Operation.Active():
			return fmt.Errorf("windowsinstance/%s: no operation runs", t.Name)
		}
		id = t.Status.Operation.ID
	}
	answer, err := c.windows.WindowsInstances(t.Namespace).Cancel(ctx, t.Name, &v1alpha1.WindowsInstanceCancel{
		Spec: v1alpha1.WindowsInstanceCancelSpec{OperationID: id},
	}, metav1.CreateOptions{FieldValidation: strictly})
	if err != nil {
		return err
	}
	operation := answer.Status.Operation
	if operation == nil {
		return errors.New("the server named no operation")
	}
	what := nounOf(operation.Type)
	if !a.wait {
		return e.print(fmt.Sprintf("windowsinstance/%s: the end of the %s is requested\n", t.Name, what))
	}
	ended, err := e.follow(ctx, c, t, operation, a.waitTimeout)
	if err != nil {
		switch {
		case errors.Is(err, errWaitTimeout):
			return &ExitError{Code: ExitWaitTimeout, Err: fmt.Errorf("%w: the %s of %s has not ended yet", err, what, t.Name)}
		case errors.Is(err, errGone) || ctx.Err() != nil:
			return err
		}
		return fmt.Errorf("%w; the end of the %s is requested; see it with `kubectl windows describe %s -n %s`", err, what, t.Name, t.Namespace)
	}
	if ended.Phase != v1alpha1.OperationCanceled {
		return fmt.Errorf("windowsinstance/%s: the %s had ended before: %s: %s", t.Name, what, strings.ToLower(string(ended.Phase)), orNone(words.OneLine(ended.Message)))
	}
	return e.print(fmt.Sprintf("windowsinstance/%s: %s canceled: %s\n", t.Name, what, orNone(words.OneLine(ended.Message))))
}
