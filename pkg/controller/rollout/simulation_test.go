// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package rollout

import (
	"crypto/sha256"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/sets"
	"pgregory.net/rapid"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
)

// Each run of the tests is the same; others are for who looks for something, and for the fuzz targets:
// go test ./pkg/controller/rollout -run 'TestSimulat' -rapid.seed=0 -rapid.checks=10000
func init() {
	if err := flag.Set("rapid.seed", "1"); err != nil {
		panic(err)
	}
}

// simulated is a fleet that is updated as decide says, while anything may happen to it.
type simulated struct {
	t     *rapid.T
	state state
	// pools are those that the policies are of, and sizes how many hosts they should have.
	pools map[poolKey]*v1alpha1.WindowsNodePool
	sizes map[poolKey]int
	// costs is what the update of each host costs.
	costs map[types.NamespacedName]v1alpha1.ChangeImpact
	// ends is when the update of a host that has begun is over.
	ends map[types.NamespacedName]time.Time
	// down are hosts whose Node is not ready, whatever is done.
	down sets.Set[types.NamespacedName]
	// undone are pools whose revision somebody has undone.
	undone sets.Set[poolKey]
	// well: from now on nothing breaks.
	well bool
}

// TestSimulation: whatever the pools say and whatever happens, no more hosts are out of service than allowed, none
// is disturbed against its policy, and all that may be are updated in the end, or something says why not.
func TestSimulation(t *testing.T) { rapid.Check(t, simulate) }

// FuzzSimulation is TestSimulation for as long as somebody wants.
func FuzzSimulation(f *testing.F) { fuzzSimulation(f, simulate) }

// fuzzSimulation fuzzes a simulation. What an input does not say is drawn from its digest: one that ends too early would test nothing.
func fuzzSimulation(f *testing.F, simulate func(*rapid.T)) {
	f.Add([]byte(nil))
	f.Fuzz(func(t *testing.T, input []byte) {
		rest := make([]byte, 1<<18)
		if _, err := rand.NewChaCha8(sha256.Sum256(input)).Read(rest); err != nil {
			t.Fatal(err)
		}
		rapid.MakeFuzz(simulate)(t, append(slices.Clip(input), rest...))
	})
}

