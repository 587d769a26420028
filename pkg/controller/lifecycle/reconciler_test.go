// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package lifecycle

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/record"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/controller/internal/leading"
	"github.com/openshift/windows-instance-api/pkg/controller/internal/object"
	"github.com/openshift/windows-instance-api/pkg/controller/internal/watch"
	"github.com/openshift/windows-instance-api/pkg/wmco"
)

var theInstance = client.ObjectKey{Namespace: "ns", Name: "win-1"}

// fixture is a reconciler over a fake API.
type fixture struct {
	*testing.T
	client.Client
	r      *Reconciler
	clock  *clocktesting.FakeClock
	events *record.FakeRecorder
	// writes counts what was written.
	writes int
	// fail, when set, is what every write answers instead, and failDelete every deletion.
	fail, failDelete error
	// onStatus is called after a status was written. Nil: nothing is.
	onStatus func(*v1alpha1.WindowsInstance)
}

func newFixture(t *testing.T, objects ...client.Object) *fixture {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	f := &fixture{T: t, clock: clocktesting.NewFakeClock(testNow), events: record.NewFakeRecorder(100)}
	f.Client = fake.NewClientBuilder().WithScheme(scheme).
		WithObjects(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "ns"}}).
		WithObjects(objects...).
		WithStatusSubresource(&v1alpha1.WindowsInstance{}, &v1alpha1.WindowsNodePool{}).
		WithIndex(&v1alpha1.WindowsInstance{}, object.PoolIndex, object.IndexPool).
		WithInterceptorFuncs(interceptor.Funcs{
			SubResourceUpdate: func(ctx context.Context, c client.Client, sub string, obj client.Object, opts ...client.SubResourceUpdateOption) error {
				if f.writes++; f.fail != nil {
					return f.fail
				}
				err := c.SubResource(sub).Update(ctx, obj, opts...)
				if written, ok := obj.(*v1alpha1.WindowsInstance); err == nil && ok && f.onStatus != nil {
					f.onStatus(written)
				}
				return err
			},
			Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
				if f.writes++; f.fail != nil {
					return f.fail
				}
				return c.Patch(ctx, obj, patch, opts...)
			},
			Delete: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.DeleteOption) error {
				if f.failDelete != nil {
					return f.failDelete
				}
				// The fake API passes over the UID that is to be deleted; the real one does not.
				var o client.DeleteOptions
				o.ApplyOptions(opts)
				if o.Preconditions != nil && o.Preconditions.UID != nil {
					current, ok := obj.DeepCopyObject().(client.Object)
					if !ok {
						return errors.New("no object")
					}
					if err := c.Get(ctx, client.ObjectKeyFromObject(obj), current); err != nil {
						return err
					}
					if current.GetUID() != *o.Preconditions.UID {
						return apierrors.NewConflict(corev1.Resource("nodes"), obj.GetName(), errors.New("another UID"))
					}
				}
				return c.Delete(ctx, obj, opts...)
			},
		}).Build()
	f.r = &Reconciler{Options: Options{Managed: true, Recorder: f.events, MaxRemovals: intstr.FromString("10%"), RemovalWindow: time.Hour}, client: f, live: f, clock: f.clock, standings: newStandings(nil), missing: map[string]time.Time{}}
	return f
}

// settle makes passes until one writes nothing, and returns what that one answered.
func (f *fixture) settle() reconcile.Result {
	f.Helper()
	for range 10 {
		before := f.writes
		result, err := f.r.Reconcile(f.Context(), reconcile.Request{NamespacedName: theInstance})
		if err != nil {
			f.Fatal(err)
		}
		if f.writes == before {
			return result
		}
	}
	f.Fatal("it does not settle")
	return reconcile.Result{}
}

// get returns the instance, nil when it is gone.
func (f *fixture) get() *v1alpha1.WindowsInstance {
	f.Helper()
	instance := &v1alpha1.WindowsInstance{}
	if err := f.Get(f.Context(), theInstance, instance); err != nil {
		if apierrors.IsNotFound(err) {
			return nil
		}
		f.Fatal(err)
	}
	return instance
}

