// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package rollout

import (
	"fmt"
	"slices"
	"time"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
)

// blockedBy says what keeps a candidate from being disturbed now. Its kind is empty if nothing does.
func (p *pass) blockedBy(c candidate) reason {
	if why := p.blockedByUpdate(c); why.kind != "" {
		return why
	}
	if why := p.blockedByPolicy(c); why.kind != "" {
		return why
	}
	if beside := p.renewing[c.pool.namespace]; c.start && c.cause == v1alpha1.CauseVersionChanged && len(beside) >= maxRenewed {
		return reason{kind: waitsForRenewals, most: maxRenewed, hosts: beside}
	}
	switch slotOf(c.impact) {
	case slotDisruption:
		if away := p.awayBeside(c.host); !c.byPerson && (!c.outOfService() || c.servesPods()) && (c.node || !c.leaving) && len(away) >= p.policy(c.pool).maxUnavailable {
			return reason{kind: waitsForPool, most: p.policy(c.pool).maxUnavailable, hosts: away, removal: c.removes}
		}
		if c.toPrepare() {
			return p.blockedByPreparing(c)
		}
		if len(p.held) >= p.disruptions {
			return reason{kind: waitsForCluster, most: p.disruptions, hosts: p.held, removal: c.removes}
		}
	case slotServiceRestart:
		of := p.sums[c.pool]
		if c.byPerson {
			break
		}
		if c.cause == "" && !c.corrects() && len(of.changing) > 0 && (of.proves.IsZero() || of.proves.Before(c.since)) {
			return reason{kind: waitsForFirst, hosts: of.changing}
		}
		if most := max(maxServiceRestarts, p.disruptions); len(p.restarting) >= most {
			return reason{kind: waitsForServiceRestarts, most: most, hosts: p.restarting}
		}
	}
	return reason{}
}

// retriedSoon is how long, at the most, a restart that somebody asked for waits for an update that is tried again.
const retriedSoon = 10 * time.Minute

// blockedByUpdate lets a restart that somebody asked for wait for the update of the same host, so that the host is disturbed once; in a pool of type
// OnRequest nobody asks for the update after the restart. The restart does not wait if nobody knows when the update can go on.
func (p *pass) blockedByUpdate(c candidate) reason {
	if !c.start || c.cause != v1alpha1.CauseRestartRequested || !c.update {
		return reason{}
	}
	var why reason
	switch h := c.host; {
	case h.due.After(p.now.Add(retriedSoon)):
		return reason{}
	case h.due.After(p.now):
		return h.updateRetried()
	case h.impact == "":
		why = h.planReason(p.now)
	default:
		why = p.blockedBy(candidate{host: h, impact: h.impact, start: true}) // nothing: it goes first
	}
	if why.lasts() {
		return reason{}
	}
	return why
}

// updateRetried is what a host waits for whose update failed.
func (h *host) updateRetried() reason {
	return reason{kind: waitsForTime, at: h.due, text: "The update is tried again", failed: h.updateFailed}
}

// awayBeside are the hosts of the pool of h that are out of service and that h may have to wait for. A broken host that takes pods, because
// somebody has uncordoned its Node, does not wait for others like it, which would wait for it as well. One that somebody has cordoned, and that
// serves pods, waits neither for others like it nor for such broken hosts, which wait for it.
func (p *pass) awayBeside(h *host) []*host {
	away, serves := p.unavailable[h.pool], h.servesPods()
	if h.broken == nil && !serves {
		return away
	}
	var out []*host
	for _, o := range away {
		if o != h && o.outOfService() && !(serves && o.servesPods()) {
			out = append(out, o)
		}
	}
	return out
}

// blockedByPreparing delays the download of updates to hosts that could not be drained soon after it, because a host that waits with its updates
// gets no other operation. In a pool as many hosts download as may be out of service, in a namespace as many as in all pools. Namespaces
// do not wait for one another.
func (p *pass) blockedByPreparing(c candidate) reason {
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

// blockedByPolicy is the part of blockedBy that the pool decides.
func (p *pass) blockedByPolicy(c candidate) reason {
	policy, of := p.policy(c.pool), p.sums[c.pool]
	switch {
	case c.cause == v1alpha1.CauseNodeNotReady:
		return p.blockedByHealth(c)
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
		broken = slices.DeleteFunc(slices.Clone(broken), func(h *host) bool { return h.keepsRevision })
	}
	// Only changes that cost the workload something are stopped: such a change broke the hosts. A renewed authority must reach those that work.
	if harmless := slotOf(c.impact) == slotNone && c.cause == ""; !harmless && len(broken) > policy.maxFailures {
		return reason{kind: waitsForBroken, most: policy.maxFailures, hosts: broken}
	}
	if c.cause == v1alpha1.CauseWindowsUpdates && p.updatesStopped(c.host) {
		return reason{kind: waitsForFailedUpdates, most: policy.maxFailures, hosts: of.lack}
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
		p.decideAgainAt(again)
		if !open {
			return reason{kind: waitsForWindow, at: again}
		}
	}
	return reason{}
}

// blockedByHealth blocks repairs while so many Nodes are not ready that one host is not the cause.
func (p *pass) blockedByHealth(c candidate) reason {
	policy := p.policy(c.pool)
	if n := p.sums[c.pool].unready; n > policy.maxUnhealthy {
		return reason{kind: waitsForHealth, most: policy.maxUnhealthy, text: fmt.Sprintf("%d of the pool are not", n)}
	}
	if most := max(policy.maxUnhealthyAnyway, p.nodes*policy.maxUnhealthyPercent/100); p.unready > most {
		text := fmt.Sprintf("%d of all %d Windows Nodes are not", p.unready, p.nodes)
		if p.offForLong > 0 {
			text = fmt.Sprintf("%d of %d Windows Nodes are not, besides %d of paused hosts that are off", p.unready, p.nodes, p.offForLong)
		}
		return reason{kind: waitsForHealth, most: most, text: text}
	}
	return reason{}
}

// updatesStopped says whether a host gets no updates of Windows because they could not be installed on others of its pool.
func (p *pass) updatesStopped(h *host) bool {
	return !h.lacksUpdates && len(p.sums[h.pool].lack) > p.policy(h.pool).maxFailures
}
