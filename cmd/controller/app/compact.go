// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package app

import (
	"slices"
	"unique"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	nodecontroller "github.com/openshift/windows-instance-api/pkg/controller/node"
	"github.com/openshift/windows-instance-api/pkg/wmco"
	"github.com/openshift/windows-instance-api/pkg/wmco/takeover"
)

// compactInstance keeps of an instance no memory that it does not use: lists that were decoded have room for more, and each word of the API, such
// as the type of a condition, would be there once for each of thousands of hosts. The cache is most of what the controller has in memory,
// and the less that is, the less often garbage is collected. Of the managed fields of the status it keeps who manages some, and not
// which: the controllers ask only which they have applied besides, and send none ([object.UpdateStatus]).
func compactInstance(cached any) (any, error) {
	decoded, ok := cached.(*v1alpha1.WindowsInstance)
	if !ok {
		return cached, nil
	}
	for n := range decoded.ManagedFields {
		if m := &decoded.ManagedFields[n]; m.Subresource != "" {
			m.FieldsV1 = nil
		}
	}
	i := decoded.DeepCopy() // whose lists are as long as they are
	for n := range i.Status.Conditions {
		c := &i.Status.Conditions[n]
		share(&c.Type)
		share(&c.Reason)
		share(&c.Status)
		share(&c.Message) // most hosts are well, and say it with the same words
	}
	if i.Status.Operation != nil {
		compactOperation(i.Status.Operation)
	}
	for n := range i.Status.History {
		compactOperation(&i.Status.History[n])
	}
	for n := range i.ManagedFields {
		m := &i.ManagedFields[n]
		share(&m.Manager)
		share(&m.Operation)
		share(&m.APIVersion)
		share(&m.FieldsType)
		share(&m.Subresource)
	}
	return i, nil
}

func compactOperation(o *v1alpha1.Operation) {
	share(&o.Type)
	share(&o.Phase)
	share(&o.Origin)
	share(&o.Cause)
	share(&o.RequestedBy)
	share(&o.Revision)
	share(&o.PoolRevision)
	share(&o.Impact)
	share(&o.AdmittedImpact)
	for n := range o.Steps {
		share(&o.Steps[n].Name)
		share(&o.Steps[n].State)
		share(&o.Steps[n].Message)
	}
}

// annotations of Nodes that the controllers read.
var annotations = append(nodecontroller.Annotations(), wmco.SubnetAnnotation, wmco.RebootRequiredAnnotation, wmco.PublicKeyHashAnnotation, takeover.HostKeyAnnotation, v1alpha1.CordonedByAnnotation)

// compactNode keeps of a Node what the controllers read, as [compactInstance] does: in a large cluster most of the memory would be images, what
// volumes are attached, and what else kubelets report. No controller writes a Node from the cache.
func compactNode(cached any) (any, error) {
	node, ok := cached.(*corev1.Node)
	if !ok {
		return cached, nil
	}
	nodecontroller.TrimManagedFields(node)
	kept, status := node.Annotations, node.Status
	node.Annotations = nil
	for _, key := range annotations {
		if value, ok := kept[key]; ok {
			metav1.SetMetaDataAnnotation(&node.ObjectMeta, key, value)
		}
	}
	node.Labels = compactLabels(node.Labels)
	node.Status = corev1.NodeStatus{
		Phase: status.Phase, Addresses: slices.Clip(slices.Clone(status.Addresses)), Conditions: slices.Clip(slices.Clone(status.Conditions)), NodeInfo: status.NodeInfo,
	}
	if cpu, ok := status.Capacity[corev1.ResourceCPU]; ok {
		node.Status.Capacity = corev1.ResourceList{corev1.ResourceCPU: cpu}
	}
	for n := range node.Status.Addresses {
		share(&node.Status.Addresses[n].Type)
	}
	for n := range node.Status.Conditions {
		c := &node.Status.Conditions[n]
		share(&c.Type)
		share(&c.Status)
		share(&c.Reason)
		share(&c.Message)
	}
	info := &node.Status.NodeInfo
	for _, text := range []*string{
		&info.KernelVersion, &info.OSImage, &info.ContainerRuntimeVersion, &info.KubeletVersion, &info.OperatingSystem, &info.Architecture,
	} {
		share(text)
	}
	return node, nil
}

func compactLabels(decoded map[string]string) map[string]string {
	if decoded == nil {
		return nil
	}
	labels := make(map[string]string, len(decoded))
	for key, value := range decoded {
		share(&key)
		if key != corev1.LabelHostname { // each Node has its own
			share(&value)
		}
		labels[key] = value
	}
	return labels
}

// share has equal strings be one in memory.
func share[S ~string](s *S) { *s = S(unique.Make(string(*s)).Value()) }
