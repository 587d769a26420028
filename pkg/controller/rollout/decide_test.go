// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package rollout

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/blockedby"
)

var testNow = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// outdated is a host of pool ns/p that works, and whose update costs so much.
func outdated(name string, impact v1alpha1.ChangeImpact, edit ...func(*host)) host {
	h := host{
		key: types.NamespacedName{Namespace: "ns", Name: name}, pool: poolKey{"ns", "p"},
		node: true, ready: true, update: true, since: testNow.Add(-time.Hour), impact: impact,
	}
	for _, e := range edit {
		e(&h)
	}
	return h
}

func in(namespace, pool string) func(*host) {
	return func(h *host) { h.key.Namespace, h.pool = namespace, poolKey{namespace, pool} }
}

func changing(s slot) func(*host) {
	return func(h *host) { h.update, h.holds = false, s }
}

func isDown(h *host)   { h.ready = false }
func isPaused(h *host) { h.paused = true }
func isSwitchedOff(h *host) {
	h.paused, h.ready, h.downSince = true, false, testNow.Add(-sameTrouble-time.Second)
}
func isUpToDate(h *host) { h.update, h.updated = false, true }
func breaks(h *host) {
	h.broken = &v1alpha1.Operation{ID: "op-1", Phase: v1alpha1.OperationFailed}
}

// wentDown has the Node of a host be not ready for so long, after a restart that the controller recorded.
func wentDown(ago time.Duration) func(*host) {
	return func(h *host) {
		h.broken, h.ready, h.downSince = &v1alpha1.Operation{ID: "op-3", Type: v1alpha1.OperationReboot}, false, testNow.Add(-ago)
	}
}

// interrupted has the Node of a host be cordoned since a configuration that was not completed.
func interrupted(h *host) { h.cordoned, h.drained, h.interrupted = true, true, true }

// cordonedByHand has somebody cordon the Node of a host, and nobody drain it.
func cordonedByHand(h *host) { h.cordoned = true }

// drainedByHand has somebody drain it with an operation.
func drainedByHand(h *host) { h.cordoned, h.drained = true, true }

// operationWaits has the operation of a host wait, and not its update.
func operationWaits(h *host) { h.update, h.waits, h.impact = false, h.impact, "" }

func asked(h *host) { h.byPerson = true }

// strategy is the policy of ns/p as somebody writes it.
func strategy(edit func(*v1alpha1.PoolUpdateStrategy)) *v1alpha1.WindowsNodePool {
	pool := &v1alpha1.WindowsNodePool{}
	edit(&pool.Spec.UpdateStrategy)
	return pool
}

// ofMachines makes a pool that of a MachineSet.
func ofMachines(pool *v1alpha1.WindowsNodePool) *v1alpha1.WindowsNodePool {
	pool.Spec.Source = v1alpha1.PoolSource{MachineSet: &v1alpha1.SourceReference{Name: "p"}}
	return pool
}

