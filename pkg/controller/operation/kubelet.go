// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package operation

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/controller/internal/object"
	"github.com/openshift/windows-instance-api/pkg/wmco"
)

// DefaultSettle is the usual value of [Options.Settle]. A container runtime that does not
// answer makes a Node not ready after as long.
const DefaultSettle = 30 * time.Second

// contestedSettle is for how long a Node is watched at most while hosts of other pools wait for the slot of its host, whatever its pool says: one pool must
// not keep all others from theirs for the day that spec.updateStrategy.rollingUpdate.settleSeconds may last.
const contestedSettle = 10 * time.Minute

// kubeletSilence is after which time without a report a kubelet is taken for dead. It renews
// the Lease of its Node every ten seconds.
const kubeletSilence = 25 * time.Second

// nodeReady waits until the kubelet has reported since the last change and says that the Node is
// ready, and after what disturbs pods until the Node has stayed so for a while.
func (e *execution) nodeReady(ctx context.Context) (result, error) {
	op := e.operation()
	if op.Node == nil {
		return noNode, nil
	}
	what := "the host is back, and its Node %s did not become ready"
	if op.Type == v1alpha1.OperationReconfigure {
		what = "the host is configured, and its Node %s did not become ready"
		if missing, err := e.missingForNode(ctx); err != nil || missing != "" {
			return result{skipped: true, message: "Not waited for, because something that the Node needs does not exist yet." + missing}, err
		}
	}
	deadline := e.rebootDeadline()
	r, err := e.watchKubelet(ctx, deadline)
	if err != nil {
		return result{}, err
	}
	shortened := false
	lacks := func(settle time.Duration) func(context.Context) (string, error) {
		return func(ctx context.Context) (string, error) {
			if settle > contestedSettle && r.readyFor(e.clock.Now()) >= contestedSettle && e.Policy.Contested(e.key) {
				settle, shortened = contestedSettle, true
			}
			return r.lacks(ctx, e, settle)
		}
	}
	err = e.waitUntil(ctx, deadline, fmt.Sprintf("Waiting until Node %s is ready.", op.Node.Name), lacks(0))
	switch {
	case errors.Is(err, errNodeDeleted):
		return result{}, fmt.Errorf(what+": %w", op.Node.Name, err)
	case err != nil:
		return result{}, e.late(ctx, fmt.Sprintf(what, op.Node.Name), err)
	}
	settle, err := e.settle(ctx)
	if err != nil {
		return result{}, err
	}
	if settle > 0 {
		if end := e.clock.Now().Add(settle + patience); deadline.Before(end) {
			deadline = end
		}
		if err := e.waitUntil(ctx, deadline, fmt.Sprintf("Watching for %s whether Node %s stays ready.", settle, op.Node.Name), lacks(settle)); err != nil {
			if ctx.Err() != nil {
				return result{}, context.Cause(ctx)
			}
			return result{}, fmt.Errorf("Node %s became ready and did not stay so for %s: %w", op.Node.Name, settle, err)
		}
	}
	if shortened {
		return result{message: fmt.Sprintf("Node %s is ready. It was watched for %s in place of %s (spec.updateStrategy.rollingUpdate.settleSeconds), because hosts of other pools wait for the slot.",
			op.Node.Name, contestedSettle, settle)}, nil
	}
	return result{message: fmt.Sprintf("Node %s is ready.", op.Node.Name)}, nil
}

// missingForNode says what does not exist yet that the Node of a host needs which has just joined. Empty: nothing. One that was a Node before has
// what it needs, unless the Node is gone.
func (e *execution) missingForNode(ctx context.Context) (string, error) {
	if join := e.operation().FindStep(v1alpha1.StepJoin); join == nil || join.State != v1alpha1.StepSucceeded {
		return "", nil
	}
	built, err := e.build(ctx)
	if err != nil {
		return "", err
	}
	awaited, err := e.awaited(ctx, built)
	if err != nil {
		return "", err
	}
	if len(built.Waiting)+len(awaited) == 0 {
		return "", nil
	}
	return describeWaiting(built.Waiting) + describeAwaited(awaited), nil
}

// readiness knows, from one look to the next, what a Node lacks to be ready.
type readiness struct {
	kubeletWatch

	// last is the Node as the API server had it at asked. Nil: there was none.
	last  *corev1.Node
	asked time.Time
	// gone is since when there is no Node. Zero: there is one.
	gone time.Time
	// services: those of the host have just been checked.
	services bool
}

