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

// TestPlatformOf: the former field counts where there is nothing else, and an empty one in its place is no platform.
func TestPlatformOf(t *testing.T) {
	status := func(former configv1.PlatformType, now *configv1.PlatformStatus) configv1.InfrastructureStatus {
		return configv1.InfrastructureStatus{Platform: former, PlatformStatus: now} //nolint:staticcheck // the former field is what this is about
	}
	for name, tt := range map[string]struct {
		status configv1.InfrastructureStatus
		want   configv1.PlatformType
	}{
		"nothing":            {},
		"as installed today": {status(configv1.NonePlatformType, &configv1.PlatformStatus{Type: configv1.AWSPlatformType}), configv1.AWSPlatformType},
		"the former field":   {status(configv1.AWSPlatformType, nil), configv1.AWSPlatformType},
		"one without a type": {status(configv1.AWSPlatformType, &configv1.PlatformStatus{}), ""},
	} {
		if got := wmco.PlatformOf(&configv1.Infrastructure{Status: tt.status}); got != tt.want {
			t.Errorf("%s: got %q, want %q", name, got, tt.want)
		}
	}
}
