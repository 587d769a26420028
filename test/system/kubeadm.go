// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

//go:build linux

package system

import (
	"context"
	"fmt"
	"net/url"
	"os"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/openshift/windows-instance-api/test/winhost"
)

// createKubeadm makes the ConfigMaps in which kubeadm says how nodes join a cluster: see
// "kubeadm init phase bootstrap-token" and "kubeadm init phase upload-config".
func (s *System) createKubeadm(ctx context.Context) error {
	if s.options.Payload == "" || s.options.OpenShift != "" {
		return nil
	}
	ca, err := os.ReadFile(s.CAFile())
	if err != nil {
		return err
	}
	server, err := s.hostsURL()
	if err != nil {
		return err
	}
	info, err := clientcmd.Write(clientcmdapi.Config{Clusters: map[string]*clientcmdapi.Cluster{
		"": {Server: server, CertificateAuthorityData: ca},
	}})
	if err != nil {
		return err
	}
	version, err := s.Kube.Discovery().ServerVersion()
	if err != nil {
		return fmt.Errorf("asking for the version of the control plane: %w", err)
	}
	for _, config := range []*corev1.ConfigMap{
		{
			ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespacePublic, Name: "cluster-info"},
			Data:       map[string]string{"kubeconfig": string(info)},
		},
		{
			ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: "kubeadm-config"},
			Data: map[string]string{"ClusterConfiguration": fmt.Sprintf(`apiVersion: kubeadm.k8s.io/v1beta4
kind: ClusterConfiguration
kubernetesVersion: %s
networking:
  dnsDomain: cluster.local
  serviceSubnet: %s
`, version.GitVersion, s.ServiceRange())},
		},
	} {
		if _, err := s.Kube.CoreV1().ConfigMaps(config.Namespace).Create(ctx, config, metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("creating ConfigMap %s/%s: %w", config.Namespace, config.Name, err)
		}
	}
	return nil
}

// hostsURL is where hosts reach the API server.
func (s *System) hostsURL() (string, error) {
	if !s.options.HostNetworks {
		return s.AdminConfig().Host, nil
	}
	u, err := url.Parse(s.URL())
	if err != nil {
		return "", err
	}
	if s.relay, err = winhost.NewRelay(u.Host); err != nil {
		return "", err
	}
	return "https://" + s.relay.Address(), nil
}
