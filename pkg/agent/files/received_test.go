// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package files

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/openshift/windows-instance-api/pkg/agent"
)

// plain is a disk as the standard library has it. What is wrong with it is that it is full.
var plain = Disk{
	Open:   func(path string, _ bool) (*os.File, error) { return os.Open(path) },
	Rename: os.Rename,
	Full: func(err error) error {
		if err == nil {
			return nil
		}
		return fmt.Errorf("%w: %w", agent.ErrDiskFull, err)
	},
}

func TestReceive(t *testing.T) {
	drive := t.TempDir()
	path := filepath.Join(drive, "file")
	abandoned := filepath.Join(drive, "file.OLD"+TemporarySuffix)
	for _, name := range []string{abandoned, filepath.Join(drive, "file.NEW"+TemporarySuffix)} {
		if err := os.WriteFile(name, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if old := time.Now().Add(-2 * abandonedAfter); os.Chtimes(abandoned, old, old) != nil {
		t.Fatal("the time of a file cannot be set")
	}
	first, err := plain.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(abandoned); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("what was abandoned: %v", err)
	}
	second, err := plain.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	for i, f := range []agent.ReceivedFile{first, second} {
		if _, err := f.Write([]byte{byte('1' + i)}); err != nil {
			t.Error(err)
		}
	}
	if _, err := os.Stat(filepath.Join(drive, "file")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("it has its name before it is complete: %v", err)
	}
	if err := errors.Join(second.Commit(), second.Discard(), first.Discard(), first.Discard()); err != nil {
		t.Error(err)
	}
	if b, err := os.ReadFile(filepath.Join(drive, "file")); err != nil || string(b) != "2" {
		t.Errorf("got %q, %v", b, err)
	}
	entries, err := os.ReadDir(drive)
	if err != nil || len(entries) != 2 {
		t.Errorf("there is %v, %v", entries, err)
	}
	third, err := plain.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(drive, "file")); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(drive, "file", "in the way"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := third.Commit(); err == nil {
		t.Error("a directory is in the way, and that is no error")
	}
	if entries, err := filepath.Glob(filepath.Join(drive, "*"+TemporarySuffix)); err != nil || len(entries) != 1 {
		t.Errorf("after that there is %v, %v", entries, err)
	}
}

// TestDiskFull: writing to /dev/full fails as writing to a full disk does.
func TestDiskFull(t *testing.T) {
	device, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	f := &received{disk: plain, file: device}
	if _, err := f.Write([]byte("x")); !errors.Is(err, agent.ErrDiskFull) {
		t.Errorf("got %v", err)
	}
	if err := device.Close(); err != nil {
		t.Error(err)
	}
}
