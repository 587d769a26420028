// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package machineconfig

import (
	"crypto/tls"
	"fmt"
	"slices"
	"strings"

	cliflag "k8s.io/component-base/cli/flag"
	kubeletv1beta1 "k8s.io/kubelet/config/v1beta1"
)

// takeTLS takes the version and the cipher suites that the profile of TLS of the cluster, or that of a KubeletConfig, became. A
// kubelet does not start with a name that it does not know, nor serves without a suite that HTTP/2 needs (RFC 9113,
// section 9.2.2). A suite that is not known is left out, which is no less secure; none at all would permit others.
func (w *Worker) takeTLS(c *kubeletv1beta1.KubeletConfiguration) error {
	version, err := cliflag.TLSVersion(c.TLSMinVersion)
	if err != nil {
		return fmt.Errorf("file %s: tlsMinVersion %q is not one of %s", kubeletConfig, c.TLSMinVersion, strings.Join(cliflag.TLSPossibleVersions(), ", "))
	}
	w.Kubelet.TLSMinVersion, w.Kubelet.TLSCipherSuites = c.TLSMinVersion, nil
	var suites []uint16
	for _, name := range c.TLSCipherSuites {
		suite, err := cliflag.TLSCipherSuites([]string{name})
		if err != nil {
			w.Warnings = append(w.Warnings, fmt.Sprintf("the kubelets of hosts do without the cipher suite %s, which they do not know", name))
			continue
		}
		w.Kubelet.TLSCipherSuites = append(w.Kubelet.TLSCipherSuites, name)
		suites = append(suites, suite...)
	}
	if len(c.TLSCipherSuites) > 0 && len(suites) == 0 {
		return fmt.Errorf("file %s: no kubelet knows any of its tlsCipherSuites", kubeletConfig)
	}
	// Those of TLS 1.3 cannot be chosen.
	if len(suites) > 0 && version < tls.VersionTLS13 &&
		!slices.Contains(suites, tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256) && !slices.Contains(suites, tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256) {
		return fmt.Errorf("file %s: no kubelet serves with its tlsCipherSuites, which need TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256 or TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256 among them (in a profile of TLS: ECDHE-RSA-AES128-GCM-SHA256 or ECDHE-ECDSA-AES128-GCM-SHA256)", kubeletConfig)
	}
	return nil
}
