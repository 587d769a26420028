// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package instance

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/controller/internal/message"
	"github.com/openshift/windows-instance-api/pkg/controller/internal/object"
	"github.com/openshift/windows-instance-api/pkg/desired/document"
	"github.com/openshift/windows-instance-api/pkg/host"
	"github.com/openshift/windows-instance-api/pkg/host/agentclient"
	"github.com/openshift/windows-instance-api/pkg/host/diagnose"
	"github.com/openshift/windows-instance-api/pkg/host/diagnose/preflight"
)

// snapshot has everything that decides about the status of an instance.
type snapshot struct {
	// instance is the object with the status that is recorded now.
	instance *v1alpha1.WindowsInstance
	// through is the bastion that the host is contacted through now. Empty: none.
	through string
	// paused says why nothing may be done on the host. Empty: it may.
	paused string
	// duplicate says which other instance stands for the host, or has to. Empty: none.
	duplicate string
	// elsewhere: it says for which namespace the host was configured, and there may be no other instance.
	elsewhere bool
	// hostnameTaken says which other host has the computer name of the host. Empty: none that comes before it.
	hostnameTaken string
	// takesOver: that one was deleted, and has handed the host over to this one with its Node.
	takesOver bool
	// observation is what the last probe saw, if it still applies. Nil: there is none,
	// and what the status says stays.
	observation *observation
	// node is the Node of the host. Nil: there is none.
	node *corev1.Node
	// otherMachine is the name of a Node at an address where the host was found that is that of another machine, by its provider ID. Empty: there is
	// none, or the host has its Node.
	otherMachine string
	// nodeDiffers: its labels or taints are others than those that are desired, and it may not be written.
	nodeDiffers bool
	// pool is that of the instance. Nil: it is in none, or that does not exist.
	pool *v1alpha1.WindowsNodePool
	// managed: the host is configured, and not only watched.
	managed bool
	// revision names the desired configuration of the host: where hosts are only watched, the
	// agent. Empty: not known.
	revision string
	// desiredPool names the ControllerRevision that this is of, and poolRevision the same once it is known which programs that has. Empty: it is
	// not known, or there is no pool.
	desiredPool, poolRevision string
	// samePrograms: it has the programs of the one that the host worked with last, though it is another one.
	samePrograms bool
	// programsOfBefore: it has those of the one that the host worked with before that.
	programsOfBefore bool
	// rolledBack is what of its pool was rolled back. Nil: nothing.
	rolledBack *v1alpha1.PoolRollback
	// waiting is what cannot be configured yet.
	waiting []string
	// warnings say which settings of the cluster cannot hold on the host as they are.
	warnings []string
	// held is what keeps the host from being updated. Empty: nothing does, or it waits for its turn. heldKnown: it is known.
	held      string
	heldKnown bool
	// inputs is why the desired configuration of the host cannot be worked out. Nil: it can.
	inputs error
	// now becomes the transition time of conditions that change.
	now time.Time
}

// checks are the conditions that a probe finds out, each of which waits for those before it.
var checks = []string{
	v1alpha1.ConditionResolved,
	v1alpha1.ConditionReachable,
	v1alpha1.ConditionHostKeyTrusted,
	v1alpha1.ConditionAuthenticated,
	v1alpha1.ConditionPreflightPassed,
}

// conditionOrder is the order in which a status lists its conditions.
var conditionOrder = append(slices.Clone(checks),
	v1alpha1.ConditionCredentialsCurrent,
	v1alpha1.ConditionConfigured,
	v1alpha1.ConditionRebootRequired,
	v1alpha1.ConditionUpToDate,
	v1alpha1.ConditionNodeReady,
	v1alpha1.ConditionReady,
	v1alpha1.ConditionRemoved,
	v1alpha1.ConditionSourceSynced,
)

// evaluation is a status in the making.
type evaluation struct {
	snapshot
	status     v1alpha1.WindowsInstanceStatus
	generation int64
	// failure is why the probe failed. Nil: it did not.
	failure *diagnose.Diagnosis
	// waitsFor is the first condition of the chain that does not hold.
	waitsFor string
}

