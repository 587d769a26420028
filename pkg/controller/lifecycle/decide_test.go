// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package lifecycle

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/backoff"
)

const (
	revision1 = "1111111111111111"
	revision2 = "2222222222222222"
)

// testNow is when tests happen. It has no fraction of a second, as times in the API have none.
var testNow = time.Date(2026, 3, 14, 15, 9, 26, 0, time.UTC)

func ago(d time.Duration) *metav1.Time { return &metav1.Time{Time: testNow.Add(-d)} }

// change makes an instance differ from that of [newInstance].
type change func(*v1alpha1.WindowsInstance)

// newInstance is fit to be a node, is to get revision1, and was never set up.
func newInstance(changes ...change) *v1alpha1.WindowsInstance {
	instance := &v1alpha1.WindowsInstance{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "win-1", UID: "uid-of-win-1", Generation: 1},
		Status: v1alpha1.WindowsInstanceStatus{
			ObservedGeneration: 1, DesiredRevision: revision1,
			HostKeys: []v1alpha1.HostKeyStatus{{Type: "ssh-ed25519", Key: testKey, TrustedBy: v1alpha1.TrustedOnFirstUse}},
		},
	}
	condition(v1alpha1.ConditionAuthenticated, metav1.ConditionTrue, v1alpha1.ReasonLoggedIn)(instance)
	condition(v1alpha1.ConditionPreflightPassed, metav1.ConditionTrue, v1alpha1.ReasonPreflightPassed)(instance)
	condition(v1alpha1.ConditionConfigured, metav1.ConditionFalse, v1alpha1.ReasonConfiguring)(instance)
	for _, c := range changes {
		c(instance)
	}
	return instance
}

// condition sets a condition of generation 1.
func condition(kind string, status metav1.ConditionStatus, reason string) change {
	return func(i *v1alpha1.WindowsInstance) {
		for n := range i.Status.Conditions {
			if i.Status.Conditions[n].Type == kind {
				i.Status.Conditions[n].Status, i.Status.Conditions[n].Reason = status, reason
				return
			}
		}
		i.Status.Conditions = append(i.Status.Conditions, metav1.Condition{Type: kind, Status: status, Reason: reason, ObservedGeneration: 1})
	}
}

func configured(status metav1.ConditionStatus, reason string) change {
	return condition(v1alpha1.ConditionConfigured, status, reason)
}

// has is a host that was set up with a revision completely.
func has(revision string) change {
	return func(i *v1alpha1.WindowsInstance) {
		i.Status.CurrentRevision = revision
		configured(metav1.ConditionTrue, v1alpha1.ReasonConfigured)(i)
	}
}

// nodeReady has the Node ready.
func nodeReady(i *v1alpha1.WindowsInstance) {
	i.Status.Conditions = append(i.Status.Conditions, metav1.Condition{Type: v1alpha1.ConditionNodeReady, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonNodeReady})
}

// held has the finalizer.
func held(i *v1alpha1.WindowsInstance) {
	i.Finalizers = append(i.Finalizers, v1alpha1.HostFinalizer)
}

// generation is that of the spec, of which the host was looked at.
func generation(n int64) change {
	return func(i *v1alpha1.WindowsInstance) { i.Generation, i.Status.ObservedGeneration = n, n }
}

// deleted is an instance that was deleted that long ago.
func deleted(since time.Duration) change {
	return func(i *v1alpha1.WindowsInstance) { i.DeletionTimestamp = ago(since) }
}

func removal(policy v1alpha1.RemovalPolicy, after time.Duration) change {
	return func(i *v1alpha1.WindowsInstance) {
		i.Spec.Removal = &v1alpha1.RemovalOptions{Policy: policy}
		if after != 0 {
			i.Spec.Removal.AfterSeconds = new(int64(after / time.Second))
		}
	}
}

// op is an operation of ours that has ended.
func op(t v1alpha1.OperationType, phase v1alpha1.OperationPhase, ended time.Duration, changes ...func(*v1alpha1.Operation)) v1alpha1.Operation {
	o := v1alpha1.Operation{
		ID: strings.ToLower(string(t)) + "-1", Type: t, Phase: phase, RequestedBy: v1alpha1.ControllerRequester, Origin: v1alpha1.OriginController, RequestedAt: *ago(ended + time.Minute), StartedAt: ago(ended + time.Minute),
		Message: "It did what it did.",
	}
	if o.Type == v1alpha1.OperationReconfigure {
		o.Revision = revision1
	}
	if !o.Active() {
		o.FinishedAt = ago(ended)
	}
	for _, c := range changes {
		c(&o)
	}
	return o
}

// ops are the operations of an instance, the newest first.
func ops(all ...v1alpha1.Operation) change {
	return func(i *v1alpha1.WindowsInstance) {
		i.Status.Operation, i.Status.History = &all[0], all[1:]
	}
}

func byAlice(o *v1alpha1.Operation) {
	o.RequestedBy, o.Origin = "alice", v1alpha1.OriginUser
}

func to(revision string) func(*v1alpha1.Operation) {
	return func(o *v1alpha1.Operation) { o.Revision = revision }
}

// hostChanged is an operation that changed the host.
func hostChanged(o *v1alpha1.Operation) { o.HostChanged = true }

// notBegun is an operation that was recorded and not begun.
func notBegun(o *v1alpha1.Operation) { o.StartedAt = nil }

// canceling is an operation that somebody cancels, or has canceled.
func canceling(o *v1alpha1.Operation) {
	o.CancelRequestedAt, o.CancelRequestedBy = ago(time.Second), "bob"
}

// at is an operation whose steps ended in that state, in the given one.
func at(step string, state v1alpha1.OperationStepState) func(*v1alpha1.Operation) {
	return func(o *v1alpha1.Operation) {
		for _, name := range []string{v1alpha1.StepConnect, v1alpha1.StepWaitForSlot, v1alpha1.StepCordon, v1alpha1.StepDrain, v1alpha1.StepCleanup} {
			if name == step {
				o.Steps = append(o.Steps, v1alpha1.OperationStep{Name: name, State: state})
				return
			}
			o.Steps = append(o.Steps, v1alpha1.OperationStep{Name: name, State: v1alpha1.StepSucceeded})
		}
	}
}

// describe writes an action in short: what is done, the reason of the event, when it is
// decided anew, and the reason of Removed.
func describe(a action) string {
	out := []string{string(a.do)}
	if a.operation != "" {
		out = append(out, string(a.operation))
	}
	if a.event != nil {
		out = append(out, "tell "+a.event.reason)
	}
	if !a.again.IsZero() {
		out = append(out, "again in "+a.again.Sub(testNow).String())
	}
	if a.removed != nil {
		out = append(out, "Removed="+string(a.removed.Status)+"/"+a.removed.Reason)
	}
	if a.pending {
		out = append(out, "pending")
	}
	return strings.Join(out, ", ")
}

func checkText(t *testing.T, a action) {
	t.Helper()
	text := ""
	if a.event != nil {
		text += a.event.note
	}
	if a.removed != nil {
		text += a.removed.Message
	}
	if strings.Contains(text, "%!") || (a.event != nil && a.event.note == "") || (a.removed != nil && a.removed.Message == "") {
		t.Errorf("bad text %q", text)
	}
}

const (
	reconfigure = v1alpha1.OperationReconfigure
	remove      = v1alpha1.OperationRemove
	drain       = v1alpha1.OperationDrain

	pending   = v1alpha1.OperationPending
	running   = v1alpha1.OperationRunning
	succeeded = v1alpha1.OperationSucceeded
	failed    = v1alpha1.OperationFailed
	canceled  = v1alpha1.OperationCanceled
)

