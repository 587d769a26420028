// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package machine

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
)

func TestMachineSetBecomesPool(t *testing.T) {
	f := newFixture(t, machineSet("winworker", true))
	f.settle("winworker")
	got := f.pool("winworker")
	if got == nil {
		t.Fatal("there is no pool")
	}
	if ref := got.Spec.Source.MachineSet; ref == nil || ref.Name != "winworker" {
		t.Errorf("source %+v", got.Spec.Source)
	}
	wantOwners := []metav1.OwnerReference{{APIVersion: "machine.openshift.io/v1beta1", Kind: "MachineSet", Name: "winworker", UID: "uid-of-winworker", Controller: ptrTo(true)}}
	if diff := cmp.Diff(wantOwners, got.OwnerReferences); diff != "" {
		t.Errorf("owners (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]string{v1alpha1.SourceAnnotation: "MachineSet openshift-machine-api/winworker"}, got.Annotations); diff != "" {
		t.Errorf("annotations (-want +got):\n%s", diff)
	}
	checkSynced(t, got, v1alpha1.ReasonSynced, 2)
	before := got.DeepCopy()
	got.Annotations, got.OwnerReferences = nil, nil
	if err := f.Update(t.Context(), got); err != nil {
		t.Fatal(err)
	}
	f.settle("winworker")
	got = f.pool("winworker")
	if diff := cmp.Diff(before.ObjectMeta, got.ObjectMeta, cmpopts.IgnoreFields(metav1.ObjectMeta{}, "ResourceVersion", "ManagedFields")); diff != "" || len(f.events.Events) > 0 {
		t.Errorf("%d events, after an edit (-before +after):\n%s", len(f.events.Events), diff)
	}

	change(f, "winworker", &machinev1beta1.MachineSet{}, func(s *machinev1beta1.MachineSet) { s.Spec.Replicas = nil })
	if diff := cmp.Diff([]string{"apply status winworker"}, f.settle("winworker")); diff != "" {
		t.Errorf("writes (-want +got):\n%s", diff)
	}
	checkSynced(t, f.pool("winworker"), v1alpha1.ReasonSynced, 1)

	change(f, "winworker", &machinev1beta1.MachineSet{}, func(s *machinev1beta1.MachineSet) { s.Spec.Template.Labels = nil })
	f.settle("winworker")
	checkSynced(t, f.pool("winworker"), v1alpha1.ReasonSourceNotFound, 0)
}

func checkSynced(t *testing.T, pool *v1alpha1.WindowsNodePool, reason string, desired int32) {
	t.Helper()
	condition := meta.FindStatusCondition(pool.Status.Conditions, v1alpha1.ConditionSourceSynced)
	if condition == nil || condition.Reason != reason || pool.Status.DesiredReplicas != desired {
		t.Errorf("condition %+v, desiredReplicas %d, want reason %s, %d", condition, pool.Status.DesiredReplicas, reason, desired)
	}
}

func TestPoolsThatAreNotOfTheMachineSet(t *testing.T) {
	poolOfSet := func(name, set string) *v1alpha1.WindowsNodePool {
		return &v1alpha1.WindowsNodePool{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
			Spec:       v1alpha1.WindowsNodePoolSpec{Source: v1alpha1.PoolSource{MachineSet: &v1alpha1.SourceReference{Name: set}}},
		}
	}
	tests := []struct {
		name        string
		pool        *v1alpha1.WindowsNodePool
		wantMessage string
	}{
		{name: "no such MachineSet", pool: poolOfSet("p", "p"), wantMessage: "There is no MachineSet openshift-machine-api/p."},
		{name: "another name", pool: poolOfSet("p", "winworker"), wantMessage: "The pool of a MachineSet has the name of the MachineSet: the Machines of winworker belong to a pool winworker."},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := newFixture(t, tt.pool, machineSet("winworker", true))
			f.settle("p")
			condition := meta.FindStatusCondition(f.pool("p").Status.Conditions, v1alpha1.ConditionSourceSynced)
			if condition == nil || condition.Reason != v1alpha1.ReasonSourceNotFound || condition.Message != tt.wantMessage {
				t.Errorf("condition %+v, want message %q", condition, tt.wantMessage)
			}
		})
	}
	t.Run("another source", func(t *testing.T) {
		pool := poolOfSet("winworker", "")
		pool.Spec.Source = v1alpha1.PoolSource{Instances: &v1alpha1.InstancesSource{}}
		f := newFixture(t, pool, machineSet("winworker", true))
		for range 2 {
			if writes := f.settle("winworker"); len(writes) > 0 {
				t.Errorf("writes: %v", writes)
			}
		}
		if len(f.events.Events) != 1 {
			t.Fatalf("%d events about the conflict", len(f.events.Events))
		}
		if event := <-f.events.Events; !strings.HasPrefix(event, "Warning PoolConflict The WindowsNodePool winworker has another source, so the Machines of this MachineSet belong to no pool. Move its hosts to a pool of another name") {
			t.Errorf("event %q", event)
		}
	})
	t.Run("it is being deleted", func(t *testing.T) {
		pool := poolOfSet("winworker", "winworker")
		pool.Finalizers, pool.DeletionTimestamp = []string{"example.com/f"}, ptrTo(metav1.Now())
		if writes := newFixture(t, pool, machineSet("winworker", true)).settle("winworker"); len(writes) > 0 {
			t.Errorf("writes: %v", writes)
		}
	})
	t.Run("the MachineSet is being deleted", func(t *testing.T) {
		set := machineSet("winworker", true)
		set.Finalizers, set.DeletionTimestamp = []string{"foregroundDeletion"}, ptrTo(metav1.Now())
		if writes := newFixture(t, set).settle("winworker"); len(writes) > 0 {
			t.Errorf("writes: %v", writes)
		}
	})
}

