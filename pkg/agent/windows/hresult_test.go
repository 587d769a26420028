// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package windows

import (
	"strings"
	"testing"
)

// TestFeatureWithoutFiles: on a host without Windows Update, the error says what to do.
func TestFeatureWithoutFiles(t *testing.T) {
	for code, want := range map[hresultError]bool{0x800f0950: true, 0x800f081f: true, 0x80004005: false} {
		text := code.Error()
		if strings.Contains(text, `Install-WindowsFeature NAME -Source D:\sources\sxs`) != want {
			t.Errorf("got %q", text)
		}
	}
}