func TestDecide(t *testing.T) {
	const (
		none    = v1alpha1.ImpactNone
		restart = v1alpha1.ImpactRestart
		drains  = v1alpha1.ImpactDrain
	)
	two := strategy(func(s *v1alpha1.PoolUpdateStrategy) { s.RollingUpdate.MaxUnavailable = new(intstr.FromInt32(2)) })
	onRequest := strategy(func(s *v1alpha1.PoolUpdateStrategy) { s.Type = v1alpha1.OnRequest })
	window := func(schedule string) *v1alpha1.WindowsNodePool {
		return strategy(func(s *v1alpha1.PoolUpdateStrategy) {
			s.Window = &v1alpha1.MaintenanceWindow{Schedule: schedule, DurationSeconds: 3600}
		})
	}
	canary := strategy(func(s *v1alpha1.PoolUpdateStrategy) { s.RollingUpdate.Canary = new(intstr.FromString("50%")) })
	openRemediation := remediation("40%")
	openRemediation.Spec.UpdateStrategy.Window = nil
	removedLately := &v1alpha1.WindowsNodePool{Status: v1alpha1.WindowsNodePoolStatus{RecentRemovals: []v1alpha1.PoolRemoval{{Name: "gone", Time: metav1.NewTime(testNow)}}}}
	proven := func(at time.Duration) func(*host) {
		return func(h *host) { h.update, h.updated, h.proves = false, true, testNow.Add(at) }
	}
	for _, tt := range []struct {
		name  string
		pool  *v1alpha1.WindowsNodePool
		most  int // 0: 1
		hosts []host
		// served is what passes before remember.
		served map[poolKey]servedUntil
		// ask, start and admit are names, and waits is what some of the others wait for.
		ask, start, admit string
		waits             map[string]string
		// impact is the one of the first of start. Empty: any.
		impact v1alpha1.ChangeImpact
		again  time.Duration
	}{
		{name: "the first one is asked what it costs", hosts: []host{outdated("b", ""), outdated("a", "")}, ask: "a b", waits: map[string]string{"a": "is asked what its update costs"}},
		{name: "it does not say", hosts: []host{outdated("a", "", func(h *host) { h.unknown, h.askAgain = "it is off.", testNow.Add(time.Minute) })}, waits: map[string]string{"a": "it is off."}, again: time.Minute},
		{name: "a host that said nothing is asked after the others", hosts: []host{outdated("a", "", func(h *host) { h.askAgain = testNow.Add(-time.Second) }), outdated("b", "")}, ask: "b a"},
		{name: "however many of one namespace there are", hosts: append(many(maxAsked+1, ""), outdated("z", "", in("other", "p"))), ask: "h00 h01 h02 h03 h04 h05 h06 h07 h08 h09 h10 h11 h12 h13 h14 h15 z"},
		{name: "it is not due", hosts: []host{outdated("a", drains, func(h *host) { h.due = testNow.Add(time.Hour) })}, again: time.Hour},
		{name: "it is going", hosts: []host{outdated("a", drains, func(h *host) { h.leaving = true })}},

		{name: "what costs nothing goes to all", hosts: []host{outdated("a", none), outdated("b", none), outdated("c", none, isDown)}, start: "a b c"},
		{name: "also on request, outside of the window", pool: onRequest, hosts: []host{outdated("a", none)}, start: "a"},
		{name: "also while an update has broken a host", hosts: []host{outdated("a", none), outdated("b", "", isUpToDate, breaks)}, start: "a"},
		{name: "a few may fail with it", hosts: []host{outdated("a", none), outdated("b", none, fails), outdated("c", none, fails), outdated("d", none, fails)}, start: "a b c d"},
		{name: "many may not", hosts: []host{outdated("a", none), outdated("b", "", isUpToDate, fails), outdated("c", "", isUpToDate, fails), outdated("d", "", isUpToDate, fails), outdated("e", "", isUpToDate, fails)}, waits: map[string]string{"a": "failed on more than 3 hosts of pool p: b, c, d, e."}},

		{name: "but those are tried again", hosts: []host{outdated("a", none, fails), outdated("b", none, fails), outdated("c", none, fails), outdated("d", none, fails), outdated("e", none)}, start: "a b c d", waits: map[string]string{"e": "failed on more than 3 hosts"}},
		{name: "one is drained at a time", hosts: []host{outdated("b", drains), outdated("a", drains)}, start: "a", waits: map[string]string{"b": "a of pool p is out of service (it is being changed); at most 1 may be at a time"}},
		{name: "the oldest first", hosts: []host{outdated("a", drains, func(h *host) { h.created = testNow }), outdated("b", drains)}, start: "b"},
		{name: "the flag bounds all pools", pool: two, hosts: []host{outdated("a", drains), outdated("b", drains)}, start: "a", waits: map[string]string{"b": "another host is being changed: a; at most 1 of all pools"}},
		{name: "the pool bounds itself", pool: two, most: 5, hosts: []host{outdated("a", drains), outdated("b", drains), outdated("c", drains)}, start: "a b", waits: map[string]string{"c": "2 hosts of pool p are out of service (a, b); at most 2"}},
		{name: "a Node that is not ready counts", hosts: []host{outdated("a", drains), outdated("b", "", isUpToDate, isDown)}, waits: map[string]string{"a": "b of pool p is out of service (its Node is not ready)"}},
		{name: "and is itself updated", hosts: []host{outdated("a", drains), outdated("b", drains, isDown)}, start: "b"},
		{name: "a Node that is cordoned counts", hosts: []host{outdated("a", drains), outdated("b", "", isUpToDate, func(h *host) { h.cordoned = true })}, waits: map[string]string{"a": "b of pool p is out of service (its Node is cordoned)"}},
		{name: "and is itself updated when it is cordoned", hosts: []host{outdated("a", drains), outdated("b", drains, func(h *host) { h.cordoned = true })}, start: "b"},
		{name: "but not beside one that is down", hosts: []host{outdated("a", drains, cordonedByHand), outdated("b", "", isUpToDate, isDown)}, waits: map[string]string{"a": "b of pool p is out of service (its Node is not ready)"}},
		{name: "unless it is down itself", hosts: []host{outdated("a", drains, cordonedByHand, isDown), outdated("b", "", isUpToDate, isDown)}, start: "a"},
		{name: "or broken", hosts: []host{outdated("a", drains, cordonedByHand, breaks), outdated("b", "", isUpToDate, isDown)}, start: "a"},
		{name: "or drained", hosts: []host{outdated("a", drains, drainedByHand), outdated("b", "", isUpToDate, isDown)}, start: "a"},
		{name: "those that are cordoned serve pods, and are drained one after the other", most: 5, hosts: []host{outdated("a", drains, cordonedByHand), outdated("b", drains, cordonedByHand), outdated("c", drains, cordonedByHand), outdated("d", drains)}, start: "a", waits: map[string]string{
			"b": "a of pool p is out of service (it is being changed); at most 1", "c": "a of pool p is out of service (it is being changed); at most 1", "d": "3 hosts of pool p are out of service (a, b, c); at most 1",
		}},
		{name: "also when they are removed", most: 5, hosts: []host{toRemove("a", cordonedByHand), toRemove("b", cordonedByHand)}, admit: "a", waits: map[string]string{"b": "a of pool p is out of service (it is being removed)"}},
		{name: "those that we have left cordoned are not held up", most: 5, hosts: []host{outdated("a", drains, interrupted), outdated("b", drains, interrupted)}, start: "a b"},
		{name: "a host whose Node is gone counts", hosts: []host{outdated("a", drains), outdated("b", "", isUpToDate, func(h *host) { h.node, h.lost = false, true })}, waits: map[string]string{"a": "b of pool p is out of service (its Node is gone)"}},
		{name: "one thing at a time", hosts: []host{outdated("a", none, func(h *host) { h.cordoned, h.uncordon = true, true })}, start: "a"},
		{name: "a broken host that somebody has uncordoned waits for those that are away", hosts: []host{outdated("a", drains, breaks), outdated("b", "", isUpToDate, isDown)}, waits: map[string]string{"a": "b of pool p is out of service (its Node is not ready)"}},
		{name: "and not for others like it", hosts: []host{outdated("a", drains, breaks), outdated("b", drains, breaks)}, start: "a", waits: map[string]string{"b": "a of pool p is out of service"}},
		{name: "nor does one that is cordoned wait", hosts: []host{outdated("a", drains, breaks, func(h *host) { h.cordoned = true }), outdated("b", "", isUpToDate, isDown)}, start: "a"},
		{name: "a host that is no Node does not count", hosts: []host{outdated("a", drains), outdated("b", "", isUpToDate, isDown, func(h *host) { h.node = false })}, start: "a"},
		{name: "what others do counts", hosts: []host{outdated("a", drains), outdated("b", "", isUpToDate, func(h *host) { h.busy = true })}, waits: map[string]string{"a": "b of pool p is out of service (it is being drained or restarted)"}},
		{name: "another pool is another bound", most: 2, hosts: []host{outdated("a", drains), outdated("b", drains, in("ns", "q"))}, start: "a b"},
		{name: "namespaces take turns", hosts: []host{outdated("a", drains, func(h *host) { h.lastServed[slotDisruption] = testNow }), outdated("z", drains, in("other", "p"))}, start: "z"},
		{name: "what people ask for takes turns as well", hosts: []host{outdated("a", drains, operationWaits, asked, func(h *host) { h.lastServed[slotDisruption] = testNow }), outdated("z", drains, in("other", "p"))}, start: "z"},
		{name: "and what is broken", hosts: []host{outdated("a", drains, breaks, func(h *host) { h.lastServed[slotDisruption] = testNow }), outdated("z", drains, in("other", "p"))}, start: "z"},
		{name: "and what got an operation and costs more", hosts: []host{outdated("a", drains, operationWaits, func(h *host) { h.lastServed[slotDisruption] = testNow }), outdated("z", drains, in("other", "p"))}, start: "z"},
		{name: "pools of a namespace take turns", hosts: []host{outdated("a", drains, hadTurn), outdated("b", drains, in("ns", "q"))}, start: "b", waits: map[string]string{"a": "another host is being changed: b"}},
		{name: "as the passes before remember them", served: map[poolKey]servedUntil{{"ns", "gone"}: {slotDisruption: testNow.Add(-time.Hour)}}, hosts: []host{outdated("a", drains), outdated("z", drains, in("other", "p"))}, start: "z"},
		{name: "also those of a namespace", served: map[poolKey]servedUntil{{"ns", "p"}: {slotDisruption: testNow.Add(-time.Hour)}}, hosts: []host{outdated("a", drains), outdated("b", drains, in("ns", "q"))}, start: "b"},
		{name: "those for restarts of services are others", served: map[poolKey]servedUntil{{"ns", "p"}: {slotServiceRestart: testNow.Add(-time.Hour)}}, hosts: []host{outdated("a", drains), outdated("z", drains, in("other", "p"))}, start: "a"},
		{name: "services are restarted in turns as well", hosts: append(append([]host{outdated("a", "", proven(-time.Minute))}, many(12, restart)...), outdated("z", restart, in("other", "p"))), start: "h00 h01 h02 h03 h04 h05 h06 h07 h08 z", waits: map[string]string{"h09": "10 other hosts are being changed"}},
		{name: "the one with fewer slots first", pool: two, most: 2, hosts: []host{outdated("a", drains), outdated("b", "", changing(slotDisruption)), outdated("c", drains, in("ns", "q"))}, start: "c"},
		{name: "many pools give a namespace no more", most: 2, hosts: []host{outdated("a", "", changing(slotDisruption)), outdated("b", drains, in("ns", "q")), outdated("z", drains, in("other", "p"))}, start: "z"},
		{name: "nor does a pool that had no turn yet", hosts: []host{outdated("a", "", isUpToDate, hadTurn), outdated("b", drains, in("ns", "q")), outdated("z", drains, in("other", "p"))}, start: "z"},
		{name: "what people ask for does not wait for the turn of its pool", hosts: []host{outdated("a", drains, operationWaits, asked, hadTurn), outdated("b", drains, in("ns", "q"))}, admit: "a"},
		{name: "nor does a repair", pool: remediation("40%"), hosts: []host{sick("a", v1alpha1.RemediateRestart, hadTurn), outdated("b", drains, in("ns", "q"))}, start: "a"},
		{name: "unless it has failed", pool: remediation("40%"), hosts: []host{sick("a", v1alpha1.RemediateRestart, hadTurn, func(h *host) { h.remedy.neverBegan = true }), outdated("b", drains, in("ns", "q"))}, start: "b"},
		{name: "whatever else has failed on the host", pool: remediation("40%"), hosts: []host{sick("a", v1alpha1.RemediateRestart, hadTurn, missed), outdated("b", drains, in("ns", "q"))}, start: "a"},
		{name: "a host that failed in its turn comes after others of its pool", hosts: []host{outdated("a", drains, missed), outdated("b", drains)}, start: "b"},
		{name: "and is tried again after those that failed before it", hosts: []host{outdated("a", drains, func(h *host) { h.lastFailed = testNow }), outdated("b", drains, missed)}, start: "b"},
		{name: "unless it is broken", hosts: []host{outdated("a", drains, missed, breaks), outdated("b", drains)}, start: "a"},
		{name: "what has begun is completed", hosts: []host{outdated("a", drains, operationWaits, func(h *host) { h.begun, h.lastServed[slotDisruption] = true, testNow }), outdated("z", drains, in("other", "p"))}, admit: "a"},
		{name: "what was changed half, and has to be drained, waits for its pool", pool: two, most: 5, hosts: []host{outdated("a", drains, operationWaits, isHalf), outdated("b", drains, operationWaits, isHalf), outdated("c", drains, operationWaits, isHalf)}, admit: "a b", waits: map[string]string{"c": "2 hosts of pool p are out of service (a, b); at most 2"}},
		{name: "and for all pools", hosts: []host{outdated("a", drains, operationWaits, isHalf), outdated("z", drains, in("other", "p"), changing(slotDisruption))}, waits: map[string]string{"a": "--max-disruptive-operations"}},
		{name: "and for no policy", pool: onRequest, hosts: []host{outdated("a", drains, operationWaits, isHalf)}, admit: "a"},
		{name: "nor for a window", pool: window("0 14 * * *"), hosts: []host{outdated("a", drains, operationWaits, isHalf)}, admit: "a"},
		{name: "nor because others are broken", pool: two, hosts: []host{outdated("a", drains, operationWaits, isHalf), outdated("b", "", isUpToDate, breaks)}, admit: "a"},
		{name: "names of other namespaces are nobody's business", hosts: []host{outdated("a", drains, in("other", "p"), changing(slotDisruption)), outdated("b", drains)}, waits: map[string]string{"b": "another host is being changed, in another namespace"}},

		{name: "a host that is to be removed counts when that begins", hosts: []host{outdated("a", drains), outdated("b", "", isUpToDate, func(h *host) { h.leaving = true })}, start: "a"},
		{name: "a removal takes a slot", hosts: []host{outdated("a", drains), toRemove("b")}, admit: "b", waits: map[string]string{"a": "b of pool p is out of service (it is being removed); at most 1"}},
		{name: "also of the cluster", hosts: []host{outdated("a", drains, in("ns", "q")), toRemove("b")}, admit: "b", waits: map[string]string{"a": "another host is being changed or removed: b; at most 1 of all pools"}},
		{name: "and waits for one of its pool", hosts: []host{outdated("a", drains, changing(slotDisruption)), toRemove("b")}, waits: map[string]string{"b": "Waits for a slot to be removed: a of pool p is out of service (it is being changed); at most 1"}},
		{name: "and of the cluster", hosts: []host{outdated("a", drains, in("other", "q"), changing(slotDisruption)), toRemove("b")}, waits: map[string]string{"b": "--max-disruptive-operations"}},
		{name: "hosts are removed one after the other", hosts: []host{toRemove("b"), toRemove("a")}, admit: "a", waits: map[string]string{"b": "a of pool p is out of service (it is being removed)"}},
		{name: "of two that wait none has a slot", hosts: []host{toRemove("a"), toRemove("b"), outdated("c", "", isUpToDate, isDown)}, waits: map[string]string{"a": "c of pool p is out of service", "b": "c of pool p is out of service"}},
		{name: "what is out of service waits for the cluster only", hosts: []host{toRemove("a", isDown)}, admit: "a"},
		{name: "nor does one wait for its pool whose Node is gone", hosts: []host{outdated("a", "", isUpToDate, isDown), toRemove("b", func(h *host) { h.node = false })}, admit: "b"},
		{name: "neither policy nor failures keep it", pool: onRequest, hosts: []host{toRemove("a"), outdated("b", restart)}, admit: "a", waits: map[string]string{"b": "when somebody asks"}},
		{name: "nor does a window", pool: window("0 14 * * *"), hosts: []host{toRemove("a")}, admit: "a"},
		{name: "who confirms a removal waits for nobody", hosts: []host{outdated("a", drains, changing(slotDisruption)), toRemove("b", isConfirmed), toRemove("c", isConfirmed)}, admit: "b c"},
		{name: "and has others wait", pool: two, most: 2, hosts: []host{outdated("a", drains), toRemove("b", isConfirmed), toRemove("c", isConfirmed)}, admit: "b c", waits: map[string]string{"a": "2 hosts of pool p are out of service (b, c)"}},
		{name: "but not other pools", hosts: []host{outdated("a", drains, in("ns", "q")), toRemove("b", isConfirmed)}, admit: "b", start: "a"},
		{name: "what was canceled half way goes on outside of the window", pool: window("0 4 * * *"), hosts: []host{outdated("a", drains, operationWaits, interrupted)}, admit: "a"},
		{name: "and without a request", pool: onRequest, hosts: []host{outdated("a", drains, interrupted)}, start: "a"},
		{name: "but is not restarted for something else", pool: window("0 4 * * *"), hosts: []host{toRestart("a", interrupted)}, waits: map[string]string{"a": "The window of pool p opens at"}, again: 16 * time.Hour},
		{name: "a namespace that removes many takes turns", pool: removedLately, hosts: []host{toRemove("a"), outdated("z", drains, in("other", "p"))}, start: "z", waits: map[string]string{"a": "in another namespace"}},

		{name: "a broken host is next", hosts: []host{outdated("a", drains), outdated("b", drains, breaks)}, start: "b", waits: map[string]string{"a": "No further host of pool p is updated or restarted while more than 0 are broken"}},
		{name: "what waits goes before what has not begun", hosts: []host{outdated("a", drains), outdated("b", drains, operationWaits)}, admit: "b"},
		{name: "what a person asked for goes first", pool: onRequest, hosts: []host{outdated("a", drains), outdated("b", drains, operationWaits, asked), outdated("c", "", isUpToDate, breaks)}, admit: "b"},
		{name: "and does not wait for its pool", hosts: []host{outdated("a", drains, operationWaits, asked), outdated("b", "", isUpToDate, isDown)}, admit: "a"},
		{name: "but for the cluster", hosts: []host{outdated("a", drains, operationWaits, asked), outdated("b", "", in("other", "p"), changing(slotDisruption))}, waits: map[string]string{"a": "--max-disruptive-operations"}},
		{name: "an earlier release let it", hosts: []host{outdated("a", drains, operationWaits, func(h *host) { h.holds = slotDisruption }), outdated("b", "", isUpToDate, breaks)}, admit: "a"},

		{name: "services are restarted on one host first", hosts: []host{outdated("a", restart), outdated("b", restart)}, start: "a", waits: map[string]string{"b": "one host of pool p is updated first: a."}},
		{name: "and on the others when it works", hosts: []host{outdated("a", "", proven(-time.Minute)), outdated("b", restart), outdated("c", restart)}, start: "b c"},
		{name: "what it did before proves nothing", hosts: []host{outdated("a", "", proven(-2*time.Hour)), outdated("b", restart), outdated("c", restart)}, start: "b"},
		{name: "on ten at a time", hosts: append([]host{outdated("a", "", proven(-time.Minute))}, many(12, restart)...), start: "h00 h01 h02 h03 h04 h05 h06 h07 h08 h09", waits: map[string]string{"h11": "10 other hosts are being changed: h00, h01, h02, h03, h04 and 5 more; services are restarted on at most 10 hosts of all pools at a time (10, or --max-disruptive-operations if that is more)"}},
		{name: "on more if as many may be drained", most: 12, hosts: append([]host{outdated("a", "", proven(-time.Minute))}, many(13, restart)...), start: "h00 h01 h02 h03 h04 h05 h06 h07 h08 h09 h10 h11", waits: map[string]string{"h12": "12 other hosts are being changed: h00, h01, h02, h03, h04 and 7 more; services are restarted on at most 12 hosts of all pools at a time (10, or"}},
		{name: "one that could not be drained keeps no others of its pool from that", pool: two, hosts: []host{outdated("a", drains, missed), outdated("b", restart)}, start: "a b"},
		{name: "each pool has a first one", hosts: []host{outdated("a", restart), outdated("b", restart, in("ns", "q"))}, start: "a b"},

		{name: "only on request", pool: onRequest, hosts: []host{outdated("a", restart), outdated("b", drains)}, waits: map[string]string{"a": "kubectl windows reconfigure NAME -n ns", "b": "Pool p is updated when somebody asks"}},
		{name: "the window is closed", pool: window("0 14 * * *"), hosts: []host{outdated("a", restart)}, waits: map[string]string{"a": "The window of pool p opens at 2026-11-21T14:00:00Z."}, again: 2 * time.Hour},
		{name: "the window is open", pool: window("30 11 * * *"), hosts: []host{outdated("a", drains), outdated("b", drains)}, start: "a", again: 30 * time.Minute},
		{name: "a broken host does not wait for the window", pool: window("0 14 * * *"), hosts: []host{outdated("a", drains, breaks)}, start: "a"},
		{name: "one whose Node went down a moment ago after a restart may be back by itself", pool: window("0 14 * * *"), hosts: []host{outdated("a", drains, wentDown(time.Second))}, waits: map[string]string{"a": "Operation op-3 restarted host a and its Node is not ready any more."}, again: awayPatience - time.Second},
		{name: "nor is its update next", pool: strategy(func(s *v1alpha1.PoolUpdateStrategy) { s.RollingUpdate.MaxFailures = new(int32(1)) }), hosts: []host{outdated("a", restart), outdated("b", restart, wentDown(time.Second))}, start: "a", waits: map[string]string{"b": "one host of pool p is updated first: a."}, again: awayPatience - time.Second},
		{name: "one that stays down does not wait", pool: window("0 14 * * *"), hosts: []host{outdated("a", drains, wentDown(3*time.Minute))}, start: "a"},
		{name: "a window that cannot be read", pool: window("whenever"), hosts: []host{outdated("a", drains)}, waits: map[string]string{"a": "The window of pool p does not open: must have five fields"}},
		{name: "the canaries first", pool: canary, hosts: []host{outdated("a", restart, proven(-time.Minute)), outdated("b", restart), outdated("c", restart)}, start: "b", waits: map[string]string{"c": "2 hosts of pool p were updated first. To update the others, raise or remove"}},

		{name: "Windows is restarted on one after the other", hosts: []host{toRestart("a"), toRestart("b")}, start: "a", waits: map[string]string{"b": "a of pool p is out of service (it is being restarted)"}},
		{name: "within the bound of the cluster", hosts: []host{toRestart("a"), outdated("b", "", in("other", "p"), changing(slotDisruption))}, waits: map[string]string{"a": "--max-disruptive-operations"}},
		{name: "an update goes before a restart", hosts: []host{toRestart("a", func(h *host) { h.update, h.impact = true, drains })}, start: "a"},
		{name: "one thing at a time", hosts: []host{toRestart("a", func(h *host) { h.update, h.impact = true, none })}, start: "a"},
		{name: "a restart does not wait for an update that waits for somebody", pool: onRequest, hosts: []host{toRestart("a", func(h *host) { h.update, h.impact = true, drains })}, start: "a"},
		{name: "who asks for a restart of all asks for updates", pool: onRequest, hosts: []host{toRestart("a", func(h *host) {
			h.update, h.impact, h.restart = true, restart, v1alpha1.CauseRestartRequested
		})}, start: "a"},
		{name: "also one that restarts services", hosts: []host{toRestart("a", func(h *host) { h.update, h.impact = true, restart })}, start: "a", impact: restart},
		{name: "in the window", pool: window("0 14 * * *"), hosts: []host{toRestart("a")}, waits: map[string]string{"a": "opens at"}, again: 2 * time.Hour},
		{name: "not while one is broken", hosts: []host{toRestart("a"), outdated("b", "", isUpToDate, breaks)}, waits: map[string]string{"a": "Operation op-1 changed host b and failed."}},
		{name: "nor by a restart, itself included", hosts: []host{toRestart("a", isDown, func(h *host) { h.broken = &v1alpha1.Operation{ID: "op-3", Type: v1alpha1.OperationReboot} })}, waits: map[string]string{"a": "Operation op-3 restarted host a and its Node is not ready any more."}},
		{name: "a restart is not due", hosts: []host{toRestart("a", inAnHour)}, waits: map[string]string{"a": "Windows waits for a restart, and is restarted at 2026-11-21T13:00:00Z."}, again: time.Hour},
		{name: "one that somebody asked for is not", hosts: []host{toRestart("a", inAnHour, func(h *host) { h.restart = v1alpha1.CauseRestartRequested })}, waits: map[string]string{"a": "(spec.restarts.after), and Windows is restarted at 2026-11-21T13:00:00Z."}, again: time.Hour},
		{name: "nor one for updates that failed", hosts: []host{toRestart("a", inAnHour, func(h *host) { h.restart, h.lacksUpdates = v1alpha1.CauseWindowsUpdates, true })}, again: time.Hour},
		{name: "what an update waits for is said before", hosts: []host{outdated("a", drains), toRestart("b", inAnHour, func(h *host) { h.update, h.impact = true, drains })}, start: "a", waits: map[string]string{"b": "a of pool p is out of service"}, again: time.Hour},
		{name: "restarted hosts are no canaries", pool: canary, hosts: []host{toRestart("a"), toRestart("b"), toRestart("c")}, start: "a", waits: map[string]string{"b": "a of pool p is out of service", "c": "a of pool p is out of service"}},

		{name: "a host is repaired", pool: remediation("40%"), hosts: []host{sick("a", v1alpha1.RemediateRestartServices), outdated("b", "", isUpToDate), outdated("c", "", isUpToDate)}, start: "a"},
		{name: "before the update of the same host, which would drain it", pool: openRemediation, hosts: []host{sick("a", v1alpha1.RemediateRestartServices, func(h *host) { h.update, h.impact = true, drains }), outdated("b", "", isUpToDate), outdated("c", "", isUpToDate)}, start: "a", impact: restart},
		{name: "also with a restart, out of the window", pool: remediation("40%"), hosts: []host{sick("a", v1alpha1.RemediateRestart), outdated("b", "", isUpToDate), outdated("c", "", isUpToDate)}, start: "a"},
		{name: "it is too early", pool: remediation("40%"), hosts: []host{sick("a", v1alpha1.RemediateRestart, func(h *host) { h.remedy.due = testNow.Add(time.Minute) })}, again: time.Minute},
		{name: "too many are unwell", pool: remediation("40%"), hosts: []host{sick("a", v1alpha1.RemediateRestart), outdated("b", "", isUpToDate, isDown), outdated("c", "", isUpToDate)}, waits: map[string]string{"a": "2 of the pool are not; at most 1 may be"}},
		{name: "too many are unwell elsewhere", pool: remediation("40%"), hosts: []host{sick("a", v1alpha1.RemediateRestart), outdated("b", "", isUpToDate, isDown, in("other", "p")), outdated("c", "", isUpToDate, isDown, in("other", "p"))}, waits: map[string]string{"a": "3 of all 3 Windows Nodes are not; at most 1 may be"}},
		{name: "paused hosts that are off for long do not count", pool: remediation("40%"), hosts: []host{sick("a", v1alpha1.RemediateRestart), outdated("b", "", isUpToDate, isSwitchedOff, in("other", "p")), outdated("c", "", isUpToDate, isSwitchedOff, in("other", "p"))}, start: "a"},
		{name: "nor in the pool", pool: remediation("40%"), hosts: []host{sick("a", v1alpha1.RemediateRestart), outdated("b", "", isUpToDate, isSwitchedOff), outdated("c", "", isUpToDate)}, start: "a"},
		{name: "those that are not paused do", pool: remediation("40%"), hosts: []host{
			sick("a", v1alpha1.RemediateRestart), outdated("b", "", isUpToDate, isSwitchedOff, func(h *host) { h.paused = false }, in("other", "p")), outdated("c", "", isUpToDate, isSwitchedOff, in("other", "p")),
		}, waits: map[string]string{"a": "2 of 2 Windows Nodes are not, besides 1 of paused hosts that are off; at most 1 may be"}},
		{name: "and those that went down with others", pool: remediation("40%"), hosts: []host{
			sick("a", v1alpha1.RemediateRestart), outdated("b", "", isUpToDate, isSwitchedOff, func(h *host) { h.downSince = testNow.Add(-sameTrouble) }, in("other", "p")),
		}, waits: map[string]string{"a": "2 of all 2 Windows Nodes are not; at most 1 may be"}},
		{name: "paused hosts that work are among all", pool: remediation("40%"), hosts: []host{
			sick("a", v1alpha1.RemediateRestart), outdated("b", "", isUpToDate, isDown, in("other", "p")), outdated("c", "", isUpToDate, isPaused, in("other", "p")), outdated("d", "", isUpToDate, isPaused, in("other", "p")), outdated("e", "", isUpToDate, isPaused, in("other", "p")),
		}, start: "a"},
		{name: "as many as somebody says", pool: remediation("2"), hosts: []host{sick("a", v1alpha1.RemediateRestartServices), outdated("b", "", isUpToDate, isDown)}, start: "a"},
		{name: "a number bounds the cluster as well", pool: remediation("2"), hosts: []host{
			sick("a", v1alpha1.RemediateRestartServices), outdated("b", "", isUpToDate, isDown, in("other", "p")), outdated("c", "", isUpToDate, isDown, in("other", "p")), outdated("d", "", isUpToDate, in("other", "p")),
		}, waits: map[string]string{"a": "3 of all 4 Windows Nodes are not; at most 2 may be"}},
		{name: "by the percentage of the default", pool: remediation("1"), hosts: append(many(8, "", isUpToDate), sick("a", v1alpha1.RemediateRestartServices), outdated("b", "", isUpToDate, isDown, in("other", "p")), outdated("c", "", isUpToDate, isDown, in("other", "p"))), start: "a"},
		{name: "somebody has cordoned its Node", pool: remediation("40%"), hosts: []host{outdated("a", "", isUpToDate, isDown, func(h *host) { h.remedy = remedy{kept: true, due: testNow} })}, waits: map[string]string{"a": "because somebody has cordoned it and may be at work on the host"}},
		{name: "somebody has cordoned its Node, and it is too early", pool: remediation("40%"), hosts: []host{outdated("a", "", isUpToDate, isDown, func(h *host) { h.remedy = remedy{kept: true, due: testNow.Add(time.Minute)} })}, again: time.Minute},
		{name: "everything was tried", pool: remediation("40%"), hosts: []host{outdated("a", "", isUpToDate, isDown, func(h *host) { h.remedy.tried = true })}, waits: map[string]string{"a": "has tried everything. Find out why: kubectl windows describe"}},
		{name: "everything was tried on the host of a Machine", pool: ofMachines(remediation("40%")), hosts: []host{outdated("a", "", isUpToDate, isDown, func(h *host) { h.remedy.tried = true })}, waits: map[string]string{"a": "kubectl windows describe NAME -n ns. A MachineHealthCheck replaces it, if one selects its Machine. To have it replaced now: kubectl delete machines.machine.openshift.io NAME -n ns"}},
		{name: "a repair goes before updates", pool: remediation("40%"), hosts: []host{outdated("a", drains), outdated("b", drains), sick("c", v1alpha1.RemediateRestart)}, start: "c", waits: map[string]string{"a": "opens at"}, again: 2 * time.Hour},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := state{hosts: tt.hosts, pools: map[poolKey]policy{}, disruptions: max(1, tt.most), now: testNow, served: tt.served}
			if tt.pool != nil {
				s.pools[poolKey{"ns", "p"}] = policyOf(tt.pool, len(tt.hosts))
			}
			got := decide(s)
			var ask []string
			for _, key := range got.ask {
				ask = append(ask, key.Name)
			}
			if diff := cmp.Diff([]string{tt.ask, tt.start, tt.admit}, []string{strings.Join(ask, " "), names(got.start), names(got.admit)}); diff != "" {
				t.Errorf("asked, started, admitted (-want +got):\n%s", diff)
			}
			if tt.impact != "" && got.start[0].impact != tt.impact {
				t.Errorf("the impact is %s, want %s", got.start[0].impact, tt.impact)
			}
			for key, why := range got.waits {
				if want := tt.waits[key.Name]; !strings.Contains(why.describe(got.poolOf[key]), want) {
					t.Errorf("%s waits for %q, want %q", key.Name, why.describe(got.poolOf[key]), want)
				}
			}
			for name := range tt.waits {
				if !slices.ContainsFunc(tt.hosts, func(h host) bool { _, waits := got.waits[h.key]; return waits && h.key.Name == name }) {
					t.Errorf("%s does not wait", name)
				}
			}
			want := time.Time{}
			if tt.again > 0 {
				want = testNow.Add(tt.again)
			}
			if !got.again.Equal(want) {
				t.Errorf("it is decided again at %s, want %s", got.again, want)
			}
		})
	}
}

