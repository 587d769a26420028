// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package rollout

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/controller/internal/message"
	"github.com/openshift/windows-instance-api/pkg/controller/internal/object"
	"github.com/openshift/windows-instance-api/pkg/desired/revision"
	"github.com/openshift/windows-instance-api/pkg/words"
)

// poolKey names a pool, or the hosts of a namespace that are in none.
type poolKey struct {
	namespace string
	name      string // empty: in no pool
}

// String says which pool it is in messages.
func (k poolKey) String() string {
	if k.name == "" {
		return "the hosts in no pool"
	}
	return "pool " + k.name
}

// host is what decide knows about one host.
type host struct {
	key     types.NamespacedName
	pool    poolKey
	created time.Time
	// leaving: its instance was deleted.
	leaving bool
	// node: it is a Node. ready: that is ready.
	node, ready bool
	// cordoned: its Node takes no new pods, whoever wants that. lost: it was a Node, and is none.
	cordoned, lost bool
	// cordonedByOthers: it takes none because a person wants that, or since something that they asked for and that was not completed. drained: it takes
	// none since an operation that had its pods leave, whoever asked for that.
	cordonedByOthers, drained bool
	// drains are the operations that people asked for and by which all of its pods have left, by their IDs. A drain that fails leaves pods.
	drains []string
	// interrupted: its Node is cordoned since a configuration that was not completed, for example because somebody has canceled it.
	interrupted bool
	// downSince is since when its Node is not ready, while that is known. Zero: it is ready, or gone. justWentDown: not for long enough to
	// say that it stays so.
	downSince    time.Time
	justWentDown bool
	// active: it has an operation that has not ended.
	active bool
	// busy: something else than a configuration is being done to it. A removal that waits does nothing.
	busy bool
	// removes: its operation removes it. confirmed: somebody has confirmed that, or its Machine is gone, so that it waits for nobody.
	removes, confirmed bool
	// updated: it has its desired configuration. got is when it got that. Zero: it has not got it, or that is not known any more.
	updated bool
	got     time.Time
	// returns: it is to get back what all hosts of its pool worked with, see [returns]. hasNewest: it has the newest revision of its pool, so
	// that what it is to get is a change of the cluster or of its own.
	returns, hasNewest bool
	// proves is since when it is known to work with what it has, after a configuration that disturbed it.
	// Zero: it was not disturbed, or does not work.
	proves time.Time
	// broken is the configuration, or the restart, that broke it. Nil: it is not.
	broken *v1alpha1.Operation
	// failed is a configuration that should have cost its workload nothing, changed it, and failed. Nil: there is none.
	failed *v1alpha1.Operation
	// heldBack: it keeps or gets another revision than that of its pool, which is rolled back. hasOwn: what is desired of it is known to be of that
	// other one, so that what it is to get is a change of the cluster or of its own.
	heldBack, hasOwn bool
	// named: status.rolledBack names it, and it has not gone back yet. rollsBack: it is named, can be updated now, and what is desired of it is
	// not known to be the revision that broke it.
	named, rollsBack bool
	// undoes: it is to get another revision than that of its pool because somebody has undone that. keepsRevision: it is not, as it cannot.
	// staysAsItIs: nor does it have that of its pool, as it was a node of another one.
	undoes, keepsRevision, staysAsItIs bool
	// unconfirmed: it is left as it is, though something else is desired, until somebody confirms what it is to have.
	unconfirmed bool
	// lastServed is when it last gave slots back, by their kind: after that others of its pool come first. Zero: not known.
	lastServed servedUntil
	// lastFailed is when it last had one for disruptions for what failed, for example because pods did not leave. Zero: it did not.
	lastFailed time.Time

	// holds is the slot that it has according to the record of its operation.
	holds slot
	// repairs: it has that for a restart or a repair, and not for an update.
	repairs bool
	// waits is the impact that its operation waits for to be admitted. Empty: it does not wait. waitsWith is the cause of that
	// operation. Empty: it is an update or a removal.
	waits     v1alpha1.ChangeImpact
	waitsWith v1alpha1.OperationCause
	// givesWay: that one ends if something else is to be done first.
	givesWay bool
	// begun: the operation that waits has changed the host, or keeps its Node from pods.
	begun bool
	// half: it has changed the host, and needs more than it was admitted with to go on.
	half bool
	// prepares: updates of Windows are downloaded to it, or it waits for its slot with them. It works meanwhile.
	prepares bool
	// drainWaits is what keeps pods from leaving it in a drain, for people. Empty: nothing does, or it is not drained.
	drainWaits string
	// byPerson: somebody asked for its operation.
	byPerson bool
	// paused: nothing is done to it, as its instance or its pool is paused.
	paused bool

	// update: it works, and is to get another configuration. since: for how long.
	update bool
	since  time.Time
	// due is when it may get that at the earliest.
	due time.Time
	// updateFailed is why the last attempt at it failed. Empty: it did not.
	updateFailed string
	// impact is what that costs. Empty: not known yet. unknown says why it cannot be found out now.
	impact  v1alpha1.ChangeImpact
	unknown string
	// failing is why it could not say it when it was asked last, and failingSince since when that is so. Empty: it could, or was not asked.
	failing      string
	failingSince time.Time
	// askAgain is when a host that could not say it is asked again, in the past if it is again its turn. Zero: it was not asked yet.
	askAgain time.Time

	// renew: it works with what it has, and an annotation of its Node asks for it to be configured again; renewDue is from when on.
	// renews: that is being done, and does not wait.
	renew    bool
	renewDue time.Time
	renews   bool

	// restarted is when Windows was last started. Zero: not known.
	restarted time.Time
	// restart is why Windows is to be restarted, and restartDue from when on. Empty: it is not.
	restart    v1alpha1.OperationCause
	restartDue time.Time
	// failedRestart is the last operation that was to do that, if it failed. Nil: it did not.
	failedRestart *v1alpha1.Operation
	// besides is why it is to be restarted while updates of Windows are kept from it, and besidesDue from when on. Empty: it is not.
	besides    v1alpha1.OperationCause
	besidesDue time.Time
	// install is which updates of Windows the pool wants, and lacksUpdates: some of them failed after its Node was drained for them.
	install      v1alpha1.WindowsUpdatesInstall
	lacksUpdates bool
	// remedy is what is to be done because its Node is not ready. unremedied: the pool keeps it from that.
	remedy     remedy
	unremedied bool
	// unfit is what keeps it from what its pool wants of it, and unfitFrom from when on that is so. Empty: nothing does.
	unfit     waitKind
	unfitFrom time.Time
	// lacksInputs is what its condition says if it cannot be worked out what it is to have. Empty: it can be.
	lacksInputs string
	// retried: it could not be configured, and is again by itself.
	retried bool
	// uncordon: its Node is as ready as it was before the restart that left it cordoned, and uncordonDue from when on it
	// takes pods again.
	uncordon    bool
	uncordonDue time.Time
	// refused is that nothing can be written about it. Zero: that is not known.
	refused unwritable
}

