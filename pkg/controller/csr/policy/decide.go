// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package policy

import (
	"cmp"
	"crypto/x509"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
)

// Names that Kubernetes and WMCO give to nodes.
const (
	nodeUserPrefix = "system:node:"
	nodesGroup     = "system:nodes"
	authenticated  = "system:authenticated"
)

// Kind is what a request asks for.
type Kind string

const (
	// KubeletClient is the certificate by which a kubelet is known to the API server.
	KubeletClient Kind = "KubeletClient"
	// KubeletServing is the certificate that a kubelet serves logs and metrics with.
	KubeletServing Kind = "KubeletServing"
)

// Verdict is what to do with a request.
type Verdict string

const (
	// Approve it.
	Approve Verdict = "Approve"
	// Refuse it: it is about a host of ours and not as it must be. It is not denied,
	// because that cannot be undone; people see the reason and decide.
	Refuse Verdict = "Refuse"
	// Ignore it: it is somebody else's, or it is decided.
	Ignore Verdict = "Ignore"
)

// Reason says why, in one word that is fit for a condition or an event.
type Reason string

// Reasons.
const (
	ReasonApproved Reason = "HostCertificateApproved"
	// To ignore.
	ReasonDecided     Reason = "AlreadyDecided"
	ReasonOtherSigner Reason = "OtherSigner"
	ReasonNotANode    Reason = "NotANode"
	ReasonNotOurs     Reason = "NotAnInstance"
	ReasonUnreadable  Reason = "Unreadable"
	ReasonAmbiguous   Reason = "AmbiguousInstance"
	ReasonSubject     Reason = "SubjectMismatch"
	ReasonUsages      Reason = "UsagesMismatch"
	ReasonRequester   Reason = "RequesterMismatch"
	ReasonGroups      Reason = "GroupsMissing"
	ReasonNodeMissing Reason = "NodeMissing"
	ReasonNames       Reason = "NamesNotAllowed"
	ReasonNameUnknown Reason = "NameNotOfInstance"
	ReasonAddress     Reason = "AddressNotOfInstance"
	ReasonNoNames     Reason = "NamesMissing"
)

// Kinds are those that there are, and Refusals the reasons for which [Decide] refuses requests.
var (
	Kinds    = []Kind{KubeletClient, KubeletServing}
	Refusals = []Reason{
		ReasonAmbiguous, ReasonSubject, ReasonUsages, ReasonRequester, ReasonGroups, ReasonNodeMissing,
		ReasonNames, ReasonNameUnknown, ReasonAddress, ReasonNoNames,
	}
)

// Decision is what to do with a request, and why.
type Decision struct {
	Verdict Verdict
	Reason  Reason
	// Message says for people what is the matter.
	Message string
	// Kind of the request. Empty when it is ignored before that is known.
	Kind Kind
	// NodeName is the node that the certificate is for, where that is known.
	NodeName string
	// Instance is the ID of the instance that the certificate is for, where that is known.
	Instance string
	// Unknown is the name or address that the instance is not known to have, where that is why the request is refused,
	// as the request writes it. Empty: something else is.
	Unknown string
}

// profile is what requests of one kind must be like.
type profile struct {
	kind   Kind
	signer string
	// usages are the sets of which one must be asked for, each sorted. Only a key of
	// RSA can encipher another key, so kubelets leave that usage out for other keys.
	usages [][]certificatesv1.KeyUsage
	// names says whether the certificate must have names and addresses, or none.
	names bool
}

var profiles = []profile{
	{
		kind: KubeletClient, signer: certificatesv1.KubeAPIServerClientKubeletSignerName,
		usages: [][]certificatesv1.KeyUsage{
			{certificatesv1.UsageClientAuth, certificatesv1.UsageDigitalSignature, certificatesv1.UsageKeyEncipherment},
			{certificatesv1.UsageClientAuth, certificatesv1.UsageDigitalSignature},
		},
	},
	{
		kind: KubeletServing, signer: certificatesv1.KubeletServingSignerName,
		names: true,
		usages: [][]certificatesv1.KeyUsage{
			{certificatesv1.UsageDigitalSignature, certificatesv1.UsageKeyEncipherment, certificatesv1.UsageServerAuth},
			{certificatesv1.UsageDigitalSignature, certificatesv1.UsageServerAuth},
		},
	},
}

// Decide says what to do with a request, given the hosts of ours. The order of the
// hosts does not matter.
//
// The kubelet of a host asks as the node itself, also for its first certificate: what it has until
// then makes it that node.
func Decide(request *certificatesv1.CertificateSigningRequest, instances []Instance) Decision {
	if Decided(request) {
		return Decision{Verdict: Ignore, Reason: ReasonDecided, Message: "the request is approved, denied or failed already"}
	}
	i := slices.IndexFunc(profiles, func(p profile) bool { return p.signer == request.Spec.SignerName })
	if i < 0 {
		return Decision{Verdict: Ignore, Reason: ReasonOtherSigner, Message: fmt.Sprintf("signer %s signs nothing for hosts", request.Spec.SignerName)}
	}
	p := profiles[i]
	d := Decision{Verdict: Ignore, Kind: p.kind}
	parsed, err := Parse(request.Spec.Request)
	if err != nil {
		// Nobody can tell whose it is.
		d.Reason, d.Message = ReasonUnreadable, err.Error()
		return d
	}
	nodeName, found := strings.CutPrefix(parsed.Subject.CommonName, nodeUserPrefix)
	if !found || nodeName == "" {
		d.Reason, d.Message = ReasonNotANode, fmt.Sprintf("common name %q does not begin with %s", parsed.Subject.CommonName, nodeUserPrefix)
		return d
	}
	d.NodeName = nodeName
	var instance *Instance
	for i := range instances {
		if !instances[i].IsNamed(nodeName) {
			continue
		}
		if instance != nil {
			d.Verdict, d.Reason = Refuse, ReasonAmbiguous
			d.Message = fmt.Sprintf("instances %s and %s can both be node %s", instance.ID, instances[i].ID, nodeName)
			return d
		}
		instance = &instances[i]
	}
	if instance == nil {
		d.Reason, d.Message = ReasonNotOurs, fmt.Sprintf("no instance is node %s", nodeName)
		return d
	}
	d.Instance = instance.ID
	if problem := p.check(request, parsed, nodeName, instance); problem != nil {
		d.Verdict, d.Reason, d.Message, d.Unknown = Refuse, problem.reason, problem.message, problem.unknown
		return d
	}
	d.Verdict, d.Reason = Approve, ReasonApproved
	d.Message = fmt.Sprintf("the request is that of instance %s", instance.ID)
	return d
}

