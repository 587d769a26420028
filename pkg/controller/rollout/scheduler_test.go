// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package rollout

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/tools/record"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/controller/internal/leading"
)

// scheduled is a scheduler with a cache and hosts of its own.
type scheduled struct {
	*Scheduler
	t      *testing.T
	client client.Client
	events *record.FakeRecorder
	// says is what hosts say that their update costs, and refuses why they do not.
	says    map[string]v1alpha1.ChangeImpact
	refuses error
	// stale is what the cache has in place of what is stored. Nil: it is not behind.
	stale *v1alpha1.WindowsInstanceList
	// fail is what the next write of a status fails with.
	fail error
	// failing are what writes of the status of instances fail with, by name.
	failing map[string]error
	// late is what writes of a status end with after they were done.
	late error
	// pools are those that were told of a change.
	pools []string
}

func newScheduled(t *testing.T, says map[string]v1alpha1.ChangeImpact, objects ...client.Object) *scheduled {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	if err := corev1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	f := &scheduled{t: t, says: says, events: record.NewFakeRecorder(100)}
	objects = append(objects, nodesOf(objects)...)
	f.client = fake.NewClientBuilder().WithScheme(scheme).WithStatusSubresource(&v1alpha1.WindowsInstance{}).WithObjects(objects...).
		WithInterceptorFuncs(interceptor.Funcs{
			List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, o ...client.ListOption) error {
				if into, ok := list.(*v1alpha1.WindowsInstanceList); ok && f.stale != nil {
					f.stale.DeepCopyInto(into)
					return nil
				}
				return c.List(ctx, list, o...)
			},
			SubResourceUpdate: func(ctx context.Context, c client.Client, sub string, o client.Object, opts ...client.SubResourceUpdateOption) error {
				if err := f.fail; err != nil {
					f.fail = nil
					return err
				}
				if err := f.failing[o.GetName()]; err != nil {
					return err
				}
				return errors.Join(c.SubResource(sub).Update(ctx, o, opts...), f.late)
			},
		}).Build()
	f.Scheduler = NewScheduler(f.client, Options{
		Disruptions: 1, Recorder: f.events,
		Update: func(i *v1alpha1.WindowsInstance, _ *v1alpha1.WindowsNodePool, _ time.Time) (time.Time, bool) {
			return time.Time{}, !i.Status.Operation.Active() && i.Status.CurrentRevision != i.Status.DesiredRevision
		},
		Impact: func(_ context.Context, i *v1alpha1.WindowsInstance) (v1alpha1.ChangeImpact, string, error) {
			return f.says[i.Name], i.Status.DesiredRevision, f.refuses
		},
	})
	f.notifyPool = func(_ context.Context, pool types.NamespacedName) { f.pools = append(f.pools, pool.Name) }
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- f.asker.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return f
}

// nodesOf are the Nodes of instances that are not among the objects. They are ready.
func nodesOf(objects []client.Object) []client.Object {
	has := sets.New[string]()
	for _, o := range objects {
		if node, ok := o.(*corev1.Node); ok {
			has.Insert(node.Name)
		}
	}
	var missing []client.Object
	for _, o := range objects {
		i, ok := o.(*v1alpha1.WindowsInstance)
		if !ok || i.Status.Node == nil || has.Has(i.Status.Node.Name) {
			continue
		}
		has.Insert(i.Status.Node.Name)
		missing = append(missing, newNode(i.Status.Node.Name, i.Status.Node.UID, corev1.ConditionTrue))
	}
	return missing
}

// newNode is the Node of a Windows host, which says whether it is ready.
func newNode(name string, uid types.UID, ready corev1.ConditionStatus) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: uid, Labels: map[string]string{corev1.LabelOSStable: string(corev1.Windows)}},
		Status:     corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready}}},
	}
}

// pass makes a pass, and waits until all hosts have answered that it asked.
func (f *scheduled) pass() reconcile.Result {
	f.t.Helper()
	result, err := f.Reconcile(f.t.Context(), reconcile.Request{})
	if err != nil {
		f.t.Fatal(err)
	}
	synctest.Wait()
	return result
}