// evaluate works out the status of an instance from what is known. It changes
// nothing and depends on nothing else. With an unchanged snapshot it returns the
// status that is recorded already.
func evaluate(s snapshot) v1alpha1.WindowsInstanceStatus {
	e := &evaluation{snapshot: s, status: *s.instance.Status.DeepCopy()}
	if o := s.observation; o != nil && o.err != nil {
		f := classify(o.failed, o.err, s.instance)
		if f.Reason == v1alpha1.ReasonHostKeyChanged && e.moved() {
			f = diagnose.AnotherHost(f, s.instance)
		}
		e.failure = &f
	}
	// A status speaks of the spec that the host was contacted with. It does so too
	// when nothing is to be done, and before the first contact, when it says so.
	e.generation = s.instance.Generation
	if s.observation == nil && s.paused == "" && s.duplicate == "" && e.status.ObservedGeneration != 0 {
		e.generation = e.status.ObservedGeneration
	}
	e.status.ObservedGeneration = e.generation
	for _, step := range []func(*evaluation){
		(*evaluation).switched,
		(*evaluation).desired,
		(*evaluation).addresses,
		(*evaluation).hostKeys,
		(*evaluation).system,
		(*evaluation).confirmation,
		(*evaluation).chain,
		(*evaluation).credentials,
		(*evaluation).configured,
		(*evaluation).reboot,
		(*evaluation).upToDate,
		(*evaluation).nodeReady,
		(*evaluation).worked,
		(*evaluation).ready,
		(*evaluation).phase,
	} {
		step(e)
	}
	slices.SortStableFunc(e.status.Conditions, func(a, b metav1.Condition) int {
		return cmp.Compare(slices.Index(conditionOrder, a.Type), slices.Index(conditionOrder, b.Type))
	})
	return e.status
}

// set records a condition. Its transition time changes only when its status does.
func (e *evaluation) set(condition string, status metav1.ConditionStatus, reason, text string) {
	meta.SetStatusCondition(&e.status.Conditions, metav1.Condition{
		Type:               condition,
		Status:             status,
		ObservedGeneration: e.generation,
		LastTransitionTime: metav1.NewTime(e.now.Truncate(time.Second)),
		Reason:             reason,
		Message:            message.ConditionMessage(text),
	})
}

// setf is set with a formatted message.
func (e *evaluation) setf(condition string, status metav1.ConditionStatus, reason, format string, args ...any) {
	e.set(condition, status, reason, fmt.Sprintf(format, args...))
}

func (e *evaluation) get(condition string) *metav1.Condition {
	return meta.FindStatusCondition(e.status.Conditions, condition)
}

func (e *evaluation) holds(condition string) bool {
	return meta.IsStatusConditionTrue(e.status.Conditions, condition)
}

// wait records that a condition has not been found out, as it waits for another.
func (e *evaluation) wait(condition string) {
	switch {
	case e.elsewhere:
		e.set(condition, metav1.ConditionUnknown, v1alpha1.ReasonNotTried, "Not tried: this host was configured for another namespace.")
		return
	case e.duplicate != "":
		e.set(condition, metav1.ConditionUnknown, v1alpha1.ReasonNotTried, "Not tried: another instance already represents this host.")
		return
	}
	e.setf(condition, metav1.ConditionUnknown, v1alpha1.ReasonNotTried, "Not tried yet: condition %s must be True first.", e.waitsFor)
}

// keep leaves a condition as it is, or records that nothing is known yet.
func (e *evaluation) keep(condition string) {
	if c := e.get(condition); c != nil && (c.Reason != v1alpha1.ReasonPaused || e.paused != "") {
		return
	}
	if e.paused != "" {
		e.set(condition, metav1.ConditionUnknown, v1alpha1.ReasonPaused, e.paused)
		return
	}
	e.set(condition, metav1.ConditionUnknown, v1alpha1.ReasonNotTried, "The host has not been tried yet.")
}

