// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package rollout

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"pgregory.net/rapid"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/controller/internal/object"
	"github.com/openshift/windows-instance-api/pkg/drain"
)

// cluster has the objects of a fleet, a [Scheduler] that reads and writes them, and a [Reconciler] that keeps the status of the pools. Its
// clock is that of a bubble of synctest.
type cluster struct {
	t rapid.TB
	// draw returns a number from 0 to n-1.
	draw func(what string, n int) int
	// pace is how finely time goes by.
	pace        clusterPace
	disruptions int
	pools       []*simulatedPool
	members     []*member
	byKey       map[types.NamespacedName]*member
	version     int
	// inputs counts the changes of what all hosts get from the cluster.
	inputs int
	// kept has the ControllerRevisions, and nameOf has their names by what hosts are to have with them, which wantedAs has by their names.
	kept             map[types.NamespacedName]*appsv1.ControllerRevision
	nameOf, wantedAs map[string]string
	// disturbed counts the members that are drained or restarted.
	disturbed int
	// well: from now on nothing breaks.
	well bool

	scheduler  *Scheduler // nil: the controller is away
	reconciler *Reconciler
	stop       func()
	// asked: something has changed that the scheduler watches. answered: a host has said what its update costs. due is when it wants to decide again. Zero: it does not.
	asked    bool
	answered atomic.Bool
	due      time.Time
	// rests: it rests, so that what it says may be about what was. passed is when the last pass was.
	rests  bool
	passed time.Time
	// cached has the instances as the cache has them. Nil: as they are.
	cached []*v1alpha1.WindowsInstance
	// loses: the answer of the API server to the next write is lost.
	loses bool
}

// member is a host of the fleet. Its objects are replaced and not changed, as others may have them.
type member struct {
	key      types.NamespacedName
	in       *simulatedPool
	instance *v1alpha1.WindowsInstance // nil: gone
	node     *corev1.Node              // nil: there is none
	// costs is what its update costs, and says what it says of that. refuses: it does not answer.
	costs, says v1alpha1.ChangeImpact
	refuses     bool
	// down: its kubelet does not report.
	down bool
	// next is when its operation goes on. Zero: when something has happened.
	next time.Time
	// boots counts restarts of Windows, and repairs attempts to repair it, for what each was asked for.
	boots, repairs map[string]int
	// restartAsked and configurationAsked are names of what annotations of its Node asked for last, and late that of what it was restarted for
	// with nobody seeing it, as it was back too late.
	restartAsked, configurationAsked, late string
	// pendingSince and downSince are names of what asks for a restart, and for a repair.
	pendingSince, downSince string
	// has is what it is configured with. Empty: with half of something. failed: an update did that, and none has succeeded since. broke: one
	// that cost its workload something. worked is the template of its pool that it had last, and got since when it has what it has.
	has, worked   string
	failed, broke bool
	got           time.Time
	// updatedBy is the operation that was the last to configure it with success, if that cost its workload something, and updatedAt when it ended.
	// attempted is when one was asked for since that has changed it and failed.
	updatedBy            string
	updatedAt, attempted time.Time
	// lacksSince is since when something else is wanted of it than before.
	lacksSince time.Time
	// changed is when it was changed or restarted last, booted when Windows was started last, and downAt when its Node went down last.
	changed, booted, downAt time.Time
	// updatesSince is a name of the updates of Windows that it has found, and installs of those that were installed last. Empty: there are none.
	updatesSince, installs string
	// granted is what the scheduler has let its operation do.
	granted granted
	// counted is what the sums have of it.
	counted standing
}

// clusterPace is how finely time goes by. Zero: as it may in a real cluster.
type clusterPace struct {
	// step: the controller of operations goes on at multiples of it only, with all hosts together. Zero: when something is done.
	step time.Duration
	// rest is how long it takes at least between two passes of the scheduler, and from a change of a host to the status of its pool.
	rest time.Duration
	// luck is how many times as rarely something goes wrong. Zero: as often.
	luck int
}

// standing is what counts of a member.
type standing struct{ there, away, disturbed bool }

var nodeReadiness = map[bool]corev1.ConditionStatus{true: corev1.ConditionTrue, false: corev1.ConditionFalse}

