// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package configmap

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	acmetav1 "k8s.io/client-go/applyconfigurations/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
)

// fleet is the data of a ConfigMap with so many hosts, but for some.
func fleet(n int, but ...int) map[string]string {
	data := map[string]string{}
	for i := range n {
		if !slices.Contains(but, i) {
			data[fmt.Sprintf("10.1.42.%d", i)] = "username=a"
		}
	}
	return data
}

func (f *fixture) wantUIDs(before map[string]v1alpha1.WindowsInstance, names ...string) {
	f.Helper()
	now := f.instances()
	for _, name := range names {
		if i := now[name]; i.UID != before[name].UID || !i.DeletionTimestamp.IsZero() {
			f.Errorf("instance %s was removed or made anew", name)
		}
	}
}

// The ConfigMap is overwritten with one that has one of the hosts, with one that was always
// there and a typing error, with others altogether, and deleted: nothing goes.
func TestShorterConfigMapAsks(t *testing.T) {
	for _, tt := range []struct {
		name string
		edit func(*fixture)
		want string // in the condition
	}{
		{"one is left", func(f *fixture) { f.setData(fleet(1)) }, "7 hosts are kept"},
		{"one is left, and one has a typing error", func(f *fixture) {
			f.setData(map[string]string{"10.1.42.0": "username=a", "10.1.42.1": "usrname=a"})
		}, "6 hosts are kept"},
		{"others altogether", func(f *fixture) { f.setData(map[string]string{"10.9.9.9": "username=a"}) }, "8 hosts are kept"},
		{"deleted", (*fixture).deleteConfigMap, "8 hosts are kept"},
		{"deleted and made again with others", func(f *fixture) {
			f.deleteConfigMap()
			f.settle()
			if err := f.Create(f.Context(), configMapOf(map[string]string{"10.9.9.9": "username=a"})); err != nil {
				f.Fatal(err)
			}
		}, "8 hosts are kept"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := newFixture(t, emptyPool(), configMapOf(fleet(8)))
			f.settle()
			before := f.instances()
			tt.edit(f)
			f.settle()
			f.wantUIDs(before, slices.Collect(maps.Keys(before))...)
			pool := f.pool()
			f.now = f.now.Add(24 * time.Hour)
			f.settle()
			f.wantUIDs(before, slices.Collect(maps.Keys(before))...)
			if message := f.wantSynced(v1alpha1.ReasonConfirmationNeeded, pool.Status.DesiredReplicas); !strings.Contains(message, tt.want) || !strings.Contains(message, "10.1.42.7") {
				t.Errorf("message %q", message)
			}
		})
	}
}

// A confirmation is for the hosts whose digest it has, and for nothing else.
func TestConfirmationCoversWhatWasAsked(t *testing.T) {
	f := newFixture(t, emptyPool(), configMapOf(fleet(60)))
	f.settle()
	f.setData(fleet(20, 0))
	f.settle()
	few := f.toConfirm()
	f.takeEvents()

	// The condition names 30 of them: the 41st has no entry any more either.
	f.setData(fleet(20, 0, 9))
	f.settle()
	all := f.toConfirm()
	if got := f.takeEvents(); len(got) != 1 || !strings.HasPrefix(got[0], "Warning ConfirmationNeeded The ConfigMap") || !strings.Contains(got[0], all) {
		t.Errorf("events %q, want one that asks anew", got)
	}
	for _, value := range []string{"true", "", few} {
		f.confirm(value)
		f.settle()
		f.wantInstances(slices.Sorted(maps.Keys(fleet(60)))...)
		f.wantNoConfirmation()
		if got := f.takeEvents(); len(got) != 1 || !strings.Contains(got[0], "was removed, because its value does not stand for the hosts that wait now") || !strings.Contains(got[0], all) {
			t.Errorf("%q: events %q, want one that says what to run", value, got)
		}
		if message := f.wantSynced(v1alpha1.ReasonConfirmationNeeded, 60); !strings.Contains(message, "42 hosts") {
			t.Errorf("message %q", message)
		}
	}
	f.confirm(all)
	f.settle()
	f.wantInstances(slices.Sorted(maps.Keys(fleet(20, 0, 9)))...)
	f.wantSynced(v1alpha1.ReasonSynced, 18)
	f.wantNoConfirmation()
	if left := f.pool().Status.RecentRemovals; len(left) > 0 {
		t.Errorf("removals that were confirmed count: %v", left)
	}
}

