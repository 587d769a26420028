// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package openshift

import (
	"encoding/json"
	"testing"

	configv1 "github.com/openshift/api/config/v1"
	operatorv1 "github.com/openshift/api/operator/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	clientfake "sigs.k8s.io/controller-runtime/pkg/client/fake"
)

// TestAppliedNetwork: the port of an overlay that runs stays, whatever an administrator wants; one that was removed comes back with another.
func TestAppliedNetwork(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	c := clientfake.NewClientBuilder().WithScheme(scheme).WithStatusSubresource(&configv1.ClusterOperator{}).Build()
	overlay := func(port uint32) *operatorv1.HybridOverlayConfig {
		return &operatorv1.HybridOverlayConfig{HybridClusterNetwork: []operatorv1.ClusterNetworkEntry{{CIDR: "10.132.0.0/14", HostPrefix: 23}}, HybridOverlayVXLANPort: ptr.To(port)}
	}
	for _, step := range []struct {
		name       string
		wanted     *operatorv1.HybridOverlayConfig
		port       uint32 // that is applied; 0: there is no overlay
		isDegraded bool
	}{
		{"none", nil, 0, false},
		{"added", overlay(9898), 9898, false},
		{"another port", overlay(9999), 9898, true},
		{"as it was", overlay(9898), 9898, false},
		{"another port again", overlay(9999), 9898, true},
		{"removed", nil, 0, false},
		{"added again", overlay(9999), 9999, false},
	} {
		network := Cluster{Platform: configv1.NonePlatformType, ServiceNetwork: "172.30.0.0/16"}.operatorNetwork()
		network.Spec.DefaultNetwork.OVNKubernetesConfig.HybridOverlayConfig = step.wanted
		for range 2 { // what is done is not done again
			if err := applyNetwork(t.Context(), c, network); err != nil {
				t.Fatalf("%s: %v", step.name, err)
			}
		}
		applied, operator := &corev1.ConfigMap{}, &configv1.ClusterOperator{}
		if err := c.Get(t.Context(), client.ObjectKey{Namespace: NetworkOperatorNamespace, Name: "applied-cluster"}, applied); err != nil {
			t.Fatal(err)
		}
		var spec operatorv1.NetworkSpec
		if err := json.Unmarshal([]byte(applied.Data["applied"]), &spec); err != nil {
			t.Fatal(err)
		}
		got := uint32(0)
		if has := spec.DefaultNetwork.OVNKubernetesConfig.HybridOverlayConfig; has != nil {
			got = *has.HybridOverlayVXLANPort
		}
		if err := c.Get(t.Context(), client.ObjectKey{Name: NetworkOperatorName}, operator); err != nil {
			t.Fatal(err)
		}
		if conditions := operator.Status.Conditions; got != step.port || len(conditions) != 1 || (conditions[0].Status == configv1.ConditionTrue) != step.isDegraded {
			t.Errorf("%s: port %d is applied, want %d; %+v, want degraded: %t", step.name, got, step.port, conditions, step.isDegraded)
		}
	}
}
