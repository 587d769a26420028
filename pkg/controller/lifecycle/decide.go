// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package lifecycle

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/backoff"
	"github.com/openshift/windows-instance-api/pkg/controller/internal/object"
)

// Reasons of the events about why a host is configured.
const (
	eventFirstConfiguration = "FirstConfiguration"
	eventRevisionChanged    = "RevisionChanged"
	eventInterrupted        = "Interrupted"
	eventRetried            = "ConfigurationRetried"
	eventNodeGone           = "NodeGone"
	eventRejoining          = "Rejoining"
)

// configureBackoff is between the end of an operation that configured the host and the next
// one that the controller records, after failures.
var configureBackoff = wait.Backoff{Duration: time.Minute, Factor: 2, Cap: 30 * time.Minute}

// drainBackoff takes its place while a host works whose pods did not leave: each attempt evicts those that do once more, and has a slot
// meanwhile.
var drainBackoff = wait.Backoff{Duration: 10 * time.Minute, Factor: 2, Cap: 6 * time.Hour}

// nodePatience is for how long a host of which no operation tells that it had a Node may have none. It may just have
// been logged in to for the first time, and its Node, of which others write the addresses, be found a moment later.
const nodePatience = time.Minute

// changedPause takes the place of configureBackoff if the failure says nothing about the
// present configuration. The status must have the failure before the next decision, and an
// operation and a status that never agree about a revision must not keep a host busy.
const changedPause = 10 * time.Second

// snapshot has everything that decides about an instance.
type snapshot struct {
	instance *v1alpha1.WindowsInstance
	// managed: hosts are configured, and not only watched.
	managed bool
	// paused says what leaves the host alone, as a field of the API. Empty: nothing.
	paused string
	// terminating: the namespace of the instance is being deleted.
	terminating bool
	// heir is the instance that has the host of one that was deleted from now on. Nil: there is none.
	heir *v1alpha1.WindowsInstance
	// awaited: there may be one in a moment.
	awaited bool
	// wanted: the source of one that was deleted asks for it again.
	wanted bool
	// machineLeaving: it is time to give up the host of one that was deleted, and its Machine, which is being deleted, is still there.
	machineLeaving bool
	// pool of the instance. Nil: there is none.
	pool *v1alpha1.WindowsNodePool
	// turn is whether the removal of its host may begin, as far as other hosts decide.
	turn turn
	now  time.Time
}

// verb is what is done about an instance.
type verb string

const (
	// doNothing: there is nothing to do, or it is to be waited.
	doNothing verb = "Nothing"
	// doHold adds the finalizer.
	doHold verb = "Hold"
	// doRecord records an operation.
	doRecord verb = "Record"
	// doCancel asks for the end of the operation that is active.
	doCancel verb = "Cancel"
	// doHandOver gives what is known of the host to the instance that has it from now on, and
	// removes the finalizer.
	doHandOver verb = "HandOver"
	// doRelease removes the finalizer: nothing of ours is on the host, or nothing that does anything.
	doRelease verb = "Release"
	// doAbandon deletes the Node, unless nothing was done to the host, and takes the
	// finalizer away. The host stays as it is.
	doAbandon verb = "Abandon"
)

// action is the answer of [decide].
type action struct {
	do verb
	// operation is the type of the operation to record.
	operation v1alpha1.OperationType
	// event tells of what was done. Nil: nothing is told.
	event *event
	// turn is what the pool is to remember before anything is recorded.
	turn turn
	// removed is what the condition Removed is to say. Nil: nothing.
	removed *metav1.Condition
	// again is when to decide again. Zero: when an object changes.
	again time.Time
	// pending: the host is to be configured or cleaned, and that has not begun.
	pending bool
}

// event is an event about an instance that is to be sent.
type event struct {
	eventType, reason, note string
}

func normal(reason, format string, args ...any) *event {
	return &event{corev1.EventTypeNormal, reason, fmt.Sprintf(format, args...)}
}

func warning(reason, format string, args ...any) *event {
	return &event{corev1.EventTypeWarning, reason, fmt.Sprintf(format, args...)}
}

// decide says what to do about an instance. It depends on nothing else.
func decide(s snapshot) action {
	if !s.instance.DeletionTimestamp.IsZero() {
		return s.remove()
	}
	if s.instance.Status.KeptOff() != nil {
		return action{do: doNothing}
	}
	configure := action{do: doNothing}
	if s.managed {
		configure = s.configure()
	}
	if !s.held() && (configure.do == doRecord || s.contacted()) {
		// Before the first thing is put on the host. Its being there brings the next decision.
		return action{do: doHold, pending: configure.pending}
	}
	return configure
}

// contacted says whether the host lets us in, or an operation is about to try that: the next thing
// is our agent, which stays there. A host whose key is not known yet lets nobody in.
func (s snapshot) contacted() bool {
	status := &s.instance.Status
	if len(status.HostKeys) == 0 && len(s.instance.Spec.HostKeys) == 0 {
		return false
	}
	return status.Operation.Active() || status.Version != "" ||
		meta.IsStatusConditionTrue(status.Conditions, v1alpha1.ConditionAuthenticated)
}

