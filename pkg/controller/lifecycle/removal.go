// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package lifecycle

import (
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/backoff"
	"github.com/openshift/windows-instance-api/pkg/controller/internal/message"
	"github.com/openshift/windows-instance-api/pkg/controller/internal/origin"
)

// Reasons of the events about hosts that go.
const (
	eventRemoving  = "Removing"
	eventRemoved   = "Removed"
	eventAbandoned = "Abandoned"
	eventLeft      = "HostLeft"
)

// removeBackoff is between attempts to clean a host that fail.
var removeBackoff = wait.Backoff{Duration: 30 * time.Second, Factor: 2, Cap: 10 * time.Minute}

// machineInterval is how often is looked whether the Machine of a host is still there that would be given up without it. The Machine API takes
// a Node that is gone for one that is drained, and ends the virtual machine with all pods.
const machineInterval = 30 * time.Second

// remove decides about a host whose instance was deleted.
func (s snapshot) remove() action {
	if !s.held() {
		return action{do: doNothing}
	}
	status := &s.instance.Status
	last := status.Operation
	removal := status.NewestAttempt(v1alpha1.OperationRemove)
	if status.KeptOff() != nil {
		why := "another instance represents it"
		if status.OfAnotherNamespace() {
			why = "it was configured for another namespace"
		}
		return action{do: doRelease, event: normal(eventLeft, "The host was not touched, because %s.", why)}
	}
	if s.terminating && (!last.Active() || last.StartedAt == nil) {
		return action{do: doRelease, event: s.leftBehind()}
	}
	if a, ok := s.inherit(); ok && !last.Active() {
		return a
	}
	switch {
	case s.policy() == v1alpha1.RemovalAbandon:
		return s.abandon("because spec.removal.policy is Abandon.")
	case last.Active() && last.Type == v1alpha1.OperationRemove:
		return action{do: doNothing, removed: s.removing("%s", progress(last))}
	case last.Active():
		ending := action{do: doNothing, pending: true, removed: s.removing("Operation %s was canceled so that the host can be cleaned; cleaning starts when it has ended.", last.ID)}
		if last.CancelRequestedAt == nil {
			ending.do = doCancel
		}
		return ending
	case removal != nil && removal.Phase == v1alpha1.OperationSucceeded:
		return action{do: doRelease, event: cleaned()}
	case s.untouched() && removal != nil:
		return action{do: doRelease, event: warning(eventLeft, "The host could not be cleaned, which was tried once: %s %s", failure(removal), agentLeft)}
	case s.untouched() && s.paused != "":
		return action{do: doRelease, event: warning(eventLeft, "The host was not cleaned, because %s is true. %s", s.paused, agentLeft)}
	case s.outOfReach(removal) && !s.machineLeaving:
		return s.abandon(fmt.Sprintf("because it could not be cleaned within the %d seconds of spec.removal.afterSeconds.", *s.instance.Spec.Removal.AfterSeconds))
	case s.paused != "":
		return s.hold(v1alpha1.ReasonPaused, fmt.Sprintf("%s is true, so the controller does nothing on the host; it will be cleaned when the pause ends, unless another instance of its pool represents it by then.", s.paused), time.Time{})
	case s.unknownKey():
		return s.hold(v1alpha1.ReasonRemovalFailed, fmt.Sprintf("The object was restored without its status, so that the key of its host is not known, and the host is not logged in to. "+
			"Read the key on the console of the host (type C:\\ProgramData\\ssh\\ssh_host_*_key.pub), then: kubectl windows trust-host-key %s -n %s --key KEY", s.instance.Name, s.instance.Namespace), time.Time{})
	case last.Withdrawn() && last.Type == v1alpha1.OperationRemove && last.Untouched() && s.hasEnded(last) && last.FinishedAt.Add(changedPause).After(s.now):
		return action{
			do: doNothing, pending: true, again: last.FinishedAt.Add(changedPause),
			removed: s.removing("Operation %s was not begun. %s It is asked for again.", last.ID, last.Message),
		}
	case removal == nil && s.untouched():
		return s.record("The host is about to be cleaned.")
	case removal == nil && s.turn.why != "":
		return s.queue()
	case removal == nil:
		a := s.record("The host is about to be cleaned.")
		a.turn = s.turn
		return a
	}
	if due := s.removeDue(removal); due.After(s.now) {
		return s.hold(v1alpha1.ReasonRemovalFailed,
			fmt.Sprintf("The host could not be cleaned: %s It is tried again at %s.", failure(removal), timestamp(due)), due)
	}
	return s.record("The host could not be cleaned and is tried again: " + failure(removal))
}