// start has a controller begin, which knows nothing but the objects.
func (c *cluster) start() {
	c.scheduler = NewScheduler(clusterClient{c: c}, Options{
		Disruptions: c.disruptions, Recorder: &record.FakeRecorder{},
		Update: updateOfMember,
		Impact: func(_ context.Context, i *v1alpha1.WindowsInstance) (v1alpha1.ChangeImpact, string, error) {
			m := c.byKey[client.ObjectKeyFromObject(i)]
			if m.refuses {
				return "", "", errors.New("the host is off")
			}
			return m.says, i.Status.DesiredRevision, nil
		},
	})
	c.scheduler.asker.notify = func(context.Context) { c.answered.Store(true) }
	c.startReconciler()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- c.scheduler.asker.Start(ctx) }()
	c.stop = func() {
		cancel()
		if err := <-ended; err != nil {
			c.t.Error(err)
		}
		c.scheduler, c.reconciler = nil, nil
	}
	c.asked, c.passed = true, time.Time{}
}

// updateOfMember is what the controller of instances says about updates, as far as it matters here.
func updateOfMember(i *v1alpha1.WindowsInstance, pool *v1alpha1.WindowsNodePool, _ time.Time) (time.Time, bool) {
	s := &i.Status
	if s.Operation.Active() && !s.GivesWay() || s.CurrentRevision == s.DesiredRevision || !i.DeletionTimestamp.IsZero() || s.Node == nil || object.PausedBy(i, pool) != "" || s.ObservedGeneration != i.Generation {
		return time.Time{}, false
	}
	if op := s.NewestOperation(v1alpha1.OperationReconfigure); op.BrokenOff() && op.Revision == s.DesiredRevision && !op.Withdrawn() {
		return op.FinishedAt.Add(5 * time.Minute), true
	}
	return time.Time{}, true
}

// pass makes one pass, and has all hosts answer that were asked.
func (c *cluster) pass() {
	if c.rests = c.scheduler.pace.rest(time.Now()) > 0; time.Since(c.passed) < c.pace.rest {
		c.asked, c.due, c.rests = false, c.passed.Add(c.pace.rest), true
		return
	}
	c.asked, c.due, c.passed = false, time.Time{}, time.Now()
	result, err := c.scheduler.Reconcile(context.Background(), reconcile.Request{})
	synctest.Wait()
	switch {
	case err != nil && !errors.Is(err, errLost):
		c.t.Fatal(err)
	case err != nil:
		c.asked = true
	case c.pace.step > 0 && result.RequeueAfter == maxPause/2: // nothing was missed
		c.due = c.scheduler.last.again
	case result.RequeueAfter > 0:
		c.due = time.Now().Add(result.RequeueAfter)
	}
}

// after is when something is done that takes as long.
func (c *cluster) after(d time.Duration) time.Time {
	done := time.Now().Add(d)
	if step := c.pace.step; step > 0 && d > 0 && !done.Truncate(step).Equal(done) {
		return done.Truncate(step).Add(step)
	}
	return done
}

// run lets time go by. A controller that is there does what it is woken for, and nothing else.
func (c *cluster) run(d time.Duration) {
	for end := time.Now().Add(d); ; {
		c.work()
		next := end
		if c.scheduler != nil {
			for _, m := range c.members {
				next = earlier(next, m.next)
			}
			for _, p := range c.pools {
				next = earlier(next, p.due)
			}
			next = earlier(next, c.due)
		}
		ends := !time.Now().Before(end)
		c.audit(ends)
		if ends {
			return
		}
		if !next.After(time.Now()) {
			c.t.Fatalf("it goes on without an end at %s", time.Now())
		}
		<-time.After(time.Until(next))
	}
}

// work does what is due now.
func (c *cluster) work() {
	for range 10000 {
		busy := false
		if c.scheduler == nil {
			return
		}
		if c.answered.Swap(false) || c.asked || !c.due.IsZero() && !c.due.After(time.Now()) {
			busy = true
			c.pass()
		}
		for _, p := range c.pools {
			busy = c.reconcile(p) || busy
		}
		for _, m := range c.members {
			busy = c.proceed(m) || busy
		}
		if !busy {
			return
		}
	}
	c.t.Fatal("the controller never rests")
}

func compareKeys(a, b types.NamespacedName) int {
	return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
}

func (c *cluster) poolOf(m *member) *v1alpha1.WindowsNodePool { return m.in.object }

// count keeps the sums after a member has changed: what judges each write must not look at all others.
func (c *cluster) count(m *member) {
	is, was := m.stands(), m.counted
	m.counted = is
	m.in.size += number(is.there) - number(was.there)
	m.in.away += number(is.away) - number(was.away)
	c.disturbed += number(is.disturbed) - number(was.disturbed)
}

func (m *member) stands() standing {
	return standing{there: m.instance != nil, away: m.outOfService(), disturbed: m.instance != nil && m.disturbed()}
}

func number(is bool) int {
	if is {
		return 1
	}
	return 0
}

