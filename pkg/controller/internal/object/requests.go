// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package object

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/openshift/windows-instance-api/pkg/wmco"
)

// WrittenVersionAnnotation on a Node is the value that we gave [wmco.VersionAnnotation]. Without it nobody could tell whether a
// Node that lacks the version, or has another one, was never given it, has that of an earlier release, or was changed since.
const WrittenVersionAnnotation = "windows.openshift.io/written-version"

// AsksForConfiguration says whether somebody asks for the host of a Node to be configured again, as WMCO documents it: the
// version that we wrote was removed or changed. Without a Node nobody does.
func AsksForConfiguration(node *corev1.Node) bool {
	if node == nil {
		return false
	}
	written := node.Annotations[WrittenVersionAnnotation]
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
