// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package cluster

import (
	"cmp"
	"crypto/tls"
	"net/netip"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	utilversion "k8s.io/apimachinery/pkg/util/version"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/desired/document"
	"github.com/openshift/windows-instance-api/pkg/wmco"
)

// Snapshot is what the desired configurations of all hosts of the cluster have in common,
// at the moment when [Read] read it. It never changes and may be used concurrently.
type Snapshot struct {
	// common has nothing of any host or pool. Its payload is that of new hosts.
	common document.Inputs
	// kept is why hosts that are configured stay as they are, and left why parts of them do.
	kept     []Finding
	left     left
	warnings []string
	// metricsKept is what has to be said of hosts that serve metrics, because there is no certificate for them. Empty: nothing.
	metricsKept string
	// candidates are all payloads, and servers what one of them is chosen by.
	candidates []candidate
	servers    Servers
}

// Host is what hosts differ in.
type Host struct {
	// Instance is the host. Required.
	Instance *v1alpha1.WindowsInstance
	// Pool of the host. Nil: none; all its settings have their defaults.
	Pool *v1alpha1.WindowsNodePool
	// Node of the host, with the annotation [wmco.SubnetAnnotation] if it has it, and with the version of its
	// kubelet in its status. Nil: it is none yet.
	Node *corev1.Node
	// Back is what the host gets in place of the template of its pool and the payload of now. Nil: it gets those.
	Back *Back
	// Join is what the host joins the cluster with. Nil: it has joined, or does not join now.
	Join *Credentials
}

// Build returns the desired configuration of a host. It is a pure function of the snapshot
// and the host: the same ones give the same revision. The error says everything that is
// wrong with the settings of pool and instance.
func (s *Snapshot) Build(h Host) (*document.Result, error) { return s.buildBy(h, document.Build) }

// buildBy is Build with the documents that build returns.
func (s *Snapshot) buildBy(h Host, build buildFunc) (*document.Result, error) {
	inputs := s.common
	payloadWarnings, err := s.choosePayload(&inputs, h.Node, h.Back)
	if err != nil {
		return nil, err
	}
	if system := h.Instance.Status.System; system != nil {
		if wrong := overlayOfBuild(&inputs, system.Build); wrong != nil {
			return nil, &InputError{Findings: wrong}
		}
	}
	if wrong := unfindable(h); wrong != nil {
		return nil, &InputError{Findings: wrong}
	}
	inputs.Instance.Hostname, inputs.Instance.ProviderID = h.Instance.Spec.NodeName, h.Instance.Spec.ProviderID
	for _, text := range h.Instance.Status.Addresses {
		if address, err := netip.ParseAddr(text); err == nil {
			inputs.Instance.Addresses = append(inputs.Instance.Addresses, address)
		}
	}
	if h.Join != nil {
		inputs.Instance.Bootstrap = &document.CertificateCredentials{CAFile: wmco.BootstrapCAPath, Certificate: h.Join.Certificate, Key: h.Join.Key}
	}
	if h.Node != nil {
		inputs.Node = &document.Node{Name: h.Node.Name, Subnet: h.Node.Annotations[wmco.SubnetAnnotation]}
		inputs.Instance.ProviderID = cmp.Or(h.Instance.Spec.ProviderID, h.Node.Spec.ProviderID)
	}
	var template v1alpha1.PoolTemplate
	if h.Pool != nil {
		template = h.Pool.Spec.Template
	}
	if h.Back != nil {
		template = h.Back.Revision.Template
	}
	applyTemplate(&inputs, &template)
	r, err := build(inputs)
	if err != nil {
		return nil, err
	}
	var said []string // first: what is too long is cut
	switch loses := mayLose(h.Instance, r.Revision); {
	case loses && len(s.kept) > 0:
		return nil, &InputError{Findings: s.wrong()}
	case len(s.left) > 0 && hasOther(h.Instance, r.Revision):
		stays, goes := s.left.of(ofWMCO(h.Instance))
		stays.apply(&inputs)
		if r, err = build(inputs); err != nil {
			return nil, err
		}
		said = slices.Concat(stays.warnings(), without(slices.Concat(s.kept, goes.findings())))
	default:
		said = without(s.wrong())
		r.Without = len(said) > 0
	}
	if loses := inputs.Payload.WithoutOfWMCO(inputs.Cluster.Platform); loses != "" && ofWMCO(h.Instance) {
		said = append(said, loses)
	}
	r.Warnings = slices.Concat(said, s.warnings, payloadWarnings, r.Warnings)
	return r, nil
}