// setNode replaces the Node of a member, nil for none.
func (c *cluster) setNode(m *member, node *corev1.Node) {
	m.node = node
	c.count(m)
}

// leave has a member be gone.
func (c *cluster) leave(m *member) {
	c.gather(m.in)
	m.next, m.node, m.instance, c.asked = time.Time{}, nil, nil, true
	c.count(m)
}

// edit changes what is stored of an instance.
func (c *cluster) edit(m *member, change func(*v1alpha1.WindowsInstance)) {
	before := m.instance
	changed := before.DeepCopy()
	change(changed)
	c.store(m, changed)
}

func (c *cluster) store(m *member, changed *v1alpha1.WindowsInstance) {
	before := m.instance
	c.version++
	changed.ResourceVersion = strconv.Itoa(c.version)
	m.instance = changed
	c.count(m)
	c.gather(m.in)
	if was, is := before.Status.Operation, changed.Status.Operation; is != nil && (was == nil || was.ID != is.ID || was.Phase != is.Phase || was.AdmittedImpact != is.AdmittedImpact) {
		c.t.Logf("%s %s: %s %s %s, admitted %q", time.Now().Format(time.DateTime), m.key, is.ID, is.Cause, is.Phase, is.AdmittedImpact)
	}
	c.asked = c.asked || decisive.Update(event.UpdateEvent{ObjectOld: before, ObjectNew: changed})
}

// editNode changes a Node. The condition of its instance follows, unless nobody is there to write it.
func (c *cluster) editNode(m *member, change func(*corev1.Node)) {
	before := m.node
	changed := before.DeepCopy()
	change(changed)
	c.setNode(m, changed)
	c.t.Logf("%s %s: ready %v, cordoned %v %v", time.Now().Format(time.DateTime), m.key, m.ready(), changed.Spec.Unschedulable, changed.Annotations)
	c.asked = c.asked || nodeChanges.Update(event.UpdateEvent{ObjectOld: before, ObjectNew: changed})
	if c.scheduler != nil {
		c.observe(m)
	}
}

// observe writes what the controller of instances sees of a Node.
func (c *cluster) observe(m *member) {
	if m.instance == nil {
		return
	}
	want := metav1.Condition{Type: v1alpha1.ConditionNodeReady, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonNodeReady}
	switch {
	case m.node == nil:
		want.Status, want.Reason = metav1.ConditionFalse, v1alpha1.ReasonNoNode
	case !m.ready():
		want.Status, want.Reason = metav1.ConditionFalse, v1alpha1.ReasonNodeNotReady
	}
	known := meta.FindStatusCondition(m.instance.Status.Conditions, want.Type)
	if known.Status == want.Status && known.Reason == want.Reason && (m.node == nil) == (m.instance.Status.Node == nil) {
		return
	}
	c.edit(m, func(i *v1alpha1.WindowsInstance) {
		meta.SetStatusCondition(&i.Status.Conditions, want)
		meta.SetStatusCondition(&i.Status.Conditions, metav1.Condition{Type: v1alpha1.ConditionReady, Status: want.Status, Reason: want.Reason})
		if i.Status.Node = nil; m.node != nil {
			i.Status.Node = &v1alpha1.NodeReference{Name: m.node.Name, UID: m.node.UID}
		}
	})
}

func (m *member) ready() bool {
	return m.node != nil && m.node.Status.Conditions[0].Status == corev1.ConditionTrue
}

func (m *member) marked() bool {
	return m.node != nil && m.node.Annotations[v1alpha1.CordonedByAnnotation] != ""
}

// drained says whether a person has drained a Node with an operation.
func (m *member) drained() bool { return m.drainedBy() != "" }

// drainedBy is the ID of the operation by which a person has drained a Node. Empty: nobody has.
func (m *member) drainedBy() string {
	if m.node == nil {
		return ""
	}
	id, rest, _ := strings.Cut(m.node.Annotations[v1alpha1.CordonedByAnnotation], " ")
	if rest != drain.AskedForBy("alice") {
		return ""
	}
	return id
}

// setReady has the Node say whether it is ready.
func (c *cluster) setReady(m *member, ready bool) {
	if m.node == nil || m.ready() == ready {
		return
	}
	if !ready {
		m.downAt, m.downSince = time.Now(), time.Now().String()
	}
	c.editNode(m, func(n *corev1.Node) { n.Status.Conditions[0].Status = nodeReadiness[ready] })
}

