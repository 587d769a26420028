// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package cluster_test

import (
	"net/netip"
	"strings"
	"testing"

	configv1 "github.com/openshift/api/config/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/openshift/windows-instance-api/pkg/desired/cluster"
	"github.com/openshift/windows-instance-api/pkg/wmco"
	"github.com/openshift/windows-instance-api/test/openshift"
)

// TestFamilies: of a cluster with two families, hosts are given what is of IPv4, whichever is the first one.
func TestFamilies(t *testing.T) {
	const four, six = "172.30.0.0/16", "fd02::/112"
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "win-1", Annotations: map[string]string{wmco.SubnetAnnotation: "10.132.0.0/24"}}}
	for _, tt := range []struct {
		name     string
		networks []string
		dns      []string // of the cluster's own workers
		want     string
		warns    bool
	}{
		{"one family", []string{four}, []string{"172.30.0.10"}, "172.30.0.10", false},
		{"IPv4 first", []string{four, six}, []string{"172.30.0.10"}, "172.30.0.10", false},
		{"IPv6 first", []string{six, four}, []string{"172.30.0.10"}, "172.30.0.10", false},
		{"a DNS of both", []string{six, four}, []string{"fd02::a", "172.30.0.10"}, "172.30.0.10", false},
		{"a DNS of the other family only", []string{six, four}, []string{"fd02::a"}, "fd02::a", true},
		{"nobody says which DNS", []string{six, four}, nil, "172.30.0.10", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			objects := replaced(openShiftCluster(), &configv1.Network{ObjectMeta: metav1.ObjectMeta{Name: "cluster"}, Status: configv1.NetworkStatus{NetworkType: "OVNKubernetes", ServiceNetwork: tt.networks}})
			objects = replaced(objects, workers(openshift.Worker{Platform: configv1.VSpherePlatformType, KubeletConfig: map[string]any{"clusterDNS": tt.dns}}))
			host := summarize(t, read(t, withOverlay(), objects), cluster.Host{Instance: instance(), Node: node})
			if got := host.Files[wmco.KubeletConfigPath]; !strings.Contains(got, `"clusterDNS":["`+tt.want+`"]`) {
				t.Errorf("the kubelet has another DNS than %s: %s", tt.want, got)
			}
			if cni := host.Files[wmco.CNIConfigPath]; strings.Count(cni, four) != 2 || strings.Contains(cni, six) {
				t.Errorf("pods reach other services than those of %s: %s", four, cni)
			}
			if proxy := host.Files[wmco.KubeProxyConfigPath]; proxy == "" || strings.Contains(proxy, six) {
				t.Errorf("kube-proxy has %s", proxy)
			}
			if warns := strings.Contains(strings.Join(host.Warnings, "\n"), "cannot reach the cluster DNS at fd02::a"); warns != tt.warns {
				t.Errorf("it warns %q", host.Warnings)
			}
		})
	}
	s := withOverlay()
	s.ClusterDNS = netip.MustParseAddr("172.30.0.77")
	objects := replaced(openShiftCluster(), workers(openshift.Worker{Platform: configv1.VSpherePlatformType, KubeletConfig: map[string]any{"clusterDNS": []string{"fd02::a"}}}))
	if host := summarize(t, read(t, s, objects), cluster.Host{Instance: instance()}); strings.Contains(strings.Join(host.Warnings, "\n"), "cluster DNS") {
		t.Errorf("with a DNS of the settings it warns %q", host.Warnings)
	}
}
