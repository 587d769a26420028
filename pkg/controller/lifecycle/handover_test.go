// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package lifecycle

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/controller/csr/identity"
)

// testKey is the host key of [newInstance], and otherKey is another one.
const (
	testKey  = "AAAAC3NzaC1lZDI1NTE5AAAAIJXl0Yl1n9ZeKS5YSsDF1PAI1oRCiK9qXh1n3yXkQ0k6"
	otherKey = "AAAAC3NzaC1lZDI1NTE5AAAAIKoV1cqH2r0sTQm7nLk3vY5hJ8xWfUe6Zb9dGaPtMi4R"
)

// member is an instance of a pool at an address, with a known host.
func member(name, address string, changes ...change) *v1alpha1.WindowsInstance {
	i := newInstance()
	i.Name, i.UID, i.CreationTimestamp = name, types.UID("uid-of-"+name), metav1.NewTime(testNow)
	i.Spec.Address, i.Spec.Port, i.Spec.PoolRef = address, 22, &v1alpha1.PoolReference{Name: "pool"}
	i.Status.MachineID, i.Status.Addresses = "firmware-1/windows-1", []string{address}
	i.Status.Conditions = nil
	for _, c := range changes {
		c(i)
	}
	return i
}

func keys(key string) change {
	return func(i *v1alpha1.WindowsInstance) {
		i.Status.HostKeys = []v1alpha1.HostKeyStatus{{Type: "ssh-ed25519", Key: key}}
	}
}

// fresh was not contacted yet.
func fresh(i *v1alpha1.WindowsInstance) {
	i.Status = v1alpha1.WindowsInstanceStatus{}
}

// duplicate was kept off its host by another instance.
func duplicate(i *v1alpha1.WindowsInstance) {
	fresh(i)
	condition(v1alpha1.ConditionResolved, metav1.ConditionFalse, v1alpha1.ReasonDuplicateHost)(i)
}

