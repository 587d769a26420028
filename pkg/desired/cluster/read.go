// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	configv1 "github.com/openshift/api/config/v1"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubeletv1beta1 "k8s.io/kubelet/config/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/openshift/windows-instance-api/pkg/agent/api/config"
	"github.com/openshift/windows-instance-api/pkg/desired/document"
	"github.com/openshift/windows-instance-api/pkg/wmco"
)

// Read reads what all hosts have in common. R must be able to read every object that the
// comment of this package names; a cache that is restricted to some namespaces cannot.
//
// The error is an *[InputError] when an administrator has to act. Any other one is about the API
// server, and trying again may help.
func Read(ctx context.Context, r client.Reader, s Settings) (*Snapshot, error) {
	rd := &reader{Reader: r, settings: s}
	rd.cluster.Platform = configv1.NonePlatformType
	rd.cluster.Debug = s.Debug
	in := document.Inputs{AgentPath: s.AgentPath}
	var errs []error
	if s.ServerVersion != nil {
		var err error
		rd.servers, err = s.ServerVersion(ctx)
		errs = append(errs, err)
	}
	// Later ones know what those before them found.
	for _, read := range []func(context.Context) error{
		rd.readInfrastructure, rd.checkOtherOperator, rd.readWorkers, rd.readBootstrapCA, rd.readClusterInfo, rd.readRootCA, rd.readKubeadm, rd.readNetwork, rd.readServiceCIDR,
		rd.readDNS, rd.readKubeletCA, rd.readOverlay, rd.readProxy, rd.readTrustedCA, rd.readMirrors, rd.readRegistrySources, rd.readExporter, rd.readNodeManager,
	} {
		errs = append(errs, read(ctx))
	}
	key, err := rd.readDigestKey(ctx)
	errs = append(errs, err)
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	if text := Untested(rd.servers); text != "" {
		rd.warnings = slices.Insert(rd.warnings, 0, text)
	}
	rd.decide()
	candidates := rd.candidates()
	n, _ := choose(kubelets(candidates), rd.servers, nil)
	switch {
	case len(candidates) == 0:
		rd.find("there is no payload", "set --payload to one that hack/build-payload.sh made")
	case n < 0:
		rd.findings = append(rd.findings, tooNew(candidates, rd.servers))
	default:
		rd.findings = append(rd.findings, candidates[n].lacking()...)
		in.Payload, rd.cluster.CredentialProvider = candidates[n].payload, candidates[n].provider
	}
	in.Cluster, in.DigestKey = rd.cluster, key
	in.Kubelet.Workers = rd.workers
	in.Kubelet.ClusterDomain = cmp.Or(rd.domain, rd.workers.ClusterDomain)
	if len(rd.findings) > 0 {
		return nil, &InputError{Findings: rd.findings}
	}
	in.Cluster.Parse()
	// Whatever else cannot be is wrong for every host.
	if _, err := document.Build(in); err != nil {
		return nil, &InputError{Findings: []Finding{{
			Problem: oneLine(err), Remedy: "correct it in the cluster or in the payload",
		}}}
	}
	return &Snapshot{common: in, kept: rd.kept, left: rd.left, warnings: rd.warnings, metricsKept: rd.metricsKept, candidates: candidates, servers: rd.servers}, nil
}

// reader collects what it reads.
type reader struct {
	client.Reader
	settings Settings

	// servers are the API servers.
	servers Servers

	openShift bool
	// hosted: the control plane of a cluster of OpenShift is hosted elsewhere.
	hosted bool
	// otherPlatform is the platform of the cluster if hosts are configured as on none.
	otherPlatform configv1.PlatformType
	// unclear: what says whether this is OpenShift may not be read.
	unclear  bool
	cluster  document.Cluster
	domain   string                              // of the names of services
	workers  kubeletv1beta1.KubeletConfiguration // of the cluster's own kubelets
	findings []Finding
	// kept are what hosts can do without that do not have it yet, and others have.
	kept []Finding
	// left are those of them that only a part of a host depends on, which stays as it is.
	left     left
	warnings []string
	// metricsKept is as in [Snapshot].
	metricsKept string
}

