// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

//go:build linux

package e2e

import (
	"fmt"
	"slices"
	"testing"
	"time"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/openshift/windows-instance-api/pkg/wmco"
	"github.com/openshift/windows-instance-api/test/openshift"
)

// dies has the host of the nth Machine lose its power for good. Its MachineHealthCheck, which is paused as the user guide says and goes on
// after that, replaces the Machine; it returns the host of the new one. Nothing of the dead host holds that up.
func (m *ocpMachines) dies(t *testing.T, h *siteHost, n int) *siteHost {
	t.Helper()
	commands := section(t, "Let hosts repair themselves")
	guide := &guided{System: m.System, dir: t.TempDir()}
	check := &machinev1beta1.MachineHealthCheck{ObjectMeta: metav1.ObjectMeta{Namespace: wmco.MachineAPINamespace, Name: m.set}, Spec: machinev1beta1.MachineHealthCheckSpec{
		Selector: metav1.LabelSelector{MatchLabels: map[string]string{ofSet: m.set}},
		UnhealthyConditions: []machinev1beta1.UnhealthyCondition{
			{Type: corev1.NodeReady, Status: corev1.ConditionUnknown, Timeout: metav1.Duration{Duration: time.Second}},
			{Type: corev1.NodeReady, Status: corev1.ConditionFalse, Timeout: metav1.Duration{Duration: 10 * time.Minute}},
		},
	}}
	m.openShiftSite.create(t, check)
	guide.run(t, commands, `kubectl patch machinehealthchecks.machine.openshift.io -n openshift-machine-api winworker --type=merge -p '{"spec":{"nodeStartupTimeout":"60m"}}'`)
	if err := m.client.Get(t.Context(), client.ObjectKeyFromObject(check), check); err != nil || check.Spec.NodeStartupTimeout == nil || check.Spec.NodeStartupTimeout.Duration != time.Hour {
		t.Fatalf("Machines may be without a Node for %v, %v", check.Spec.NodeStartupTimeout, err)
	}
	const pause = "kubectl annotate machinehealthchecks.machine.openshift.io -n openshift-machine-api winworker cluster.x-k8s.io/paused"
	guide.run(t, commands, pause+"=")
	if err := h.host.PowerOff(); err != nil {
		t.Fatal(err)
	}
	node := m.platform.node(h.name, n)
	eventually(t, "the cluster misses the Node", func() error {
		conditions := h.node(t, node).Status.Conditions
		if !slices.ContainsFunc(conditions, func(c corev1.NodeCondition) bool {
			return c.Type == corev1.NodeReady && c.Status == corev1.ConditionUnknown
		}) {
			return fmt.Errorf("its conditions are %+v", conditions)
		}
		return nil
	})
	machine := &machinev1beta1.Machine{}
	if err := m.client.Get(t.Context(), client.ObjectKey{Namespace: h.namespace, Name: h.name}, machine); err != nil || !machine.DeletionTimestamp.IsZero() {
		t.Fatalf("nobody has replaced the Machine yet: %+v, %v", machine.ObjectMeta, err)
	}
	guide.run(t, commands, pause+"-")
	next := m.bring(t)
	m.mustBeForgotten(t, h, n)
	m.waitPool(t, 1)
	if err := m.client.Delete(t.Context(), check); err != nil {
		t.Fatal(err)
	}
	return next
}

// autoscale has the cluster autoscaler ask for another number of Machines.
func (m *ocpMachines) autoscale(t *testing.T, replicas int32) {
	t.Helper()
	set := &machinev1beta1.MachineSet{ObjectMeta: metav1.ObjectMeta{Namespace: wmco.MachineAPINamespace, Name: m.set}}
	patch := client.RawPatch("application/merge-patch+json", fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, replicas))
	if err := m.client.Patch(t.Context(), set, patch, client.FieldOwner("cluster-autoscaler")); err != nil {
		t.Fatal(err)
	}
}

// autoscalerTaint is what the cluster autoscaler takes Nodes out of service with before it removes them.
const autoscalerTaint = "ToBeDeletedByClusterAutoscaler"

// autoscalerRemoves has the cluster autoscaler remove the nth Machine, so that some are left.
func (m *ocpMachines) autoscalerRemoves(t *testing.T, h *siteHost, n int, left int32) {
	t.Helper()
	node := h.node(t, m.platform.node(h.name, n))
	before := client.MergeFrom(node.DeepCopy())
	node.Spec.Taints = append(node.Spec.Taints, corev1.Taint{Key: autoscalerTaint, Value: "1790000000", Effect: corev1.TaintEffectNoSchedule})
	if err := m.client.Patch(t.Context(), node, before); err != nil {
		t.Fatal(err)
	}
	machine := &machinev1beta1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: h.namespace, Name: h.name}}
	patch := client.RawPatch("application/merge-patch+json", fmt.Appendf(nil, `{"metadata":{"annotations":{%q:"1790000000"}}}`, openshift.DeleteAnnotation))
	if err := m.client.Patch(t.Context(), machine, patch); err != nil {
		t.Fatal(err)
	}
	m.autoscale(t, left)
	m.mustLeave(t, h, n)
	set := &machinev1beta1.MachineSet{}
	if err := m.client.Get(t.Context(), client.ObjectKey{Namespace: wmco.MachineAPINamespace, Name: m.set}, set); err != nil || ptr.Deref(set.Spec.Replicas, 0) != left {
		t.Errorf("the MachineSet asks for %d, want %d: %v", ptr.Deref(set.Spec.Replicas, 0), left, err)
	}
}
