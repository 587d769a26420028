// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package cluster

import (
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"

	windowsv1alpha1 "github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/desired/document"
	"github.com/openshift/windows-instance-api/pkg/desired/payload"
)

// Settings are what people decide, and what of the cluster they know better than the
// cluster itself.
type Settings struct {
	// Payload is what is shipped to hosts. Required.
	Payload *payload.Manifest
	// AgentPath is where the agent is on hosts. Empty: it does not run as a service.
	AgentPath string
	// Namespace is that of the operator. Required.
	Namespace string
	// APIServerURL is where hosts reach the API server, https://host:port. Empty: what
	// the cluster says.
	APIServerURL string
	// ServiceCIDR is the network of services; two of different families are separated
	// by a comma. Empty: what the cluster says.
	ServiceCIDR string
	// ClusterDNS is the address of the DNS of the cluster. Not valid: that of its
	// Service, or else the tenth of the network of services.
	ClusterDNS netip.Addr
	// Debug makes the services of hosts write more to their logs, as far as a pool does
	// not say otherwise.
	Debug bool
}

// Inputs is what all hosts of the cluster have in common. It never changes and may be
// used concurrently.
type Inputs struct {
	// common has nothing of any host or pool.
	common   document.Inputs
	warnings []string
}

// Host is what hosts differ in.
type Host struct {
	// Instance is the host. Required.
	Instance *windowsv1alpha1.WindowsInstance
	// Pool of the host. Nil: none; all its settings have their defaults.
	Pool *windowsv1alpha1.WindowsNodePool
	// Node of the host, with the annotation [wmco.SubnetAnnotation] if it has it. Nil:
	// it is none yet.
	Node *corev1.Node
	// Bootstrap are credentials to join with. Nil: the host has joined, or shall not.
	Bootstrap *document.TokenCredentials
}

// APIServerCA returns the certificates that the API server is verified with, in PEM.
func (in *Inputs) APIServerCA() []byte { return slices.Clone(in.common.Cluster.APIServerCA) }

// APIServerURL returns where hosts reach the API server.
func (in *Inputs) APIServerURL() string { return in.common.Cluster.APIServerURL }

// Warnings returns what does not keep hosts from being set up, and should be known.
func (in *Inputs) Warnings() []string { return slices.Clone(in.warnings) }