// newHost returns what an instance says of its host. [Scheduler.decide] adds what the Node, the pool and the host itself say.
func newHost(i *v1alpha1.WindowsInstance) host {
	status, op := &i.Status, i.Status.Operation
	h := host{
		key: client.ObjectKeyFromObject(i), pool: poolKey{i.Namespace, object.PoolName(i)}, created: i.CreationTimestamp.Time,
		leaving: !i.DeletionTimestamp.IsZero(), lost: i.DeletionTimestamp.IsZero() && status.Node == nil && status.CurrentRevision != "" && !neverJoined(i),
		node: status.Node != nil, ready: meta.IsStatusConditionTrue(status.Conditions, v1alpha1.ConditionNodeReady),
		active:  op.Active(),
		busy:    op.Active() && op.Type != v1alpha1.OperationReconfigure && op.Type != v1alpha1.OperationUncordon && op.Cause != v1alpha1.CauseWindowsUpdates && !uncordoned(op),
		removes: op.Active() && op.Type == v1alpha1.OperationRemove,
		updated: isUpdated(i) || hasJustGot(status), holds: holds(op), repairs: op.Active() && op.Cause != "" && op.Type != v1alpha1.OperationReconfigure,
		lacksInputs: inputsMissing(status), restarted: status.LastRestart(), givesWay: status.GivesWay(),
		drainWaits: drainWaits(op),
	}
	if h.removes {
		h.busy = op.AdmittedImpact != "" || !op.Untouched()
		if status.RemovalWaits() {
			h.waits = v1alpha1.ImpactDrain
		}
	}
	if h.prepares = prepares(op); h.prepares {
		if op.At(v1alpha1.StepWaitForSlot) && op.Node != nil {
			h.waits, h.waitsWith = v1alpha1.ImpactReboot, op.Cause
		}
	}
	if downloads(op) {
		h.busy, h.prepares = false, true
	}
	if op.Active() && op.Type == v1alpha1.OperationReconfigure {
		h.byPerson = !op.ByController()
		if waiting(op) && !op.Admitted() {
			h.waits, h.half = op.Impact, op.HostChanged && op.At(v1alpha1.StepWaitForSlot)
			h.begun = op.MayHaveChangedHost() || !op.At(v1alpha1.StepWaitForSlot) || ended(op, v1alpha1.StepCordon)
			if op.Cause == v1alpha1.CauseVersionChanged && op.Revision == status.CurrentRevision && op.Revision == status.DesiredRevision { // else it became an update
				h.waitsWith = op.Cause
			}
		}
		h.renews = op.Cause == v1alpha1.CauseVersionChanged && h.waits == ""
	}
	for _, o := range status.Operations() {
		if o.Type == v1alpha1.OperationDrain && o.Phase == v1alpha1.OperationSucceeded && (o.Drain == nil || o.Drain.PodSelector == "") {
			h.drains = append(h.drains, o.ID)
		}
	}
	h.downSince, _ = downSince(status)
	if c := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionUpToDate); c != nil && c.Status != metav1.ConditionTrue {
		h.since = c.LastTransitionTime.Time
		h.unconfirmed = !h.leaving && c.Reason == v1alpha1.ReasonConfirmationNeeded
	}
	if !h.leaving {
		h.broken = brokenBy(status)
		if h.broken == nil {
			h.broken = downAfterUpdate(status)
		}
		if h.broken == nil {
			h.broken = downAfterRestart(status)
		}
	}
	worked := false // with what it got after the operation that is looked at
	for n, o := range status.Operations() {
		h.noteServed(o)
		if o.Type != v1alpha1.OperationReconfigure || o.Active() {
			continue
		}
		if n < 2 && !worked && o.Phase == v1alpha1.OperationFailed && o.Impact == v1alpha1.ImpactNone && o.Node != nil && o.MayHaveChangedHost() && o.Revision == status.DesiredRevision && h.failed == nil {
			h.failed = o
		}
		worked = worked || o.Phase == v1alpha1.OperationSucceeded
		if o.Phase == v1alpha1.OperationSucceeded && h.updated && h.got.IsZero() && o.Revision == status.DesiredRevision && o.FinishedAt != nil {
			h.got = o.FinishedAt.Time
		}
		if o.Phase == v1alpha1.OperationSucceeded && o.Disturbed() && h.updated && h.broken == nil && h.ready && h.proves.IsZero() && o.StartedAt != nil {
			h.proves = o.StartedAt.Time
		}
	}
	return h
}