// outOfService says whether the Node of a member takes no pods, or is about to.
func (m *member) outOfService() bool {
	if m.instance == nil {
		return false
	}
	if m.node == nil {
		return m.instance.DeletionTimestamp.IsZero()
	}
	return !m.ready() || m.node.Spec.Unschedulable || m.disturbed() || m.isRemoved()
}

// isRemoved says whether its removal has begun. Until then it works.
func (m *member) isRemoved() bool {
	op := m.instance.Status.Operation
	return op.Active() && op.Type == v1alpha1.OperationRemove && op.AdmittedImpact != ""
}

// serves says whether the Node of a member is out of service only because somebody has cordoned it, so that its pods go on. That somebody has drained
// it is known for as long as the history has the operation.
func (m *member) serves() bool {
	if m.instance == nil || m.marked() && (!m.drained() || slices.ContainsFunc(m.instance.Status.OperationList(), func(op *v1alpha1.Operation) bool { return op.ID == m.drainedBy() })) {
		return false
	}
	return m.ready() && meta.IsStatusConditionTrue(m.instance.Status.Conditions, v1alpha1.ConditionNodeReady) && m.node.Spec.Unschedulable && !m.broke && !m.disturbed() && !m.counted.disturbed &&
		!m.isRemoved()
}

// disturbed says whether its operation may drain it, and has not given it back.
func (m *member) disturbed() bool {
	op := m.instance.Status.Operation
	if !op.Active() || ended(op, v1alpha1.StepUncordon) {
		return false
	}
	switch {
	case op.Type == v1alpha1.OperationReboot && op.Cause != v1alpha1.CauseWindowsUpdates:
		return true
	case ended(op, v1alpha1.StepPlan) && slotOf(op.Impact) != slotDisruption:
		return false
	}
	return slotOf(op.AdmittedImpact) == slotDisruption
}

// errLost is the answer to a write that is lost.
var errLost = errors.New("the connection was lost")

// clusterClient is what the scheduler knows of a cluster.
type clusterClient struct {
	client.Client
	c *cluster
}

// List implements [client.Reader].
func (l clusterClient) List(_ context.Context, list client.ObjectList, options ...client.ListOption) error {
	var of client.ListOptions
	of.ApplyOptions(options)
	switch list := list.(type) {
	case *v1alpha1.WindowsNodePoolList:
		for _, p := range l.c.pools {
			list.Items = append(list.Items, *p.object)
		}
	case *appsv1.ControllerRevisionList:
		for _, kept := range l.c.kept {
			if kept.Namespace == of.Namespace && of.LabelSelector.Matches(labels.Set(kept.Labels)) {
				list.Items = append(list.Items, *kept)
			}
		}
	case *corev1.NodeList:
		list.Items = slices.Grow(list.Items, len(l.c.members))
		for _, m := range l.c.members {
			if m.node != nil {
				list.Items = append(list.Items, *m.node)
			}
		}
	case *v1alpha1.WindowsInstanceList:
		instances := l.c.cached
		if p := l.c.poolIn(of); p != nil {
			instances = p.instances(instances)
		} else if instances == nil {
			instances = l.c.instances()
		}
		list.Items = slices.Grow(list.Items, len(instances))
		for _, i := range instances {
			list.Items = append(list.Items, *i)
		}
	default:
		return fmt.Errorf("it lists %T", list)
	}
	return nil
}

func (c *cluster) instances() []*v1alpha1.WindowsInstance {
	var all []*v1alpha1.WindowsInstance
	for _, m := range c.members {
		if m.instance != nil {
			all = append(all, m.instance)
		}
	}
	return all
}

// Status implements [client.Client].
func (l clusterClient) Status() client.SubResourceWriter { return clusterStatus{c: l.c} }

type clusterStatus struct {
	client.SubResourceWriter
	c *cluster
}

// Update implements [client.SubResourceWriter].
func (w clusterStatus) Update(_ context.Context, obj client.Object, _ ...client.SubResourceUpdateOption) error {
	i, ok := obj.(*v1alpha1.WindowsInstance)
	if !ok {
		return fmt.Errorf("it writes %T", obj)
	}
	m, resource := w.c.byKey[client.ObjectKeyFromObject(i)], v1alpha1.Resource("windowsinstances")
	switch {
	case m.instance == nil:
		return apierrors.NewNotFound(resource, i.Name)
	case m.instance.ResourceVersion != i.ResourceVersion:
		return apierrors.NewConflict(resource, i.Name, errors.New("it has changed"))
	}
	w.c.judge(m, i)
	w.c.store(m, i.DeepCopy())
	m.next = w.c.after(time.Second)
	if w.c.loses {
		w.c.loses = false
		return errLost
	}
	return nil
}