// notIn is a host that does not let us in.
func notIn(i *v1alpha1.WindowsInstance) {
	condition(v1alpha1.ConditionAuthenticated, metav1.ConditionFalse, v1alpha1.ReasonCredentialsRefused)(i)
	condition(v1alpha1.ConditionPreflightPassed, metav1.ConditionUnknown, v1alpha1.ReasonNotTried)(i)
	configured(metav1.ConditionUnknown, v1alpha1.ReasonNotTried)(i)
}

// restored is an object that was restored without its status.
func restored(i *v1alpha1.WindowsInstance) { i.Status = v1alpha1.WindowsInstanceStatus{} }

// inspected is a host that has said what is on it.
func inspected(i *v1alpha1.WindowsInstance) { i.Status.Version = "v0.1.0" }

// waits is an instance whose host is not removed yet, for that long.
func waits(since time.Duration, reason string) change {
	return func(i *v1alpha1.WindowsInstance) {
		status := metav1.ConditionFalse
		if reason == v1alpha1.ReasonPaused {
			status = metav1.ConditionUnknown
		}
		i.Status.Conditions = append(i.Status.Conditions, metav1.Condition{Type: v1alpha1.ConditionRemoved, Status: status, Reason: reason, LastTransitionTime: *ago(since)})
	}
}

// pinned is an object whose keys a user has set.
func pinned(i *v1alpha1.WindowsInstance) { i.Spec.HostKeys = []string{"ssh-ed25519 AAAA"} }

