// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package wmco_test

import (
	"path"
	"strings"
	"testing"

	configv1 "github.com/openshift/api/config/v1"

	"github.com/openshift/windows-instance-api/pkg/wmco"
)

func TestPayloadFiles(t *testing.T) {
	everywhere := wmco.PayloadFiles(configv1.NonePlatformType)
	for platform, want := range map[configv1.PlatformType]string{
		configv1.AWSPlatformType:     `C:\k\ecr-credential-provider.exe`,
		configv1.AzurePlatformType:   `C:\k\azure-cloud-node-manager.exe`,
		configv1.VSpherePlatformType: "",
	} {
		var extra []string
		for _, f := range wmco.PayloadFiles(platform) {
			if !strings.Contains(path.Base(f.Source), ".") {
				t.Errorf("%s: %s is no file", platform, f.Source)
			}
			known := false
			for _, other := range everywhere {
				known = known || f == other
			}
			if !known {
				extra = append(extra, f.Path())
			}
		}
		if got := strings.Join(extra, " "); got != want {
			t.Errorf("%s: got the extra files %q, want %q", platform, got, want)
		}
	}
}

func TestSplitPath(t *testing.T) {
	for _, tt := range []struct{ path, directory, file string }{
		{"", "", ""},
		{"test.yml", "", "test.yml"},
		{`C:\k\test.yml`, `C:\k\`, "test.yml"},
		{`C:\k\`, `C:\k\`, ""},
		{"a/b", "", "a/b"},
	} {
		if directory, file := wmco.SplitPath(tt.path); directory != tt.directory || file != tt.file {
			t.Errorf("SplitPath(%q) = %q, %q, want %q, %q", tt.path, directory, file, tt.directory, tt.file)
		}
	}
}
