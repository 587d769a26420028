// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package rollout

import (
	"cmp"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
)

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
	shares           map[string]turns   // by namespace
	sums             map[poolKey]*sum
	// nodes counts the Nodes, and unready those of them that are not ready. offForLong counts those that are in neither, see [host.offForLong].
	nodes, unready, offForLong int
	// granted are the hosts that something is begun on.
	granted sets.Set[types.NamespacedName]
}

// share is what a namespace or a pool has had of the slots of one kind: how many it has, and when one of its hosts last gave one back, later by
// as much as it had it.
type share struct {
	slots      int
	lastServed time.Time
}

// turns are the shares of a namespace or a pool by the kind of slot. Those of one kind do not wait for those of another.
type turns [slotDisruption + 1]share

// serve notes that a host had a slot until a time.
func (t *turns) serve(s slot, until time.Time) { t[s].lastServed = later(t[s].lastServed, until) }

// compare says which of two comes first: the one with the fewest slots, and then the one that has waited longest, for as long as it had the slot before.
func (s share) compare(other share) int {
	return cmp.Or(cmp.Compare(s.slots, other.slots), s.lastServed.Compare(other.lastServed))
}

// sum is what is known of a pool.
type sum struct {
	turns
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
		state: s, unavailable: map[poolKey][]*host{}, preparing: map[string][]*host{}, renewing: map[string][]*host{}, shares: map[string]turns{}, sums: map[poolKey]*sum{}, granted: sets.New[types.NamespacedName](),
		decision: decision{waits: map[types.NamespacedName]reason{}, poolOf: map[types.NamespacedName]poolKey{}, inConditions: map[types.NamespacedName]waitKind{}, contested: sets.New[types.NamespacedName](), givesWayTo: map[types.NamespacedName]string{}, heldSince: map[types.NamespacedName]time.Time{}, ready: sets.New[types.NamespacedName]()},
	}
	for key, policy := range p.pools {
		p.noteServed(key.namespace, slotDisruption, p.past(policy.removed))
	}
	for key, at := range p.state.served {
		for kind, until := range at {
			p.noteServed(key.namespace, slot(kind), p.pastOrCharged(until))
		}
	}
	for i := range p.hosts {
		h := &p.hosts[i]
		of := p.sums[h.pool]
		if of == nil {
			of = &sum{window: sync.OnceValues(func() (bool, time.Time) { return p.policy(h.pool).window.At(p.now) })}
			of.serve(slotDisruption, p.past(p.policy(h.pool).removed))
			for kind, until := range p.state.served[h.pool] {
				of.serve(slot(kind), p.pastOrCharged(until))
			}
			p.sums[h.pool] = of
		}
		of.size++
		if h.node {
			p.countReady(h, of)
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
		of.proves = later(of.proves, h.proves)
		for kind, until := range h.lastServed {
			of.serve(slot(kind), p.past(until))
			p.noteServed(h.pool.namespace, slot(kind), p.past(until))
		}
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
	p.decision.served = p.rememberServed()
	return p
}

// countReady counts a Node, and whether it is ready.
func (p *pass) countReady(h *host, of *sum) {
	switch {
	case h.offForLong(p.now):
		p.offForLong++
		return
	case !h.ready:
		p.unready, of.unready = p.unready+1, of.unready+1
	}
	p.nodes++
}

// offForLong says whether a Node is not ready because somebody has paused its host and switched it off, which says nothing about others. One that is
// not ready for less than [sameTrouble] may have the same trouble as others: people pause hosts that run, and in an outage.
func (h *host) offForLong(now time.Time) bool {
	return h.paused && !h.ready && !h.downSince.IsZero() && now.Sub(h.downSince) > sameTrouble
}

// noteServed notes that a host of a namespace had a slot until a time.
func (p *pass) noteServed(namespace string, s slot, until time.Time) {
	of := p.shares[namespace]
	of.serve(s, until)
	p.shares[namespace] = of
}

// maxAhead is how far after now a time may be that was written by another clock, or before this one was set.
const maxAhead = time.Minute

// past is a time at which a host gave back a slot, and zero if that is still to come: a clock that was ahead for a moment must not put a pool last
// until then.
func (p *pass) past(until time.Time) time.Time { return p.unlessAfter(until, maxAhead) }

// unlessAfter is a time, and zero if it is further after now than that.
func (p *pass) unlessAfter(until time.Time, ahead time.Duration) time.Time {
	if until.After(p.now.Add(ahead)) {
		return time.Time{}
	}
	return until
}

// maxCharge is the longest time that a slot is charged with: more than an operation takes with whose end all is well.
const maxCharge = 6 * time.Hour

// charged is until when a host that has a slot has had it, and by as much more as it has had it: a pool whose hosts take hours, with updates of
// Windows or pods that do not leave, is next again when the others that wait have had the slot for as long.
func (p *pass) charged(h *host) time.Time {
	since, known := p.state.heldSince[h.key]
	if !known || since.After(p.now) {
		since = p.now
	}
	p.decision.heldSince[h.key] = since
	return p.now.Add(min(p.now.Sub(since), maxCharge))
}

// pastOrCharged is [pass.past] for what passes before remember, which may be charged.
func (p *pass) pastOrCharged(until time.Time) time.Time {
	return p.unlessAfter(until, maxAhead+maxCharge)
}

// rememberServed returns until when each pool had slots, as far as that is worth remembering: hosts forget it with their histories, and those that are
// removed with everything. Those that hosts have now are charged. Of pools that do not exist, which hosts can name without end, only their namespaces
// are remembered.
func (p *pass) rememberServed() map[poolKey]servedUntil {
	served := map[poolKey]servedUntil{}
	note := func(key poolKey, s slot, until time.Time) {
		if p.now.Sub(p.pastOrCharged(until)) >= servedFor {
			return
		}
		if _, exists := p.pools[key]; !exists {
			key.name = ""
		}
		of := served[key]
		of[s] = later(of[s], until)
		served[key] = of
	}
	for key, at := range p.state.served {
		for kind, until := range at {
			note(key, slot(kind), until)
		}
	}
	for key, of := range p.sums {
		for kind, share := range of.turns {
			note(key, slot(kind), share.lastServed)
		}
	}
	for _, h := range p.held {
		note(h.pool, slotDisruption, p.charged(h))
	}
	for _, h := range p.restarting {
		note(h.pool, slotServiceRestart, p.charged(h))
	}
	return served
}

// hold counts a slot.
func (p *pass) hold(h *host, s slot) {
	of := p.sums[h.pool]
	switch s {
	case slotDisruption:
		p.held = append(p.held, h)
		p.decision.held++
	case slotServiceRestart:
		p.restarting = append(p.restarting, h)
	default:
		return
	}
	all := p.shares[h.pool.namespace]
	for _, shares := range []*turns{&all, &of.turns} {
		shares[s].slots++
		if h.holds != s {
			shares.serve(s, p.now)
		}
	}
	p.shares[h.pool.namespace] = all
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

// waitUntil notes that something else than an update is done to a host at a time, and why.
func (p *pass) waitUntil(h *host, at time.Time, what string, cause v1alpha1.OperationCause) {
	p.waitForTime(h, reason{kind: waitsForTime, at: at, text: what, failed: h.failedFor(cause), upkeep: upkeep(cause)})
}

// waitForTime notes that something is done to a host at a time, unless it waits for something else.
func (p *pass) waitForTime(h *host, why reason) {
	p.decideAgainAt(why.at)
	if _, waits := p.waits[h.key]; !waits {
		p.wait(h, why)
	}
}

// decideAgainAt has it decided again at a time, unless that is the zero time.
func (p *pass) decideAgainAt(at time.Time) {
	p.again = earlier(p.again, at)
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

// findContested finds the hosts that have slots which hosts of other pools wait for.
func (p *pass) findContested() {
	for kind, have := range map[waitKind][]*host{waitsForCluster: p.held, waitsForServiceRestarts: p.restarting} {
		waiting := sets.New[poolKey]()
		for key, why := range p.waits {
			if why.kind == kind {
				waiting.Insert(p.poolOf[key])
			}
		}
		for _, h := range have {
			if waiting.Len() > 1 || waiting.Len() == 1 && !waiting.Has(h.pool) {
				p.contested.Insert(h.key)
			}
		}
	}
}
