// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package rollout

import (
	"cmp"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
)

// line is a part of the queue whose order no grant changes, so that only its first candidate is compared with those of other lines: a grant in
// a fleet of thousands of hosts must not look at all of them.
type line struct {
	pool       poolKey
	takesTurns bool
	slot       slot
}

// serveWithoutSlot grants what needs no slot, and so counts for nobody else, or notes why it has to wait.
func (p *pass) serveWithoutSlot() {
	p.queue = slices.DeleteFunc(p.queue, func(c candidate) bool {
		if slotOf(c.impact) != slotNone {
			return false
		}
		if p.granted.Has(c.key) { // one thing at a time
			return true
		}
		if why := p.blockedBy(c); why.kind != "" {
			why.upkeep = upkeep(c.cause)
			p.wait(c.host, why)
		} else {
			p.grant(c)
		}
		return true
	})
}

// serve grants what is in the queue one after the other, as each grant counts for those after it, and notes why the others are kept.
// Whoever is kept once is until the end of the pass: a grant lets nobody go on.
func (p *pass) serve() {
	lines := map[line][]candidate{}
	for _, c := range p.queue {
		of := line{c.pool, c.takesTurns(), slotOf(c.impact)}
		lines[of] = append(lines[of], c)
	}
	for _, candidates := range lines {
		slices.SortStableFunc(candidates, compareInLine)
	}
	for {
		next := map[poolKey]candidate{}
		for of, candidates := range lines {
			at := slices.IndexFunc(candidates, func(c candidate) bool { return !p.granted.Has(c.key) && p.blockedBy(c).kind == "" })
			if at < 0 {
				delete(lines, of)
				continue
			}
			lines[of] = candidates[at:]
			if other, ok := next[of.pool]; !ok || compareInPool(candidates[at], other) < 0 {
				next[of.pool] = candidates[at]
			}
		}
		if len(next) == 0 {
			break
		}
		p.grant(slices.MinFunc(slices.Collect(maps.Values(next)), p.compare))
	}
	waiting := sets.New[types.NamespacedName]()
	for _, c := range p.queue {
		if p.granted.Has(c.key) { // one thing at a time
			continue
		}
		p.noteBlocked(c)
		if slotOf(c.impact) == slotDisruption {
			waiting.Insert(c.key) // once, whatever it waits for
		}
	}
	p.waiting = waiting.Len()
}

// noteBlocked notes why a candidate has to wait.
func (p *pass) noteBlocked(c candidate) {
	why := p.blockedBy(c)
	why.upkeep = upkeep(c.cause)
	// What it waits for with its update is said first, and what can be done about it before a time that has to come.
	if known, waits := p.waits[c.key]; !waits || known.kind == waitsForTime {
		p.wait(c.host, why)
	}
	c.unremedied = c.unremedied || c.cause == v1alpha1.CauseNodeNotReady && why.kind.lasts()
}

// compare says which of two candidates of different pools is first, as [decide] describes it. Slots of different kinds do not wait for one another:
// those for restarts of services are given first only so that what is behind them in their pools is compared with its like.
func (p *pass) compare(a, b candidate) int {
	kind := slotOf(a.impact)
	return cmp.Or(
		compareBools(a.takesTurns(), b.takesTurns()),
		cmp.Compare(kind, slotOf(b.impact)),
		p.shares[a.pool.namespace][kind].compare(p.shares[b.pool.namespace][kind]),
		-compareBools(a.urgent(), b.urgent()),
		p.sums[a.pool].turns[kind].compare(p.sums[b.pool].turns[kind]),
		compareInLine(a, b),
	)
}

// compareInPool says which of two candidates of a pool is first, whatever slots they need: they may be of one host.
func compareInPool(a, b candidate) int {
	return cmp.Or(compareBools(a.takesTurns(), b.takesTurns()), compareInLine(a, b))
}

// compareInLine says which of two candidates of a pool is first, as [decide] describes it. It does not depend on what has been granted before.
func compareInLine(a, b candidate) int {
	return cmp.Or(
		-compareBools(a.urgent(), b.urgent()),
		-compareBools(a.byPerson, b.byPerson),
		-compareBools(a.cause == v1alpha1.CauseNodeNotReady, b.cause == v1alpha1.CauseNodeNotReady),
		compareBroken(a.host, b.host),
		a.lastFailed.Compare(b.lastFailed),  // one whose pods do not leave is due again and again
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
	return c.byPerson || c.cause == v1alpha1.CauseNodeNotReady && !c.remedy.neverBegan
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
