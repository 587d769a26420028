// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package configmap

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	acmetav1 "k8s.io/client-go/applyconfigurations/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
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
		{"one is left", func(f *fixture) { f.setData(fleet(1)) }, "has no entry any more for some of its hosts. 7 hosts are kept"},
		{"one is left, and one has a typing error", func(f *fixture) {
			f.setData(map[string]string{"10.1.42.0": "username=a", "10.1.42.1": "usrname=a"})
		}, "\nentry 10.1.42.1: \"usrname\" is not known; known are username, port, name and hostKey"},
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

// Somebody applies the ConfigMap of another cluster: its entries do not outweigh the hosts that are
// there, neither before anything of ours is on theirs nor right afterwards.
func TestConfigMapOfAnotherCluster(t *testing.T) {
	f := newFixture(t, emptyPool(), configMapOf(fleet(3)))
	f.settle()
	f.hold()
	before := f.instances()
	others := map[string]string{}
	for i := range 30 {
		others[fmt.Sprintf("10.9.9.%d", i)] = "username=a"
	}
	f.setData(others)
	mustWait := func() {
		t.Helper()
		f.settle()
		f.wantUIDs(before, slices.Collect(maps.Keys(before))...)
		if message := f.wantSynced(v1alpha1.ReasonConfirmationNeeded, 33); !strings.Contains(message, "3 hosts are kept") {
			t.Errorf("message %q", message)
		}
	}
	mustWait()
	for name, instance := range f.instances() {
		if _, there := before[name]; !there {
			instance.CreationTimestamp = metav1.NewTime(f.now)
			instance.Finalizers = []string{v1alpha1.HostFinalizer}
			if err := f.Update(t.Context(), &instance); err != nil {
				t.Fatal(err)
			}
		}
	}
	mustWait()
	f.now = f.now.Add(3 * time.Hour) // however long nobody looks
	mustWait()
	f.confirm(f.toConfirm())
	f.settle()
	if got := len(f.leaving()); got != 3 {
		t.Errorf("%d hosts are being removed", got)
	}
}