func (f *scheduled) operation(name string) *v1alpha1.Operation {
	f.t.Helper()
	return f.operationIn("ns", name)
}

func (f *scheduled) operationIn(namespace, name string) *v1alpha1.Operation {
	f.t.Helper()
	return f.getIn(namespace, name).Status.Operation
}

func (f *scheduled) get(name string) *v1alpha1.WindowsInstance {
	f.t.Helper()
	return f.getIn("ns", name)
}

func (f *scheduled) getIn(namespace, name string) *v1alpha1.WindowsInstance {
	f.t.Helper()
	i := &v1alpha1.WindowsInstance{}
	if err := f.client.Get(f.t.Context(), types.NamespacedName{Namespace: namespace, Name: name}, i); err != nil {
		f.t.Fatal(err)
	}
	return i
}

// needsUpdate is a Node of pool p that works with r1 and is to have r2.
func needsUpdate(name string) *v1alpha1.WindowsInstance {
	i := &v1alpha1.WindowsInstance{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name)}}
	i.Spec.PoolRef = &v1alpha1.PoolReference{Name: "p"}
	i.Status.Node, i.Status.CurrentRevision, i.Status.DesiredRevision = &v1alpha1.NodeReference{Name: name}, "r1", "r2"
	i.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionNodeReady, Status: metav1.ConditionTrue}}
	return i
}

// TestSchedule: hosts are asked first, and then get operations with what they said, one after the other. Why the
// others wait is known.
func TestSchedule(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newScheduled(t, map[string]v1alpha1.ChangeImpact{"a": v1alpha1.ImpactDrain, "b": v1alpha1.ImpactDrain, "c": v1alpha1.ImpactNone}, needsUpdate("a"), needsUpdate("b"), needsUpdate("c"))
		f.pass()
		if op := f.operation("a"); op != nil {
			t.Fatalf("it was not asked, and has %+v", op)
		}
		f.pass()
		op := f.operation("a")
		if op == nil || op.Type != v1alpha1.OperationReconfigure || op.Phase != v1alpha1.OperationPending || op.Origin != v1alpha1.OriginController || op.Revision != "r2" || op.AdmittedImpact != v1alpha1.ImpactDrain {
			t.Errorf("a has %+v", op)
		}
		if op := f.operation("c"); op == nil || op.AdmittedImpact != v1alpha1.ImpactNone {
			t.Errorf("c has %+v", op)
		}
		if op := f.operation("b"); op != nil {
			t.Errorf("b does not wait: %+v", op)
		}
		if got := <-f.events.Events; !strings.HasPrefix(got, "Normal RevisionChanged Configuring the host, which has revision r1, with revision r2.") {
			t.Errorf("event %q", got)
		}
		const want = "b: Waits for a slot: a of pool p is out of service (it is being changed)"
		if got := f.blockedBy(poolKey{"ns", "p"}); !strings.HasPrefix(got.text, want) || !strings.HasPrefix("b: "+f.WaitsFor(types.NamespacedName{Namespace: "ns", Name: "b"}), want) {
			t.Errorf("blocked by %q", got.text)
		}
		if len(f.pools) == 0 {
			t.Error("the pool was not told")
		}
	})
}

// TestScheduleWithACacheThatIsBehind: what was granted counts before the cache has it.
func TestScheduleWithACacheThatIsBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newScheduled(t, map[string]v1alpha1.ChangeImpact{"a": v1alpha1.ImpactDrain, "b": v1alpha1.ImpactDrain}, needsUpdate("a"), needsUpdate("b"))
		f.pass()
		before := &v1alpha1.WindowsInstanceList{}
		if err := f.client.List(t.Context(), before); err != nil {
			t.Fatal(err)
		}
		f.pass()
		f.stale = before
		f.pass()
		f.pass()
		if a, b := f.operation("a"), f.operation("b"); a == nil || b != nil {
			t.Errorf("a has %+v, b %+v", a, b)
		}
	})
}

