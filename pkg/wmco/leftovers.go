// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package wmco

import (
	"cmp"
	"slices"
	"strings"

	configv1 "github.com/openshift/api/config/v1"
)

// Services returns the services that WMCO makes on hosts, in the order in which they start; not every host has all of
// them. Its own daemon, [WICDService], is not among them.
func Services() []string {
	return []string{ContainerdService, KubeletService, WindowsExporterService, HybridOverlayService, CSIProxyService, KubeProxyService, CloudNodeManagerService}
}

// Files returns the files that WMCO and its daemon write on hosts of any platform, but for those in [Trees] and [DaemonDirectories], and those that
// its programs make themselves, such as the kubeconfig of the kubelet. No host has all of them.
func Files() []string {
	var files []string
	for _, platform := range []configv1.PlatformType{configv1.AWSPlatformType, configv1.AzurePlatformType} {
		for _, f := range PayloadFiles(platform) {
			files = append(files, f.Path())
		}
	}
	files = append(files,
		KubernetesDir+`\`+WICDService+".exe", WICDKubeconfigPath, BootstrapKubeconfigPath, BootstrapCAPath, KubeletConfigPath, KubeletCAPath,
		KubeProxyConfigPath, CredentialProviderPath, KubernetesDir+`\cloud.conf`, KubernetesDir+`\ca-bundle.crt`, ImportedCertificatesPath)
	slices.Sort(files)
	return slices.Compact(files)
}

// Trees returns the directories of hosts in which everything is of WMCO and its daemon, and ours later.
func Trees() []string { return []string{RegistriesDir, TLSCertsDir} }

// DaemonDirectories returns the directories in which everything is of the daemon of WMCO, and nothing of ours ever. It gets a
// certificate in less than each hour, and deletes none.
func DaemonDirectories() []string { return []string{WICDCertsDir, LogDir + `\wicd`} }

// KubeletKeeps returns what the command line of the kubelet of WMCO has by which it is known to the cluster: where its
// credentials are.
func KubeletKeeps() []string {
	return []string{"--kubeconfig=" + KubeconfigPath, `--cert-dir=C:\var\lib\kubelet\pki`}
}

// AdoptedRevision names what WMCO has configured a host with, by [VersionAnnotation] of its Node. Empty: the Node does not have it.
func AdoptedRevision(version string) string { return adoptedPrefix + cmp.Or(version, "unknown") }

// IsAdoptedRevision says whether a host has a revision that WMCO has configured: it was adopted, and was not updated since.
func IsAdoptedRevision(revision string) bool { return strings.HasPrefix(revision, adoptedPrefix) }

// adoptedPrefix is what revisions begin with that WMCO has configured. Ours are digests.
const adoptedPrefix = "wmco-"