func TestHeir(t *testing.T) {
	machine := func(id string) change { return func(i *v1alpha1.WindowsInstance) { i.Status.MachineID = id } }
	resolved := func(addresses ...string) change {
		return func(i *v1alpha1.WindowsInstance) { i.Status.Addresses = addresses }
	}
	refused := condition(v1alpha1.ConditionReachable, metav1.ConditionFalse, v1alpha1.ReasonConnectionRefused)
	pinned := func(keys ...string) change {
		return func(i *v1alpha1.WindowsInstance) {
			for _, key := range keys {
				i.Spec.HostKeys = append(i.Spec.HostKeys, "ssh-ed25519 "+key+" of somebody")
			}
		}
	}
	verified := condition(v1alpha1.ConditionHostKeyTrusted, metav1.ConditionTrue, v1alpha1.ReasonPinned)
	refusedLogin := condition(v1alpha1.ConditionAuthenticated, metav1.ConditionFalse, v1alpha1.ReasonCredentialsRefused)
	unknown := condition(v1alpha1.ConditionResolved, metav1.ConditionFalse, v1alpha1.ReasonNameNotResolved)
	old := member("old", "10.0.0.5", deleted(0), func(i *v1alpha1.WindowsInstance) {
		i.CreationTimestamp, i.Spec.ProviderID = *ago(time.Hour), "azure:///i-1"
	})
	for _, test := range []struct {
		name    string
		other   *v1alpha1.WindowsInstance
		want    bool
		awaited bool
	}{
		{"the same endpoint", member("new", "10.0.0.5", duplicate), true, false},
		{"another machine of the provider that got its address", member("new", "10.0.0.5", duplicate, func(i *v1alpha1.WindowsInstance) { i.Spec.ProviderID = "azure:///i-2" }), false, false},
		{"the same machine in another spelling", member("new", "10.0.0.5", duplicate, func(i *v1alpha1.WindowsInstance) { i.Spec.ProviderID = "AZURE:///i-1" }), true, false},
		{"another address, and it says it is the same machine", member("new", "10.0.0.9", duplicate, func(i *v1alpha1.WindowsInstance) { i.Spec.ProviderID = "azure:///i-1" }), false, false},
		{"a name for the same endpoint", member("new", "host5.example.com", duplicate, resolved("10.0.0.5")), true, false},
		{"a name that was not resolved yet", member("new", "host5.example.com", fresh), false, true},
		{"the same host at another address", member("new", "10.0.0.9"), true, false},
		{"another machine with its key", member("new", "10.0.0.9", machine("firmware-2/windows-1")), false, false},
		{"another key", member("new", "10.0.0.9", keys(otherKey)), false, false},
		{"another host that got its address", member("new", "10.0.0.5", fresh, keys(otherKey)), false, true},
		{"another host that got its address, has proven a pinned key, and lets nobody in", member("new", "10.0.0.5", fresh, pinned(otherKey), verified, refusedLogin), false, false},
		{"the same host, which has proven its key, and lets nobody in", member("new", "10.0.0.5", fresh, pinned(otherKey, testKey), verified, refusedLogin), true, false},
		{"the same host, which has proven its key, and lets nobody in; a line says whose key that is", member("new", "10.0.0.5", fresh, pinned(testKey), func(i *v1alpha1.WindowsInstance) {
			i.Spec.HostKeys[0] = "# of win-1\n" + i.Spec.HostKeys[0]
		}, verified, refusedLogin), true, false},
		{"another key, with that of the host as its comment", member("new", "10.0.0.5", fresh, pinned(otherKey+" "+testKey), verified, refusedLogin), false, false},
		{"another port", member("new", "10.0.0.5", fresh, func(i *v1alpha1.WindowsInstance) { i.Spec.Port = 2222 }), false, true},
		{"cannot be reached yet", member("new", "10.0.0.9", fresh, refused), false, true},
		{"a name that is not in DNS yet", member("new", "host5.example.com", fresh, unknown), false, true},
		{"of another pool", member("new", "10.0.0.5", duplicate, func(i *v1alpha1.WindowsInstance) { i.Spec.PoolRef = nil }), false, false},
		{"of another namespace", member("new", "10.0.0.5", duplicate, func(i *v1alpha1.WindowsInstance) { i.Namespace = "other" }), false, false},
		{"deleted as well", member("new", "10.0.0.5", duplicate, deleted(0)), false, false},
		{"an older one", member("new", "10.0.0.9", func(i *v1alpha1.WindowsInstance) { i.CreationTimestamp = *ago(2 * time.Hour) }), false, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, awaited := heir(old, []v1alpha1.WindowsInstance{*old, *test.other})
			if (got != nil) != test.want || awaited != test.awaited {
				t.Errorf("got %v, awaited %v", got, awaited)
			}
		})
	}
}

// The heir of a host may show itself after the host could not be reached to be cleaned, which
// has changed nothing. After any other attempt it is too late.
func TestInheritAfterAnAttempt(t *testing.T) {
	for step, want := range map[string]bool{v1alpha1.StepConnect: true, v1alpha1.StepCleanup: false} {
		old := newInstance(has(revision1), held, keys(testKey), deleted(time.Hour), ops(op(remove, failed, time.Minute, func(o *v1alpha1.Operation) {
			o.Steps = []v1alpha1.OperationStep{{Name: step, State: v1alpha1.StepFailed}}
		})))
		a, ok := (snapshot{instance: old, heir: member("new", "10.0.0.9"), now: testNow}).inherit()
		if ok != want || want && a.do != doHandOver {
			t.Errorf("failed in step %s: %s, %t", step, a.do, ok)
		}
	}
}

