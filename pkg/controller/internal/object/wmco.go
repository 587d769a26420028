// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package object

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/wmco"
)

// MadeByWMCO says whether the Windows Machine Config Operator has configured the host of a Node last: its
// annotation is there, which we write too, and not what only we write. Without a Node it is false.
func MadeByWMCO(node *corev1.Node) bool {
	return node != nil && !Ours(node) && node.Annotations[wmco.VersionAnnotation] != ""
}

// Ours says whether a Node has what only we write on the Nodes of the hosts that we have configured.
func Ours(node *corev1.Node) bool {
	_, ours := node.Labels[v1alpha1.NamespaceLabel]
	return ours
}