// moved says whether the host was looked for at addresses none of which it had when it was last
// logged in to.
func (e *evaluation) moved() bool {
	known, now := e.instance.Status.FoundAt(), e.observation.addresses
	return e.instance.Status.Identified() && len(known) > 0 && len(now) > 0 &&
		!slices.ContainsFunc(now, func(a string) bool { return slices.Contains(known, a) })
}

// addresses records what the instance stands for. A host that is known keeps its addresses until
// it is found at others.
func (e *evaluation) addresses() {
	o := e.observation
	if !e.instance.Status.Identified() {
		e.status.Bastion = o.foundThrough(e.through) // also before it is contacted: it tells hosts apart
	}
	if o == nil || e.instance.Status.Identified() && o.report == nil {
		return
	}
	e.status.HostIP, e.status.Bastion = o.foundAt(), o.foundThrough(e.through)
	switch {
	case len(o.addresses) > 0:
		// A name server may give them in another order each time.
		if !sameElements(e.status.Addresses, o.addresses) {
			e.status.Addresses = slices.Clone(o.addresses)
		}
	case e.failure != nil && e.failure.Condition == v1alpha1.ConditionResolved:
		// A name server that fails for a while does not make the addresses wrong. Those
		// of an earlier spec, and those that are refused, are.
		if e.failure.Reason == v1alpha1.ReasonAddressRefused || e.instance.Status.ObservedGeneration != e.instance.Generation {
			e.status.Addresses = nil
		}
	}
}

// hostKeys records the trusted keys: of those that a person has pinned, the one that the host has proven
// to have. The others may be those of any host.
func (e *evaluation) hostKeys() {
	o := e.observation
	if o == nil || e.duplicate != "" {
		return
	}
	decision := trust(e.instance.Spec.HostKeys, e.instance.Status.HostKeys, e.instance.LostStatus(), o.presented)
	seen := metav1.NewTime(o.finished.Truncate(time.Second))
	switch {
	case decision.verdict == verdictRecord && o.err == nil:
		e.status.HostKeys = recordKeys(nil, append(decision.keys, o.presented), v1alpha1.TrustedOnFirstUse, seen)
	case o.loggedIn && decision.by == v1alpha1.TrustedBySpec && e.sameMachine():
		// What a person has pinned replaces what was recorded, once the host has proven to have it.
		e.status.HostKeys = recordKeys(e.status.HostKeys, []host.Key{o.peer.Key}, v1alpha1.TrustedBySpec, seen)
	}
}

// sameMachine says whether what was logged in to counts as the host of the instance. The key of another
// machine is none of this host. One that does not say which machine it is, because our agent cannot run there, is
// believed where the host was found before.
func (e *evaluation) sameMachine() bool {
	o := e.observation
	if o.report != nil || !e.instance.Status.Identified() {
		return true
	}
	_, another := errors.AsType[*agentclient.AnotherHostError](o.err)
	return !another && o.peer.Bastion == e.instance.Status.Bastion && slices.Contains(e.instance.Status.FoundAt(), o.foundAt())
}

// system records what the host says of itself.
func (e *evaluation) system() {
	o := e.observation
	if o == nil || o.report == nil {
		return
	}
	e.status.MachineID = mergeMachine(e.status.MachineID, o.report.machineID)
	e.status.System = mergeSystem(e.status.System, o.report.system)
	e.status.WindowsUpdates = o.report.updates
	e.status.Version = o.report.agentVersion
	switch {
	case e.managed && e.beforeRelease(o):
		e.status.CurrentRevision = ""
	case e.managed:
		e.found(o.report.configuration.AppliedRevision)
		e.status.CurrentRevision = o.report.configuration.AppliedRevision
	default:
		e.status.CurrentRevision = shortDigest(o.report.agentDigest, e.revision)
	}
}