// watchKubelet begins to watch the kubelet of the Node.
func (e *execution) watchKubelet(ctx context.Context, deadline time.Time) (*readiness, error) {
	boot, err := e.bootTime(ctx, deadline)
	if err != nil {
		return nil, err
	}
	before, err := e.kubeletReport(ctx)
	if err != nil {
		return nil, err
	}
	r := &readiness{kubeletWatch: kubeletWatch{boot: boot, newest: before.newest(), heartbeat: heartbeat(before.node)}, last: before.node, asked: e.clock.Now()}
	if e.operation().Type == v1alpha1.OperationReconfigure && !e.touched() {
		r.reported, r.seen = true, e.clock.Now() // nothing was done that it could report after
	} else if since := e.lastChange(); !since.IsZero() && unready(before.node) == "" {
		now, lacks := e.checkServices(ctx)
		r.services = lacks == ""
		if age, ok := before.ofKubeletStartedWithin(e.clock.Now().Sub(since), now); r.services && ok {
			r.reported, r.seen = true, e.clock.Now().Add(-age)
		}
	}
	return r, nil
}

// soFar is what a Node lacks that is ready, and has not been so for long enough.
const soFar = "It is ready so far"

// lookAgain is how old what the API server said of a Node may be at most while the cache says nothing else.
const lookAgain = 30 * time.Second

// lacks looks again, and says what the Node lacks to have been ready for a while. Empty: nothing. As many hosts may be waited for at a time, the API server
// is asked for the Node when that may make a difference, and each half minute.
func (r *readiness) lacks(ctx context.Context, e *execution, settle time.Duration) (lacks string, err error) {
	report := kubeletReport{}
	if e.clock.Now().Sub(r.asked) < lookAgain {
		if lacks, err = r.glance(ctx, e, &report, settle); err != nil || lacks != "" {
			return lacks, err
		}
	}
	if report.node, err = e.readNode(ctx, e.operation().Node.Name); err != nil {
		return "", err
	}
	now, configures := e.clock.Now(), e.operation().Type == v1alpha1.OperationReconfigure
	r.last, r.asked = report.node, now
	switch {
	case report.node != nil || !configures:
		r.gone = time.Time{}
	case r.gone.IsZero():
		r.gone = now
	case now.Sub(r.gone) >= registration:
		return "", errNodeDeleted
	}
	if lacks, err = r.take(ctx, e, &report, settle); err != nil || lacks == soFar {
		return lacks, err
	}
	checked := r.services
	r.services = false
	if lacks == "" && e.operation().Type != v1alpha1.OperationReboot && !checked {
		// For a while a Node looks ready although a service has just stopped.
		if _, lacks = e.checkServices(ctx); lacks != "" {
			r.since = time.Time{}
		}
	}
	return lacks, nil
}

// glance says what the Node lacks if the API server need not be asked for it: the cache has it as not ready, or as it was when it
// was asked last, and ready. A cache that is behind has it otherwise. Empty: the API server has to be asked.
func (r *readiness) glance(ctx context.Context, e *execution, report *kubeletReport, settle time.Duration) (lacks string, err error) {
	cached, err := e.cachedNode(ctx)
	if err != nil || cached == nil {
		return "", err
	}
	if lacks = unready(cached); lacks != "" {
		now := e.clock.Now()
		r.look(now)
		r.lost(now, cached)
		return lacks, nil
	}
	if unready(r.last) != "" || !heartbeat(cached).Equal(heartbeat(r.last)) {
		return "", nil
	}
	report.node = r.last
	return r.take(ctx, e, report, settle)
}

// take takes in what the Node of the report says, and the Lease, unless that was read already.
func (r *readiness) take(ctx context.Context, e *execution, report *kubeletReport, settle time.Duration) (lacks string, err error) {
	if unready(report.node) == "" && report.renewed.IsZero() {
		if report.renewed, err = e.leaseRenewal(ctx); err != nil {
			return "", err
		}
	}
	now := e.clock.Now()
	if lacks = r.observe(now, report.node, report.newest()); lacks == "" && now.Sub(r.since) < settle {
		lacks = soFar
	}
	return lacks, nil
}

// settle is for how long the Node must stay ready for what was done to count as a success.
func (e *execution) settle(ctx context.Context) (time.Duration, error) {
	if !e.disturbed() {
		return 0, nil
	}
	pool, err := e.pool(ctx)
	if err != nil {
		return 0, fmt.Errorf("reading for how long Nodes of the pool must stay ready: %w", err)
	}
	if pool != nil && pool.Spec.UpdateStrategy.RollingUpdate.SettleSeconds != nil {
		return time.Duration(*pool.Spec.UpdateStrategy.RollingUpdate.SettleSeconds) * time.Second, nil
	}
	return e.Settle, nil
}

