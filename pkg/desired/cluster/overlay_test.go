// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package cluster_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	configv1 "github.com/openshift/api/config/v1"
	operatorv1 "github.com/openshift/api/operator/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/openshift/windows-instance-api/pkg/desired/cluster"
	"github.com/openshift/windows-instance-api/pkg/desired/document"
)

// overlayPort is what a command sets where the overlay needs another port than the usual one.
const overlayPort = `"hybridOverlayVXLANPort":9898`

// TestOverlayCommand: the overlay that a condition proposes has the port that the platform needs, because no release of OpenShift changes
// that of one that runs.
func TestOverlayCommand(t *testing.T) {
	for platform, want := range map[configv1.PlatformType]bool{
		configv1.VSpherePlatformType: true, configv1.AWSPlatformType: false, configv1.NutanixPlatformType: false, configv1.NonePlatformType: false,
	} {
		t.Run(string(platform), func(t *testing.T) {
			objects := replaced(openShiftClusterOn(platform), &operatorv1.Network{ObjectMeta: metav1.ObjectMeta{Name: "cluster"}})
			_, err := cluster.Read(t.Context(), newCluster(t, objects, nil), settings())
			inputs := new(cluster.InputError)
			if !errors.As(err, &inputs) || len(inputs.Findings) != 1 {
				t.Fatalf("got %v, want that there is no overlay", err)
			}
			remedy := inputs.Findings[0].Remedy
			if !strings.Contains(remedy, `"hybridClusterNetwork":[{"cidr":"10.132.0.0/14","hostPrefix":23}]`) || strings.Contains(remedy, overlayPort) != want {
				t.Errorf("with that port: %t, want %t: %s", !want, want, remedy)
			}
		})
	}
}

// TestOverlayWithoutANetwork: an overlay without a network is one for the network operator, which refuses to add a network to it. Hosts
// become nodes, whose pods wait for what gives the Node a subnet, and say why.
func TestOverlayWithoutANetwork(t *testing.T) {
	empty := &operatorv1.Network{ObjectMeta: metav1.ObjectMeta{Name: "cluster"}}
	empty.Spec.DefaultNetwork.OVNKubernetesConfig = &operatorv1.OVNKubernetesConfig{HybridOverlayConfig: &operatorv1.HybridOverlayConfig{}}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "win-1"}}
	objects := append(replaced(openShiftClusterOn(configv1.AWSPlatformType), empty), applied(t, *empty.Spec.DeepCopy()))
	r := build(t, read(t, withOverlay(), objects), cluster.Host{Instance: instance(), Node: node})
	if !slices.ContainsFunc(r.Waiting, func(w document.Waiting) bool {
		return strings.Contains(w.String(), "annotation k8s.ovn.org/hybrid-overlay-node-subnet of node win-1")
	}) {
		t.Errorf("the host waits for %v", r.Waiting)
	}
	objects = append(replaced(openShiftClusterOn(configv1.VSpherePlatformType), empty), applied(t, *empty.Spec.DeepCopy()))
	for _, w := range build(t, read(t, withOverlay(), objects), cluster.Host{Instance: instance(), Node: node}).Warnings {
		if strings.Contains(w, "the VXLAN port") || strings.Contains(w, `"hybridClusterNetwork":null`) {
			t.Errorf("on vSphere: %q", w)
		}
	}
	warning := slices.IndexFunc(r.Warnings, func(w string) bool { return strings.Contains(w, "has no hybridClusterNetwork") })
	if warning < 0 {
		t.Fatalf("warnings %q", r.Warnings)
	}
	first, second := strings.Index(r.Warnings[warning], `{"hybridOverlayConfig":null}`), strings.Index(r.Warnings[warning], `[{"cidr":"10.132.0.0/14","hostPrefix":23}]`)
	if first < 0 || second < first {
		t.Errorf("%q does not have the overlay removed before it is set again", r.Warnings[warning])
	}
}

// TestOverlayPortOfVSphere: where vSphere may take what the overlay sends for its own, each host says so, with the commands that give it
// another port, and becomes a node all the same.
func TestOverlayPortOfVSphere(t *testing.T) {
	for name, tt := range map[string]struct {
		platform configv1.PlatformType
		port     *uint32
		warned   bool
	}{
		"no port":                {configv1.VSpherePlatformType, nil, true},
		"0":                      {configv1.VSpherePlatformType, ptr.To[uint32](0), true},
		"the usual port":         {configv1.VSpherePlatformType, ptr.To[uint32](4789), true},
		"another one":            {configv1.VSpherePlatformType, ptr.To[uint32](9898), false},
		"no port, on AWS":        {configv1.AWSPlatformType, nil, false},
		"the usual port, on AWS": {configv1.AWSPlatformType, ptr.To[uint32](4789), false},
	} {
		t.Run(name, func(t *testing.T) {
			network := &operatorv1.Network{ObjectMeta: metav1.ObjectMeta{Name: "cluster"}}
			network.Spec.DefaultNetwork.OVNKubernetesConfig = &operatorv1.OVNKubernetesConfig{HybridOverlayConfig: &operatorv1.HybridOverlayConfig{
				HybridClusterNetwork: []operatorv1.ClusterNetworkEntry{{CIDR: "10.200.0.0/16", HostPrefix: 23}}, HybridOverlayVXLANPort: tt.port,
			}}
			objects := replaced(openShiftClusterOn(tt.platform), network)
			// What counts is what is applied, whatever an administrator wishes since.
			objects = append(objects, applied(t, *network.Spec.DeepCopy()))
			network.Spec.DefaultNetwork.OVNKubernetesConfig.HybridOverlayConfig.HybridOverlayVXLANPort = ptr.To[uint32](9898)
			warnings := build(t, read(t, settings(), objects), cluster.Host{Instance: instance()}).Warnings
			at := slices.IndexFunc(warnings, func(w string) bool { return strings.Contains(w, "vSphere uses itself") })
			if (at >= 0) != tt.warned {
				t.Fatalf("warned: %t, want %t: %q", at >= 0, tt.warned, warnings)
			}
			if !tt.warned {
				return
			}
			for _, want := range []string{"the VXLAN port 4789", `{"hybridOverlayConfig":null}`, `[{"cidr":"10.200.0.0/16","hostPrefix":23}],` + overlayPort, "drains each host"} {
				if !strings.Contains(warnings[at], want) {
					t.Errorf("%q has no %q", warnings[at], want)
				}
			}
		})
	}
}