// TestScheduleWhileANodeIsDown: what a Node says of itself counts before the condition of its instance has it, as in the first pass of
// a process: one more host out of service would be more than the pool allows.
func TestScheduleWhileANodeIsDown(t *testing.T) {
	stays := func(*v1alpha1.WindowsInstance) {}
	for name, tt := range map[string]struct {
		node  *corev1.Node
		edit  func(*v1alpha1.WindowsInstance)
		waits string
	}{
		"it is ready":                {newNode("b", "", corev1.ConditionTrue), stays, ""},
		"it is not ready":            {newNode("b", "", corev1.ConditionUnknown), stays, "b of pool p is out of service (its Node is not ready)"},
		"it does not say it":         {&corev1.Node{ObjectMeta: newNode("b", "", "").ObjectMeta}, stays, "b of pool p is out of service (its Node is not ready)"},
		"another one has taken over": {newNode("b", "another", corev1.ConditionTrue), stays, "b of pool p is out of service (its Node is gone)"},
		"it leaves and is not ready": {newNode("b", "", corev1.ConditionUnknown), deleting, "b of pool p is out of service (its Node is not ready, and its instance was deleted and is still there)"},
		// However long its removal fails, or waits for somebody who confirms it.
		"it leaves and is gone": {newNode("b", "another", corev1.ConditionTrue), deleting, ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				down := needsUpdate("b")
				down.Status.CurrentRevision = "r2"
				tt.edit(down)
				f := newScheduled(t, map[string]v1alpha1.ChangeImpact{"a": v1alpha1.ImpactDrain}, needsUpdate("a"), down, tt.node)
				f.pass()
				f.pass()
				if op, got := f.operation("a"), f.blockedBy(poolKey{"ns", "p"}).text; (op == nil) != (tt.waits != "") || !strings.Contains(got, tt.waits) {
					t.Errorf("a has %+v, the pool says %q", op, got)
				}
			})
		})
	}
}

// TestScheduleOfWhoDoesNotLead: a process that was stopped, and goes on, gives no slot, which its successor may have given to another host.
// It asks once for all hosts, and not where there is nothing to give.
func TestScheduleOfWhoDoesNotLead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		waits := needsUpdate("b")
		waits.Spec.PoolRef.Name = "q"
		waits.Status.Operation = &v1alpha1.Operation{
			ID: "op-1", Type: v1alpha1.OperationReconfigure, Phase: v1alpha1.OperationRunning, Impact: v1alpha1.ImpactReboot, Node: &v1alpha1.OperationNode{Name: "b"}, Steps: newSteps(),
		}
		waits.Status.Operation.FindStep(v1alpha1.StepWaitForSlot).State = v1alpha1.StepRunning
		f := newScheduled(t, map[string]v1alpha1.ChangeImpact{"a": v1alpha1.ImpactDrain}, needsUpdate("a"), waits)
		f.options.Disruptions = 2
		asked, leads, fails := 0, false, error(nil)
		f.options.Leads = func(context.Context) (bool, error) {
			asked++
			return leads, fails
		}
		f.pass()
		f.pass()
		if result := f.pass(); result.RequeueAfter != leading.AgainAfter || f.operation("a") != nil || f.operation("b").AdmittedImpact != "" {
			t.Errorf("a has %+v, b %+v; again after %s", f.operation("a"), f.operation("b"), result.RequeueAfter)
		}
		fails = errors.New("away")
		if _, err := f.Reconcile(t.Context(), reconcile.Request{}); !errors.Is(err, fails) || f.operation("a") != nil {
			t.Errorf("a has %+v, %v", f.operation("a"), err)
		}
		leads, fails, asked = true, nil, 0
		f.pass()
		if f.pass(); f.operation("a") == nil || f.operation("b").AdmittedImpact == "" || asked != 1 {
			t.Errorf("a has %+v, b %+v; it was asked %d times", f.operation("a"), f.operation("b"), asked)
		}
	})
}