// become writes a status as the other controllers would.
func (f *fixture) become(changes ...change) {
	f.Helper()
	instance := f.get()
	for _, c := range changes {
		c(instance)
	}
	if err := f.Status().Update(f.Context(), instance); err != nil {
		f.Fatal(err)
	}
	f.writes = 0
}

// delete deletes the instance as a user would.
func (f *fixture) delete() {
	f.Helper()
	if err := f.Delete(f.Context(), f.get()); err != nil {
		f.Fatal(err)
	}
}

// edit changes the spec of the instance as a user would.
func (f *fixture) edit(edits ...change) {
	f.Helper()
	instance := f.get()
	before := instance.DeepCopy()
	for _, e := range edits {
		e(instance)
	}
	if err := f.Patch(f.Context(), instance, client.MergeFrom(before)); err != nil {
		f.Fatal(err)
	}
	f.writes = 0
}

// told returns the reasons of the events since the last call.
func (f *fixture) told() []string {
	var out []string
	for len(f.events.Events) > 0 {
		out = append(out, strings.Fields(<-f.events.Events)[1])
	}
	return out
}

func (f *fixture) expectTold(want ...string) {
	f.Helper()
	if diff := cmp.Diff(want, f.told()); diff != "" {
		f.Errorf("events (-want +got)\n%s", diff)
	}
}

// finish ends the operation of an instance.
func finish(phase v1alpha1.OperationPhase, at time.Time, changes ...func(*v1alpha1.Operation)) change {
	return func(i *v1alpha1.WindowsInstance) {
		o := i.Status.Operation
		o.Phase, o.Message = phase, "It did what it did."
		o.StartedAt, o.FinishedAt = &metav1.Time{Time: at}, &metav1.Time{Time: at}
		for _, c := range changes {
			c(o)
		}
	}
}

// A host from its first operation to its last, with another process after each step: what
// is decided depends on the objects alone.
func TestLifeOfAHost(t *testing.T) {
	f := newFixture(t, newInstance())
	f.settle()
	instance := f.get()
	first := instance.Status.Operation
	if !slices.Contains(instance.Finalizers, v1alpha1.HostFinalizer) {
		t.Error("there is no finalizer")
	}
	if first == nil || first.Type != reconfigure || first.Phase != pending || first.RequestedBy != "windows-controller" || first.Origin != v1alpha1.OriginController || first.Revision != revision1 ||
		!first.RequestedAt.Time.Equal(testNow) || !strings.HasPrefix(first.ID, "reconfigure-") {
		t.Errorf("got operation %+v", first)
	}
	f.expectTold("FirstConfiguration")

	f.r.standings = newStandings(nil) // another process
	f.become(finish(succeeded, f.clock.Now()), has(revision1))
	f.settle()
	f.expectTold()
	if f.writes != 0 {
		t.Errorf("nothing to do caused %d writes", f.writes)
	}

	f.clock.Step(time.Hour)
	f.become(func(i *v1alpha1.WindowsInstance) { i.Status.DesiredRevision = revision2 })
	f.settle()
	second := f.get().Status
	if second.Operation.ID == first.ID || second.Operation.Revision != revision2 || len(second.History) != 1 || second.History[0].ID != first.ID {
		t.Errorf("got operation %+v, history %+v", second.Operation, second.History)
	}
	f.expectTold("RevisionChanged")

	// Deleted while that goes on.
	f.delete()
	f.settle()
	if got := f.get().Status.Operation; got.ID != second.Operation.ID || got.CancelRequestedAt == nil || got.CancelRequestedBy != v1alpha1.ControllerRequester {
		t.Errorf("the operation was not canceled: %+v", got)
	}
	f.become(finish(canceled, f.clock.Now()))
	f.settle()
	if got := f.get().Status.Operation; got.Type != remove || got.Phase != pending {
		t.Errorf("got operation %+v", got)
	}
	f.expectTold("Removing")
	f.become(finish(failed, f.clock.Now(), at(v1alpha1.StepConnect, v1alpha1.StepFailed)))
	if got := f.settle().RequeueAfter; got != removeBackoff.Duration {
		t.Errorf("tried again after %s", got)
	}
	f.expectTold("RemovalFailed")
	if c := meta.FindStatusCondition(f.get().Status.Conditions, v1alpha1.ConditionRemoved); c == nil || c.Reason != v1alpha1.ReasonRemovalFailed || c.ObservedGeneration != 1 || c.LastTransitionTime.IsZero() {
		t.Errorf("got condition %+v", c)
	}
	f.clock.Step(removeBackoff.Duration)
	f.settle()
	f.expectTold("Removing")
	f.become(finish(succeeded, f.clock.Now()))
	f.settle()
	f.expectTold("Removed")
	if f.get() != nil {
		t.Error("the object is still there")
	}
}

