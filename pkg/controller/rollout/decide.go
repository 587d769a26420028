// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package rollout

import (
	"cmp"
	"fmt"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/wmco"
)

const (
	// DefaultDisruptions is how many hosts are drained or restarted at the same time by default.
	DefaultDisruptions = 1
	// maxRestarts is on how many hosts services are restarted at the same time, unless more may even be drained.
	maxRestarts = 10
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
}

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
	// told is what their instances tell of that.
	told map[types.NamespacedName]waitKind
	// ready are hosts that wait for a slot with updates of Windows that they have downloaded.
	ready sets.Set[types.NamespacedName]
	// awaited are hosts that have a slot which hosts of other pools wait for.
	awaited sets.Set[types.NamespacedName]
	// yields are hosts whose operation ends, as it waits or prepares for something that may take hours, and why.
	yields map[types.NamespacedName]string
	// held and waiting count the hosts that have a slot for disruptions, and those that wait for one.
	held, waiting int
	// again is when to decide again at the latest. Zero: when something changes.
	again time.Time
}

// decide says which hosts are next. It depends on nothing else, so that it goes on after a restart of the
// process, or in another one, where it was: all that was granted before is in the records of operations.
//
// What has begun goes first. Then namespaces take turns: first those which have the fewest slots, and of these the one that has waited
// longest. In a namespace comes first what a person asked for, which waits for the bound of the cluster only, and what is repaired; then its pools
// take turns in the same way, as the Machines of all pools may be in one namespace. In a pool come first hosts that are broken, to which a
// correction has to get first, then the others by age, those to be removed among them, and last those that failed in their turn. An update that costs
// the workload nothing waits for nobody. One that restarts services reaches one host of a pool first, and
// the others when that works.
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
	// What needs no slot counts for nobody else.
	granted := sets.New[*host]()
	p.queue = slices.DeleteFunc(p.queue, func(c candidate) bool {
		if slotOf(c.impact) != slotNone {
			return false
		}
		if granted.Has(c.host) {
			return true
		}
		if why := p.keeps(c); why.kind != "" {
			why.upkeep = upkeep(c.cause)
			p.wait(c.host, why)
		} else {
			p.grant(c)
			granted.Insert(c.host)
		}
		return true
	})
	p.queue = slices.DeleteFunc(p.queue, func(c candidate) bool { return granted.Has(c.host) }) // one thing at a time
	p.serve()
	p.idle()
	for key, why := range p.waits {
		if kind := p.tells(key, why); kind != "" {
			p.told[key] = kind
		}
	}
	p.describeAwaited()
	return p.decision
}

// giveWay ends the wait of a host for what the controller wants of it anyway, if it is to get another configuration meanwhile which needs no
// drain and which nothing keeps from it: a renewed authority must not wait for a slot as long as updates of Windows may.
func (p *pass) giveWay(h *host) {
	switch {
	case !h.givesWay || !h.update:
	case h.due.After(p.now):
		p.later(h.due)
	case h.impact == "" && h.unknown != "":
		p.later(h.askAgain)
	case h.impact == "":
		p.ask = append(p.ask, h.key)
	case slotOf(h.impact) != slotDisruption && p.keeps(candidate{host: h, impact: h.impact, start: true}).kind == "":
		p.yields[h.key] = "the host gets another configuration, which needs no drain."
	}
}