// A host whose entry was renamed goes on with its Node, its revision, what it worked with and what is trusted.
func TestHandOver(t *testing.T) {
	done := op(reconfigure, succeeded, time.Hour, hostChanged)
	old := newInstance(has(revision1), held, keys(testKey), ops(done), func(i *v1alpha1.WindowsInstance) {
		i.Spec = member("", "10.0.0.5").Spec
		i.CreationTimestamp = *ago(time.Hour)
		i.Status.MachineID, i.Status.Addresses = "firmware-1/windows-1", []string{"10.0.0.5"}
		i.Status.Node = &v1alpha1.NodeReference{Name: "win-1", UID: "1"}
		i.Status.Version, i.Status.System = "v0.1.0", &v1alpha1.SystemStatus{Hostname: "WIN-1"}
		i.Status.DesiredPoolRevision, i.Status.PoolRevision, i.Status.PreviousPoolRevision = "pool-2", "pool-2", "pool-1"
		i.Status.RestartedAt, i.Status.NodeNotReadyTimes = ago(time.Hour), []metav1.Time{*ago(20 * time.Minute), *ago(10 * time.Minute)}
		meta.SetStatusCondition(&i.Status.Conditions, metav1.Condition{Type: v1alpha1.ConditionNodeReady, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonNodeNotReady, LastTransitionTime: *ago(10 * time.Minute)})
	})
	f := newFixture(t, old, member("new", "10.0.0.5", duplicate, generation(3)))
	f.delete()
	before := f.get().Status
	f.settle()
	f.expectTold("HostLeft")
	if f.get() != nil {
		t.Error("the object is still there")
	}
	got := &v1alpha1.WindowsInstance{}
	if err := f.Get(t.Context(), client.ObjectKey{Namespace: "ns", Name: "new"}, got); err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(got.Finalizers, v1alpha1.HostFinalizer) || got.LostStatus() || !got.Status.MayHaveChangedHost() {
		t.Errorf("it is not known that something of ours is on the host: %+v", got)
	}
	if c := meta.FindStatusCondition(got.Status.Conditions, v1alpha1.ConditionConfigured); c == nil || c.Status != metav1.ConditionTrue || c.ObservedGeneration != 3 {
		t.Errorf("it is not known that the host is configured: %+v", c)
	}
	if c := meta.FindStatusCondition(got.Status.Conditions, v1alpha1.ConditionNodeReady); c == nil || c.Reason != v1alpha1.ReasonNodeNotReady || !c.LastTransitionTime.Equal(ago(10*time.Minute)) {
		t.Errorf("it is not known since when its Node is down: %+v", c)
	}
	if former := got.Annotations[v1alpha1.FormerInstanceAnnotation]; former != old.Name {
		t.Errorf("the instance before was %q", former)
	}
	for _, status := range []*v1alpha1.WindowsInstanceStatus{&before, &got.Status} {
		status.Conditions, status.ObservedGeneration = nil, 0
	}
	if diff := cmp.Diff(before, got.Status); diff != "" {
		t.Errorf("handed over (-want +got)\n%s", diff)
	}
}

// What could not be ended is done once more, with the same result: the one that was deleted was changed meanwhile by somebody else.
func TestHandOverIsRepeated(t *testing.T) {
	named := func(id string) func(*v1alpha1.Operation) { return func(o *v1alpha1.Operation) { o.ID = id } }
	old := newInstance(has(revision1), held, ops(op(reconfigure, succeeded, time.Hour, hostChanged, named("a")), op(reconfigure, failed, 2*time.Hour, named("b"))))
	old.Spec, old.CreationTimestamp = member("", "10.0.0.5").Spec, *ago(2 * time.Hour)
	old.Status.MachineID, old.Status.Addresses = "firmware-1/windows-1", []string{"10.0.0.5"}
	f := newFixture(t, old, member("new", "10.0.0.5", duplicate, ops(op(v1alpha1.OperationDrain, failed, time.Minute, named("c")))))
	f.delete()
	var once *v1alpha1.WindowsInstanceStatus
	f.onStatus = func(i *v1alpha1.WindowsInstance) {
		f.onStatus, f.fail, once = nil, apierrors.NewConflict(v1alpha1.Resource("windowsinstances"), "win-1", errors.New("changed")), i.Status.DeepCopy()
	}
	if _, err := f.r.Reconcile(t.Context(), reconcile.Request{NamespacedName: theInstance}); err != nil || f.get() == nil || once == nil {
		t.Fatalf("got %v, and handed over %+v", err, once)
	}
	f.fail = nil
	f.settle()
	got := &v1alpha1.WindowsInstance{}
	if err := f.Get(t.Context(), client.ObjectKey{Namespace: "ns", Name: "new"}, got); err != nil || f.get() != nil {
		t.Fatalf("got %v, and %+v", err, f.get())
	}
	var ids []string
	for _, o := range got.Status.Operations() {
		ids = append(ids, o.ID)
	}
	if !slices.Equal(ids, []string{"c", "a", "b"}) {
		t.Errorf("the operations are %q", ids)
	}
	if diff := cmp.Diff(*once, got.Status); diff != "" {
		t.Errorf("handed over at first (-), and in the end (+)\n%s", diff)
	}
}