func TestDecideToConfigure(t *testing.T) {
	failedCondition := configured(metav1.ConditionFalse, v1alpha1.ReasonConfigurationFailed)
	refused := condition(v1alpha1.ConditionUpToDate, metav1.ConditionFalse, v1alpha1.ReasonUpdateFailed)
	interrupted := configured(metav1.ConditionFalse, v1alpha1.ReasonConfiguring)
	inputsMissing := configured(metav1.ConditionFalse, v1alpha1.ReasonInputsMissing)
	unusable := configured(metav1.ConditionFalse, v1alpha1.ReasonKubeletCertificateUnusable)
	onNode := func(o *v1alpha1.Operation) {
		o.Node = &v1alpha1.OperationNode{Name: "win-1", UID: "uid-of-node"}
	}
	unconfirmed := func(i *v1alpha1.WindowsInstance) { i.Status.UnconfirmedSince = new(metav1.NewTime(testNow)) }
	withNode := func(i *v1alpha1.WindowsInstance) {
		i.Status.Node = &v1alpha1.NodeReference{Name: "win-1", UID: "uid-of-node"}
	}
	// noNode was logged in to, and has had no Node for that long.
	noNode := func(since time.Duration) change {
		return func(i *v1alpha1.WindowsInstance) {
			i.Status.Conditions = append(i.Status.Conditions, metav1.Condition{Type: v1alpha1.ConditionNodeReady, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonNoNode, LastTransitionTime: *ago(since)})
		}
	}
	notFound := condition(v1alpha1.ConditionNodeReady, metav1.ConditionUnknown, v1alpha1.ReasonNotTried)
	many := func(n int, o v1alpha1.Operation) change {
		var all []v1alpha1.Operation
		for range n {
			all = append(all, o)
		}
		return ops(all...)
	}

	for _, test := range []struct {
		name     string
		instance *v1alpha1.WindowsInstance
		snapshot snapshot
		want     string
	}{
		// The first time.
		{"fit: hold first", newInstance(), snapshot{}, "Hold, pending"},
		{"fit and held", newInstance(held), snapshot{}, "Record, Reconfigure, tell FirstConfiguration, pending"},
		{"only watched, and our agent is about to be put there", newInstance(configured(metav1.ConditionUnknown, v1alpha1.ReasonNotManaged)), snapshot{}, "Hold"},
		{"only watched, and held", newInstance(held, configured(metav1.ConditionUnknown, v1alpha1.ReasonNotManaged)), snapshot{}, "Nothing"},
		{"a node of others is inspected too", newInstance(configured(metav1.ConditionUnknown, v1alpha1.ReasonForeignNode)), snapshot{}, "Hold"},
		{"does not let us in", newInstance(notIn), snapshot{}, "Nothing"},
		{"an agent of an earlier release is there", newInstance(notIn, func(i *v1alpha1.WindowsInstance) { i.Status.Version = "v0.1.0" }), snapshot{}, "Hold"},
		{"payload is known, host not looked at since", newInstance(held, func(i *v1alpha1.WindowsInstance) {
			i.Status.CurrentRevision = revision2
			configured(metav1.ConditionUnknown, v1alpha1.ReasonNotManaged)(i)
		}), snapshot{}, "Nothing"},
		{"not looked at", newInstance(held, configured(metav1.ConditionUnknown, v1alpha1.ReasonNotTried)), snapshot{}, "Nothing"},
		{"not fit", newInstance(held, condition(v1alpha1.ConditionPreflightPassed, metav1.ConditionFalse, v1alpha1.ReasonFindings)), snapshot{}, "Nothing"},
		{"nothing is known", newInstance(func(i *v1alpha1.WindowsInstance) { i.Status = v1alpha1.WindowsInstanceStatus{} }), snapshot{}, "Nothing"},
		{"the spec has changed and the host was not looked at", newInstance(held, func(i *v1alpha1.WindowsInstance) { i.Generation = 2 }), snapshot{}, "Nothing"},
		{"inputs are missing", newInstance(held, inputsMissing), snapshot{}, "Nothing"},
		{"desired revision is not known", newInstance(held, func(i *v1alpha1.WindowsInstance) { i.Status.DesiredRevision = "" }), snapshot{}, "Nothing"},
		{"duplicate", newInstance(condition(v1alpha1.ConditionResolved, metav1.ConditionFalse, v1alpha1.ReasonDuplicateHost), has(revision2)), snapshot{}, "Nothing"},
		{"paused", newInstance(held), snapshot{paused: "spec.paused"}, "Nothing"},
		{"paused before it was contacted", newInstance(notIn), snapshot{paused: "spec.paused"}, "Nothing"},
		{"a drain goes on", newInstance(held, ops(op(drain, running, 0))), snapshot{}, "Nothing"},
		{"a drain has ended", newInstance(held, ops(op(drain, succeeded, 0))), snapshot{}, "Record, Reconfigure, tell FirstConfiguration, pending"},

		// A host that is set up.
		{"set up: hold", newInstance(has(revision1)), snapshot{}, "Hold"},
		{"set up, paused: hold", newInstance(has(revision1)), snapshot{paused: "spec.paused"}, "Hold"},
		{"set up and held", newInstance(has(revision1), held), snapshot{}, "Nothing"},
		{"a person reconfigures a host that is not held", newInstance(ops(op(reconfigure, pending, 0, byAlice))), snapshot{}, "Hold, pending"},
		{"waits for a place", newInstance(held, ops(op(reconfigure, pending, 0))), snapshot{}, "Nothing, pending"},
		{"goes on", newInstance(held, ops(op(reconfigure, running, 0))), snapshot{}, "Nothing"},
		{"another revision", newInstance(has(revision2), held), snapshot{}, "Record, Reconfigure, tell RevisionChanged, pending"},
		{"another revision of a node that nobody has confirmed", newInstance(has(revision2), held, withNode, unconfirmed), snapshot{}, "Nothing, pending"},
		{"nobody has confirmed what it is to have, and its certificate is of no use", newInstance(has(revision1), held, withNode, unconfirmed, unusable), snapshot{}, "Record, Reconfigure, tell Rejoining, pending"},
		{"nobody has confirmed what it is to have, and it is no node", newInstance(has(revision2), held, unconfirmed), snapshot{}, "Record, Reconfigure, tell RevisionChanged, pending"},
		{"another revision of a node, which its pool decides about", newInstance(has(revision2), held, withNode), snapshot{}, "Nothing, pending"},
		{"another revision of a node that was not configured completely", newInstance(has(revision2), held, withNode, interrupted), snapshot{}, "Record, Reconfigure, tell RevisionChanged, pending"},
		{"another revision, paused", newInstance(has(revision2), held), snapshot{paused: "spec.paused"}, "Nothing"},
		{"interrupted, and maybe released", newInstance(has(revision1), held, interrupted, ops(v1alpha1.Operation{Type: v1alpha1.OperationRelease, Phase: v1alpha1.OperationFailed, ReleaseBegun: true})), snapshot{}, "Nothing"},
		{"its inventory is gone, and it is maybe released", newInstance(held, interrupted, ops(v1alpha1.Operation{Type: v1alpha1.OperationRelease, Phase: v1alpha1.OperationCanceled, ReleaseBegun: true}, op(reconfigure, succeeded, 24*time.Hour))), snapshot{}, "Nothing"},
		{"interrupted", newInstance(has(revision1), held, interrupted), snapshot{}, "Record, Reconfigure, tell Interrupted, pending"},
		{"host was imaged anew", newInstance(held, ops(op(reconfigure, succeeded, 24*time.Hour))), snapshot{}, "Record, Reconfigure, tell Interrupted, pending"},

		// A host that is no Node any more.
		{"its Node was deleted", newInstance(has(revision1), held, ops(op(reconfigure, succeeded, 24*time.Hour, onNode))), snapshot{}, "Record, Reconfigure, tell NodeGone, pending"},
		{"its Node was deleted, and the desired revision changed with that", newInstance(has(revision2), held, ops(op(reconfigure, succeeded, 24*time.Hour, onNode))), snapshot{}, "Record, Reconfigure, tell NodeGone, pending"},
		{"its Node was deleted while another operation goes on", newInstance(has(revision1), held, ops(op(drain, running, 0), op(reconfigure, succeeded, 24*time.Hour, onNode))), snapshot{}, "Nothing"},
		{"its Node was deleted right after it was made", newInstance(has(revision1), held, ops(op(reconfigure, succeeded, 10*time.Second, onNode))), snapshot{}, "Nothing, again in 50s, pending"},
		{"its Node was deleted, and the host could not be reached to join again", newInstance(has(revision1), held, ops(op(reconfigure, failed, 24*time.Hour), op(reconfigure, succeeded, 48*time.Hour, onNode))), snapshot{}, "Record, Reconfigure, tell ConfigurationRetried, pending"},
		{"its Node was deleted, and the host could not be reached to join again just now", newInstance(has(revision1), held, ops(op(reconfigure, failed, 10*time.Second), op(reconfigure, succeeded, 48*time.Hour, onNode))), snapshot{}, "Nothing, again in 50s, pending"},
		{"its Node was deleted, and its history has other operations only", newInstance(has(revision1), held, noNode(time.Minute), many(11, op(drain, succeeded, time.Hour, onNode))), snapshot{}, "Record, Reconfigure, tell NodeGone, pending"},
		{"its Node was deleted, and its history has other operations only, which ended just now", newInstance(has(revision1), held, noNode(time.Minute), many(11, op(drain, succeeded, time.Second, onNode))), snapshot{}, "Record, Reconfigure, tell NodeGone, pending"},
		{"its Node was deleted, and it has no history", newInstance(has(revision1), held, noNode(time.Minute)), snapshot{}, "Record, Reconfigure, tell NodeGone, pending"},
		{"its Node was deleted, it has no history, and another revision is desired", newInstance(has(revision2), held, noNode(time.Minute)), snapshot{}, "Record, Reconfigure, tell NodeGone, pending"},
		{"its Node was deleted, it has no history, and the clock was wrong", newInstance(has(revision1), held, noNode(-5*time.Hour)), snapshot{}, "Record, Reconfigure, tell NodeGone, pending"},
		{"its Node was deleted, it has no history, and it is paused", newInstance(has(revision1), held, noNode(time.Hour)), snapshot{paused: "spec.paused"}, "Nothing"},
		{"it has no history, and no Node so far", newInstance(has(revision1), held, noNode(10*time.Second)), snapshot{}, "Nothing, again in 50s, pending"},
		{"it has no history, and nobody has looked for its Node", newInstance(has(revision1), held, notFound), snapshot{}, "Nothing"},
		{"it has no history, and its Node", newInstance(has(revision1), held, withNode), snapshot{}, "Nothing"},
		{"its Node was deleted, and the last configuration knew of none", newInstance(has(revision1), held, noNode(time.Hour), ops(op(reconfigure, succeeded, 10*time.Second))), snapshot{}, "Nothing, again in 50s, pending"},
		{"it was released, and its Node was deleted", newInstance(held, configured(metav1.ConditionUnknown, v1alpha1.ReasonForeignNode), noNode(time.Hour), ops(v1alpha1.Operation{Type: v1alpha1.OperationRelease, Phase: succeeded, HostReleased: true})), snapshot{}, "Nothing"},
		{"it has its Node", newInstance(has(revision1), held, withNode, ops(op(reconfigure, succeeded, 24*time.Hour, onNode))), snapshot{}, "Nothing"},
		{"its Node was deleted, and the host is not fit", newInstance(has(revision1), held, ops(op(reconfigure, succeeded, 24*time.Hour, onNode)), condition(v1alpha1.ConditionPreflightPassed, metav1.ConditionFalse, v1alpha1.ReasonFindings)), snapshot{}, "Nothing"},
		{"its certificate is of no use", newInstance(has(revision1), held, withNode, unusable), snapshot{}, "Record, Reconfigure, tell Rejoining, pending"},
		{"its certificate is of no use, just configured", newInstance(has(revision1), held, withNode, unusable, ops(op(reconfigure, succeeded, 10*time.Second))), snapshot{}, "Nothing, again in 50s, pending"},
		{"its certificate is of no use, paused", newInstance(has(revision1), held, withNode, unusable), snapshot{paused: "spec.paused"}, "Nothing"},

		// After a success the host is looked at before more is done.
		{"just set up, not looked at since", newInstance(held, ops(op(reconfigure, succeeded, 10*time.Second))), snapshot{}, "Nothing, again in 50s, pending"},
		{"just changed, not looked at since", newInstance(has(revision2), held, ops(op(reconfigure, succeeded, 10*time.Second))), snapshot{}, "Nothing, again in 50s, pending"},
		{"looked at, and more is wanted since", newInstance(has(revision2), held, ops(op(reconfigure, succeeded, time.Second, to(revision2)))), snapshot{}, "Record, Reconfigure, tell RevisionChanged, pending"},
		{"more is wanted, and it was not looked at since", newInstance(has("0000000000000000"), held, ops(op(reconfigure, succeeded, time.Second, to(revision2)))), snapshot{}, "Nothing, again in 9s, pending"},
		{"succeeds again and again, and the host never has it", newInstance(has(revision2), held, many(4, op(reconfigure, succeeded, time.Minute))), snapshot{}, "Nothing, again in 7m0s, pending"},

		// After failures.
		{"failed once", newInstance(held, failedCondition, ops(op(reconfigure, failed, 10*time.Second))), snapshot{}, "Nothing, again in 50s, pending"},
		{"failed once, a minute ago", newInstance(held, failedCondition, ops(op(reconfigure, failed, time.Minute))), snapshot{}, "Record, Reconfigure, tell ConfigurationRetried, pending"},
		{"failed in the future, by a clock that was wrong", newInstance(held, failedCondition, ops(op(reconfigure, failed, -5*time.Hour))), snapshot{}, "Record, Reconfigure, tell ConfigurationRetried, pending"},
		{"failed twice", newInstance(held, failedCondition, many(2, op(reconfigure, failed, time.Minute))), snapshot{}, "Nothing, again in 1m0s, pending"},
		{"failed five times", newInstance(held, failedCondition, many(5, op(reconfigure, failed, time.Minute))), snapshot{}, "Nothing, again in 15m0s, pending"},
		{"failed eleven times", newInstance(held, failedCondition, many(11, op(reconfigure, failed, time.Minute))), snapshot{}, "Nothing, again in 29m0s, pending"},
		{"failed twice, with a drain in between", newInstance(held, failedCondition, ops(op(reconfigure, failed, time.Minute), op(drain, succeeded, 2*time.Minute), op(reconfigure, failed, 3*time.Minute))), snapshot{}, "Nothing, again in 1m0s, pending"},
		{"failed once since it succeeded", newInstance(held, failedCondition, ops(op(reconfigure, failed, 0), op(reconfigure, succeeded, time.Hour), op(reconfigure, failed, 2*time.Hour))), snapshot{}, "Nothing, again in 1m0s, pending"},
		{"failed when a person asked for it", newInstance(held, failedCondition, ops(op(reconfigure, failed, 0, byAlice), op(reconfigure, failed, time.Hour))), snapshot{}, "Nothing, again in 1m0s, pending"},
		{"failed with another revision", newInstance(held, failedCondition, many(5, op(reconfigure, failed, time.Minute, to(revision2)))), snapshot{}, "Record, Reconfigure, tell ConfigurationRetried, pending"},
		{"failed with another revision this very moment", newInstance(held, failedCondition, ops(op(reconfigure, failed, 0, to(revision2)))), snapshot{}, "Nothing, again in 10s, pending"},
		{"failed once with this revision after others", newInstance(held, failedCondition, ops(op(reconfigure, failed, 0), op(reconfigure, failed, time.Hour, to(revision2)), op(reconfigure, failed, 2*time.Hour, to(revision2)))), snapshot{}, "Nothing, again in 1m0s, pending"},
		{"failed with another spec", newInstance(held, failedCondition, generation(2), many(5, op(reconfigure, failed, time.Minute))), snapshot{}, "Record, Reconfigure, tell ConfigurationRetried, pending"},
		{"failed with another spec this very moment", newInstance(held, failedCondition, generation(2), ops(op(reconfigure, failed, 0))), snapshot{}, "Nothing, again in 10s, pending"},
		{"failed, paused since", newInstance(held, failedCondition, many(5, op(reconfigure, failed, time.Hour))), snapshot{paused: "spec.paused"}, "Nothing"},
		{"failed after it was set up", newInstance(has(revision1), held, failedCondition, ops(op(reconfigure, failed, time.Hour))), snapshot{}, "Record, Reconfigure, tell ConfigurationRetried, pending"},
		{"an update was refused", newInstance(has(revision2), held, refused, ops(op(reconfigure, failed, 10*time.Second))), snapshot{}, "Nothing, again in 50s, pending"},
		{"an update was refused a minute ago", newInstance(has(revision2), held, refused, ops(op(reconfigure, failed, time.Minute))), snapshot{}, "Record, Reconfigure, tell ConfigurationRetried, pending"},
		{"an update was refused with another spec", newInstance(has(revision2), held, refused, generation(2), many(5, op(reconfigure, failed, time.Minute))), snapshot{}, "Record, Reconfigure, tell ConfigurationRetried, pending"},
		{"canceled by a person", newInstance(held, failedCondition, ops(op(reconfigure, canceled, 0, canceling))), snapshot{}, "Nothing, again in 30m0s, pending"},
		{"not begun, as it was paused", newInstance(held, configured(metav1.ConditionFalse, v1alpha1.ReasonConfiguring), ops(op(reconfigure, canceled, 9*time.Second, notBegun))), snapshot{}, "Nothing, again in 1s, pending"},
		{"not begun, as it was paused, a while ago", newInstance(held, configured(metav1.ConditionFalse, v1alpha1.ReasonConfiguring), ops(op(reconfigure, canceled, 10*time.Second, notBegun))), snapshot{}, "Record, Reconfigure, tell ConfigurationRetried, pending"},
		{"canceled by a person, who has changed the spec since", newInstance(held, failedCondition, generation(2), ops(op(reconfigure, canceled, time.Minute))), snapshot{}, "Record, Reconfigure, tell ConfigurationRetried, pending"},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := test.snapshot
			w.instance, w.managed, w.now = test.instance, true, testNow
			a := decide(w)
			if got := describe(a); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
			checkText(t, a)
			if a.event != nil && (strings.Contains(a.event.note, revision1) || strings.Contains(a.event.note, revision2)) {
				t.Errorf("a whole revision is in %q", a.event.note)
			}

			w.managed = false
			if got := describe(decide(w)); got != "Nothing" && !(got == "Hold" && !w.held()) {
				t.Errorf("without a payload: got %q", got)
			}
		})
	}
}

