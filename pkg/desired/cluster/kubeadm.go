// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package cluster

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/yaml"
)

// clusterConfiguration is what is needed of the document of that kind, which is the same
// in all versions of kubeadm.k8s.io.
type clusterConfiguration struct {
	Networking struct {
		ServiceSubnet string `json:"serviceSubnet"`
		DNSDomain     string `json:"dnsDomain"`
	} `json:"networking"`
}

// readClusterInfo reads URL and CA of the API server from where kubeadm publishes them
// for nodes that join. Whoever has made that ConfigMap in OpenShift, no node there goes by it.
func (r *reader) readClusterInfo(ctx context.Context) error {
	if r.openShift {
		return nil
	}
	data, err := r.configMap(ctx, metav1.NamespacePublic, clusterInfoConfigMap)
	if data == nil {
		return err
	}
	kubeconfig, err := clientcmd.Load([]byte(data[kubeconfigKey]))
	if err != nil || len(kubeconfig.Clusters) != 1 {
		r.find(fmt.Sprintf("ConfigMap %s has no kubeconfig of one cluster below %s", clusterInfoName, kubeconfigKey), "correct it, or delete it and set --api-server-url")
		return nil //nolint:nilerr // it is a finding
	}
	for _, cluster := range kubeconfig.Clusters {
		if r.cluster.APIServerURL == "" {
			r.cluster.APIServerURL = cluster.Server
		}
		r.cluster.APIServerCA = cluster.CertificateAuthorityData
	}
	return nil
}

// readKubeadm reads from the configuration by which kubeadm created the cluster what nodes
// have to know of it. As with readClusterInfo, OpenShift has another one.
func (r *reader) readKubeadm(ctx context.Context) error {
	if r.openShift {
		return nil
	}
	data, err := r.configMap(ctx, metav1.NamespaceSystem, kubeadmConfigMap)
	if data == nil {
		return err
	}
	var c clusterConfiguration
	if err := yaml.Unmarshal([]byte(data[clusterConfigurationKey]), &c); err != nil {
		r.find(fmt.Sprintf("%s in ConfigMap %s/%s cannot be read (%v)", clusterConfigurationKey, metav1.NamespaceSystem, kubeadmConfigMap, err), "correct it")
		return nil
	}
	r.cluster.ServiceCIDRs = splitList(c.Networking.ServiceSubnet)
	r.domain = c.Networking.DNSDomain
	return nil
}
