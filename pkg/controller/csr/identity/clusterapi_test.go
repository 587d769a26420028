// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package identity

import (
	"errors"
	"testing"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlfake "sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/controller/internal/capi"
)

// clusterAPI has Machines of the Cluster ns/this.
func clusterAPI(t *testing.T, machines ...client.Object) *capi.Machines {
	t.Helper()
	scheme := runtime.NewScheme()
	capi.AddToScheme(scheme, "v1beta2")
	m := &capi.Machines{}
	m.Read(ctrlfake.NewClientBuilder().WithScheme(scheme).WithObjects(machines...).Build(), client.ObjectKey{Namespace: "ns", Name: "this"})
	return m
}

func ofClusterAPI(i *v1alpha1.WindowsInstance) {
	i.Annotations = map[string]string{v1alpha1.SourceAnnotation: "Machine.cluster.x-k8s.io ns/" + i.Name, v1alpha1.MachineUIDAnnotation: "uid-of-" + i.Name}
}

func machineOfClusterAPI(name, address string) *capi.Machine {
	return &capi.Machine{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID("uid-of-" + name)}, Spec: capi.MachineSpec{ClusterName: "this", ProviderID: "p://" + name},
		Status: capi.MachineStatus{Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalDNS, Address: address}}},
	}
}

// TestMachineOfClusterAPI: what a Machine of Cluster API says of its host counts as that of one of the Machine API does.
func TestMachineOfClusterAPI(t *testing.T) {
	machines := clusterAPI(t, machineOfClusterAPI("i", "win-1"))
	for name, tt := range map[string]struct {
		instance *v1alpha1.WindowsInstance
		machines *capi.Machines
		want     bool
	}{
		"its Machine":           {newInstance("i", ofClusterAPI), machines, true},
		"another one since":     {newInstance("i", ofClusterAPI, func(i *v1alpha1.WindowsInstance) { i.Annotations[v1alpha1.MachineUIDAnnotation] = "former" }), machines, false},
		"none of that name":     {newInstance("j", ofClusterAPI), machines, false},
		"an instance of nobody": {newInstance("i"), machines, false},
		"named by another":      {newInstance("j", func(i *v1alpha1.WindowsInstance) { i.Annotations = newInstance("i", ofClusterAPI).Annotations }), machines, false},
		"no Cluster API":        {newInstance("i", ofClusterAPI), nil, false},
	} {
		h, err := Nodes{Reader: newReader(t), Namespace: "ns", ClusterAPI: tt.machines}.Host(t.Context(), tt.instance, "win-1")
		if err != nil || (h.Node == "win-1") != tt.want {
			t.Errorf("%s: got %+v, %v", name, h, err)
		}
	}
	if _, err := (Nodes{Reader: newReader(t), Namespace: "ns", ClusterAPI: &capi.Machines{}}).Host(t.Context(), newInstance("i", ofClusterAPI), "win-1"); !errors.Is(err, capi.ErrNotKnown) {
		t.Errorf("before anybody knows: %v", err)
	}
}

// TestNamesOfClusterAPI: a host does not become the Node of a Machine that is not its own.
func TestNamesOfClusterAPI(t *testing.T) {
	reader := newReader(t, &machinev1beta1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: "openshift-machine-api", Name: "moved"}})
	machines := clusterAPI(t, machineOfClusterAPI("cp-0", "master-0"), machineOfClusterAPI("i", "win-1"), machineOfClusterAPI("moved", "win-2"))
	for name, want := range map[string]string{"master-0": "cp-0", "cp-0": "cp-0", "win-1": "", "win-2": "", "win-9": ""} {
		got, err := MachineNamed(t.Context(), reader, machines, newInstance("i", ofClusterAPI, func(i *v1alpha1.WindowsInstance) {
			i.Status.MachineID, i.Status.HostIP = "firmware-1/windows-1", "10.0.0.5"
		}), name)
		if err != nil || (got == nil) != (want == "") || got != nil && got.Name != want {
			t.Errorf("%s: got %v, %v, want %q", name, got, err, want)
		}
	}
	if _, err := MachineNamed(t.Context(), reader, &capi.Machines{}, newInstance("i"), "win-9"); !errors.Is(err, capi.ErrNotKnown) {
		t.Errorf("before anybody knows: %v", err)
	}
}