func TestHistoryIsBounded(t *testing.T) {
	var all []v1alpha1.Operation
	for range v1alpha1.MaxHistory + 1 {
		all = append(all, op(drain, succeeded, time.Hour))
	}
	f := newFixture(t, newInstance(held, ops(all...)))
	f.settle()
	if got := len(f.get().Status.History); got != v1alpha1.MaxHistory {
		t.Errorf("the history has %d operations", got)
	}
}

// A host that is given up loses its Node, and only that.
func TestAbandon(t *testing.T) {
	mine := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "win-1", UID: "1"}}
	for _, test := range []struct {
		name   string
		status v1alpha1.NodeReference
		ops    change
		want   bool // the Node stays
	}{
		{"its Node", v1alpha1.NodeReference{Name: "win-1", UID: "1"}, nil, false},
		{"another one of its name", v1alpha1.NodeReference{Name: "win-1", UID: "2"}, nil, true},
		{"gone already", v1alpha1.NodeReference{Name: "win-0", UID: "1"}, nil, true},
		{"known from an operation", v1alpha1.NodeReference{}, ops(op(reconfigure, failed, time.Hour, func(o *v1alpha1.Operation) {
			o.Node, o.HostChanged = &v1alpha1.OperationNode{Name: "win-1", UID: "1"}, true
		})), false},
		{"known from an adoption", v1alpha1.NodeReference{}, ops(op(v1alpha1.OperationAdopt, succeeded, time.Hour, func(o *v1alpha1.Operation) {
			o.Node, o.HostChanged = &v1alpha1.OperationNode{Name: "win-1", UID: "1"}, true
		})), false},
		{"of a host that may have been released", v1alpha1.NodeReference{Name: "win-1", UID: "1"}, ops(
			v1alpha1.Operation{Type: v1alpha1.OperationRelease, Phase: v1alpha1.OperationFailed, FinishedAt: ago(time.Hour), ReleaseBegun: true}, op(reconfigure, succeeded, 2*time.Hour),
		), true},
		{"of others, which was drained before", v1alpha1.NodeReference{}, ops(op(drain, succeeded, time.Hour, func(o *v1alpha1.Operation) {
			o.Node = &v1alpha1.OperationNode{Name: "win-1", UID: "1"}
		})), true},
		{"of a host of which it is not known any more", v1alpha1.NodeReference{Name: "win-1", UID: "1"}, func(i *v1alpha1.WindowsInstance) {
			i.Status.CurrentRevision = ""
			full := make([]v1alpha1.Operation, v1alpha1.MaxHistory+1)
			for n := range full {
				full[n] = op(drain, succeeded, time.Hour)
			}
			ops(full...)(i)
		}, true},
		{"there never was one", v1alpha1.NodeReference{}, nil, true},
		{"of others, whose host could not be reached to take it over", v1alpha1.NodeReference{Name: "win-1", UID: "1"}, func(i *v1alpha1.WindowsInstance) {
			i.Status.CurrentRevision = ""
			ops(op(reconfigure, failed, time.Hour, at(v1alpha1.StepConnect, v1alpha1.StepFailed)))(i)
		}, true},
		{"of a host that was begun to be set up", v1alpha1.NodeReference{Name: "win-1", UID: "1"}, func(i *v1alpha1.WindowsInstance) {
			i.Status.CurrentRevision = ""
			ops(op(reconfigure, failed, time.Hour, func(o *v1alpha1.Operation) {
				o.Steps = []v1alpha1.OperationStep{{Name: v1alpha1.StepApply, State: v1alpha1.StepFailed, StartedAt: ago(time.Hour)}}
			}))(i)
		}, false},
		{"of a host that was begun to be set up before the operation that is known in full", v1alpha1.NodeReference{Name: "win-1", UID: "1"}, func(i *v1alpha1.WindowsInstance) {
			i.Status.CurrentRevision = ""
			ops(op(reconfigure, failed, time.Hour, at(v1alpha1.StepConnect, v1alpha1.StepFailed)),
				op(reconfigure, failed, 2*time.Hour, func(o *v1alpha1.Operation) { o.HostChanged = true }))(i)
		}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			changes := []change{has(revision1), held, func(i *v1alpha1.WindowsInstance) {
				if test.status.Name != "" {
					i.Status.Node = &test.status
				}
			}}
			if test.ops != nil {
				changes = append(changes, test.ops)
			}
			f := newFixture(t, newInstance(changes...), mine.DeepCopy())
			f.delete()
			f.settle()
			f.told()

			f.edit(removal(v1alpha1.RemovalAbandon, 0))
			f.settle()

			f.expectTold("Abandoned")
			if f.get() != nil {
				t.Error("the object is still there")
			}
			err := f.Get(t.Context(), client.ObjectKeyFromObject(mine), &corev1.Node{})
			if stays := err == nil; stays != test.want || err != nil && !apierrors.IsNotFound(err) {
				t.Errorf("the Node stays: %v, want %v (%v)", stays, test.want, err)
			}
		})
	}
}

