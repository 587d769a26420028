// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package rollout

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/controller/internal/leading"
	"github.com/openshift/windows-instance-api/pkg/controller/internal/object"
	"github.com/openshift/windows-instance-api/pkg/controller/internal/origin"
	"github.com/openshift/windows-instance-api/pkg/controller/internal/ration"
)

// conflictDelay is when to decide again after somebody else has changed an object that was to be written.
const conflictDelay = 200 * time.Millisecond

// Scheduler decides which hosts get another configuration, a restart or a repair next, and records that as operations. It looks at all
// pools together, one pass after the other, as they share bounds. It remembers nothing but what hosts said that
// their updates cost, what of its own writes the cache does not have yet, which of them were refused, and whose turn it was.
type Scheduler struct {
	options Options
	client  client.Client
	clock   clock.PassiveClock
	asker   *asker
	// notifyPool is called for each pool whose holdup is another one than after the pass before. It must not block for long.
	notifyPool func(context.Context, types.NamespacedName)
	// notifyInstance is called for each instance whose condition UpToDate is to tell another kind of wait than after the pass before, or none any more,
	// and blockedByChanged has them. Not while it is unknown what the update costs. It must not block for long.
	notifyInstance   func(context.Context, types.NamespacedName)
	blockedByChanged chan event.GenericEvent

	mu sync.Mutex // guards what follows
	// written has the grants that the cache may not have yet.
	written map[types.NamespacedName]grantWritten
	// refused has the instances in whose status nothing can be written.
	refused map[types.NamespacedName]unwritable
	last    decision
	blocked map[poolKey]holdup
	// passed is when the pass before was, and calm since when there has been one every few minutes, and the API server has answered those that
	// asked it. Only the passes, one after the other, use them.
	passed, calm time.Time
	pace         pace
	// served is until when pools had slots, of whose hosts some may have forgotten it, and heldSince since when hosts have theirs. They say who is
	// next only, and are used by the passes only.
	served    map[poolKey]servedUntil
	heldSince map[types.NamespacedName]time.Time
}

const (
	// maxPause is between two passes of a process that works all the time. After a longer one, a start, or an API server that was away, what the
	// Nodes say of themselves may be as old as the pause, and nobody repairs what was not looked at since.
	maxPause = 5 * time.Minute
	// cameBackAfter is for how long a Node is ready before the cordon of a failed restart is lifted.
	cameBackAfter = time.Minute
)

// grantWritten is a grant that the cache may not have yet.
type grantWritten struct {
	before string
	// lapses is until when it counts at most. Zero: until the cache has it, as it was written.
	lapses  time.Time
	slot    slot
	repairs bool
	removes bool
	// prepares: it is for downloading updates of Windows.
	prepares bool
	// renews: it is for a new configuration that an annotation asks for.
	renews bool
}

var _ reconcile.Reconciler = (*Scheduler)(nil)

// NewScheduler returns one that is not part of a manager yet; see [SetupWithManager].
func NewScheduler(c client.Client, o Options) *Scheduler {
	s := &Scheduler{
		options: o, client: c, clock: clock.RealClock{}, notifyPool: func(context.Context, types.NamespacedName) {},
		notifyInstance: func(context.Context, types.NamespacedName) {}, blockedByChanged: make(chan event.GenericEvent),
		written: map[types.NamespacedName]grantWritten{}, refused: map[types.NamespacedName]unwritable{}, blocked: map[poolKey]holdup{},
	}
	s.asker = newAsker(o.Impact, s.clock)
	return s
}

// WaitsFor says what the host of an instance waits for whose operation may not go on. Empty: that is not known
// yet.
func (s *Scheduler) WaitsFor(key types.NamespacedName) string {
	s.mu.Lock()
	why, pool := s.last.waits[key], s.last.poolOf[key]
	s.mu.Unlock()
	return why.describe(pool)
}

// Postponed says whether the host of an instance, which has downloaded its updates of Windows, waits for something that may last. It
// does not before a pass has seen that it waits: what the host waited for before is over.
func (s *Scheduler) Postponed(key types.NamespacedName) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	why, waits := s.last.waits[key]
	return waits && s.last.ready.Has(key) && why.kind.lasts()
}