// simulate lets anything happen to a fleet, and then updates it.
func simulate(t *rapid.T) {
	s := newSimulated(t)
	t.Repeat(map[string]func(*rapid.T){
		"": func(*rapid.T) { s.pass() },
		"time goes by": func(t *rapid.T) {
			s.state.now = s.state.now.Add(time.Duration(rapid.IntRange(1, 7200).Draw(t, "seconds")) * time.Second)
			s.finish()
		},
		"something else is wanted": func(t *rapid.T) {
			cost := rapid.SampledFrom(impacts).Draw(t, "cost")
			for i := range s.state.hosts {
				s.want(&s.state.hosts[i], cost)
			}
		},
		"a Node goes down or comes up": func(t *rapid.T) {
			if h := s.any(t); s.down.Has(h.key) {
				s.comesUp(h)
			} else {
				s.goesDown(h)
				if _, runs := s.ends[h.key]; h.broken == nil && h.updated && !h.proves.IsZero() && !runs && h.waits == "" && !h.leaving && rapid.Bool().Draw(t, "blamed") {
					h.broken = &v1alpha1.Operation{ID: "op", Type: v1alpha1.OperationReconfigure, Phase: v1alpha1.OperationSucceeded}
				}
				h.remedy = remedy{action: rapid.SampledFrom([]v1alpha1.PoolRemediationAction{"", v1alpha1.RemediateRestartServices, v1alpha1.RemediateRestart}).Draw(t, "remedy")}
			}
		},
		"somebody cordons a Node, or drains it, or uncordons it": func(t *rapid.T) {
			h := s.any(t)
			h.cordoned = !h.cordoned
			h.drained = h.cordoned && rapid.Bool().Draw(t, "drains")
		},
		"a Node is deleted or made again": func(t *rapid.T) {
			if h := s.any(t); !h.leaving {
				h.lost, h.node, h.downSince = h.node, !h.node, time.Time{}
				if h.node && !h.ready {
					h.downSince = s.state.now
				}
			}
		},
		"a failed restart has left a Node cordoned": func(t *rapid.T) {
			h := s.any(t)
			if _, runs := s.ends[h.key]; h.ready && h.node && !runs {
				h.cordoned, h.uncordon, h.drained = true, true, true
				h.uncordonDue = s.state.now.Add(time.Duration(rapid.IntRange(0, 600).Draw(t, "seconds")) * time.Second)
			}
		},
		"a pool is to be restarted": func(t *rapid.T) {
			of, cause := s.any(t).pool, rapid.SampledFrom([]v1alpha1.OperationCause{v1alpha1.CauseRestartRequested, v1alpha1.CauseWindowsUpdates}).Draw(t, "cause")
			for i := range s.state.hosts {
				if h := &s.state.hosts[i]; h.pool == of && !h.prepares {
					h.restart, h.install = cause, v1alpha1.InstallSecurity
				}
			}
		},
		"updates of Windows fail on a host, or not any more": func(t *rapid.T) {
			h := s.any(t)
			h.lacksUpdates = !h.lacksUpdates
		},
		"a person asks for an update": func(t *rapid.T) {
			h := s.any(t)
			if _, runs := s.ends[h.key]; h.update && !runs && !h.prepares {
				h.update, h.waits, h.byPerson = false, s.costs[h.key], true
				if takes[h.waits] != slotDisruption {
					h.waits = ""
					s.ends[h.key] = s.state.now
				}
			}
		},
		"a host that is being changed has to be drained by now": func(t *rapid.T) {
			if h := s.any(t); h.holds == slotServiceRestart && !h.repairs && !h.leaving {
				delete(s.ends, h.key)
				h.waits, h.begun, h.half = v1alpha1.ImpactDrain, true, true
				s.costs[h.key] = v1alpha1.ImpactDrain
			}
		},
		"a host is to be removed": func(t *rapid.T) {
			if h := s.any(t); !h.leaving {
				h.leaving, h.confirmed = true, rapid.Bool().Draw(t, "confirmed")
				h.lost, h.broken, h.failed = false, nil, nil
			}
		},
		"a revision is rolled back":                        func(t *rapid.T) { s.rollBack(t, s.any(t).pool) },
		"somebody undoes a revision":                       func(t *rapid.T) { s.undo(t, s.any(t).pool) },
		"the API servers outgrow what a pool goes back to": func(t *rapid.T) { s.outgrow(s.any(t).pool) },
		"somebody resumes a revision": func(t *rapid.T) {
			of := s.any(t).pool
			undone := s.undone.Has(of)
			s.undone.Delete(of)
			for i := range s.state.hosts {
				if h := &s.state.hosts[i]; h.pool == of && (h.heldBack || undone) {
					h.heldBack, h.hasOwn, h.rollsBack, h.undoes, h.updated = false, false, false, false, h.keepsRevision
					if !h.keepsRevision {
						s.want(h, s.costs[h.key])
					}
					h.keepsRevision = false
				}
			}
		},
		"a pool gets another policy": func(t *rapid.T) { s.givePolicy(t, s.any(t).pool) },
	})
	s.settle()
}

var impacts = []v1alpha1.ChangeImpact{v1alpha1.ImpactNone, v1alpha1.ImpactRestart, v1alpha1.ImpactDrain, v1alpha1.ImpactReboot}

