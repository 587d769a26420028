// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package cluster_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/openshift/windows-instance-api/pkg/desired/cluster"
)

// TestAuthoritiesOfTheAPIServer: hosts get the same text as long as it means the same to them, because their services restart for
// another one: OpenShift combines the authorities in any order, and hosts do not reach the API server at localhost.
func TestAuthoritiesOfTheAPIServer(t *testing.T) {
	const recovery = "openshift-kube-apiserver-operator_localhost-recovery-serving-signer@1700000000"
	balancer, services := newCANamed("openshift-kube-apiserver-operator_loadbalancer-serving-signer@1700000000"), newCANamed("kube-apiserver-service-network-signer")
	localhost := newCANamed("kube-apiserver-localhost-signer") + newCANamed(recovery)
	// Two of one name are two authorities.
	again := newCANamed("kube-apiserver-service-network-signer")
	got := func(bundle string) string {
		return givenBy(build(t, read(t, settings(), authorities{clients: realCA, server: bundle}.cluster()), cluster.Host{Instance: instance()})).server
	}
	usual := got(balancer + services + localhost)
	if parts := certificatesOf(usual); !slices.Equal(parts, certificatesOf(balancer+services)) {
		t.Errorf("hosts have %d authorities, want those of the load balancer and of the network of services:\n%s", len(parts), usual)
	}
	for _, tt := range []struct {
		name, bundle string
		same         bool
	}{
		{"in another order", localhost + services + balancer, true},
		{"one twice", balancer + services + balancer + localhost, true},
		{"with comments", "# balancer\n" + balancer + "\n# services\n" + services + localhost, true},
		{"another one of localhost", balancer + localhost + services + newCANamed("kube-apiserver-localhost-signer"), true},
		{"that of localhost rotated by its operator", balancer + newCANamed("openshift-kube-apiserver-operator_localhost-serving-signer@1800000000") + services, true},
		{"that of the recovery rotated", balancer + newCANamed(strings.Replace(recovery, "17", "18", 1)) + services, true},
		{"none of localhost", balancer + services, true},
		{"one more", balancer + services + again + localhost, false},
		{"one rotated", balancer + again + localhost, false},
		{"one away", balancer + localhost, false},
		{"one whose name begins as that of localhost", balancer + services + newCANamed("kube-apiserver-localhost-signer-of-ours") + localhost, false},
	} {
		if now := got(tt.bundle); (now == usual) != tt.same {
			t.Errorf("%s: that it is the same is %v, want %v", tt.name, now == usual, tt.same)
		}
	}
	if alone := got(localhost); !slices.Equal(certificatesOf(alone), certificatesOf(localhost)) {
		t.Errorf("hosts of a cluster that has none but those of localhost get\n%s", alone)
	}
}

// certificatesOf are the certificates of a bundle, sorted.
func certificatesOf(bundle string) []string {
	const end = "-----END CERTIFICATE-----\n"
	parts := strings.SplitAfter(bundle, end)
	return slices.Sorted(slices.Values(parts[:len(parts)-1]))
}