// TestScheduleAfterAConflict: somebody else has written, so that it is decided anew.
func TestScheduleAfterAConflict(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newScheduled(t, map[string]v1alpha1.ChangeImpact{"a": v1alpha1.ImpactDrain}, needsUpdate("a"))
		f.pass()
		f.fail = apierrors.NewConflict(v1alpha1.Resource("windowsinstances"), "a", errors.New("changed"))
		if result := f.pass(); result.RequeueAfter != conflictDelay || f.operation("a") != nil {
			t.Errorf("it is decided again after %s", result.RequeueAfter)
		}
		f.fail = apierrors.NewNotFound(v1alpha1.Resource("windowsinstances"), "a")
		f.pass()
		f.fail = errors.New("storage is full")
		if _, err := f.Reconcile(t.Context(), reconcile.Request{}); err == nil {
			t.Error("it is not tried again")
		}
		<-time.After(unclearFor + refusedBackoff.Duration)
		f.pass() // it is asked again
		f.pass()
		if f.operation("a") == nil {
			t.Error("it was not written")
		}
	})
}

// TestScheduleWithoutAnAnswer: a host that does not say what its update costs is asked again after a minute, and
// says so meanwhile. One that says it for another revision than is wanted is asked again as well.
func TestScheduleWithoutAnAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newScheduled(t, map[string]v1alpha1.ChangeImpact{"a": v1alpha1.ImpactRestart}, needsUpdate("a"))
		f.refuses = errors.New("the host is off: read tcp 10.128.0.5:45321->10.1.42.5:22: timeout")
		f.pass()
		if result := f.pass(); result.RequeueAfter != askAgain || !strings.Contains(f.blockedBy(poolKey{"ns", "p"}).text, "What the update costs is not known: The host is off: read tcp 10.1.42.5:22: timeout.") {
			t.Errorf("again after %s: %s", result.RequeueAfter, f.blockedBy(poolKey{"ns", "p"}).text)
		}
		f.refuses = nil
		<-time.After(askAgain)
		f.pass()
		f.pass()
		if op := f.operation("a"); op == nil || op.AdmittedImpact != v1alpha1.ImpactRestart {
			t.Errorf("it has %+v", op)
		}
		if result := f.pass(); result.RequeueAfter != maxPause/2 { // nothing is to come, and there is a pass all the same
			t.Errorf("again after %s", result.RequeueAfter)
		}
		if got := f.blockedBy(poolKey{"ns", "p"}); got.text != "" {
			t.Errorf("it waits for %q", got.text)
		}
	})
}

// TestScheduleWithoutInputs: while nobody knows what hosts are to have, or hosts cannot say what that costs, their pool does not say that it
// goes on, nor that it is done: not for a moment only, and also while they are asked again.
func TestScheduleWithoutInputs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pool := &v1alpha1.WindowsNodePool{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p"}}
		named := func(name string) *v1alpha1.WindowsInstance {
			return edited(works(undetermined), func(i *v1alpha1.WindowsInstance) {
				i.Name, i.Status.Node = name, &v1alpha1.NodeReference{Name: name}
				meta.FindStatusCondition(i.Status.Conditions, v1alpha1.ConditionUpToDate).LastTransitionTime = metav1.Now()
			})
		}
		f := newScheduled(t, map[string]v1alpha1.ChangeImpact{"b": v1alpha1.ImpactDrain}, pool, named("a"), edited(named("b"), func(i *v1alpha1.WindowsInstance) { i.Status.DesiredRevision = "r3" }))
		f.refuses = errors.New("ConfigMap x is missing")
		for began := time.Now(); time.Since(began) < 10*time.Minute; {
			again := f.pass().RequeueAfter
			got, since := f.blockedBy(poolKey{"ns", "p"}), time.Since(began)
			if stuck := since >= planPatience; got.stays != (since >= awayPatience) || stuck && got.moves || strings.Contains(got.text, "a: It stays as it is. The desired configuration of the host cannot be worked out: ConfigMap x is missing.") != got.stays ||
				strings.Contains(got.text, "b: What the update costs is not known: ConfigMap x is missing.") != (since > 0) {
				t.Fatalf("after %s: %+v", since, got)
			}
			<-time.After(again)
		}
		f.refuses = nil
		<-time.After(askAgain)
		f.pass()
		f.pass()
		if got := f.blockedBy(poolKey{"ns", "p"}); f.operation("b") == nil || strings.Contains(got.text, "b: ") {
			t.Errorf("b has %+v, %+v", f.operation("b"), got)
		}
	})
}