// configure decides about a host that stays.
func (s snapshot) configure() action {
	status := &s.instance.Status
	if status.Operation.Active() {
		return action{do: doNothing, pending: status.Operation.Type == v1alpha1.OperationReconfigure && status.Operation.Phase == v1alpha1.OperationPending}
	}
	why := s.lacks()
	if why == nil || s.paused != "" {
		return action{do: doNothing}
	}
	if s.works() {
		return action{do: doNothing, pending: true} // package rollout decides when
	}
	if due := s.due(); due.After(s.now) {
		return action{do: doNothing, again: due, pending: true}
	}
	return action{do: doRecord, operation: v1alpha1.OperationReconfigure, event: why, pending: true}
}

// works says whether the host works as a node with the revision that it has, so that another one is an update,
// which is a matter of its pool. Everything else is repaired at once: nothing more is out of service by it.
func (s snapshot) works() bool {
	status := &s.instance.Status
	c := s.configured()
	return c != nil && c.Status == metav1.ConditionTrue && status.Node != nil && status.CurrentRevision != "" && status.CurrentRevision != status.DesiredRevision
}

// Update says whether a host that works as a node is to get another configuration, and from when on it may.
// pool is that of its instance, nil if there is none. It depends on nothing else. Who records the update is
// package rollout. An operation that gives way keeps no host from it. While the pool of an instance does not exist, or nobody has confirmed what
// the host is to have, it is left as it is.
func Update(instance *v1alpha1.WindowsInstance, pool *v1alpha1.WindowsNodePool, now time.Time) (due time.Time, ok bool) {
	s := snapshot{instance: instance, pool: pool, paused: object.PausedBy(instance, pool), now: now}
	if instance.LeftAsItIs(pool) {
		return time.Time{}, false
	}
	if !instance.DeletionTimestamp.IsZero() || instance.Status.KeptOff() != nil || instance.Status.Operation.Active() && !instance.Status.GivesWay() || s.paused != "" || !s.held() || !s.works() || s.lacks() == nil {
		return time.Time{}, false
	}
	return s.due(), true
}

// Retried says whether a host that does not work as a node with what it has is configured by itself, at the latest when the next attempt is
// due. pool is that of its instance, nil if there is none. It depends on nothing else. After somebody has canceled it, that is not said:
// whoever waits for it should not do so for long.
func Retried(instance *v1alpha1.WindowsInstance, pool *v1alpha1.WindowsNodePool, now time.Time) bool {
	status := &instance.Status
	s := snapshot{instance: instance, pool: pool, paused: object.PausedBy(instance, pool), now: now}
	if !instance.DeletionTimestamp.IsZero() || status.KeptOff() != nil || status.Operation.Active() || instance.LeftAsItIs(pool) || s.paused != "" || s.works() || s.lacks() == nil {
		return false
	}
	last := status.NewestOperation(v1alpha1.OperationReconfigure)
	return last == nil || last.Phase != v1alpha1.OperationCanceled || last.Withdrawn()
}

// lacks says why the host is to be configured, nil if it is not to be, or cannot be at the moment.
func (s snapshot) lacks() *event {
	status := &s.instance.Status
	c := s.configured()
	switch {
	case c == nil || c.Status == metav1.ConditionUnknown || c.Reason == v1alpha1.ReasonInputsMissing,
		status.ReleaseBegunBy() != nil, // whoever gave the host away does not want it back by itself
		status.DesiredRevision == "",
		status.ObservedGeneration != s.instance.Generation, // the host of another spec was probed
		!meta.IsStatusConditionTrue(status.Conditions, v1alpha1.ConditionPreflightPassed):
		return nil
	}
	last, desired := status.NewestOperation(v1alpha1.OperationReconfigure), v1alpha1.ShortRevision(status.DesiredRevision)
	switch {
	case last.BrokenOff() && (c.Status == metav1.ConditionFalse || status.Node == nil || status.CurrentRevision != status.DesiredRevision && (last.Revision == "" || last.Revision == status.DesiredRevision)):
		return normal(eventRetried, "Configuring the host again with revision %s, because operation %s did not complete.", desired, last.ID)
	case status.CurrentRevision == "" && last == nil:
		return normal(eventFirstConfiguration, "Configuring the host for the first time, with revision %s.", desired)
	case status.CurrentRevision != "" && c.Reason == v1alpha1.ReasonKubeletCertificateUnusable:
		return normal(eventRejoining, "Configuring the host again with revision %s, so that it joins the cluster again. %s", desired, c.Message)
	case status.CurrentRevision != "" && status.Node == nil && last != nil && last.Phase == v1alpha1.OperationSucceeded && last.Node != nil:
		return normal(eventNodeGone, "Configuring the host again with revision %s, so that it joins the cluster again: its Node %s no longer exists.", desired, last.Node.Name)
	case s.nodeless() != nil:
		return normal(eventNodeGone, "Configuring the host again with revision %s, so that it joins the cluster again: it is configured, and no Node has its address or provider ID.", desired)
	case status.CurrentRevision != "" && status.CurrentRevision != status.DesiredRevision:
		return normal(eventRevisionChanged, "Configuring the host, which has revision %s, with revision %s.", v1alpha1.ShortRevision(status.CurrentRevision), desired)
	case c.Status == metav1.ConditionFalse:
		return normal(eventInterrupted, "Configuring the host again with revision %s, because it was not configured completely.", desired)
	}
	return nil
}