func (r *reader) find(problem, remedy string) {
	r.findings = append(r.findings, Finding{Problem: problem, Remedy: remedy})
}

// keep finds that something is missing or damaged which a host can be a node without. Hosts that are configured keep what
// they have; those that join do without until it is corrected.
func (r *reader) keep(problem, remedy string) {
	r.kept = append(r.kept, Finding{Problem: problem, Remedy: remedy})
}

// leave is keep for what nothing but a part of a host depends on: only that stays as it is.
func (r *reader) leave(p part, problem, remedy string) {
	r.left = append(r.left, leftFinding{part: p, Finding: Finding{Problem: problem, Remedy: remedy}})
}

// get reads an object into obj and reports whether it exists. Kinds that the cluster does
// not have do not exist. What may not be read is a finding.
func (r *reader) get(ctx context.Context, kind, namespace, name string, obj client.Object) (bool, error) {
	what := kind + " " + strings.TrimPrefix(namespace+"/"+name, "/")
	err := r.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, obj)
	return r.outcome(what, r.rightTo(namespace), err)
}

// Commands that give the rights to inputs. Those in namespaces that other clusters do not have are apart.
const (
	allowInputs          = "kubectl apply -k artifacts/rbac"
	allowOpenShiftInputs = "kubectl apply -f artifacts/openshift/inputs.yaml"
)

// rightTo is the command that gives the right to read inputs in a namespace; empty: those that are in none.
func (r *reader) rightTo(namespace string) string {
	if strings.HasPrefix(namespace, "openshift-") && namespace != r.settings.Namespace && namespace != wmco.Namespace {
		return allowOpenShiftInputs
	}
	return allowInputs
}

// must is get for what each cluster of OpenShift has: that it is away is a mistake, and not what somebody wants hosts to
// be like. remedy says how it comes back.
func (r *reader) must(ctx context.Context, kind, name string, obj client.Object, remedy string) (bool, error) {
	before := len(r.findings)
	found, err := r.get(ctx, kind, "", name, obj)
	if !found && err == nil && len(r.findings) == before && r.openShift {
		r.miss(obj, fmt.Sprintf("%s %s does not exist, which each cluster of OpenShift has", kind, name), remedy)
	}
	return found, err
}

// miss finds that an object does not exist. Those of the Machine Config Operator nobody can bring back where there is none, which is said once.
func (r *reader) miss(obj client.Object, problem, remedy string) {
	_, isPool := obj.(*mcfgv1.MachineConfigPool)
	_, isConfig := obj.(*mcfgv1.ControllerConfig)
	switch {
	case !r.hosted || !isPool && !isConfig:
		r.find(problem, remedy)
	case !slices.Contains(r.findings, noMachineConfigOperator):
		r.findings = append(r.findings, noMachineConfigOperator)
	}
}

// noMachineConfigOperator is found in clusters whose control plane is hosted elsewhere, as HyperShift does: their workers are configured there.
var noMachineConfigOperator = Finding{
	Problem: "the control plane of the cluster is hosted elsewhere (status.controlPlaneTopology of Infrastructure " + clusterName + " is " + string(configv1.ExternalTopologyMode) +
		"), and Windows hosts of this operator need the Machine Config Operator, which such clusters do not have",
	Remedy: "use a cluster that has its own control plane",
}

// outcome says whether what was read exists. allow is the command that gives the right to read it.
func (r *reader) outcome(what, allow string, err error) (bool, error) {
	switch {
	case err == nil:
		return true, nil
	case apierrors.IsNotFound(err), meta.IsNoMatchError(err):
		return false, nil
	case apierrors.IsForbidden(err):
		r.find(what+" may not be read", "allow this program to get it: "+allow)
		return false, nil
	default:
		return false, fmt.Errorf("reading %s: %w", what, err)
	}
}

// configMap returns the data of a ConfigMap, nil if there is no ConfigMap.
func (r *reader) configMap(ctx context.Context, namespace, name string) (map[string]string, error) {
	object := &corev1.ConfigMap{}
	found, err := r.get(ctx, "ConfigMap", namespace, name, object)
	if !found {
		return nil, err
	}
	if object.Data == nil {
		return map[string]string{}, nil
	}
	return object.Data, nil
}

