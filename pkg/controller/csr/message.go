// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package csr

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	certificatesv1 "k8s.io/api/certificates/v1"

	"github.com/openshift/windows-instance-api/pkg/controller/csr/identity"
	policy "github.com/openshift/windows-instance-api/pkg/controller/csr/policy"
)

// describe says what a request asks for.
func describe(d policy.Decision) string {
	what := "kubelet client certificate"
	if d.Kind == policy.KubeletServing {
		what = "kubelet serving certificate"
	}
	return fmt.Sprintf("%s of node %s", what, d.NodeName)
}

// approvalMessage says by what a request that is approved was recognized: who asks, and
// who knows the host by each of the names and addresses.
func approvalMessage(request *certificatesv1.CertificateSigningRequest, d policy.Decision, h *identity.Host) (string, error) {
	parsed, err := policy.Parse(request.Spec.Request)
	if err != nil {
		return "", err
	}
	var known []string
	add := func(value string) {
		if text := fmt.Sprintf("%s from %s", value, h.Sources[value]); !slices.Contains(known, text) {
			known = append(known, text)
		}
	}
	add(d.NodeName)
	for _, name := range parsed.DNSNames {
		add(strings.ToLower(name))
	}
	for _, ip := range parsed.IPAddresses {
		if addr, ok := netip.AddrFromSlice(ip); ok {
			add(identity.Canonical(addr).String())
		}
	}
	return fmt.Sprintf("The %s, requested by %s. WindowsInstance %s is that host: %s.",
		describe(d), request.Spec.Username, d.Instance, strings.Join(known, ", ")), nil
}

// refusalMessage says what is the matter with a request.
func refusalMessage(request *certificatesv1.CertificateSigningRequest, d policy.Decision) string {
	return fmt.Sprintf("CertificateSigningRequest %s for the %s is not approved and stays pending: %s.", request.Name, describe(d), d.Message)
}