func newSimulated(t *rapid.T) *simulated {
	s := &simulated{
		t: t, costs: map[types.NamespacedName]v1alpha1.ChangeImpact{}, ends: map[types.NamespacedName]time.Time{}, down: sets.New[types.NamespacedName](),
		undone: sets.New[poolKey](), pools: map[poolKey]*v1alpha1.WindowsNodePool{}, sizes: map[poolKey]int{},
		// On 29 March 2026 the clocks of Europe change.
		state: state{now: time.Date(2026, 3, 28, 20, 0, 0, 0, time.UTC), pools: map[poolKey]policy{}, disruptions: rapid.IntRange(1, 4).Draw(t, "disruptions")},
	}
	for p := range rapid.IntRange(1, 4).Draw(t, "pools") {
		key := poolKey{fmt.Sprintf("ns%d", p%2), fmt.Sprintf("p%d", p)}
		size := rapid.IntRange(1, 12).Draw(t, "size")
		s.sizes[key] = size
		s.givePolicy(t, key)
		for n := range size {
			h := host{key: types.NamespacedName{Namespace: key.namespace, Name: fmt.Sprintf("%s-%d", key.name, n)}, pool: key, node: true, ready: true}
			s.want(&h, rapid.SampledFrom(impacts).Draw(t, "cost"))
			s.state.hosts = append(s.state.hosts, h)
		}
	}
	return s
}

// takes is what an impact takes of what is shared by all, by what is documented of it.
var takes = map[v1alpha1.ChangeImpact]slot{v1alpha1.ImpactRestart: slotServiceRestart, v1alpha1.ImpactDrain: slotDisruption, v1alpha1.ImpactReboot: slotDisruption}

// givePolicy has a pool say anything of its hosts.
func (s *simulated) givePolicy(t *rapid.T, of poolKey) {
	s.pools[of] = anyPolicy(t)
	s.state.pools[of] = policyOf(s.pools[of], s.sizes[of])
}

func anyPolicy(t *rapid.T) *v1alpha1.WindowsNodePool {
	pool := &v1alpha1.WindowsNodePool{}
	u := &pool.Spec.UpdateStrategy
	u.Type = rapid.SampledFrom([]v1alpha1.PoolUpdateStrategyType{v1alpha1.RollingUpdate, v1alpha1.RollingUpdate, v1alpha1.OnRequest}).Draw(t, "type")
	u.RollingUpdate.MaxUnavailable = rapid.SampledFrom([]*intstr.IntOrString{nil, new(intstr.FromInt32(3)), new(intstr.FromString("25%"))}).Draw(t, "maxUnavailable")
	u.RollingUpdate.Canary = rapid.SampledFrom([]*intstr.IntOrString{nil, nil, new(intstr.FromInt32(0)), new(intstr.FromInt32(2))}).Draw(t, "canary")
	u.RollingUpdate.MaxFailures = rapid.SampledFrom([]*int32{nil, new(int32(1))}).Draw(t, "maxFailures")
	u.Window = rapid.SampledFrom([]*v1alpha1.MaintenanceWindow{nil, {Schedule: "0 1 * * *", DurationSeconds: 7200, TimeZone: "Europe/Berlin"}}).Draw(t, "window")
	if rapid.Bool().Draw(t, "remediation") {
		pool.Spec.Remediation = &v1alpha1.PoolRemediation{MaxUnhealthy: rapid.SampledFrom([]*intstr.IntOrString{nil, new(intstr.FromInt32(3)), new(intstr.FromInt32(0))}).Draw(t, "maxUnhealthy")}
	}
	return pool
}

// undo has the hosts of a pool go back, but those that lack what they need for it.
func (s *simulated) undo(t *rapid.T, of poolKey) {
	s.undone.Insert(of)
	for i := range s.state.hosts {
		h := &s.state.hosts[i]
		if h.pool != of || h.leaving {
			continue
		}
		h.heldBack, h.hasOwn, h.rollsBack = false, false, false
		if h.keepsRevision = h.updated && rapid.IntRange(0, 4).Draw(t, "keeps") == 0; !h.keepsRevision {
			s.want(h, rapid.SampledFrom(impacts).Draw(t, "cost"))
			h.undoes = true
		}
	}
}

// outgrow has the hosts of a pool that are to go back, and did not yet, keep what they have.
func (s *simulated) outgrow(of poolKey) {
	for i := range s.state.hosts {
		h := &s.state.hosts[i]
		if h.pool != of || h.leaving || !h.undoes {
			continue
		}
		h.undoes, h.keepsRevision = false, true
		if _, runs := s.ends[h.key]; !runs && h.waits == "" && h.broken == nil && h.failed == nil {
			h.updated, h.update, h.impact = true, false, ""
		}
	}
}

