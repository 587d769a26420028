// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package volume

import (
	"errors"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"
)

func TestFree(t *testing.T) {
	dir := t.TempDir()
	if free, err := Free(dir); err != nil || free <= 0 {
		t.Errorf("got %d, %v", free, err)
	}
	if files, err := FreeFiles(dir); err != nil || files <= 0 {
		t.Errorf("got %d files, %v", files, err)
	}
	missing := filepath.Join(dir, "missing")
	if _, err := Free(missing); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), missing) {
		t.Errorf("got %v", err)
	}
}
