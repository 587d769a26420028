// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package machine

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	configv1 "github.com/openshift/api/config/v1"
	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
)

// refusingSets are MachineSets a and b on AWS with a Machine each, a-1 and b-1, whose hosts have refused the key for long enough.
func refusingSets(t *testing.T) *fixture {
	t.Helper()
	f := newFixture(t, infrastructure(configv1.AWSPlatformType), machineSet("a", true), machineSet("b", true), windowsMachine("a-1", "a"), windowsMachine("b-1", "b"))
	for _, name := range []string{"a", "b", "a-1", "b-1"} {
		f.settle(name)
	}
	for _, name := range []string{"a-1", "b-1"} {
		f.refuses(name)
		f.settle(name)
	}
	f.now = f.now.Add(refusedFor)
	return f
}

// recorded writes into a pool that one of its Machines was replaced.
func (f *fixture) recorded(pool, value string) {
	f.Helper()
	p := f.pool(pool)
	p.Annotations[v1alpha1.ReplacedMachineAnnotation] = value
	if err := f.Update(f.Context(), p); err != nil {
		f.Fatal(err)
	}
}

// comes is a host of a pool that accepts the key, by the age of its instance.
func (f *fixture) comes(pool string, age time.Duration) {
	f.Helper()
	instance := &v1alpha1.WindowsInstance{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: pool + "-new", CreationTimestamp: metav1.NewTime(f.now.Add(-age))}}
	instance.Spec.PoolRef = &v1alpha1.PoolReference{Name: pool}
	if err := f.Create(f.Context(), instance); err != nil {
		f.Fatal(err)
	}
	f.says(instance.Name, v1alpha1.ConditionAuthenticated, metav1.ConditionTrue, v1alpha1.ReasonLoggedIn)
}

// TestOneMachineOfTheCluster: a Machine of a pool is replaced when that of another pool has come, or has had its time.
func TestOneMachineOfTheCluster(t *testing.T) {
	ago := func(f *fixture, d time.Duration) string {
		return replaced{name: "a-0", uid: "uid-of-a-0", at: f.now.Add(-d)}.String()
	}
	for name, tt := range map[string]struct {
		given    func(*fixture)
		replaced bool // the Machine of b is
	}{
		"none was replaced": {given: func(*fixture) {}, replaced: true},
		"one a moment ago":  {given: func(f *fixture) { f.recorded("a", ago(f, time.Minute)) }},
		"by a clock that is ahead": {given: func(f *fixture) {
			f.recorded("a", ago(f, -time.Minute))
		}},
		"a host that was there before accepts the key": {given: func(f *fixture) {
			f.recorded("a", ago(f, time.Minute))
			f.comes("a", time.Hour)
		}},
		"a host of another pool came": {given: func(f *fixture) {
			f.recorded("a", ago(f, time.Minute))
			f.comes("c", 0)
		}},
		"its successor came": {given: func(f *fixture) {
			f.recorded("a", ago(f, time.Minute))
			f.comes("a", 0)
		}, replaced: true},
		"its time is nearly over": {given: func(f *fixture) { f.recorded("a", ago(f, exclusiveFor-time.Second)) }},
		"its time is over":        {given: func(f *fixture) { f.recorded("a", ago(f, exclusiveFor)) }, replaced: true},
		"nobody can read it":      {given: func(f *fixture) { f.recorded("a", "what?") }, replaced: true},
		"somebody has edited it":  {given: func(f *fixture) { f.recorded("a", "a-0 uid-of-a-0 2126-03-01T12:00:00Z") }, replaced: true},
		"this one was recorded, too, and not deleted": {given: func(f *fixture) {
			f.recorded("a", ago(f, time.Minute))
			f.recorded("b", replaced{name: "b-1", uid: "uid-of-b-1", at: f.now.Add(-time.Minute)}.String())
		}, replaced: true},
		"this one was recorded long before": {given: func(f *fixture) {
			f.recorded("a", ago(f, time.Minute))
			f.recorded("b", replaced{name: "b-1", uid: "uid-of-b-1", at: f.now.Add(-exclusiveFor)}.String())
		}},
	} {
		t.Run(name, func(t *testing.T) {
			f := refusingSets(t)
			tt.given(f)
			f.settle("b-1")
			if f.isThere("b-1") == tt.replaced {
				t.Errorf("it is there: %t, events %s", f.isThere("b-1"), f.told())
			}
		})
	}
}

// TestPoolsAreReplacedInTurn: a pool that waits says for what, once, and goes on without anybody's help, also if no host of the other
// one ever accepts the key.
func TestPoolsAreReplacedInTurn(t *testing.T) {
	f := refusingSets(t)
	f.settle("a-1")
	f.settle("b-1")
	want := "Warning MachineDeletionRestricted The Machine is not replaced yet: Machine a-1 of WindowsNodePool openshift-machine-api/a was replaced at 2026-03-01T12:05:00Z, " +
		"and no host that came since has accepted the key. One Machine of the cluster is replaced at a time. That one keeps others waiting until 2026-03-01T12:35:00Z at the latest."
	if got := f.told(); f.isThere("a-1") || !f.isThere("b-1") || !strings.HasSuffix(got, want) {
		t.Fatalf("there are %t and %t, events\n%s\nwant\n%s", f.isThere("a-1"), f.isThere("b-1"), got, want)
	}
	f.now = f.now.Add(refusedFor)
	if f.settle("b-1"); !f.isThere("b-1") || f.told() != "" {
		t.Error("it is deleted, or told again")
	}
	f.now = f.now.Add(exclusiveFor - refusedFor)
	if f.settle("b-1"); f.isThere("b-1") {
		t.Errorf("it is not deleted: %s", f.told())
	}
}

