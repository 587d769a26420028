// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"math"

	configv1 "github.com/openshift/api/config/v1"
	operatorv1 "github.com/openshift/api/operator/v1"
	utilversion "k8s.io/apimachinery/pkg/util/version"

	"github.com/openshift/windows-instance-api/pkg/desired/document"
	"github.com/openshift/windows-instance-api/pkg/wmco"
)

// Where the network operator keeps the configuration that it has applied, as JSON of [operatorv1.NetworkSpec]: see
// GetAppliedConfiguration of openshift/cluster-network-operator.
const (
	appliedNamespace = "openshift-network-operator"
	appliedConfigMap = "applied-cluster"
	appliedKey       = "applied"
)

// overlayPatch is the command that has the network operator make an overlay, which is JSON; null: remove it.
func overlayPatch(overlay string) string {
	return fmt.Sprintf(`oc patch network.operator cluster --type=merge -p '{"spec":{"defaultNetwork":{"ovnKubernetesConfig":{"hybridOverlayConfig":%s}}}}'`, overlay)
}

// overlayOf is the overlay that OpenShift's documentation proposes for Windows hosts on a platform.
func overlayOf(platform configv1.PlatformType) string {
	port := ""
	if platform == configv1.VSpherePlatformType {
		port = fmt.Sprintf(`,"hybridOverlayVXLANPort":%d`, vSpherePort)
	}
	return `{"hybridClusterNetwork":[{"cidr":"10.132.0.0/14","hostPrefix":23}]` + port + `}`
}

// readOverlay reads whether there is a hybrid overlay, which Windows hosts are connected by, and its
// port, which differs where the platform itself uses the usual one. What counts is what the network operator has applied: it
// refuses many changes of the overlay, and hosts that followed them would be cut off from all others.
func (r *reader) readOverlay(ctx context.Context) error {
	network := &operatorv1.Network{}
	found, err := r.must(ctx, "Network.operator.openshift.io", clusterName, network, "create it again as it was, for example from a backup")
	if !found {
		return err
	}
	wanted := hybridOverlay(network.Spec)
	data, err := r.configMap(ctx, appliedNamespace, appliedConfigMap)
	if err != nil {
		return err
	}
	overlay := wanted
	if text, ok := data[appliedKey]; ok {
		var spec operatorv1.NetworkSpec
		if err := json.Unmarshal([]byte(text), &spec); err != nil {
			r.find(fmt.Sprintf("ConfigMap %s/%s, which says how the network is configured, cannot be read (%v)", appliedNamespace, appliedConfigMap, err), "see whether the network operator works: oc get clusteroperator network")
			return nil
		}
		if overlay = hybridOverlay(spec); overlay == nil && wanted != nil {
			r.find("the network operator has not applied the hybrid networking of Network.operator.openshift.io cluster yet", "wait, or see why it does not: oc get clusteroperator network")
			return nil
		}
		if !sameOverlay(overlay, wanted) {
			r.warnings = append(r.warnings, "the hybridOverlayConfig of Network.operator.openshift.io cluster is not what the network operator has applied, which hosts are connected by; see oc get clusteroperator network")
		}
	}
	if overlay == nil {
		r.find("the cluster has no hybrid networking with OVN-Kubernetes, which connects Windows hosts", "set it, with a network that is free: "+overlayPatch(overlayOf(r.cluster.Platform)))
		return nil
	}
	r.cluster.HybridNetwork = true
	if port := overlay.HybridOverlayVXLANPort; port != nil {
		if *port > math.MaxUint16 {
			r.find(fmt.Sprintf("%d, the hybridOverlayVXLANPort of Network.operator.openshift.io cluster, is not a port", *port), "correct it")
			return nil
		}
		r.cluster.VXLANPort = uint16(*port)
	}
	r.checkNetwork(overlay)
	return r.checkPort(overlay)
}

