// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package operation

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/controller/internal/object"
)

// Policy says what hosts wait for whose configuration costs more than was admitted, see
// status.operation.admittedImpact. It admits by itself. Its methods are called concurrently.
type Policy interface {
	// WaitsFor says what the host of an instance waits for, for people. Empty: it is not known yet.
	WaitsFor(key types.NamespacedName) string
	// Postponed says whether that may last, as it is more than other hosts: the window of the pool has closed, or a host of it
	// is broken.
	Postponed(key types.NamespacedName) bool
	// GivesWayTo says what has to be done to the host of an instance first, so that an operation that waits, or that downloads updates of Windows,
	// ends for it. Empty: nothing.
	GivesWayTo(key types.NamespacedName) string
	// Contested says whether the host is out of service while hosts of other pools wait for that to end.
	Contested(key types.NamespacedName) bool
}

// certificateInterval is how often a host that waits, and whose kubelet does not report, is asked
// whether that has a certificate.
const certificateInterval = time.Minute

// updatesWait is for how long a host on which updates were downloaded waits for its slot. It has no other operation meanwhile.
const updatesWait = 4 * time.Hour

// withdrawnInterval is how often it is asked whether the pool still wants the updates that a host waits with.
const withdrawnInterval = time.Minute

// supersededInterval is how often it is asked whether a host that waits for its removal is still to be removed.
const supersededInterval = time.Minute

// waitForSlot waits until the host may be disrupted as far as was planned. Nothing is touched
// before. Uncordon gives a slot for disruptions back; everything else does the end of the
// execution, when it is known whether the host works with the change.
func (e *execution) waitForSlot(ctx context.Context) (result, error) {
	if e.operation().Node == nil {
		return noNode, nil
	}
	if e.operation().Type == v1alpha1.OperationRemove {
		return e.waitToRemove(ctx)
	}
	if e.operation().Reboot.InstallsUpdates() {
		return e.waitToUpdate(ctx)
	}
	if e.joins() {
		return result{skipped: true, message: "No slot is needed: the kubelet cannot report, so that the host is out of service already."}, nil
	}
	if !e.needsAdmission() {
		return result{skipped: true, message: "No slot is needed: the change disturbs no pod, or a person asked for it."}, nil
	}
	if lost, err := e.awaitAdmission(ctx); err != nil || lost != "" {
		return planAgain(lost), err
	}
	return result{message: "The host may be disrupted now."}, nil
}

// needsAdmission says whether the policy has to admit what was planned. A host that joins needs no
// admission: it is out of service already.
func (e *execution) needsAdmission() bool {
	op := e.operation()
	return !e.joins() && (disruptive(op.Impact) || op.Impact == v1alpha1.ImpactRestart && op.ByController())
}

// halfWay says whether the host was being changed, or its Node cordoned, before: it goes on at once, as that others are being changed, or have
// failed, is no reason to leave it so. One that has to be drained by now, and was changed without, waits for its slot: as many as
// had their services restarted at the same time may have lost the label that their pods select.
func halfWay(op *v1alpha1.Operation) bool {
	switch {
	case op.FindStep(v1alpha1.StepWaitForSlot) == nil: // releases before that step have waited later
		return false
	case cordonedByUs(op):
		return true
	}
	return op.HostChanged && (op.Admitted() || op.AdmittedImpact == "" && !disruptive(op.Impact))
}