// Whoever confirms something else at the moment when a confirmation is taken off has it judged.
func TestConfirmationMeanwhile(t *testing.T) {
	f := newFixture(t, emptyPool(), configMapOf(fleet(8)))
	f.settle()
	f.setData(fleet(1))
	f.settle()
	value := f.toConfirm()
	f.confirm("true")
	f.fail = func(write string) error {
		if strings.HasPrefix(write, "patch") {
			f.fail = nil
			f.confirm(value)
		}
		return nil
	}
	f.settle()
	f.pass()
	f.wantInstances("10.1.42.0")
	f.wantNoConfirmation()
}

func TestOneAnHour(t *testing.T) {
	f := newFixture(t, emptyPool(), configMapOf(fleet(5)))
	f.settle()
	f.setData(fleet(5, 4))
	f.settle()
	f.setData(fleet(5, 3, 4))
	f.settle()
	f.wantInstances(slices.Sorted(maps.Keys(fleet(4)))...)
	f.wantSynced(v1alpha1.ReasonConfirmationNeeded, 4)
	if result, err := f.r.Reconcile(quiet(t), reconcile.Request{NamespacedName: theConfigMap}); err != nil || result.RequeueAfter != time.Hour {
		t.Errorf("got %+v, %v, want another pass when the removal no longer counts", result, err)
	}
	f.now = f.now.Add(time.Hour)
	f.settle()
	f.wantInstances(slices.Sorted(maps.Keys(fleet(3)))...)
	f.wantSynced(v1alpha1.ReasonSynced, 3)
	f.now = f.now.Add(time.Hour)
	f.settle()
	if left := f.pool().Status.RecentRemovals; len(left) > 0 {
		t.Errorf("the pool still remembers %v", left)
	}
}

// What is removed is remembered before, so that it counts whatever happens afterwards.
func TestRemovalsAreRememberedFirst(t *testing.T) {
	broken := apierrors.NewInternalError(errors.New("etcd is slow"))
	f := newFixture(t, emptyPool(), configMapOf(fleet(3)))
	f.settle()
	f.setData(fleet(2))
	f.fail = func(write string) error {
		if strings.HasPrefix(write, "apply status") {
			return broken
		}
		return nil
	}
	if _, err := f.r.Reconcile(quiet(t), reconcile.Request{NamespacedName: theConfigMap}); err == nil {
		t.Error("a pass that could not remember anything succeeded")
	}
	f.wantInstances(slices.Sorted(maps.Keys(fleet(3)))...)

	f.fail = func(write string) error {
		if strings.HasPrefix(write, "delete") {
			return broken
		}
		return nil
	}
	if _, err := f.r.Reconcile(quiet(t), reconcile.Request{NamespacedName: theConfigMap}); err == nil {
		t.Error("a pass that could not delete anything succeeded")
	}
	// The controller that continues knows nothing but what is in the pool.
	f.fail, f.r.deleted = nil, map[types.UID]bool{}
	f.setData(fleet(1))
	f.settle()
	f.wantInstances("10.1.42.0", "10.1.42.1")
	f.wantSynced(v1alpha1.ReasonConfirmationNeeded, 2)
}

