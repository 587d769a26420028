// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package document

import (
	"net/netip"

	configv1 "github.com/openshift/api/config/v1"

	"github.com/openshift/windows-instance-api/pkg/agent/api/config"
)

// Inputs is everything that the document of a host depends on. Secrets in it are not printed
// by package fmt.
type Inputs struct {
	Payload  Payload
	Cluster  Cluster
	Kubelet  KubeletOptions // of the pool
	Instance Instance
	// AgentPath is the path of the agent on the host, which also runs from there as a service. It
	// is placed there before any document is applied. Empty: it does not run as a service.
	AgentPath string
	// Node of the host. Nil: it has none yet, and gets only what makes it one.
	Node *Node
	// DigestKey is the key of the digests of secret contents. Whoever knows it and
	// can read documents or revisions can guess contents, so it is a secret of at least
	// 32 bytes, which never changes.
	DigestKey config.SecretValue
}

// Payload is what is shipped to hosts.
type Payload struct {
	// Files of all platforms.
	Files []PayloadFile
}

// PayloadFile is a file that is shipped to hosts.
type PayloadFile struct {
	// Name in the payload, by which it is transferred.
	Name string
	// Component that it belongs to. Empty: none that is listed.
	Component string
	// Version of the component.
	Version string
	// Path on the host.
	Path string
	// Size in bytes.
	Size int64
	// SHA256 of the content in hexadecimal digits.
	SHA256 string
	// URL where hosts get the file from. Empty: it is sent to them.
	URL string
}

// Cluster is what the document takes from the cluster.
type Cluster struct {
	ServiceOptions
	// ServiceCIDRs are the service networks; only the first one is used.
	ServiceCIDRs []string
	// DNS is the address of the DNS of the cluster. Not valid: that of the first
	// service network, see [ClusterDNS].
	DNS netip.Addr
	// HybridNetwork: OVN-Kubernetes gives Windows nodes a subnet of its hybrid overlay, so that kube-proxy is that of the
	// document, whoever connects hosts with the overlay.
	HybridNetwork bool
	// KubeletCA has the certificates that clients of the kubelet are verified with, in PEM.
	KubeletCA []byte
	// APIServerCA has the certificates that the API server is verified with, in PEM.
	APIServerCA []byte
	// CloudConfig is the configuration of the cloud provider. It is needed when the
	// arguments of the kubelet name one.
	CloudConfig config.SecretValue
	// CredentialProviderConfig is the configuration by which the kubelet gets credentials of
	// registries from AWS, where it is needed.
	CredentialProviderConfig []byte
	// NodeManager are the credentials of the cloud node manager of Azure, where it is
	// needed. Nil: there are none at present, and it does not run.
	NodeManager *TokenCredentials
	// KeepNodeManager: hosts whose cloud node manager has credentials go on with those while there are none.
	KeepNodeManager bool
	// ExporterCertificate and ExporterKey are for serving metrics, in PEM. Empty: there are none at present. Hosts
	// that have some go on with them, and others serve no metrics.
	ExporterCertificate []byte
	ExporterKey         config.SecretValue
	// NoMetrics: hosts are to serve none, whatever they did before.
	NoMetrics bool
	// Proxy of the cluster.
	Proxy Proxy
	// TrustedCA has the certificates that hosts trust in addition to their own, in PEM. Each can be used, see
	// [UsableCertificates].
	TrustedCA []byte
	// trusted are those, once [Cluster.Parse] was called.
	trusted []config.Certificate
	// checked: trusted are valid in every document.
	checked bool
	// KeepTrusted: there are more of them, which nobody can read at present. Hosts go on to trust those that they have.
	KeepTrusted bool
	// ImageDigestMirrors and ImageTagMirrors are those of all mirror sets, sorted by
	// the names of the sets.
	ImageDigestMirrors []configv1.ImageDigestMirrors
	ImageTagMirrors    []configv1.ImageTagMirrors
	// RegistrySources say which registries are insecure, blocked, or the only ones that are allowed.
	RegistrySources configv1.RegistrySources
	// PullSecret has the credentials of registries.
	PullSecret PullSecret
	// KeepMirrors: nobody can read the credentials of mirrors at present. Hosts go on with the files of mirrored registries that they
	// have, for registries that still are mirrored, and get no others.
	KeepMirrors bool
	// PauseImage is the image that holds the network of a pod. Empty: [DefaultPauseImage].
	PauseImage string
}

// Instance is what the document takes from the host itself.
type Instance struct {
	// Hostname is the desired name of the host. Empty: it keeps its own.
	Hostname string
	// Addresses are those by which the instance is known. The IPv4 address of the node is the one
	// that the host has, and else that of the interface with the best default route: the host may
	// be behind an address translation.
	Addresses []netip.Addr
	// ProviderID is that of the machine at its provider. Empty: it is not known, or has none.
	ProviderID string
	// Bootstrap are the credentials with which the kubelet, as its node, requests the first
	// certificate that it keeps. Nil: it has one.
	Bootstrap *CertificateCredentials
}

// Node is what the document takes from the Node of a host.
type Node struct {
	Name string
	// Subnet of the pods of the host: the value of the annotation
	// [wmco.SubnetAnnotation]. Empty: it has none yet.
	Subnet string
}
