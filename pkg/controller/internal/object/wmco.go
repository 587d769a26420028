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

// MarkedByWMCO says whether the Windows Machine Config Operator has to do with a Node which is not ours, also while it configures the host, or
// does so again after its update: it writes the version last, and removes it first. Without a Node it is false.
func MarkedByWMCO(node *corev1.Node) bool {
	if node == nil || Ours(node) {
		return false
	}
	_, upgrading := node.Labels[wmco.UpgradingLabel]
	return upgrading || node.Annotations[wmco.VersionAnnotation] != "" || node.Annotations[wmco.DesiredVersionAnnotation] != "" || node.Annotations[wmco.PublicKeyHashAnnotation] != ""
}

// Release says what of the labels and annotations of a Node is changed to give it back to WMCO, nil for what is removed. version is
// that of this release: WMCO takes a Node on again that has another one than its own. It stays as it is where WMCO
// has taken the Node on already, or is about to: it would take it for one that it has completed, or begin again. listed: the
// host is an entry of the ConfigMap of WMCO, which looks for its Node among those with a label. It cleans the hosts of others that have it.
func Release(node *corev1.Node, version string, listed bool) (labels, annotations map[string]any) {
	labels = map[string]any{v1alpha1.NamespaceLabel: nil, wmco.BYOHLabel: nil}
	if listed {
		labels[wmco.BYOHLabel] = "true"
	}
	annotations = map[string]any{v1alpha1.ManagedTaintsAnnotation: nil, v1alpha1.WrittenVersionAnnotation: nil}
	if !takenOn(node, version) {
		annotations[wmco.VersionAnnotation], annotations[wmco.DesiredVersionAnnotation] = version, version
	}
	return labels, annotations
}

// takenOn says whether WMCO has taken a Node on, or does at the moment: it labels the Node, removes the version, writes its own as the
// desired one and, in the end, as the version.
func takenOn(node *corev1.Node, version string) bool {
	if _, upgrading := node.Labels[wmco.UpgradingLabel]; upgrading {
		return true
	}
	has, desired, written := node.Annotations[wmco.VersionAnnotation], node.Annotations[wmco.DesiredVersionAnnotation], node.Annotations[v1alpha1.WrittenVersionAnnotation]
	if has != "" {
		return has != written
	}
	return desired != "" && desired != version && desired != written
}

// Ours says whether a Node has what only we write on the Nodes of the hosts that we have configured.
func Ours(node *corev1.Node) bool {
	_, ours := node.Labels[v1alpha1.NamespaceLabel]
	return ours
}