// wrong is everything because of which hosts, or parts of them, stay as they are.
func (s *Snapshot) wrong() []Finding { return slices.Concat(s.kept, s.left.findings()) }

// ofWMCO says whether a host has what WMCO has configured, and is ours: it was adopted and was not updated since, or is to be adopted.
func ofWMCO(instance *v1alpha1.WindowsInstance) bool {
	return wmco.IsAdoptedRevision(currentRevision(instance))
}

// currentRevision is the revision that a host has. One that is to be adopted has what WMCO has configured: its first update is to be told before.
func currentRevision(instance *v1alpha1.WindowsInstance) string {
	status := &instance.Status
	if status.CurrentRevision == "" && status.Operation.Active() && status.Operation.Type == v1alpha1.OperationAdopt {
		return wmco.AdoptedRevision("")
	}
	return status.CurrentRevision
}

// without says what a host does without.
func without(findings []Finding) (said []string) {
	for _, f := range findings {
		said = append(said, "the host does without it: "+f.String())
	}
	return said
}

// hasOther says whether a host has a configuration, and another one than that with the revision. While its operation brings it to that one, and until a
// probe finds it there afterwards, a host is known to have a part of it, or the one before.
func hasOther(instance *v1alpha1.WindowsInstance, revision string) bool {
	current, op := currentRevision(instance), instance.Status.Operation
	brought := op != nil && op.Type == v1alpha1.OperationReconfigure && op.Revision == revision && (op.Active() || op.Phase == v1alpha1.OperationSucceeded)
	return current != "" && current != revision && !brought
}

// mayLose says whether a host could lose what cannot be read at present by the configuration with that revision, which has
// nothing of it. One that has that configuration already, or is configured for the first time, has nothing to lose.
func mayLose(instance *v1alpha1.WindowsInstance, revision string) bool {
	status := &instance.Status
	if !hasOther(instance, revision) {
		return false
	}
	joins := status.Operation.Active() && status.Operation.Type == v1alpha1.OperationReconfigure
	return !joins || len(status.History) >= v1alpha1.MaxHistory || slices.ContainsFunc(status.History, func(o v1alpha1.Operation) bool {
		return o.MayHaveChangedHost() || o.Type == v1alpha1.OperationAdopt && o.Phase == v1alpha1.OperationSucceeded
	})
}

// choosePayload sets the payload for a host with that Node, which goes back to a revision; nil: it does not.
func (s *Snapshot) choosePayload(in *document.Inputs, node *corev1.Node, back *Back) (warnings []string, err error) {
	if back != nil {
		payload, warning, ok := s.backPayload(back, node)
		if warning != "" {
			defer func() { warnings = append(slices.Clone(warnings), warning) }()
		}
		if ok {
			in.Payload, in.Cluster.CredentialProvider = payload, payload.CredentialProvider(in.Cluster.Platform)
			return nil, nil
		}
	}
	running := runningOn(node)
	n, why := choose(kubelets(s.candidates), s.servers, running)
	if why == onlyBack {
		return nil, &InputError{Findings: []Finding{notBack(s.servers, running)}}
	}
	c := &s.candidates[n] // for [allNewer] there is no snapshot
	if lacking := c.lacking(); lacking != nil {
		return nil, &InputError{Findings: lacking}
	}
	in.Payload, in.Cluster.CredentialProvider = c.payload, c.provider
	if skew := skewWarning(c.kubelet, s.servers, why); skew != "" {
		return append(slices.Clone(c.warnings), skew), nil
	}
	return c.warnings, nil
}

// runningOn is the version of the kubelet that a Node says it has. Nil: there is no Node, or it does not say it.
func runningOn(node *corev1.Node) *utilversion.Version {
	if node == nil {
		return nil
	}
	return release(node.Status.NodeInfo.KubeletVersion)
}

// Published returns the services of hosts as WMCO publishes them, for tools that read that.
func (s *Snapshot) Published() (*document.PublishedServices, error) {
	return document.Publish(s.common.Cluster.ServiceOptions, s.common.Cluster.Proxy)
}

// exporterExpires is when the certificate expires that hosts serve metrics with; before is when that of the snapshot before does, with which
// they go on if there is none. Zero: they are to serve none.
func (s *Snapshot) exporterExpires(before time.Time) time.Time {
	cluster := &s.common.Cluster
	if cluster.NoMetrics {
		return time.Time{}
	}
	pair, err := tls.X509KeyPair(cluster.ExporterCertificate, cluster.ExporterKey)
	if err != nil {
		return before
	}
	return pair.Leaf.NotAfter
}
