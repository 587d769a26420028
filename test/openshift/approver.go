// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package openshift

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// Bootstrapper is whom the Machine Config Operator has new hosts ask for their first certificate as.
	Bootstrapper = "system:serviceaccount:" + MachineConfigNamespace + ":" + bootstrapperName

	bootstrapperName = "node-bootstrapper"
	nodeUserPrefix   = "system:node:"
	nodesGroup       = "system:nodes"
	authenticated    = "system:authenticated"

	// maxMachineAge is for how long after the creation of a Machine its host may ask for its first certificate, and
	// maxClockSkew for how long before.
	maxMachineAge = 2 * time.Hour
	maxClockSkew  = 10 * time.Second
	// maxPendingAge is how old a request may be that counts as pending, and maxMorePending how many of these there may
	// be more than Machines or Nodes.
	maxPendingAge  = time.Hour
	maxMorePending = 100
	// kubeletTimeout is how long a kubelet gets to show its certificate.
	kubeletTimeout = 2 * time.Second
)

// bootstrapperGroups are exactly those of the bootstrapper.
var bootstrapperGroups = sets.New("system:serviceaccounts", "system:serviceaccounts:"+MachineConfigNamespace, authenticated)

// machineApprover stands in for the cluster-machine-approver. It approves what its conditions allow, and leaves
// everything else pending: it never denies, because a request may be somebody else's. The real one counts what is
// pending for its metrics, too, and knows the egress addresses of a network that is gone.
type machineApprover struct {
	// maxAge of Machines is [maxMachineAge] in real clusters.
	maxAge time.Duration
}

// approve approves a request if it may. It returns why not, so that it is tried again.
func (a machineApprover) approve(ctx context.Context, c client.Client, request *certificatesv1.CertificateSigningRequest) error {
	if !isPendingNode(request) {
		return nil
	}
	var (
		requests certificatesv1.CertificateSigningRequestList
		machines machinev1beta1.MachineList
		nodes    corev1.NodeList
	)
	if err := errors.Join(c.List(ctx, &requests), c.List(ctx, &machines), c.List(ctx, &nodes)); err != nil {
		return err
	}
	if tooMany(requests.Items, len(machines.Items), len(nodes.Items), time.Now()) {
		return nil
	}
	block, _ := pem.Decode(request.Spec.Request)
	if block == nil || block.Type != "CERTIFICATE REQUEST" {
		return errors.New("the request is not in PEM")
	}
	parsed, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		return err
	}
	if isClient(request, parsed) {
		err = a.mayJoin(request, parsed, machines.Items, nodes.Items)
	} else {
		err = a.mayServe(ctx, c, request, parsed, machines.Items, nodes.Items)
	}
	if err != nil {
		return fmt.Errorf("%s is not approved: %w", request.Name, err)
	}
	now := metav1.Now()
	request.Status.Conditions = append(request.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{
		Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue, Reason: "NodeCSRApprove",
		Message: "This CSR was approved by the stand-in for the cluster-machine-approver", LastUpdateTime: now, LastTransitionTime: now,
	})
	return c.SubResource("approval").Update(ctx, request)
}

// isPendingNode says whether the approver looks at a request at all.
func isPendingNode(request *certificatesv1.CertificateSigningRequest) bool {
	if slices.ContainsFunc(request.Status.Conditions, func(c certificatesv1.CertificateSigningRequestCondition) bool {
		return c.Type == certificatesv1.CertificateApproved
	}) {
		return false
	}
	switch request.Spec.SignerName {
	case certificatesv1.KubeletServingSignerName:
		return slices.Contains(request.Spec.Groups, nodesGroup)
	case certificatesv1.KubeAPIServerClientKubeletSignerName:
		return request.Spec.Username == Bootstrapper
	}
	return false
}

// tooMany says whether so many requests are pending that the approver does nothing any more.
func tooMany(requests []certificatesv1.CertificateSigningRequest, machines, nodes int, now time.Time) bool {
	pending := 0
	for i := range requests {
		if age := now.Sub(requests[i].CreationTimestamp.Time); isPendingNode(&requests[i]) && age > -maxClockSkew && age < maxPendingAge {
			pending++
		}
	}
	return pending > max(machines, nodes)+maxMorePending
}

