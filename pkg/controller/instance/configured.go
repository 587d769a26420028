// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package instance

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/controller/internal/message"
	"github.com/openshift/windows-instance-api/pkg/wmco"
	"github.com/openshift/windows-instance-api/pkg/words"
)

// Desired says the desired configuration of a host. It is called concurrently, with
// objects that nobody changes meanwhile, and must answer from memory: it is asked at
// every reconciliation of an instance.
//
// An instance whose answer changes with anything but itself, its pool and its Node needs
// [Options.Changed] to be reconciled again.
type Desired interface {
	// Revision names the desired configuration of the host. pool and node are nil where there
	// is none. waiting says, for people, what cannot be configured yet and what it waits for; warnings say
	// which settings of the cluster cannot hold on the host as they are.
	// An error says what of the cluster is missing or wrong, and what to do about it.
	Revision(ctx context.Context, instance *v1alpha1.WindowsInstance, pool *v1alpha1.WindowsNodePool, node *corev1.Node) (revision string, waiting, warnings []string, err error)
	// PoolRevision names the ControllerRevision of the pool that this configuration is of. Empty: that is not known.
	PoolRevision(ctx context.Context, instance *v1alpha1.WindowsInstance, pool *v1alpha1.WindowsNodePool, node *corev1.Node) (string, error)
	// SamePrograms says whether a revision of a pool has the same programs as one that hosts had. False: it has not, or that is not
	// kept any more. known is false if the revision itself is not kept, say because it is not yet.
	SamePrograms(ctx context.Context, pool *v1alpha1.WindowsNodePool, name, had string) (same, known bool, err error)
	// MetricsKept says, for people, why a host that serves metrics goes on with what it has. Empty: there is nothing to say.
	MetricsKept() string
	// NodeNames is where the names of the Nodes of hosts come from. known is false as long as that could not be read.
	NodeNames() (from wmco.HostnameSource, known bool)
}

// inputsRetry is when to ask again for the desired configuration of a host after it could
// not be worked out. What was missing usually wakes the reconciler when it comes.
const inputsRetry = time.Minute

// readDesired asks for the desired configuration of the host. Before anything is known of the host
// there is no answer, and of a host that another instance stands for none is needed.
func (r *Reconciler) readDesired(ctx context.Context, s *snapshot, pool *v1alpha1.WindowsNodePool) {
	if r.Desired == nil {
		_, s.revision = r.Hosts.Agent()
		return
	}
	s.managed, s.heldKnown = true, true
	if r.UpdateBlockedBy != nil {
		s.held, s.heldKnown = r.UpdateBlockedBy(s.instance)
	}
	if pool != nil {
		s.rolledBack = pool.Status.RolledBack
	}
	if s.duplicate != "" {
		return
	}
	instance := s.instance
	if o := s.observation; o != nil && o.report != nil {
		// What the host said of itself decides, and is not in the object yet when it said it
		// for the first time.
		changed := *instance // shares all else, which is only read
		changed.Status.System = mergeSystem(instance.Status.System, o.report.system)
		if len(o.addresses) > 0 && !sameElements(instance.Status.Addresses, o.addresses) {
			changed.Status.Addresses = o.addresses
		}
		instance = &changed
	}
	if instance.Status.System == nil {
		return
	}
	s.revision, s.waiting, s.warnings, s.inputs = r.Desired.Revision(ctx, instance, pool, s.node)
	if o := s.observation; o != nil && o.report != nil && o.report.exporter {
		if kept := r.Desired.MetricsKept(); kept != "" {
			s.warnings = append(slices.Clone(s.warnings), kept)
		}
	}
	if pool != nil && s.inputs == nil {
		r.readPoolRevision(ctx, s, pool, instance)
	}
}

