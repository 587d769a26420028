// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package v1alpha1

import (
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Active says whether the operation is pending or running. That of an instance
// which never had any, nil, is not.
func (o *Operation) Active() bool {
	return o != nil && (o.Phase == OperationPending || o.Phase == OperationRunning)
}

// HostPhase is the phase of a host while an operation works on it, whatever else
// is known: that a host which restarts cannot be reached is no news. Empty: none does.
func (o *Operation) HostPhase() WindowsInstancePhase {
	if o == nil || o.Phase != OperationRunning {
		return ""
	}
	switch o.Type {
	case OperationDrain:
		return InstanceDraining
	case OperationReboot:
		return InstanceRebooting
	case OperationReconfigure, OperationAdopt:
		return InstanceConfiguring
	case OperationRestartServices:
		return InstanceJoining
	case OperationRemove:
		return InstanceRemoving
	case OperationUncordon, OperationRelease: // over in no time, and they disturb nothing
	}
	return ""
}

// Admitted says whether the policy of the pool has allowed what the operation costs. A drain and a restart of
// Windows are the same to it: either takes the Node out of service.
func (o *Operation) Admitted() bool {
	switch o.AdmittedImpact {
	case ImpactDrain, ImpactReboot:
		return true
	case ImpactRestart:
		return o.Impact != ImpactDrain && o.Impact != ImpactReboot
	case ImpactNone:
		return o.Impact == "" || o.Impact == ImpactNone
	}
	return false
}

// BrokenOff says whether the operation ended without success. None, nil,
// did not.
func (o *Operation) BrokenOff() bool {
	return o != nil && (o.Phase == OperationFailed || o.Phase == OperationCanceled)
}

// String returns, in one line, the pod and what blocks its eviction.
func (p BlockedPod) String() string {
	text := p.Namespace + "/" + p.Name
	if p.Budget != "" {
		text += " (PodDisruptionBudget " + p.Budget + ")"
	}
	if p.Message != "" {
		text += ": " + strings.Join(strings.Fields(p.Message), " ")
	}
	return text
}

// Operations goes over all operations of the instance that are known, counted from zero, the newest first. They are
// those of the status, and no copies. It needs no memory: thousands of hosts are looked at again and again.
func (s *WindowsInstanceStatus) Operations() iter.Seq2[int, *Operation] {
	return func(yield func(int, *Operation) bool) {
		n := 0
		if s.Operation != nil {
			if !yield(n, s.Operation) {
				return
			}
			n++
		}
		for i := range s.History {
			if !yield(n+i, &s.History[i]) {
				return
			}
		}
	}
}

// OperationList returns what [WindowsInstanceStatus.Operations] goes over.
func (s *WindowsInstanceStatus) OperationList() []*Operation {
	out := make([]*Operation, 0, 1+len(s.History))
	for _, o := range s.Operations() {
		out = append(out, o)
	}
	return out
}

// NewestOperation is the newest operation of a type, nil if none is known. Those before the host was released do not count:
// they say nothing of what others have made of it since.
func (s *WindowsInstanceStatus) NewestOperation(t OperationType) *Operation {
	return s.newest(func(o *Operation) bool { return o.Type == t })
}

// newest is the newest operation that counts, nil if none is known since the host was released.
func (s *WindowsInstanceStatus) newest(counts func(*Operation) bool) *Operation {
	for _, o := range s.Operations() {
		switch {
		case counts(o):
			return o
		case o.HostReleased:
			return nil
		}
	}
	return nil
}

// ReleasedBy is the operation that has released the host, nil if none has, or if the host was changed since.
func (s *WindowsInstanceStatus) ReleasedBy() *Operation {
	for _, o := range s.Operations() {
		switch {
		case o.HostReleased:
			return o
		case o.MayHaveChangedHost():
			return nil
		}
	}
	return nil
}

// ReleaseBegunBy is the operation that may have begun to release the host, and is not known to have completed that. Nil: there is none, or
// the host was released or changed since.
func (s *WindowsInstanceStatus) ReleaseBegunBy() *Operation {
	for _, o := range s.Operations() {
		switch {
		case o.ReleaseBegun:
			return o
		case o.HostReleased, o.MayHaveChangedHost():
			return nil
		}
	}
	return nil
}

// ControllerRequester is who requests the operations that the controller records by itself.
// A user may have the same name: see [Operation.ByController].
const ControllerRequester = "windows-controller"

// ByController says whether the controller recorded the operation by itself, as opposed to
// one that a user requested. Operations that an earlier release recorded have no origin:
// those are recognized by the name of their requester.
func (o *Operation) ByController() bool {
	if o.Origin == "" {
		return o.RequestedBy == ControllerRequester
	}
	return o.Origin == OriginController
}

// GivesWay says whether the operation of the instance may end for another one of the controller: the controller recorded it itself and does
// so again, it waits for its slot, and nothing of the host or its Node was changed, but for updates of Windows that were downloaded. One for an
// annotation that has become an update of the host does not.
func (s *WindowsInstanceStatus) GivesWay() bool {
	o := s.Operation
	if !s.GivesWayToPeople() || o.Cause != CauseWindowsUpdates && o.Cause != CauseVersionChanged {
		return false
	}
	return o.Cause != CauseVersionChanged || o.Revision == "" || o.Revision != s.DesiredRevision || o.Revision == s.CurrentRevision
}

// GivesWayToPeople says whether the operation of the instance ends for one that a person asks for: the controller recorded it itself and does so
// again if it is still needed, it waits for its slot, and nothing of the host or its Node was changed.
func (s *WindowsInstanceStatus) GivesWayToPeople() bool {
	o := s.Operation
	if !o.Active() || !o.ByController() || o.Type == OperationRemove || o.Admitted() || o.HostChanged {
		return false
	}
	cordon := o.FindStep(StepCordon)
	return o.At(StepWaitForSlot) && (cordon == nil || cordon.StartedAt == nil)
}

// Withdrawn says whether the operation ended because the controller did not want it any more, or because it gave way, and not because
// somebody has canceled it.
func (o *Operation) Withdrawn() bool {
	return o != nil && o.Phase == OperationCanceled && o.CancelRequestedAt == nil && o.CancelRequestedBy == ""
}

// NewestAttempt is the newest operation of a type, without those that were withdrawn before they changed the host: these were no attempt, and
// are recorded again. Nil: none is known since the host was released.
func (s *WindowsInstanceStatus) NewestAttempt(t OperationType) *Operation {
	return s.newest(func(o *Operation) bool {
		begun := begunRemoval(o) || o.Type != OperationRemove && o.MayHaveChangedHost() // a removal notes there whose host it was
		return o.Type == t && (begun || !o.Withdrawn())
	})
}

// MaxHistory is how many operations an instance keeps besides the newest; see
// status.history. Of an instance with that many, operations before its oldest one may be missing, and others behind the first [GaplessHistory].
const MaxHistory = 10

// GaplessHistory is how many of the newest operations of a history are surely all that there were.
const GaplessHistory = MaxHistory - 3

// MaxOperationMessage is how long each message of an operation may be, in bytes: that of the
// operation, of a step and of a pod that blocks it. An object keeps many of them, and an
// error of a host or of a server may have any length.
const MaxOperationMessage = 4096

// OperationIDLength is how many random characters the ID of an operation has besides its
// type: enough for the few operations that one instance ever has.
const OperationIDLength = 8

// NewOperation returns a pending operation. Its ID is one that people
// can say and type: the type, and random, which has [OperationIDLength] characters.
func NewOperation(t OperationType, random string, origin OperationOrigin, requestedBy string, now time.Time) *Operation {
	return &Operation{
		ID:          strings.ToLower(string(t)) + "-" + random,
		Type:        t,
		Phase:       OperationPending,
		RequestedBy: requestedBy,
		Origin:      origin,
		RequestedAt: metav1.NewTime(now.Truncate(time.Second)),
	}
}

// Record makes o the operation of the instance. The one before goes to the history, without its steps. The history keeps the newest
// [MaxHistory] operations; those that decided how the host works are not dropped before a release begins, see status.history. What those that were
// dropped did to the host is noted in the oldest that is kept, and that a removal had begun in the oldest removal.
//
// Record fails, and changes nothing, while another operation is active, as both would work on the same host. One that gives way ends for what a
// person asks for.
func (s *WindowsInstanceStatus) Record(o *Operation) error {
	last := s.Operation
	if s.GivesWayToPeople() && !o.ByController() {
		s.Operation = last.DeepCopy()
		s.Operation.Phase, s.Operation.FinishedAt = OperationCanceled, o.RequestedAt.DeepCopy()
		s.Operation.Message = fmt.Sprintf("It waited for its slot and was not continued, because %s has asked for operation %s.", o.RequestedBy, o.ID)
	} else if last.Active() {
		return fmt.Errorf("operation %s, requested by %s at %s, is %s: wait until it has ended, or cancel it",
			last.ID, last.RequestedBy, last.RequestedAt.UTC().Format(time.RFC3339), strings.ToLower(string(last.Phase)))
	}
	s.Operation, s.History = o, archive(s.OperationList())
	return nil
}

// archive makes a history of operations, the newest first.
func archive(operations []*Operation) []Operation {
	var history []Operation
	released := false
	for _, o := range keepLasting(operations) {
		if len(history) < MaxHistory {
			history = append(history, o.archived())
		} else if oldest := &history[MaxHistory-1]; !released && !oldest.HostChanged {
			// What was done last counts: a change after the release, or the release.
			oldest.HostChanged, oldest.HostReleased = o.MayHaveChangedHost() && !o.HostReleased, o.HostReleased
			oldest.ReleaseBegun = oldest.ReleaseBegun || o.ReleaseBegun
		}
		released = released || o.HostReleased
		if len(history) == MaxHistory && begunRemoval(o) {
			noteBegunRemoval(history)
		}
	}
	return history
}

// keepLasting has the operations that the history keeps come first: the newest, with up to three that last however many follow, unless a release
// has begun since. They are the newest configuration that succeeded or disturbed the host, the newest that changed it, and the newest restart by the
// policy of the pool: by these it is known with what the host works, or what broke it.
func keepLasting(operations []*Operation) []*Operation {
	released := func(o *Operation) bool { return o.HostReleased || o.ReleaseBegun }
	var lasting []*Operation
	for _, lasts := range []func(*Operation) bool{(*Operation).decided, (*Operation).changedHost, (*Operation).RestartedByPool} {
		n := slices.IndexFunc(operations, func(o *Operation) bool { return released(o) || lasts(o) })
		if n >= 0 && !released(operations[n]) && !slices.Contains(lasting, operations[n]) {
			lasting = append(lasting, operations[n])
		}
	}
	var kept, dropped []*Operation
	left := len(lasting)
	for _, o := range operations {
		switch {
		case slices.Contains(lasting, o):
			kept, left = append(kept, o), left-1
		case len(kept) < MaxHistory-left:
			kept = append(kept, o)
		default:
			dropped = append(dropped, o)
		}
	}
	return slices.Concat(kept, dropped)
}

// changedHost says whether an operation is a configuration that has changed its host. The oldest of a history may have noted that of one before it.
func (o *Operation) changedHost() bool {
	return o.Type == OperationReconfigure && o.MayHaveChangedHost() && !o.Untouched()
}

// decided says whether an operation is a configuration that succeeded, or that disturbed its host.
func (o *Operation) decided() bool {
	return o.Type == OperationReconfigure && (o.Phase == OperationSucceeded || o.Disturbed() && o.changedHost())
}

// Disturbed says whether a configuration has changed a host that is a node at a cost for it. One whose kubelet could not report was out of
// service before, as one that is no node yet.
func (o *Operation) Disturbed() bool {
	return o.Node != nil && !o.JoinsAgain && o.Impact != ImpactNone && o.MayHaveChangedHost()
}

// RestartedByPool says whether Windows was restarted because the pool asks for it, Windows or the Node waits for it, or for updates of Windows.
func (o *Operation) RestartedByPool() bool {
	if o.Type != OperationReboot || o.BootID == "" {
		return false
	}
	switch o.Cause {
	case CauseRestartRequested, CauseRestartPending, CauseRestartAnnotated, CauseWindowsUpdates:
		return true
	}
	return false
}

// noteBegunRemoval notes in the oldest removal that ran that one before had begun.
func noteBegunRemoval(history []Operation) {
	for i := range slices.Backward(history) {
		if o := &history[i]; o.Type == OperationRemove && o.StartedAt != nil {
			o.HostUntouched = false
			return
		}
	}
}

// RemovalBegun says whether a removal has done something to the host or to its Node, however the
// attempts after it ended: the host is half way, and its removal goes on.
func (s *WindowsInstanceStatus) RemovalBegun() bool {
	for _, o := range s.Operations() {
		if begunRemoval(o) {
			return true
		}
	}
	return false
}

// RemovalGoesOn says whether the operation of the instance is a removal that goes on with what one before it has begun, and the Node is cordoned
// since. Where somebody has canceled that one, or uncordoned the Node, it takes pods again.
func (s *WindowsInstanceStatus) RemovalGoesOn() bool {
	o := s.Operation
	return o.Active() && o.Type == OperationRemove && o.Node != nil && o.Node.WasUnschedulable && s.RemovalBegun()
}

// RemovalWaits says whether the operation of the instance is a removal that waits for its slot.
func (s *WindowsInstanceStatus) RemovalWaits() bool {
	o := s.Operation
	if !o.Active() || o.Type != OperationRemove || o.AdmittedImpact != "" || o.Node == nil || s.RemovalGoesOn() {
		return false
	}
	return o.At(StepWaitForSlot)
}

func begunRemoval(o *Operation) bool { return o.Type == OperationRemove && !o.Untouched() }

// Inherit takes over what was done to the host from an instance that represented it before, and since when that waited for a
// confirmation. That its removal was tried is not among it: the host stays. Repeating it is harmless.
func (s *WindowsInstanceStatus) Inherit(from *WindowsInstanceStatus) {
	s.UnconfirmedSince = from.UnconfirmedSince.DeepCopy()
	all := s.OperationList()
	for _, o := range from.Operations() {
		known := slices.ContainsFunc(all, func(k *Operation) bool { return k.ID == o.ID })
		if o.Type != OperationRemove && !known {
			all = append(all, o)
		}
	}
	if len(all) == 0 {
		return
	}
	newest := all[0].DeepCopy()
	s.Operation, s.History = newest, archive(all[1:])
}

// archived is the operation as the history keeps it.
func (o *Operation) archived() Operation {
	out := *o
	out.HostChanged, out.HostUntouched, out.Steps = o.MayHaveChangedHost(), o.Untouched() || o.Type == OperationAdopt && !o.AdoptionBegun(), nil
	return out
}

// nothingWasChanged is the end of messages of operations that have not come to change the host.
const nothingWasChanged = " Nothing was changed."

// AdoptionBegun says whether an adoption has come to where it changes the host: nobody may manage that any more. Of those in the history that
// an earlier release has recorded only the message tells how far they came: unless it says that nothing was changed, they have.
func (o *Operation) AdoptionBegun() bool {
	if len(o.Steps) == 0 {
		return o.Type == OperationAdopt && !o.Untouched() && !strings.HasSuffix(o.Message, nothingWasChanged)
	}
	step := o.FindStep(StepAdopt)
	return step != nil && step.StartedAt != nil
}

// AdoptionBrokeOff says whether the newest adoption of the host as a Node that came to change it, but for one that runs now, was not completed, and
// nothing else has changed the host since. It had proven then that WMCO had configured the host, which nothing on it may tell any more.
func (s *WindowsInstanceStatus) AdoptionBrokeOff(node types.UID) bool {
	for _, op := range s.Operations() {
		switch {
		case op.Active() && op.Type == OperationAdopt:
		case op.HostReleased || op.MayHaveChangedHost():
			return false
		case op.Type == OperationAdopt:
			if op.AdoptionBegun() {
				return op.BrokenOff() && op.Node != nil && op.Node.UID == node
			}
		}
	}
	return false
}

// MayHaveChangedHost says whether the operation has begun to change what the host is configured
// with, or nobody knows. Operations of releases that did not record that have no step
// WaitForSlot: those count from when their step Apply began.
func (o *Operation) MayHaveChangedHost() bool {
	if o.HostChanged || o.FindStep(StepWaitForSlot) != nil {
		return o.HostChanged
	}
	apply := o.FindStep(StepApply)
	return apply != nil && apply.StartedAt != nil
}

// Recorded are the options as an operation records them, with the defaults.
func (o PoolDrainOptions) Recorded() *DrainOptions {
	SetDefaults_PoolDrainOptions(&o)
	return &DrainOptions{
		GracePeriodSeconds: o.GracePeriodSeconds, TimeoutSeconds: o.TimeoutSeconds, IgnoreDaemonSets: new(true),
		DeleteEmptyDirData: *o.DeleteEmptyDirData, Force: *o.Force, SkipWaitForDeleteTimeoutSeconds: o.SkipWaitForDeleteTimeoutSeconds,
	}
}

// FailedToDrainOtherwise says whether an operation that has the drain options of a pool failed in its drain, as far as is known, when these were others
// than they are now. pool is that of its instance now, nil if there is none. Releases that did not record the options say nothing.
func (o *Operation) FailedToDrainOtherwise(pool *WindowsNodePool) bool {
	if o == nil || o.Phase != OperationFailed || o.Drain == nil || o.MayHaveChangedHost() || o.BootID != "" {
		return false
	}
	if step := o.FindStep(StepDrain); step != nil && step.State != StepFailed {
		return false
	}
	var now PoolDrainOptions
	if pool != nil {
		now = pool.Spec.UpdateStrategy.Drain
	}
	return !equality.Semantic.DeepEqual(o.Drain, now.Recorded())
}

// MustJoinAgain says whether the host, which has a Node, has yet to join the cluster again. Releases
// that did not record that wrote why into the message of the step Join, when the step Plan had ended.
func (o *Operation) MustJoinAgain() bool {
	plan, join := o.FindStep(StepPlan), o.FindStep(StepJoin)
	return o.JoinsAgain || plan != nil && join != nil && plan.Ended() && !join.Ended() && join.Message != ""
}

// MayHaveChangedHost says whether the host was, or may have been, changed by an operation that
// configured it. Otherwise its Node, if it has one, is what others made it, and nothing of ours
// is on the host but our agent.
func (s *WindowsInstanceStatus) MayHaveChangedHost() bool {
	if s.ChangedHost() {
		return true
	}
	// Where hosts are only watched, it is the digest of the agent.
	c := meta.FindStatusCondition(s.Conditions, ConditionConfigured)
	return s.CurrentRevision != "" && c != nil && c.Reason != ReasonNotManaged
}

// ChangedHost says whether an operation of this instance, or of one that handed the host over to
// it, has changed the host, or may have, since it was released last. Otherwise what is on the host was there when the instance
// came, and may be that of another one.
func (s *WindowsInstanceStatus) ChangedHost() bool {
	for _, o := range s.Operations() {
		switch {
		case o.HostReleased:
			return false
		case o.MayHaveChangedHost():
			return true
		}
	}
	return false
}

// Cancel requests the end of the operation with this ID. To do so twice is the same as to do
// so once. It fails if that operation is not active.
func (s *WindowsInstanceStatus) Cancel(id, requestedBy string, now time.Time) error {
	o := s.Operation
	switch {
	case o == nil:
		return fmt.Errorf("there is no operation %s: the instance never had any", id)
	case o.ID != id && o.Active():
		return fmt.Errorf("operation %s does not run; the one that does is %s, requested by %s", id, o.ID, o.RequestedBy)
	case o.ID != id:
		return fmt.Errorf("operation %s does not run, nor does any other", id)
	case !o.Active():
		return fmt.Errorf("operation %s has ended already: %s", id, strings.ToLower(string(o.Phase)))
	case o.CancelRequestedAt != nil:
		return nil
	}
	o.CancelRequestedBy = requestedBy
	o.CancelRequestedAt = new(metav1.NewTime(now.Truncate(time.Second)))
	return nil
}

// LastRestart is when Windows was last started on the host, as far as anything is known of it: by the host, whose clock
// may be wrong, or by an operation. Zero: nothing is.
func (s *WindowsInstanceStatus) LastRestart() time.Time {
	var at time.Time
	if s.RestartedAt != nil {
		at = s.RestartedAt.Time
	}
	if s.System != nil && s.System.BootTime != nil && s.System.BootTime.After(at) {
		at = s.System.BootTime.Time
	}
	return at
}

// shortRevision is how many digits of a revision are shown to people.
const shortRevision = 12

// ShortRevision is what people are shown of a revision: enough to tell it from others.
// What is compared, and what is in a status, is the whole.
func ShortRevision(revision string) string {
	return revision[:min(len(revision), shortRevision)]
}