// TestUpdate: a host that works as a node is to be updated when something else is desired, and nothing forbids it.
func TestUpdate(t *testing.T) {
	node := func(i *v1alpha1.WindowsInstance) {
		i.Status.Node = &v1alpha1.NodeReference{Name: "win-1", UID: "uid-of-node"}
	}
	paused := &v1alpha1.WindowsNodePool{Spec: v1alpha1.WindowsNodePoolSpec{Paused: true}}
	pool := &v1alpha1.WindowsNodePool{ObjectMeta: metav1.ObjectMeta{Name: "p", UID: "now"}}
	inPool := func(uid types.UID) change {
		return func(i *v1alpha1.WindowsInstance) {
			i.Spec.PoolRef, i.Status.Pool = &v1alpha1.PoolReference{Name: "p"}, &v1alpha1.KnownPool{Name: "p", UID: uid}
		}
	}
	otherwise := func(o *v1alpha1.Operation) {
		o.Drain = v1alpha1.PoolDrainOptions{TimeoutSeconds: new(int64(60))}.Recorded()
	}
	for _, tt := range []struct {
		name     string
		instance *v1alpha1.WindowsInstance
		pool     *v1alpha1.WindowsNodePool
		want     bool
		due      time.Duration // from now on; 0: at once
	}{
		{"another revision", newInstance(has(revision2), held, node), nil, true, 0},
		{"the same revision", newInstance(has(revision1), held, node), nil, false, 0},
		{"it is no node", newInstance(has(revision2), held), nil, false, 0},
		{"it is not held yet", newInstance(has(revision2), node), nil, false, 0},
		{"it is not configured completely", newInstance(has(revision2), held, node, configured(metav1.ConditionFalse, v1alpha1.ReasonConfiguring)), nil, false, 0},
		{"inputs are missing", newInstance(has(revision2), held, node, configured(metav1.ConditionTrue, v1alpha1.ReasonInputsMissing)), nil, false, 0},
		{"its pool is paused", newInstance(has(revision2), held, node), paused, false, 0},
		{"nobody has confirmed what it is to have", newInstance(has(revision2), held, node, func(i *v1alpha1.WindowsInstance) { i.Status.UnconfirmedSince = new(metav1.NewTime(testNow)) }), nil, false, 0},
		{"its pool was made again", newInstance(has(revision2), held, node, inPool("before")), pool, false, 0},
		{"its pool is as it was seen", newInstance(has(revision2), held, node, inPool("now")), pool, true, 0},
		{"its pool does not exist", newInstance(has(revision2), held, node, inPool("before")), nil, false, 0},
		{"something is done to it", newInstance(has(revision2), held, node, ops(op(drain, running, 0))), nil, false, 0},
		{"it waits with updates of Windows", newInstance(has(revision2), held, node, ops(op(v1alpha1.OperationReboot, running, 0, at(v1alpha1.StepWaitForSlot, v1alpha1.StepRunning), func(o *v1alpha1.Operation) {
			o.Cause = v1alpha1.CauseWindowsUpdates
		}))), nil, true, 0},
		{"it could not be reached", newInstance(has(revision2), held, node, ops(op(reconfigure, failed, 10*time.Second))), nil, true, 50 * time.Second},
		{"its pods did not leave", newInstance(has(revision2), held, node, nodeReady, ops(op(reconfigure, failed, time.Minute, at(v1alpha1.StepDrain, v1alpha1.StepFailed)))), nil, true, 9 * time.Minute},
		{"they did not, and the pool drains in another way since", newInstance(has(revision2), held, node, nodeReady, inPool("now"), ops(op(reconfigure, failed, 9*time.Second, at(v1alpha1.StepDrain, v1alpha1.StepFailed), otherwise),
			op(reconfigure, failed, time.Hour), op(reconfigure, failed, 2*time.Hour))), pool, true, time.Second},
		{"they did not, and the pool drains in the same way", newInstance(has(revision2), held, node, nodeReady, inPool("now"), ops(op(reconfigure, failed, time.Minute, at(v1alpha1.StepDrain, v1alpha1.StepFailed), func(o *v1alpha1.Operation) {
			o.Drain = pool.Spec.UpdateStrategy.Drain.Recorded()
		}))), pool, true, 9 * time.Minute},
		{"those of a Node that is not ready did not leave", newInstance(has(revision2), held, node, ops(op(reconfigure, failed, 10*time.Second, at(v1alpha1.StepDrain, v1alpha1.StepFailed)))), nil, true, 50 * time.Second},
		{"they did not, after others that were withdrawn", newInstance(has(revision2), held, node, nodeReady, ops(op(reconfigure, failed, time.Minute, at(v1alpha1.StepDrain, v1alpha1.StepFailed)),
			op(reconfigure, canceled, time.Hour), op(reconfigure, canceled, 2*time.Hour))), nil, true, 9 * time.Minute},
		{"again and again", newInstance(has(revision2), held, node, nodeReady, ops(op(reconfigure, failed, time.Minute, at(v1alpha1.StepDrain, v1alpha1.StepFailed)),
			op(reconfigure, failed, time.Hour), op(reconfigure, failed, 2*time.Hour), op(reconfigure, failed, 3*time.Hour), op(reconfigure, failed, 4*time.Hour), op(reconfigure, failed, 5*time.Hour), op(reconfigure, failed, 6*time.Hour))), nil, true, 6*time.Hour - time.Minute},
		{"they did not, and the host was changed before", newInstance(has(revision2), held, node, ops(op(reconfigure, failed, 10*time.Second, at(v1alpha1.StepDrain, v1alpha1.StepFailed), func(o *v1alpha1.Operation) {
			o.HostChanged = true
		}))), nil, true, 50 * time.Second},
		{"something else is desired since", newInstance(has(revision2), held, node, ops(op(reconfigure, failed, 9*time.Second, at(v1alpha1.StepDrain, v1alpha1.StepFailed), func(o *v1alpha1.Operation) {
			o.Revision = "3333333333333333"
		}))), nil, true, time.Second},
		{"what waited for a slot has given way", newInstance(has(revision2), held, node, ops(op(reconfigure, canceled, 9*time.Second))), nil, true, time.Second},
		{"somebody has canceled it", newInstance(has(revision2), held, node, ops(op(reconfigure, canceled, 10*time.Second, func(o *v1alpha1.Operation) {
			o.CancelRequestedBy, o.CancelRequestedAt = "alice", new(metav1.NewTime(testNow))
		}))), nil, true, 30*time.Minute - 10*time.Second},
		{"it is going", newInstance(has(revision2), held, node, func(i *v1alpha1.WindowsInstance) { i.DeletionTimestamp = new(metav1.NewTime(testNow)) }), nil, false, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			due, ok := Update(tt.instance, tt.pool, testNow)
			if ok != tt.want || ok && tt.due == 0 && due.After(testNow) || tt.due > 0 && !due.Equal(testNow.Add(tt.due)) {
				t.Errorf("got %v at %s", ok, due)
			}
		})
	}
}

