// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package openshift

import (
	"slices"
	"testing"

	configv1 "github.com/openshift/api/config/v1"
	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	clientfake "sigs.k8s.io/controller-runtime/pkg/client/fake"
)

// TestCloudCompletesItsOwn: a Node keeps the taint unless the cloud knows it, by its provider ID or by the name that the platform goes by.
func TestCloudCompletesItsOwn(t *testing.T) {
	const privateName, id = "ip-10-0-17-4.us-east-2.compute.internal", "aws:///us-east-2a/i-0123456789abcdef0"
	for name, tt := range map[string]struct {
		platform         configv1.PlatformType
		node, providerID string
		keeps            bool
	}{
		"AWS":                                      {platform: configv1.AWSPlatformType, node: privateName},
		"AWS, by the name of the computer":         {platform: configv1.AWSPlatformType, node: "win-7gq2p1", keeps: true},
		"AWS, by the name of the Machine":          {platform: configv1.AWSPlatformType, node: "winworker-x7k2p", keeps: true},
		"AWS, by its provider ID":                  {platform: configv1.AWSPlatformType, node: "win-7gq2p1", providerID: id},
		"AWS, of another virtual machine":          {platform: configv1.AWSPlatformType, node: privateName, providerID: id + "1", keeps: true},
		"GCP":                                      {platform: configv1.GCPPlatformType, node: "winworker-x7k2p.c.example.internal"},
		"GCP, by the name of the computer":         {platform: configv1.GCPPlatformType, node: "win-7gq2p1", keeps: true},
		"vSphere":                                  {platform: configv1.VSpherePlatformType, node: "winworker-x7k2p"},
		"vSphere, with a domain":                   {platform: configv1.VSpherePlatformType, node: "winworker-x7k2p.example.com"},
		"vSphere, not renamed":                     {platform: configv1.VSpherePlatformType, node: "win-7gq2p1", keeps: true},
		"Nutanix":                                  {platform: configv1.NutanixPlatformType, node: "winworker-x7k2p"},
		"Nutanix, not renamed":                     {platform: configv1.NutanixPlatformType, node: "win-7gq2p1", keeps: true},
		"Nutanix, a host without a Machine":        {platform: configv1.NutanixPlatformType, node: "win-entry"},
		"Azure, which hosts do themselves":         {platform: configv1.AzurePlatformType, node: "winworker-x7k2p", keeps: true},
		"None, where nobody completes Nodes":       {platform: configv1.NonePlatformType, node: "winworker-x7k2p", keeps: true},
		"bare metal, where nobody completes Nodes": {platform: configv1.BareMetalPlatformType, node: "winworker-x7k2p", keeps: true},
	} {
		t.Run(name, func(t *testing.T) {
			scheme := runtime.NewScheme()
			if err := AddToScheme(scheme); err != nil {
				t.Fatal(err)
			}
			other := corev1.Taint{Key: "os", Value: "Windows", Effect: corev1.TaintEffectNoSchedule}
			node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: tt.node}, Spec: corev1.NodeSpec{
				ProviderID: tt.providerID, Taints: []corev1.Taint{other, {Key: uninitializedTaint, Value: "true", Effect: corev1.TaintEffectNoSchedule}},
			}}
			machine := &machinev1beta1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: "openshift-machine-api", Name: "winworker-x7k2p"}}
			machine.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "10.0.0.7"}}
			c := clientfake.NewClientBuilder().WithScheme(scheme).WithObjects(Cluster{Platform: tt.platform}.infrastructure(), node, machine).Build()
			cloud := &Cloud{}
			cloud.Run(VirtualMachine{Name: "win-7gq2p1", PrivateDNSName: privateName, ProviderID: id, Address: "10.0.0.7"})
			cloud.Run(VirtualMachine{Name: "win-entry", Address: "10.0.0.8"}) // AWS has no name for it
			err := cloud.initialize(t.Context(), c, node)
			if err := c.Get(t.Context(), client.ObjectKeyFromObject(node), node); err != nil {
				t.Fatal(err)
			}
			kept := slices.ContainsFunc(node.Spec.Taints, func(taint corev1.Taint) bool { return taint.Key == uninitializedTaint })
			completes := platforms[tt.platform].externalCloud && !platforms[tt.platform].nodeManager
			want := tt.providerID
			if !tt.keeps && tt.node != "win-entry" {
				want = id
			}
			if got := node.Spec.ProviderID; got != want {
				t.Errorf("its provider ID is %q, want %q", got, want)
			}
			if kept != tt.keeps || (err != nil) != (tt.keeps && completes) || !slices.Contains(node.Spec.Taints, other) {
				t.Errorf("taints %+v, error %v", node.Spec.Taints, err)
			}
		})
	}
}

// TestProviderID: each platform that has a cloud calls virtual machines in its own form, and no two alike.
func TestProviderID(t *testing.T) {
	for platform, want := range map[configv1.PlatformType]string{
		configv1.AWSPlatformType:       "aws:///us-east-2a/i-0abcdef010a000007",
		configv1.AzurePlatformType:     "azure:///subscriptions/11111111-2222-3333-4444-555555555555/resourceGroups/demo-7k2xq-rg/providers/Microsoft.Compute/virtualMachines/demo-7k2xq-0a000007",
		configv1.GCPPlatformType:       "gce://example/us-east1-b/demo-7k2xq-0a000007",
		configv1.VSpherePlatformType:   "vsphere://4210a1b2-c3d4-e5f6-0718-29300a000007",
		configv1.NutanixPlatformType:   "nutanix://7b1de6c0-5f0a-4f5e-9d0c-9a3e0a000007",
		configv1.NonePlatformType:      "",
		configv1.BareMetalPlatformType: "",
	} {
		cloud := Cloud{Platform: platform}
		if got := cloud.ProviderID("10.0.0.7"); got != want {
			t.Errorf("on %s it is %q, want %q", platform, got, want)
		}
		if other := cloud.ProviderID("10.0.0.8"); want != "" && other == want {
			t.Errorf("on %s two addresses are %q", platform, other)
		}
		if got := cloud.ProviderID(""); got != "" {
			t.Errorf("on %s that of no address is %q", platform, got)
		}
	}
}
