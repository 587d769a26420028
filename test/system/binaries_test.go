// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

//go:build linux

package system

import (
	"os"
	"path/filepath"
	"testing"
)

// TestRemoveOfGone: programs of a checkout that is there stay, and so does what nobody knows.
func TestRemoveOfGone(t *testing.T) {
	cache, there, gone := t.TempDir(), t.TempDir(), filepath.Join(t.TempDir(), "gone")
	unknown := filepath.Join(cache, "checkout-unknown")
	if err := os.Mkdir(unknown, 0o755); err != nil {
		t.Fatal(err)
	}
	want := map[string]bool{unknown: true}
	for root, stays := range map[string]bool{there: true, gone: false} {
		dir, err := directoryOf(cache, root)
		if err != nil {
			t.Fatal(err)
		}
		want[dir] = stays
	}
	if err := removeOfGone(cache); err != nil {
		t.Fatal(err)
	}
	for dir, stays := range want {
		if _, err := os.Stat(dir); (err == nil) != stays {
			t.Errorf("%s is there: %v, want %v", dir, err == nil, stays)
		}
	}
}
