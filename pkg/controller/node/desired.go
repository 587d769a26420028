// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package node

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/controller/csr/identity"
	"github.com/openshift/windows-instance-api/pkg/controller/internal/object"
	"github.com/openshift/windows-instance-api/pkg/drain"
	"github.com/openshift/windows-instance-api/pkg/wmco"
)

// workerLabel makes a Node a worker for people and for what selects Nodes by role.
const workerLabel = "node-role.kubernetes.io/worker"

// owned says whether the Node of an instance is ours to write to.
func owned(instance *v1alpha1.WindowsInstance, node *corev1.Node) bool {
	if !identity.MayOwn(instance) || givenUp(instance) {
		return false
	}
	if configured(instance) {
		return true
	}
	// The condition is not true while the host is configured again, or when that failed.
	_, once := node.Annotations[v1alpha1.ManagedTaintsAnnotation]
	return once
}

// givenUp says whether a release has given the host up, or may have: then WMCO may be making it its own, and waits for the version that it
// has written to the Node.
func givenUp(instance *v1alpha1.WindowsInstance) bool {
	return instance.Status.ReleasedBy() != nil || instance.Status.ReleaseBegunBy() != nil
}

// metadata is what is applied to a Node.
type metadata struct {
	labels, annotations map[string]string
}

// desiredMetadata returns what the Node of an instance should have. Template is nil when the
// instance is in no pool.
//
// Of the annotations that WMCO knows, only those are written that tools read on Nodes:
// which version configured the Node, and which one is to. They lead to the ConfigMap
// windows-services-<version>. The others (user, hash of the public key, host key) are
// what WMCO records for itself.
func desiredMetadata(instance *v1alpha1.WindowsInstance, template *v1alpha1.PoolTemplate, node *corev1.Node, version string) metadata {
	m := metadata{labels: desiredLabels(instance, template), annotations: map[string]string{wmco.DesiredVersionAnnotation: version}}
	before, has := node.Annotations[wmco.VersionAnnotation]
	switch {
	case object.AsksForConfiguration(node):
		// It stays as it is, and is the request, until an operation has fulfilled that.
		m.annotations[v1alpha1.WrittenVersionAnnotation] = node.Annotations[v1alpha1.WrittenVersionAnnotation]
		if has {
			m.annotations[wmco.VersionAnnotation] = before
		}
		return m
	case upToDate(instance):
		m.annotations[wmco.VersionAnnotation] = version
	case has:
		m.annotations[wmco.VersionAnnotation] = before
	}
	if written := m.annotations[wmco.VersionAnnotation]; written != "" {
		m.annotations[v1alpha1.WrittenVersionAnnotation] = written
	}
	return m
}

// upToDate says whether the host is configured as this release wants it.
func upToDate(instance *v1alpha1.WindowsInstance) bool {
	return configured(instance) &&
		instance.Status.DesiredRevision != "" && instance.Status.CurrentRevision == instance.Status.DesiredRevision
}

// mayBeOver says whether the Node has the label of an upgrade that WMCO has not completed if it does not run, since the host is
// configured by us now, and nothing is under way. Left there, it would keep WMCO from upgrading any node of the cluster when it comes
// back. While WMCO runs, it is upgrading the node: without the label it would upgrade another one beside it.
func mayBeOver(instance *v1alpha1.WindowsInstance, node *corev1.Node) bool {
	_, labeled := node.Labels[wmco.UpgradingLabel]
	return labeled && configured(instance) && !instance.Status.Operation.Active()
}

// withSpec returns the Node with the taints and the provider's ID that it is to have, without what WMCO left under way and without the mark of a
// cordon that somebody has lifted, and whether that differs from what it has. over: the upgrade that WMCO has begun is over. taken: another
// Node has the provider's ID of the instance.
func withSpec(instance *v1alpha1.WindowsInstance, template *v1alpha1.PoolTemplate, node *corev1.Node, over, taken bool) (*corev1.Node, bool) {
	taints, note, differ := desiredTaints(template, node)
	// Once a Node has an ID, it can never get another one, so it does not get one that names no machine.
	named := node.Spec.ProviderID != "" || v1alpha1.CanonicalProviderID(instance.Spec.ProviderID) == "" || taken
	abandoned := drain.Abandoned(node) && !instance.Status.Operation.Active()
	if named && !over && !abandoned && !differ {
		return node, false
	}
	changed := node.DeepCopy()
	changed.Spec.Taints = taints
	if over {
		delete(changed.Labels, wmco.UpgradingLabel)
	}
	if !named {
		changed.Spec.ProviderID = instance.Spec.ProviderID
	}
	if changed.Annotations == nil {
		changed.Annotations = map[string]string{}
	}
	if abandoned {
		delete(changed.Annotations, v1alpha1.CordonedByAnnotation)
	}
	changed.Annotations[v1alpha1.ManagedTaintsAnnotation] = note
	return changed, true
}
