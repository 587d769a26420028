// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package configmap

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
)

// TestPutBack: an entry is removed and put back before its instance is gone. The instance that
// follows has what people had set on the one before, and trusts the key that this one trusted.
func TestPutBack(t *testing.T) {
	const address = "10.1.42.0"
	set := func(i *v1alpha1.WindowsInstance) {
		i.Labels = map[string]string{"rack": "7"}
		i.Annotations["note"] = "of the night shift"
		i.Spec.Paused, i.Spec.ProviderID = true, "vm-7"
		i.Spec.Removal = &v1alpha1.RemovalOptions{Policy: v1alpha1.RemovalAbandon, AfterSeconds: new(int64(60))}
	}
	for _, tt := range []struct {
		name string
		// after is what is done when the instance was deleted and is still there.
		after func(f *fixture)
		// later is when the entry is put back, after the pass that found the instance gone. 0: before.
		later time.Duration
		given bool
		// clean: nothing of ours was left on the host.
		clean bool
	}{
		{"put back", func(f *fixture) { f.setData(map[string]string{address: "username=b"}) }, 0, true, false},
		{"put back at another port", func(f *fixture) { f.setData(map[string]string{address: "username=b\nport=2222"}) }, time.Nanosecond, false, false},
		{"put back while the ConfigMap is not seen yet", func(*fixture) {}, time.Second, true, false},
		{"put back when the host is clean", func(f *fixture) { f.setData(map[string]string{address: "username=b"}) }, 0, true, true},
		{"put back later", func(*fixture) {}, time.Hour, false, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := newFixture(t, emptyPool(), configMapOf(map[string]string{address: "username=a"}))
			f.settle()
			before := f.instances()[address]
			set(&before)
			before.Finalizers = []string{v1alpha1.HostFinalizer}
			if err := f.Update(t.Context(), &before, client.FieldOwner("kubectl-edit")); err != nil {
				t.Fatal(err)
			}
			before.Status.HostKeys = []v1alpha1.HostKeyStatus{{Type: "ssh-ed25519", Key: hostKey, TrustedBy: v1alpha1.TrustedOnFirstUse}}
			before.Status.MachineID, before.Status.CurrentRevision = "firmware-1", "r"
			if err := f.Status().Update(t.Context(), &before); err != nil {
				t.Fatal(err)
			}
			f.r.unguarded = true
			f.setData(map[string]string{})
			f.settle()
			tt.after(f)
			f.settle()
			gone := f.instances()[address]
			if gone.DeletionTimestamp.IsZero() {
				t.Fatal("it was not deleted")
			}
			if tt.clean {
				gone.Status.Operation = &v1alpha1.Operation{ID: "remove-1", Type: v1alpha1.OperationRemove, Phase: v1alpha1.OperationSucceeded}
				if err := f.Status().Update(t.Context(), &gone); err != nil {
					t.Fatal(err)
				}
				f.r.left.see(gone.DeepCopy(), theConfigMap) // as the watch does
			}
			gone.Finalizers = nil
			if err := f.Update(t.Context(), &gone); err != nil {
				t.Fatal(err)
			}
			f.settle()
			if tt.later > 0 {
				f.now = f.now.Add(tt.later)
				f.setData(map[string]string{address: "username=b"})
				f.settle()
			}

			got, there := f.instances()[address]
			if !there || got.UID == before.UID || got.Spec.Username != "b" {
				t.Fatalf("got %+v", got)
			}
			want := v1alpha1.WindowsInstance{}
			want.Spec = v1alpha1.WindowsInstanceSpec{Address: address, Port: got.Spec.Port, Username: "b", PoolRef: before.Spec.PoolRef}
			want.Annotations = map[string]string{v1alpha1.SourceAnnotation: before.Annotations[v1alpha1.SourceAnnotation]}
			if tt.given {
				set(&want)
				want.Spec.Removal.Policy = ""
				if !tt.clean {
					want.Finalizers = before.Finalizers
				}
				want.Status.HostKeys = before.Status.HostKeys
			}
			got = v1alpha1.WindowsInstance{Spec: got.Spec, Status: got.Status, ObjectMeta: metav1.ObjectMeta{Labels: got.Labels, Annotations: got.Annotations, Finalizers: got.Finalizers}}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
			// What the entry has is still its own.
			f.setData(map[string]string{address: "username=c"})
			if f.pass(); f.instances()[address].Spec.Username != "c" {
				t.Error("the entry decides no longer")
			}
		})
	}
}