// rollBack has the hosts of a pool that are not updated keep what they have, or get it back where their Nodes are down. Of some it is known that what
// is desired of them is not what was rolled back.
func (s *simulated) rollBack(t *rapid.T, of poolKey) {
	if s.undone.Has(of) { // another one would have to be there first
		return
	}
	for i := range s.state.hosts {
		h := &s.state.hosts[i]
		if _, runs := s.ends[h.key]; h.pool != of || h.updated || runs || h.waits != "" {
			continue
		}
		h.heldBack, h.hasOwn, h.rollsBack, h.impact = true, rapid.Bool().Draw(t, "own"), h.node && !h.ready, ""
		h.update = h.rollsBack || h.hasOwn
	}
}

func (s *simulated) goesDown(h *host) {
	s.down.Insert(h.key)
	if h.ready && h.node {
		h.downSince = s.state.now
	}
	h.ready = false
}

func (s *simulated) comesUp(h *host) {
	s.down.Delete(h.key)
	h.ready, h.remedy, h.downSince = true, remedy{}, time.Time{}
	if h.broken != nil && (h.broken.Type == v1alpha1.OperationReboot || h.broken.Phase == v1alpha1.OperationSucceeded) {
		h.broken = nil
	}
}

func (s *simulated) any(t *rapid.T) *host {
	return &s.state.hosts[rapid.IntRange(0, len(s.state.hosts)-1).Draw(t, "host")]
}

// want has a host outdated.
func (s *simulated) want(h *host, cost v1alpha1.ChangeImpact) {
	s.costs[h.key] = cost
	h.since, h.proves, h.updated = s.state.now, time.Time{}, false
	if _, runs := s.ends[h.key]; !runs && h.waits == "" {
		h.update, h.impact = true, ""
	}
}

// finish ends the updates that are over.
func (s *simulated) finish() {
	for i := range s.state.hosts {
		h := &s.state.hosts[i]
		if at, runs := s.ends[h.key]; !runs || at.After(s.state.now) {
			continue
		}
		delete(s.ends, h.key)
		if h.removes {
			s.finishRemoval(h)
			continue
		}
		if h.prepares { // updates of Windows were downloaded
			h.waits, h.waitsWith = v1alpha1.ImpactReboot, v1alpha1.CauseWindowsUpdates
			continue
		}
		if h.uncordon && h.repairs && h.holds == slotNone {
			h.repairs, h.uncordon, h.cordoned, h.drained = false, false, false, false
			h.update = !h.updated
			continue
		}
		if h.repairs {
			s.finishRepair(h)
			continue
		}
		disturbed := h.holds != slotNone
		h.holds, h.byPerson, h.begun, h.half, h.broken, h.failed = slotNone, false, false, false, nil, nil
		switch {
		case s.well || rapid.IntRange(0, 9).Draw(s.t, "outcome") > 0:
			h.updated, h.update, h.rollsBack, h.undoes, h.got = true, false, false, false, s.state.now
			if disturbed {
				h.proves = s.state.now
			}
		case h.leaving: // which keeps nobody from anything, see TestLeavingIsNotBroken
		case disturbed:
			// It is tried again.
			h.broken, h.waits = &v1alpha1.Operation{ID: "op", Phase: v1alpha1.OperationFailed}, s.costs[h.key]
		default:
			h.failed, h.update, h.impact = &v1alpha1.Operation{ID: "op"}, true, ""
		}
	}
}

// finishRemoval ends the removal of a host: it is gone, or it is tried again and its Node stays cordoned.
func (s *simulated) finishRemoval(h *host) {
	h.holds, h.busy, h.removes = slotNone, false, false
	if h.cordoned = !s.well && rapid.IntRange(0, 4).Draw(s.t, "outcome") == 0; !h.cordoned {
		*h = host{key: h.key, pool: h.pool, leaving: true, updated: true}
		s.down.Delete(h.key)
	}
	h.drained = h.cordoned
}

// giveUp ends an operation that waits with updates of Windows.
func (s *simulated) giveUp(h *host) {
	h.prepares, h.repairs, h.waits, h.waitsWith = false, false, "", ""
	h.update = !h.updated
}