// The MachineSet as the documentation of WMCO has it.
const vSphereMachineSet = `
apiVersion: machine.openshift.io/v1beta1
kind: MachineSet
metadata:
  labels:
    machine.openshift.io/cluster-api-cluster: infra-x7k2p
  name: winworker
  namespace: openshift-machine-api
spec:
  replicas: 1
  template:
    metadata:
      labels:
        machine.openshift.io/cluster-api-machineset: winworker
        machine.openshift.io/os-id: Windows
`

func TestDocumentedMachineSet(t *testing.T) {
	text := []byte(vSphereMachineSet)
	// The full text is next to the checkout where there is one.
	if full, err := os.ReadFile(filepath.Join("..", "..", "..", "..", "shared", "samples", "machineset-vsphere.yaml")); err == nil {
		text = full
	}
	var set machinev1beta1.MachineSet
	if err := yaml.Unmarshal(text, &set); err != nil {
		t.Fatal(err)
	}
	f := newFixture(t, &set)
	f.settle("winworker")
	pool := f.pool("winworker")
	if pool == nil {
		t.Fatal("there is no pool")
	}
	checkSynced(t, pool, v1alpha1.ReasonSynced, 1)
}

// TestScaledFromAndToZero: a pool outlives all of its hosts, and knows the first one that comes.
func TestScaledFromAndToZero(t *testing.T) {
	set := machineSet("winworker", true)
	set.Spec.Replicas = ptrTo(int32(0))
	f := newFixture(t, set)
	scale := func(replicas int32) *v1alpha1.WindowsNodePool {
		t.Helper()
		change(f, "winworker", &machinev1beta1.MachineSet{}, func(s *machinev1beta1.MachineSet) { s.Spec.Replicas = &replicas })
		f.settle("winworker")
		return f.pool("winworker")
	}
	pool := scale(0)
	if pool == nil {
		t.Fatal("there is no pool of a MachineSet that asks for no Machines")
	}
	checkSynced(t, pool, v1alpha1.ReasonSynced, 0)
	for range 2 {
		checkSynced(t, scale(1), v1alpha1.ReasonSynced, 1)
		if err := f.Create(t.Context(), windowsMachine("m", "winworker")); err != nil {
			t.Fatal(err)
		}
		f.settle("m")
		if i := f.instance("m"); i == nil || i.Spec.PoolRef == nil || i.Spec.PoolRef.Name != "winworker" {
			t.Fatalf("the first instance of the pool is %+v", i)
		}
		checkSynced(t, scale(0), v1alpha1.ReasonSynced, 0)
		if err := f.WithWatch.Delete(t.Context(), windowsMachine("m", "winworker")); err != nil {
			t.Fatal(err)
		}
		f.settle("m")
		if f.instance("m") != nil {
			t.Error("the instance of the last Machine is still there")
		}
	}
	if last := f.pool("winworker"); last == nil || last.UID != pool.UID {
		t.Errorf("the pool is %+v, want that of before", last)
	}
}