// secret returns the data of a Secret, nil if there is no Secret.
func (r *reader) secret(ctx context.Context, namespace, name string) (map[string][]byte, error) {
	object := &corev1.Secret{}
	found, err := r.get(ctx, "Secret", namespace, name, object)
	if !found {
		return nil, err
	}
	if object.Data == nil {
		return map[string][]byte{}, nil
	}
	return object.Data, nil
}

// readRootCA reads the CA of the API server from where every namespace has it.
func (r *reader) readRootCA(ctx context.Context) error {
	if len(r.cluster.APIServerCA) > 0 {
		return nil
	}
	data, err := r.configMap(ctx, r.settings.Namespace, rootCAConfigMap)
	r.cluster.APIServerCA = []byte(data[corev1.ServiceAccountRootCAKey])
	return err
}

// readServiceCIDR reads the network of services from the API server, where no other source says
// how the cluster was made.
func (r *reader) readServiceCIDR(ctx context.Context) error {
	if len(r.cluster.ServiceCIDRs) > 0 || r.settings.ServiceCIDR != "" {
		return nil
	}
	object := &networkingv1.ServiceCIDR{}
	_, err := r.get(ctx, "ServiceCIDR", "", serviceCIDRName, object)
	r.cluster.ServiceCIDRs = object.Spec.CIDRs
	return err
}

// readDNS reads the address of the DNS from its Service, where it has the name that
// kubeadm gives it.
func (r *reader) readDNS(ctx context.Context) error {
	if r.settings.ClusterDNS.IsValid() || r.cluster.DNS.IsValid() {
		return nil
	}
	service := &corev1.Service{}
	if _, err := r.get(ctx, "Service", metav1.NamespaceSystem, dnsService, service); err != nil {
		return err
	}
	var addresses []netip.Addr
	for _, text := range slices.Concat(service.Spec.ClusterIPs, []string{service.Spec.ClusterIP}) {
		// One without an address of its own says None.
		if address, err := netip.ParseAddr(text); err == nil {
			addresses = append(addresses, address)
		}
	}
	slices.SortStableFunc(addresses, ipv4First)
	if len(addresses) > 0 {
		r.cluster.DNS = addresses[0]
	}
	return nil
}

// readKubeletCA reads the CA of the clients of the kubelet from where aggregated API
// servers have it. On OpenShift the ControllerConfig says it, and no other place has all of them.
func (r *reader) readKubeletCA(ctx context.Context) error {
	if err := r.readControllerConfig(ctx); err != nil || r.openShift || len(r.cluster.KubeletCA) > 0 {
		return err
	}
	data, err := r.configMap(ctx, metav1.NamespaceSystem, authenticationConfigMap)
	r.cluster.KubeletCA = []byte(data[clientCAKey])
	return err
}

// readDigestKey returns the key of digests.
func (r *reader) readDigestKey(ctx context.Context) (config.SecretValue, error) {
	data, err := r.secret(ctx, r.settings.Namespace, DigestKeySecret)
	if err != nil {
		return nil, err
	}
	key := data[digestKeyKey]
	switch {
	case data == nil:
		r.find(fmt.Sprintf("there is no Secret %s/%s with the key of digests", r.settings.Namespace, DigestKeySecret),
			"let windows-controller run with --payload, which makes it")
	case len(key) < digestKeyBytes:
		r.find(fmt.Sprintf("the Secret %s/%s has no key of at least %d bytes below %s", r.settings.Namespace, DigestKeySecret, digestKeyBytes, digestKeyKey),
			"delete it, so that windows-controller makes another one")
	}
	return key, nil
}