// nodeless is the condition that says that a host which is configured completely has no Node, nil if it does not. Its kubelet does not
// register again by itself. It takes no operation to know that: the last one that has configured the host may have left the history, and an
// instance that came later than the configuration of its host, as that of an entry which was put back, has none.
func (s snapshot) nodeless() *metav1.Condition {
	status, c := &s.instance.Status, s.configured()
	if c == nil || c.Status != metav1.ConditionTrue || status.CurrentRevision == "" || status.Node != nil {
		return nil
	}
	if c = meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionNodeReady); c == nil || c.Reason != v1alpha1.ReasonNoNode {
		return nil
	}
	return c
}

// due is from when on the host may be configured. Zero: at any time.
func (s snapshot) due() time.Time {
	status := &s.instance.Status
	last := status.NewestOperation(v1alpha1.OperationReconfigure)
	if c := s.nodeless(); last == nil && c != nil && !c.LastTransitionTime.After(s.now) {
		return c.LastTransitionTime.Add(nodePatience)
	}
	if last == nil || !s.hasEnded(last) {
		return time.Time{}
	}
	// The condition speaks of the generation that failed.
	respecified := slices.ContainsFunc(status.Conditions, func(c metav1.Condition) bool {
		switch c.Reason {
		case v1alpha1.ReasonConfigurationFailed, v1alpha1.ReasonUpdateFailed, v1alpha1.ReasonUpdateCanceled:
			return c.Type != v1alpha1.ConditionReady && c.ObservedGeneration != s.instance.Generation
		}
		return false
	})
	changed := last.Revision != "" && last.Revision != status.DesiredRevision
	var pause time.Duration
	switch {
	case last.Phase == v1alpha1.OperationSucceeded && changed && last.Revision == status.CurrentRevision:
		return time.Time{} // what it did was seen, and more is wanted since
	case changed, respecified, last.Withdrawn(), last.FailedToDrainOtherwise(s.pool):
		pause = changedPause
	case last.Phase == v1alpha1.OperationCanceled:
		pause = configureBackoff.Cap // somebody does not want it now
	case s.works() && failedToDrain(last) && meta.IsStatusConditionTrue(status.Conditions, v1alpha1.ConditionNodeReady): // one that is out of service is repaired by it
		pause = backoff.After(drainBackoff, attempts(status, last))
	default:
		// After a success too: the host is checked again before it is known what it brought.
		pause = backoff.After(configureBackoff, attempts(status, last))
	}
	return last.FinishedAt.Add(pause)
}

// failedToDrain says whether an operation failed before it had done anything but evict pods, which return. The history, which has no steps, does
// not know that.
func failedToDrain(o *v1alpha1.Operation) bool {
	step := o.FindStep(v1alpha1.StepDrain)
	return step != nil && step.State == v1alpha1.StepFailed && !o.MayHaveChangedHost()
}

// hasEnded says whether it is known when an operation ended. An end that is still to come was written
// by a clock that ran ahead; waiting for it could take days.
func (s snapshot) hasEnded(o *v1alpha1.Operation) bool {
	return o.FinishedAt != nil && !o.FinishedAt.After(s.now)
}

// configured is the condition of that name, nil while nothing is known that it could
// be decided by.
func (s snapshot) configured() *metav1.Condition {
	c := meta.FindStatusCondition(s.instance.Status.Conditions, v1alpha1.ConditionConfigured)
	if c != nil && c.Reason == v1alpha1.ReasonNotManaged {
		return nil
	}
	return c
}

// attempts counts how often in a row we had done what last, the newest operation of its
// type, did, and it ended in the same way. What a person asked for in between counts
// for nothing, except that there was at least one attempt.
func attempts(status *v1alpha1.WindowsInstanceStatus, last *v1alpha1.Operation) int {
	n := 0
	for _, o := range status.Operations() {
		if o.Type != last.Type {
			continue
		}
		if o.BrokenOff() != last.BrokenOff() || o.Revision != "" && last.Revision != "" && o.Revision != last.Revision {
			break
		}
		if o.ByController() && !o.Withdrawn() {
			n++
		}
	}
	return max(n, 1)
}
