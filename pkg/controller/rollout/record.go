// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package rollout

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/rand"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/controller/internal/message"
	"github.com/openshift/windows-instance-api/pkg/wmco"
)

// Reasons of the events that a host gets another configuration, and that its Node is repaired. Those of restarts
// have the reasons of their cause.
const (
	eventUpdate = "RevisionChanged"
	eventRepair = "Remediating"
)

// configures says whether the operation of a cause configures the host: it is an update, or an annotation asks for it. All others
// restart, repair or uncordon it.
func configures(cause v1alpha1.OperationCause) bool {
	return cause == "" || cause == v1alpha1.CauseVersionChanged
}

// recordOperation records the operation that a grant is for.
func recordOperation(i *v1alpha1.WindowsInstance, g grant, now time.Time) error {
	does := v1alpha1.OperationReconfigure
	switch {
	case configures(g.cause):
	case g.cause == v1alpha1.CauseCameBack:
		does = v1alpha1.OperationUncordon
	case slotOf(g.impact) == slotDisruption, g.cause == v1alpha1.CauseWindowsUpdates: // that waits for its slot later
		does = v1alpha1.OperationReboot
	default:
		does = v1alpha1.OperationRestartServices
	}
	op := v1alpha1.NewOperation(does, rand.String(v1alpha1.OperationIDLength), v1alpha1.OriginController, v1alpha1.ControllerRequester, now)
	op.Cause = g.cause
	switch does {
	case v1alpha1.OperationReconfigure:
		// Known before it begins, so that one that does not get far counts as an attempt at it.
		op.Revision, op.PoolRevision, op.AdmittedImpact = i.Status.DesiredRevision, i.Status.DesiredPoolRevision, g.impact
	case v1alpha1.OperationReboot:
		op.Reboot = &v1alpha1.RebootOptions{Mode: v1alpha1.RebootGraceful}
		if g.cause == v1alpha1.CauseWindowsUpdates {
			op.Reboot.InstallUpdates = g.install
		}
		switch g.cause {
		case v1alpha1.CauseRestartPending:
			op.Reboot.Mode = v1alpha1.RebootIfPending
		case v1alpha1.CauseRestartAnnotated: // whoever asks may know of updates that wait
			op.Reboot.TimeoutSeconds = new(int64(v1alpha1.DefaultUpdateTimeoutSeconds))
		}
	}
	if err := i.Status.Record(op); err != nil {
		return fmt.Errorf("recording the operation: %w", err)
	}
	return nil
}

// announce tells of an operation that was recorded.
func (s *Scheduler) announce(i *v1alpha1.WindowsInstance, op *v1alpha1.Operation) {
	kind, reason, note := corev1.EventTypeNormal, string(op.Cause), ""
	switch op.Cause {
	case v1alpha1.CauseRestartRequested:
		note = "Restarting Windows, because spec.restarts.after of the pool asks for it."
	case v1alpha1.CauseRestartPending:
		note = "Restarting Windows, which waits for it."
	case v1alpha1.CauseRestartAnnotated:
		note = "Restarting Windows, because the Node has the annotation " + wmco.RebootRequiredAnnotation + "."
	case v1alpha1.CauseVersionChanged:
		note = "Configuring the host again, because the annotation " + wmco.VersionAnnotation + " of the Node was removed or changed."
	case v1alpha1.CauseWindowsUpdates:
		note = "Installing updates of Windows, because spec.windowsUpdates.install of the pool asks for it."
	case v1alpha1.CauseCameBack:
		note = "A failed restart had left the Node cordoned. It is ready again and is uncordoned."
	case v1alpha1.CauseNodeNotReady:
		kind, reason, note = corev1.EventTypeWarning, eventRepair, "The Node is not ready, although the host can be logged in to: its services are restarted."
		if op.Type == v1alpha1.OperationReboot {
			note = "The Node is not ready, although the host can be logged in to: Windows is restarted."
		}
	default:
		reason, note = eventUpdate, fmt.Sprintf("Configuring the host, which has revision %s, with revision %s.",
			v1alpha1.ShortRevision(i.Status.CurrentRevision), v1alpha1.ShortRevision(i.Status.DesiredRevision))
	}
	s.options.Recorder.Event(i, kind, reason, message.EventNote(note))
}
