// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package capi

import (
	"errors"
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"
	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

// of are one Machine in the versions of Cluster API, with what only these have.
var of = map[string]string{
	"v1beta2": `{"apiVersion":"cluster.x-k8s.io/v1beta2","kind":"Machine","metadata":{"namespace":"clusters","name":"win-7k2xq","uid":"u"},
"spec":{"clusterName":"this","failureDomain":"a","providerID":"aws:///a/i-1","readinessGates":[{"conditionType":"X"}],
 "bootstrap":{"configRef":{"apiGroup":"bootstrap.cluster.x-k8s.io","kind":"KubeadmConfig","name":"win-7k2xq"},"dataSecretName":"win-7k2xq"},
 "infrastructureRef":{"apiGroup":"infrastructure.cluster.x-k8s.io","kind":"AWSMachine","name":"win-7k2xq"}},
"status":{"phase":"Provisioned","initialization":{"infrastructureProvisioned":true,"bootstrapDataSecretCreated":true},"nodeRef":{"name":"ip-10-0-0-5"},
 "addresses":[{"type":"InternalIP","address":"10.0.0.5"}],"conditions":[{"type":"Ready","status":"False"}],"deprecated":{"v1beta1":{}}}}`,
	"v1beta1": `{"apiVersion":"cluster.x-k8s.io/v1beta1","kind":"Machine","metadata":{"namespace":"clusters","name":"win-7k2xq","uid":"u"},
"spec":{"clusterName":"this","failureDomain":"a","providerID":"aws:///a/i-1","nodeDrainTimeout":"10m",
 "bootstrap":{"configRef":{"apiVersion":"bootstrap.cluster.x-k8s.io/v1beta1","kind":"KubeadmConfig","name":"win-7k2xq","namespace":"clusters"},"dataSecretName":"win-7k2xq"},
 "infrastructureRef":{"apiVersion":"infrastructure.cluster.x-k8s.io/v1beta2","kind":"AWSMachine","name":"win-7k2xq","namespace":"clusters"}},
"status":{"phase":"Provisioned","infrastructureReady":true,"nodeRef":{"apiVersion":"v1","kind":"Node","name":"ip-10-0-0-5","uid":"n"},
 "addresses":[{"type":"InternalIP","address":"10.0.0.5"}]}}`,
}

// TestVersions: what is used of a Machine is read the same from each version.
func TestVersions(t *testing.T) {
	want := Machine{
		ObjectMeta: metav1.ObjectMeta{Namespace: "clusters", Name: "win-7k2xq", UID: "u"},
		Spec: MachineSpec{
			ClusterName: "this", ProviderID: "aws:///a/i-1", InfrastructureRef: &Reference{Kind: "AWSMachine", Name: "win-7k2xq"},
			Bootstrap: Bootstrap{ConfigRef: &Reference{Kind: "KubeadmConfig", Name: "win-7k2xq"}, DataSecretName: new("win-7k2xq")},
		},
		Status: MachineStatus{Phase: "Provisioned", Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "10.0.0.5"}}},
	}
	for _, version := range Versions {
		scheme := runtime.NewScheme()
		AddToScheme(scheme, version)
		obj, _, err := serializer.NewCodecFactory(scheme).UniversalDeserializer().Decode([]byte(of[version]), nil, nil)
		if err != nil {
			t.Fatalf("%s: %v", version, err)
		}
		got := obj.(*Machine) //nolint:forcetypeassert // or it fails here
		if !got.Provisioned() || got.Status.NodeRef == nil || got.Status.NodeRef.Name != "ip-10-0-0-5" {
			t.Errorf("%s: its status is %+v", version, got.Status)
		}
		got.TypeMeta, got.Status.NodeRef, got.Status.Initialization = metav1.TypeMeta{}, nil, nil
		if diff := cmp.Diff(&want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", version, diff)
		}
	}
}

