// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package operation

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/maintenance"
	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/controller/internal/object"
	"github.com/openshift/windows-instance-api/pkg/wmco"
)

// withdrawn says why an operation that the controller recorded is not begun: the pool does not ask for it any more, or nothing may be done
// to the host, which is no failure of it. Between the record and its begin may be hours, when many hosts are worked on. Empty: it is wanted.
func (e *execution) withdrawn(ctx context.Context) (string, error) {
	op := e.operation()
	switch op.Cause {
	case v1alpha1.CauseRestartRequested, v1alpha1.CauseRestartPending, v1alpha1.CauseRestartAnnotated, v1alpha1.CauseVersionChanged, v1alpha1.CauseWindowsUpdates, v1alpha1.CauseNodeNotReady:
	case "":
		if !op.ByController() || op.Type != v1alpha1.OperationReconfigure && op.Type != v1alpha1.OperationRemove {
			return "", nil
		}
	default:
		return "", nil
	}
	pool, err := e.pool(ctx)
	if err != nil {
		return "", err
	}
	if field := object.PausedBy(e.instance, pool); field != "" {
		return fmt.Sprintf("Not begun, because %s is true.", field), nil
	}
	switch op.Cause {
	case "":
		return "", nil
	case v1alpha1.CauseRestartAnnotated:
		return e.unannotated(ctx, "does not have the annotation "+wmco.RebootRequiredAnnotation+" any more", object.AsksForRestart)
	case v1alpha1.CauseVersionChanged:
		return e.unannotated(ctx, "has the annotation "+wmco.VersionAnnotation+" as it was", object.AsksForConfiguration)
	}
	var field string
	switch {
	case pool == nil:
		return "Not begun, because the pool that asked for it is gone.", nil
	case op.Cause == v1alpha1.CauseRestartRequested && !e.restartRequested(pool.Spec.Restarts.After):
		field = "spec.restarts.after"
	case op.Cause == v1alpha1.CauseRestartPending && pool.Spec.Restarts.Policy != v1alpha1.RestartWhenPending:
		field = "spec.restarts.policy"
	case op.Cause == v1alpha1.CauseWindowsUpdates && (op.Reboot == nil || pool.Spec.WindowsUpdates.Install != op.Reboot.InstallUpdates):
		field = "spec.windowsUpdates.install"
	case op.Cause == v1alpha1.CauseNodeNotReady && pool.Spec.Remediation == nil:
		field = "spec.remediation"
	default:
		return "", nil
	}
	return fmt.Sprintf("Not begun, because %s of pool %s does not ask for it any more.", field, pool.Name), nil
}

// preparingSteps are those that disturb neither the host nor its Node.
var preparingSteps = []string{
	v1alpha1.StepConnect, v1alpha1.StepCheckPending, v1alpha1.StepFacts, v1alpha1.StepPreflight, v1alpha1.StepAgent, v1alpha1.StepPlan,
	v1alpha1.StepTransfer, v1alpha1.StepDownloadUpdates, v1alpha1.StepWaitForSlot,
}

// tooLate says why an operation that was recorded, or admitted, in the window of its pool is not begun, or not continued by another
// process if it has disturbed nothing yet: the window has closed since, for example while no controller ran. Empty: it is not too late, or
// the operation is none that waits for windows. What the scheduler records outside of the window, as for a broken host, it means so.
func (e *execution) tooLate(ctx context.Context) (string, error) {
	return e.windowClosed(ctx, e.operation().At(v1alpha1.StepWaitForSlot) && e.operation().Admitted())
}

// windowClosed is tooLate for an operation that was admitted in the window after it was recorded, or was not.
func (e *execution) windowClosed(ctx context.Context, admittedLater bool) (string, error) {
	op := e.operation()
	if !needsWindow(op) || op.MayHaveChangedHost() || slices.ContainsFunc(op.Steps, func(s v1alpha1.OperationStep) bool {
		return s.State != v1alpha1.StepPending && s.State != v1alpha1.StepSkipped && !slices.Contains(preparingSteps, s.Name)
	}) {
		return "", nil
	}
	pool, err := e.pool(ctx)
	if err != nil || pool == nil || pool.Spec.UpdateStrategy.Window == nil {
		return "", err
	}
	w := pool.Spec.UpdateStrategy.Window
	window, err := maintenance.Parse(w.Schedule, time.Duration(w.DurationSeconds)*time.Second, w.TimeZone)
	if err != nil {
		return "", nil //nolint:nilerr // the API server refuses it, and the scheduler records nothing by it
	}
	if open, _ := window.At(e.clock.Now()); open {
		return "", nil
	}
	if recorded, _ := window.At(op.RequestedAt.Time); !recorded && !admittedLater {
		return "", nil
	}
	return fmt.Sprintf("Not begun, because the window of pool %s (spec.updateStrategy.window) has closed since. It is recorded again when its pool allows that.", pool.Name), nil
}

// needsWindow says whether the scheduler records an operation in the window of the pool only, unless the host is broken.
func needsWindow(op *v1alpha1.Operation) bool {
	if !op.ByController() {
		return false
	}
	switch op.Cause {
	case v1alpha1.CauseRestartRequested, v1alpha1.CauseRestartPending, v1alpha1.CauseRestartAnnotated, v1alpha1.CauseWindowsUpdates:
		return true
	case "", v1alpha1.CauseVersionChanged:
		return op.Type == v1alpha1.OperationReconfigure && op.AdmittedImpact != "" && op.AdmittedImpact != v1alpha1.ImpactNone
	}
	return false
}

// restartRequested says whether a pool that asks for a restart after a time asks for one of this host by now.
func (e *execution) restartRequested(after *metav1.Time) bool {
	return after != nil && e.instance.Status.LastRestart().Before(after.Time) && !after.After(e.clock.Now())
}

// unannotated says that the Node does not ask for the operation any more, which has says in words. Empty: it does.
func (e *execution) unannotated(ctx context.Context, has string, asks func(*corev1.Node) bool) (string, error) {
	known := e.instance.Status.Node
	if known == nil {
		return "Not begun, because the host has no Node any more.", nil
	}
	node, err := e.readNode(ctx, known.Name)
	if err != nil || node != nil && node.UID == known.UID && asks(node) {
		return "", err
	}
	return fmt.Sprintf("Not begun, because Node %s %s.", known.Name, has), nil
}

// withdrawnError ends an operation that waits and is not wanted any more.
type withdrawnError struct{ why string }

func (e *withdrawnError) Error() string { return e.why }

// recovered says whether the Node of a repair is ready again, for which nothing has to be done then.
func (e *execution) recovered(ctx context.Context) (bool, error) {
	op := e.operation()
	if op.Cause != v1alpha1.CauseNodeNotReady || op.Node == nil {
		return false, nil
	}
	node, err := e.readNode(ctx, op.Node.Name)
	if err != nil || node == nil || node.UID != op.Node.UID {
		return false, err
	}
	return unready(node) == "", nil
}
