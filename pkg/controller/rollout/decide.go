// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package rollout

import (
	"cmp"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/wmco"
)

const (
	// DefaultDisruptions is how many hosts are drained or restarted at the same time by default.
	DefaultDisruptions = 1
	// maxServiceRestarts is on how many hosts services are restarted at the same time; the bound of disruptions counts instead if that is higher.
	maxServiceRestarts = 10
	// maxAsked is how many hosts are asked at the same time what their update costs, and how many of one namespace wait for that.
	maxAsked = 16
	// harmlessFailures is how many hosts of a pool may fail with an update that costs their workload nothing,
	// before it reaches no further ones. What many of them need, such as a new authority, must not be kept
	// from all because the disk of one is full.
	harmlessFailures = 3
)

// state is everything that decides.
type state struct {
	hosts []host
	// pools are those that have a policy of their own.
	pools map[poolKey]policy
	// disruptions is how many hosts of all pools may be drained, restarted or removed at the same time.
	disruptions int
	now         time.Time
	// served and heldSince are what is remembered of the passes before: until when pools had slots, and since when hosts have theirs.
	served    map[poolKey]servedUntil
	heldSince map[types.NamespacedName]time.Time
}

// servedUntil is until when hosts of a pool had slots, by their kind, later by as much as they had them.
type servedUntil [slotDisruption + 1]time.Time

// servedFor is for how long it is remembered that a pool had a slot.
const servedFor = 7 * 24 * time.Hour

// grant lets a host be disturbed.
type grant struct {
	key types.NamespacedName
	// impact is the most that it may cost.
	impact v1alpha1.ChangeImpact
	// cause is why, if it is no update.
	cause v1alpha1.OperationCause
	// install is which updates of Windows are installed, if that is the cause.
	install v1alpha1.WindowsUpdatesInstall
}

// decision is what is to be done.
type decision struct {
	// ask are the hosts that are asked what their update costs, the next ones first.
	ask []types.NamespacedName
	// start are hosts for which an operation is recorded: an update, or what the cause says.
	start []grant
	// admit are hosts whose operation waits for it.
	admit []grant
	// waits says what hosts wait for.
	waits map[types.NamespacedName]reason
	// poolOf has their pools.
	poolOf map[types.NamespacedName]poolKey
	// inConditions is what the conditions UpToDate of their instances tell of that.
	inConditions map[types.NamespacedName]waitKind
	// ready are hosts that wait for a slot with updates of Windows that they have downloaded.
	ready sets.Set[types.NamespacedName]
	// contested are hosts that have a slot which hosts of other pools wait for.
	contested sets.Set[types.NamespacedName]
	// givesWayTo has hosts whose operation ends, as it waits or prepares for something that may take hours, and why.
	givesWayTo map[types.NamespacedName]string
	// held and waiting count the hosts that have a slot for disruptions, and those that wait for one.
	held, waiting int
	// served and heldSince are what the next pass is to remember, see [state].
	served    map[poolKey]servedUntil
	heldSince map[types.NamespacedName]time.Time
	// again is when to decide again at the latest. Zero: when something changes.
	again time.Time
}

// decide says which hosts are next. It depends on s alone: what was granted before is in the records of operations, so that another
// process continues where the last one stopped. It changes the hosts of s.
//
// Operations that have begun come first. Then comes the namespace with the fewest slots, and of equal ones the one that has waited longest, for as long as it had a slot before. In a
// namespace, what people asked for and repairs come first; then its pools are chosen in the same way, as the Machines of all pools may be in one
// namespace. Slots of one kind do not wait for those of another. In a pool, whatever slots they need, the order is: corrections of broken hosts, hosts whose last attempt did not fail, operations that wait already, as with
// downloaded updates of Windows, removals, the oldest host. What people asked for waits for the bound of the cluster only. An update that costs the
// workload nothing waits for no slot. One that restarts services reaches one host of a pool first, and the others when that works.
func decide(s state) decision {
	p := newPass(s)
	p.settle()
	for i := range p.hosts {
		h := &p.hosts[i]
		switch {
		case h.refused.until.After(p.now):
			p.waitUntil(h, h.refused.until, h.refused.why, "")
		case h.removes && h.waits != "":
			p.considerRemoval(h)
		case h.leaving:
		case h.waits != "" && h.holds >= slotOf(h.waits): // an earlier release let it
			p.admit = append(p.admit, grant{key: h.key, impact: h.waits})
		case h.waits != "" && h.unconfirmed && h.broken == nil && !h.half && !h.byPerson:
			p.wait(h, p.unconfirmed(h))
		case h.waits != "":
			if h.waitsWith == v1alpha1.CauseWindowsUpdates {
				p.ready.Insert(h.key)
			}
			if !p.giveWayToRepair(h) {
				p.queue = append(p.queue, candidate{host: h, impact: h.waits, cause: h.waitsWith})
				p.giveWay(h)
			}
		case h.prepares: // it waits for nothing
			if h.unconfirmed {
				p.wait(h, p.unconfirmed(h))
			}
			p.giveWayToRepair(h)
		default:
			p.consider(h)
		}
	}
	p.askOthers()
	p.serveWithoutSlot()
	p.serve()
	p.idle()
	for key, why := range p.waits {
		if kind := p.conditionKind(key, why); kind != "" {
			p.inConditions[key] = kind
		}
	}
	p.findContested()
	return p.decision
}