// GivesWayTo says what has to be done to the host of an instance first, so that an operation that waits, or that downloads updates of Windows,
// ends for it. Empty: nothing.
func (s *Scheduler) GivesWayTo(key types.NamespacedName) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.last.givesWayTo[key]
}

// Contested says whether the host of an instance has a slot that hosts of other pools wait for.
func (s *Scheduler) Contested(key types.NamespacedName) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.last.contested.Has(key)
}

// load says how many hosts have a slot for disruptions, and how many wait for one.
func (s *Scheduler) load() (held, waiting int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.last.held, s.last.waiting
}

// blockedBy says what the hosts of a pool wait for.
func (s *Scheduler) blockedBy(pool poolKey) holdup {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.blocked[pool]
}

// Reconcile makes one pass over all hosts, whatever the request is.
func (s *Scheduler) Reconcile(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
	// Whatever changes asks for a pass at once, also during the one before.
	if rest := s.pace.rest(s.clock.Now()); rest > 0 {
		return reconcile.Result{RequeueAfter: rest}, nil
	}
	began := s.clock.Now()
	instances, decided, err := s.decide(ctx)
	s.pace.took(began, s.clock.Now())
	if err != nil {
		return reconcile.Result{}, err
	}
	for _, key := range decided.ask {
		s.asker.ask(instances[key]) //nolint:contextcheck // hosts answer when they do, not within this pass
	}
	if len(decided.start)+len(decided.admit) > 0 {
		switch err := leading.Ensure(ctx, s.options.Leads); {
		case errors.Is(err, leading.ErrNotLeading):
			return reconcile.Result{RequeueAfter: leading.AgainAfter}, nil
		case err != nil:
			return reconcile.Result{}, err
		}
	}
	conflict, err := s.writeAll(ctx, instances, decided)
	if ctx.Err() != nil {
		return reconcile.Result{}, err
	}
	s.publish(ctx, decided)
	switch {
	case err != nil:
		return reconcile.Result{}, err
	case conflict:
		return reconcile.Result{RequeueAfter: conflictDelay}, nil
	case !decided.again.IsZero():
		return reconcile.Result{RequeueAfter: min(max(decided.again.Sub(s.clock.Now()), conflictDelay), maxPause/2)}, nil
	}
	return reconcile.Result{RequeueAfter: maxPause / 2}, nil // whatever was missed
}

// decide reads the cache and decides.
func (s *Scheduler) decide(ctx context.Context) (map[types.NamespacedName]*v1alpha1.WindowsInstance, decision, error) {
	var pools v1alpha1.WindowsNodePoolList
	var list v1alpha1.WindowsInstanceList
	// The objects of the cache are shared; they are only read.
	if err := s.client.List(ctx, &pools, client.UnsafeDisableDeepCopy); err != nil {
		return nil, decision{}, fmt.Errorf("list pools: %w", err)
	}
	if err := s.client.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		return nil, decision{}, fmt.Errorf("list instances: %w", err)
	}
	nodes, err := s.nodes(ctx)
	if err != nil {
		return nil, decision{}, err
	}
	now := s.clock.Now()
	if now.Sub(s.passed) > maxPause {
		s.calm = now
	}
	s.passed = now
	in := state{hosts: make([]host, 0, len(list.Items)), pools: map[poolKey]policy{}, disruptions: s.options.Disruptions, now: now, served: s.served, heldSince: s.heldSince}
	byName := map[poolKey]*v1alpha1.WindowsNodePool{}
	for i := range pools.Items {
		byName[poolKey{pools.Items[i].Namespace, pools.Items[i].Name}] = &pools.Items[i]
	}
	instances := make(map[types.NamespacedName]*v1alpha1.WindowsInstance, len(list.Items))
	wanted := sets.New[types.NamespacedName]()
	calm := sync.OnceValue(func() time.Time { return s.calmSince(ctx, now) })
	var lapses time.Time // the first of the grants of which it is not known whether they were written
	for i := range list.Items {
		instance := &list.Items[i]
		pool := byName[poolKey{instance.Namespace, object.PoolName(instance)}]
		node := nodeOf(instance, nodes)
		h := s.hostNow(instance, pool, node)
		instances[h.key] = instance
		if written, ok := s.unseen(instance); ok {
			h.grant(written)
			lapses = earlier(lapses, written.lapses)
		} else {
			s.findOutstanding(&h, instance, pool, node, now)
			if h.update {
				wanted.Insert(h.key)
			}
			if h.remedy = remedyOf(instance, pool).unlessCordoned(h.cordonedByOthers); h.remedy.action != "" || h.remedy.kept {
				h.remedy.due = later(h.remedy.due, calm().Add(maxPause))
			}
		}
		in.hosts = append(in.hosts, h)
	}
	sizes, ofNodes := map[poolKey]int{}, map[poolKey]int{}
	for i := range in.hosts {
		h := &in.hosts[i]
		sizes[h.pool]++
		if h.node || h.lost {
			ofNodes[h.pool]++
		}
	}
	for key, pool := range byName {
		if _, served := s.served[key]; sizes[key] > 0 || served || len(pool.Status.RecentRemovals) > 0 { // of others nothing is decided
			in.pools[key] = policyAmong(pool, max(sizes[key], int(pool.Status.DesiredReplicas)), ofNodes[key])
		}
	}
	s.asker.forgetOthers(wanted)
	s.forgetRefused(instances)
	decided := decide(in)
	decided.again, s.served, s.heldSince = earlier(decided.again, lapses), decided.served, decided.heldSince
	return instances, decided, nil
}

