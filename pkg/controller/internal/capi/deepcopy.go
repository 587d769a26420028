// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package capi

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
)

func copied[T any](p *T) *T {
	if p == nil {
		return nil
	}
	return ptr.To(*p)
}

func (s *SetSpec) deepCopy() SetSpec {
	out := *s
	out.Replicas, out.Template.Metadata.Labels = copied(s.Replicas), maps.Clone(s.Template.Metadata.Labels)
	return out
}

// DeepCopyObject implements [runtime.Object].
func (c *Cluster) DeepCopyObject() runtime.Object { return ptr.To(c.copied()) }

func (c *Cluster) copied() Cluster {
	out := *c
	c.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	out.Spec.Paused = copied(c.Spec.Paused)
	return out
}

// DeepCopyObject implements [runtime.Object].
func (m *Machine) DeepCopyObject() runtime.Object { return ptr.To(m.copied()) }

func (m *Machine) copied() Machine {
	out := *m
	m.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	out.Spec.Bootstrap.ConfigRef, out.Spec.Bootstrap.DataSecretName = copied(m.Spec.Bootstrap.ConfigRef), copied(m.Spec.Bootstrap.DataSecretName)
	out.Spec.InfrastructureRef = copied(m.Spec.InfrastructureRef)
	if i := m.Status.Initialization; i != nil {
		out.Status.Initialization = &MachineInitialization{InfrastructureProvisioned: copied(i.InfrastructureProvisioned)}
	}
	out.Status.Addresses, out.Status.NodeRef = slices.Clone(m.Status.Addresses), copied(m.Status.NodeRef)
	return out
}

// DeepCopyObject implements [runtime.Object].
func (s *MachineSet) DeepCopyObject() runtime.Object { return ptr.To(s.copied()) }

func (s *MachineSet) copied() MachineSet {
	out := *s
	s.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	out.Spec = s.Spec.deepCopy()
	return out
}

// DeepCopyObject implements [runtime.Object].
func (d *MachineDeployment) DeepCopyObject() runtime.Object { return ptr.To(d.copied()) }

func (d *MachineDeployment) copied() MachineDeployment {
	out := *d
	d.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	out.Spec = d.Spec.deepCopy()
	return out
}

// DeepCopyObject implements [runtime.Object].
func (l *ClusterList) DeepCopyObject() runtime.Object {
	out := *l
	l.ListMeta.DeepCopyInto(&out.ListMeta)
	out.Items = make([]Cluster, len(l.Items))
	for i := range l.Items {
		out.Items[i] = l.Items[i].copied()
	}
	return &out
}

// DeepCopyObject implements [runtime.Object].
func (l *MachineList) DeepCopyObject() runtime.Object {
	out := *l
	l.ListMeta.DeepCopyInto(&out.ListMeta)
	out.Items = make([]Machine, len(l.Items))
	for i := range l.Items {
		out.Items[i] = l.Items[i].copied()
	}
	return &out
}

// DeepCopyObject implements [runtime.Object].
func (l *MachineSetList) DeepCopyObject() runtime.Object {
	out := *l
	l.ListMeta.DeepCopyInto(&out.ListMeta)
	out.Items = make([]MachineSet, len(l.Items))
	for i := range l.Items {
		out.Items[i] = l.Items[i].copied()
	}
	return &out
}

// DeepCopyObject implements [runtime.Object].
func (l *MachineDeploymentList) DeepCopyObject() runtime.Object {
	out := *l
	l.ListMeta.DeepCopyInto(&out.ListMeta)
	out.Items = make([]MachineDeployment, len(l.Items))
	for i := range l.Items {
		out.Items[i] = l.Items[i].copied()
	}
	return &out
}
