// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package rollout

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/words"
)

// DefaultDisruptions is how many hosts are drained or restarted at the same time by default.
const DefaultDisruptions = 1

// maxNamed bounds how many hosts a message about slots names.
const maxNamed = 5

// DefaultRestarts is on how many hosts services are restarted at the same time.
const DefaultRestarts = 10

// Slots limit how many hosts are disrupted by their configuration at the same time, and
// keep a configuration that broke one host of a pool from the others (halt.go). Namespaces
// take turns: a slot that is free is for the one that has fewest, and of those for the one whose last
// turn is longest ago. In a namespace the host that asks first is next. Slots read nothing: callers pass the
// instances as they know them. They are safe for concurrent use.
//
// Slots are those of one process. What another process had begun is in the records of the
// operations, which [Slots.Take] counts as well, so that a new leader does not start with
// as many as the limit allows on top of them.
type Slots struct {
	limit int
	// disrupted says whether a host needs a slot according to the record of its operation.
	disrupted func(*v1alpha1.Operation) bool

	mu      sync.Mutex // guards what follows
	holders sets.Set[types.NamespacedName]
	queue   []types.NamespacedName // the first that asked first
	// turns says of namespaces that have or wait for slots when they last got one, counted by turn.
	turns map[string]int
	turn  int
}

// NewDisruptionSlots are for hosts whose Nodes are cordoned and drained because of their
// configuration. Hosts without a Node need none. The limit is usually
// [DefaultDisruptions].
func NewDisruptionSlots(limit int) *Slots {
	return &Slots{limit: limit, disrupted: disrupted, holders: sets.New[types.NamespacedName](), turns: map[string]int{}}
}

// NewRestartSlots are for hosts whose services are restarted because the desired
// configuration has changed, so that a change which keeps a kubelet from working does not
// reach all hosts before anybody sees it. Hosts without a Node need none, nor does what
// people request. The limit is usually [DefaultRestarts].
func NewRestartSlots(limit int) *Slots {
	return &Slots{limit: limit, disrupted: restarting, holders: sets.New[types.NamespacedName](), turns: map[string]int{}}
}

// Take takes a slot for the host of an instance, or joins the queue if there is none. It
// returns what the host waits for, empty if it has a slot. A host whose pool is halted is
// not in the queue: the others need not wait for the same. instances are all there are;
// they may be those of a cache.
func (s *Slots) Take(instance *v1alpha1.WindowsInstance, instances []v1alpha1.WindowsInstance) (waitsFor string) {
	if waitsFor = s.Confirm(instance, instances); waitsFor != "" {
		return waitsFor
	}
	key := client.ObjectKeyFromObject(instance)
	holders, before, ok := s.take(key, s.recorded(instances))
	if ok {
		return ""
	}
	return describeQueue(holders, before, key.Namespace)
}

// Confirm gives the slot of a host back, and says why, if a configuration has broken
// another host of its pool. Empty: the host may be disrupted. It is for instances that are
// not from a cache: the host that had the slot before may just have failed, which a cache
// need not know yet.
func (s *Slots) Confirm(instance *v1alpha1.WindowsInstance, instances []v1alpha1.WindowsInstance) (waitsFor string) {
	other, op := haltedBy(instance, instances)
	if other == nil {
		return ""
	}
	s.Release(client.ObjectKeyFromObject(instance))
	return describeHalt(instance, other, op)
}

// Resume takes a slot, whatever the limit is, if the host has had one according to the
// record of its operation: another process, or an earlier execution of this one, took it.
func (s *Slots) Resume(instance *v1alpha1.WindowsInstance) {
	if s.disrupted(instance.Status.Operation) {
		s.Hold(client.ObjectKeyFromObject(instance))
	}
}

// Hold takes a slot whatever the limit is, and whoever waits.
func (s *Slots) Hold(key types.NamespacedName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.holders.Insert(key)
}

// Release gives back the slot of a host, or its place in the queue, if it has one.
func (s *Slots) Release(key types.NamespacedName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.holders.Delete(key)
	s.queue = slices.DeleteFunc(s.queue, func(queued types.NamespacedName) bool { return queued == key })
	maps.DeleteFunc(s.turns, func(namespace string, _ int) bool {
		in := func(key types.NamespacedName) bool { return key.Namespace == namespace }
		return !slices.ContainsFunc(s.queue, in) && !slices.ContainsFunc(s.holders.UnsortedList(), in)
	})
}

// Awaited says whether a host has a slot that hosts of other namespaces wait for.
func (s *Slots) Awaited(key types.NamespacedName) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.holders.Has(key) && slices.ContainsFunc(s.queue, func(queued types.NamespacedName) bool { return queued.Namespace != key.Namespace })
}

// Load says how many slots are taken and how many hosts wait for one.
func (s *Slots) Load() (held, waiting int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.holders), len(s.queue)
}