// awaitAdmission waits until the policy has admitted what was planned, unless the host is half way. Nor does a host wait any longer
// that is out of service by now: lost says why it has to join again. The error is a *[withdrawnError] when what an annotation asked
// for is not wanted any more, and when the window in which the policy had admitted it has closed before the host was disturbed, for example
// while files were sent: what is on the host stays, and the operation is recorded again. So it is when the update costs more than it was admitted with, see [execution.outgrown].
func (e *execution) awaitAdmission(ctx context.Context) (lost string, err error) {
	if !e.needsAdmission() || halfWay(e.operation()) {
		return "", nil
	}
	if e.operation().Admitted() {
		why, err := e.windowClosed(ctx, false)
		if err != nil {
			return "", err
		}
		if why != "" {
			return "", &withdrawnError{why}
		}
	}
	goesOn := e.pace.waits()
	defer goesOn()
	wanted := time.Time{}
	for asked := e.clock.Now(); ; {
		if why := e.outgrown(); why != "" {
			return "", &withdrawnError{why}
		}
		switch field, err := e.pausedMeanwhile(ctx); {
		case err != nil:
			return "", err
		case field != "" && e.operation().ByController():
			return "", &withdrawnError{fmt.Sprintf("Not begun, because %s is true.", field)}
		case field != "":
			return "", fmt.Errorf("the controller does nothing on the host, because %s is true: set it to false, and ask again", field)
		}
		if now := e.clock.Now(); e.operation().Cause == v1alpha1.CauseVersionChanged && !e.operation().HostChanged && (now.Sub(wanted) >= withdrawnInterval || e.operation().Admitted()) {
			why, err := e.withdrawn(ctx)
			if err != nil {
				return "", err
			}
			if why != "" {
				return "", &withdrawnError{why}
			}
			wanted = now
		}
		if e.operation().Admitted() {
			return "", nil
		}
		if first := e.Policy.GivesWayTo(e.key); first != "" && e.instance.Status.GivesWay() {
			return "", &withdrawnError{"Not continued, because " + first + " The controller records it again."}
		}
		e.yield()
		if e.clock.Now().Sub(asked) >= certificateInterval {
			if lost, err := e.lostCertificate(ctx); err != nil || lost != "" {
				return lost, err
			}
			asked = e.clock.Now()
		}
		if err := e.waitForPolicy(ctx, e.Policy.WaitsFor(e.key)); err != nil {
			return "", err
		}
	}
}

// waitForPolicy records what the host waits for, waits for a moment, and reads the instance again, which the policy may have admitted. Nothing is
// said yet of a host for which waitsFor is empty.
func (e *execution) waitForPolicy(ctx context.Context, waitsFor string) error {
	if err := e.pause(ctx, "%s", cmp.Or(waitsFor, "Waits for a slot.")); err != nil {
		return err
	}
	return e.load(ctx)
}

// outgrown says why an update does not wait that costs more than its pool has admitted it with, and has changed nothing: until the pool lets
// the host be disturbed, which may be in its next window only, or when somebody asks for it, nothing else could be done to the host, such as a repair. The
// pool records the update again by what it costs. Empty: it does not cost more, or the host is to have what it has, as an annotation asks for.
func (e *execution) outgrown() string {
	op, status := e.operation(), &e.instance.Status
	renews := op.Revision == status.CurrentRevision && (status.DesiredRevision == op.Revision || status.DesiredRevision == "")
	if !op.ByController() || op.AdmittedImpact == "" || op.Admitted() || op.MayHaveChangedHost() || renews {
		return ""
	}
	return fmt.Sprintf("Not begun, because it costs more than the pool has allowed it (%s, and not %s). It is recorded again when its pool allows that.", op.Impact, op.AdmittedImpact)
}

// waitToRemove waits until the host may be removed. One whose removal has begun before, and that is out of service since, goes on. It takes no slot:
// pods that never leave would keep all others from theirs. Whoever wants the host meanwhile gets it as it is.
func (e *execution) waitToRemove(ctx context.Context) (result, error) {
	if e.instance.Status.RemovalGoesOn() {
		return result{skipped: true, message: "No slot is needed: the removal has begun before, so that the host is out of service already."}, nil
	}
	goesOn := e.pace.waits()
	defer goesOn()
	delay := pollBackoff.DelayFunc()
	for asked, waited := e.clock.Now(), e.interrupted; ; waited = true { // the step before has asked, too
		switch field, err := e.pausedMeanwhile(ctx); {
		case err != nil:
			return result{}, err
		case field != "":
			return result{}, &withdrawnError{fmt.Sprintf("Not begun, because %s is true.", field)}
		}
		admitted := e.operation().AdmittedImpact
		if waited && admitted != "" || e.clock.Now().Sub(asked) >= supersededInterval {
			why, err := e.superseded(ctx)
			if err == nil && why == "" && waited && admitted != "" { // somebody may have logged on meanwhile
				why, err = e.keepsFromCleanup(ctx)
			}
			if err != nil || why != "" {
				return result{refusal: why, message: why}, err
			}
			asked = e.clock.Now()
		}
		switch admitted {
		case "":
		case v1alpha1.ImpactNone:
			return result{skipped: true, message: "No slot is needed: the removal was confirmed, or its Machine is gone."}, nil
		default:
			return result{message: "The host may be removed now."}, nil
		}
		e.yield()
		message := e.operation().Message
		if waitsFor := e.Policy.WaitsFor(e.key); waitsFor != "" {
			message = waitsFor
		}
		if err := e.recordMessage(ctx, "%s", message); err != nil { // also that it waits, which the policy has to see
			return result{}, err
		}
		if err := sleep(ctx, e.clock, delay()); err != nil {
			return result{}, err
		}
		if err := e.load(ctx); err != nil {
			return result{}, err
		}
	}
}