// readPoolRevision asks of which revision of its pool the desired configuration is, and which programs those that the host has worked with
// have in common with it. One that is not kept yet is none to go back to, and its programs are not known: that a host works with it is recorded
// when it is, which wakes the reconciler.
func (r *Reconciler) readPoolRevision(ctx context.Context, s *snapshot, pool *v1alpha1.WindowsNodePool, instance *v1alpha1.WindowsInstance) {
	name, err := r.Desired.PoolRevision(ctx, instance, pool, s.node)
	if err != nil {
		log.FromContext(ctx).Error(err, "What the host works with is recorded later")
		return
	}
	s.desiredPool = name
	had := instance.Status.PoolRevision
	if name != "" && had != "" && name != had {
		same, known, err := r.Desired.SamePrograms(ctx, pool, name, had)
		before := false
		if err == nil && known {
			before, known, err = r.Desired.SamePrograms(ctx, pool, name, instance.Status.PreviousPoolRevision)
		}
		if err != nil {
			log.FromContext(ctx).Error(err, "What the host works with is recorded later")
		}
		if err != nil || !known {
			return
		}
		s.samePrograms, s.programsOfBefore = same, before
	}
	s.poolRevision = name
}

// switched drops what was found out while hosts were only watched, or while they were
// configured, when it is now the other way round: revisions are of another kind then.
func (e *evaluation) switched() {
	c := e.get(v1alpha1.ConditionConfigured)
	unmanaged := c == nil || c.Reason == v1alpha1.ReasonNotManaged
	if unmanaged != e.managed || c == nil && !e.managed {
		return
	}
	e.status.CurrentRevision, e.status.DesiredRevision, e.status.DesiredPoolRevision = "", "", ""
	meta.RemoveStatusCondition(&e.status.Conditions, v1alpha1.ConditionConfigured)
	meta.RemoveStatusCondition(&e.status.Conditions, v1alpha1.ConditionUpToDate)
}

// desired records the desired configuration of the host, and of which revision of its pool that is. What was known before stays
// while it cannot be said.
func (e *evaluation) desired() {
	if e.managed && (e.revision == "" || e.revision == e.status.DesiredRevision && e.desiredPool == "" && e.pool != nil) {
		return
	}
	e.status.DesiredRevision, e.status.DesiredPoolRevision = e.revision, e.desiredPool
}

// beingConfigured is the message about a host that is configured for the first time. It is the same before an operation does it, meanwhile, and
// until the host was probed afterwards: to say which of these it is would be two more writes for each host, and status.operation says it.
const beingConfigured = "The host is not configured completely yet; while an operation configures it, status.operation says how far that is."

// configured records whether the host was configured completely. A host that was stays so
// while an operation changes it: whether its Node is well meanwhile is said by NodeReady.
func (e *evaluation) configured() {
	const condition = v1alpha1.ConditionConfigured
	last, attempt := e.status.NewestOperation(v1alpha1.OperationReconfigure), e.status.NewestAttempt(v1alpha1.OperationReconfigure)
	current, cannotReport := e.status.CurrentRevision, e.cannotReport()
	switch {
	case !e.managed:
		e.set(condition, metav1.ConditionUnknown, v1alpha1.ReasonNotManaged, "The controller has no payload: the host is watched, and nothing is configured on it.")
	case e.duplicate != "":
		e.wait(condition)
	case e.paused != "":
		e.keepLeft(condition)
	case last.Active() && current == "":
		e.set(condition, metav1.ConditionFalse, v1alpha1.ReasonConfiguring, beingConfigured)
	case e.halfReleased():
		e.releaseBegun(condition)
	case attempt.BrokenOff() && !e.foreign() && !e.unharmed():
		e.configurationFailed(attempt)
	case e.waitsFor != "" && current == "" && !e.ofWMCO() && !e.leftToWMCO():
		e.wait(condition)
	case e.foreign():
		reason, text := e.left()
		e.set(condition, metav1.ConditionUnknown, reason, text)
	case e.inputs != nil && current == "":
		e.set(condition, metav1.ConditionFalse, v1alpha1.ReasonInputsMissing, e.inputsMessage())
	case e.observation == nil:
		e.keepConfigured()
	case e.observation.report == nil:
		e.wait(condition)
	case last.Active():
		e.setConfigured()
	case outdated(e.observation, last, e.now):
		switch {
		case e.holds(condition):
		case current == "":
			e.set(condition, metav1.ConditionFalse, v1alpha1.ReasonConfiguring, beingConfigured)
		default:
			e.setf(condition, metav1.ConditionFalse, v1alpha1.ReasonConfiguring, "Operation %s has ended; the host will be probed again.", last.ID)
		}
	case e.observation.report.configuration.ApplyingRevision != "":
		e.setf(condition, metav1.ConditionFalse, v1alpha1.ReasonConfiguring,
			"The configuration with revision %s was interrupted and will continue.", v1alpha1.ShortRevision(e.observation.report.configuration.ApplyingRevision))
	case current != "" && cannotReport != "":
		e.set(condition, metav1.ConditionFalse, v1alpha1.ReasonKubeletCertificateUnusable, cannotReport)
	case current == "":
		e.set(condition, metav1.ConditionFalse, v1alpha1.ReasonConfiguring, beingConfigured)
	default:
		e.setConfigured()
	}
}