// A question is as old as its first removal, and not as what was wrong with the ConfigMap before.
func TestQuestionIsNotOlderThanItsRemovals(t *testing.T) {
	f := newFixture(t, emptyPool(), configMapOf(map[string]string{"10.1.42.0": "username=a", "10.1.43.1": "usrname=a"}))
	f.settle()
	f.wantSynced(v1alpha1.ReasonInvalidEntries, 1)
	data := fleet(40)
	data["10.1.43.1"] = "usrname=a"
	f.now = f.now.Add(30 * 24 * time.Hour)
	f.setData(data)
	f.settle()
	f.hold()
	for _, instance := range f.instances() {
		instance.CreationTimestamp = metav1.NewTime(f.now)
		if err := f.Update(t.Context(), &instance); err != nil {
			t.Fatal(err)
		}
	}
	f.now = f.now.Add(30 * 24 * time.Hour)
	delete(data, "10.1.42.38")
	delete(data, "10.1.42.39")
	f.setData(data)
	for range 3 {
		f.settle()
		if message := f.wantSynced(v1alpha1.ReasonConfirmationNeeded, 40); !strings.Contains(message, "then the removal goes on by itself") {
			t.Errorf("message %q", message)
		}
		f.now = f.now.Add(24 * time.Hour)
	}
	delete(data, "10.1.43.1")
	f.setData(data)
	f.settle()
	if got := len(f.leaving()); got != 2 {
		t.Errorf("%d hosts are being removed", got)
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
	f.pass()
	if begun := f.pool().Status.RecentRemovals; len(begun) != 42 || slices.ContainsFunc(begun, func(r v1alpha1.PoolRemoval) bool { return !r.Confirmed }) {
		t.Errorf("removals that were confirmed are remembered as others, which wait: %v", begun)
	}
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
	f.wantNext(time.Hour) // the removal no longer counts then
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

// An instance counts as deleted when it is: not when the API, which is away, knows nothing of it.
func TestDeletedWhileTheAPIIsAway(t *testing.T) {
	f := newFixture(t, emptyPool(), configMapOf(fleet(5)))
	f.settle()
	f.setData(fleet(5, 4))
	f.fail = func(write string) error {
		if strings.HasPrefix(write, "delete") {
			return apierrors.NewGenericServerResponse(http.StatusNotFound, http.MethodDelete, v1alpha1.Resource("windowsinstances"), "10.1.42.4", "404 page not found", 0, true)
		}
		return nil
	}
	if _, err := f.r.Reconcile(quiet(t), reconcile.Request{NamespacedName: theConfigMap}); err == nil {
		t.Error("nothing brings another pass")
	}
	f.fail = nil
	f.setData(fleet(5))
	f.settle()
	if got := f.instances()["10.1.42.4"]; len(f.leaving()) > 0 || got.UID == "" {
		t.Errorf("it is gone: %+v", got)
	}
	f.wantSynced(v1alpha1.ReasonSynced, 5)
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
	f.hold()
	f.setData(fleet(45))
	for left := 5; left > 0; left-- {
		f.settle()
		message := f.wantSynced(v1alpha1.ReasonSynced, 45)
		if left > 3 != strings.Contains(message, "begins when fewer than 3 are being removed") {
			t.Errorf("%d are left: message %q", left, message)
		}
		leaving := f.leaving()
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
	// The same message, whatever the order in which they are found.
	other := handMade("10.0.0.8")
	other.Spec.PoolRef = mine.Spec.PoolRef
	if got := othersIn([]v1alpha1.WindowsInstance{*mine, *handMade("10.0.0.7"), *other}, theConfigMap); !slices.Equal(got, []string{"10.0.0.8", "10.0.0.9"}) {
		t.Errorf("got %q", got)
	}
}

// A controller that waits for other removals looks again in a minute, or when a removal no longer
// counts, whatever comes first.
func TestWhenToLookAgain(t *testing.T) {
	f := newFixture(t, emptyPool(), configMapOf(fleet(8)))
	f.r.limit.Most = intstr.FromInt32(5)
	f.settle()
	f.wantNext(0)
	f.hold()
	f.setData(fleet(3))
	f.settle()
	f.wantNext(time.Minute)
	f.now = f.now.Add(time.Hour - 30*time.Second)
	f.wantNext(30 * time.Second)
	// These removals take long, and are all that is waited for; another controller has begun them.
	f.r.deleted = nil
	f.now = f.now.Add(time.Hour)
	f.settle()
	f.wantNext(time.Minute)
	if got := len(f.leaving()); got != 3 {
		t.Errorf("%d hosts are being removed", got)
	}
	// A host that does not answer holds up no other.
	gone := f.leaving()[0]
	gone.Status.Operation = unreached()
	if err := f.Status().Update(t.Context(), &gone); err != nil {
		t.Fatal(err)
	}
	f.settle()
	if got := len(f.leaving()); got != 4 {
		t.Errorf("%d hosts are being removed", got)
	}
}

// One host has messages of its own, so that the command is read as it is meant.
func TestOneHost(t *testing.T) {
	f := newFixture(t, configMapOf(fleet(2)))
	f.r.limit.Most = intstr.FromInt32(0)
	f.settle()
	f.setData(fleet(1))
	f.settle()
	message := f.wantSynced(v1alpha1.ReasonConfirmationNeeded, 2)
	if !strings.Contains(message, " 1 host is kept until it has an entry again, or until you confirm that it is to be removed. To confirm: kubectl ") ||
		!strings.HasSuffix(message, "\nIt is 10.1.42.1.\nWithout a confirmation, 0 hosts may be removed within 1h0m0s (--max-removals, --removal-window).") {
		t.Errorf("message %q", message)
	}
	f.hold()
	f.confirm(f.toConfirm())
	f.settle()
	if message := f.wantSynced(v1alpha1.ReasonSynced, 1); message != "The ConfigMap asks for 1 host." {
		t.Errorf("message %q", message)
	}
	f.deleteConfigMap()
	f.settle()
	f.confirm(f.toConfirm())
	f.settle()
	if message := f.wantSynced(v1alpha1.ReasonSourceNotFound, 0); !strings.HasSuffix(message, " was deleted; 2 hosts are being removed.") {
		t.Errorf("message %q", message)
	}
}

// A removal that the API does not take is tried again, and holds up no other.
func TestFailedRemovalIsTriedAgain(t *testing.T) {
	f := newFixture(t, emptyPool(), configMapOf(fleet(4)))
	f.r.limit.Most = intstr.FromInt32(2)
	f.settle()
	f.setData(fleet(2))
	f.fail = func(write string) error {
		if write == "delete 10.1.42.2" {
			return apierrors.NewServiceUnavailable("the server restarts")
		}
		return nil
	}
	if _, err := f.r.Reconcile(quiet(t), reconcile.Request{NamespacedName: theConfigMap}); err == nil {
		t.Error("a pass that could not delete succeeded")
	}
	f.wantInstances(slices.Sorted(maps.Keys(fleet(3)))...)
	f.fail = nil
	f.settle()
	f.wantInstances(slices.Sorted(maps.Keys(fleet(2)))...)
}

// cacheStops has the reconciler read the pool, or the instances, as they are now, whatever is written.
func (f *fixture) cacheStops(pool, instances bool) {
	f.Helper()
	var list v1alpha1.WindowsInstanceList
	if err := f.List(f.Context(), &list); err != nil {
		f.Fatal(err)
	}
	before := f.pool()
	f.r.client = interceptor.NewClient(f.WithWatch, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, o ...client.GetOption) error {
			if into, ok := obj.(*v1alpha1.WindowsNodePool); ok && pool {
				before.DeepCopyInto(into)
				return nil
			}
			return c.Get(ctx, key, obj, o...)
		},
		List: func(ctx context.Context, c client.WithWatch, into client.ObjectList, o ...client.ListOption) error {
			if into, ok := into.(*v1alpha1.WindowsInstanceList); ok && instances {
				list.DeepCopyInto(into)
				return nil
			}
			return c.List(ctx, into, o...)
		},
	})
}

// What this controller has just removed counts, although its cache does not show it yet.
func TestRemovalsThatTheCacheDoesNotKnow(t *testing.T) {
	t.Run("instances", func(t *testing.T) {
		f := newFixture(t, emptyPool(), configMapOf(fleet(8)))
		f.r.limit.Most = intstr.FromInt32(5)
		f.settle()
		f.setData(fleet(3))
		f.cacheStops(true, true)
		f.pass()
		if diff := cmp.Diff([]string{"apply status windows-instances", "delete 10.1.42.3", "delete 10.1.42.4", "delete 10.1.42.5"}, f.takeWrites()); diff != "" {
			t.Errorf("writes (-want +got):\n%s", diff)
		}
		f.pass()
		f.pass()
		if writes := f.takeWrites(); slices.ContainsFunc(writes, func(w string) bool { return strings.HasPrefix(w, "delete") }) {
			t.Errorf("writes %q, want no further removal", writes)
		}
		f.r.client = f
		f.settle()
		f.wantInstances(slices.Sorted(maps.Keys(fleet(3)))...)
		f.pass()
		if len(f.r.deleted) > 0 {
			t.Errorf("it still remembers %v", f.r.deleted)
		}
	})
	t.Run("the record in the pool", func(t *testing.T) {
		f := newFixture(t, emptyPool(), configMapOf(fleet(5)))
		f.settle()
		f.cacheStops(true, false)
		f.setData(fleet(5, 4))
		f.pass()
		f.setData(fleet(5, 3, 4))
		f.pass()
		f.wantInstances(slices.Sorted(maps.Keys(fleet(4)))...)
		f.wantSynced(v1alpha1.ReasonConfirmationNeeded, 4)
	})
	t.Run("the pool is gone", func(t *testing.T) {
		f := newFixture(t, emptyPool(), configMapOf(fleet(5)))
		f.settle()
		f.cacheStops(true, false)
		if err := f.WithWatch.Delete(t.Context(), f.pool()); err != nil {
			t.Fatal(err)
		}
		f.setData(fleet(4))
		f.fail = func(write string) error { // a status makes no pool
			if strings.HasPrefix(write, "apply status") {
				return apierrors.NewNotFound(v1alpha1.Resource("windowsnodepools"), theConfigMap.Name)
			}
			return nil
		}
		if _, err := f.r.Reconcile(quiet(t), reconcile.Request{NamespacedName: theConfigMap}); err == nil {
			t.Error("a pass that could not remember anything succeeded")
		}
		f.wantInstances(slices.Sorted(maps.Keys(fleet(5)))...)
	})
}

func ownerOfEarlierReleases() *acmetav1.OwnerReferenceApplyConfiguration {
	return acmetav1.OwnerReference().
		WithAPIVersion(v1alpha1.SchemeGroupVersion.String()).
		WithKind("WindowsNodePool").WithName(theConfigMap.Name).WithUID("pool-uid").WithController(true)
}