// giveWayToRepair ends what the controller wants of a host anyway, and what the host may wait for, or download for, for hours, if nothing keeps
// it from being repaired meanwhile, or its Node from being uncordoned. It says whether that ends.
func (p *pass) giveWayToRepair(h *host) bool {
	c, due, why := candidate{host: h, start: true}, time.Time{}, ""
	switch {
	case h.remedy.action != "":
		c.impact, c.cause, due, why = h.remedy.impact(), v1alpha1.CauseNodeNotReady, h.remedy.due, "the Node is not ready, and is repaired."
	case h.uncordon:
		c.impact, c.cause, due, why = v1alpha1.ImpactNone, v1alpha1.CauseCameBack, h.uncordonDue, "the Node is ready again, which a restart that failed had left cordoned, and is uncordoned."
	default:
		return false
	}
	if due.After(p.now) {
		p.later(due)
		return false
	}
	if p.keeps(c).kind != "" {
		return false
	}
	p.yields[h.key] = why
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
	case h.update && h.due.After(p.now):
		p.waitUntil(h, h.due, updateRetried, "")
	case h.update && h.impact == "":
		p.unknown = append(p.unknown, h)
	case h.update:
		p.queue = append(p.queue, candidate{host: h, impact: h.impact, start: true})
	case h.heldBack && (h.updated || !h.named && !h.hasOwn): // else it gets what is desired of it by itself, when what is done to it has ended, or what keeps it from that
		p.wait(h, reason{kind: waitsForResume})
	case h.keeps:
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
		why := reason{kind: waitsForPerson}
		if r.forgotten {
			why.kind = waitsForMemory
		}
		if p.pools[h.pool].machines {
			why.text = ". A MachineHealthCheck replaces it, if one selects its Machine. To have it replaced now: kubectl delete machines.machine.openshift.io NAME -n " + h.key.Namespace
		}
		p.wait(h, why)
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
		p.later(h.restartDue)
		if what := h.toRestart(); what != "" {
			p.waitUntil(h, h.restartDue, what, h.restart)
		}
	case h.restart != "":
		p.queue = append(p.queue, candidate{host: h, impact: v1alpha1.ImpactReboot, start: true, cause: h.restart})
		p.considerBesides(h)
	}
}

// considerBesides has a host restarted for what else asks for it, if the updates of Windows that would restart it as well are kept from it
// because they failed on others: nobody knows for how long.
func (p *pass) considerBesides(h *host) {
	switch {
	case h.restart != v1alpha1.CauseWindowsUpdates || h.besides == "" || !p.updatesStopped(h):
	case h.besidesDue.After(p.now):
		p.later(h.besidesDue)
	default:
		p.queue = append(p.queue, candidate{host: h, impact: v1alpha1.ImpactReboot, start: true, cause: h.besides})
	}
}