// leftBehind tells of a host that goes with its namespace. Nobody said that it is to be removed,
// so it runs on. An operation that runs ends before, so that the host is not half way.
func (s snapshot) leftBehind() *event {
	status := &s.instance.Status
	removal := status.NewestAttempt(v1alpha1.OperationRemove)
	if removal != nil && removal.Phase == v1alpha1.OperationSucceeded {
		return cleaned()
	}
	if s.untouched() {
		return normal(eventLeft, "Namespace %s is being deleted: the host was not cleaned. %s", s.instance.Namespace, agentLeft)
	}
	text := fmt.Sprintf("Namespace %s is being deleted: the host is left as it is", s.instance.Namespace)
	if node := nodeOf(status); node != nil {
		text += ", and Node " + node.Name + " runs on"
	}
	if removal != nil && (removal.StartedAt != nil || status.RemovalBegun()) {
		return warning(eventLeft, "%s. Its removal had begun and did not end: %s Create an instance with the address %s to configure the host again, or to remove it.",
			text, failure(removal), s.instance.Spec.Address)
	}
	return normal(eventLeft, "%s. An instance with the address %s takes it over without disturbing it.", text, s.instance.Spec.Address)
}

func cleaned() *event {
	return normal(eventRemoved, "The host was cleaned: everything that was put on it has been removed.")
}

// abandon gives a host up, and says what is left of it.
func (s snapshot) abandon(why string) action {
	what := left
	switch {
	case s.untouched():
		what = agentLeft
	case s.instance.Status.ReleaseBegunBy() != nil:
		what = "It is not known whether it was released before, so that its Node is kept. " + left
	case !s.instance.Status.MayHaveChangedHost():
		what = "It is not known whether this controller configured it, so that its Node, if it has one, is kept: delete it with kubectl delete node if it is not needed. " + left
	}
	return action{do: doAbandon, event: warning(eventAbandoned, "The host was given up %s %s", why, what)}
}

// agentLeft is what is left of a host that was only looked at.
const agentLeft = "It was never configured, and its Node, if it has one, was not touched. What may be left on it is the program windows-node-agent in C:\\Windows\\windows-node-agent, which does not run: delete the directory."

// left is what becomes of a host that is given up.
const left = "Its services keep running, so that its kubelet may register the Node again when it restarts, and the files and credentials of a node are still on it: stop the host, or reset it before you use it for anything else."

// record has the host cleaned.
func (s snapshot) record(message string) action {
	what := "its Node is drained and deleted, and everything that was put on the host is removed from it."
	if s.untouched() {
		what = "the program that inspected its host is removed from it."
	}
	return action{
		do: doRecord, operation: v1alpha1.OperationRemove, pending: true, removed: s.removing("%s", message),
		event: normal(eventRemoving, "The instance was deleted: %s", what),
	}
}

// queue waits until other hosts of the pool are removed, or somebody confirms the removal.
func (s snapshot) queue() action {
	a := action{do: doNothing, turn: s.turn, pending: true, again: s.now.Add(turnInterval), removed: s.removing("%s", s.turn.why)}
	if s.turn.asks {
		a.removed.Reason = v1alpha1.ReasonConfirmationNeeded
		a.removed.Message += fmt.Sprintf("\nTo keep this host and its Node instead, take the finalizer off and create the instance again (needs the verb %s on %s.%s): "+
			`kubectl patch windowsinstance %s -n %s --type=merge -p '{"metadata":{"finalizers":null}}'`,
			v1alpha1.VerbAbandon, v1alpha1.ResourceHosts, v1alpha1.GroupName, s.instance.Name, s.instance.Namespace)
		a.event = warning(a.removed.Reason, "%s", a.removed.Message)
	}
	return a
}

