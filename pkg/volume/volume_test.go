// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package volume

import (
	"errors"
	"io/fs"
	"math"
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

func TestFreeFiles(t *testing.T) {
	for _, tc := range []struct {
		name        string
		files, free uint64
		want        int64
	}{
		{"ext4", 1000, 10, 10},
		{"full", 1000, 0, 0},
		{"all free", 1000, 1000, 1000},
		{"no fixed number", 0, 0, math.MaxInt64},
		{"CephFS", 1000, math.MaxUint64, math.MaxInt64},
		{"CephFS without objects", 0, math.MaxUint64, math.MaxInt64},
		{"more than can be said", math.MaxUint64, math.MaxUint64 - 1, math.MaxInt64},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := freeFiles(tc.files, tc.free); got != tc.want {
				t.Errorf("got %d, want %d", got, tc.want)
			}
		})
	}
}