// finishRepair ends a restart or a repair. Either is tried once.
func (s *simulated) finishRepair(h *host) {
	restarted := h.holds == slotDisruption
	h.holds, h.repairs, h.remedy = slotNone, false, remedy{}
	if restarted {
		h.restart = ""
	}
	h.update = !h.updated // something else may be wanted since
	switch {
	case s.well || rapid.IntRange(0, 9).Draw(s.t, "outcome") > 0:
		s.comesUp(h)
	case restarted && h.leaving:
		s.goesDown(h)
	case restarted:
		s.goesDown(h)
		h.broken = &v1alpha1.Operation{ID: "op", Type: v1alpha1.OperationReboot}
	}
}

// pass makes one decision, carries it out, and fails the test if it should not have been made.
func (s *simulated) pass() decision {
	seen := s.state
	seen.hosts = slices.Clone(s.state.hosts)
	byKey := map[types.NamespacedName]*host{}
	for i := range s.state.hosts {
		h := &s.state.hosts[i]
		byKey[h.key] = h
		if h.leaving && h.waitsWith != "" { // it is canceled
			s.giveUp(h)
			seen.hosts[i] = *h
		}
		if _, runs := s.ends[h.key]; runs || h.leaving { // nothing is wanted of a host to which something is done, or that goes
			seen.hosts[i].update, seen.hosts[i].restart, seen.hosts[i].remedy, seen.hosts[i].uncordon = false, "", remedy{}, false
		}
		if h.waits != "" && h.waitsWith == "" { // an update does not end for a repair
			seen.hosts[i].remedy, seen.hosts[i].uncordon = remedy{}, false
		}
		if _, runs := s.ends[h.key]; h.leaving && h.node && !runs { // its removal is recorded, when what was done to it has ended
			h.removes, h.waits, h.byPerson = true, v1alpha1.ImpactDrain, false
			seen.hosts[i].removes, seen.hosts[i].waits, seen.hosts[i].byPerson = true, v1alpha1.ImpactDrain, false
		}
	}
	d := decide(seen)
	for key, why := range d.waits {
		if h := byKey[key]; h.waitsWith != "" && why.kind.lasts() {
			s.giveUp(h)
		}
	}
	for key := range d.givesWayTo {
		s.giveUp(byKey[key])
	}
	for _, key := range d.ask {
		byKey[key].impact = s.costs[key]
	}
	for _, g := range append(d.start, d.admit...) {
		h := byKey[g.key]
		s.allowed(h, g)
		s.ends[g.key] = s.state.now.Add(10 * time.Minute)
		if h.removes {
			h.waits, h.busy, h.holds = "", true, takes[g.impact]
			continue
		}
		if g.cause != "" {
			h.holds, h.repairs = takes[g.impact], true
			h.prepares, h.waits, h.waitsWith = g.cause == v1alpha1.CauseWindowsUpdates && h.holds == slotNone, "", ""
			continue
		}
		h.update, h.waits, h.impact = false, "", ""
		h.holds = takes[g.impact]
	}
	held, restarting := 0, 0
	for _, h := range s.state.hosts {
		switch h.holds {
		case slotDisruption:
			held++
		case slotServiceRestart:
			restarting++
		}
	}
	if held > s.state.disruptions || restarting > max(maxServiceRestarts, s.state.disruptions) {
		s.t.Fatalf("%d are out of service, allowed are %d; on %d services are restarted", held, s.state.disruptions, restarting)
	}
	return d
}

// away says whether a host counts as out of service, by what has happened to it and what is documented of maxUnavailable.
func (s *simulated) away(h *host) bool { return s.takesNoPods(h) || h.node && h.broken != nil }

func (s *simulated) takesNoPods(h *host) bool {
	_, runs := s.ends[h.key]
	return h.lost || h.node && (s.down.Has(h.key) || h.cordoned || runs && (h.removes || h.holds == slotDisruption))
}

