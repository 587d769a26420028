// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package cluster

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/desired/document"
)

// applyTemplate puts the settings of a pool into inputs. What a pool does not set stays
// as it is for the cluster.
func applyTemplate(inputs *document.Inputs, template *v1alpha1.PoolTemplate) {
	inputs.Kubelet.Taints = taints(template.NodeTaints)
	if k := template.Kubelet; k != nil {
		if k.MaxPods != nil {
			inputs.Kubelet.MaxPods = *k.MaxPods
		}
		inputs.Kubelet.SystemReserved = quantities(k.SystemReserved)
		inputs.Kubelet.KubeReserved = quantities(k.KubeReserved)
		inputs.Kubelet.EvictionHard = k.EvictionHard
		inputs.Cluster.LogVerbosity = k.LogVerbosity
	}
	if c := template.Containerd; c != nil {
		if c.SandboxImage != "" {
			inputs.Cluster.PauseImage = c.SandboxImage
		}
		inputs.Cluster.ContainerdLogLevel = string(c.LogLevel)
	}
	inputs.Cluster.LogRotation = logRotation(template.LogRotation)
}

// taints returns the taints of a pool as Nodes have them. Nil, which leaves it to the
// default, stays nil.
func taints(of []v1alpha1.NodeTaint) []corev1.Taint {
	if of == nil {
		return nil
	}
	list := make([]corev1.Taint, 0, len(of))
	for _, t := range of {
		list = append(list, corev1.Taint{Key: t.Key, Value: t.Value, Effect: corev1.TaintEffect(t.Effect)})
	}
	return list
}

// quantities writes quantities as the configuration of the kubelet has them.
func quantities(of corev1.ResourceList) map[corev1.ResourceName]string {
	list := map[corev1.ResourceName]string{}
	for name, quantity := range of {
		list[name] = quantity.String()
	}
	return list
}

// logRotation returns the rotation that a pool sets, with the defaults.
func logRotation(t *v1alpha1.LogRotationTemplate) document.LogRotation {
	size, age := int64(document.DefaultLogSize), document.DefaultLogAge
	if t != nil && t.MaxSize != nil {
		size = t.MaxSize.Value()
	}
	if t != nil && t.MaxAgeSeconds != nil {
		age = time.Duration(*t.MaxAgeSeconds) * time.Second
	}
	return document.NewLogRotation(size, age)
}