// noteServed notes that the host had a slot for an operation that has ended, of which the newest counts.
func (h *host) noteServed(o *v1alpha1.Operation) {
	had := hadSlot(o)
	if had == slotNone || !h.lastServed[had].IsZero() || o.FinishedAt == nil {
		return
	}
	h.lastServed[had] = o.FinishedAt.Time
	if o.Phase == v1alpha1.OperationFailed && had == slotDisruption {
		h.lastFailed = o.FinishedAt.Time
	}
}

// neverJoined says whether it is known of a host that it was configured and never became a Node: the host has its revision before it joins, and
// may never do so, for example because its certificate is denied. What a host worked with in its pool outlasts the history of its operations.
func neverJoined(i *v1alpha1.WindowsInstance) bool {
	status := &i.Status
	if status.PoolRevision != "" || status.NewestOperation(v1alpha1.OperationReconfigure) == nil || i.Spec.PoolRef == nil && len(status.History) >= v1alpha1.MaxHistory {
		return false
	}
	for _, o := range status.Operations() {
		if o.Node != nil {
			return false
		}
	}
	return true
}

// restartIsDue says whether somebody has asked for a restart of all hosts of the pool, and it has not been done here.
func (h *host) restartIsDue(now time.Time) bool {
	return h.restart == v1alpha1.CauseRestartRequested && !h.restartDue.After(now)
}

// failedFor is why the last operation of a cause failed by which the host was to be restarted. Empty: it did not.
func (h *host) failedFor(cause v1alpha1.OperationCause) string {
	if h.failedRestart == nil || h.failedRestart.Cause != cause {
		return ""
	}
	return message.Shorten(words.FirstSentence(h.failedRestart.Message), maxQuoted)
}

// lastUpdateFailed is why the last attempt failed to give a host what is desired of it now. Empty: it did not, or something else was desired then.
func lastUpdateFailed(status *v1alpha1.WindowsInstanceStatus) string {
	op := status.NewestAttempt(v1alpha1.OperationReconfigure)
	if op == nil || op.Phase != v1alpha1.OperationFailed || op.Revision != status.DesiredRevision {
		return ""
	}
	return message.Shorten(words.FirstSentence(op.Message), maxQuoted)
}