// serves says whether a host is away only because somebody has cordoned its Node, so that its pods go on.
func (s *simulated) serves(h *host) bool {
	_, runs := s.ends[h.key]
	return h.node && h.cordoned && !h.drained && !s.down.Has(h.key) && h.broken == nil && !(runs && (h.removes || h.holds == slotDisruption))
}

// allowed fails the test if a host must not be disturbed. Those that were granted before it count.
func (s *simulated) allowed(h *host, g grant) {
	pool := s.pools[h.pool]
	u, b := &pool.Spec.UpdateStrategy, boundsOf(pool, s.sizes[h.pool])
	if _, runs := s.ends[h.key]; runs || g.cause != "" && g.cause != h.restart && h.remedy.action == "" && !h.uncordon {
		s.t.Fatalf("%s gets %+v, which nobody asked for, or while something else runs: %+v", h.key, g, h)
	}
	if h.removes && h.confirmed != (g.impact == v1alpha1.ImpactNone) {
		s.t.Fatalf("%s is removed as %+v, confirmed: %v", h.key, g, h.confirmed)
	}
	// Hosts that somebody has only cordoned wait for others that are away, and not for each other.
	away, serves, beside := s.away(h), s.serves(h), 0
	unavailable, broken, updated, unready, lack, preparing, inNamespace := 0, 0, 0, 0, 0, 0, 0
	for i := range s.state.hosts {
		o := &s.state.hosts[i]
		if o.prepares && o.pool.namespace == h.pool.namespace {
			inNamespace++
		}
		if o.prepares && o.pool == h.pool {
			preparing++
		}
		if o.pool != h.pool {
			continue
		}
		if s.away(o) {
			unavailable++
			beside += number(o != h && s.takesNoPods(o) && !s.serves(o))
		}
		if o.broken != nil && (!h.undoes || !o.keepsRevision) { // those that cannot go back with it are what it is undone for
			broken++
		}
		// What a host gets of its own, as a rollback keeps it from the rest, those have not tried that had theirs before.
		if has := o.updated && (!h.heldBack || !o.got.Before(h.since)); has || o.holds != slotNone && !o.repairs && !o.removes {
			updated++
		}
		if o.node && !o.ready {
			unready++
		}
		if o.lacksUpdates {
			lack++
		}
	}
	if serves && !h.confirmed && !h.byPerson && takes[g.impact] == slotDisruption && g.cause != v1alpha1.CauseNodeNotReady && beside >= b.maxUnavailable {
		s.t.Fatalf("%s is only cordoned, and is drained though %d others are out of service", h.key, beside)
	}
	if h.removes {
		if !h.confirmed && !away && unavailable >= b.maxUnavailable {
			s.t.Fatalf("%s is removed though %d are out of service", h.key, unavailable)
		}
		return
	}
	switch g.cause {
	case v1alpha1.CauseCameBack:
		if !h.uncordon || h.uncordonDue.After(s.state.now) {
			s.t.Fatalf("%s is uncordoned, which nothing of ours has cordoned", h.key)
		}
		return
	case v1alpha1.CauseNodeNotReady:
		if unready > b.maxUnhealthy {
			s.t.Fatalf("%s is repaired while %d are not ready", h.key, unready)
		}
		return
	case "":
	case v1alpha1.CauseWindowsUpdates:
		if g.install != h.install || lack > b.maxFailures && !h.lacksUpdates {
			s.t.Fatalf("%s gets %+v while updates have failed on %d", h.key, g, lack)
		}
		if h.broken != nil && broken > b.maxFailures {
			s.t.Fatalf("%s is broken, and gets updates", h.key)
		}
		switch {
		case (g.impact == v1alpha1.ImpactNone) == h.prepares:
			s.t.Fatalf("%s gets %+v, and prepares for updates: %v", h.key, g, h.prepares)
		case !h.prepares && (inNamespace >= s.state.disruptions || preparing > 0 && preparing+unavailable >= b.maxUnavailable):
			s.t.Fatalf("%s prepares for updates, as %d of its pool and %d of its namespace do", h.key, preparing, inNamespace)
		}
	default:
		if h.broken != nil && broken > b.maxFailures {
			s.t.Fatalf("%s is broken, and restarted", h.key)
		}
	}
	// A Node that went down a moment ago may be back by itself.
	corrects := h.rollsBack || h.broken != nil && (h.downSince.IsZero() || s.state.now.Sub(h.downSince) >= comesBack)
	if h.heldBack && !h.hasOwn && !corrects && !h.byPerson && !h.half && g.cause == "" && takes[g.impact] != slotNone {
		s.t.Fatalf("%s is updated, and a rollback keeps it from that", h.key)
	}
	if h.byPerson || h.half || corrects && g.cause == "" {
		if takes[g.impact] == slotDisruption && !h.byPerson && !away && unavailable >= b.maxUnavailable {
			s.t.Fatalf("%s is broken and takes the pool beyond its %d", h.key, b.maxUnavailable)
		}
		return
	}
	if harmless := takes[g.impact] == slotNone && g.cause == ""; !harmless && broken > b.maxFailures { // a renewed authority must reach those that work
		s.t.Fatalf("%s is updated while %d are broken", h.key, broken)
	}
	if takes[g.impact] == slotNone && g.cause != v1alpha1.CauseWindowsUpdates {
		return
	}
	if u.Type == v1alpha1.OnRequest && g.cause == "" && h.restart == "" && !h.undoes {
		s.t.Fatalf("%s is updated though nobody asked", h.key)
	}
	if u.Window != nil {
		if open, _ := windowAt(u.Window, s.state.now); !open {
			s.t.Fatalf("%s is updated at %s, outside of the window", h.key, s.state.now)
		}
	}
	if b.canary >= 0 && g.cause == "" && updated >= b.canary && !h.undoes {
		s.t.Fatalf("%s is updated beyond the %d canaries", h.key, b.canary)
	}
	if takes[g.impact] == slotDisruption && !away && unavailable >= b.maxUnavailable {
		s.t.Fatalf("%s is updated though %d are out of service", h.key, unavailable)
	}
}