// It is probed in its first moment, and trusts the key then that was trusted before: it is made with that, in one request.
func TestGivenAtOnce(t *testing.T) {
	f := newFixture(t, emptyPool(), configMapOf(fleet(40)))
	f.settle()
	f.hold()
	f.setData(fleet(40, 1))
	f.settle()
	gone := f.instances()["10.1.42.1"]
	gone.Labels, gone.Spec.Paused = map[string]string{"rack": "7"}, true
	if err := f.Update(t.Context(), &gone, client.FieldOwner("kubectl-edit")); err != nil {
		t.Fatal(err)
	}
	gone.Status.HostKeys, gone.Status.MachineID = []v1alpha1.HostKeyStatus{{Type: "ssh-ed25519", Key: hostKey, TrustedBy: v1alpha1.TrustedOnFirstUse}}, "firmware-1"
	f.r.left.see(gone.DeepCopy(), theConfigMap) // as the watch does
	gone.Finalizers = nil
	if err := f.Update(t.Context(), &gone); err != nil {
		t.Fatal(err)
	}
	f.setData(fleet(40))
	f.fail = func(write string) error {
		if write == "create 10.1.42.1" {
			return nil
		}
		return errors.New("the process ends")
	}
	_, _ = f.r.Reconcile(quiet(t), reconcile.Request{NamespacedName: theConfigMap})
	next := f.instances()["10.1.42.1"]
	if !next.DeletionTimestamp.IsZero() || !next.Spec.Paused || next.Labels["rack"] != "7" || !slices.Contains(next.Finalizers, v1alpha1.HostFinalizer) ||
		len(next.Status.HostKeys) != 1 || next.Status.HostKeys[0].Key != hostKey {
		t.Errorf("made as %+v", next)
	}
	f.fail = nil
	f.pass()
	if got := f.pool().Status.RecentRemovals; len(got) != 0 {
		t.Errorf("the pool remembers %v", got)
	}
}

// A process that ends right after it has made the instance leaves one that the next process goes on with.
func TestGivenByHalves(t *testing.T) {
	f := newFixture(t, emptyPool(), configMapOf(fleet(2)))
	f.settle()
	f.hold()
	f.setData(fleet(2, 1))
	f.settle()
	gone := f.leaving()[0]
	gone.Finalizers = nil
	if err := f.Update(t.Context(), &gone); err != nil {
		t.Fatal(err)
	}
	f.fail = func(write string) error {
		if write == "apply "+gone.Name {
			return errors.New("the process ends")
		}
		return nil
	}
	f.setData(fleet(2))
	if _, err := f.r.Reconcile(quiet(t), reconcile.Request{NamespacedName: theConfigMap}); err == nil {
		t.Fatal("the write was not made")
	}
	f.fail, f.r.left = nil, leavers{}
	f.settle()
	f.wantSynced(v1alpha1.ReasonSynced, 2)
	if made := f.instances()[gone.Name]; made.Spec.Username != "a" || !made.DeletionTimestamp.IsZero() {
		t.Errorf("got %+v", made)
	}
}

// A host whose entry was put back in time was not removed, and does not count as if it had been.
func TestPutBackIsNoRemoval(t *testing.T) {
	for _, tt := range []struct {
		name  string
		begun bool
		want  int
	}{{"in time", false, 0}, {"when its removal had begun", true, 1}} {
		t.Run(tt.name, func(t *testing.T) {
			f := newFixture(t, emptyPool(), configMapOf(fleet(3)))
			f.settle()
			f.hold()
			f.setData(fleet(3, 0))
			f.settle()
			if got := f.pool().Status.RecentRemovals; len(got) != 1 {
				t.Fatalf("the pool remembers %v", got)
			}
			f.setData(fleet(3))
			f.settle()
			f.now = f.now.Add(time.Minute)
			gone := f.leaving()[0]
			if tt.begun {
				gone.Status.Operation = &v1alpha1.Operation{
					ID: "remove-1", Type: v1alpha1.OperationRemove, Phase: v1alpha1.OperationSucceeded,
					Steps: []v1alpha1.OperationStep{{Name: v1alpha1.StepCordon, State: v1alpha1.StepSucceeded}},
				}
			}
			f.r.left.see(gone.DeepCopy(), theConfigMap) // as the watch does
			gone.Finalizers = nil
			if err := f.Update(t.Context(), &gone); err != nil {
				t.Fatal(err)
			}
			f.pass()
			if got := f.pool().Status.RecentRemovals; len(got) != tt.want {
				t.Errorf("the pool remembers %v, want %d", got, tt.want)
			}
		})
	}
}
