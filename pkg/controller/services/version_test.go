// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package services

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation"
)

func TestVersion(t *testing.T) {
	for release, want := range map[string]string{
		"v1.2.3":                   "v1.2.3",
		"11.0.0-0be4b9c":           "11.0.0-0be4b9c",
		"v0.0.0-gABC-dirty":        "v0.0.0-gabc-dirty",
		"v1.2.3+build.4":           "v1.2.3-build.4",
		"1..2.+3":                  "1--2--3",
		"":                         "unknown",
		"+":                        "unknown",
		strings.Repeat("a", 70):    strings.Repeat("a", 63),
		strings.Repeat("a.", 32):   strings.Repeat("a.", 31) + "a",
		"v1.0.0-rc.1-3-g0123456\n": "v1.0.0-rc.1-3-g0123456",
	} {
		if got := Version(release); got != want {
			t.Errorf("Version(%q) = %q, want %q", release, got, want)
		}
	}
}

func FuzzVersion(f *testing.F) {
	f.Add("v1.2.3+dirty.-.")
	f.Fuzz(func(t *testing.T, release string) {
		if errs := validation.IsDNS1123Subdomain("windows-services-" + Version(release)); len(errs) > 0 {
			t.Errorf("Version(%q) = %q: %v", release, Version(release), errs)
		}
	})
}
