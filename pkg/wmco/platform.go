// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package wmco

import (
	configv1 "github.com/openshift/api/config/v1"
)

// PlatformOf returns the platform that an Infrastructure names. Empty: none. A cluster that was installed with OpenShift 4.1 may have it in
// the former field alone, which the Machine Config Operator takes then, too.
func PlatformOf(i *configv1.Infrastructure) configv1.PlatformType {
	if i.Status.PlatformStatus == nil {
		return i.Status.Platform //nolint:staticcheck // see above
	}
	return i.Status.PlatformStatus.Type
}

// MachineUsername returns the user for logging in to hosts of Machines.
// Azure does not allow its images an Administrator that can log in.
func MachineUsername(platform configv1.PlatformType) string {
	if platform == configv1.AzurePlatformType {
		return "capi"
	}
	return "Administrator"
}

// RenamesComputer says whether hosts of Machines get the names of their Machines: on other platforms the
// platform gives a virtual machine its name.
func RenamesComputer(platform configv1.PlatformType) bool {
	return platform == configv1.VSpherePlatformType || platform == configv1.NutanixPlatformType
}

// HostnameSource is where the name comes from under which the kubelet registers.
type HostnameSource string

const (
	// HostnameOfWindows is the computer name; the kubelet finds it by itself.
	HostnameOfWindows HostnameSource = ""
	// HostnameOfMetadata is local-hostname in the metadata service of AWS.
	HostnameOfMetadata HostnameSource = "Metadata"
	// HostnameOfGCP is the name in the metadata service of GCP, which the agent cuts.
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