// TestRetried: a host that could not be configured is tried again by itself, unless something forbids it or somebody has canceled it.
func TestRetried(t *testing.T) {
	paused := &v1alpha1.WindowsNodePool{Spec: v1alpha1.WindowsNodePoolSpec{Paused: true}}
	failedCondition := configured(metav1.ConditionFalse, v1alpha1.ReasonConfigurationFailed)
	once := ops(op(reconfigure, failed, 10*time.Second))
	for _, tt := range []struct {
		name     string
		instance *v1alpha1.WindowsInstance
		pool     *v1alpha1.WindowsNodePool
		want     bool
	}{
		{"it is new", newInstance(held, failedCondition, once), nil, true},
		{"it worked before", newInstance(has(revision2), held, failedCondition, once), nil, true},
		{"its pool is paused", newInstance(held, failedCondition, once), paused, false},
		{"it is not fit", newInstance(held, failedCondition, once, func(i *v1alpha1.WindowsInstance) {
			meta.SetStatusCondition(&i.Status.Conditions, metav1.Condition{Type: v1alpha1.ConditionPreflightPassed, Status: metav1.ConditionFalse, Reason: "x"})
		}), nil, false},
		{"inputs are missing", newInstance(held, configured(metav1.ConditionFalse, v1alpha1.ReasonInputsMissing), once), nil, false},
		{"it runs", newInstance(held, failedCondition, ops(op(reconfigure, running, 0), op(reconfigure, failed, time.Minute))), nil, false},
		{"somebody has canceled it", newInstance(held, failedCondition, ops(op(reconfigure, canceled, 10*time.Second, canceling))), nil, false},
		{"the controller did not want it any more", newInstance(held, failedCondition, ops(op(reconfigure, canceled, 10*time.Second), op(reconfigure, failed, time.Minute))), nil, true},
		{"it works, and is to be updated", newInstance(has(revision2), held, func(i *v1alpha1.WindowsInstance) {
			i.Status.Node = &v1alpha1.NodeReference{Name: "win-1", UID: "uid-of-node"}
		}, once), nil, false},
		{"it is going", newInstance(held, failedCondition, once, func(i *v1alpha1.WindowsInstance) { i.DeletionTimestamp = new(metav1.NewTime(testNow)) }), nil, false},
	} {
		if got := Retried(tt.instance, tt.pool, testNow); got != tt.want {
			t.Errorf("%s: got %t", tt.name, got)
		}
	}
}

