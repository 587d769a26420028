// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package app

import (
	"context"
	"encoding/json"
	"net/netip"
	"sync"
	"testing"
	"unsafe"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	coreinformers "k8s.io/client-go/informers/core/v1"
	kubefake "k8s.io/client-go/kubernetes/fake"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/host/networks"
)

// TestAddressesOfCompactNodes: the cache keeps of Nodes what says that no host has their addresses.
func TestAddressesOfCompactNodes(t *testing.T) {
	reported := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "linux-1"},
		Spec:       corev1.NodeSpec{PodCIDRs: []string{"10.244.0.0/24"}},
		Status: corev1.NodeStatus{
			NodeInfo:  corev1.NodeSystemInfo{OperatingSystem: "linux"},
			Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "192.0.2.20"}},
			Images:    []corev1.ContainerImage{{Names: []string{"example.com/a"}}},
		},
	}
	kinds := map[schema.GroupVersionResource]string{}
	for resource, kind := range map[string]string{
		"servicecidrs.v1.networking.k8s.io": "ServiceCIDRList", "endpointslices.v1.discovery.k8s.io": "EndpointSliceList", "configmaps.v1.": "ConfigMapList",
		"networks.v1.config.openshift.io": "NetworkList", "networks.v1.operator.openshift.io": "NetworkList",
	} {
		gvr, _ := schema.ParseResourceArg(resource)
		kinds[*gvr] = kind
	}
	informer := coreinformers.NewNodeInformer(kubefake.NewClientset(reported), 0, toolscache.Indexers{})
	if err := informer.SetTransform(compactNode); err != nil {
		t.Fatal(err)
	}
	known, err := networks.WatchBeside(t.Context(), informer, dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), kinds))
	if err != nil {
		t.Fatal(err)
	}
	defer known.Close()
	ctx, cancel := context.WithCancel(t.Context())
	var ended sync.WaitGroup
	ended.Go(func() { informer.RunWithContext(ctx) })
	defer ended.Wait()
	defer cancel()
	if err := known.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	if kept := informer.GetStore().List()[0].(*corev1.Node); len(kept.Status.Images) > 0 { //nolint:forcetypeassert // a panic says it as well
		t.Errorf("images are kept: %v", kept.Status.Images)
	}
	for address, want := range map[string]string{"192.0.2.20": "a Linux Node's", "10.244.0.7": "a pod's", "192.0.2.30": ""} {
		if got, err := known.Kind(netip.MustParseAddr(address)); err != nil || got != want {
			t.Errorf("%s is %q, %v, want %q", address, got, err, want)
		}
	}
}

// TestCompactInstance: what the cache keeps of instances says the same but which fields of the status are managed, has no room that is not used, and each word once.
func TestCompactInstance(t *testing.T) {
	stored := &v1alpha1.WindowsInstance{ObjectMeta: metav1.ObjectMeta{Name: "a", ManagedFields: []metav1.ManagedFieldsEntry{
		{Manager: "kubectl", Operation: metav1.ManagedFieldsOperationApply, FieldsV1: metav1.NewFieldsV1(`{"f:spec":{}}`)},
		{Manager: "windows-controller", Operation: metav1.ManagedFieldsOperationUpdate, Subresource: "status"},
	}}}
	for _, kind := range []string{v1alpha1.ConditionReady, v1alpha1.ConditionResolved, v1alpha1.ConditionReachable, v1alpha1.ConditionNodeReady, v1alpha1.ConditionUpToDate} {
		stored.Status.Conditions = append(stored.Status.Conditions, metav1.Condition{Type: kind, Reason: "Fine", Status: metav1.ConditionTrue, Message: "It is."})
	}
	operation := v1alpha1.Operation{ID: "op-1", Type: v1alpha1.OperationReconfigure, Phase: v1alpha1.OperationSucceeded, Revision: "r1"}
	for _, name := range []string{v1alpha1.StepPlan, v1alpha1.StepCordon, v1alpha1.StepDrain, v1alpha1.StepApply, v1alpha1.StepNodeReady} {
		operation.Steps = append(operation.Steps, v1alpha1.OperationStep{Name: name, State: v1alpha1.StepSucceeded})
	}
	stored.Status.Operation = operation.DeepCopy()
	for range 5 {
		stored.Status.History = append(stored.Status.History, *operation.DeepCopy())
	}
	text, err := json.Marshal(stored)
	if err != nil {
		t.Fatal(err)
	}
	kept := make([]*v1alpha1.WindowsInstance, 2)
	for n := range kept {
		decoded := &v1alpha1.WindowsInstance{}
		if err := json.Unmarshal(text, decoded); err != nil {
			t.Fatal(err)
		}
		decoded.ManagedFields[1].FieldsV1 = metav1.NewFieldsV1(`{"f:status":{}}`)
		got, err := compactInstance(decoded)
		if err != nil {
			t.Fatal(err)
		}
		kept[n] = got.(*v1alpha1.WindowsInstance) //nolint:forcetypeassert // a panic says it as well
		if diff := cmp.Diff(stored, kept[n]); diff != "" {
			t.Errorf("it says something else (-want +got):\n%s", diff)
		}
	}
	for _, i := range kept {
		for name, lengths := range map[string][2]int{
			"conditions": {len(i.Status.Conditions), cap(i.Status.Conditions)},
			"history":    {len(i.Status.History), cap(i.Status.History)},
			"steps":      {len(i.Status.History[0].Steps), cap(i.Status.History[0].Steps)},
		} {
			if lengths[0] != lengths[1] {
				t.Errorf("%d %s have room for %d", lengths[0], name, lengths[1])
			}
		}
	}
	same := func(what, a, b string) {
		if unsafe.StringData(a) != unsafe.StringData(b) {
			t.Errorf("%s %q is kept twice", what, a)
		}
	}
	a, b := kept[0], kept[1]
	same("condition", a.Status.Conditions[0].Type, b.Status.Conditions[0].Type)
	same("step", a.Status.History[0].Steps[2].Name, b.Status.Operation.Steps[2].Name)
	same("revision", a.Status.History[4].Revision, b.Status.Operation.Revision)
	same("manager", a.ManagedFields[0].Manager, b.ManagedFields[0].Manager)

	other := &v1alpha1.WindowsNodePool{}
	if got, err := compactInstance(other); got != any(other) || err != nil {
		t.Errorf("something else became %v: %v", got, err)
	}
}