// chain records the conditions that a probe finds out.
func (e *evaluation) chain() {
	if e.duplicate != "" {
		reason := v1alpha1.ReasonDuplicateHost
		if e.elsewhere {
			reason = v1alpha1.ReasonHostOfAnotherNamespace
		}
		e.set(v1alpha1.ConditionResolved, metav1.ConditionFalse, reason, e.duplicate)
		e.waitsFor = v1alpha1.ConditionResolved
		for _, condition := range checks[1:] {
			e.wait(condition)
		}
		return
	}
	o := e.observation
	for _, condition := range checks {
		switch {
		case o == nil || e.paused != "":
			e.keep(condition)
		case e.failure != nil && e.failure.Condition == condition:
			// Also when an earlier one could not be found out because of it.
			e.set(condition, e.failure.Status, e.failure.Reason, e.failure.Message)
		case e.waitsFor != "":
			e.wait(condition)
		default:
			e.pass(condition)
		}
		if e.waitsFor == "" && !e.holds(condition) {
			e.waitsFor = condition
		}
	}
}

// pass records a condition that the observation speaks for.
func (e *evaluation) pass(condition string) {
	o := e.observation
	switch condition {
	case v1alpha1.ConditionResolved:
		e.setf(condition, metav1.ConditionTrue, v1alpha1.ReasonAddressResolved, "spec.address resolves to %s.", strings.Join(o.addresses, ", "))
	case v1alpha1.ConditionReachable:
		if !o.contacted {
			e.set(condition, metav1.ConditionUnknown, v1alpha1.ReasonNotTried, "The host was not contacted.")
			return
		}
		through := ""
		if bastion := o.foundThrough(e.through); bastion != "" {
			through = ", through bastion " + bastion
		}
		e.setf(condition, metav1.ConditionTrue, v1alpha1.ReasonSSHAnswers, "An SSH server answers on port %d%s.", e.instance.Spec.Port, through)
	case v1alpha1.ConditionHostKeyTrusted:
		e.trusted()
	case v1alpha1.ConditionAuthenticated:
		if !o.loggedIn {
			e.set(condition, metav1.ConditionUnknown, v1alpha1.ReasonNotTried, "Not tried yet: the host key was recorded first.")
			return
		}
		e.set(condition, metav1.ConditionTrue, v1alpha1.ReasonLoggedIn, loggedIn(o.peer, e.instance.Spec.Username))
	case v1alpha1.ConditionPreflightPassed:
		if o.report == nil {
			e.set(condition, metav1.ConditionUnknown, v1alpha1.ReasonNotTried, "The host has not been inspected yet.")
			return
		}
		status, reason, message := summarize(o.report.findings)
		if e.hostnameTaken != "" {
			findings := message
			message = e.hostnameTaken
			if status == metav1.ConditionFalse {
				message += besides + findings
			}
			status, reason = metav1.ConditionFalse, v1alpha1.ReasonHostnameTaken
		}
		e.set(condition, status, reason, message)
	}
}

// loggedIn says what of ours a host accepts, and what is the matter with the rest.
func loggedIn(peer host.Peer, user string) string {
	text := fmt.Sprintf("The host accepts the credentials of user %s", user)
	if peer.With != "" {
		text += ", " + peer.With
	}
	if text += "."; peer.Remark != "" {
		text += " " + peer.Remark
	}
	return text
}

// trusted records why the host key is trusted, as nothing failed before or at it.
func (e *evaluation) trusted() {
	decision := trust(e.instance.Spec.HostKeys, e.status.HostKeys, e.instance.LostStatus(), e.observation.presented)
	switch decision.verdict {
	case verdictUnusable, verdictAsk, verdictRecord:
		e.set(v1alpha1.ConditionHostKeyTrusted, metav1.ConditionUnknown, v1alpha1.ReasonNotTried, "The host key has not been recorded yet.")
	case verdictConfirm:
		d := diagnose.HostKeyUnconfirmed(e.observation.presented, e.instance)
		e.set(d.Condition, d.Status, d.Reason, d.Message)
	case verdictChanged:
		d := diagnose.HostKeyChanged(e.observation.presented, decision.keys, e.instance)
		e.set(d.Condition, d.Status, d.Reason, d.Message)
	case verdictVerify, verdictMatch:
		if decision.verdict == verdictVerify && !e.observation.verified {
			e.set(v1alpha1.ConditionHostKeyTrusted, metav1.ConditionUnknown, v1alpha1.ReasonNotTried, "The host key will be verified at the next login.")
			return
		}
		names := make([]string, len(decision.keys))
		for i, key := range decision.keys {
			names[i] = key.Describe()
		}
		if decision.by == v1alpha1.TrustedBySpec {
			e.setf(v1alpha1.ConditionHostKeyTrusted, metav1.ConditionTrue, v1alpha1.ReasonPinned,
				"The host presents a key that was pinned in spec.hostKeys: %s.", strings.Join(names, " or "))
			return
		}
		e.setf(v1alpha1.ConditionHostKeyTrusted, metav1.ConditionTrue, v1alpha1.ReasonFirstUse,
			"The host presents the same key as at the first contact: %s. Nobody has confirmed it; set spec.hostKeys to pin it.", strings.Join(names, " or "))
	}
}