// downIn says whether the Node of a host of a pool is not ready.
func (s *simulated) downIn(pool poolKey) bool {
	return slices.ContainsFunc(s.state.hosts, func(h host) bool { return h.pool == pool && s.down.Has(h.key) })
}

// settle lets time go by until nothing more happens. Whoever is not updated then waits for something that is true.
func (s *simulated) settle() {
	s.well = true
	for i := range s.state.hosts {
		s.state.hosts[i].cordoned = s.state.hosts[i].uncordon // people uncordon what they have cordoned
		s.state.hosts[i].drained = s.state.hosts[i].cordoned
		if h := &s.state.hosts[i]; h.lost {
			h.lost, h.node = false, true
		}
	}
	for range 40 * len(s.state.hosts) {
		s.pass()
		s.state.now = s.state.now.Add(30 * time.Minute)
		s.finish()
	}
	d := s.pass()
	for _, h := range s.state.hosts {
		why, waits := d.waits[h.key]
		switch {
		case h.leaving && !h.node: // it is gone, or nothing has to be waited for
			continue
		case !h.leaving && h.updated || h.holds != slotNone:
			continue
		case !waits:
			if _, runs := s.ends[h.key]; runs {
				continue
			}
			s.t.Fatalf("%s is not updated, or not removed, and nothing says why: %+v", h.key, h)
		}
		u, down := &s.pools[h.pool].Spec.UpdateStrategy, s.downIn(h.pool)
		ok := false
		switch why.kind {
		case waitsForRequest:
			ok = u.Type == v1alpha1.OnRequest
		case waitsForCanary:
			ok = u.RollingUpdate.Canary != nil
		case waitsForWindow:
			ok = u.Window != nil
		case waitsForResume:
			ok = h.heldBack
		case waitsForPrograms:
			ok = h.keepsRevision
		case waitsForHealth: // of the pool, or of the cluster
			ok = s.down.Len() > 0
		case waitsForBroken: // by a restart; everything else is tried again
			ok = down
		case waitsForPool, waitsForFirst, waitsForDownload:
			ok = down
		}
		if !ok {
			s.t.Fatalf("%s waits in vain: %s", h.key, why.describe(h.pool))
		}
	}
}