// TestAdmit: an operation that costs more than was admitted is let go on when it may.
func TestAdmit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		instance := needsUpdate("a")
		instance.Status.Operation = &v1alpha1.Operation{
			ID: "op-1", Type: v1alpha1.OperationReconfigure, Phase: v1alpha1.OperationRunning, Origin: v1alpha1.OriginUser,
			Impact: v1alpha1.ImpactReboot, Node: &v1alpha1.OperationNode{Name: "a"}, Steps: newSteps(),
		}
		instance.Status.Operation.FindStep(v1alpha1.StepWaitForSlot).State = v1alpha1.StepRunning
		f := newScheduled(t, nil, instance)
		f.pass()
		if op := f.operation("a"); op.ID != "op-1" || op.AdmittedImpact != v1alpha1.ImpactReboot {
			t.Errorf("it has %+v", op)
		}
		if held, waiting := f.load(); held != 1 || waiting != 0 || len(f.events.Events) > 0 {
			t.Errorf("%d held, %d waiting, %d events", held, waiting, len(f.events.Events))
		}
	})
}

// TestScheduleARestart: what the pool asks for beside updates is recorded, announced, and counts before the cache has it.
func TestScheduleARestart(t *testing.T) {
	for _, tt := range []struct {
		name    string
		restart v1alpha1.PoolRestarts
		remedy  *v1alpha1.PoolRemediation
		edit    func(*v1alpha1.WindowsInstance)
		kind    v1alpha1.OperationType
		mode    v1alpha1.RebootMode
		event   string
	}{
		{"requested", v1alpha1.PoolRestarts{After: at(0)}, nil, func(*v1alpha1.WindowsInstance) {}, v1alpha1.OperationReboot, v1alpha1.RebootGraceful, "Normal RestartRequested "},
		{"pending", v1alpha1.PoolRestarts{Policy: v1alpha1.RestartWhenPending}, nil, pending, v1alpha1.OperationReboot, v1alpha1.RebootIfPending, "Normal RestartPending "},
		{"not ready", v1alpha1.PoolRestarts{}, &v1alpha1.PoolRemediation{MaxUnhealthy: new(intstr.FromString("100%"))}, condition(v1alpha1.ConditionNodeReady, metav1.ConditionFalse, v1alpha1.ReasonNodeNotReady, -time.Hour), v1alpha1.OperationRestartServices, "", "Warning Remediating "},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				pool := &v1alpha1.WindowsNodePool{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p"}, Spec: v1alpha1.WindowsNodePoolSpec{Restarts: tt.restart, Remediation: tt.remedy}}
				f := newScheduled(t, nil, pool, works(tt.edit), edited(works(tt.edit), func(i *v1alpha1.WindowsInstance) { i.Name = "b" }))
				now := clocktesting.NewFakePassiveClock(testNow.Add(-maxPause))
				f.clock = now
				if f.pass(); tt.remedy != nil { // a process that has just begun waits until what the Nodes say is not from before
					if op := f.operation("a"); op != nil {
						t.Fatalf("it has %+v at once", op)
					}
				}
				now.SetTime(testNow)
				f.pass()
				op := f.operation("a")
				if op == nil || op.Type != tt.kind || op.Origin != v1alpha1.OriginController || op.Cause == "" || (op.Reboot == nil) != (tt.mode == "") || op.Reboot != nil && op.Reboot.Mode != tt.mode {
					t.Fatalf("it has %+v", op)
				}
				if got := <-f.events.Events; !strings.HasPrefix(got, tt.event) {
					t.Errorf("event %q", got)
				}
				f.pass()
				if op := f.operation("b"); (op != nil) != (tt.kind == v1alpha1.OperationRestartServices) {
					t.Errorf("b has %+v", op)
				}
				if again := f.operation("a"); again.ID != op.ID {
					t.Errorf("it has %+v after %+v", again, op)
				}
			})
		})
	}
}