// TestWhoWaitsIsAskedAgain: when a host begins to accept the key the Machines are looked at whose hosts refuse it, and then only.
func TestWhoWaitsIsAskedAgain(t *testing.T) {
	f := refusingSets(t)
	f.settle("a-1")
	f.settle("b-1")
	f.comes("a", 0)
	came := f.instance("a-new")
	before := came.DeepCopy()
	before.Status.Conditions = nil
	for _, tt := range []struct {
		name string
		got  bool
		want bool
	}{
		{"it begins to accept the key", acceptedNow.Update(event.UpdateEvent{ObjectOld: before, ObjectNew: came}), true},
		{"it goes on to", acceptedNow.Update(event.UpdateEvent{ObjectOld: came, ObjectNew: came}), false},
		{"it ceases to", acceptedNow.Update(event.UpdateEvent{ObjectOld: came, ObjectNew: before}), false},
		{"the controller starts", acceptedNow.Create(event.CreateEvent{Object: came}), false},
		{"it goes", acceptedNow.Delete(event.DeleteEvent{Object: came}), false},
	} {
		if tt.got != tt.want {
			t.Errorf("%s: Machines are looked at: %t", tt.name, tt.got)
		}
	}
	got := f.machines.replacer.waiting(t.Context(), came)
	if want := []reconcile.Request{{NamespacedName: client.ObjectKey{Namespace: namespace, Name: "b-1"}}}; !slices.Equal(got, want) {
		t.Errorf("asks for %v, want %v", got, want)
	}
	if f.settle("b-1"); f.isThere("b-1") {
		t.Errorf("it is not deleted: %s", f.told())
	}
}

// TestTwoWorkersDecide: two workers have due Machines of two pools, and their cache does not have what is recorded.
func TestTwoWorkersDecide(t *testing.T) {
	f := refusingSets(t)
	replace := func(name string) time.Duration {
		machine := &machinev1beta1.Machine{}
		if err := f.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, machine); err != nil {
			t.Fatal(err)
		}
		again, err := f.machines.replacer.replace(t.Context(), machine, f.instance(name), configv1.AWSPlatformType)
		if err != nil {
			t.Fatal(err)
		}
		return again
	}
	other := false
	f.machines.replacer.client = interceptor.NewClient(f.WithWatch, interceptor.Funcs{
		Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
			if !other { // the other worker begins while this one has decided
				other = true
				if got := replace("b-1"); got != busyFor {
					t.Errorf("the other worker asks again after %s", got)
				}
			}
			return c.Patch(ctx, obj, patch, opts...)
		},
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			err := c.List(ctx, list, opts...)
			if pools, ok := list.(*v1alpha1.WindowsNodePoolList); ok {
				for i := range pools.Items {
					delete(pools.Items[i].Annotations, v1alpha1.ReplacedMachineAnnotation)
				}
			}
			return err
		},
	})
	if replace("a-1"); f.isThere("a-1") || !f.isThere("b-1") || !other {
		t.Fatalf("there are %t and %t: %s", f.isThere("a-1"), f.isThere("b-1"), f.told())
	}
	if got := replace("b-1"); got != refusedFor || !f.isThere("b-1") {
		t.Errorf("it asks again after %s, it is there: %t", got, f.isThere("b-1"))
	}
}

// TestMachineThatMayNotBeDeleted: it keeps Machines of other pools waiting once, and takes its turn when it may be deleted.
func TestMachineThatMayNotBeDeleted(t *testing.T) {
	f := refusingSets(t)
	mayNot := true
	f.machines.replacer.client = interceptor.NewClient(f.WithWatch, interceptor.Funcs{Delete: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.DeleteOption) error {
		if mayNot && obj.GetName() == "a-1" {
			return apierrors.NewForbidden(schema.GroupResource{Resource: "machines"}, "a-1", errors.New("a webhook keeps it"))
		}
		return c.Delete(ctx, obj, opts...)
	}})
	f.settle("a-1")
	f.now = f.now.Add(exclusiveFor)
	for _, name := range []string{"a-1", "b-1"} {
		f.settle(name)
	}
	if !f.isThere("a-1") || f.isThere("b-1") {
		t.Fatalf("there are %t and %t: %s", f.isThere("a-1"), f.isThere("b-1"), f.told())
	}
	mayNot = false
	if f.settle("a-1"); !f.isThere("a-1") {
		t.Fatal("two are replaced at the same time")
	}
	f.now = f.now.Add(exclusiveFor)
	if f.settle("a-1"); f.isThere("a-1") {
		t.Fatalf("it is not deleted: %s", f.told())
	}
	if got, want := f.pool("a").Annotations[v1alpha1.ReplacedMachineAnnotation], (replaced{name: "a-1", uid: "uid-of-a-1", at: f.now}).String(); got != want {
		t.Errorf("recorded is %q, want %q", got, want)
	}
}
