// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package instance

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/controller/csr/identity"
	"github.com/openshift/windows-instance-api/pkg/controller/internal/message"
	"github.com/openshift/windows-instance-api/pkg/controller/internal/object"
	"github.com/openshift/windows-instance-api/pkg/controller/internal/origin"
	"github.com/openshift/windows-instance-api/pkg/controller/internal/watch"
)

const (
	// conflictDelay is when to try again after somebody else has changed the object.
	// The change itself usually wakes the reconciler before.
	conflictDelay = time.Second
	// lostNodeGrace is how old the last probe of a host may be when its Node stops
	// being ready. An older one is renewed at once, to tell a dead host from a dead kubelet.
	lostNodeGrace = 30 * time.Second
)

// Reconciler keeps the status of WindowsInstances. See the comment of the package.
type Reconciler struct {
	Options

	client client.Client
	// live reads what the cache does not keep.
	live    client.Reader
	clock   clock.WithDelayedExecution
	tracker *tracker
	prober  *prober
	metrics *metrics
	// wake has the instances whose probe has ended.
	wake chan event.GenericEvent
}

var _ reconcile.Reconciler = (*Reconciler)(nil)

// newReconciler wires a reconciler. The caller runs its prober and reads wake.
func newReconciler(c client.Client, live client.Reader, now clock.WithDelayedExecution, o Options) *Reconciler {
	r := &Reconciler{
		Options: o,
		client:  c,
		live:    live,
		clock:   now,
		tracker: newTracker(),
		wake:    make(chan event.GenericEvent),
	}
	r.prober = newProber(proberOptions{
		workers:  map[lane]int{laneFast: o.ConcurrentProbes, laneSlow: o.ConcurrentSlowProbes},
		patience: patience,
		timeout:  o.ProbeTimeout,
		clock:    now,
		record:   r.probed,
		notify:   func(ctx context.Context, key types.NamespacedName) { watch.Wake(ctx, r.wake, key) },
	})
	r.metrics = newMetrics(o.Registerer, r.prober)
	return r
}

// Reconcile brings the status of one instance in line with what is known, and has
// its host probed when it is time. It never waits for a host.
func (r *Reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	instance, err := object.Get(ctx, r.client, req.NamespacedName, &v1alpha1.WindowsInstance{})
	if err != nil {
		return reconcile.Result{}, err
	}
	if instance == nil {
		r.forget(req.NamespacedName)
		return reconcile.Result{}, nil
	}
	if !instance.DeletionTimestamp.IsZero() {
		return r.leave(ctx, req.NamespacedName, instance)
	}
	pool, err := object.PoolOf(ctx, r.client, instance)
	if err != nil {
		return reconcile.Result{}, err
	}
	known := r.remember(req.NamespacedName, instance, pool)
	s, err := r.snapshot(ctx, instance, pool, known)
	if err != nil {
		return reconcile.Result{}, err
	}
	before := instance.Status
	written, err := r.writeStatus(ctx, instance, evaluate(s))
	if apierrors.IsConflict(err) {
		// The object was changed since it was read; nothing was recorded, so nothing else may be done.
		return reconcile.Result{RequeueAfter: conflictDelay}, nil
	}
	if object.Gone(err) {
		return reconcile.Result{}, nil // deleted meanwhile, which wakes the reconciler
	}
	if err != nil {
		return reconcile.Result{}, err
	}
	result := r.proceed(ctx, req.NamespacedName, written, s, known, &before)
	if s.inputs != nil && s.paused == "" && (result.RequeueAfter == 0 || result.RequeueAfter > inputsRetry) {
		result.RequeueAfter = inputsRetry
	}
	return result, nil
}

// leave ends what is under way for an instance that was deleted and is still there, as
// its host is to be cleaned: what is known of the host, and the connections to it, are
// needed for that. The end of the object brings the last pass.
func (r *Reconciler) leave(ctx context.Context, key types.NamespacedName, instance *v1alpha1.WindowsInstance) (reconcile.Result, error) {
	r.prober.Cancel(key)
	r.tracker.renew(key) // nobody probes it any more
	status := leaving(instance, r.clock.Now())
	if held(instance) {
		// That of a host whose status was lost, that has become a node meanwhile, or whose kubelet has
		// registered it again: the removal deletes the Node that there is.
		node, owner, err := identity.Nodes{Reader: r.client, Namespace: r.Namespace}.Find(ctx, instance)
		if err != nil {
			return reconcile.Result{}, err
		}
		switch {
		case node == nil || owner != nil:
		case status.Node != nil && (status.Node.Name != node.Name || status.Node.UID == node.UID): // nothing is new, or it is another one
		case configuredElsewhere(node, instance):
			meta.SetStatusCondition(&status.Conditions, metav1.Condition{
				Type: v1alpha1.ConditionResolved, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonHostOfAnotherNamespace,
				ObservedGeneration: instance.Generation, LastTransitionTime: metav1.NewTime(r.clock.Now().Truncate(time.Second)),
				Message: message.ConditionMessage(describeElsewhere(instance, node, r.Namespace)),
			})
		default:
			status.Node = &v1alpha1.NodeReference{Name: node.Name, UID: node.UID}
		}
	}
	_, err := r.writeStatus(ctx, instance, status)
	switch {
	case apierrors.IsConflict(err):
		return reconcile.Result{RequeueAfter: conflictDelay}, nil
	case object.Gone(err):
		return reconcile.Result{}, nil
	}
	return reconcile.Result{}, err
}