// hostNow is the host of an instance as it is now, without what is outstanding for it.
func (s *Scheduler) hostNow(instance *v1alpha1.WindowsInstance, pool *v1alpha1.WindowsNodePool, node *corev1.Node) host {
	h := newHost(instance)
	h.refused = s.refusedOf(instance)
	// The condition says it of hosts that nothing is recorded for. An update that was recorded before, and has not begun, waits as well.
	h.paused = object.PausedBy(instance, pool) != ""
	h.unconfirmed = h.unconfirmed && !h.paused || h.waits != "" && h.waitsWith != v1alpha1.CauseWindowsUpdates && instance.LeftAsItIs(pool)
	h.observe(node)
	h.hasNewest = pool != nil && !h.leaving && hasNewest(instance, pool)
	return h
}

// findOutstanding says what is outstanding for the host of an instance, except its repair, and from when on each of it is due.
func (s *Scheduler) findOutstanding(h *host, instance *v1alpha1.WindowsInstance, pool *v1alpha1.WindowsNodePool, node *corev1.Node, now time.Time) {
	h.confirmed = h.removes && s.confirmed(instance, pool)
	if due, ok := s.options.Update(instance, pool, now); ok {
		h.update, h.due, h.updateFailed = true, due, lastUpdateFailed(&instance.Status)
		h.impact, h.unknown, h.askAgain = s.asker.answer(instance, now)
		if cost := outgrown(&instance.Status); h.impact != "" && slotOf(cost) > slotOf(h.impact) {
			h.impact = cost
		}
		h.failing, h.failingSince = s.asker.failing(instance)
	}
	if pool != nil {
		h.findRollback(instance, pool)
		h.install = pool.Spec.WindowsUpdates.Install
		h.lacksUpdates = stopsUpdates(instance, h.install)
	}
	h.findRestart(instance, pool, node, now)
	if due, ok := renewal(instance, pool, node, now); ok && !h.update {
		h.renew, h.renewDue = true, due
	}
	h.uncordon, h.uncordonDue = cameBack(instance, pool, node)
	h.retried = s.options.Retried != nil && s.options.Retried(instance, pool, now)
	h.unfit, h.unfitFrom = unfit(instance, pool, now)
}

// confirmed says whether the removal of the host of an instance waits for no other host: a person has confirmed it, or the
// Machine API, which has decided it, does not wait either. Whoever deletes an instance whose Machine lives has to take off what says where it comes from.
func (s *Scheduler) confirmed(instance *v1alpha1.WindowsInstance, pool *v1alpha1.WindowsNodePool) bool {
	ofMachine := origin.Machine(instance) != nil && instance.Annotations[v1alpha1.SourceAnnotation] != ""
	return s.options.RemoveWithoutConfirmation || ofMachine || pool != nil && ration.Confirmed(pool.Status.RecentRemovals, instance)
}