// disturbed says whether pods of the Node may have been disturbed by what was done.
func (e *execution) disturbed() bool {
	op := e.operation()
	if op.Type == v1alpha1.OperationReboot || op.Type == v1alpha1.OperationRestartServices {
		return true
	}
	join := op.FindStep(v1alpha1.StepJoin)
	return e.touched() && op.Impact != v1alpha1.ImpactNone && (join == nil || join.State != v1alpha1.StepSucceeded)
}

// bootTime is when the host was started, by its own clock, if the operation has restarted
// it. Otherwise it is zero.
func (e *execution) bootTime(ctx context.Context, deadline time.Time) (time.Time, error) {
	op := e.operation()
	if op.BootID == "" {
		return time.Time{}, nil
	}
	facts, err := ask(ctx, e.clock, deadline, askTimeout, e.readFacts)
	if err != nil {
		return time.Time{}, e.blame(ctx, "the host does not report when it was started", err)
	}
	return facts.Boot.Time, nil
}

// kubeletReport is what the kubelet of a Node said last.
type kubeletReport struct {
	// node is nil if it does not exist.
	node *corev1.Node
	// renewed is when it renewed the Lease of the Node, by the clock of the host. Zero: never.
	renewed time.Time
}

// newest names the report: the heartbeat, and the renewal of the Lease. It is compared with earlier ones for being
// another, so that it does not matter how the clocks of the host and of others differ.
func (r kubeletReport) newest() string {
	return heartbeat(r.node).Format(time.RFC3339Nano) + " " + r.renewed.Format(time.RFC3339Nano)
}

// kubeletReport reads the Node of the operation and the newest report of its kubelet. Another Node
// of its name is taken for it, because a host that comes back may have registered again.
func (e *execution) kubeletReport(ctx context.Context) (r kubeletReport, err error) {
	if r.node, err = e.readNode(ctx, e.operation().Node.Name); err != nil || r.node == nil {
		return r, err
	}
	r.renewed, err = e.leaseRenewal(ctx)
	return r, err
}

// leaseRenewal reads when the kubelet last renewed the Lease of the Node. Zero: never.
func (e *execution) leaseRenewal(ctx context.Context) (renewed time.Time, err error) {
	name := e.operation().Node.Name
	err = retryAPI(ctx, e.clock, "Reading the Lease of the Node", isFinal, func() error {
		lease, err := e.Kube.CoordinationV1().Leases(corev1.NamespaceNodeLease).Get(ctx, name, metav1.GetOptions{})
		if err == nil && lease.Spec.RenewTime != nil {
			renewed = lease.Spec.RenewTime.UTC()
		}
		return err
	})
	if err != nil && !apierrors.IsNotFound(err) {
		return renewed, fmt.Errorf("reading the Lease of Node %s: %w", name, err)
	}
	return renewed, nil
}

// lastChange is when the step began that has changed the host, if that was the last thing that was done to it. Zero: Windows was restarted, whose clock may
// be set then, or services were restarted after the kubelet for what needs the Node, or nobody knows.
func (e *execution) lastChange() time.Time {
	op := e.operation()
	apply, network := op.FindStep(v1alpha1.StepApply), op.FindStep(v1alpha1.StepNetwork)
	if op.Type != v1alpha1.OperationReconfigure || op.BootID != "" || apply == nil || apply.StartedAt == nil || network == nil || network.State != v1alpha1.StepSkipped {
		return time.Time{}
	}
	return apply.StartedAt.Time
}

// renewal is for how long a kubelet that works does not renew the Lease of its Node, and a little more.
const renewal = 12 * time.Second

// ofKubeletStartedWithin says whether a kubelet that was started within a time before the host was asked for facts has made the
// report, and how old that is: it renewed the Lease and said whether its Node is ready. All of these times are of the clock of the host. One that
// was set meanwhile says nothing: no time may be later than that of the facts.
func (r kubeletReport) ofKubeletStartedWithin(since time.Duration, facts *api.Facts) (age time.Duration, ok bool) {
	kubelet := facts.Service(wmco.KubeletService)
	if kubelet == nil || kubelet.StartedAt == nil || r.node == nil {
		return 0, false
	}
	now, started, said := facts.Time.Now, *kubelet.StartedAt, heartbeat(r.node)
	age = now.Sub(r.renewed)
	return age, now.Sub(started) <= since && !r.renewed.Before(started) && age >= 0 && age < renewal &&
		!said.Before(started.Truncate(time.Second)) && !said.After(now) // it has whole seconds
}