// remember notes the object and drops what was known of a host that is now to be
// contacted in another way.
func (r *Reconciler) remember(key types.NamespacedName, instance *v1alpha1.WindowsInstance, pool *v1alpha1.WindowsNodePool) remembered {
	known, replaced := r.tracker.sync(key, instance, contactDigest(instance, pool), func() history {
		if r.Desired != nil && unsettled(instance) {
			return history{} // it waits for what this look finds out
		}
		return restore(instance, r.RecheckInterval, r.clock.Now(), rand.Float64()) //nolint:gosec // spreads load, guards nothing
	})
	if replaced != nil {
		r.prober.Cancel(key)
		r.Hosts.Forget(replaced)
	}
	return known
}

// snapshot gathers what decides about the status. It reads the cache only.
func (r *Reconciler) snapshot(ctx context.Context, instance *v1alpha1.WindowsInstance, pool *v1alpha1.WindowsNodePool, known remembered) (snapshot, error) {
	s := snapshot{instance: instance, pool: pool, through: instance.BastionWith(pool).Endpoint(), now: r.clock.Now()}
	at := routed(instance, known.last.foundThrough(s.through))
	if field := object.PausedBy(instance, pool); field != "" {
		s.paused = fmt.Sprintf("%s is true, so the controller does nothing on the host.", field)
	}
	if known.last != nil && applies(known.last, instance) {
		s.observation = known.last
	}
	if s.paused == "" {
		seen := seenAs(at, known.last)
		other, err := findDuplicate(ctx, r.client, seen, addressesOf(instance, known.last), r.Namespace)
		if err != nil {
			return snapshot{}, err
		}
		if other != nil {
			s.duplicate, s.takesOver = describeDuplicate(seen, other, r.Namespace), takesOver(instance, other)
		} else if s.observation != nil && s.observation.duplicate {
			s.observation = nil // it ended because of another instance that is gone
		}
	}
	// Which Node a host is that was never logged in to, its instance only claims.
	if s.duplicate == "" && (instance.Status.Identified() || s.observation != nil && s.observation.loggedIn) {
		node, owner, err := identity.Nodes{Reader: r.client, Namespace: r.Namespace}.Find(ctx, foundAt(at, known.last))
		if err != nil {
			return snapshot{}, err
		}
		if owner == nil {
			switch {
			case node == nil:
				if s.otherMachine, err = r.findOtherMachine(ctx, foundAt(at, known.last)); err != nil {
					return snapshot{}, err
				}
			case r.Desired != nil && !plausible(node, instance, s.observation):
			case !configuredElsewhere(node, instance):
				s.node = node
			case s.paused == "" && s.inspected():
				s.duplicate, s.elsewhere = describeElsewhere(instance, node, r.Namespace), true
			}
		} else if s.paused == "" {
			s.duplicate, s.takesOver = describeOwned(instance, owner, r.Namespace), takesOver(instance, owner)
		}
	}
	if err := r.readNode(ctx, &s); err != nil {
		return snapshot{}, err
	}
	r.readDesired(ctx, &s, pool)
	if err := r.findHostname(ctx, &s); err != nil {
		return snapshot{}, err
	}
	return s, nil
}