// summarize turns findings into the condition PreflightPassed. All of them are
// listed, those that are in the way first.
func summarize(findings []preflight.Finding) (status metav1.ConditionStatus, reason, message string) {
	var errs, notes []string
	for _, f := range findings {
		text := fmt.Sprintf("[%s] %s", f.Code, f.Message)
		if f.Severity == preflight.Error {
			errs = append(errs, text)
		} else {
			notes = append(notes, text)
		}
	}
	var b strings.Builder
	if len(errs) == 0 {
		b.WriteString("The host is fit to be a node.")
	} else {
		fmt.Fprintf(&b, "The host cannot be a node yet: %s.", strings.Join(errs, "; "))
	}
	if len(notes) > 0 {
		fmt.Fprintf(&b, " Worth knowing: %s.", strings.Join(notes, "; "))
	}
	if len(errs) > 0 {
		return metav1.ConditionFalse, v1alpha1.ReasonFindings, b.String()
	}
	return metav1.ConditionTrue, v1alpha1.ReasonPreflightPassed, b.String()
}

// reboot records whether Windows waits for a restart.
func (e *evaluation) reboot() {
	const condition = v1alpha1.ConditionRebootRequired
	o := e.observation
	switch {
	case e.duplicate != "":
		e.wait(condition)
	case o == nil || e.paused != "":
		e.keep(condition)
	case o.report == nil:
		e.wait(condition)
	case o.report.rebootPending:
		e.setf(condition, metav1.ConditionTrue, v1alpha1.ReasonRebootPending,
			"Windows waits for a restart (%s): drain the node and restart the host when it suits.", preflight.RebootCause(o.report.rebootReasons))
	default:
		e.set(condition, metav1.ConditionFalse, v1alpha1.ReasonNoRebootPending, "Windows does not wait for a restart.")
	}
}

// upToDate records whether the host has the desired revision.
func (e *evaluation) upToDate() {
	const condition = v1alpha1.ConditionUpToDate
	switch {
	case e.duplicate != "":
		e.wait(condition)
	case e.paused != "":
		e.keepLeft(condition)
	case e.managed:
		e.revisionCurrent()
	case e.observation == nil:
		e.keep(condition)
	case e.observation.report == nil:
		e.wait(condition)
	case e.status.CurrentRevision == e.revision:
		e.setf(condition, metav1.ConditionTrue, v1alpha1.ReasonRevisionCurrent, "The host has revision %s.", v1alpha1.ShortRevision(e.revision))
	default:
		e.setf(condition, metav1.ConditionFalse, v1alpha1.ReasonRevisionOutdated, "The host has revision %s; the desired one is %s.", orUnknown(v1alpha1.ShortRevision(e.status.CurrentRevision)), v1alpha1.ShortRevision(e.revision))
	}
}

func uninitialized(node *corev1.Node) bool {
	return slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.Key == document.TaintUninitialized })
}