// TestNotGivenUpBeforeItsMachine: the Machine API takes a Node that is gone for one that is drained, and ends the virtual machine with all pods that a
// budget or their grace period still keep there. So a host that cannot be cleaned in time is not given up before its Machine is gone.
func TestNotGivenUpBeforeItsMachine(t *testing.T) {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "win-1", UID: "1"}}
	f := newFixture(t, newInstance(has(revision1), held, removal(v1alpha1.RemovalClean, time.Minute), func(i *v1alpha1.WindowsInstance) {
		i.Spec.Paused = true
		i.Status.Node = &v1alpha1.NodeReference{Name: "win-1", UID: "1"}
	}), node)
	lives, asked := true, 0
	f.r.MachineLeaving = func(context.Context, *v1alpha1.WindowsInstance) (bool, error) {
		asked++
		return lives, nil
	}
	f.delete()
	f.settle()
	if asked > 0 {
		t.Error("it is asked for the Machine before the time is over")
	}
	f.clock.SetTime(f.get().DeletionTimestamp.Add(time.Hour))
	f.settle()
	if err := f.Get(t.Context(), client.ObjectKeyFromObject(node), node); err != nil || f.get() == nil || asked == 0 {
		t.Fatalf("while its Machine is there: the object is %v, the Node: %v", f.get(), err)
	}
	lives = false
	f.settle()
	if err := f.Get(t.Context(), client.ObjectKeyFromObject(node), node); !apierrors.IsNotFound(err) || f.get() != nil {
		t.Errorf("when its Machine is gone: the object is %v, the Node: %v", f.get(), err)
	}
}

