// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

//go:build unix

package windows

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/openshift/windows-instance-api/pkg/agent"
)

func TestReceive(t *testing.T) {
	drive := t.TempDir()
	s := NewUnixSystem(drive, func() (string, error) { return "boot", nil })
	const path = `C:\file`
	abandoned := filepath.Join(drive, "file.OLD"+temporarySuffix)
	for _, name := range []string{abandoned, filepath.Join(drive, "file.NEW"+temporarySuffix)} {
		if err := os.WriteFile(name, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if old := time.Now().Add(-2 * abandonedAfter); os.Chtimes(abandoned, old, old) != nil {
		t.Fatal("the time of a file cannot be set")
	}
	first, err := s.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(abandoned); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("what was abandoned: %v", err)
	}
	second, err := s.Create(path)
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
	third, err := s.Create(path)
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
	if entries, err := filepath.Glob(filepath.Join(drive, "*"+temporarySuffix)); err != nil || len(entries) != 1 {
		t.Errorf("after that there is %v, %v", entries, err)
	}
}

// TestDiskFull: writing to /dev/full fails as writing to a full disk does.
func TestDiskFull(t *testing.T) {
	device, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	f := &receivedFile{file: device}
	if _, err := f.Write([]byte("x")); !errors.Is(err, agent.ErrDiskFull) {
		t.Errorf("got %v", err)
	}
	if err := device.Close(); err != nil {
		t.Error(err)
	}
}

func TestVolume(t *testing.T) {
	for _, drive := range []string{t.TempDir(), filepath.Join(t.TempDir(), "not made yet")} {
		name, free, err := NewUnixSystem(drive, nil).Volume(`C:\x`)
		if name != "C:" || free <= 0 || err != nil {
			t.Errorf("%s: got %s, %d, %v", drive, name, free, err)
		}
	}
}