// nodeReady records the Node of the host. It depends on the Node alone: the kubelet may
// be well while nobody can log in, and the other way round.
func (e *evaluation) nodeReady() {
	const condition = v1alpha1.ConditionNodeReady
	if e.duplicate != "" {
		if !e.takesOver {
			e.status.Node = nil
		}
		e.wait(condition)
		return
	}
	if !e.status.Identified() {
		e.status.Node = nil
		e.set(condition, metav1.ConditionUnknown, v1alpha1.ReasonNotTried, "Not tried: the host has not been logged in to yet, so it is not known which Node it is.")
		return
	}
	if e.node == nil {
		e.status.Node = nil
		if len(e.status.Addresses) == 0 && e.instance.Spec.ProviderID == "" {
			e.set(condition, metav1.ConditionUnknown, v1alpha1.ReasonNotTried, "Not tried: the addresses of the host are not known.")
			return
		}
		text := "No Node has the address or the provider ID of the host: its kubelet has not registered."
		if e.otherMachine != "" {
			text = fmt.Sprintf("Node %[1]s has the address of the host, and another provider ID than spec.providerID, so it is taken for another machine. To compare them: kubectl get node %[1]s -o jsonpath={.spec.providerID}\n"+
				"If the Node is that of this host, spec.providerID is wrong: take it off, and then set it again. If it is left from a machine that had the address before, delete it: kubectl delete node %[1]s", e.otherMachine)
		}
		e.set(condition, metav1.ConditionFalse, v1alpha1.ReasonNoNode, text)
		return
	}
	same := e.status.Node != nil && e.status.Node.UID == e.node.UID
	e.status.Node = &v1alpha1.NodeReference{Name: e.node.Name, UID: e.node.UID}
	wasReady := same && e.holds(condition) && !e.status.Operation.Active()
	defer func() {
		if wasReady && !e.holds(condition) {
			times := append(slices.Clone(e.status.NodeNotReadyTimes), metav1.NewTime(e.now.Truncate(time.Second)))
			e.status.NodeNotReadyTimes = times[max(0, len(times)-maxNotReadyTimes):]
		}
	}()
	ready := object.NodeReady(e.node)
	switch {
	case ready == nil:
		e.setf(condition, metav1.ConditionFalse, v1alpha1.ReasonNodeNotReady, "Node %s does not report whether it is ready.", e.node.Name)
	case ready.Status == corev1.ConditionTrue:
		text := fmt.Sprintf("Node %s is ready.", e.node.Name)
		if uninitialized(e.node) {
			text += " No pod is scheduled to it before the cloud controller manager, or on Azure azure-cloud-node-manager on the host, has taken its taint " + document.TaintUninitialized + " away, for which it has to find the host in its cloud: see the log of that program."
		}
		e.set(condition, metav1.ConditionTrue, v1alpha1.ReasonNodeReady, text)
	default:
		e.setf(condition, metav1.ConditionFalse, v1alpha1.ReasonNodeNotReady, "Node %s is not ready: %s (%s).", e.node.Name, strings.TrimRight(message.Shorten(ready.Message, maxCause), "."), ready.Reason)
	}
}

// maxNotReadyTimes bounds how often it is remembered that a Node has gone down, as its field does.
const maxNotReadyTimes = 5

// ready sums up.
func (e *evaluation) ready() {
	const condition = v1alpha1.ConditionReady
	if e.paused != "" {
		e.set(condition, metav1.ConditionUnknown, v1alpha1.ReasonPaused, e.paused)
		return
	}
	c := e.obstacle(checks)
	if c == nil && e.managed && !e.foreign() {
		c = e.obstacle([]string{v1alpha1.ConditionConfigured})
	}
	if c == nil {
		c = e.obstacle([]string{v1alpha1.ConditionNodeReady})
	}
	switch {
	case c == nil:
		e.set(condition, metav1.ConditionTrue, v1alpha1.ReasonAllChecksPassed, "The login works, the host is fit to be a node, and its Node is ready.")
	case c.Reason == v1alpha1.ReasonNotTried:
		e.set(condition, metav1.ConditionUnknown, c.Reason, c.Message)
	default:
		e.set(condition, metav1.ConditionFalse, c.Reason, c.Message)
	}
}

