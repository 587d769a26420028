// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package main

import (
	"net/netip"
	"slices"
	"strings"

	certificatesv1 "k8s.io/api/certificates/v1"

	"github.com/openshift/windows-instance-api/pkg/controller/csr/policy"
)

type csrCase struct {
	CertType      string                    `json:"certType"`
	CommonName    string                    `json:"commonName"`
	RequestPEM    string                    `json:"requestPEM"`
	SpecGroups    []string                  `json:"specGroups"`
	SpecUsages    []certificatesv1.KeyUsage `json:"specUsages"`
	SpecUsername  string                    `json:"specUsername"`
	ExistingNodes []string                  `json:"existingNodes"`
}

// The cases say nothing of hosts and requesters, only which Nodes there are. They are
// all about this host.
const (
	caseHost    = "test-node"
	caseAddress = "10.0.0.9"
)

// csrVerdict is the output of a csr-content case.
type csrVerdict struct {
	Accepts                bool          `json:"accepts"`
	ClassifiedAsNodeClient bool          `json:"classifiedAsNodeClient"`
	Reason                 policy.Reason `json:"reason"`
	Message                string        `json:"message"`
}

// csrContent decides on a request that a kubelet makes as its node.
func csrContent(c csrCase) result {
	request := &certificatesv1.CertificateSigningRequest{Spec: certificatesv1.CertificateSigningRequestSpec{
		Request: []byte(c.RequestPEM), Usages: c.SpecUsages, Groups: c.SpecGroups, Username: c.SpecUsername,
	}}
	switch c.CertType {
	case "kubelet-client":
		request.Spec.SignerName = certificatesv1.KubeAPIServerClientKubeletSignerName
		request.Spec.Groups = slices.Concat(c.SpecGroups, []string{"system:nodes", "system:authenticated"})
	case "kubelet-serving":
		request.Spec.SignerName = certificatesv1.KubeletServingSignerName
	case "wicd":
		return result{Missing: missing["csr-content/wicd"]}
	default:
		return result{Error: "certificate type " + c.CertType + " is not known"}
	}
	if request.Spec.Username == "" {
		request.Spec.Username = c.CommonName
	}
	var instances []policy.Instance
	for _, name := range append([]string{caseHost}, c.ExistingNodes...) {
		if slices.ContainsFunc(instances, func(i policy.Instance) bool { return i.ID == name }) {
			continue
		}
		instance := policy.Instance{ID: name, Names: []string{name}}
		if slices.Contains(c.ExistingNodes, name) {
			instance.Node = name
		}
		if name == caseHost {
			instance.Addresses = []netip.Addr{netip.MustParseAddr(caseAddress)}
		}
		instances = append(instances, instance)
	}
	decision := policy.Decide(request, instances)
	verdict := csrVerdict{Accepts: decision.Verdict == policy.Approve, Reason: decision.Reason, Message: decision.Message}
	if parsed, err := policy.Parse(request.Spec.Request); err == nil {
		verdict.ClassifiedAsNodeClient = slices.Equal(parsed.Subject.Organization, []string{"system:nodes"}) &&
			len(parsed.DNSNames)+len(parsed.IPAddresses)+len(parsed.EmailAddresses) == 0
	}
	return result{Output: verdict}
}

type csrParseCase struct {
	Request string `json:"request"`
}

func csrParse(c csrParseCase) result {
	_, err := policy.Parse([]byte(c.Request))
	return outcome(true, err)
}

type csrNodeNameCase struct {
	NodeName        string `json:"nodeName"`
	InstanceAddress string `json:"instanceAddress"`
}

// csrNodeName says whether a host that is known by its address only may be the node.
// The only address that has a name is 127.0.0.1.
func csrNodeName(c csrNodeNameCase) result {
	known := c.InstanceAddress
	if known == "127.0.0.1" {
		known = "localhost."
	}
	instance := policy.Instance{Names: policy.HostNames(strings.TrimSpace(known))}
	return result{Output: instance.IsNamed(c.NodeName)}
}
