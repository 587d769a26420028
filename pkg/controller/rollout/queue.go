// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package rollout

import (
	"slices"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
)

// line is a part of the queue whose order no grant changes, so that only its first candidate is compared with those of other lines: a grant in
// a fleet of thousands of hosts must not look at all of them.
type line struct {
	pool       poolKey
	takesTurns bool
}

// serve grants what is in the queue one after the other, as each grant counts for those after it, and notes why the others are kept.
// Whoever is kept once is until the end of the pass: a grant lets nobody go on.
func (p *pass) serve() {
	lines := map[line][]candidate{}
	for _, c := range p.queue {
		of := line{c.pool, c.takesTurns()}
		lines[of] = append(lines[of], c)
	}
	for _, candidates := range lines {
		slices.SortStableFunc(candidates, compareInLine)
	}
	for {
		var best candidate
		for of, candidates := range lines {
			at := slices.IndexFunc(candidates, func(c candidate) bool { return !p.granted.Has(c.key) && p.keeps(c).kind == "" })
			if at < 0 {
				delete(lines, of)
				continue
			}
			lines[of] = candidates[at:]
			if first := candidates[at]; best.host == nil || p.compare(first, best) < 0 {
				best = first
			}
		}
		if best.host == nil {
			break
		}
		p.grant(best)
	}
	for _, c := range p.queue {
		if !p.granted.Has(c.key) { // one thing at a time
			p.keep(c)
		}
	}
}

// keep notes why a candidate has to wait.
func (p *pass) keep(c candidate) {
	why := p.keeps(c)
	why.upkeep = upkeep(c.cause)
	// What it waits for with its update is said first, and what can be done about it before a time that has to come.
	if known, waits := p.waits[c.key]; !waits || known.kind == waitsForTime {
		p.wait(c.host, why)
	}
	if slotOf(c.impact) == slotDisruption {
		p.waiting++
	}
	c.unremedied = c.unremedied || c.cause == v1alpha1.CauseNodeNotReady && why.kind.lasts()
}
