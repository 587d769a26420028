// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package wmco_test

import (
	"testing"

	configv1 "github.com/openshift/api/config/v1"

	"github.com/openshift/windows-instance-api/pkg/wmco"
)

func TestPlatform(t *testing.T) {
	tests := []struct {
		platform configv1.PlatformType
		username string
		hostname wmco.HostnameSource
	}{
		{platform: configv1.AWSPlatformType, username: "Administrator", hostname: wmco.HostnameOfMetadata},
		{platform: configv1.AzurePlatformType, username: "capi"},
		{platform: configv1.GCPPlatformType, username: "Administrator", hostname: wmco.HostnameOfGCP},
		{platform: configv1.VSpherePlatformType, username: "Administrator", hostname: wmco.HostnameOfFQDN},
		{platform: configv1.NutanixPlatformType, username: "Administrator"},
		{platform: configv1.NonePlatformType, username: "Administrator"},
	}
	for _, tt := range tests {
		t.Run(string(tt.platform), func(t *testing.T) {
			if got := wmco.MachineUsername(tt.platform); got != tt.username {
				t.Errorf("MachineUsername = %q, want %q", got, tt.username)
			}
			if got := wmco.KubeletHostname(tt.platform); got != tt.hostname {
				t.Errorf("KubeletHostname = %q, want %q", got, tt.hostname)
			}
		})
	}
}