// updatesStopped says whether a host gets no updates of Windows because they could not be installed on others of its pool.
func (p *pass) updatesStopped(h *host) bool {
	return !h.lacksUpdates && len(p.sums[h.pool].lack) > p.policy(h.pool).maxFailures
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

// candidate is a host that may be disturbed if everything allows it.
type candidate struct {
	*host
	impact v1alpha1.ChangeImpact
	// start: an operation has to be recorded.
	start bool
	// cause is why, if it is no update.
	cause v1alpha1.OperationCause
}

// toPrepare says whether what is granted is the download of updates of Windows, after which the host waits for its slot.
func (c candidate) toPrepare() bool { return c.start && c.cause == v1alpha1.CauseWindowsUpdates }

// pass is one decision in the making.
type pass struct {
	state
	decision
	queue   []candidate
	unknown []*host
	// held and restarting are the hosts that have slots, unavailable those of a pool that are out of service.
	held, restarting []*host
	unavailable      map[poolKey][]*host
	preparing        map[string][]*host // by namespace
	renewing         map[string][]*host // by namespace
	shares           map[string]share   // by namespace
	sums             map[poolKey]*sum
	// nodes counts all Nodes, and unready those that are not ready.
	nodes, unready int
	// granted are the hosts that something is begun on.
	granted sets.Set[types.NamespacedName]
}

// share is what a namespace or a pool has had of what is shared by all: how many slots for disruptions, and when it had a turn last.
type share struct {
	slots int
	turn  time.Time
}

// compare says which of two comes first: the one with the fewest slots, and then the one that has waited longest.
func (s share) compare(other share) int {
	return cmp.Or(cmp.Compare(s.slots, other.slots), s.turn.Compare(other.turn))
}

// sum is what is known of a pool.
type sum struct {
	share
	size int
	// broken are hosts that an update broke, failed those that failed with one that should cost nothing.
	broken, failed []*host
	// newest counts hosts with their desired configuration, or with the newest revision of the pool, and those that are about to have it.
	// gotSince counts those that got what they are to have while others lack theirs.
	newest, gotSince int
	// lackSince is since when one of its hosts lacks its desired configuration. Zero: none does.
	lackSince time.Time
	// changing are hosts that are being disturbed by an update.
	changing []*host
	// proves is when the newest proof began that the present configuration works.
	proves time.Time
	// unready counts the Nodes that are not ready.
	unready int
	// lack are the hosts on which updates of Windows failed after their Nodes were drained for them.
	lack []*host
	// window says whether the window of the pool is open, and when to ask again. It is found out once for all hosts.
	window func() (open bool, again time.Time)
}

func newPass(s state) *pass {
	p := &pass{
		state: s, unavailable: map[poolKey][]*host{}, preparing: map[string][]*host{}, renewing: map[string][]*host{}, shares: map[string]share{}, sums: map[poolKey]*sum{}, granted: sets.New[types.NamespacedName](),
		decision: decision{waits: map[types.NamespacedName]reason{}, poolOf: map[types.NamespacedName]poolKey{}, told: map[types.NamespacedName]waitKind{}, awaited: sets.New[types.NamespacedName](), yields: map[types.NamespacedName]string{}, ready: sets.New[types.NamespacedName]()},
	}
	for key, policy := range p.pools {
		p.tookTurn(key.namespace, policy.removed)
	}
	for i := range p.hosts {
		h := &p.hosts[i]
		of := p.sums[h.pool]
		if of == nil {
			of = &sum{share: share{turn: p.policy(h.pool).removed}, window: sync.OnceValues(func() (bool, time.Time) { return p.policy(h.pool).window.At(p.now) })}
			p.sums[h.pool] = of
		}
		of.size++
		if h.node {
			p.nodes++
			if !h.ready {
				p.unready, of.unready = p.unready+1, of.unready+1
			}
		}
		switch {
		case h.broken != nil:
			of.broken = append(of.broken, h)
		case h.failed != nil:
			of.failed = append(of.failed, h)
		}
		if h.lacksUpdates {
			of.lack = append(of.lack, h)
		}
		if h.updated || h.hasNewest {
			of.newest++
		}
		if h.update || h.waits != "" && h.waitsWith == "" && !h.removes {
			of.lackSince = earlier(of.lackSince, h.since)
		}
		if h.proves.After(of.proves) {
			of.proves = h.proves
		}
		of.turn = later(of.turn, h.turn)
		p.tookTurn(h.pool.namespace, h.turn)
		if h.unavailable() {
			p.unavailable[h.pool] = append(p.unavailable[h.pool], h)
		}
		if h.prepares {
			p.preparing[h.pool.namespace] = append(p.preparing[h.pool.namespace], h)
		}
		if h.renews {
			p.renewing[h.pool.namespace] = append(p.renewing[h.pool.namespace], h)
		}
		p.hold(h, h.holds)
	}
	for i := range p.hosts {
		if h := &p.hosts[i]; h.updated && !h.got.IsZero() && !h.got.Before(p.sums[h.pool].lackSince) {
			p.sums[h.pool].gotSince++
		}
	}
	return p
}

// tookTurn notes that a namespace had a turn at a time.
func (p *pass) tookTurn(namespace string, at time.Time) {
	if of := p.shares[namespace]; at.After(of.turn) {
		of.turn = at
		p.shares[namespace] = of
	}
}

// hold counts a slot.
func (p *pass) hold(h *host, s slot) {
	of := p.sums[h.pool]
	switch s {
	case slotDisruption:
		p.held = append(p.held, h)
		p.decision.held++
		all := p.shares[h.pool.namespace]
		all.slots, of.slots = all.slots+1, of.slots+1
		if h.holds != slotDisruption {
			all.turn, of.turn = p.now, p.now
		}
		p.shares[h.pool.namespace] = all
	case slotRestart:
		p.restarting = append(p.restarting, h)
	default:
		return
	}
	if h.repairs || h.removes {
		return
	}
	of.changing = append(of.changing, h)
	if !h.updated {
		of.gotSince++
	}
	if !h.updated && !h.hasNewest {
		of.newest++
	}
}

// wait notes what a host waits for.
func (p *pass) wait(h *host, why reason) { p.waits[h.key], p.poolOf[h.key] = why, h.pool }

// waitUntil notes that something is done to a host at a time, and why, unless it is an update.
func (p *pass) waitUntil(h *host, at time.Time, what string, cause v1alpha1.OperationCause) {
	p.later(at)
	if _, waits := p.waits[h.key]; !waits {
		p.wait(h, reason{kind: waitsForTime, at: at, text: what, failed: h.failedFor(cause), upkeep: upkeep(cause)})
	}
}

// later has it decided again at a time.
func (p *pass) later(at time.Time) {
	if !at.IsZero() && (p.again.IsZero() || at.Before(p.again)) {
		p.again = at
	}
}

// askOthers has hosts asked what their update costs: of each namespace the broken ones first, then those that have not failed to say
// it, and the oldest. However many hang, the others are asked.
func (p *pass) askOthers() {
	slices.SortFunc(p.unknown, func(a, b *host) int {
		return cmp.Or(compareBroken(a, b), a.askAgain.Compare(b.askAgain), compareAge(a, b))
	})
	asked := map[string]int{}
	for _, h := range p.unknown {
		p.wait(h, h.waitsForPlan(p.now))
		switch namespace := h.key.Namespace; {
		case h.unknown != "":
			p.later(h.askAgain)
		case asked[namespace] < maxAsked:
			asked[namespace]++
			p.ask = append(p.ask, h.key)
		}
	}
}

// waitsForPlan is why a host is not updated that has not said what that costs.
func (h *host) waitsForPlan(now time.Time) reason {
	return reason{kind: waitsForPlan, text: cmp.Or(h.unknown, h.failing), stuck: h.failing != "" && now.Sub(h.failingSince) >= planPatience}
}

// compare says which of two candidates is first: what has begun, then those of the namespace whose turn it is, of these the urgent ones and then
// those of the pool whose turn it is, and of these as compareInLine says.
func (p *pass) compare(a, b candidate) int {
	return cmp.Or(
		compareBools(a.takesTurns(), b.takesTurns()),
		p.shares[a.pool.namespace].compare(p.shares[b.pool.namespace]),
		-compareBools(a.urgent(), b.urgent()),
		p.sums[a.pool].compare(p.sums[b.pool].share),
		compareInLine(a, b),
	)
}

// compareInLine says which of two candidates of a pool is first, whatever has been granted before: what somebody asked for, what is
// broken, what has not failed in its turn, and the oldest.
func compareInLine(a, b candidate) int {
	return cmp.Or(
		-compareBools(a.urgent(), b.urgent()),
		-compareBools(a.byPerson, b.byPerson),
		-compareBools(a.cause == v1alpha1.CauseNodeNotReady, b.cause == v1alpha1.CauseNodeNotReady),
		compareBroken(a.host, b.host),
		a.missed.Compare(b.missed),          // one whose pods do not leave is due again and again
		compareBools(a.start, b.start),      // hosts that have downloaded their updates, in their pool
		-compareBools(a.removes, b.removes), // pods that leave others do not go there
		compareAge(a.host, b.host),
		compareBools(a.cause != "", b.cause != ""), // an update may restart the host as well
	)
}

// takesTurns says whether a candidate is one by the turns of the namespaces and pools: nothing was done yet that keeps its host from pods,
// though it may have updates of Windows on its disk, or have got an operation for what turned out to cost more. If those came first, or
// what people ask for or have broken, a namespace could keep all others from every slot.
func (c candidate) takesTurns() bool { return !c.begun }

// urgent says whether a candidate does not wait for the turns of the pools of its namespace: somebody asked for it, or its host is repaired. Where
// that failed before, as pods do not leave a Node that is not ready, it waits for them, as it may be tried again and again.
func (c candidate) urgent() bool {
	return c.byPerson || c.cause == v1alpha1.CauseNodeNotReady && !c.remedy.kept
}

func compareBroken(a, b *host) int {
	return -compareBools(a.corrects(), b.corrects())
}

func compareAge(a, b *host) int {
	return cmp.Or(a.created.Compare(b.created), cmp.Compare(a.key.Namespace, b.key.Namespace), cmp.Compare(a.key.Name, b.key.Name))
}

func compareBools(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

// keeps says what keeps a candidate from being disturbed now. Its kind is empty if nothing does.
func (p *pass) keeps(c candidate) reason {
	if why := p.keptByUpdate(c); why.kind != "" {
		return why
	}
	if why := p.keptByPolicy(c); why.kind != "" {
		return why
	}
	if beside := p.renewing[c.pool.namespace]; c.start && c.cause == v1alpha1.CauseVersionChanged && len(beside) >= maxRenewed {
		return reason{kind: waitsForRenewals, most: maxRenewed, hosts: beside}
	}
	switch slotOf(c.impact) {
	case slotDisruption:
		if away := p.awayBeside(c.host); !c.byPerson && !c.outOfService() && (c.node || !c.leaving) && len(away) >= p.policy(c.pool).maxUnavailable {
			return reason{kind: waitsForPool, most: p.policy(c.pool).maxUnavailable, hosts: away, removal: c.removes}
		}
		if c.toPrepare() {
			return p.keptByPreparing(c)
		}
		if len(p.held) >= p.disruptions {
			return reason{kind: waitsForCluster, most: p.disruptions, hosts: p.held, removal: c.removes}
		}
	case slotRestart:
		of := p.sums[c.pool]
		if c.byPerson {
			break
		}
		if c.cause == "" && !c.corrects() && len(of.changing) > 0 && (of.proves.IsZero() || of.proves.Before(c.since)) {
			return reason{kind: waitsForFirst, hosts: of.changing}
		}
		if most := max(maxRestarts, p.disruptions); len(p.restarting) >= most {
			return reason{kind: waitsForRestarts, most: most, hosts: p.restarting}
		}
	}
	return reason{}
}

// retriedSoon is how long, at the most, a restart that somebody asked for waits for an update that is tried again.
const retriedSoon = 10 * time.Minute

// keptByUpdate has a host wait that is to be restarted because somebody asked for it, until it has got the update that it is to get: nobody has
// it disturbed twice, and in a pool of the type OnRequest it is not asked for the update once it was restarted. The restart does not wait for
// what keeps the update for nobody knows how long.
func (p *pass) keptByUpdate(c candidate) reason {
	if !c.start || c.cause != v1alpha1.CauseRestartRequested || !c.update {
		return reason{}
	}
	var why reason
	switch h := c.host; {
	case h.due.After(p.now.Add(retriedSoon)):
		return reason{}
	case h.due.After(p.now):
		return reason{kind: waitsForTime, at: h.due, text: updateRetried}
	case h.impact == "":
		why = h.waitsForPlan(p.now)
	default:
		why = p.keeps(candidate{host: h, impact: h.impact, start: true}) // nothing: it goes first
	}
	if why.lasts() {
		return reason{}
	}
	return why
}

// updateRetried is what a host waits for whose update failed.
const updateRetried = "The update is tried again"

// awayBeside are the hosts of its pool for whose sake a host that works may have to wait. A broken one that takes pods, because somebody has
// uncordoned its Node, waits for no others like it, which would wait for it as well.
func (p *pass) awayBeside(h *host) []*host {
	away := p.unavailable[h.pool]
	if h.broken == nil {
		return away
	}
	var out []*host
	for _, o := range away {
		if o != h && o.outOfService() {
			out = append(out, o)
		}
	}
	return out
}

// keptByPreparing keeps from downloading updates what could not be drained soon after that: a host that waits with them has no
// other operation. In a pool it is the turn of as many as may be out of service, in a namespace of as many as in all pools. Namespaces
// do not wait for one another.
func (p *pass) keptByPreparing(c candidate) reason {
	all := p.preparing[c.pool.namespace]
	var inPool []*host
	for _, h := range all {
		if h.pool == c.pool {
			inPool = append(inPool, h)
		}
	}
	if most := p.policy(c.pool).maxUnavailable; len(inPool) > 0 && len(inPool)+len(p.unavailable[c.pool]) >= most {
		return reason{kind: waitsForDownload, most: most, hosts: inPool, text: "spec.updateStrategy.rollingUpdate.maxUnavailable"}
	}
	if len(all) >= p.disruptions {
		return reason{kind: waitsForDownload, most: p.disruptions, hosts: all, text: "--max-disruptive-operations"}
	}
	return reason{}
}

// keptByPolicy is the part of keeps that the pool decides.
func (p *pass) keptByPolicy(c candidate) reason {
	policy, of := p.policy(c.pool), p.sums[c.pool]
	switch {
	case c.cause == v1alpha1.CauseNodeNotReady:
		return p.keptByHealth(c)
	case c.cause == v1alpha1.CauseCameBack:
		return reason{}
	case c.removes || c.byPerson || c.half || (c.corrects() || c.interrupted) && c.cause == "":
		return reason{}
	}
	if c.heldBack && !c.hasOwn && c.cause == "" && slotOf(c.impact) != slotNone {
		return reason{kind: waitsForResume}
	}
	broken := of.broken
	if c.undoes { // those that cannot go back with it are what it is undone for
		broken = slices.DeleteFunc(slices.Clone(broken), func(h *host) bool { return h.keeps })
	}
	// What broke hosts costs the others something as well. What does not must reach those that work, as a renewed authority must.
	if harmless := slotOf(c.impact) == slotNone && c.cause == ""; !harmless && len(broken) > policy.maxFailures {
		return reason{kind: waitsForBroken, most: policy.maxFailures, hosts: broken}
	}
	if c.cause == v1alpha1.CauseWindowsUpdates && p.updatesStopped(c.host) {
		return reason{kind: waitsForUpdates, most: policy.maxFailures, hosts: of.lack}
	}
	if slotOf(c.impact) == slotNone {
		if most := max(policy.maxFailures, harmlessFailures); c.failed == nil && len(of.failed) > most { // those are tried again
			return reason{kind: waitsForFailed, most: most, hosts: of.failed}
		}
		return reason{}
	}
	switch {
	case policy.onRequest && c.cause == "" && !c.undoes && !c.restartIsDue(p.now): // whoever asks for a restart of all, or undoes it, asks for that
		return reason{kind: waitsForRequest}
	case policy.unreadable != nil:
		return reason{kind: waitsForWindow, text: policy.unreadable.Error()}
	case policy.canary >= 0 && c.cause == "" && !c.undoes && !c.returns && of.tried(c.host) >= policy.canary: // also if only the canaries have it
		return reason{kind: waitsForCanary, most: policy.canary}
	}
	if policy.window != nil {
		open, again := of.window()
		p.later(again)
		if !open {
			return reason{kind: waitsForWindow, at: again}
		}
	}
	return reason{}
}

// keptByHealth keeps from being repaired what is not the trouble of one host.
func (p *pass) keptByHealth(c candidate) reason {
	policy := p.policy(c.pool)
	if n := p.sums[c.pool].unready; n > policy.maxUnhealthy {
		return reason{kind: waitsForHealth, most: policy.maxUnhealthy, text: fmt.Sprintf("%d of the pool are not", n)}
	}
	if most := max(policy.maxUnhealthyAnyway, p.nodes*policy.maxUnhealthyPercent/100); p.unready > most {
		return reason{kind: waitsForHealth, most: most, text: fmt.Sprintf("%d of all %d Windows Nodes are not", p.unready, p.nodes)}
	}
	return reason{}
}

// policy is that of a pool.
func (p *pass) policy(key poolKey) policy {
	if own, ok := p.pools[key]; ok {
		return own
	}
	return policyOf(nil, 0)
}

// grant lets a candidate be disturbed.
func (p *pass) grant(c candidate) {
	p.granted.Insert(c.key)
	g := grant{key: c.key, impact: c.impact, cause: c.cause}
	if c.cause == v1alpha1.CauseWindowsUpdates {
		g.install = c.install
	}
	if c.toPrepare() {
		g.impact, c.prepares = v1alpha1.ImpactNone, true
		p.start = append(p.start, g)
		p.preparing[c.pool.namespace] = append(p.preparing[c.pool.namespace], c.host)
		delete(p.waits, c.key)
		return
	}
	if c.start {
		p.start = append(p.start, g)
	} else {
		p.admit = append(p.admit, g)
	}
	if c.start && c.cause == v1alpha1.CauseVersionChanged {
		p.renewing[c.pool.namespace] = append(p.renewing[c.pool.namespace], c.host)
	}
	was := c.unavailable()
	c.repairs = !configures(c.cause)
	delete(p.waits, c.key) // with something else
	p.hold(c.host, slotOf(c.impact))
	c.holds = slotOf(c.impact)
	if !was && c.unavailable() {
		p.unavailable[c.pool] = append(p.unavailable[c.pool], c.host)
	}
}

// describeAwaited finds the hosts that have slots which hosts of other pools wait for.
func (p *pass) describeAwaited() {
	waiting := sets.New[poolKey]()
	for key, why := range p.waits {
		if why.kind == waitsForCluster {
			waiting.Insert(p.poolOf[key])
		}
	}
	for _, h := range p.held {
		if waiting.Len() > 1 || waiting.Len() == 1 && !waiting.Has(h.pool) {
			p.awaited.Insert(h.key)
		}
	}
}