// TestAbandonLeavesWMCO: of an instance that was restored from before a release the Node is that of WMCO, which has the host now.
func TestAbandonLeavesWMCO(t *testing.T) {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "win-1", UID: "1", Labels: map[string]string{wmco.UpgradingLabel: "true"}}}
	f := newFixture(t, newInstance(has(revision1), held, func(i *v1alpha1.WindowsInstance) {
		i.Status.Node = &v1alpha1.NodeReference{Name: "win-1", UID: "1"}
	}), node)
	f.delete()
	f.settle()
	f.told()

	f.edit(removal(v1alpha1.RemovalAbandon, 0))
	f.settle()

	if told := <-f.events.Events; !strings.Contains(told, "Its Node stays") || !strings.Contains(told, "the Windows Machine Config Operator has it") {
		t.Errorf("told %q", told)
	}
	if f.get() != nil {
		t.Error("the object is still there")
	}
	if err := f.Get(t.Context(), client.ObjectKeyFromObject(node), node); err != nil {
		t.Errorf("the Node: %v", err)
	}
}

// Nothing holds a host that is given up, also when its Node cannot be deleted: that of a host that
// died before it said that it runs Windows is kept by a policy.
func TestAbandonThoughTheNodeIsKept(t *testing.T) {
	f := newFixture(t, newInstance(has(revision1), held, func(i *v1alpha1.WindowsInstance) {
		i.Status.Node = &v1alpha1.NodeReference{Name: "win-1", UID: "1"}
	}))
	f.delete()
	f.settle()
	f.told()
	f.failDelete = apierrors.NewForbidden(corev1.Resource("nodes"), "win-1", errors.New("it does not run Windows"))

	f.edit(removal(v1alpha1.RemovalAbandon, 0))
	f.settle()

	if len(f.events.Events) != 1 {
		t.Fatalf("told %q", f.told())
	}
	if told := <-f.events.Events; !strings.Contains(told, "Its Node stays") || !strings.Contains(told, "it does not run Windows") {
		t.Errorf("told %q", told)
	}
	if f.get() != nil {
		t.Error("the object is still there")
	}
}

// TestAbandonWhileTheAPIServerStarts: kube-apiserver that has just started refuses what it allows. The Node of a host that is given up is deleted when it does,
// and nothing holds the host if the right is missing for good.
func TestAbandonWhileTheAPIServerStarts(t *testing.T) {
	for _, starts := range []bool{true, false} {
		t.Run(map[bool]string{true: "it starts", false: "a right is missing"}[starts], func(t *testing.T) {
			node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "win-1", UID: "1"}}
			f := newFixture(t, newInstance(has(revision1), held, func(i *v1alpha1.WindowsInstance) {
				i.Status.Node = &v1alpha1.NodeReference{Name: "win-1", UID: "1"}
			}), node)
			f.delete()
			f.settle()
			f.told()
			f.failDelete = apierrors.NewForbidden(corev1.Resource("nodes"), "win-1", errors.New(`User "x" cannot delete resource "nodes" in API group "" at the cluster scope`))
			f.edit(removal(v1alpha1.RemovalAbandon, 0))
			for range 3 {
				if _, err := f.r.Reconcile(t.Context(), reconcile.Request{NamespacedName: theInstance}); !apierrors.IsForbidden(err) {
					t.Fatalf("got %v", err)
				}
				f.clock.Step(9 * time.Second)
			}
			if f.get() == nil {
				t.Fatal("the object is gone, and its Node is not")
			}
			if starts {
				f.failDelete = nil
			} else {
				f.clock.Step(9 * time.Second)
			}
			f.settle()
			if err := f.Get(t.Context(), client.ObjectKeyFromObject(node), node); f.get() != nil || apierrors.IsNotFound(err) != starts {
				t.Errorf("the instance is %v, the Node: %v", f.get(), err)
			}
			if len(f.r.refusals) > 0 {
				t.Errorf("%d refusals are remembered", len(f.r.refusals))
			}
		})
	}
}