// giveWay ends an operation of the controller that waits for a slot, if its host is to get a configuration that needs no drain and that nothing
// blocks: updates of Windows may wait for hours, and a renewed authority must not.
func (p *pass) giveWay(h *host) {
	switch {
	case !h.givesWay || !h.update:
	case h.due.After(p.now):
		p.decideAgainAt(h.due)
	case h.impact == "" && h.unknown != "":
		p.decideAgainAt(h.askAgain)
	case h.impact == "":
		p.ask = append(p.ask, h.key)
	case slotOf(h.impact) != slotDisruption && p.blockedBy(candidate{host: h, impact: h.impact, start: true}).kind == "":
		p.givesWayTo[h.key] = "the host gets another configuration, which needs no drain."
	}
}

// giveWayToRepair ends an operation of the controller that may wait or download for hours, if the host can be repaired or its Node uncordoned now.
// It says whether it does.
func (p *pass) giveWayToRepair(h *host) bool {
	c, due, why := candidate{host: h, start: true}, time.Time{}, ""
	switch {
	case h.remedy.action != "":
		c.impact, c.cause, due, why = h.remedy.impact(), v1alpha1.CauseNodeNotReady, h.remedy.due, "the Node is not ready and will be repaired."
	case h.uncordon:
		c.impact, c.cause, due, why = v1alpha1.ImpactNone, v1alpha1.CauseCameBack, h.uncordonDue, "the Node is ready again after a failed restart, and will be uncordoned."
	default:
		return false
	}
	if due.After(p.now) {
		p.decideAgainAt(due)
		return false
	}
	if p.blockedBy(c).kind != "" {
		return false
	}
	p.givesWayTo[h.key] = why
	return true
}

// considerRemoval lets a host go whose removal was confirmed, and has others wait for their slot.
func (p *pass) considerRemoval(h *host) {
	if !h.confirmed {
		p.queue = append(p.queue, candidate{host: h, impact: h.waits})
		return
	}
	was := h.unavailable()
	p.admit = append(p.admit, grant{key: h.key, impact: v1alpha1.ImpactNone})
	if h.busy = true; !was && h.unavailable() {
		p.unavailable[h.pool] = append(p.unavailable[h.pool], h)
	}
}

// unconfirmed is why a host is left as it is whose objects were lost.
func (p *pass) unconfirmed(h *host) reason {
	return reason{kind: waitsForConfirmation, back: p.policy(h.pool).back}
}

