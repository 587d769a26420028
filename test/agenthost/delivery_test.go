// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package agenthost

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/openshift/windows-instance-api/pkg/agent"
)

// TestDiskFull: writing to /dev/full fails as writing to a full disk does.
func TestDiskFull(t *testing.T) {
	device, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := device.WriteString("x"); !errors.Is(diskFull(err), agent.ErrDiskFull) {
		t.Errorf("got %v", err)
	}
	if err := device.Close(); err != nil {
		t.Error(err)
	}
}

func TestVolume(t *testing.T) {
	for _, drive := range []string{t.TempDir(), filepath.Join(t.TempDir(), "not made yet")} {
		name, free, err := NewSystem(drive, nil).Volume(`C:\x`)
		if name != "C:" || free <= 0 || err != nil {
			t.Errorf("%s: got %s, %d, %v", drive, name, free, err)
		}
	}
}