func (e *evaluation) setConfigured() {
	e.setf(v1alpha1.ConditionConfigured, metav1.ConditionTrue, v1alpha1.ReasonConfigured,
		"The host was configured completely, with revision %s.", v1alpha1.ShortRevision(e.status.CurrentRevision))
}

// keepConfigured is for a host that was not probed by this process.
func (e *evaluation) keepConfigured() {
	c := e.get(v1alpha1.ConditionConfigured)
	if c != nil && c.Status == metav1.ConditionFalse && c.Reason != v1alpha1.ReasonConfiguring && c.Reason != v1alpha1.ReasonKubeletCertificateUnusable {
		// The reason does not hold any more, and the host has not been probed with that known.
		e.set(v1alpha1.ConditionConfigured, metav1.ConditionUnknown, v1alpha1.ReasonNotTried, "The earlier problem no longer exists, but the host has not been probed since it ended.")
		return
	}
	e.keep(v1alpha1.ConditionConfigured)
}

// configurationFailed records that configuring the host ended without success.
func (e *evaluation) configurationFailed(last *v1alpha1.Operation) {
	const condition = v1alpha1.ConditionConfigured
	outcome := "failed"
	switch {
	case last.Withdrawn():
		outcome = "was ended by the controller"
	case last.Phase == v1alpha1.OperationCanceled:
		outcome = "was canceled by " + orUnknown(last.CancelRequestedBy)
	}
	text := fmt.Sprintf("Operation %s %s: %s The Node of the host, if there is one, may be left cordoned. "+
		"The controller tries again within half an hour, and sooner when the spec or the desired configuration of the host changes. To try now: kubectl windows reconfigure %s -n %s",
		last.ID, outcome, message.Cause(last.Message), e.instance.Name, e.instance.Namespace)
	e.setFailure(condition, v1alpha1.ReasonConfigurationFailed, text)
}

// setFailure records an operation that ended without success. As long as it is the same one, the
// condition speaks of the generation that failed: that a later one may do better is how the
// next attempt knows that it need not wait.
func (e *evaluation) setFailure(condition, reason, text string) {
	generation := e.generation
	if c := e.get(condition); c != nil && c.Reason == reason && c.Message == message.ConditionMessage(text) {
		generation = c.ObservedGeneration
	}
	e.set(condition, metav1.ConditionFalse, reason, text)
	e.get(condition).ObservedGeneration = generation
}

// unharmed says whether the host is, and works, as the last configuration that succeeded
// has left it: those since then ended before they changed anything.
func (e *evaluation) unharmed() bool {
	if e.status.CurrentRevision == "" {
		return false
	}
	for _, o := range e.status.Operations() {
		switch {
		case o.Type != v1alpha1.OperationReconfigure || o.Active():
		case o.Phase == v1alpha1.OperationSucceeded:
			return true
		case o.MayHaveChangedHost():
			return false
		}
	}
	// What the history does not have any more is not known, but what was found out then is.
	c := e.get(v1alpha1.ConditionConfigured)
	return len(e.status.History) < v1alpha1.MaxHistory || c == nil || c.Reason != v1alpha1.ReasonConfigurationFailed
}

