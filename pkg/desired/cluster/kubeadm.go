// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package cluster

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilversion "k8s.io/apimachinery/pkg/util/version"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/yaml"

	"github.com/openshift/windows-instance-api/pkg/desired/payload"
)

// clusterConfiguration is what is needed of the document of that kind, which is the same
// in all versions of kubeadm.k8s.io.
type clusterConfiguration struct {
	KubernetesVersion string `json:"kubernetesVersion"`
	Networking        struct {
		ServiceSubnet string `json:"serviceSubnet"`
		DNSDomain     string `json:"dnsDomain"`
	} `json:"networking"`
}

// readClusterInfo reads URL and CA of the API server from where kubeadm publishes them
// for nodes that join.
func (r *reader) readClusterInfo(ctx context.Context) error {
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
// have to know of it.
func (r *reader) readKubeadm(ctx context.Context) error {
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
	r.domain, r.version = c.Networking.DNSDomain, c.KubernetesVersion
	return nil
}

// maxSkew is by how many minor versions a kubelet may be older than the API server, by
// the version skew policy of Kubernetes (https://kubernetes.io/releases/version-skew-policy/).
// It may never be newer. Patches do not count.
const maxSkew = 3

// checkVersion warns of a kubelet that the control plane is not made for. Where one of the
// versions is not known, as v0.0.0 of what is no release, nothing can be said.
func (r *reader) checkVersion() {
	theirs, err := utilversion.ParseGeneric(r.version)
	if err != nil {
		return // nothing says which version it is
	}
	ours, err := utilversion.ParseGeneric(versionOf(r.settings.Payload, payload.RoleKubelet))
	if err != nil || ours.Major() != theirs.Major() {
		return
	}
	switch {
	case ours.Minor() > theirs.Minor():
		r.warnings = append(r.warnings, fmt.Sprintf("the kubelet %s of the payload is newer than the control plane %s, which is not supported: use a payload of at most its minor version", ours, theirs))
	case ours.Minor()+maxSkew < theirs.Minor():
		r.warnings = append(r.warnings, fmt.Sprintf("the kubelet %s of the payload is more than %d minor versions older than the control plane %s, which is not supported: use a newer payload", ours, maxSkew, theirs))
	}
}