// take takes a slot, or joins the queue if there is none. Then it returns who has the
// slots, and how many have to get one before.
func (s *Slots) take(key types.NamespacedName, recorded []types.NamespacedName) (holders []types.NamespacedName, before int, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.holders.Has(key) {
		return nil, 0, true
	}
	busy := s.holders.Union(sets.New(recorded...)).Delete(key)
	if !slices.Contains(s.queue, key) {
		s.queue = append(s.queue, key)
	}
	before = slices.Index(s.order(busy), key)
	if before < s.limit-len(busy) {
		s.queue = slices.DeleteFunc(s.queue, func(queued types.NamespacedName) bool { return queued == key })
		s.holders.Insert(key)
		s.turn++
		s.turns[key.Namespace] = s.turn
		return nil, 0, true
	}
	return slices.SortedFunc(maps.Keys(busy), compareKeys), before, false
}

// order is the queue in the order in which slots are given, while others have theirs.
func (s *Slots) order(busy sets.Set[types.NamespacedName]) []types.NamespacedName {
	has := map[string]int{} // how many slots its namespace has when a host of it is next
	for key := range busy {
		has[key.Namespace]++
	}
	type place struct {
		key       types.NamespacedName
		has, turn int
	}
	places := make([]place, len(s.queue))
	for i, key := range s.queue {
		places[i] = place{key, has[key.Namespace], s.turns[key.Namespace]}
		has[key.Namespace]++
	}
	slices.SortStableFunc(places, func(a, b place) int { return cmp.Or(cmp.Compare(a.has, b.has), cmp.Compare(a.turn, b.turn)) })
	keys := make([]types.NamespacedName, len(places))
	for i, p := range places {
		keys[i] = p.key
	}
	return keys
}

// recorded are the hosts that are disrupted according to the records of their operations.
func (s *Slots) recorded(instances []v1alpha1.WindowsInstance) []types.NamespacedName {
	var keys []types.NamespacedName
	for i := range instances {
		if s.disrupted(instances[i].Status.Operation) {
			keys = append(keys, client.ObjectKeyFromObject(&instances[i]))
		}
	}
	return keys
}

func compareKeys(a, b types.NamespacedName) int { return strings.Compare(a.String(), b.String()) }

// disrupted says whether a configuration may, according to its record, cordon and drain the
// Node, and has not uncordoned it yet.
func disrupted(op *v1alpha1.Operation) bool {
	if !op.Active() || op.Type != v1alpha1.OperationReconfigure {
		return false
	}
	cordon, drain, uncordon := op.FindStep(v1alpha1.StepCordon), op.FindStep(v1alpha1.StepDrain), op.FindStep(v1alpha1.StepUncordon)
	if cordon == nil || drain == nil || uncordon == nil || drain.State == v1alpha1.StepSkipped || uncordon.Ended() {
		return false
	}
	disruptive := op.Impact == v1alpha1.ImpactDrain || op.Impact == v1alpha1.ImpactReboot
	return cordon.Ended() || disruptive && hasSlot(op)
}

// restarting says whether a configuration that the controller recorded may, according to its
// record, restart services of a Node. It is not known before the end whether that works.
func restarting(op *v1alpha1.Operation) bool {
	if !op.Active() || op.Type != v1alpha1.OperationReconfigure || !op.ByController() || op.Node == nil || op.Impact != v1alpha1.ImpactRestart {
		return false
	}
	return hasSlot(op)
}

// hasSlot says whether the host has got the slot that the operation needs.
func hasSlot(op *v1alpha1.Operation) bool {
	slot := op.FindStep(v1alpha1.StepWaitForSlot)
	if slot == nil { // releases before that step did not record it
		return op.MayHaveChangedHost()
	}
	return slot.State == v1alpha1.StepSucceeded
}

// describeQueue says what a host waits for that does not get a slot now. Hosts of other namespaces are
// counted only: who may read the message need not know of them.
func describeQueue(holders []types.NamespacedName, before int, namespace string) string {
	var names []string
	for _, h := range holders {
		if h.Namespace == namespace {
			names = append(names, h.Name)
		}
	}
	text := "Waits for a slot."
	switch others := len(holders) - len(names); {
	case len(holders) == 1 && others == 1:
		text = "Waits for a slot: another host is being changed, in another namespace."
	case len(holders) == 1:
		text = fmt.Sprintf("Waits for a slot: another host is being changed: %s.", names[0])
	case len(holders) == others && others > 0:
		text = fmt.Sprintf("Waits for a slot: %d hosts of other namespaces are being changed.", others)
	case others > 0:
		text = fmt.Sprintf("Waits for a slot: %d other hosts are being changed: %s, and %d in other namespaces.", len(holders), words.Enumerate(names, maxNamed), others)
	case len(holders) > 0:
		text = fmt.Sprintf("Waits for a slot: %d other hosts are being changed: %s.", len(holders), words.Enumerate(names, maxNamed))
	}
	switch before {
	case 0:
	case 1:
		text += " 1 host is ahead in the queue."
	default:
		text += fmt.Sprintf(" %d hosts are ahead in the queue.", before)
	}
	return text
}