// aimedAt says whether an operation was to bring the host to a revision. One that ended before
// it knew its own was to bring it to that of its time.
func aimedAt(o *v1alpha1.Operation, revision string) bool {
	return o != nil && (o.Revision == "" || o.Revision == revision)
}

// updateFailed records that bringing a host, which is as it was, to the desired revision ended
// without success.
func (e *evaluation) updateFailed(last *v1alpha1.Operation) {
	reason, outcome := v1alpha1.ReasonUpdateFailed, "failed"
	if last.Phase == v1alpha1.OperationCanceled {
		reason, outcome = v1alpha1.ReasonUpdateCanceled, "was canceled by "+orUnknown(last.CancelRequestedBy)
	}
	e.setFailure(v1alpha1.ConditionUpToDate, reason, fmt.Sprintf("The host works with revision %s; the desired one is %s. Operation %s %s before it changed the host: %s "+
		"The controller tries again within half an hour, or within six hours where pods did not leave. To try now: kubectl windows reconfigure %s -n %s%s",
		v1alpha1.ShortRevision(e.status.CurrentRevision), orUnknown(v1alpha1.ShortRevision(e.status.DesiredRevision)),
		last.ID, outcome, message.Cause(last.Message), e.instance.Name, e.instance.Namespace, e.warned()))
}

// warned is the part of a message that says what is wrong with what hosts are configured with, also while a host does not follow.
func (e *evaluation) warned() string {
	if len(e.warnings) == 0 {
		return ""
	}
	return " Warnings: " + message.Sentence(message.Shorten(strings.Join(e.warnings, "; "), maxInputs))
}

// outdated records that the host is to be updated, and what keeps it from that. What was known of it stays until somebody says it, and while
// it is being updated: a new process, and the begin of each update, would write it twice.
func (e *evaluation) outdated(known *metav1.Condition) {
	text := fmt.Sprintf("The host has revision %s; the desired one is %s.", v1alpha1.ShortRevision(e.status.CurrentRevision), orUnknown(v1alpha1.ShortRevision(e.status.DesiredRevision)))
	if known != nil && (!e.heldKnown || e.status.Operation.Active()) && strings.HasPrefix(known.Message, text) {
		e.set(v1alpha1.ConditionUpToDate, metav1.ConditionFalse, v1alpha1.ReasonRevisionOutdated, known.Message)
		return
	}
	switch {
	case e.held != "":
		text += " " + e.held
	case e.instance.Spec.PoolRef == nil:
		text += " It is updated when it gets a disruption slot: at most one of the hosts in no pool of a namespace is out of service at a time."
	}
	e.set(v1alpha1.ConditionUpToDate, metav1.ConditionFalse, v1alpha1.ReasonRevisionOutdated, text+e.warned())
}

// revisionCurrent records whether a host that is configured has the desired revision.
func (e *evaluation) revisionCurrent() {
	const condition = v1alpha1.ConditionUpToDate
	known := e.get(condition)
	last := e.status.NewestOperation(v1alpha1.OperationReconfigure)
	switch {
	case e.inputs != nil && !e.leftToWMCO():
		e.set(condition, metav1.ConditionUnknown, v1alpha1.ReasonInputsMissing, e.inputsMessage())
	case e.observation == nil && (known == nil || known.Reason == v1alpha1.ReasonNotTried || known.Reason == v1alpha1.ReasonPaused):
		e.keep(condition)
	case e.observation != nil && e.observation.report == nil:
		e.wait(condition)
	case e.foreign():
		e.revisionUnknown()
	case e.halfReleased():
		e.releaseBegun(condition)
	case e.status.CurrentRevision == "":
		e.setf(condition, metav1.ConditionFalse, v1alpha1.ReasonRevisionOutdated, "The host is not configured yet; the desired revision is %s.", orUnknown(v1alpha1.ShortRevision(e.status.DesiredRevision)))
	case e.waitsForConfirmation():
		e.unconfirmed()
	case e.status.CurrentRevision != e.status.DesiredRevision && aimedAt(last, e.status.DesiredRevision) && last.BrokenOff() && !last.Withdrawn() && e.unharmed() && !e.adoptedSince(last):
		e.updateFailed(last)
	case e.status.CurrentRevision != e.status.DesiredRevision:
		e.outdated(known)
	default:
		text := fmt.Sprintf("The host has revision %s.", v1alpha1.ShortRevision(e.status.CurrentRevision))
		if waiting := slices.Concat(e.waiting, e.awaited()); len(waiting) > 0 {
			text += fmt.Sprintf(" Not configured yet: %s.", strings.Join(waiting, ", "))
		}
		text += e.warned()
		if left := e.drift() + e.unattended(); left != "" {
			text += fmt.Sprintf("%s To repair it: kubectl windows reconfigure %s -n %s", left, e.instance.Name, e.instance.Namespace)
		}
		e.set(condition, metav1.ConditionTrue, v1alpha1.ReasonRevisionCurrent, text)
	}
}