// findOtherMachine names a Node, if there is one, that reports an address at which the host of an instance was found by a connection of our own, and is taken
// for that of another machine because of its provider ID. Behind a bastion nobody is told which Nodes there are: who has it decides where an address leads.
func (r *Reconciler) findOtherMachine(ctx context.Context, instance *v1alpha1.WindowsInstance) (name string, err error) {
	if v1alpha1.CanonicalProviderID(instance.Spec.ProviderID) == "" || instance.Status.HostIP == "" {
		return "", nil
	}
	for _, address := range instance.Status.ProvenAt() {
		nodes, err := identity.Nodes{Reader: r.client, Namespace: r.Namespace}.At(ctx, instance, address)
		if err != nil {
			return "", err
		}
		for i := range nodes {
			system := nodes[i].Status.NodeInfo.OperatingSystem
			if (system == "" || system == string(corev1.Windows)) && v1alpha1.OtherProviderID(nodes[i].Spec.ProviderID, instance.Spec.ProviderID) && (name == "" || nodes[i].Name < name) {
				name = nodes[i].Name
			}
		}
	}
	return name, nil
}

// plausible says whether a Node that has an address of the host may be its Node. A kubelet reports
// what it likes: a Node is not that of a host which does not have its name, has no kubelet, and was
// never configured by us. It must not keep the host from being configured.
func plausible(node *corev1.Node, instance *v1alpha1.WindowsInstance, seen *observation) bool {
	if seen == nil || seen.report == nil || seen.report.kubelet || instance.Status.MayHaveChangedHost() || v1alpha1.SameProviderID(node.Spec.ProviderID, instance.Spec.ProviderID) {
		return true
	}
	changed := *instance // shares all else, which is only read
	changed.Status.System = &seen.report.system
	return identity.New(&changed, nil).IsNamed(node.Name)
}

// addressesOf are the addresses that an instance stands for by what a probe saw, nil where that
// says nothing: a host that is known is not at other addresses before it was found there.
func addressesOf(instance *v1alpha1.WindowsInstance, seen *observation) []string {
	if seen == nil || instance.Status.Identified() && seen.report == nil {
		return nil
	}
	return seen.addresses
}

// seenAs is an instance as it will be with what a probe saw: which machine the host is counts
// before that is recorded.
func seenAs(instance *v1alpha1.WindowsInstance, seen *observation) *v1alpha1.WindowsInstance {
	if seen == nil || seen.report == nil || instance.Status.MachineID != "" {
		return instance
	}
	changed := *instance // shares all else, which is only read
	changed.Status.MachineID, changed.Status.Addresses, changed.Status.HostIP = seen.report.machineID, seen.addresses, seen.foundAt()
	changed.Status.Bastion = seen.peer.Bastion
	return &changed
}

// routed is an instance whose host was not logged in to yet behind the bastion that it is contacted through: that of its pool is
// not known otherwise before it is recorded, and an earlier one may still be.
func routed(instance *v1alpha1.WindowsInstance, through string) *v1alpha1.WindowsInstance {
	if instance.Status.Identified() || instance.Status.Bastion == through {
		return instance
	}
	changed := *instance // shares all else, which is only read
	changed.Status.Bastion = through
	return &changed
}

// foundAt is an instance at the addresses where its host has just become known. From then on it keeps
// its Node wherever it goes, so that must not be one of addresses at which it never was.
func foundAt(instance *v1alpha1.WindowsInstance, seen *observation) *v1alpha1.WindowsInstance {
	if seen == nil || seen.report == nil || instance.Status.MachineID != "" {
		return instance
	}
	changed := *instance // shares all else, which is only read
	changed.Status.Addresses, changed.Status.HostIP, changed.Status.Bastion = seen.addresses, seen.foundAt(), seen.peer.Bastion
	if changed.Status.System == nil {
		changed.Status.System = &seen.report.system // its name counts at once, too
	}
	return &changed
}

// applies says whether an observation still speaks of the instance: the keys that
// are trusted are those that were trusted when it was made, or that it brought.
func applies(o *observation, instance *v1alpha1.WindowsInstance) bool {
	if o.pins == pinsOf(instance) {
		return true
	}
	return o.outcome() == outcomeRecorded && !o.presented.IsZero() &&
		trust(instance.Spec.HostKeys, instance.Status.HostKeys, false, o.presented).verdict == verdictMatch
}

// writeStatus records a status if it differs from the recorded one. It fails with
// a conflict when the object was changed since it was read. It returns the object as it is stored.
func (r *Reconciler) writeStatus(ctx context.Context, instance *v1alpha1.WindowsInstance, status v1alpha1.WindowsInstanceStatus) (*v1alpha1.WindowsInstance, error) {
	if equality.Semantic.DeepEqual(instance.Status, status) {
		return instance, nil
	}
	written := instance.DeepCopy() // the one that was read belongs to the cache
	written.Status = status
	if err := object.UpdateStatus(ctx, r.client, written); err != nil {
		return nil, fmt.Errorf("writing the status: %w", err)
	}
	for _, t := range transitions(&instance.Status, &written.Status) {
		r.Recorder.Event(written, t.eventType, t.reason, t.note)
		objects, reason := toldOn(written, t)
		for _, object := range objects {
			r.Recorder.Event(object, t.eventType, reason, origin.Note(written, t.note))
		}
	}
	return written, nil
}