func TestPausedPool(t *testing.T) {
	pool := &v1alpha1.WindowsNodePool{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "pool"}, Spec: v1alpha1.WindowsNodePoolSpec{Paused: true}}
	member := func(i *v1alpha1.WindowsInstance) {
		i.Spec.PoolRef = &v1alpha1.PoolReference{Name: "pool"}
	}
	other := newInstance()
	other.Name = "other"
	f := newFixture(t, newInstance(held, member), other, pool)
	f.settle()
	if f.get().Status.Operation != nil {
		t.Error("a host of a paused pool is set up")
	}
	if got := watch.MembersOf(f)(t.Context(), pool); len(got) != 1 || got[0].NamespacedName != theInstance {
		t.Errorf("the pool has %v", got)
	}
	if err := f.Delete(t.Context(), pool); err != nil {
		t.Fatal(err)
	}
	f.settle()
	if f.get().Status.Operation == nil {
		t.Error("a host whose pool is gone is not set up")
	}
}

// unreadable lets nobody read anything.
type unreadable struct{ client.Reader }

func (unreadable) Get(context.Context, client.ObjectKey, client.Object, ...client.GetOption) error {
	return apierrors.NewForbidden(corev1.Resource("namespaces"), "ns", errors.New("no"))
}

// A host whose namespace goes is released as it is, and nothing is done while nobody knows
// whether the namespace goes.
func TestTerminatingNamespace(t *testing.T) {
	instance, node := newInstance(has(revision1), held), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "win-1", UID: "1"}}
	instance.Status.Node = &v1alpha1.NodeReference{Name: node.Name, UID: node.UID}
	f := newFixture(t, instance, node)
	f.delete()
	f.r.live = unreadable{}
	if _, err := f.r.Reconcile(t.Context(), reconcile.Request{NamespacedName: theInstance}); !apierrors.IsForbidden(err) {
		t.Errorf("the namespace cannot be read: got %v", err)
	}
	if op := f.get().Status.Operation; op != nil {
		t.Errorf("a removal was recorded without knowing whether the namespace goes: %+v", op)
	}
	f.r.live = f
	namespace := &corev1.Namespace{}
	if err := f.Get(t.Context(), client.ObjectKey{Name: "ns"}, namespace); err != nil {
		t.Fatal(err)
	}
	namespace.Finalizers = []string{"kubernetes"}
	if err := f.Update(t.Context(), namespace); err != nil {
		t.Fatal(err)
	}
	if err := f.Delete(t.Context(), namespace); err != nil {
		t.Fatal(err)
	}
	f.settle()
	if err := f.Get(t.Context(), theInstance, &v1alpha1.WindowsInstance{}); !apierrors.IsNotFound(err) {
		t.Errorf("the instance is still there: %v", err)
	}
	if err := f.Get(t.Context(), client.ObjectKeyFromObject(node), &corev1.Node{}); err != nil {
		t.Errorf("its Node is gone: %v", err)
	}
}

// A process that was stopped, and goes on, records no removal, which its successor may have done for other hosts. What costs nothing that is
// shared it records without asking.
func TestWhoDoesNotLeadRemovesNothing(t *testing.T) {
	f := newFixture(t, newInstance())
	leads, away, asked := false, error(nil), 0
	f.r.Leads = func(context.Context) (bool, error) {
		asked++
		return leads, away
	}
	f.settle()
	f.become(finish(succeeded, f.clock.Now()), has(revision1))
	f.settle()
	if asked > 0 {
		t.Errorf("it was asked %d times who leads", asked)
	}
	f.expectTold("FirstConfiguration")
	f.delete()
	if got := f.settle(); got.RequeueAfter != leading.AgainAfter || f.get().Status.Operation.Type == remove {
		t.Errorf("got %+v, again after %s", f.get().Status.Operation, got.RequeueAfter)
	}
	away = errors.New("away")
	if _, err := f.r.Reconcile(t.Context(), reconcile.Request{NamespacedName: theInstance}); !errors.Is(err, away) || f.get().Status.Operation.Type == remove {
		t.Errorf("got %+v, %v", f.get().Status.Operation, err)
	}
	f.expectTold()
	leads, away = true, nil
	if f.settle(); f.get().Status.Operation.Type != remove {
		t.Errorf("got %+v", f.get().Status.Operation)
	}
	f.expectTold("Removing")
}