// Decided says whether somebody approved or denied the request, or its signer failed.
func Decided(request *certificatesv1.CertificateSigningRequest) bool {
	return len(request.Status.Certificate) > 0 ||
		slices.ContainsFunc(request.Status.Conditions, func(c certificatesv1.CertificateSigningRequestCondition) bool {
			return c.Status != corev1.ConditionFalse
		})
}

// problem is why a request is refused.
type problem struct {
	reason  Reason
	message string
	// unknown is what [Decision.Unknown] is.
	unknown string
}

func refuse(reason Reason, format string, values ...any) *problem {
	return &problem{reason: reason, message: fmt.Sprintf(format, values...)}
}

// check compares everything that a request says with what it must say.
func (p profile) check(request *certificatesv1.CertificateSigningRequest, parsed *x509.CertificateRequest, nodeName string, instance *Instance) *problem {
	return cmp.Or(
		p.checkSubject(parsed),
		p.checkUsages(request.Spec.Usages),
		p.checkRequester(request, nodeName, instance),
		p.checkNames(parsed, instance),
	)
}

// checkSubject wants one organization and one common name, and nothing else: the
// organizations of a client are its groups.
func (p profile) checkSubject(parsed *x509.CertificateRequest) *problem {
	subject := parsed.Subject
	if len(subject.Organization) != 1 || subject.Organization[0] != nodesGroup {
		return refuse(ReasonSubject, "the organizations are %q, not %q alone", subject.Organization, nodesGroup)
	}
	if len(subject.Names) != 2 {
		return refuse(ReasonSubject, "the subject %s has more than an organization and a common name", subject)
	}
	return nil
}

// checkUsages wants one of the sets exactly: nothing missing, nothing more, nothing twice.
func (p profile) checkUsages(usages []certificatesv1.KeyUsage) *problem {
	sorted := slices.Sorted(slices.Values(usages))
	if slices.ContainsFunc(p.usages, func(set []certificatesv1.KeyUsage) bool { return slices.Equal(set, sorted) }) {
		return nil
	}
	return refuse(ReasonUsages, "the usages %q are not %q", usages, p.usages[0])
}

// checkRequester wants the node itself to ask.
func (p profile) checkRequester(request *certificatesv1.CertificateSigningRequest, nodeName string, instance *Instance) *problem {
	user := request.Spec.Username
	if user != nodeUserPrefix+nodeName {
		return refuse(ReasonRequester, "requester %q is not node %s itself", user, nodeName)
	}
	for _, group := range []string{nodesGroup, authenticated} {
		if !slices.Contains(request.Spec.Groups, group) {
			return refuse(ReasonGroups, "requester %s is not in group %s", user, group)
		}
	}
	if p.kind != KubeletClient && instance.Node == "" {
		return refuse(ReasonNodeMissing, "node %s does not exist", nodeName)
	}
	return nil
}

// checkNames wants each name and address to be one of the instance, and none where
// the certificate is that of a client.
func (p profile) checkNames(parsed *x509.CertificateRequest, instance *Instance) *problem {
	switch {
	case len(parsed.EmailAddresses) > 0:
		return refuse(ReasonNames, "the request has e-mail addresses: %q", parsed.EmailAddresses)
	case len(parsed.URIs) > 0:
		return refuse(ReasonNames, "the request has URIs: %v", parsed.URIs)
	case hasOtherNames(parsed):
		return refuse(ReasonNames, "the request has names of a kind that is not supported")
	case !p.names && len(parsed.DNSNames)+len(parsed.IPAddresses) > 0:
		return refuse(ReasonNames, "the request of a client has names %q and addresses %v", parsed.DNSNames, parsed.IPAddresses)
	case p.names && len(parsed.DNSNames)+len(parsed.IPAddresses) == 0:
		return refuse(ReasonNoNames, "the request has neither names nor addresses to serve under")
	}
	for _, name := range parsed.DNSNames {
		if !instance.hasName(name) {
			p := refuse(ReasonNameUnknown, "name %q is not a name of instance %s", name, instance.ID)
			p.unknown = name
			return p
		}
	}
	for _, ip := range parsed.IPAddresses {
		if address, ok := netip.AddrFromSlice(ip); !ok || !instance.hasAddress(address) {
			p := refuse(ReasonAddress, "address %s is not an address of instance %s", ip, instance.ID)
			p.unknown = ip.String()
			return p
		}
	}
	return nil
}