// With a host goes where it was found, and not where an instance claims it is that was never logged
// in to.
func TestHandOverOfAddresses(t *testing.T) {
	for _, test := range []struct {
		name string
		heir *v1alpha1.WindowsInstance
		want []string
	}{
		{"nothing is known", member("new", "10.0.0.5", duplicate), []string{"10.0.0.5"}},
		{"a name with another address as well", member("new", "host5.example.com", duplicate, func(i *v1alpha1.WindowsInstance) {
			i.Status.Addresses = []string{"10.0.0.9", "10.0.0.5"}
		}), []string{"10.0.0.5"}},
		{"it was found there", member("new", "10.0.0.9"), []string{"10.0.0.9"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := newFixture(t, member("win-1", "10.0.0.5", held, has(revision1), func(i *v1alpha1.WindowsInstance) { i.CreationTimestamp = *ago(time.Hour) }), test.heir)
			f.delete()
			f.settle()
			got := &v1alpha1.WindowsInstance{}
			if err := f.Get(t.Context(), client.ObjectKeyFromObject(test.heir), got); err != nil {
				t.Fatal(err)
			}
			if f.get() != nil || !slices.Equal(got.Status.Addresses, test.want) {
				t.Errorf("handed over: %t, addresses %q", f.get() == nil, got.Status.Addresses)
			}
		})
	}
}

// A tenant says of an instance with the address of a host of the operator that it is the machine of a
// host of theirs, and deletes that one: the host of the operator, taken back, stays with the operator.
func TestHandOverTakesNobodysHost(t *testing.T) {
	const theirs = "10.0.0.9"
	sameMachine := func(i *v1alpha1.WindowsInstance) { i.Spec.ProviderID = "foo" }
	old := member("win-1", "10.0.0.5", held, has(revision1), ops(op(reconfigure, succeeded, time.Hour, hostChanged)), sameMachine,
		func(i *v1alpha1.WindowsInstance) { i.CreationTimestamp = *ago(time.Hour) })
	f := newFixture(t, handMadePool(), old, member("new", "10-0-0-9.nip.io", duplicate, sameMachine, func(i *v1alpha1.WindowsInstance) { i.Status.Addresses = []string{theirs} }))
	f.delete()
	f.settle()
	got := &v1alpha1.WindowsInstance{}
	if err := f.Get(t.Context(), client.ObjectKey{Namespace: "ns", Name: "new"}, got); err != nil {
		t.Fatal(err)
	}
	takenBack := member("z", theirs, has(revision1), func(i *v1alpha1.WindowsInstance) { i.Namespace, i.Status.MachineID = "home", "firmware-9/windows-9" })
	if !identity.Precedes(takenBack, got, "home") {
		t.Errorf("the host belongs to the instance of the tenant: %+v", got.Status)
	}
}

// What was tried to remove the host is no history of the instance that has it from now on.
func TestHandOverAfterAnAttempt(t *testing.T) {
	old := newInstance(has(revision1), held, inspected, ops(
		op(remove, failed, time.Minute, at(v1alpha1.StepConnect, v1alpha1.StepFailed)), op(reconfigure, succeeded, time.Hour, hostChanged)))
	old.Spec, old.CreationTimestamp = member("", "10.0.0.5").Spec, *ago(2 * time.Hour)
	old.Status.MachineID, old.Status.Addresses = "firmware-1/windows-1", []string{"10.0.0.5"}
	f := newFixture(t, old, member("new", "10.0.0.5", duplicate))
	f.delete()
	f.settle()
	got := &v1alpha1.WindowsInstance{}
	if err := f.Get(t.Context(), client.ObjectKey{Namespace: "ns", Name: "new"}, got); err != nil {
		t.Fatal(err)
	}
	if o := got.Status.Operation; o == nil || o.Type != reconfigure || len(got.Status.History) > 0 {
		t.Errorf("handed over operation %+v, history %+v", o, got.Status.History)
	}
}

