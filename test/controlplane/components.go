// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

//go:build linux

package controlplane

import (
	"context"
	"crypto/x509"
	"fmt"
	"net/http"
	"os"
	"strconv"
)

const (
	serverAuth = x509.ExtKeyUsageServerAuth
	clientAuth = x509.ExtKeyUsageClientAuth

	// frontProxyName is the common name of the certificate the API server shows
	// to aggregated servers.
	frontProxyName = "front-proxy-client"
)

// environment is that of the control plane's processes. It is not this
// process's: a proxy set there would be used for aggregated servers and
// webhooks, whose Service names do not look like loopback.
func (cp *ControlPlane) environment() []string {
	return append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + cp.dir, "TMPDIR=" + os.TempDir()}, cp.options.Env...)
}

func etcdArgs(dataDir, clientURL, peerURL string, fsync bool) []string {
	args := []string{
		"--name=default",
		"--data-dir=" + dataDir,
		"--listen-client-urls=" + clientURL,
		"--advertise-client-urls=" + clientURL,
		"--listen-peer-urls=" + peerURL,
		"--initial-advertise-peer-urls=" + peerURL,
		"--initial-cluster=default=" + peerURL,
		"--log-level=warn",
	}
	if !fsync {
		args = append(args, "--unsafe-no-fsync")
	}
	return args
}

func (cp *ControlPlane) apiServerArgs(port int) []string {
	return []string{
		"--etcd-servers=" + cp.etcdURL,
		"--bind-address=" + cp.block.host().String(),
		"--advertise-address=" + cp.block.host().String(),
		"--secure-port=" + strconv.Itoa(port),
		// An EndpointSlice takes no loopback address, so the Service kubernetes
		// gets none.
		"--endpoint-reconciler-type=none",
		"--tls-cert-file=" + cp.apiServerPair.CertFile,
		"--tls-private-key-file=" + cp.apiServerPair.KeyFile,
		"--client-ca-file=" + cp.clusterCA.certFile(),
		"--authorization-mode=Node,RBAC",
		"--enable-admission-plugins=NodeRestriction", // as kubeadm and OpenShift
		"--service-cluster-ip-range=" + cp.block.serviceRange().String(),
		"--service-account-issuer=https://kubernetes.default.svc.cluster.local",
		"--service-account-key-file=" + cp.path("pki", "sa.pub"),
		"--service-account-signing-key-file=" + cp.path("pki", "sa.key"),
		"--requestheader-client-ca-file=" + cp.frontProxyCA.certFile(),
		"--requestheader-allowed-names=" + frontProxyName,
		"--requestheader-username-headers=X-Remote-User",
		"--requestheader-uid-headers=X-Remote-Uid",
		"--requestheader-group-headers=X-Remote-Group",
		"--requestheader-extra-headers-prefix=X-Remote-Extra-",
		"--proxy-client-cert-file=" + cp.frontProxy.CertFile,
		"--proxy-client-key-file=" + cp.frontProxy.KeyFile,
		"--kubelet-client-certificate=" + cp.kubeletClient.CertFile,
		"--kubelet-client-key=" + cp.kubeletClient.KeyFile,
		// The default is the host name first, which no DNS of this machine knows.
		"--kubelet-preferred-address-types=InternalIP,Hostname",
		"--allow-privileged=true",
		"--enable-aggregator-routing=" + strconv.FormatBool(cp.options.AggregatorRouting),
	}
}

func (cp *ControlPlane) controllerManagerArgs(kubeconfig string, port int) []string {
	return []string{
		"--kubeconfig=" + kubeconfig,
		"--authentication-kubeconfig=" + kubeconfig,
		"--authorization-kubeconfig=" + kubeconfig,
		"--bind-address=" + cp.block.host().String(),
		"--secure-port=" + strconv.Itoa(port),
		"--tls-cert-file=" + cp.managerPair.CertFile,
		"--tls-private-key-file=" + cp.managerPair.KeyFile,
		"--leader-elect=false",
		"--use-service-account-credentials=true",
		"--service-account-private-key-file=" + cp.path("pki", "sa.key"),
		"--root-ca-file=" + cp.clusterCA.certFile(),
		"--cluster-signing-cert-file=" + cp.clusterCA.certFile(),
		"--cluster-signing-key-file=" + cp.clusterCA.keyFile(),
		// The default is in /usr, which tests have no business with.
		"--flex-volume-plugin-dir=" + cp.path("flexvolume"),
		// With the default of 20 requests per second the start takes seconds longer.
		"--kube-api-qps=500",
		"--kube-api-burst=1000",
	}
}

// httpOK returns a condition that is met when a GET of url is answered with 200.
func httpOK(url string) func(ctx context.Context) error {
	// Neither a proxy nor connections that are kept come into it.
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	return func(ctx context.Context) error {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
		if err != nil {
			return err
		}
		response, err := client.Do(request)
		if err != nil {
			return err
		}
		_ = response.Body.Close()
		if response.StatusCode != http.StatusOK {
			return fmt.Errorf("%s answered %s", url, response.Status)
		}
		return nil
	}
}