// obstacle is the condition that explains best why not all of them hold: one that
// was found out rather than one that waits. Nil means that all of them hold.
func (e *evaluation) obstacle(conditions []string) *metav1.Condition {
	var waiting *metav1.Condition
	for _, condition := range conditions {
		c := e.get(condition)
		switch {
		case c == nil || c.Status == metav1.ConditionTrue:
		case c.Reason != v1alpha1.ReasonNotTried:
			return c
		case waiting == nil || e.failure != nil && e.failure.Condition == condition:
			waiting = c
		}
	}
	return waiting
}

// phase is one word for people: what is being done, else how the host is. A Node that
// is not ready leaves the phase at Connected, and that of a host that was configured at
// Joining: it may be starting, and the condition says more.
func (e *evaluation) phase() {
	c := e.obstacle(checks)
	switch {
	case e.status.Operation.HostPhase() != "":
		e.status.Phase = e.status.Operation.HostPhase()
	case e.paused != "":
		e.status.Phase = v1alpha1.InstancePending
	case c != nil:
		e.status.Phase = phaseOf(c)
	case e.managed && !e.foreign() && !e.holds(v1alpha1.ConditionConfigured):
		if e.status.Phase == v1alpha1.InstanceConfiguring && e.justConfigured() {
			return // until the host was probed
		}
		e.status.Phase = unconfiguredPhase(e.get(v1alpha1.ConditionConfigured))
	case e.holds(v1alpha1.ConditionNodeReady):
		e.status.Phase = v1alpha1.InstanceReady
	case e.managed && !e.foreign():
		e.status.Phase = v1alpha1.InstanceJoining
	default:
		e.status.Phase = v1alpha1.InstanceConnected
	}
}

// justConfigured says whether an operation has configured the host for the first time, and the host was not probed since.
func (e *evaluation) justConfigured() bool {
	last := e.status.NewestOperation(v1alpha1.OperationReconfigure)
	return last != nil && last.Phase == v1alpha1.OperationSucceeded && (e.observation == nil || outdated(e.observation, last, e.now)) &&
		e.get(v1alpha1.ConditionConfigured).Reason == v1alpha1.ReasonConfiguring
}

// unconfiguredPhase is the phase of a host that is fit and not configured, as c says.
func unconfiguredPhase(c *metav1.Condition) v1alpha1.WindowsInstancePhase {
	switch c.Reason {
	case v1alpha1.ReasonConfigurationFailed, v1alpha1.ReasonInputsMissing:
		return v1alpha1.InstanceFailed
	}
	return v1alpha1.InstanceConnected // it is about to be configured
}

// leaving is the status of an instance that was deleted and whose host is still to be
// cleaned. All that is known of the host stays: it is needed to reach it.
func leaving(instance *v1alpha1.WindowsInstance, now time.Time) v1alpha1.WindowsInstanceStatus {
	e := &evaluation{snapshot: snapshot{instance: instance, now: now}, status: *instance.Status.DeepCopy(), generation: instance.Generation}
	e.set(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonRemoving, "The instance was deleted, and its host is being removed.")
	e.status.Phase = v1alpha1.InstanceRemoving
	return e.status
}

// phaseOf is the phase of a host that c keeps from being used.
func phaseOf(c *metav1.Condition) v1alpha1.WindowsInstancePhase {
	switch c.Reason {
	case v1alpha1.ReasonNotTried:
		if c.Type == v1alpha1.ConditionResolved {
			return v1alpha1.InstancePending
		}
		return v1alpha1.InstanceConnecting
	case v1alpha1.ReasonNameNotResolved, v1alpha1.ReasonAuthenticationTimedOut, v1alpha1.ReasonConnectionLost:
		return v1alpha1.InstanceUnreachable
	}
	if c.Type == v1alpha1.ConditionReachable {
		return v1alpha1.InstanceUnreachable
	}
	return v1alpha1.InstanceFailed
}

// shortDigest cuts a digest to the length of the revision it is compared with.
func shortDigest(digest, revision string) string {
	const length = 16 // as in the name of the agent on a host
	n := length
	if revision != "" {
		n = len(revision)
	}
	return digest[:min(n, len(digest))]
}

func sameElements(a, b []string) bool {
	return slices.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b)))
}