// unseen returns what was granted to a host if the cache does not have that yet.
func (s *Scheduler) unseen(instance *v1alpha1.WindowsInstance) (grantWritten, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := client.ObjectKeyFromObject(instance)
	written, ok := s.written[key]
	if ok && (written.before != instance.ResourceVersion || !written.lapses.IsZero() && !written.lapses.After(s.clock.Now())) {
		delete(s.written, key)
		ok = false
	}
	return written, ok
}

// writeAll writes all grants. That of one host that cannot be written keeps no other from its own. It says whether it has to be decided again.
func (s *Scheduler) writeAll(ctx context.Context, instances map[types.NamespacedName]*v1alpha1.WindowsInstance, decided decision) (again bool, err error) {
	var failed []error
	for _, part := range []struct {
		grants []grant
		change func(*v1alpha1.WindowsInstance, grant, time.Time) error
	}{{decided.start, recordOperation}, {decided.admit, admit}} {
		for _, g := range part.grants {
			conflict, err := s.write(ctx, instances[g.key], g, part.change)
			switch {
			case ctx.Err() != nil:
				return false, err
			case err != nil:
				failed = append(failed, err)
			}
			again = again || conflict
		}
	}
	return again, errors.Join(failed...)
}

// write writes a grant into the status of an instance, by what the decision was based on. It says whether it
// has to be decided again, as that has changed.
func (s *Scheduler) write(ctx context.Context, instance *v1alpha1.WindowsInstance, g grant, change func(*v1alpha1.WindowsInstance, grant, time.Time) error) (again bool, err error) {
	changed := instance.DeepCopy() // the one that was read belongs to the cache
	if err := change(changed, g, s.clock.Now()); err != nil {
		return true, nil //nolint:nilerr // another operation has been recorded, which is decided about again
	}
	s.mu.Lock()
	s.written[g.key] = grantWritten{
		before: instance.ResourceVersion, slot: slotOf(g.impact), repairs: !configures(g.cause), removes: changed.Status.Operation.Type == v1alpha1.OperationRemove,
		prepares: g.cause == v1alpha1.CauseWindowsUpdates && slotOf(g.impact) == slotNone,
		renews:   g.cause == v1alpha1.CauseVersionChanged,
	}
	s.mu.Unlock()
	err = object.UpdateStatus(ctx, s.client, changed)
	if err == nil {
		s.mu.Lock()
		delete(s.refused, g.key)
		s.mu.Unlock()
		if instance.Status.Operation == nil || changed.Status.Operation.ID != instance.Status.Operation.ID {
			s.announce(instance, changed.Status.Operation)
		}
		return false, nil
	}
	conflict := apierrors.IsConflict(err)
	if conflict || object.Gone(err) {
		s.mu.Lock()
		delete(s.written, g.key)
		s.mu.Unlock()
		return conflict, nil
	}
	s.refuse(g.key, changed.Status.Operation, err)
	return false, fmt.Errorf("letting the host of %s be changed: %w", g.key, err)
}

// admit lets an operation go on that waits.
func admit(i *v1alpha1.WindowsInstance, g grant, _ time.Time) error {
	i.Status.Operation.AdmittedImpact = g.impact
	return nil
}

// publish has others know what hosts wait for.
func (s *Scheduler) publish(ctx context.Context, decided decision) {
	blocked := map[poolKey]holdup{}
	byPool := map[poolKey]map[types.NamespacedName]reason{}
	for key, why := range decided.waits {
		pool := decided.poolOf[key]
		if byPool[pool] == nil {
			byPool[pool] = map[types.NamespacedName]reason{}
		}
		byPool[pool][key] = why
	}
	for pool, waits := range byPool {
		held := sumUp(waits)
		held.text = describeWaits(pool, waits)
		blocked[pool] = held
	}
	s.mu.Lock()
	before, inConditions := s.blocked, s.last.inConditions
	s.last, s.blocked = decided, blocked
	s.mu.Unlock()
	s.notifyChanged(ctx, inConditions, decided.inConditions)
	for pool := range before {
		if _, ok := blocked[pool]; !ok {
			s.notifyPool(ctx, types.NamespacedName{Namespace: pool.namespace, Name: pool.name})
		}
	}
	for pool, text := range blocked {
		if before[pool] != text {
			s.notifyPool(ctx, types.NamespacedName{Namespace: pool.namespace, Name: pool.name})
		}
	}
}