// hold waits with the finalizer, and says what can be done about it.
func (s snapshot) hold(reason, message string, again time.Time) action {
	parts := []string{message}
	if deadline := s.instance.GivenUpAt(); !deadline.IsZero() && deadline.After(s.now) {
		gone := ""
		if origin.Machine(s.instance) != nil {
			gone = ", unless its Machine is being deleted then, and still there"
		}
		parts = append(parts, fmt.Sprintf("If the host has not been reached by %s, it is given up%s.", timestamp(deadline), gone))
		if again.IsZero() || deadline.Before(again) {
			again = deadline
		}
	}
	if s.machineLeaving {
		parts = append(parts, "It is not given up while its Machine is there: with its Node it would lose its pods, whatever protects them. The Machine API drains and deletes both.")
		if look := s.now.Add(machineInterval); again.IsZero() || look.Before(again) {
			again = look
		}
	}
	parts = append(parts, fmt.Sprintf("To give the host up now and leave everything on it (needs the verb %s on %s.%s): "+
		`kubectl patch windowsinstance %s -n %s --type=merge -p '{"spec":{"removal":{"policy":"Abandon"}}}'`,
		v1alpha1.VerbAbandon, v1alpha1.ResourceHosts, v1alpha1.GroupName, s.instance.Name, s.instance.Namespace))
	removed := &metav1.Condition{
		Type: v1alpha1.ConditionRemoved, Status: metav1.ConditionFalse, Reason: reason, Message: strings.Join(parts, " "),
	}
	if reason == v1alpha1.ReasonPaused {
		removed.Status = metav1.ConditionUnknown // so that the end of the pause is a transition
	}
	return action{do: doNothing, removed: removed, again: again, pending: true, event: warning(reason, "%s", removed.Message)}
}

// removing is the condition while the host is being cleaned.
func (s snapshot) removing(format string, args ...any) *metav1.Condition {
	return &metav1.Condition{
		Type: v1alpha1.ConditionRemoved, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonRemoving,
		Message: fmt.Sprintf(format, args...),
	}
}

func (s snapshot) policy() v1alpha1.RemovalPolicy {
	if s.instance.Spec.Removal == nil || s.instance.Spec.Removal.Policy == "" {
		return v1alpha1.RemovalClean
	}
	return s.instance.Spec.Removal.Policy
}

func (s snapshot) overdue() bool {
	deadline := s.instance.GivenUpAt()
	return !deadline.IsZero() && !deadline.After(s.now)
}

// outOfReach says whether it is time to give the host up: it could not be reached for as long as that may be, or was paused all the time. removal is
// the newest attempt to clean it, nil if there is none.
func (s snapshot) outOfReach(removal *v1alpha1.Operation) bool {
	return s.overdue() && (s.paused != "" || s.unknownKey() || removal != nil && removal.HostUnreached())
}

// removeDue is when a host that could not be cleaned is tried again.
func (s snapshot) removeDue(last *v1alpha1.Operation) time.Time {
	if !s.hasEnded(last) {
		return time.Time{}
	}
	if last.Phase == v1alpha1.OperationCanceled && !last.Withdrawn() {
		return last.FinishedAt.Add(removeBackoff.Cap) // somebody does not want it now
	}
	return last.FinishedAt.Add(backoff.After(removeBackoff, attempts(&s.instance.Status, last)))
}

// untouched says whether nothing was ever put on the host but our agent. It is not if that
// cannot be known: the host has not said yet what is on it since the object was made, which may have
// been restored without its status.
func (s snapshot) untouched() bool {
	status := &s.instance.Status
	if status.Version == "" || s.instance.LostStatus() || status.MayHaveChangedHost() {
		return false
	}
	// A history of an earlier release may have forgotten an operation that changed the host.
	return len(status.History) < v1alpha1.MaxHistory
}

// unknownKey says whether no host key can be trusted, as that which was is not known any more.
func (s snapshot) unknownKey() bool {
	return s.instance.LostStatus() && len(s.instance.Spec.HostKeys) == 0
}

// failure is why an operation ended without success.
func failure(o *v1alpha1.Operation) string {
	if o.Phase == v1alpha1.OperationCanceled && !o.Withdrawn() {
		return fmt.Sprintf("operation %s was canceled by %s.", o.ID, o.CancelRequestedBy)
	}
	return message.Cause(o.Message)
}

// progress says how far an operation is, in words that change only with its steps, or with what it waits for.
func progress(o *v1alpha1.Operation) string {
	step, number := o.Runs()
	switch {
	case step != nil && step.Name == v1alpha1.StepWaitForSlot && o.AdmittedImpact == "":
		return fmt.Sprintf("Operation %s has not begun to remove the host. %s", o.ID, o.Message)
	case step != nil:
		return fmt.Sprintf("Operation %s cleans the host: step %s (%d of %d).", o.ID, step.Name, number, len(o.Steps))
	}
	return fmt.Sprintf("Operation %s cleans the host.", o.ID)
}

func timestamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }
