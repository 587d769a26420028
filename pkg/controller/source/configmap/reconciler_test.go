// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package configmap

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/controller/internal/object"
)

func TestFirstPass(t *testing.T) {
	f := newFixture(t, emptyPool(), configMapOf(map[string]string{
		"10.1.42.1":            "username=Administrator\nport=2222\nhostKey=" + hostKey,
		"Instance.example.com": "username=core",
	}))
	f.settle()

	want := map[string]v1alpha1.WindowsInstance{
		"10.1.42.1": {
			ObjectMeta: metav1.ObjectMeta{
				Annotations: map[string]string{v1alpha1.SourceAnnotation: "ConfigMap openshift-windows-machine-config-operator/windows-instances, entry 10.1.42.1"},
			},
			Spec: v1alpha1.WindowsInstanceSpec{
				Address: "10.1.42.1", Port: 2222, Username: "Administrator", HostKeys: []string{hostKey},
				PoolRef: &v1alpha1.PoolReference{Name: "windows-instances"},
			},
		},
		"instance.example.com": {
			ObjectMeta: metav1.ObjectMeta{
				Annotations: map[string]string{v1alpha1.SourceAnnotation: "ConfigMap openshift-windows-machine-config-operator/windows-instances, entry Instance.example.com"},
			},
			Spec: v1alpha1.WindowsInstanceSpec{
				Address: "instance.example.com", Port: 22, Username: "core",
				PoolRef: &v1alpha1.PoolReference{Name: "windows-instances"},
			},
		},
	}
	got := f.instances()
	for name, instance := range got {
		got[name] = v1alpha1.WindowsInstance{
			ObjectMeta: metav1.ObjectMeta{OwnerReferences: instance.OwnerReferences, Annotations: instance.Annotations},
			Spec:       instance.Spec,
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("instances (-want +got):\n%s", diff)
	}
	if message := f.wantSynced(v1alpha1.ReasonSynced, 2); message != "The ConfigMap asks for 2 hosts." {
		t.Errorf("message %q", message)
	}
	if got := f.takeEvents(); len(got) > 0 {
		t.Errorf("events: %v", got)
	}
}

func TestPoolIsMade(t *testing.T) {
	f := newFixture(t, configMapOf(twoHosts()))
	f.settle()
	pool := f.pool()
	if pool == nil || pool.Spec.Source.ConfigMap == nil || pool.Spec.Source.ConfigMap.Name != theConfigMap.Name {
		t.Fatalf("pool: %+v", pool)
	}
	f.wantInstances("10.1.42.1", "instance.example.com")
	f.wantSynced(v1alpha1.ReasonSynced, 2)
}

func TestNothingIsMadeOfNothing(t *testing.T) {
	f := newFixture(t, handMade("10.0.0.9"))
	if writes := f.settle(); len(writes) > 0 {
		t.Errorf("writes without a ConfigMap: %v", writes)
	}
	f.wantInstances("10.0.0.9")
}

func TestUnchangedWorldCausesNoWrites(t *testing.T) {
	f := newFixture(t, emptyPool(), configMapOf(map[string]string{"10.1.42.1": "username=Administrator", "10.1.42.2": "bad"}))
	f.settle()
	// What the controllers of instances and pools write is no change either.
	instance := f.instances()["10.1.42.1"]
	instance.Status.Phase = v1alpha1.InstanceReady
	if err := f.Status().Update(t.Context(), &instance); err != nil {
		t.Fatal(err)
	}
	pool := f.pool()
	pool.Status.ReadyReplicas, pool.Status.Phase = 1, v1alpha1.PoolDegraded
	if err := f.Status().Update(t.Context(), pool); err != nil {
		t.Fatal(err)
	}
	f.takeWrites()
	f.takeEvents()
	f.r.applier.Live = interceptor.NewClient(f.WithWatch, interceptor.Funcs{
		Get: func(_ context.Context, _ client.WithWatch, key client.ObjectKey, obj client.Object, _ ...client.GetOption) error {
			t.Errorf("the API is asked for %T %s", obj, key)
			return nil
		},
	})
	for range 3 {
		f.wantNext(0)
	}
	if got := f.takeEvents(); len(got) > 0 {
		t.Errorf("events: %v", got)
	}
	if ready := f.pool().Status.ReadyReplicas; ready != 1 {
		t.Errorf("readyReplicas of another controller is %d, want 1", ready)
	}
}

func TestChanges(t *testing.T) {
	tests := []struct {
		name   string
		data   map[string]string
		want   []string
		writes []string
	}{
		{name: "entry added", data: map[string]string{"10.1.42.1": "username=a", "10.1.42.2": "username=a", "10.1.42.3": "username=a"}, want: []string{"10.1.42.1", "10.1.42.2", "10.1.42.3"}, writes: []string{"apply 10.1.42.3", "apply status windows-instances"}},
		{name: "entry removed", data: map[string]string{"10.1.42.1": "username=a"}, want: []string{"10.1.42.1"}, writes: []string{"apply status windows-instances", "delete 10.1.42.2"}},
		{name: "user changed", data: map[string]string{"10.1.42.1": "username=b", "10.1.42.2": "username=a"}, want: []string{"10.1.42.1", "10.1.42.2"}, writes: []string{"apply 10.1.42.1"}},
		{name: "only spaces changed", data: map[string]string{"10.1.42.1": "\n username=a \r\n", "10.1.42.2": "username=a"}, want: []string{"10.1.42.1", "10.1.42.2"}},
		{name: "a typing error removes nothing", data: map[string]string{"10.1.42.1": "usrname=a", "10.1.42.2": "username=a"}, want: []string{"10.1.42.1", "10.1.42.2"}, writes: []string{"apply status windows-instances"}},
		{name: "all entries replaced", data: map[string]string{"10.1.42.8": "username=a"}, want: []string{"10.1.42.1", "10.1.42.2", "10.1.42.8"}, writes: []string{"apply 10.1.42.8", "apply status windows-instances"}},
		{name: "entry renamed", data: map[string]string{"10.1.42.1": "username=a\nname=rack-1", "10.1.42.2": "username=a"}, want: []string{"10.1.42.2", "rack-1"}, writes: []string{"apply rack-1", "apply status windows-instances", "delete 10.1.42.1"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := newFixture(t, emptyPool(), configMapOf(map[string]string{"10.1.42.1": "username=a", "10.1.42.2": "username=a"}))
			f.settle()
			f.setData(tt.data)
			writes := f.settle()
			if diff := cmp.Diff(tt.writes, writes); diff != "" {
				t.Errorf("writes (-want +got):\n%s", diff)
			}
			f.wantInstances(tt.want...)
		})
	}
}

func TestEditsArePutRight(t *testing.T) {
	f := newFixture(t, emptyPool(), configMapOf(map[string]string{"10.1.42.1": "username=a\nhostKey=" + hostKey}))
	f.settle()
	before := f.instances()["10.1.42.1"]
	edited := before.DeepCopy()
	edited.Spec.Username, edited.Spec.Port, edited.Spec.HostKeys, edited.Annotations = "b", 23, nil, nil
	edited.Spec.Paused = true // is for people
	if err := f.Update(t.Context(), edited); err != nil {
		t.Fatal(err)
	}
	pool := f.pool()
	source := maps.Clone(pool.Annotations)
	pool.Annotations = map[string]string{"mine": "stays"}
	if err := f.Update(t.Context(), pool); err != nil {
		t.Fatal(err)
	}
	f.settle()
	source["mine"] = "stays"
	if diff := cmp.Diff(source, f.pool().Annotations); diff != "" {
		t.Errorf("annotations of the pool (-want +got):\n%s", diff)
	}
	got := f.instances()["10.1.42.1"]
	before.Spec.Paused = true
	if diff := cmp.Diff(before.Spec, got.Spec); diff != "" {
		t.Errorf("spec (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(before.Annotations, got.Annotations); diff != "" {
		t.Errorf("annotations (-want +got):\n%s", diff)
	}
	if err := f.WithWatch.Delete(t.Context(), &got); err != nil {
		t.Fatal(err)
	}
	f.settle()
	f.wantInstances("10.1.42.1")
}

func TestHostKeysCanBeTakenBack(t *testing.T) {
	f := newFixture(t, emptyPool(), configMapOf(map[string]string{"10.1.42.1": "username=a\nhostKey=" + hostKey}))
	f.settle()
	f.setData(map[string]string{"10.1.42.1": "username=a"})
	f.settle()
	if keys := f.instances()["10.1.42.1"].Spec.HostKeys; len(keys) > 0 {
		t.Errorf("hostKeys are %v, want none", keys)
	}
}

func TestBadEntriesAreReportedOnce(t *testing.T) {
	f := newFixture(t, emptyPool(), configMapOf(map[string]string{"10.1.42.1": "username=a", "10.1.42.2": "username", "10.1.42.3": ""}))
	f.pass()
	f.pass()
	want := []string{
		`Warning InvalidEntry entry 10.1.42.2: line "username" has no "="; want username=<user>`,
		`Warning InvalidEntry entry 10.1.42.3: username=<user> is missing`,
	}
	if diff := cmp.Diff(want, f.takeEvents()); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	message := f.wantSynced(v1alpha1.ReasonInvalidEntries, 1)
	if message != "entry 10.1.42.2: line \"username\" has no \"=\"; want username=<user>\nentry 10.1.42.3: username=<user> is missing" {
		t.Errorf("message %q", message)
	}
	f.wantInstances("10.1.42.1")

	// One is put right and the other gets another message.
	f.setData(map[string]string{"10.1.42.1": "username=a", "10.1.42.2": "username=a", "10.1.42.3": "username="})
	f.settle()
	if diff := cmp.Diff([]string{"Warning InvalidEntry entry 10.1.42.3: username is empty"}, f.takeEvents()); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	f.wantSynced(v1alpha1.ReasonInvalidEntries, 2)
}

func TestManyBadEntriesStayWithinBounds(t *testing.T) {
	data := map[string]string{}
	for i := range 100 {
		data[fmt.Sprintf("10.1.42.%d", i)] = "usrname=" + strings.Repeat("x", 5000)
		data[fmt.Sprintf("10.1.43.%d", i)] = strings.Repeat("ä", 5000)
	}
	f := newFixture(t, emptyPool(), configMapOf(data))
	f.settle()
	message := f.wantSynced(v1alpha1.ReasonInvalidEntries, 0)
	if len(message) > 32768 || !strings.HasSuffix(message, "\nand 170 more") {
		t.Errorf("message of %d bytes ends with %q", len(message), message[max(0, len(message)-30):])
	}
}

func TestBinaryDataIsABadEntry(t *testing.T) {
	f := newFixture(t, emptyPool(), configMapOf(map[string]string{"10.1.42.1": "username=a", "10.1.42.2": "username=a"}))
	f.settle()
	cm := configMapOf(nil)
	cm.BinaryData = map[string][]byte{"10.1.42.1": {0xff}, "10.1.42.2": {0xff}}
	if err := f.Update(t.Context(), cm); err != nil {
		t.Fatal(err)
	}
	f.settle()
	f.wantInstances("10.1.42.1", "10.1.42.2")
	f.wantSynced(v1alpha1.ReasonInvalidEntries, 0)
}

func TestHandMadeInstanceIsLeftAlone(t *testing.T) {
	f := newFixture(t, emptyPool(), handMade("10.1.42.1"), configMapOf(twoHosts()))
	f.settle()
	if got := f.instances()["10.1.42.1"]; got.Spec.Username != "me" || len(got.OwnerReferences) > 0 {
		t.Errorf("the instance was changed: %+v", got)
	}
	message := f.wantSynced(v1alpha1.ReasonInvalidEntries, 1)
	if message != "entry 10.1.42.1: a WindowsInstance 10.1.42.1 exists and does not belong to this pool" {
		t.Errorf("message %q", message)
	}
	f.setData(map[string]string{"instance.example.com": "username=core"})
	f.settle()
	f.wantInstances("10.1.42.1", "instance.example.com")
}

// An instance that somebody made a moment ago is not in the cache yet.
func TestInstanceThatTheCacheDoesNotKnowIsNotTakenOver(t *testing.T) {
	f := newFixture(t, emptyPool(), handMade("10.1.42.1"), configMapOf(twoHosts()))
	f.r.client = interceptor.NewClient(f.WithWatch, interceptor.Funcs{
		List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error { return nil },
	})
	result, err := f.r.Reconcile(quiet(t), reconcile.Request{NamespacedName: theConfigMap})
	if err != nil || result.RequeueAfter == 0 {
		t.Errorf("got %+v, %v, want another pass soon", result, err)
	}
	if got := f.instances()["10.1.42.1"]; got.Spec.Username != "me" || len(got.OwnerReferences) > 0 {
		t.Errorf("the instance was changed: %+v", got)
	}
	f.wantInstances("10.1.42.1", "instance.example.com")
}

func TestOneFailingWriteHoldsUpNoOther(t *testing.T) {
	f := newFixture(t, emptyPool(), configMapOf(map[string]string{"10.1.42.1": "username=a", "10.1.42.2": "username=a", "10.1.42.3": "username=a"}))
	f.fail = func(write string) error {
		switch write {
		case "apply 10.1.42.1":
			return apierrors.NewInternalError(errors.New("etcd is slow"))
		case "apply 10.1.42.2":
			return apierrors.NewInvalid(v1alpha1.Kind("WindowsInstance"), "10.1.42.2", nil)
		}
		return nil
	}
	_, err := f.r.Reconcile(quiet(t), reconcile.Request{NamespacedName: theConfigMap})
	if !apierrors.IsInternalError(errors.Unwrap(err)) && !strings.Contains(fmt.Sprint(err), "etcd is slow") {
		t.Errorf("got %v, want the failure, so that it is tried again", err)
	}
	f.wantInstances("10.1.42.3")
	if message := f.wantSynced(v1alpha1.ReasonInvalidEntries, 2); !strings.Contains(message, `entry 10.1.42.2: apply WindowsInstance openshift-windows-machine-config-operator/10.1.42.2: WindowsInstance.windows.openshift.io "10.1.42.2" is invalid`) || strings.Contains(message, "10.1.42.1") {
		t.Errorf("message %q, want the entry that the API refuses, and only it", message)
	}
}

func TestNewNameWaitsForItsFirstLookup(t *testing.T) {
	f := newFixture(t, emptyPool(), configMapOf(twoHosts()))
	f.dns["instance.example.com"] = Resolution{Pending: true}
	f.settle()
	f.wantInstances("10.1.42.1")
	f.wantSynced(v1alpha1.ReasonSynced, 2)
	if !f.keep("instance.example.com") || f.keep("10.1.42.1") {
		t.Error("want the names of entries to be looked up, and nothing else")
	}

	delete(f.dns, "instance.example.com") // it does not resolve, which its instance will say
	f.settle()
	f.wantInstances("10.1.42.1", "instance.example.com")
	f.wantSynced(v1alpha1.ReasonSynced, 2)
}

func TestDuplicateHost(t *testing.T) {
	f := newFixture(t, emptyPool(), configMapOf(twoHosts()))
	f.dns["instance.example.com"] = table(map[string][]string{"x": {"10.1.42.1"}})("x")
	f.settle()
	f.wantInstances("10.1.42.1")
	message := f.wantSynced(v1alpha1.ReasonInvalidEntries, 1)
	if message != "entry instance.example.com: is the same host as entry 10.1.42.1 (10.1.42.1:22): remove one of them" {
		t.Errorf("message %q", message)
	}
	// The entry that was in the way goes: the other one takes its place.
	f.setData(map[string]string{"instance.example.com": "username=core"})
	f.settle()
	f.wantInstances("instance.example.com")
	f.wantSynced(v1alpha1.ReasonSynced, 1)
}

func TestMistakeInDNSRemovesNoHost(t *testing.T) {
	f := newFixture(t, emptyPool(), configMapOf(twoHosts()))
	f.settle()
	f.dns["instance.example.com"] = table(map[string][]string{"x": {"10.1.42.1"}})("x")
	f.settle()
	f.wantInstances("10.1.42.1", "instance.example.com")
	f.wantSynced(v1alpha1.ReasonInvalidEntries, 1)
}

func TestRemovalOfAllIsConfirmed(t *testing.T) {
	removals := []struct {
		name     string
		remove   func(*fixture)
		gone     bool
		wantText string
	}{
		{name: "deleted", remove: func(f *fixture) { f.deleteConfigMap() }, gone: true, wantText: "was deleted"},
		{name: "deleted, but for its finalizer", remove: func(f *fixture) {
			cm := configMapOf(twoHosts())
			cm.Finalizers = []string{"example.com/f"}
			if err := f.Update(f.Context(), cm); err != nil {
				f.Fatal(err)
			}
			f.deleteConfigMap()
		}, gone: true, wantText: "was deleted"},
		{name: "emptied", remove: func(f *fixture) { f.setData(nil) }, wantText: "has no usable entry any more"},
		{name: "overwritten", remove: func(f *fixture) { f.setData(map[string]string{"config.yaml": "a: b"}) }, wantText: "has no usable entry any more"},
	}
	for _, tt := range removals {
		t.Run(tt.name, func(t *testing.T) {
			f := newFixture(t, configMapOf(twoHosts()))
			f.settle()
			tt.remove(f)
			f.settle()
			f.wantInstances("10.1.42.1", "instance.example.com")
			message := f.wantSynced(v1alpha1.ReasonConfirmationNeeded, 2)
			if !strings.Contains(message, tt.wantText) || !strings.Contains(message, "2 hosts") || !strings.Contains(message, "They are 10.1.42.1, instance.example.com.") {
				t.Errorf("message %q", message)
			}
			got := slices.DeleteFunc(f.takeEvents(), func(e string) bool { return !strings.Contains(e, v1alpha1.ReasonConfirmationNeeded) })
			if len(got) != 1 || !strings.HasPrefix(got[0], "Warning ConfirmationNeeded ") {
				t.Errorf("events %q, want one that asks", got)
			}

			f.confirm(f.toConfirm())
			f.settle()
			f.wantInstances()
			if tt.gone {
				if f.pool() != nil {
					t.Error("the pool is still there")
				}
				return
			}
			f.wantNoConfirmation()
		})
	}
}

func TestConfigMapComesBack(t *testing.T) {
	f := newFixture(t, emptyPool(), configMapOf(twoHosts()))
	f.settle()
	before := f.instances()
	f.deleteConfigMap()
	f.settle()
	f.wantSynced(v1alpha1.ReasonConfirmationNeeded, 2)
	if err := f.Create(t.Context(), configMapOf(twoHosts())); err != nil {
		t.Fatal(err)
	}
	f.settle()
	f.wantSynced(v1alpha1.ReasonSynced, 2)
	if diff := cmp.Diff(before, f.instances()); diff != "" {
		t.Errorf("instances (-before +after):\n%s", diff)
	}
}

func TestConfirmationAheadOfTimeIsWithdrawn(t *testing.T) {
	f := newFixture(t, emptyPool(), configMapOf(twoHosts()))
	f.settle()
	f.deleteConfigMap()
	f.settle()
	value := f.toConfirm()
	if err := f.Create(t.Context(), configMapOf(twoHosts())); err != nil {
		t.Fatal(err)
	}
	f.settle()
	f.confirm(value)
	f.settle()
	f.wantNoConfirmation()
	f.deleteConfigMap()
	f.settle()
	f.wantInstances("10.1.42.1", "instance.example.com")
	f.wantSynced(v1alpha1.ReasonConfirmationNeeded, 2)
}

func TestRemovalWithoutConfirmation(t *testing.T) {
	t.Run("by option", func(t *testing.T) {
		f := newFixture(t, configMapOf(twoHosts()))
		f.r.unguarded = true
		f.settle()
		f.deleteConfigMap()
		f.settle()
		f.wantInstances()
		if f.pool() != nil {
			t.Error("the pool is still there")
		}
	})
	t.Run("of a single host", func(t *testing.T) {
		f := newFixture(t, configMapOf(map[string]string{"10.1.42.1": "username=a"}), handMade("10.1.42.9"))
		f.settle()
		f.deleteConfigMap()
		f.settle()
		f.wantInstances("10.1.42.9")
		if f.pool() != nil {
			t.Error("the pool is still there")
		}
	})
}

// The credentials of a host may be those of its pool, so the pool goes last.
func TestPoolGoesAfterItsInstances(t *testing.T) {
	f := newFixture(t, configMapOf(map[string]string{"10.1.42.1": "username=a"}))
	f.settle()
	instance := f.instances()["10.1.42.1"]
	instance.Finalizers = []string{"windows.openshift.io/host"}
	if err := f.Update(t.Context(), &instance); err != nil {
		t.Fatal(err)
	}
	f.deleteConfigMap()
	f.settle()
	if message := f.wantSynced(v1alpha1.ReasonSourceNotFound, 0); !strings.Contains(message, "1 host is being removed") {
		t.Errorf("message %q", message)
	}
	instance = f.instances()["10.1.42.1"]
	instance.Finalizers = nil
	if err := f.Update(t.Context(), &instance); err != nil {
		t.Fatal(err)
	}
	f.settle()
	if f.pool() != nil {
		t.Error("the pool is still there")
	}
}

func TestEntryComesBackWhileItsInstanceIsDeleted(t *testing.T) {
	f := newFixture(t, emptyPool(), configMapOf(map[string]string{"10.1.42.1": "username=a", "10.1.42.2": "username=a"}))
	f.settle()
	instance := f.instances()["10.1.42.1"]
	instance.Finalizers = []string{"windows.openshift.io/host"}
	if err := f.Update(t.Context(), &instance); err != nil {
		t.Fatal(err)
	}
	f.setData(map[string]string{"10.1.42.2": "username=a"})
	f.settle()
	f.setData(map[string]string{"10.1.42.1": "username=b", "10.1.42.2": "username=a"})
	f.settle()
	instance = f.instances()["10.1.42.1"]
	if instance.DeletionTimestamp.IsZero() || instance.Spec.Username != "a" {
		t.Errorf("an instance that is being deleted was written to: %+v", instance)
	}
	f.wantSynced(v1alpha1.ReasonSynced, 2)
	instance.Finalizers = nil
	if err := f.Update(t.Context(), &instance); err != nil {
		t.Fatal(err)
	}
	f.settle()
	if got := f.instances()["10.1.42.1"]; got.Spec.Username != "b" {
		t.Errorf("the instance was not made again: %+v", got)
	}
}

func TestPoolMadeAheadOfTheConfigMapStays(t *testing.T) {
	inPool := handMade("10.0.0.9")
	inPool.Spec.PoolRef = &v1alpha1.PoolReference{Name: theConfigMap.Name}
	for _, others := range [][]client.Object{nil, {inPool}} {
		f := newFixture(t, append(others, emptyPool())...)
		f.settle()
		if message := f.wantSynced(v1alpha1.ReasonSourceNotFound, 0); !strings.Contains(message, "There is no ConfigMap") {
			t.Errorf("message %q", message)
		}
	}
}

// Nothing is written to a pool that is being deleted, nor to instances: what is made now would be
// made without its pool.
func TestPoolIsBeingDeleted(t *testing.T) {
	f := newFixture(t, configMapOf(fleet(2)))
	f.settle()
	pool := f.pool()
	pool.Finalizers = []string{"example.com/f"}
	if err := f.Update(t.Context(), pool); err != nil {
		t.Fatal(err)
	}
	if err := f.WithWatch.Delete(t.Context(), pool); err != nil {
		t.Fatal(err)
	}
	f.takeWrites()
	f.setData(fleet(4, 1))
	if writes := f.settle(); len(writes) > 0 {
		t.Errorf("writes: %v", writes)
	}
	f.wantInstances("10.1.42.0", "10.1.42.1")
}

func TestPoolWithAnotherSource(t *testing.T) {
	pool := emptyPool()
	pool.Spec.Source = v1alpha1.PoolSource{Instances: &v1alpha1.InstancesSource{}}
	f := newFixture(t, pool, configMapOf(twoHosts()))
	if writes := f.settle(); len(writes) > 0 {
		t.Errorf("writes: %v", writes)
	}
	if got := f.takeEvents(); len(got) != 1 || !strings.HasPrefix(got[0], "Warning PoolConflict The WindowsNodePool windows-instances has another source, so no instances are made. Move its hosts to a pool of another name") {
		t.Errorf("events: %v", got)
	}
}

func TestPoolOfAConfigMapThatIsNotRead(t *testing.T) {
	pool := emptyPool()
	pool.Name = "mine"
	f := newFixture(t, pool)
	key := client.ObjectKeyFromObject(pool)
	f.passOver(key)
	got, err := object.Get(t.Context(), f, key, &v1alpha1.WindowsNodePool{})
	if err != nil {
		t.Fatal(err)
	}
	condition := meta.FindStatusCondition(got.Status.Conditions, v1alpha1.ConditionSourceSynced)
	if condition == nil || condition.Reason != v1alpha1.ReasonSourceNotFound || !strings.Contains(condition.Message, theConfigMap.String()) {
		t.Errorf("condition %+v, want one that names the ConfigMap that is read", condition)
	}
	f.takeWrites()
	f.passOver(key)
	f.passOver(types.NamespacedName{Namespace: "other", Name: "gone"})
	// It gets its hosts from elsewhere.
	got.Spec.Source = v1alpha1.PoolSource{Instances: &v1alpha1.InstancesSource{}}
	got.Generation++
	if err := f.Update(t.Context(), got); err != nil {
		t.Fatal(err)
	}
	f.passOver(key)
	if writes := f.takeWrites(); len(writes) > 0 {
		t.Errorf("writes: %v", writes)
	}
}

// Of the ConfigMaps of a cluster, and their secrets, only ours is kept.
func TestCacheByObject(t *testing.T) {
	for object, by := range CacheByObject(Options{Namespace: "ours", Name: "list"}) {
		if _, ours := by.Namespaces["ours"]; !ours || len(by.Namespaces) != 1 || by.Field.String() != "metadata.name=list" {
			t.Errorf("%T: %+v", object, by)
		}
	}
}

// An entry that gets another name keeps its host: the instance of before stays while that of the new
// name cannot be made.
func TestRenamedWhileTheAPIRefuses(t *testing.T) {
	for name, refusal := range map[string]error{
		"for a moment": apierrors.NewServiceUnavailable("the server restarts"),
		"for good":     apierrors.NewInvalid(v1alpha1.Kind("WindowsInstance"), "rack-1", nil),
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, emptyPool(), configMapOf(map[string]string{"10.1.42.1": "username=a", "10.1.42.2": "username=a"}))
			f.settle()
			before := f.instances()
			f.setData(map[string]string{"10.1.42.1": "username=a\nname=rack-1", "10.1.42.2": "username=a"})
			f.fail = func(write string) error {
				if write == "apply rack-1" {
					return refusal
				}
				return nil
			}
			for range 2 {
				_, err := f.r.Reconcile(quiet(t), reconcile.Request{NamespacedName: theConfigMap})
				if (err == nil) != apierrors.IsInvalid(refusal) {
					t.Errorf("got %v", err)
				}
			}
			f.wantUIDs(before, "10.1.42.1", "10.1.42.2")
			f.fail = nil
			f.settle()
			f.wantInstances("10.1.42.2", "rack-1")
		})
	}
}