// isClient says whether a request is for the client certificate of a node.
func isClient(request *certificatesv1.CertificateSigningRequest, parsed *x509.CertificateRequest) bool {
	return slices.Equal(parsed.Subject.Organization, []string{nodesGroup}) && strings.HasPrefix(parsed.Subject.CommonName, nodeUserPrefix) &&
		len(parsed.DNSNames)+len(parsed.EmailAddresses)+len(parsed.IPAddresses) == 0 &&
		hasUsages(request, certificatesv1.UsageClientAuth)
}

// hasUsages says whether a request has that usage, the signature, and nothing more but to encipher keys.
func hasUsages(request *certificatesv1.CertificateSigningRequest, usage certificatesv1.KeyUsage) bool {
	usages := sets.New(request.Spec.Usages...).Delete(certificatesv1.UsageKeyEncipherment)
	return usages.Equal(sets.New(usage, certificatesv1.UsageDigitalSignature))
}

// mayJoin says why the approver does not approve the first certificate of a host.
func (a machineApprover) mayJoin(request *certificatesv1.CertificateSigningRequest, parsed *x509.CertificateRequest, machines []machinev1beta1.Machine, nodes []corev1.Node) error {
	if request.Spec.Username != Bootstrapper || !bootstrapperGroups.Equal(sets.New(request.Spec.Groups...)) {
		return errors.New("it is not the node-bootstrapper who asks")
	}
	name := strings.TrimPrefix(parsed.Subject.CommonName, nodeUserPrefix)
	if findNode(nodes, name) != nil {
		return fmt.Errorf("there is Node %s already", name)
	}
	i := slices.IndexFunc(machines, func(m machinev1beta1.Machine) bool {
		return slices.ContainsFunc(m.Status.Addresses, func(address corev1.NodeAddress) bool {
			return address.Type == corev1.NodeInternalDNS && strings.EqualFold(strings.TrimSuffix(address.Address, "."), name)
		})
	})
	switch {
	case i < 0:
		return fmt.Errorf("no Machine has the internal DNS name %s", name)
	case machines[i].Status.NodeRef != nil:
		return fmt.Errorf("Machine %s has Node %s already", machines[i].Name, machines[i].Status.NodeRef.Name)
	}
	if age := request.CreationTimestamp.Sub(machines[i].CreationTimestamp.Time); age <= -maxClockSkew || age >= cmp.Or(a.maxAge, maxMachineAge) {
		return fmt.Errorf("Machine %s was created %s before", machines[i].Name, age)
	}
	return nil
}

// mayServe says why the approver does not approve the certificate that a kubelet serves with.
func (a machineApprover) mayServe(ctx context.Context, c client.Client, request *certificatesv1.CertificateSigningRequest, parsed *x509.CertificateRequest, machines []machinev1beta1.Machine, nodes []corev1.Node) error {
	name, isNode := strings.CutPrefix(request.Spec.Username, nodeUserPrefix)
	switch {
	case !isNode || name == "" || parsed.Subject.CommonName != request.Spec.Username:
		return errors.New("it is not the node itself that asks")
	case !sets.New(request.Spec.Groups...).HasAll(nodesGroup, authenticated) || !slices.Contains(parsed.Subject.Organization, nodesGroup):
		return errors.New("who asks is not in the groups of nodes")
	case !hasUsages(request, certificatesv1.UsageServerAuth):
		return errors.New("it is for something else than to serve")
	}
	renewal := a.renews(ctx, c, parsed, findNode(nodes, name))
	if renewal == nil {
		return nil
	}
	if err := ofMachine(parsed, machines, name); err != nil {
		return errors.Join(renewal, err)
	}
	return nil
}

