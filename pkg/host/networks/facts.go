// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package networks

import (
	"encoding/json"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"
)

// facts are what one object of the cluster says about addresses. What cannot be read in it is
// left out: it is no address that something could be reached at.
type facts struct {
	metav1.ObjectMeta // what identifies it, and since when it exists

	services, pods []netip.Prefix
	// apiServers are addresses behind the Service of the API server; nodes those of Nodes that
	// do not run Windows, and windows of those that do.
	apiServers, nodes, windows []netip.Addr
}

// typed reads an object as one of its type.
func typed[T any](read func(*T) facts) func(*unstructured.Unstructured) (facts, error) {
	return func(u *unstructured.Unstructured) (facts, error) {
		object := new(T)
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, object); err != nil {
			return facts{}, err
		}
		return read(object), nil
	}
}

func ofServiceCIDR(object *networkingv1.ServiceCIDR) facts {
	return facts{services: prefixes(object.Spec.CIDRs...)}
}

func ofEndpointSlice(object *discoveryv1.EndpointSlice) facts {
	var f facts
	for _, endpoint := range object.Endpoints {
		f.apiServers = append(f.apiServers, addresses(endpoint.Addresses...)...)
	}
	return f
}

// Nodes have networks of pods of this many bits at least, most of /24 and /64. A kubelet that registers
// with all addresses there are is not believed.
const (
	minPodBits4 = 16
	minPodBits6 = 48
)

func ofNode(node *corev1.Node) facts {
	var f facts
	for _, p := range prefixes(slices.Concat(node.Spec.PodCIDRs, []string{node.Spec.PodCIDR})...) {
		if p.Addr().Is4() && p.Bits() >= minPodBits4 || p.Addr().Is6() && p.Bits() >= minPodBits6 {
			f.pods = append(f.pods, p)
		}
	}
	var texts []string
	for _, address := range node.Status.Addresses {
		texts = append(texts, address.Address) // names among them are no addresses
	}
	system := node.Labels[corev1.LabelOSStable]
	if system == "" {
		system = node.Status.NodeInfo.OperatingSystem
	}
	switch system {
	case "": // it has not reported yet
	case string(corev1.Windows):
		f.windows = addresses(texts...)
	default:
		f.nodes = addresses(texts...)
	}
	return f
}

// cidr is an element of the lists of networks in OpenShift.
type cidr struct {
	CIDR string `json:"cidr"`
}

// networkLists are in the spec and in the status of Network cluster, config.openshift.io. They
// differ while the networks of a cluster are changed.
type networkLists struct {
	ClusterNetwork []cidr   `json:"clusterNetwork"`
	ServiceNetwork []string `json:"serviceNetwork"`
}

type configNetwork struct {
	Spec   networkLists `json:"spec"`
	Status networkLists `json:"status"`
}

func ofConfigNetwork(object *configNetwork) facts {
	return facts{
		services: prefixes(slices.Concat(object.Spec.ServiceNetwork, object.Status.ServiceNetwork)...),
		pods:     slices.Concat(ofCIDRs(object.Spec.ClusterNetwork), ofCIDRs(object.Status.ClusterNetwork)),
	}
}

// operatorNetwork is Network cluster, operator.openshift.io, which has the network of the pods on
// Windows Nodes.
type operatorNetwork struct {
	Spec struct {
		DefaultNetwork struct {
			OVNKubernetesConfig struct {
				HybridOverlayConfig struct {
					HybridClusterNetwork []cidr `json:"hybridClusterNetwork"`
				} `json:"hybridOverlayConfig"`
			} `json:"ovnKubernetesConfig"`
		} `json:"defaultNetwork"`
	} `json:"spec"`
}

func ofOperatorNetwork(object *operatorNetwork) facts {
	return facts{pods: ofCIDRs(object.Spec.DefaultNetwork.OVNKubernetesConfig.HybridOverlayConfig.HybridClusterNetwork)}
}

// ofKubeadm reads ConfigMap kubeadm-config, which has the network of pods where their addresses
// are not taken from the Nodes, as with Calico.
func ofKubeadm(object *corev1.ConfigMap) facts {
	var c struct {
		Networking struct {
			PodSubnet     string `json:"podSubnet"`
			ServiceSubnet string `json:"serviceSubnet"`
		} `json:"networking"`
	}
	text, err := yaml.YAMLToJSON([]byte(object.Data["ClusterConfiguration"]))
	if err == nil {
		err = json.Unmarshal(text, &c)
	}
	if err != nil {
		return facts{}
	}
	return facts{
		services: prefixes(strings.Split(c.Networking.ServiceSubnet, ",")...),
		pods:     prefixes(strings.Split(c.Networking.PodSubnet, ",")...),
	}
}

func ofCIDRs(list []cidr) []netip.Prefix {
	var out []netip.Prefix
	for _, c := range list {
		out = append(out, prefixes(c.CIDR)...)
	}
	return out
}

func prefixes(texts ...string) []netip.Prefix {
	var out []netip.Prefix
	for _, text := range texts {
		if prefix, err := netip.ParsePrefix(strings.TrimSpace(text)); err == nil && !slices.Contains(out, prefix.Masked()) {
			out = append(out, prefix.Masked())
		}
	}
	return out
}

func addresses(texts ...string) []netip.Addr {
	var out []netip.Addr
	for _, text := range texts {
		if address, err := netip.ParseAddr(text); err == nil {
			out = append(out, address.WithZone("").Unmap())
		}
	}
	return out
}