// An entry is renamed while its pool is paused, so that the new instance is not probed. When the
// pause ends it gets the time to be, whichever controller works by then.
func TestRenamedInAPause(t *testing.T) {
	pool := &v1alpha1.WindowsNodePool{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "pool"}, Spec: v1alpha1.WindowsNodePoolSpec{Paused: true}}
	old := member("win-1", "10.0.0.5", held, inspected, has(revision1), func(i *v1alpha1.WindowsInstance) { i.CreationTimestamp = *ago(time.Hour) })
	f := newFixture(t, old, member("new", "host5.example.com", fresh), pool)
	f.delete()
	f.settle()
	f.expectTold("Paused")
	f.clock.Step(24 * time.Hour)
	f.settle()
	pool.Spec.Paused = false
	if err := f.Update(t.Context(), pool); err != nil {
		t.Fatal(err)
	}
	f.settle()
	for range 3 {
		f.clock.Step(heirPatience / 4)
		f.r.standings = newStandings(nil) // another process
		if f.settle(); f.get().Status.Operation != nil {
			t.Fatalf("the host is removed: %+v", f.get().Status.Operation)
		}
	}
	// It is probed.
	renamed := member("new", "host5.example.com")
	current := &v1alpha1.WindowsInstance{}
	if err := f.Get(t.Context(), client.ObjectKeyFromObject(renamed), current); err != nil {
		t.Fatal(err)
	}
	current.Status = renamed.Status
	if err := f.Status().Update(t.Context(), current); err != nil {
		t.Fatal(err)
	}
	f.settle()
	f.expectTold("HostLeft")
	if f.get() != nil {
		t.Error("the object is still there")
	}
}

// Right before a removal begins it is asked once more whether there is an heir.
func TestSuperseded(t *testing.T) {
	old := member("win-1", "10.0.0.5", held, func(i *v1alpha1.WindowsInstance) { i.CreationTimestamp = *ago(time.Hour) })
	f := newFixture(t, old, member("other", "10.0.0.6", fresh))
	wanted := func(is bool, err error) WantedFunc {
		return func(context.Context, *v1alpha1.WindowsInstance) (bool, error) { return is, err }
	}
	if why, err := Superseded(t.Context(), f, wanted(false, nil), f.get(), f.clock.Now()); !strings.Contains(why, "was not probed yet") || err != nil {
		t.Errorf("with one that may be the same host: %q, %v", why, err)
	}
	f.delete()
	f.become(func(i *v1alpha1.WindowsInstance) {
		i.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionRemoved, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonRemoving, LastTransitionTime: metav1.NewTime(testNow)}}
	})
	for _, wait := range []struct {
		time.Duration
		want bool
	}{{heirPatience - time.Second, true}, {heirPatience, false}} {
		if why, err := Superseded(t.Context(), f, wanted(false, nil), f.get(), testNow.Add(wait.Duration)); (why != "") != wait.want || err != nil {
			t.Errorf("after %s: %q, %v", wait.Duration, why, err)
		}
	}
	f.clock.Step(time.Hour)
	if why, err := Superseded(t.Context(), f, wanted(true, nil), f.get(), f.clock.Now()); !strings.Contains(why, "its source asks for it again") || err != nil {
		t.Errorf("put back: %q, %v", why, err)
	}
	if _, err := Superseded(t.Context(), f, wanted(false, errors.New("no")), f.get(), f.clock.Now()); err == nil {
		t.Error("not known whether it was put back: no error")
	}
	if err := f.Create(t.Context(), member("new", "10.0.0.5")); err != nil {
		t.Fatal(err)
	}
	if why, err := Superseded(t.Context(), f, wanted(false, nil), f.get(), f.clock.Now()); !strings.Contains(why, "instance new") || err != nil {
		t.Errorf("with one: %q, %v", why, err)
	}
}