func TestThreeAtATime(t *testing.T) {
	f := newFixture(t, emptyPool(), configMapOf(fleet(50)))
	f.settle()
	for _, instance := range f.instances() {
		instance.Finalizers = []string{v1alpha1.HostFinalizer}
		if err := f.Update(t.Context(), &instance); err != nil {
			t.Fatal(err)
		}
	}
	f.setData(fleet(45))
	for left := 5; left > 0; left-- {
		f.settle()
		message := f.wantSynced(v1alpha1.ReasonSynced, 45)
		if left > 3 != strings.Contains(message, "begins when fewer than 3 are being removed") {
			t.Errorf("%d are left: message %q", left, message)
		}
		var leaving []v1alpha1.WindowsInstance
		for _, instance := range f.instances() {
			if !instance.DeletionTimestamp.IsZero() {
				leaving = append(leaving, instance)
			}
		}
		if want := min(left, 3); len(leaving) != want {
			t.Fatalf("%d hosts are being removed, want %d", len(leaving), want)
		}
		leaving[0].Finalizers = nil
		if err := f.Update(t.Context(), &leaving[0]); err != nil {
			t.Fatal(err)
		}
	}
	f.settle()
	f.wantInstances(slices.Sorted(maps.Keys(fleet(45)))...)
}

// A pool that vanished, whoever deleted it, is made again, and its instances stay.
func TestPoolVanishes(t *testing.T) {
	for _, tt := range []struct {
		name  string
		there bool // the ConfigMap
		want  string
	}{
		{"with its ConfigMap there", true, v1alpha1.ReasonSynced},
		{"while a question was asked", false, v1alpha1.ReasonConfirmationNeeded},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := newFixture(t, configMapOf(fleet(3)))
			f.settle()
			before := f.instances()
			for name, instance := range before {
				if len(instance.OwnerReferences) > 0 {
					t.Errorf("%s is owned, and goes with its owner: %v", name, instance.OwnerReferences)
				}
			}
			if !tt.there {
				f.deleteConfigMap()
				f.settle()
			}
			if err := f.WithWatch.Delete(t.Context(), f.pool()); err != nil {
				t.Fatal(err)
			}
			f.settle()
			f.wantSynced(tt.want, 3)
			f.wantUIDs(before, slices.Collect(maps.Keys(before))...)
		})
	}
}

// Earlier releases had the pool own its instances.
func TestOwnersOfEarlierReleasesGo(t *testing.T) {
	f := newFixture(t, emptyPool(), configMapOf(fleet(1)))
	f.settle()
	instance := f.instances()["10.1.42.0"]
	owned := instanceFor(theConfigMap, &Entry{Key: "10.1.42.0", Name: "10.1.42.0", Address: "10.1.42.0", Port: 22, Username: "a"})
	owned.WithOwnerReferences(ownerOfEarlierReleases())
	if _, err := f.r.applier.Instance(t.Context(), &instance, owned); err != nil {
		t.Fatal(err)
	}
	if got := f.instances()["10.1.42.0"]; len(got.OwnerReferences) != 1 {
		t.Fatalf("owners %v", got.OwnerReferences)
	}
	f.settle()
	got := f.instances()["10.1.42.0"]
	if len(got.OwnerReferences) > 0 || got.UID != instance.UID {
		t.Errorf("owners %v", got.OwnerReferences)
	}
}

func TestPoolStaysWithInstancesOfOthers(t *testing.T) {
	mine := handMade("10.0.0.9")
	mine.Spec.PoolRef = &v1alpha1.PoolReference{Name: theConfigMap.Name}
	f := newFixture(t, configMapOf(fleet(1)), mine)
	f.settle()
	f.deleteConfigMap()
	f.settle()
	f.wantInstances("10.0.0.9")
	if message := f.wantSynced(v1alpha1.ReasonSourceNotFound, 0); !strings.Contains(message, "10.0.0.9") {
		t.Errorf("message %q", message)
	}
}

func ownerOfEarlierReleases() *acmetav1.OwnerReferenceApplyConfiguration {
	return acmetav1.OwnerReference().
		WithAPIVersion(v1alpha1.SchemeGroupVersion.String()).
		WithKind("WindowsNodePool").WithName(theConfigMap.Name).WithUID("pool-uid").WithController(true)
}
