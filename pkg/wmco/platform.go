// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package wmco

import (
	"fmt"
	"strings"

	configv1 "github.com/openshift/api/config/v1"
)

// MachineUsername returns the user that hosts of Machines are logged in to as.
// Azure does not allow its images an Administrator that can log in.
func MachineUsername(platform configv1.PlatformType) string {
	if platform == configv1.AzurePlatformType {
		return "capi"
	}
	return "Administrator"
}

// RenamesComputer says whether the host of a Machine gets the name of the Machine.
// Elsewhere the platform names the host before it starts.
func RenamesComputer(platform configv1.PlatformType) bool {
	return platform == configv1.VSpherePlatformType || platform == configv1.NutanixPlatformType
}

// MachineNameLimit returns how many characters the name of a Machine may have so
// that it can be the NetBIOS name of its host. Zero: no such limit.
func MachineNameLimit(platform configv1.PlatformType) int {
	switch platform {
	case configv1.VSpherePlatformType, configv1.AzurePlatformType:
		return 15
	default:
		return 0
	}
}

// HostnameSource says where the name under which the kubelet registers comes from.
type HostnameSource string

const (
	// HostnameOfWindows is the computer name; the kubelet finds it by itself.
	HostnameOfWindows HostnameSource = ""
	// HostnameOfMetadata is local-hostname in the metadata service of AWS.
	HostnameOfMetadata HostnameSource = "Metadata"
	// HostnameOfGCP is the name in the metadata service of GCP, cut by GCPHostname.
	HostnameOfGCP HostnameSource = "GCP"
	// HostnameOfFQDN is the computer name with the primary DNS suffix.
	HostnameOfFQDN HostnameSource = "FQDN"
)

// KubeletHostname returns where the name of the Node of a Machine comes from. It
// must be the name that the cloud provider knows the host by.
func KubeletHostname(platform configv1.PlatformType) HostnameSource {
	switch platform {
	case configv1.AWSPlatformType:
		return HostnameOfMetadata
	case configv1.GCPPlatformType:
		return HostnameOfGCP
	case configv1.VSpherePlatformType:
		return HostnameOfFQDN
	default:
		return HostnameOfWindows
	}
}

// maxNodeName is how long a Node of GCP may be called: its name is also the value
// of the label kubernetes.io/hostname.
const maxNodeName = 63

// GCPHostname returns the name of the Node of a host on GCP whose metadata service
// gives fqdn: all of it when it fits, else the part before the first dot when that
// fits, else as many characters as fit.
func GCPHostname(fqdn string) string {
	if len(fqdn) <= maxNodeName {
		return fqdn
	}
	if short, _, found := strings.Cut(fqdn, "."); found && short != "" && len(short) <= maxNodeName {
		return short
	}
	return fqdn[:maxNodeName]
}

// WindowsBuild returns the build of a release of Windows Server, as it stands in
// the label node.kubernetes.io/windows-build that a RuntimeClass selects by.
func WindowsBuild(release string) (string, error) {
	builds := map[string]string{"2019": "10.0.17763", "2022": "10.0.20348", "2025": "10.0.26100"}
	build, ok := builds[release]
	if !ok {
		return "", fmt.Errorf("no build is known for Windows Server %s", release)
	}
	return build, nil
}
