// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

//go:build linux

package controlplane

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// AdminConfig returns a client configuration for a member of system:masters,
// without client-side rate limits. Each call returns a new copy.
func (cp *ControlPlane) AdminConfig() *rest.Config { return rest.CopyConfig(cp.admin) }

// KubeconfigPath returns the kubeconfig of the user AdminConfig is for.
func (cp *ControlPlane) KubeconfigPath() string { return cp.path("admin.kubeconfig") }

// UserConfig returns a client configuration for the user in these groups, proved
// by a client certificate. The user needs no setup, and may do nothing until
// RBAC says otherwise.
func (cp *ControlPlane) UserConfig(user string, groups ...string) (*rest.Config, error) {
	certPEM, keyPEM, err := cp.clusterCA.issue(leaf{commonName: user, organizations: groups, usage: clientAuth})
	if err != nil {
		return nil, err
	}
	config := cp.anonymousConfig()
	config.CertData, config.KeyData = certPEM, keyPEM
	return config, nil
}

// WriteKubeconfig writes a kubeconfig for the user in these groups to
// <name>.kubeconfig in the run directory and returns its path. It needs no other
// file.
func (cp *ControlPlane) WriteKubeconfig(name, user string, groups ...string) (string, error) {
	config, err := cp.UserConfig(user, groups...)
	if err != nil {
		return "", err
	}
	path := cp.path(name + ".kubeconfig")
	return path, writeKubeconfig(path, config)
}

// ServiceAccountConfig returns a client configuration for a ServiceAccount,
// which must exist, with a token from the TokenRequest API that is good for a
// day.
func (cp *ControlPlane) ServiceAccountConfig(ctx context.Context, namespace, name string) (*rest.Config, error) {
	client, err := kubernetes.NewForConfig(cp.admin)
	if err != nil {
		return nil, fmt.Errorf("creating a client: %w", err)
	}
	seconds := int64(24 * 60 * 60)
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &seconds}}
	request, err = client.CoreV1().ServiceAccounts(namespace).CreateToken(ctx, name, request, metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("requesting a token for ServiceAccount %s/%s: %w", namespace, name, err)
	}
	config := cp.anonymousConfig()
	config.BearerToken = request.Status.Token
	return config, nil
}

// ServiceAccountKubeconfig writes what ServiceAccountConfig returns to
// <namespace>-<name>.kubeconfig in the run directory and returns its path.
func (cp *ControlPlane) ServiceAccountKubeconfig(ctx context.Context, namespace, name string) (string, error) {
	config, err := cp.ServiceAccountConfig(ctx, namespace, name)
	if err != nil {
		return "", err
	}
	path := cp.path(namespace + "-" + name + ".kubeconfig")
	return path, writeKubeconfig(path, config)
}

// anonymousConfig says where the API server is and how to recognize it.
func (cp *ControlPlane) anonymousConfig() *rest.Config {
	return &rest.Config{
		Host:            cp.apiServerURL,
		TLSClientConfig: rest.TLSClientConfig{CAData: cp.clusterCA.bundle()},
		QPS:             -1,
	}
}

func writeKubeconfig(path string, config *rest.Config) error {
	const name = "controlplane"
	err := clientcmd.WriteToFile(clientcmdapi.Config{
		Clusters: map[string]*clientcmdapi.Cluster{name: {
			Server: config.Host, CertificateAuthorityData: config.CAData,
		}},
		AuthInfos: map[string]*clientcmdapi.AuthInfo{name: {
			ClientCertificateData: config.CertData, ClientKeyData: config.KeyData, Token: config.BearerToken,
		}},
		Contexts:       map[string]*clientcmdapi.Context{name: {Cluster: name, AuthInfo: name}},
		CurrentContext: name,
	}, path)
	if err != nil {
		return fmt.Errorf("writing kubeconfig %s: %w", path, err)
	}
	return nil
}

// FrontProxy returns the certificate the API server shows to aggregated servers
// and the authority that issued it, for tests that stand in for the front proxy
// or that write an aggregated server's configuration by hand.
func (cp *ControlPlane) FrontProxy() KeyPair { return cp.frontProxy }

// CAFile returns the certificate of the authority that clients and the API
// server recognize each other by.
func (cp *ControlPlane) CAFile() string { return cp.clusterCA.certFile() }

// ClusterCA returns the authority of clients, the API server and kubelets with its key.
func (cp *ControlPlane) ClusterCA() KeyPair {
	return KeyPair{CertFile: cp.clusterCA.certFile(), KeyFile: cp.clusterCA.keyFile(), CAFile: cp.clusterCA.certFile()}
}

// KubectlPath returns the kubectl of the control plane's version.
func (cp *ControlPlane) KubectlPath() string { return filepath.Join(cp.binDir, "kubectl") }

// KubectlCommand returns a kubectl command that acts as the user of the
// kubeconfig; empty means the administrator. It keeps its caches in the run
// directory and does not look at the caller's configuration.
func (cp *ControlPlane) KubectlCommand(ctx context.Context, kubeconfig string, args ...string) *exec.Cmd {
	if kubeconfig == "" {
		kubeconfig = cp.KubeconfigPath()
	}
	cmd := exec.CommandContext(ctx, cp.KubectlPath(), args...)
	cmd.Env = append(os.Environ(),
		"KUBECONFIG="+kubeconfig,
		"KUBECACHEDIR="+cp.path("kube-cache"),
		"KUBERC=off",
	)
	return cmd
}

// Kubectl runs kubectl as the administrator and returns its stdout. The error
// has its stderr.
func (cp *ControlPlane) Kubectl(ctx context.Context, args ...string) (string, error) {
	cmd := cp.KubectlCommand(ctx, "", args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	stdout, err := cmd.Output()
	if err != nil {
		return string(stdout), fmt.Errorf("kubectl %s: %w: %s", strings.Join(args, " "), err, bytes.TrimSpace(stderr.Bytes()))
	}
	return string(stdout), nil
}
