// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package openshift

import (
	"testing"

	"github.com/openshift/windows-instance-api/pkg/desired/document"
)

// TestSystemAuthorities: they are as large as those of a real system, and all of them can be used.
func TestSystemAuthorities(t *testing.T) {
	bundle := SystemAuthorities()
	if usable, damaged := document.UsableCertificates([]byte(bundle)); string(usable) != bundle || len(damaged) > 0 {
		t.Errorf("%q", damaged)
	}
	if kib := len(bundle) >> 10; kib < 180 || kib > 260 {
		t.Errorf("they have %d KiB", kib)
	}
}