// renews says why a request is not for exactly what the kubelet of the Node serves with now.
func (machineApprover) renews(ctx context.Context, c client.Client, parsed *x509.CertificateRequest, node *corev1.Node) error {
	if node == nil {
		return errors.New("there is no Node")
	}
	roots := x509.NewCertPool()
	authorities := &corev1.ConfigMap{}
	if err := c.Get(ctx, client.ObjectKey{Namespace: ManagedNamespace, Name: kubeletCAName}, authorities); err != nil {
		return err
	}
	roots.AppendCertsFromPEM([]byte(authorities.Data["ca-bundle.crt"]))
	i := slices.IndexFunc(node.Status.Addresses, func(a corev1.NodeAddress) bool { return a.Type == corev1.NodeInternalIP })
	if i < 0 || node.Status.DaemonEndpoints.KubeletEndpoint.Port == 0 {
		return errors.New("the Node does not say where its kubelet is")
	}
	host := node.Status.Addresses[i].Address
	dialer := tls.Dialer{NetDialer: &net.Dialer{Timeout: kubeletTimeout}, Config: &tls.Config{RootCAs: roots, ServerName: host, MinVersion: tls.VersionTLS12}}
	conn, err := dialer.DialContext(ctx, "tcp", net.JoinHostPort(host, strconv.Itoa(int(node.Status.DaemonEndpoints.KubeletEndpoint.Port))))
	if err != nil {
		return fmt.Errorf("the kubelet does not show its certificate: %w", err)
	}
	defer conn.Close()
	return sameNames(conn.(*tls.Conn).ConnectionState().PeerCertificates[0], parsed) //nolint:forcetypeassert // of a tls.Dialer
}

// sameNames says why a request has not exactly the names of the certificate.
func sameNames(current *x509.Certificate, parsed *x509.CertificateRequest) error {
	if current.Subject.CommonName != parsed.Subject.CommonName {
		return errors.New("the kubelet serves with the certificate of another node")
	}
	names := func(dns []string, ips []net.IP) []string {
		all := slices.Clone(dns)
		for _, ip := range ips {
			all = append(all, ip.String())
		}
		slices.Sort(all)
		return all
	}
	if has, wants := names(current.DNSNames, current.IPAddresses), names(parsed.DNSNames, parsed.IPAddresses); !slices.Equal(has, wants) {
		return fmt.Errorf("the kubelet serves as %v, and asks for %v", has, wants)
	}
	if len(parsed.EmailAddresses)+len(parsed.URIs) > 0 {
		return errors.New("it asks for more than names and addresses")
	}
	return nil
}

// ofMachine says why a request has names or addresses that the Machine of the Node has not.
func ofMachine(parsed *x509.CertificateRequest, machines []machinev1beta1.Machine, nodeName string) error {
	i := slices.IndexFunc(machines, func(m machinev1beta1.Machine) bool {
		return m.Status.NodeRef != nil && m.Status.NodeRef.Name == nodeName
	})
	if i < 0 {
		return fmt.Errorf("no Machine has Node %s", nodeName)
	}
	has := func(value string, types ...corev1.NodeAddressType) bool {
		return slices.ContainsFunc(machines[i].Status.Addresses, func(a corev1.NodeAddress) bool {
			return slices.Contains(types, a.Type) && strings.EqualFold(strings.TrimSuffix(a.Address, "."), value)
		})
	}
	for _, name := range parsed.DNSNames {
		if !has(name, corev1.NodeInternalDNS, corev1.NodeExternalDNS, corev1.NodeHostName) {
			return fmt.Errorf("Machine %s has no name %s", machines[i].Name, name)
		}
	}
	for _, ip := range parsed.IPAddresses {
		if !has(ip.String(), corev1.NodeInternalIP, corev1.NodeExternalIP) {
			return fmt.Errorf("Machine %s has no address %s", machines[i].Name, ip)
		}
	}
	return nil
}

// findNode returns the Node of that name, nil if there is none.
func findNode(nodes []corev1.Node, name string) *corev1.Node {
	if i := slices.IndexFunc(nodes, func(n corev1.Node) bool { return n.Name == name }); i >= 0 {
		return &nodes[i]
	}
	return nil
}