// checkNetwork warns of an overlay of which the network operator gives no Node a subnet. Something else may do that.
func (r *reader) checkNetwork(overlay *operatorv1.HybridOverlayConfig) {
	if len(overlay.HybridClusterNetwork) > 0 {
		return
	}
	r.warnings = append(r.warnings, fmt.Sprintf("the overlay of the cluster has no hybridClusterNetwork, so OVN-Kubernetes gives Nodes of Windows no subnets: pods of a host wait until something else writes the annotation %s of its Node. "+
		"The network operator adds no network to an overlay that runs. To have one, remove the overlay, by which all pods of Windows hosts lose their network: %s; and once that is applied (oc get clusteroperator network), set it again, with a network that is free: %s",
		wmco.SubnetAnnotation, overlayPatch("null"), overlayPatch(overlayOf(r.cluster.Platform))))
}

// checkPort warns of an overlay whose packets vSphere may take for those of its own.
func (r *reader) checkPort(overlay *operatorv1.HybridOverlayConfig) error {
	if port := r.cluster.VXLANPort; r.cluster.Platform != configv1.VSpherePlatformType || port != 0 && port != usualPort || len(overlay.HybridClusterNetwork) == 0 {
		return nil
	}
	other, err := json.Marshal(operatorv1.HybridOverlayConfig{HybridClusterNetwork: overlay.HybridClusterNetwork, HybridOverlayVXLANPort: new(uint32(vSpherePort))})
	if err != nil {
		return fmt.Errorf("writing the overlay of the cluster with another port: %w", err)
	}
	r.warnings = append(r.warnings, fmt.Sprintf("the overlay of the cluster has the VXLAN port %d, which vSphere uses itself, so that pods of Windows hosts may not reach those of other nodes. The network operator changes no port of an overlay that runs. "+
		"To have another one, which Windows Server 2019 does not know, remove the overlay, by which all pods of Windows hosts lose their network: %s; and once that is applied (oc get clusteroperator network), set it again: %s. "+
		"The update that follows drains each host and makes its networks again",
		usualPort, overlayPatch("null"), overlayPatch(string(other))))
	return nil
}

// hybridOverlay is the overlay of a configuration of the network, nil if it has none. One without a network is one, too: see renderOVNKubernetes
// of the network operator.
func hybridOverlay(spec operatorv1.NetworkSpec) *operatorv1.HybridOverlayConfig {
	ovn := spec.DefaultNetwork.OVNKubernetesConfig
	if ovn == nil {
		return nil
	}
	return ovn.HybridOverlayConfig
}

// sameOverlay says whether two overlays connect hosts in the same way.
func sameOverlay(a, b *operatorv1.HybridOverlayConfig) bool {
	if a == nil || b == nil {
		return a == b
	}
	return portOf(a) == portOf(b)
}

// portOf is the port of an overlay. 0: the usual one.
func portOf(o *operatorv1.HybridOverlayConfig) uint32 {
	if o.HybridOverlayVXLANPort == nil {
		return 0
	}
	return *o.HybridOverlayVXLANPort
}

// usualPort of an overlay is the only one that Windows Server 2019 knows. Another one needs at least [build2022], and vSphere needs
// another one: see the prerequisites of WMCO, and OpenShift's documentation of hybrid networking, which has vSpherePort.
const (
	usualPort   = 4789
	vSpherePort = 9898
	build2022   = 20348
)

// overlayOfBuild is the finding that a host with that build of Windows cannot have the port of the overlay, so that its pods would
// be cut off from all others. Nil: it can, is not connected by it, or its build is not known.
func overlayOfBuild(in *document.Inputs, build string) []Finding {
	port := in.Cluster.VXLANPort
	if port == 0 || port == usualPort || !in.Payload.HybridOverlay() {
		return nil
	}
	version, err := utilversion.ParseGeneric(build) // 10.0.20348.2700
	if err != nil || len(version.Components()) < 3 || version.Patch() >= build2022 {
		return nil
	}
	return []Finding{{
		Problem: fmt.Sprintf("the overlay of the cluster has the VXLAN port %d, and the host has Windows Server 2019 or older (%s), which knows only port %d", port, build, usualPort),
		Remedy:  "install Windows Server 2022 or newer on the host. Only clusters on vSphere need another port than the usual one: hybridOverlayConfig of Network.operator.openshift.io " + clusterName,
	}}
}