// toRemove is a host whose removal waits to begin.
func toRemove(name string, edit ...func(*host)) host {
	return outdated(name, "", append([]func(*host){isUpToDate, func(h *host) {
		h.leaving, h.removes, h.waits = true, true, v1alpha1.ImpactDrain
	}}, edit...)...)
}

func inAnHour(h *host) { h.restartDue = testNow.Add(time.Hour) }

// isHalf has the operation that waits have changed the host before.
func isHalf(h *host) { h.begun, h.half = true, true }

// hadTurn has a host be the one of its pool that was disturbed last, and missed has it have failed then.
func hadTurn(h *host) { h.lastServed[slotDisruption] = testNow }
func missed(h *host)  { h.lastFailed = testNow.Add(-time.Minute) }

func isConfirmed(h *host) { h.confirmed = true }

// toRestart is a host that is up to date, and on which Windows is to be restarted.
func toRestart(name string, edit ...func(*host)) host {
	return outdated(name, "", append([]func(*host){isUpToDate, func(h *host) { h.restart = v1alpha1.CauseRestartPending }}, edit...)...)
}

// sick is a host about which something is to be done.
func sick(name string, action v1alpha1.PoolRemediationAction, edit ...func(*host)) host {
	return outdated(name, "", append([]func(*host){isUpToDate, isDown, func(h *host) { h.remedy = remedy{action: action} }}, edit...)...)
}