// TestRemovals: one host is removed after the other, and those whose removal was confirmed at once, also before the cache
// has what was written.
func TestRemovals(t *testing.T) {
	toRemove := func(name string) *v1alpha1.WindowsInstance {
		i := works()
		i.Name, i.UID, i.Finalizers, i.DeletionTimestamp = name, types.UID(name), []string{v1alpha1.HostFinalizer}, new(metav1.Now())
		i.Spec.PoolRef = &v1alpha1.PoolReference{Name: "pool"}
		i.Status.History, i.Status.Operation = nil, &v1alpha1.Operation{
			ID: "op-" + name, Type: v1alpha1.OperationRemove, Phase: v1alpha1.OperationRunning, StartedAt: new(metav1.Now()), Node: &v1alpha1.OperationNode{Name: name},
			Steps: []v1alpha1.OperationStep{{Name: v1alpha1.StepConnect, State: v1alpha1.StepSucceeded}, {Name: v1alpha1.StepWaitForSlot, State: v1alpha1.StepRunning}},
		}
		return i
	}
	const none, drains = v1alpha1.ImpactNone, v1alpha1.ImpactDrain
	anyPool := func(*v1alpha1.WindowsNodePool) {}
	ofMachine := func(i *v1alpha1.WindowsInstance) {
		i.OwnerReferences = []metav1.OwnerReference{{APIVersion: "machine.openshift.io/v1beta1", Kind: "Machine", Name: i.Name, UID: "m", Controller: new(true)}}
	}
	for _, tt := range []struct {
		name   string
		pool   func(*v1alpha1.WindowsNodePool)
		change func(*v1alpha1.WindowsInstance)
		flag   bool
		wants  [3]v1alpha1.ChangeImpact
	}{
		{name: "nobody has confirmed it", pool: anyPool, wants: [3]v1alpha1.ChangeImpact{drains, "", ""}},
		{name: "one was confirmed", pool: func(p *v1alpha1.WindowsNodePool) {
			p.Status.RecentRemovals = []v1alpha1.PoolRemoval{{Name: "b", Time: metav1.Now(), Confirmed: true}, {Name: "c", Time: metav1.Now()}}
		}, wants: [3]v1alpha1.ChangeImpact{"", none, ""}},
		{name: "they have no Machines, and are in the pool of a MachineSet", pool: func(p *v1alpha1.WindowsNodePool) {
			p.Spec.Source.MachineSet = &v1alpha1.SourceReference{Name: "set"}
		}, wants: [3]v1alpha1.ChangeImpact{drains, "", ""}},
		{name: "their Machines are gone", pool: anyPool, change: func(i *v1alpha1.WindowsInstance) {
			ofMachine(i)
			i.Annotations = map[string]string{v1alpha1.SourceAnnotation: "Machine ns/" + i.Name}
		}, wants: [3]v1alpha1.ChangeImpact{none, none, none}},
		{name: "somebody has deleted the instances of Machines that live", pool: anyPool, change: ofMachine, wants: [3]v1alpha1.ChangeImpact{drains, "", ""}},
		{name: "nobody is to be asked", pool: anyPool, flag: true, wants: [3]v1alpha1.ChangeImpact{none, none, none}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a, b, c := toRemove("a"), toRemove("b"), toRemove("c")
			for _, i := range []*v1alpha1.WindowsInstance{a, b, c} {
				if tt.change != nil {
					tt.change(i)
				}
			}
			pool := &v1alpha1.WindowsNodePool{ObjectMeta: metav1.ObjectMeta{Namespace: a.Namespace, Name: "pool"}}
			tt.pool(pool)
			f := newScheduled(t, nil, pool, a, b, c)
			f.options.RemoveWithoutConfirmation = tt.flag
			before := &v1alpha1.WindowsInstanceList{}
			if err := f.client.List(t.Context(), before); err != nil {
				t.Fatal(err)
			}
			for _, stale := range []*v1alpha1.WindowsInstanceList{nil, before} {
				f.stale = stale
				if _, err := f.Reconcile(t.Context(), reconcile.Request{}); err != nil {
					t.Fatal(err)
				}
				f.stale = nil
				for n, i := range []*v1alpha1.WindowsInstance{a, b, c} {
					if err := f.client.Get(t.Context(), client.ObjectKeyFromObject(i), i); err != nil {
						t.Fatal(err)
					}
					if got := i.Status.Operation.AdmittedImpact; got != tt.wants[n] {
						t.Errorf("%s has %q, want %q", i.Name, got, tt.wants[n])
					}
				}
			}
		})
	}
}
