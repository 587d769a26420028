// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package windows

import (
	"os"
	"path/filepath"
	"testing"
)

// TestMountedLayer: a layer whose disk is open is mounted; one that has no disk, or whose disk may be removed, is not.
func TestMountedLayer(t *testing.T) {
	from, to := twoFiles(t, []byte("disk"), []byte("no disk"))
	layer := filepath.Dir(to)
	s := &windowsSystem{}
	if err := s.UnmountLayer(layer); err != nil {
		t.Errorf("without a disk: %v", err)
	}
	disk := layer + layerDisk
	if err := os.Rename(from, disk); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // before the directory is
		if err := os.Remove(disk); err != nil {
			t.Error(err)
		}
	})
	if err := s.UnmountLayer(layer); err != nil {
		t.Errorf("its disk is not open: %v", err)
	}
	shared, err := openShared(disk, true)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.UnmountLayer(layer); err != nil {
		t.Errorf("somebody reads its disk and lets it be removed: %v", err)
	}
	if err := shared.Close(); err != nil {
		t.Fatal(err)
	}
	held, err := os.OpenFile(disk, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.UnmountLayer(layer); err == nil {
		t.Error("its disk is open, and it counts as unmounted")
	}
	if err := held.Close(); err != nil {
		t.Fatal(err)
	}
}