// What was decided by an object that is not so any more is not done, and not told.
func TestConflict(t *testing.T) {
	for _, test := range []struct {
		name     string
		instance *v1alpha1.WindowsInstance
	}{
		{"status", newInstance(held)},
		{"finalizer", newInstance()},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := newFixture(t, test.instance)
			f.fail = apierrors.NewConflict(v1alpha1.Resource("windowsinstances"), "win-1", errors.New("changed"))
			result, err := f.r.Reconcile(t.Context(), reconcile.Request{NamespacedName: theInstance})
			if err != nil || result.RequeueAfter != conflictDelay {
				t.Errorf("got %v, %v", result, err)
			}
			f.expectTold()
			f.fail = apierrors.NewInternalError(errors.New("storage is full"))
			if _, err := f.r.Reconcile(t.Context(), reconcile.Request{NamespacedName: theInstance}); err == nil {
				t.Error("an error is not returned")
			}
			f.expectTold()
		})
	}
}

// While the API is away nothing that it answers says that an instance is gone: what was decided is
// decided again.
func TestAPIIsAway(t *testing.T) {
	f := newFixture(t, newInstance(held))
	instances := v1alpha1.Resource("windowsinstances")
	f.fail = apierrors.NewGenericServerResponse(http.StatusNotFound, http.MethodPut, instances, "win-1", "404 page not found", 0, true)
	if _, err := f.r.Reconcile(t.Context(), reconcile.Request{NamespacedName: theInstance}); err == nil {
		t.Error("nothing brings another pass")
	}
	f.fail = apierrors.NewNotFound(instances, "win-1")
	if result, err := f.r.Reconcile(t.Context(), reconcile.Request{NamespacedName: theInstance}); err != nil || result != (reconcile.Result{}) {
		t.Errorf("it was deleted meanwhile: got %v, %v", result, err)
	}
	f.expectTold()
}

// Both writes are refused when the object has changed since it was read.
func TestWritesCarryTheResourceVersion(t *testing.T) {
	f := newFixture(t, newInstance(held))
	stale := f.get()
	f.edit(func(i *v1alpha1.WindowsInstance) { i.Labels = map[string]string{"a": "b"} })
	w := snapshot{instance: stale, managed: true, now: testNow}
	for _, a := range []action{{do: doRecord, operation: reconfigure}, {do: doRelease}} {
		if err := f.r.act(t.Context(), w, a); !apierrors.IsConflict(err) {
			t.Errorf("%s: got %v, want a conflict", a.do, err)
		}
	}
	if got := f.get(); got.Status.Operation != nil || !slices.Contains(got.Finalizers, v1alpha1.HostFinalizer) {
		t.Errorf("got %+v", got)
	}
}

