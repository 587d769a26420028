// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package object

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/wmco"
)

// AsksForConfiguration says whether somebody asks for the host of a Node to be configured again, as WMCO documents it: the
// version that we wrote was removed or changed. Without a Node nobody does.
func AsksForConfiguration(node *corev1.Node) bool {
	if node == nil {
		return false
	}
	written := node.Annotations[v1alpha1.WrittenVersionAnnotation]
	return written != "" && node.Annotations[wmco.VersionAnnotation] != written
}

// AsksForRestart says whether somebody asks for the host of a Node to be drained and restarted. Without a Node nobody does.
func AsksForRestart(node *corev1.Node) bool {
	if node == nil {
		return false
	}
	_, asks := node.Annotations[wmco.RebootRequiredAnnotation]
	return asks
}