// waitToUpdate waits, if nobody has asked for it, until the host may be drained for updates of Windows. Then it finds out once more whether
// the host may be restarted: the download and the wait may have taken hours.
func (e *execution) waitToUpdate(ctx context.Context) (result, error) {
	wait := e.unlessPaused
	if e.operation().Cause == v1alpha1.CauseWindowsUpdates {
		wait = e.waitToInstall
	}
	r, err := wait(ctx)
	if err != nil || r.enough {
		return r, err
	}
	return r, e.ensureMayRestart(ctx)
}

// unlessPaused ends an operation that a person has asked for if the host was paused while updates were downloaded, which may take hours: it has
// disturbed nothing yet.
func (e *execution) unlessPaused(ctx context.Context) (result, error) {
	if err := e.load(ctx); err != nil {
		return result{}, err
	}
	if field, err := e.pausedMeanwhile(ctx); err != nil || field != "" {
		return notInstalled(fmt.Sprintf("Not begun, because %s is true.", field)), err
	}
	return result{skipped: true, message: "No slot is needed: a person asked for it."}, nil
}

// waitToInstall waits until the host may be drained for the updates that it has downloaded. It ends the operation when that
// may last, or something else is to be done first, so that the host can have another one; the files stay.
func (e *execution) waitToInstall(ctx context.Context) (result, error) {
	goesOn := e.pace.waits()
	defer goesOn()
	for asked := (time.Time{}); ; {
		if field, err := e.pausedMeanwhile(ctx); err != nil || field != "" {
			return notInstalled(fmt.Sprintf("Not begun, because %s is true.", field)), err
		}
		if e.operation().Admitted() {
			return result{message: "The host may be disrupted now."}, nil
		}
		e.yield()
		if now := e.clock.Now(); now.Sub(asked) >= withdrawnInterval {
			if why, err := e.withdrawn(ctx); err != nil || why != "" {
				return notInstalled(why), err
			}
			asked = now
		}
		waitsFor := e.Policy.WaitsFor(e.key)
		first := e.Policy.GivesWayTo(e.key)
		switch {
		case first != "":
			return notInstalled("First, " + first), nil
		case meta.IsStatusConditionFalse(e.instance.Status.Conditions, v1alpha1.ConditionConfigured):
			return notInstalled("First, the host has to be configured again."), nil
		case e.Policy.Postponed(e.key):
			return notInstalled(waitsFor), nil
		case !e.clock.Now().Before(e.deadline(e.operation().FindStep(e.current).StartedAt.Time, updatesWait)):
			return notInstalled(fmt.Sprintf("The host has waited for %s. %s", duration.HumanDuration(updatesWait), waitsFor)), nil
		}
		if err := e.waitForPolicy(ctx, waitsFor); err != nil {
			return result{}, err
		}
	}
}

// pausedMeanwhile says which field pauses the instance by now, for an operation that waits and has disturbed nothing yet: it is as one that
// has not begun, see [execution.refusal]. Empty: none does, or the host is half way, which is worse than either end.
func (e *execution) pausedMeanwhile(ctx context.Context) (field string, err error) {
	if op := e.operation(); op.Type != v1alpha1.OperationRemove && op.MayHaveChangedHost() || cordonedByUs(op) { // a removal notes there whose host it was
		return "", nil
	}
	pool, err := e.pool(ctx)
	if err != nil {
		return "", err
	}
	return object.PausedBy(e.instance, pool), nil
}

// notInstalled ends an operation whose updates are not installed now.
func notInstalled(why string) result {
	return result{enough: true, message: strings.TrimSpace("Updates of Windows were downloaded, and are not installed now. " + why)}
}

// planAgain has the operation go on at the step Plan, for a host that has to join again.
func planAgain(why string) result {
	return result{again: v1alpha1.StepPlan, message: fmt.Sprintf("While it waited, the host has lost its place in the cluster: %s. A new plan is being made.", why)}
}