// awaited says which services wait on the host for a network that others make.
func (e *evaluation) awaited() (services []string) {
	if e.observation == nil || e.observation.report.configuration.AppliedRevision != e.status.CurrentRevision {
		return nil
	}
	for _, w := range e.observation.report.configuration.Waiting {
		services = append(services, w.String())
	}
	return services
}

// unattended says that nothing keeps the host as it is, as the end of a message.
func (e *evaluation) unattended() string {
	if e.observation == nil || !e.observation.report.unattended {
		return ""
	}
	return fmt.Sprintf(" Service %s does not run on the host, so that nothing repairs it, starts kube-proxy or makes its routes.", api.ServiceName)
}

// maxDrift bounds how many changes of others a message names.
const maxDrift = 10

// driftLeft says why the agent does not repair what others changed.
var driftLeft = []struct {
	why  api.LeftReason
	text string
}{
	{"", "Changed by others and not repaired, because the repair needs a drain, a restart or a file"},
	{api.LeftContested, "Repaired several times, and changed by something else each time"},
	{api.LeftFailed, "Changed by others, and the repair fails"},
}

// drift says what others changed on the host and the agent did not repair, as the end of a message.
func (e *evaluation) drift() string {
	if e.observation == nil {
		return ""
	}
	drift := e.observation.report.configuration.Drift
	if drift == nil || drift.Revision != e.status.CurrentRevision {
		return ""
	}
	text := ""
	for _, left := range driftLeft {
		var names []string
		for _, item := range drift.Left {
			if item.Left == left.why {
				names = append(names, string(item.Kind)+" "+item.Name)
			}
		}
		if len(names) > 0 {
			text += fmt.Sprintf(" %s: %s.", left.text, words.Enumerate(names, maxDrift))
		}
	}
	return text
}

func (e *evaluation) inputsMessage() string {
	return "The desired configuration of the host cannot be worked out: " + message.Cause(message.Shorten(words.Steady(e.inputs.Error()), maxInputs))
}

// unsettled says whether it is not known yet, or not any more, if a host is configured.
func unsettled(instance *v1alpha1.WindowsInstance) bool {
	c := meta.FindStatusCondition(instance.Status.Conditions, v1alpha1.ConditionConfigured)
	if c == nil {
		return true
	}
	switch c.Reason {
	case v1alpha1.ReasonNotManaged, v1alpha1.ReasonConfiguring:
		return true
	}
	return false
}

// outdated says whether a probe of a host began before an operation on it had ended.
func outdated(o *observation, last *v1alpha1.Operation, now time.Time) bool {
	return last != nil && last.FinishedAt != nil && o.started.Before(settled(last, now))
}

// settled is from when on a probe of a host sees everything that an operation did. The
// time of its end has no fractions of a second in the API. Zero: always. An end that is still to
// come was written by a clock that ran ahead; waiting for it could take days.
func settled(o *v1alpha1.Operation, now time.Time) time.Time {
	at := o.FinishedAt.Add(time.Second)
	if at.After(now.Add(time.Second)) {
		return time.Time{}
	}
	return at
}