// registration is how long a kubelet that was just restarted may take to register its Node. One that runs
// already does not register again when the Node is deleted.
const registration = time.Minute

// errNodeDeleted has the operation end, so that the next one has the host join again.
var errNodeDeleted = errors.New("the Node was deleted meanwhile, and its kubelet has not registered again; the host is configured again, so that it joins the cluster again")

// kubeletWatch knows for how long a Node has been ready whose kubelet reports. It does no I/O.
type kubeletWatch struct {
	// boot is when the host was restarted, by its own clock. Zero: it was not.
	boot time.Time
	// heartbeat is the one before the first look.
	heartbeat time.Time
	// newest is the newest report of a Node that was ready, and seen when it came. reported: one came since the first look.
	newest   string
	seen     time.Time
	reported bool
	// since is from when on the Node has been ready. Zero: it is not.
	since time.Time
	// looked is the last look, and resumed the last one before which nobody could look for a while. Zero: there was none.
	looked, resumed time.Time
	// awaited: no report has come since then.
	awaited bool
}

// look notes that a Node is looked at. If nobody could look for a while, no kubelet could report either: it has its time from now on, and must report
// before the Node counts as ready.
func (w *kubeletWatch) look(now time.Time) {
	if !w.looked.IsZero() && now.Sub(w.looked) >= kubeletSilence {
		w.resumed = now
		if w.reported {
			w.seen, w.awaited = now, true
		}
	}
	w.looked = now
}

// lost has the Node not be ready from now on, unless it is only lost since an outage of the API server that has been over for less than lostAfter:
// kube-controller-manager may have looked before the kubelet could report.
func (w *kubeletWatch) lost(now time.Time, node *corev1.Node) {
	if node != nil && !w.resumed.IsZero() && now.Sub(w.resumed) < lostAfter {
		if ready := object.NodeReady(node); ready != nil && ready.Status == corev1.ConditionUnknown {
			return
		}
	}
	w.since = time.Time{}
}

// readyFor is for how long the Node has been ready, as of the last look.
func (w *kubeletWatch) readyFor(now time.Time) time.Duration {
	if w.since.IsZero() {
		return 0
	}
	return now.Sub(w.since)
}

// observe takes in what the Node says now, and returns what is lacking, empty if it is ready.
func (w *kubeletWatch) observe(now time.Time, node *corev1.Node, report string) (lacks string) {
	w.look(now)
	defer func() {
		switch {
		case lacks == sinceOutage:
		case lacks != "":
			w.lost(now, node)
		case w.since.IsZero():
			w.since = now
		}
	}()
	if lacks := unready(node); lacks != "" {
		return lacks // that it becomes ready is a report
	}
	if report != w.newest {
		w.newest, w.seen, w.reported, w.awaited = report, now, true, false
	}
	switch {
	case heartbeat(node).Before(w.boot.Truncate(time.Second)) && heartbeat(node).Equal(w.heartbeat): // it has whole seconds
		return "Its kubelet has not reported since the restart"
	case !w.reported:
		return "Its kubelet has not reported since the last change"
	case now.Sub(w.seen) >= kubeletSilence:
		return fmt.Sprintf("Its kubelet has not reported for %s", kubeletSilence)
	case w.awaited:
		return sinceOutage
	}
	return ""
}

// sinceOutage is what a Node lacks whose kubelet is expected to report. It has been ready until something else is known.
const sinceOutage = "Its kubelet has not reported since the API server was away"

// heartbeat is when the kubelet last said, by the clock of its host, whether the Node is ready. Zero: never, or there is no Node.
func heartbeat(node *corev1.Node) time.Time {
	if node == nil {
		return time.Time{}
	}
	if ready := object.NodeReady(node); ready != nil {
		return ready.LastHeartbeatTime.Time
	}
	return time.Time{}
}

// unready says what a Node lacks to be ready, empty if nothing.
func unready(node *corev1.Node) string {
	if node == nil {
		return "The Node does not exist any more"
	}
	ready := object.NodeReady(node)
	switch {
	case ready == nil:
		return "It has no condition Ready"
	case ready.Status != corev1.ConditionTrue:
		return fmt.Sprintf("Ready is %s: %s", ready.Status, ready.Message)
	}
	return ""
}