// consider finds out what is to be done to a host that nothing is done to.
func (p *pass) consider(h *host) {
	switch {
	case h.unconfirmed:
		p.wait(h, p.unconfirmed(h))
	case h.update && h.staysAsItIs && h.broken == nil: // what is desired of it is what was undone
		p.wait(h, reason{kind: waitsForPrograms})
	case h.update && h.due.After(p.now):
		p.waitForTime(h, h.updateRetried())
	case h.update && h.impact == "":
		p.unknown = append(p.unknown, h)
	case h.update:
		p.queue = append(p.queue, candidate{host: h, impact: h.impact, start: true})
	case h.heldBack && (h.updated || !h.named && !h.hasOwn): // else it gets what is desired of it by itself, when what is done to it has ended, or what keeps it from that
		p.wait(h, reason{kind: waitsForResume})
	case h.keepsRevision:
		p.wait(h, reason{kind: waitsForPrograms})
	}
	if h.uncordon && !h.uncordonDue.After(p.now) { // before an annotation of the Node has the host configured again, which may wait for long
		p.queue = append(p.queue, candidate{host: h, impact: v1alpha1.ImpactNone, start: true, cause: v1alpha1.CauseCameBack})
	}
	switch {
	case h.renew && h.renewDue.After(p.now):
		p.waitUntil(h, h.renewDue, "Its Node lacks the version that configured it ("+wmco.VersionAnnotation+"), and it is configured again", v1alpha1.CauseVersionChanged)
	case h.renew:
		p.queue = append(p.queue, candidate{host: h, impact: v1alpha1.ImpactNone, start: true, cause: v1alpha1.CauseVersionChanged})
	}
	switch r := h.remedy; {
	case r.tried, r.forgotten:
		why := reason{kind: waitsForExhausted}
		if r.forgotten {
			why.kind = waitsForForgotten
		}
		if p.pools[h.pool].machines {
			why.text = ". A MachineHealthCheck replaces it, if one selects its Machine. To have it replaced now: kubectl delete machines.machine.openshift.io NAME -n " + h.key.Namespace
		}
		p.wait(h, why)
	case r.kept && r.due.After(p.now):
		p.decideAgainAt(r.due)
	case r.kept:
		p.wait(h, reason{kind: waitsForUncordon})
	case r.action != "" && r.due.After(p.now):
		p.waitUntil(h, r.due, "Its Node is not ready, and is repaired unless it is ready again", v1alpha1.CauseNodeNotReady)
	case r.action != "":
		p.queue = append(p.queue, candidate{host: h, impact: r.impact(), start: true, cause: v1alpha1.CauseNodeNotReady})
	}
	switch {
	case h.uncordon && h.uncordonDue.After(p.now):
		p.waitUntil(h, h.uncordonDue, "Its Node was left cordoned by a restart that failed, and is uncordoned if it is still ready", v1alpha1.CauseCameBack)
	case h.uncordon:
	case h.restart != "" && h.restartDue.After(p.now):
		p.decideAgainAt(h.restartDue)
		if what := h.toRestart(); what != "" {
			p.waitUntil(h, h.restartDue, what, h.restart)
		}
	case h.restart != "":
		p.queue = append(p.queue, candidate{host: h, impact: v1alpha1.ImpactReboot, start: true, cause: h.restart})
		p.considerBesides(h)
	}
}

// considerBesides queues the other restart of a host while updates of Windows, which would restart it as well, are stopped in its pool because they
// failed on others: nobody knows for how long.
func (p *pass) considerBesides(h *host) {
	switch {
	case h.restart != v1alpha1.CauseWindowsUpdates || h.besides == "" || !p.updatesStopped(h):
	case h.besidesDue.After(p.now):
		p.decideAgainAt(h.besidesDue)
	default:
		p.queue = append(p.queue, candidate{host: h, impact: v1alpha1.ImpactReboot, start: true, cause: h.besides})
	}
}

// toRestart says what comes when a restart is due. Empty: what nobody waits for, as updates of Windows are installed again and again, also
// those that could not be; but not where it failed before it came to them.
func (h *host) toRestart() string {
	switch h.restart {
	case v1alpha1.CauseRestartAnnotated:
		return "Its Node asks for a restart (" + wmco.RebootRequiredAnnotation + "), and Windows is restarted"
	case v1alpha1.CauseRestartRequested:
		return "The pool asks for a restart (spec.restarts.after), and Windows is restarted"
	case v1alpha1.CauseRestartPending:
		return "Windows waits for a restart, and is restarted"
	case v1alpha1.CauseWindowsUpdates:
		if h.broken == nil && h.failedFor(h.restart) != "" {
			return "Updates of Windows are tried again"
		}
	}
	return ""
}

// askOthers has hosts asked what their update costs: of each namespace the broken ones first, then those that have not failed to say
// it, and the oldest. However many hang, the others are asked.
func (p *pass) askOthers() {
	slices.SortFunc(p.unknown, func(a, b *host) int {
		return cmp.Or(compareBroken(a, b), a.askAgain.Compare(b.askAgain), compareAge(a, b))
	})
	asked := map[string]int{}
	for _, h := range p.unknown {
		p.wait(h, h.planReason(p.now))
		switch namespace := h.key.Namespace; {
		case h.unknown != "":
			p.decideAgainAt(h.askAgain)
		case asked[namespace] < maxAsked:
			asked[namespace]++
			p.ask = append(p.ask, h.key)
		}
	}
}

// planReason is why a host is not updated that has not said what that costs.
func (h *host) planReason(now time.Time) reason {
	return reason{kind: waitsForPlan, text: cmp.Or(h.unknown, h.failing), stuck: h.failing != "" && now.Sub(h.failingSince) >= planPatience}
}