func TestMetrics(t *testing.T) {
	failedCondition := configured(metav1.ConditionFalse, v1alpha1.ReasonConfigurationFailed)
	withNode := func(i *v1alpha1.WindowsInstance) {
		i.Status.Node = &v1alpha1.NodeReference{Name: "win-1", UID: "n"}
	}
	keptOff := condition(v1alpha1.ConditionResolved, metav1.ConditionFalse, v1alpha1.ReasonDuplicateHost)
	const waiting, notConfigured, removalWaits, notRemoved = "windows_instance_configurations_waiting", "windows_instance_configurations_failed", "windows_instance_removals_waiting", "windows_instance_removals_failed"
	const unconfirmed = "windows_instance_removals_unconfirmed"
	for _, test := range []struct {
		name     string
		instance *v1alpha1.WindowsInstance
		snapshot snapshot
		want     []string
	}{
		{"all is well", newInstance(has(revision1), held), snapshot{}, nil},
		{"waits for a place", newInstance(held, ops(op(reconfigure, pending, 0))), snapshot{}, []string{waiting}},
		{"failed", newInstance(held, failedCondition, ops(op(reconfigure, failed, 0))), snapshot{}, []string{notConfigured, waiting}},
		{"failed, and is to be tried again", newInstance(held, failedCondition, ops(op(reconfigure, pending, 0), op(reconfigure, failed, time.Minute))), snapshot{}, []string{notConfigured, waiting}},
		{"failed, and is tried again", newInstance(held, failedCondition, ops(op(reconfigure, running, 0), op(reconfigure, failed, time.Minute))), snapshot{}, []string{notConfigured}},
		{"failed after the host had what is wanted, and is tried again", newInstance(has(revision1), held, withNode, ops(op(reconfigure, running, 0), op(reconfigure, failed, time.Minute))), snapshot{}, []string{notConfigured}},
		{"succeeded, and is configured again", newInstance(has(revision2), held, ops(op(reconfigure, running, 0), op(reconfigure, succeeded, time.Minute))), snapshot{}, nil},
		{"failed, and nothing else is wanted any more", newInstance(has(revision1), held, withNode, ops(op(reconfigure, failed, 0))), snapshot{}, nil},
		{"failed, and was paused", newInstance(held, failedCondition, ops(op(reconfigure, failed, 0))), snapshot{paused: "spec.paused"}, nil},
		{"failed, and was found to be the host of another instance", newInstance(held, failedCondition, keptOff, ops(op(reconfigure, failed, 0))), snapshot{}, nil},
		{"failed, and the next attempt was not wanted", newInstance(held, failedCondition, ops(op(reconfigure, canceled, 0), op(reconfigure, failed, time.Minute))), snapshot{}, []string{notConfigured, waiting}},
		{"not wanted for a while", newInstance(has(revision2), held, ops(op(reconfigure, canceled, 0), op(reconfigure, succeeded, time.Hour))), snapshot{}, []string{waiting}},
		{"unreachable and deleted", newInstance(has(revision1), held, deleted(0), ops(op(remove, failed, 0))), snapshot{}, []string{notRemoved, removalWaits}},
		{"unreachable and deleted, and is tried again", newInstance(has(revision1), held, deleted(0), ops(op(remove, running, 0), op(remove, failed, time.Minute))), snapshot{}, []string{notRemoved}},
		{"deleted, and waits for a confirmation", newInstance(has(revision1), held, deleted(0)), snapshot{turn: turn{why: "Confirm.", asks: true}}, []string{unconfirmed, removalWaits}},
		{"deleted, and waits for others", newInstance(has(revision1), held, deleted(0)), snapshot{turn: turn{why: "Others first."}}, []string{removalWaits}},
		{"deleted, unconfirmed and paused", newInstance(has(revision1), held, deleted(0)), snapshot{turn: turn{why: "Confirm.", asks: true}, paused: "spec.paused"}, []string{removalWaits}},
		{"unreachable, deleted and paused", newInstance(has(revision1), held, deleted(0), ops(op(remove, failed, 0))), snapshot{paused: "spec.paused"}, []string{removalWaits}},
	} {
		t.Run(test.name, func(t *testing.T) {
			test.snapshot.instance, test.snapshot.managed, test.snapshot.now = test.instance, true, testNow
			registry := prometheus.NewPedanticRegistry()
			s := newStandings(registry)
			s.set(theInstance, newStanding(test.snapshot, decide(test.snapshot)))
			var got []string
			families, err := registry.Gather()
			if err != nil {
				t.Fatal(err)
			}
			for _, family := range families {
				got = append(got, family.GetName())
				for _, m := range family.GetMetric() {
					if m.GetGauge().GetValue() != 1 || len(m.GetLabel()) != 1 || m.GetLabel()[0].GetName() != "namespace" || m.GetLabel()[0].GetValue() != theInstance.Namespace {
						t.Errorf("%s has %v", family.GetName(), m)
					}
				}
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
			s.set(theInstance, standing{})
			if n := testutil.CollectAndCount(s); n != 0 {
				t.Errorf("of an instance that is gone there are %d", n)
			}
		})
	}
}