// decide lets the settings win, and finds what is missing and what cannot be used.
func (r *reader) decide() {
	c := &r.cluster
	if r.settings.APIServerURL != "" {
		c.APIServerURL = r.settings.APIServerURL
	}
	switch u, err := url.Parse(c.APIServerURL); {
	case c.APIServerURL == "" && (r.openShift || r.unclear):
		// It was found with Infrastructure. Another source would not bring back the rest of what that says.
	case c.APIServerURL == "":
		r.find("no source says where hosts reach the API server", "set --api-server-url, or create ConfigMap "+clusterInfoName+" as kubeadm does")
	case err != nil || u.Scheme != "https" || u.Host == "":
		r.find(fmt.Sprintf("%q, where hosts should reach the API server, is not an https URL", c.APIServerURL), "set --api-server-url")
	}
	ofServer, ofClients := r.requiredBundles()
	c.APIServerCA = r.require(ofServer, c.APIServerCA)
	switch {
	case r.openShift: // the ControllerConfig has said it, or that is missing
		c.APIServerCA = serverAuthorities(c.APIServerCA)
	case len(c.KubeletCA) == 0:
		c.KubeletCA = c.APIServerCA
	default:
		c.KubeletCA = r.require(ofClients, c.KubeletCA)
	}
	r.decideServiceCIDRs()
	if r.settings.ClusterDNS.IsValid() {
		c.DNS = r.settings.ClusterDNS
	}
	if !c.DNS.IsValid() && len(c.ServiceCIDRs) > 0 {
		var err error
		if c.DNS, err = document.ClusterDNS(c.ServiceCIDRs[0]); err != nil {
			r.find("the address of the cluster DNS is not known, and "+err.Error(), "set --cluster-dns")
		}
	}
	r.decideFamily()
}

// decideFamily says where hosts cannot take part, because the overlay that connects them in OpenShift has IPv4 only, whatever
// other families the cluster has.
func (r *reader) decideFamily() {
	if !r.openShift || len(r.cluster.ServiceCIDRs) == 0 {
		return
	}
	if prefix, err := netip.ParsePrefix(r.cluster.ServiceCIDRs[0]); err != nil || !prefix.Addr().Is4() {
		r.find(fmt.Sprintf("the network of services is %s, and pods on Windows hosts have IPv4 addresses only", strings.Join(r.cluster.ServiceCIDRs, ", ")),
			"use Windows hosts in clusters that were installed with IPv4, alone or with IPv6")
		return
	}
	if dns := r.cluster.DNS; dns.IsValid() && !dns.Is4() {
		r.warnings = append(r.warnings, fmt.Sprintf("pods on Windows hosts, which have IPv4 addresses only, cannot reach the cluster DNS at %s: "+
			"give its Service an IPv4 address, too (oc patch service dns-default -n openshift-dns --type=merge -p '{\"spec\":{\"ipFamilyPolicy\":\"PreferDualStack\"}}'), and set --cluster-dns to that", dns))
	}
}

// decideServiceCIDRs puts the network that counts first.
func (r *reader) decideServiceCIDRs() {
	if r.settings.ServiceCIDR != "" {
		r.cluster.ServiceCIDRs = splitList(r.settings.ServiceCIDR)
	}
	var prefixes []netip.Prefix
	for _, text := range r.cluster.ServiceCIDRs {
		prefix, err := netip.ParsePrefix(text)
		if err != nil {
			r.find(fmt.Sprintf("%q, which should be a network of services, is not one", text), "set --service-cidr")
			r.cluster.ServiceCIDRs = nil
			return
		}
		prefixes = append(prefixes, prefix)
	}
	if len(prefixes) == 0 {
		r.find("the network of services is not known", "set --service-cidr")
	}
	slices.SortStableFunc(prefixes, func(a, b netip.Prefix) int { return ipv4First(a.Addr(), b.Addr()) })
	r.cluster.ServiceCIDRs = nil
	for _, prefix := range prefixes {
		r.cluster.ServiceCIDRs = append(r.cluster.ServiceCIDRs, prefix.String())
	}
}

// ipv4First orders addresses of IPv4, which hosts are nodes with, before others.
func ipv4First(a, b netip.Addr) int {
	return cmp.Compare(a.BitLen(), b.BitLen())
}

// splitList returns the elements of a list with commas, without spaces.
func splitList(text string) []string {
	var list []string
	for element := range strings.SplitSeq(text, ",") {
		if element = strings.TrimSpace(element); element != "" {
			list = append(list, element)
		}
	}
	return list
}

// oneLine returns the text of an error that may be several.
func oneLine(err error) string {
	return strings.ReplaceAll(err.Error(), "\n", ", ")
}