func TestDecideToRemove(t *testing.T) {
	newInstance := func(changes ...change) *v1alpha1.WindowsInstance {
		return newInstance(append([]change{inspected}, changes...)...)
	}
	was := func(changes ...change) *v1alpha1.WindowsInstance {
		return newInstance(append([]change{has(revision1), held, deleted(time.Minute)}, changes...)...)
	}
	unreached := op(remove, failed, 10*time.Second, at(v1alpha1.StepConnect, v1alpha1.StepFailed))
	refused := op(remove, failed, 10*time.Second, at(v1alpha1.StepConnect, v1alpha1.StepSucceeded))
	dirty := op(remove, failed, 10*time.Second, at(v1alpha1.StepCleanup, v1alpha1.StepFailed))
	clean := v1alpha1.RemovalClean
	abandon := v1alpha1.RemovalAbandon
	duplicate := condition(v1alpha1.ConditionResolved, metav1.ConditionFalse, v1alpha1.ReasonDuplicateHost)
	full := make([]v1alpha1.Operation, v1alpha1.MaxHistory+1)
	for i := range full {
		full[i] = op(drain, succeeded, time.Hour)
	}

	for _, test := range []struct {
		name     string
		instance *v1alpha1.WindowsInstance
		snapshot snapshot
		want     string
		wantText []string
	}{
		{"not held", newInstance(deleted(0)), snapshot{}, "Nothing", nil},
		{"held by others", newInstance(deleted(0), func(i *v1alpha1.WindowsInstance) { i.Finalizers = []string{"foregroundDeletion"} }), snapshot{}, "Nothing", nil},
		{"set up", was(), snapshot{}, "Record, Remove, tell Removing, Removed=False/Removing, pending", []string{"about to be cleaned"}},
		{"set up, and without a payload now", was(), snapshot{managed: false}, "Record, Remove, tell Removing, Removed=False/Removing, pending", nil},
		{"setting up was recorded and not begun", newInstance(held, deleted(0), ops(op(reconfigure, pending, 0, notBegun))), snapshot{}, "Cancel, Removed=False/Removing, pending", nil},
		{"setting up was not recorded", newInstance(held, deleted(0)), snapshot{}, "Record, Remove, tell Removing, Removed=False/Removing, pending", []string{"the program that inspected its host is removed"}},
		{"setting up had begun and changed nothing", newInstance(held, deleted(0), ops(op(reconfigure, failed, time.Hour))), snapshot{}, "Record, Remove, tell Removing, Removed=False/Removing, pending", []string{"the program that inspected"}},
		{"setting up had begun", newInstance(held, deleted(0), ops(op(reconfigure, failed, time.Hour, hostChanged))), snapshot{}, "Record, Remove, tell Removing, Removed=False/Removing, pending", []string{"its Node is drained and deleted"}},

		{"only inspected, and clean", newInstance(held, deleted(0), ops(op(remove, succeeded, 0))), snapshot{}, "Release, tell Removed", nil},
		{"only inspected, and away", newInstance(held, deleted(0), ops(unreached)), snapshot{}, "Release, tell HostLeft", []string{"tried once: It did what it did.", `C:\Windows\windows-node-agent`, "its Node, if it has one, was not touched"}},
		{"only inspected, and its removal was canceled", newInstance(held, deleted(0), ops(op(remove, canceled, 0))), snapshot{}, "Release, tell HostLeft", nil},
		{"only inspected, and paused", newInstance(held, deleted(0)), snapshot{paused: "spec.paused"}, "Release, tell HostLeft", []string{"because spec.paused is true"}},
		{"only watched", newInstance(held, deleted(0), func(i *v1alpha1.WindowsInstance) {
			i.Status.CurrentRevision = "0123456789abcdef" // of the agent
			configured(metav1.ConditionUnknown, v1alpha1.ReasonNotManaged)(i)
		}, ops(unreached)), snapshot{}, "Release, tell HostLeft", nil},

		{"its removal failed in the future, by a clock that was wrong", was(ops(op(remove, failed, -5*time.Hour, at(v1alpha1.StepCleanup, v1alpha1.StepFailed)))), snapshot{}, "Record, Remove, tell Removing, Removed=False/Removing, pending", nil},
		{"restored without its status", newInstance(held, deleted(0), restored), snapshot{}, "Nothing, tell RemovalFailed, Removed=False/RemovalFailed, pending", []string{"restored without its status", "kubectl windows trust-host-key win-1 -n ns --key KEY"}},
		{"restored, and its key is confirmed", newInstance(held, deleted(0), restored, pinned), snapshot{}, "Record, Remove, tell Removing, Removed=False/Removing, pending", []string{"its Node is drained"}},
		{"restored, confirmed, and away", newInstance(held, deleted(0), restored, pinned, ops(unreached)), snapshot{}, "Nothing, tell RemovalFailed, again in 20s, Removed=False/RemovalFailed, pending", nil},
		{"restored, logged in to once, and away", newInstance(held, deleted(0), restored, pinned, keys(testKey), ops(unreached)), snapshot{}, "Nothing, tell RemovalFailed, again in 20s, Removed=False/RemovalFailed, pending", nil},
		{"restored, logged in to once, and paused", newInstance(held, deleted(0), restored, pinned, keys(testKey)), snapshot{paused: "spec.paused"}, "Nothing, tell Paused, Removed=Unknown/Paused, pending", nil},
		{"restored, and time is left", newInstance(held, deleted(0), restored, removal(clean, time.Hour)), snapshot{}, "Nothing, tell RemovalFailed, again in 1h0m0s, Removed=False/RemovalFailed, pending", nil},
		{"restored, and time is over", newInstance(held, deleted(time.Minute), restored, removal(clean, time.Minute)), snapshot{}, "Abandon, tell Abandoned", []string{"its Node, if it has one, is kept"}},
		{"the history is too short to know", newInstance(held, deleted(0), ops(full...)), snapshot{}, "Record, Remove, tell Removing, Removed=False/Removing, pending", nil},
		{"duplicate", was(duplicate), snapshot{}, "Release, tell HostLeft", []string{"another instance represents it"}},

		{"renamed", was(), snapshot{heir: newInstance()}, "HandOver, tell HostLeft", []string{"instance win-1 represents it from now on"}},
		{"renamed, only inspected", newInstance(held, deleted(0)), snapshot{heir: newInstance()}, "HandOver, tell HostLeft", nil},
		{"renamed, to be abandoned", was(removal(abandon, 0)), snapshot{heir: newInstance()}, "HandOver, tell HostLeft", nil},
		{"renamed while it is set up", was(ops(op(reconfigure, running, 0))), snapshot{heir: newInstance()}, "Cancel, Removed=False/Removing, pending", nil},
		{"renamed too late", was(ops(op(remove, running, 0))), snapshot{heir: newInstance()}, "Nothing, Removed=False/Removing", nil},
		{"renamed, and restored", newInstance(held, deleted(0), restored), snapshot{heir: newInstance()}, "Nothing, tell RemovalFailed, Removed=False/RemovalFailed, pending", nil},
		{"put back", was(), snapshot{wanted: true}, "Release, tell HostLeft", []string{"its source asks for it again"}},
		{"put back, only inspected", newInstance(held, deleted(0)), snapshot{wanted: true}, "Release, tell HostLeft", nil},
		{"put back while it is set up", was(ops(op(reconfigure, running, 0))), snapshot{wanted: true}, "Cancel, Removed=False/Removing, pending", nil},
		{"put back while it cannot be reached", was(ops(unreached)), snapshot{wanted: true}, "Nothing, tell RemovalFailed, again in 20s, Removed=False/RemovalFailed, pending", nil},
		{"put back, and it answers again", was(ops(op(remove, failed, 10*time.Second, at(v1alpha1.StepConnect, v1alpha1.StepSucceeded)))), snapshot{wanted: true}, "Release, tell HostLeft", nil},
		{"put back, and it did not answer before", was(notIn), snapshot{wanted: true}, "Record, Remove, tell Removing, Removed=False/Removing, pending", nil},
		{"put back, it did not answer before, and its removal was withdrawn", was(notIn, ops(op(remove, canceled, 10*time.Second, notBegun))), snapshot{wanted: true}, "Record, Remove, tell Removing, Removed=False/Removing, pending", nil},
		{"put back in a pause", was(), snapshot{wanted: true, paused: "spec.paused"}, "Nothing, tell Paused, Removed=Unknown/Paused, pending", nil},
		{"put back too late", was(ops(dirty)), snapshot{wanted: true}, "Nothing, tell RemovalFailed, again in 20s, Removed=False/RemovalFailed, pending", nil},
		{"put back too late, and refused since", was(ops(refused, dirty)), snapshot{wanted: true}, "Nothing, tell RemovalFailed, again in 50s, Removed=False/RemovalFailed, pending", nil},
		{"put back too late, and away since", was(ops(unreached, dirty)), snapshot{wanted: true}, "Nothing, tell RemovalFailed, again in 50s, Removed=False/RemovalFailed, pending", nil},
		{"renamed too late, and refused since", was(ops(refused, dirty)), snapshot{heir: newInstance()}, "Nothing, tell RemovalFailed, again in 50s, Removed=False/RemovalFailed, pending", nil},
		{"put back while it is cleaned", was(ops(op(remove, running, 0))), snapshot{wanted: true}, "Nothing, Removed=False/Removing", nil},
		{"put back, and its key is not known", newInstance(held, deleted(0), restored), snapshot{wanted: true}, "Nothing, tell RemovalFailed, Removed=False/RemovalFailed, pending", nil},
		{"put back and renamed", was(), snapshot{wanted: true, heir: newInstance()}, "HandOver, tell HostLeft", nil},
		{"of a source, and paused", was(sourced), snapshot{paused: "spec.paused"}, "Nothing, tell Paused, Removed=Unknown/Paused, pending", nil},
		{"waits for others", was(), snapshot{turn: turn{why: "Fewer than 3."}}, "Nothing, again in 10s, Removed=False/Removing, pending", []string{"Fewer than 3."}},
		{"waits for a confirmation", was(), snapshot{turn: turn{why: "Confirm.", asks: true}}, "Nothing, tell ConfirmationNeeded, again in 10s, Removed=False/ConfirmationNeeded, pending", []string{"Confirm.", "To keep this host and its Node", "verb abandon"}},
		{"waits for others, and is paused", was(), snapshot{turn: turn{why: "Confirm.", asks: true}, paused: "spec.paused"}, "Nothing, tell Paused, Removed=Unknown/Paused, pending", nil},
		{"only inspected waits for nobody", newInstance(held, deleted(0)), snapshot{turn: turn{why: "Confirm.", asks: true}}, "Record, Remove, tell Removing, Removed=False/Removing, pending", nil},
		{"what has begun waits for nobody", was(ops(op(remove, failed, 30*time.Second))), snapshot{turn: turn{why: "Confirm.", asks: true}}, "Record, Remove, tell Removing, Removed=False/Removing, pending", nil},
		{"the namespace goes, and its Node is known", was(func(i *v1alpha1.WindowsInstance) { i.Status.Node = &v1alpha1.NodeReference{Name: "node-1"} }), snapshot{terminating: true}, "Release, tell HostLeft", []string{"and Node node-1 runs on"}},
		{"the namespace goes, and cleaning waits", was(ops(op(remove, canceled, 0, notBegun))), snapshot{terminating: true}, "Release, tell HostLeft", []string{"takes it over without disturbing it"}},
		{"the namespace goes, and our program may stay", newInstance(held, deleted(0)), snapshot{terminating: true}, "Release, tell HostLeft", []string{"It was never configured"}},
		{"perhaps renamed", was(), snapshot{awaited: true}, "Nothing, again in 2s, Removed=False/Removing, pending", []string{"begins at 2026-03-14T15:10:26Z"}},
		{"perhaps renamed, for ten seconds", was(waits(10*time.Second, v1alpha1.ReasonRemoving)), snapshot{awaited: true}, "Nothing, again in 2s, Removed=False/Removing, pending", []string{"begins at 2026-03-14T15:10:16Z"}},
		{"perhaps renamed, and time is almost over", was(waits(59*time.Second, v1alpha1.ReasonRemoving)), snapshot{awaited: true}, "Nothing, again in 1s, Removed=False/Removing, pending", nil},
		{"perhaps renamed, and the time is over", was(waits(time.Minute, v1alpha1.ReasonRemoving)), snapshot{awaited: true}, "Record, Remove, tell Removing, Removed=False/Removing, pending", nil},
		{"perhaps renamed, while it is paused", was(), snapshot{awaited: true, paused: "spec.paused"}, "Nothing, tell Paused, Removed=Unknown/Paused, pending", []string{"unless another instance of its pool represents it by then"}},
		{"perhaps renamed, and paused for long", was(waits(time.Hour, v1alpha1.ReasonPaused)), snapshot{awaited: true}, "Nothing, again in 2s, Removed=False/Removing, pending", []string{"begins at 2026-03-14T15:10:26Z"}},
		{"perhaps renamed, and cleaning was tried", was(waits(10*time.Second, v1alpha1.ReasonRemovalFailed), ops(unreached)), snapshot{awaited: true}, "Nothing, again in 2s, Removed=False/Removing, pending", nil},
		{"perhaps renamed, and abandoned", newInstance(has(revision1), held, deleted(0), removal(abandon, 0)), snapshot{awaited: true}, "Abandon, tell Abandoned", nil},

		{"being set up", was(ops(op(reconfigure, running, 0))), snapshot{}, "Cancel, Removed=False/Removing, pending", []string{"Operation reconfigure-1 was canceled so that the host can be cleaned"}},
		{"being set up, canceled", was(ops(op(reconfigure, running, 0, canceling))), snapshot{}, "Nothing, Removed=False/Removing, pending", nil},
		{"setting up was canceled", was(ops(op(reconfigure, canceled, 0))), snapshot{}, "Record, Remove, tell Removing, Removed=False/Removing, pending", nil},
		{"about to be cleaned", was(ops(op(remove, pending, 0))), snapshot{}, "Nothing, Removed=False/Removing", nil},
		{"being cleaned", was(ops(op(remove, running, 0, at(v1alpha1.StepDrain, v1alpha1.StepRunning)))), snapshot{}, "Nothing, Removed=False/Removing", []string{"step Drain (4 of 4)"}},
		{"clean", was(ops(op(remove, succeeded, 0))), snapshot{}, "Release, tell Removed", []string{"everything that was put on it has been removed"}},
		{"clean, then drained", was(ops(op(drain, succeeded, 0), op(remove, succeeded, 0))), snapshot{}, "Release, tell Removed", nil},

		{"failed once", was(ops(dirty)), snapshot{}, "Nothing, tell RemovalFailed, again in 20s, Removed=False/RemovalFailed, pending",
			[]string{"It did what it did. It is tried again at 2026-03-14T15:09:46Z.", `kubectl patch windowsinstance win-1 -n ns --type=merge -p '{"spec":{"removal":{"policy":"Abandon"}}}'`, "verb abandon"}},
		{"failed a while ago", was(ops(op(remove, failed, 30*time.Second))), snapshot{}, "Record, Remove, tell Removing, Removed=False/Removing, pending", []string{"is tried again: It did"}},
		{"failed three times", was(ops(dirty, dirty, dirty)), snapshot{}, "Nothing, tell RemovalFailed, again in 1m50s, Removed=False/RemovalFailed, pending", nil},
		{"failed many times", was(ops(dirty, dirty, dirty, dirty, dirty, dirty, dirty)), snapshot{}, "Nothing, tell RemovalFailed, again in 9m50s, Removed=False/RemovalFailed, pending", nil},
		{"canceled", was(ops(op(remove, canceled, 0, canceling))), snapshot{}, "Nothing, tell RemovalFailed, again in 10m0s, Removed=False/RemovalFailed, pending", []string{"operation remove-1 was canceled by bob."}},
		{"not begun, as it is paused", was(ops(op(remove, canceled, 0, at(v1alpha1.StepWaitForSlot, v1alpha1.StepFailed)))), snapshot{paused: "spec.paused"}, "Nothing, tell Paused, Removed=Unknown/Paused, pending", nil},
		{"not begun, as it was paused", was(ops(op(remove, canceled, 9*time.Second, at(v1alpha1.StepWaitForSlot, v1alpha1.StepFailed)))), snapshot{}, "Nothing, again in 1s, Removed=False/Removing, pending", []string{"Operation remove-1 was not begun. It did what it did. It is asked for again."}},
		{"not begun, as it was paused, a while ago", was(ops(op(remove, canceled, 10*time.Second, notBegun))), snapshot{}, "Record, Remove, tell Removing, Removed=False/Removing, pending", []string{"The host is about to be cleaned."}},
		{"not begun, and it is the turn of others", was(ops(op(remove, canceled, 10*time.Second, notBegun))), snapshot{turn: turn{why: "Others first."}}, "Nothing, again in 10s, Removed=False/Removing, pending", []string{"Others first."}},
		{"begun before, and not tried again in a pause", was(ops(op(remove, canceled, 10*time.Second, notBegun), dirty)), snapshot{}, "Nothing, tell RemovalFailed, again in 20s, Removed=False/RemovalFailed, pending", nil},

		{"the namespace goes", was(), snapshot{terminating: true}, "Release, tell HostLeft", []string{"Namespace ns is being deleted: the host is left as it is", "An instance with the address", "takes it over without disturbing it"}},
		{"the namespace goes, paused", was(), snapshot{terminating: true, paused: "spec.paused"}, "Release, tell HostLeft", nil},
		{"the namespace goes, abandoned", was(removal(abandon, 0)), snapshot{terminating: true}, "Release, tell HostLeft", nil},
		{"the namespace goes, nothing was put on the host", newInstance(held, deleted(0)), snapshot{terminating: true}, "Release, tell HostLeft", nil},
		{"the namespace goes, cleaning was recorded and not begun", was(ops(op(remove, pending, 0, notBegun))), snapshot{terminating: true}, "Release, tell HostLeft", nil},
		{"the namespace goes, its removal connected and was withdrawn", was(ops(op(remove, canceled, 10*time.Second, at(v1alpha1.StepWaitForSlot, v1alpha1.StepFailed)))), snapshot{terminating: true}, "Release, tell HostLeft", []string{"takes it over without disturbing it"}},
		{"it waits for a slot", was(ops(op(remove, running, 0, at(v1alpha1.StepWaitForSlot, v1alpha1.StepRunning)))), snapshot{}, "Nothing, Removed=False/Removing", []string{"remove-1 has not begun to remove the host. It did what it did."}},
		{"the namespace goes, being cleaned", was(ops(op(remove, running, 0))), snapshot{terminating: true}, "Nothing, Removed=False/Removing", nil},
		{"the namespace goes, being drained", was(ops(op(drain, running, 0))), snapshot{terminating: true}, "Cancel, Removed=False/Removing, pending", nil},
		{"the namespace goes, cleaning failed and is about to be tried again", was(ops(v1alpha1.Operation{Type: remove, Phase: v1alpha1.OperationPending}, dirty)), snapshot{terminating: true}, "Release, tell HostLeft", []string{"Its removal had begun and did not end:"}},
		{"the namespace goes, cleaning failed", was(ops(dirty)), snapshot{terminating: true}, "Release, tell HostLeft", []string{"Its removal had begun and did not end: It did what it did."}},
		{"the namespace goes, clean", was(ops(op(remove, succeeded, 0))), snapshot{terminating: true}, "Release, tell Removed", nil},

		{"abandon", was(removal(abandon, 0)), snapshot{}, "Abandon, tell Abandoned", []string{"files and credentials of a node are still on it"}},
		{"abandon a duplicate", was(removal(abandon, 0), duplicate), snapshot{}, "Release, tell HostLeft", nil},
		{"abandon what was only inspected", newInstance(held, deleted(0), removal(abandon, 0)), snapshot{}, "Abandon, tell Abandoned", []string{"It was never configured, and its Node, if it has one, was not touched."}},
		{"abandon what the history is too short for", newInstance(held, deleted(0), removal(abandon, 0), ops(full...)), snapshot{}, "Abandon, tell Abandoned", []string{"its Node, if it has one, is kept"}},
		{"abandon what may have been released", was(removal(abandon, 0), ops(v1alpha1.Operation{Type: v1alpha1.OperationRelease, Phase: v1alpha1.OperationFailed, ReleaseBegun: true})), snapshot{}, "Abandon, tell Abandoned", []string{"whether it was released before, so that its Node is kept"}},
		{"abandon while it is being cleaned", was(removal(abandon, 0), ops(op(remove, running, 0))), snapshot{}, "Abandon, tell Abandoned", nil},
		{"abandon while it is paused", was(removal(abandon, 0)), snapshot{paused: "spec.paused"}, "Abandon, tell Abandoned", nil},
		{"unreachable", was(ops(unreached)), snapshot{}, "Nothing, tell RemovalFailed, again in 20s, Removed=False/RemovalFailed, pending", nil},
		{"unreachable, time is left", was(removal(clean, time.Hour), ops(unreached)), snapshot{}, "Nothing, tell RemovalFailed, again in 20s, Removed=False/RemovalFailed, pending",
			[]string{"If the host has not been reached by 2026-03-14T16:08:26Z, it is given up."}},
		{"unreachable, time ends before the next attempt", was(removal(clean, 70*time.Second), ops(unreached)), snapshot{}, "Nothing, tell RemovalFailed, again in 10s, Removed=False/RemovalFailed, pending", nil},
		{"unreachable, time is over", was(removal(clean, time.Minute), ops(unreached)), snapshot{}, "Abandon, tell Abandoned", []string{"within the 60 seconds of spec.removal.afterSeconds."}},
		{"unreachable, time is over, and its Machine drains", was(removal(clean, time.Minute), ops(unreached)), snapshot{machineLeaving: true}, "Nothing, tell RemovalFailed, again in 20s, Removed=False/RemovalFailed, pending", []string{"It is not given up while its Machine is there"}},
		{"paused, time is over, and its Machine drains", was(removal(clean, time.Minute)), snapshot{paused: "spec.paused", machineLeaving: true}, "Nothing, tell Paused, again in 30s, Removed=Unknown/Paused, pending", []string{"It is not given up while its Machine is there"}},
		{"reachable and not clean, time is over", was(removal(clean, time.Minute), ops(dirty)), snapshot{}, "Nothing, tell RemovalFailed, again in 20s, Removed=False/RemovalFailed, pending", nil},
		{"time is over before the first attempt", was(removal(clean, time.Second)), snapshot{}, "Record, Remove, tell Removing, Removed=False/Removing, pending", nil},

		{"paused", was(), snapshot{paused: "spec.paused of pool p"}, "Nothing, tell Paused, Removed=Unknown/Paused, pending", []string{"spec.paused of pool p is true", "Abandon"}},
		{"paused, time is left", was(removal(clean, time.Hour)), snapshot{paused: "spec.paused"}, "Nothing, tell Paused, again in 59m0s, Removed=Unknown/Paused, pending", nil},
		{"paused, time is over", was(removal(clean, time.Minute)), snapshot{paused: "spec.paused"}, "Abandon, tell Abandoned", nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := test.snapshot
			w.instance, w.now = test.instance, testNow
			a := decide(w)
			if got := describe(a); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
			checkText(t, a)
			text := ""
			if a.event != nil {
				text += a.event.note + "\n"
			}
			if a.removed != nil {
				text += a.removed.Message
			}
			for _, want := range test.wantText {
				if !strings.Contains(text, want) {
					t.Errorf("%q is missing in %q", want, text)
				}
			}
		})
	}
}

func TestBackoff(t *testing.T) {
	for _, test := range []struct {
		n    int
		want time.Duration
	}{
		{0, time.Minute}, {1, time.Minute}, {2, 2 * time.Minute}, {3, 4 * time.Minute}, {5, 16 * time.Minute}, {6, 30 * time.Minute}, {1000, 30 * time.Minute},
	} {
		t.Run(fmt.Sprint(test.n), func(t *testing.T) {
			if got := backoff.After(configureBackoff, test.n); got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
		})
	}
}