// drainWaits names a PodDisruptionBudget, or a webhook, that keeps pods from leaving in the drain of an operation. It does not name the pods, nor
// how many there are: that changes every few seconds, and each time what it says is written. What is refused for another reason passes.
func drainWaits(op *v1alpha1.Operation) string {
	if !op.Active() {
		return ""
	}
	first := ""
	for _, pod := range op.BlockedBy {
		what := ""
		switch {
		case pod.Budget != "":
			what = "PodDisruptionBudget " + pod.Namespace + "/" + pod.Budget
		case words.DeniedByWebhook(pod.Message):
			what = "an admission webhook"
		}
		if what != "" && (first == "" || what < first) {
			first = what
		}
	}
	return first
}

// hasJustGot says whether a host was given its desired configuration, which it says itself when it is looked at the
// next time only. Until then it must not count as one that lacks it: there would be one canary more.
func hasJustGot(status *v1alpha1.WindowsInstanceStatus) bool {
	op := status.NewestOperation(v1alpha1.OperationReconfigure)
	return op != nil && op.Phase == v1alpha1.OperationSucceeded && op.Revision != "" && op.Revision == status.DesiredRevision
}

// unavailable says whether a Node of the pool counts as out of service. That of a broken host does, whoever has uncordoned it: what it
// runs may not work.
func (h *host) unavailable() bool { return h.outOfService() || h.node && h.broken != nil }

// corrects says whether an update of the host is to correct what broke it, so that it is next and waits for nothing but the bounds. One whose Node
// went down a moment ago may be back by itself.
func (h *host) corrects() bool { return h.rollsBack || h.broken != nil && !h.justWentDown }

// outOfService says whether a Node of the pool takes no pods, or is about to take none. One that is to be removed works until
// that begins. One that somebody has cordoned takes no pods of others either, as for the Machine Config Operator.
func (h *host) outOfService() bool {
	return h.lost || h.node && (!h.ready || h.cordoned || h.busy || h.holds == slotDisruption)
}

// servesPods says whether a Node counts as out of service only because somebody has cordoned it, which leaves its pods where they are, as does a drain
// that fails.
func (h *host) servesPods() bool {
	return h.node && h.ready && h.cordoned && !h.drained && h.broken == nil && !h.busy && h.holds != slotDisruption
}

// grant adds what was granted to a host and is not in the cache yet.
func (h *host) grant(g grantWritten) {
	h.holds, h.waits, h.repairs, h.busy, h.prepares = max(h.holds, g.slot), "", g.repairs, h.busy || g.removes, g.prepares
	h.renews, h.active = g.renews, true
}

// findRollback says what a revision that was rolled back, or undone, means for the host of an instance. h.update must be known.
func (h *host) findRollback(instance *v1alpha1.WindowsInstance, pool *v1alpha1.WindowsNodePool) {
	back := pool.RolledBack(pool.Status.UpdateRevision)
	h.heldBack = !h.leaving && heldBack(instance, back)
	h.hasOwn = h.heldBack && hasOwn(instance, back)
	h.named = h.heldBack && back.Broke(instance.Name) && !hasGoneBack(instance, back)
	h.rollsBack = h.named && h.update && instance.Status.DesiredPoolRevision != back.Revision // which does not take it back
	h.keepsRevision = !h.leaving && back.Keeps(instance.Name)
	h.staysAsItIs = h.keepsRevision && h.node && revision.Had(instance, pool) == ""
	h.undoes = goesBack(instance, back)
	h.returns = returns(instance, pool)
}

// findRestart says whether, and why, Windows is to be restarted on the host of an instance.
func (h *host) findRestart(instance *v1alpha1.WindowsInstance, pool *v1alpha1.WindowsNodePool, node *corev1.Node, now time.Time) {
	h.restart, h.restartDue = restartOf(instance, pool, now)
	if h.restart == v1alpha1.CauseWindowsUpdates {
		h.besides, h.besidesDue = restartBesides(instance, pool, now)
	}
	if due, ok := annotatedRestart(instance, pool, node, now); ok {
		if h.restart == "" || h.restartDue.After(now) && !due.After(h.restartDue) { // any restart is the one that it asks for
			h.restart, h.restartDue = v1alpha1.CauseRestartAnnotated, due
		} else if h.besides == "" || h.besidesDue.After(now) && !due.After(h.besidesDue) {
			h.besides, h.besidesDue = v1alpha1.CauseRestartAnnotated, due
		}
	}
	h.failedRestart = instance.Status.FailedRestart(h.restart, pool)
}