// TestCopies: a copy has nothing in common with what it is of.
func TestCopies(t *testing.T) {
	spec := SetSpec{Replicas: new(int32(3)), Template: MachineTemplate{Metadata: TemplateMetadata{Labels: map[string]string{"a": "b"}}}}
	machine := Machine{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"a": "b"}},
		Spec:       MachineSpec{Bootstrap: Bootstrap{ConfigRef: &Reference{}, DataSecretName: new("s")}, InfrastructureRef: &Reference{}},
		Status:     MachineStatus{Initialization: &MachineInitialization{InfrastructureProvisioned: new(true)}, Addresses: []corev1.NodeAddress{{Address: "a"}}, NodeRef: &Reference{}},
	}
	for _, o := range []runtime.Object{
		&Cluster{Spec: ClusterSpec{Paused: new(true)}}, &machine, &MachineSet{Spec: spec}, &MachineDeployment{Spec: spec},
		&ClusterList{Items: []Cluster{{Spec: ClusterSpec{Paused: new(true)}}}}, &MachineList{Items: []Machine{machine}}, &MachineSetList{Items: []MachineSet{{Spec: spec}}}, &MachineDeploymentList{Items: []MachineDeployment{{Spec: spec}}},
	} {
		same := o.DeepCopyObject()
		if diff := cmp.Diff(o, same); diff != "" {
			t.Errorf("%T (-want +got):\n%s", o, diff)
		}
		apart(t, reflect.ValueOf(o), reflect.ValueOf(same), reflect.TypeOf(o).String())
	}
}

// apart fails where two values share memory.
func apart(t *testing.T, a, b reflect.Value, path string) {
	t.Helper()
	switch a.Kind() {
	case reflect.Pointer, reflect.Map, reflect.Slice:
		if !a.IsNil() && a.Pointer() == b.Pointer() {
			t.Errorf("%s is shared", path)
		}
	}
	switch a.Kind() {
	case reflect.Pointer:
		if !a.IsNil() {
			apart(t, a.Elem(), b.Elem(), path)
		}
	case reflect.Struct:
		for i := range a.NumField() {
			if a.Type().Field(i).IsExported() {
				apart(t, a.Field(i), b.Field(i), path+"."+a.Type().Field(i).Name)
			}
		}
	case reflect.Slice:
		for i := range a.Len() {
			apart(t, a.Index(i), b.Index(i), path+"[]")
		}
	}
}

func TestMachines(t *testing.T) {
	newMachine := func(namespace, name, cluster string) *Machine {
		return &Machine{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: MachineSpec{ClusterName: cluster}}
	}
	scheme := runtime.NewScheme()
	AddToScheme(scheme, "v1beta2")
	reader := fake.NewClientBuilder().WithScheme(scheme).WithObjects(newMachine("clusters", "a", "this"), newMachine("clusters", "b", "other"), newMachine("elsewhere", "c", "this")).Build()
	names := func(m *Machines) (names []string, err error) {
		all, err := m.List(t.Context())
		for _, machine := range all {
			names = append(names, machine.Name)
		}
		for _, key := range []client.ObjectKey{{Namespace: "clusters", Name: "a"}, {Namespace: "clusters", Name: "b"}, {Namespace: "elsewhere", Name: "c"}, {Namespace: "clusters", Name: "none"}} {
			if one, err := m.Get(t.Context(), key); err == nil && one != nil {
				names = append(names, "got "+one.Name)
			}
		}
		return names, err
	}
	m := &Machines{}
	if got, err := names(m); !errors.Is(err, ErrNotKnown) || len(got) > 0 {
		t.Errorf("before anybody knows: %v, %v", got, err)
	}
	m.None()
	for _, none := range []*Machines{m, nil} {
		if got, err := names(none); err != nil || len(got) > 0 {
			t.Errorf("none: %v, %v", got, err)
		}
	}
	m.Read(reader, client.ObjectKey{Namespace: "clusters", Name: "this"})
	if got, err := names(m); err != nil || !cmp.Equal(got, []string{"a", "got a"}) {
		t.Errorf("got %v, %v", got, err)
	}
}

func TestIsAlso(t *testing.T) {
	machine := &Machine{ObjectMeta: metav1.ObjectMeta{Namespace: "openshift-cluster-api", Name: "m"}, Spec: MachineSpec{ProviderID: "p://1"}}
	other := func(namespace, name string, id *string) *machinev1beta1.Machine {
		m := &machinev1beta1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
		m.Spec.ProviderID = id
		return m
	}
	for name, tt := range map[string]struct {
		other *machinev1beta1.Machine
		want  bool
	}{
		"the same name":                      {other("openshift-machine-api", "m", nil), true},
		"the same name in another namespace": {other("else", "m", nil), false},
		"the same provider ID":               {other("else", "x", new("p://1")), true},
		"another one":                        {other("openshift-machine-api", "x", new("p://2")), false},
	} {
		if got := machine.IsAlso(tt.other); got != tt.want {
			t.Errorf("%s: got %v", name, got)
		}
	}
	if (&Machine{}).IsAlso(other("else", "x", new(""))) {
		t.Error("two without a provider ID are the same")
	}
}