// remediation has hosts of ns/p repaired while so many are unwell. Its window is closed.
func remediation(maxUnhealthy string) *v1alpha1.WindowsNodePool {
	pool := &v1alpha1.WindowsNodePool{}
	pool.Spec.UpdateStrategy.Window = &v1alpha1.MaintenanceWindow{Schedule: "0 14 * * *", DurationSeconds: 3600}
	pool.Spec.Remediation = &v1alpha1.PoolRemediation{MaxUnhealthy: new(intstr.Parse(maxUnhealthy))}
	return pool
}

func fails(h *host) { h.failed = &v1alpha1.Operation{ID: "op-2"} }

func many(n int, impact v1alpha1.ChangeImpact, edit ...func(*host)) (hosts []host) {
	for i := range n {
		hosts = append(hosts, outdated(fmt.Sprintf("h%02d", i), impact, edit...))
	}
	return hosts
}

func names(grants []grant) string {
	var out []string
	for _, g := range grants {
		out = append(out, g.key.Name)
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

// TestContested: a host whose slot others wait for knows it, if they are of other pools.
func TestContested(t *testing.T) {
	two := policyOf(strategy(func(s *v1alpha1.PoolUpdateStrategy) { s.RollingUpdate.MaxUnavailable = new(intstr.FromInt32(2)) }), 2)
	for pool, want := range map[poolKey]bool{{"ns", "p"}: false, {"ns", "q"}: true, {"other", "p"}: true} {
		got := decide(state{disruptions: 1, now: testNow, pools: map[poolKey]policy{{"ns", "p"}: two}, hosts: []host{
			outdated("a", "", changing(slotDisruption)), outdated("b", v1alpha1.ImpactDrain, in(pool.namespace, pool.name)),
		}})
		if got.contested.Has(types.NamespacedName{Namespace: "ns", Name: "a"}) != want || got.held != 1 || got.waiting != 1 {
			t.Errorf("one of %v waits: %v, %d held, %d waiting", pool, got.contested, got.held, got.waiting)
		}
	}
}

// TestHostsThatWaitAreNamed: with some dozens of hosts each can be found among those that wait for what most do. However many there are, and
// whatever their names, there is room for what to do.
func TestHostsThatWaitAreNamed(t *testing.T) {
	for _, tt := range []struct {
		name             string
		most, others     int
		length           int // of their names
		named, namedLess int
	}{
		{name: "a few", most: 4, others: 2, length: 5, named: 4, namedLess: 2},
		{name: "some dozens", most: 60, others: 8, length: 10, named: 60, namedLess: maxNamed},
		{name: "hundreds", most: 400, others: 300, length: 14, named: 64, namedLess: maxNamed},
		{name: "with names as long as may be", most: 40, others: 30, length: 253, named: maxNamed, namedLess: maxNamed},
	} {
		t.Run(tt.name, func(t *testing.T) {
			waits := map[types.NamespacedName]reason{}
			for n := range tt.most {
				waits[types.NamespacedName{Namespace: "ns", Name: fmt.Sprintf("a%0*d", tt.length-1, n)}] = reason{kind: waitsForRequest}
			}
			for n := range tt.others {
				waits[types.NamespacedName{Namespace: "ns", Name: fmt.Sprintf("b%0*d", tt.length-1, n)}] = reason{kind: waitsForRepair}
			}
			lines := strings.Split(describeWaits(poolKey{"ns", "p"}, waits), "\n")
			if len(lines) != 2 {
				t.Fatalf("got %q", lines)
			}
			for i, want := range []struct{ named, all int }{{tt.named, tt.most}, {tt.namedLess, tt.others}} {
				names, _, _ := strings.Cut(lines[i], ": ")
				if got := strings.Count(names, ", ") + 1; got != want.named || strings.HasSuffix(names, fmt.Sprintf(" and %d more", want.all-want.named)) != (want.all > want.named) {
					t.Errorf("%d are named, want %d: %s", got, want.named, names)
				}
			}
		})
	}
}

// TestDescribeWaits: hosts that wait for the same are named together, those that are most first.
func TestDescribeWaits(t *testing.T) {
	got := decide(state{disruptions: 1, now: testNow, hosts: append(many(8, v1alpha1.ImpactDrain), outdated("a", "")), pools: map[poolKey]policy{}})
	want := "h01, h02, h03, h04, h05, h06, h07: Waits for a slot: h00 of pool p is out of service (it is being changed); at most 1 may be at a time (spec.updateStrategy.rollingUpdate.maxUnavailable).\n" +
		"a: The host is asked what its update costs."
	if diff := cmp.Diff(want, describeWaits(poolKey{"ns", "p"}, got.waits)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestDescribeDrains: who waits for a host is told what its drain waits for, and not which pod it is at the moment, nor anything of hosts of other
// namespaces.
func TestDescribeDrains(t *testing.T) {
	t.Parallel()
	draining := func(name string, blocked ...v1alpha1.BlockedPod) *host {
		i := works()
		i.Namespace, i.Name, i.Spec.PoolRef = "ns", name, &v1alpha1.PoolReference{Name: "p"}
		i.Status.Operation = &v1alpha1.Operation{Type: v1alpha1.OperationReconfigure, Phase: v1alpha1.OperationRunning, Impact: v1alpha1.ImpactDrain, AdmittedImpact: v1alpha1.ImpactDrain, Node: &v1alpha1.OperationNode{Name: name}, BlockedBy: blocked}
		h := newHost(i)
		return &h
	}
	web, db := v1alpha1.BlockedPod{Namespace: "shop", Name: "web-7", Budget: "web"}, v1alpha1.BlockedPod{Namespace: "shop", Name: "db-1", Budget: "db"}
	for _, tt := range []struct {
		name  string
		kind  waitKind
		hosts []*host
		in    string
		want  string
	}{
		{"one", waitsForPool, []*host{draining("a", web)}, "ns", "a of pool p is out of service (it is being changed, and its drain waits for PodDisruptionBudget shop/web);"},
		{"several budgets", waitsForPool, []*host{draining("a", web, db, web)}, "ns", "(it is being changed, and its drain waits for PodDisruptionBudget shop/db);"},
		{"a webhook", waitsForPool, []*host{draining("a", v1alpha1.BlockedPod{Namespace: "shop", Name: "x", Message: `admission webhook "w" denied the request: not now`})}, "ns", "and its drain waits for an admission webhook);"},
		{"a busy API server", waitsForPool, []*host{draining("a", v1alpha1.BlockedPod{Namespace: "shop", Name: "x", Message: "too many requests"})}, "ns", "a of pool p is out of service (it is being changed);"},
		{"several hosts", waitsForPool, []*host{draining("c", web), draining("a"), draining("b", db)}, "ns", "3 hosts of pool p are out of service (a, b, c, and the drain of b waits for PodDisruptionBudget shop/db);"},
		{"the cluster", waitsForCluster, []*host{draining("a", web)}, "ns", "another host is being changed: a, and its drain waits for PodDisruptionBudget shop/web;"},
		{"another namespace", waitsForCluster, []*host{draining("a", web)}, "other", "another host is being changed, in another namespace;"},
		{"nothing", waitsForPool, []*host{draining("a")}, "ns", "a of pool p is out of service (it is being changed);"},
	} {
		got := reason{kind: tt.kind, most: 1, hosts: tt.hosts}.describe(poolKey{tt.in, "p"})
		if slot, ok := blockedby.ParseSlot(got); !strings.Contains(got, tt.want) || !ok || !strings.HasSuffix(tt.want, ";") || !strings.Contains(slot.InTheWay+";", tt.want) {
			t.Errorf("%s: got %q, want %q", tt.name, got, tt.want)
		}
	}
}

// TestWaitingIsCountedByHost: a host that waits with an update and a restart is one that waits for a slot.
func TestWaitingIsCountedByHost(t *testing.T) {
	t.Parallel()
	away := outdated("a", "", isUpToDate, isDown)
	got := decide(state{disruptions: 1, now: testNow, hosts: []host{away, toRestart("b", func(h *host) { h.update, h.impact = true, v1alpha1.ImpactDrain })}})
	if got.waiting != 1 || len(got.start) > 0 {
		t.Errorf("%d wait, and %v are started", got.waiting, got.start)
	}
}
