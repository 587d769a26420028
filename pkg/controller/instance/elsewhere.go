// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package instance

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
)

// configuredElsewhere says whether the host that has a Node was configured for an instance of another
// namespace than the given one, as far as the cluster knows: that instance may be gone with its namespace, or its
// status, and the host stays with those it was configured for. What an instance has configured itself is its,
// whatever the Node says.
func configuredElsewhere(node *corev1.Node, instance *v1alpha1.WindowsInstance) bool {
	namespace := node.Labels[v1alpha1.NamespaceLabel]
	return namespace != "" && namespace != instance.Namespace && !instance.Status.ChangedHost()
}

// describeElsewhere says for whom the host was configured, and what to do. Only those who may know of other
// namespaces learn its name.
func describeElsewhere(instance *v1alpha1.WindowsInstance, node *corev1.Node, home string) string {
	namespace := "another namespace"
	if instance.Namespace == home {
		namespace = "namespace " + node.Labels[v1alpha1.NamespaceLabel]
	}
	return fmt.Sprintf("This host, which is Node %s, was configured for %s, and stays as it is. %s. If it is to be the host of this instance, somebody who may change Nodes hands it over: kubectl label node %s %s=%s --overwrite",
		node.Name, namespace, removeThis(instance), node.Name, v1alpha1.NamespaceLabel, instance.Namespace)
}

// inspected says whether the host has said what it is like: before, a Node that has its address may be that of
// another host, whose kubelet reports what it likes.
func (s snapshot) inspected() bool {
	return s.instance.Status.System != nil || s.observation != nil && s.observation.report != nil
}