// proceed has the host probed if it is time, else says when it will be.
// instance is the object as it is stored, with everything that was recorded.
func (r *Reconciler) proceed(ctx context.Context, key types.NamespacedName, instance *v1alpha1.WindowsInstance, s snapshot, known remembered, before *v1alpha1.WindowsInstanceStatus) reconcile.Result {
	if s.paused != "" {
		r.prober.Cancel(key)
		r.tracker.renew(key) // it is probed as soon as the pause ends
		return reconcile.Result{}
	}
	if s.duplicate != "" && !s.elsewhere && isLiteral(instance.Spec.Address) {
		// What decides can only change with one of the two objects, which wakes the
		// reconciler. The addresses of a name may change by themselves.
		r.prober.Cancel(key)
		r.tracker.renew(key)
		return reconcile.Result{}
	}
	if r.prober.Busy(key) {
		return reconcile.Result{} // its end wakes the reconciler
	}
	now := r.clock.Now()
	seen := known.history
	if s.hostnameTaken != "" && seen.outcome == outcomeHealthy {
		seen.outcome = outcomeAttention // only the cluster speaks against it
	}
	due := next(seen, recheckOf(r.RecheckInterval, r.tracker.countWell()), now)
	if known.last != nil && s.observation == nil && !known.history.at.After(known.last.finished) {
		due = now // what was seen last does not apply any more
	}
	if known.last != nil && known.last.unheld && held(instance) {
		due = now // what it waited for
	}
	if lostNode(before, &instance.Status) && now.Sub(known.history.at) > lostNodeGrace {
		due = now
	}
	if o := instance.Status.Operation; o != nil && o.FinishedAt != nil && validSince(known).Before(settled(o, now)) {
		due = settled(o, now) // whatever was done to the host, what was seen of it before may be wrong
	}
	if wait := due.Sub(now); wait > 0 {
		return reconcile.Result{RequeueAfter: wait}
	}
	keys := (&evaluation{snapshot: s, status: instance.Status}).keysOfWMCO()
	r.probe(ctx, key, routed(instance, s.through), known, keys)
	return reconcile.Result{}
}

// validSince is since when what the last probe of a host saw is valid.
func validSince(known remembered) time.Time {
	if known.last != nil && known.last.finished.Equal(known.history.at) {
		return known.last.started
	}
	return known.history.at
}

// lostNode says whether the Node of a host has stopped being ready.
func lostNode(before, after *v1alpha1.WindowsInstanceStatus) bool {
	return meta.IsStatusConditionTrue(before.Conditions, v1alpha1.ConditionNodeReady) &&
		meta.IsStatusConditionFalse(after.Conditions, v1alpha1.ConditionNodeReady)
}

// probe submits a probe of a host. keysOfWMCO: its keys are not changed.
func (r *Reconciler) probe(ctx context.Context, key types.NamespacedName, instance *v1alpha1.WindowsInstance, known remembered, keysOfWMCO bool) {
	l := laneFast
	if known.history.hung {
		l = laneSlow
	}
	logger := log.FromContext(ctx)
	//nolint:contextcheck // a probe lives as long as the prober, not as long as this pass
	r.prober.probe(key, l, func(ctx context.Context) *observation {
		a := &attempt{Reconciler: r, instance: instance, keysOfWMCO: keysOfWMCO, seen: &observation{uid: instance.UID, contact: known.contact, pins: pinsOf(instance)}}
		o := a.run(ctx)
		if o.err != nil {
			// The status has it in other words; the cause as it came is for those who debug.
			logger.V(1).Info("A step of the probe failed", "step", o.failed, "result", o.result, "cause", o.err.Error())
		}
		return o
	})
}

// probed takes what a probe saw.
func (r *Reconciler) probed(key types.NamespacedName, o *observation) {
	r.metrics.probes.WithLabelValues(o.result).Inc()
	r.metrics.duration.WithLabelValues(strconv.FormatBool(o.err != nil)).Observe(o.finished.Sub(o.started).Seconds())
	r.tracker.observe(key, o, rand.Float64()) //nolint:gosec // spreads load, guards nothing
}

// forget ends what is under way for an instance that is gone.
func (r *Reconciler) forget(key types.NamespacedName) {
	r.prober.Cancel(key)
	if instance := r.tracker.forget(key); instance != nil {
		r.Hosts.Forget(instance)
	}
}