// A removal that has evicted pods and then fails goes on: no instance takes over a host whose Node
// is cordoned by it, whatever became of its later attempts.
func TestBegunRemovalGoesOn(t *testing.T) {
	f := newFixture(t, member("win-1", "10.0.0.5", held, inspected, has(revision1), sourced, func(i *v1alpha1.WindowsInstance) { i.CreationTimestamp = *ago(time.Hour) }))
	back := false
	f.r.Wanted = func(context.Context, *v1alpha1.WindowsInstance) (bool, error) { return back, nil }
	f.delete()
	f.settle()
	f.become(finish(failed, f.clock.Now(), at(v1alpha1.StepDrain, v1alpha1.StepFailed)))
	f.settle()
	back = true
	if err := f.Create(t.Context(), member("new", "10.0.0.5", duplicate)); err != nil {
		t.Fatal(err)
	}
	for range v1alpha1.MaxHistory + 2 {
		f.clock.Step(removeBackoff.Cap)
		f.settle()
		if f.get() == nil {
			t.Fatal("the host was released, with its Node cordoned")
		}
		if why, err := Superseded(t.Context(), f, f.r.Wanted, f.get(), f.clock.Now()); why != "" || err != nil {
			t.Fatalf("the removal is refused: %q, %v", why, err)
		}
		f.become(finish(failed, f.clock.Now(), at(v1alpha1.StepConnect, v1alpha1.StepFailed)))
	}
}

// A clock that ran ahead says nothing about since when a removal waits for an heir.
func TestHeirIsNotAwaitedForDays(t *testing.T) {
	old := member("win-1", "10.0.0.5", held, inspected, has(revision1), deleted(time.Hour), func(i *v1alpha1.WindowsInstance) {
		i.CreationTimestamp = *ago(2 * time.Hour)
		i.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionRemoved, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonRemoving, LastTransitionTime: *ago(-72 * time.Hour)}}
	})
	if a, ok := (snapshot{instance: old, awaited: true, now: testNow}).inherit(); ok {
		t.Errorf("it is waited until %s", a.again)
	}
}

// An entry is put back while the host of its instance cannot be reached to be removed: as soon as
// it answers the object goes, so that the next one of its name can have the host, and the host
// and its Node stay.
func TestPutBack(t *testing.T) {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "win-1", UID: "1"}}
	f := newFixture(t, member("win-1", "10.0.0.5", held, inspected, has(revision1), sourced, func(i *v1alpha1.WindowsInstance) {
		i.Status.Node = &v1alpha1.NodeReference{Name: node.Name, UID: node.UID}
	}), node)
	back, asked := false, 0
	f.r.Wanted = func(context.Context, *v1alpha1.WindowsInstance) (bool, error) { asked++; return back, nil }
	f.settle()
	if asked > 0 {
		t.Error("it is asked whether an instance was put back that is there")
	}
	f.delete()
	f.settle()
	f.become(finish(failed, f.clock.Now(), at(v1alpha1.StepConnect, v1alpha1.StepFailed)))
	f.clock.Step(removeBackoff.Duration)
	f.settle()
	f.become(finish(failed, f.clock.Now(), at(v1alpha1.StepConnect, v1alpha1.StepFailed)))
	back = true
	if got := f.settle().RequeueAfter; got != 2*removeBackoff.Duration {
		t.Errorf("it is tried again after %s", got)
	}
	if f.get() == nil {
		t.Fatal("the object is gone, and the next one could not reach its host")
	}
	f.clock.Step(2 * removeBackoff.Duration)
	f.settle()
	f.told()
	f.become(finish(failed, f.clock.Now(), at(v1alpha1.StepConnect, v1alpha1.StepSucceeded)))
	f.settle()
	f.expectTold("HostLeft")
	if f.get() != nil {
		t.Error("the object is still there")
	}
	if err := f.Get(t.Context(), client.ObjectKeyFromObject(node), &corev1.Node{}); err != nil {
		t.Errorf("its Node is gone: %v", err)
	}
}

// A new instance that is never probed holds a removal up for a while, and not for ever.
func TestNobodyInherits(t *testing.T) {
	f := newFixture(t, handMadePool(), member("win-1", "10.0.0.5", held, inspected, has(revision1), func(i *v1alpha1.WindowsInstance) { i.CreationTimestamp = *ago(time.Hour) }),
		member("new", "host5.example.com", fresh))
	f.delete()
	f.settle()
	f.clock.Step(heirPatience - time.Second)
	if f.settle(); f.get().Status.Operation != nil {
		t.Errorf("it was not waited: %+v", f.get().Status.Operation)
	}
	f.clock.Step(time.Second)
	if f.settle(); f.get().Status.Operation == nil {
		t.Error("the host is not removed")
	}
}
