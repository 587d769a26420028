// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package payload_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/openshift/windows-instance-api/pkg/desired/payload"
)

// TestRemoveLeftovers: what a killed process has unpacked or downloaded in part goes. What a running one uses stays, as does everything that
// is not known to be a leftover.
func TestRemoveLeftovers(t *testing.T) {
	cache := t.TempDir()
	image := layouts(t)["image"]
	p := open(t, image, payload.Options{CacheDir: cache})
	running, err := filepath.Glob(filepath.Join(cache, "payload-*"))
	if err != nil || len(running) != 1 {
		t.Fatalf("unpacked in %v, %v", running, err)
	}
	// A process that was killed has left the same, and nobody has locked it.
	if err := os.CopyFS(filepath.Join(cache, "payload-42"), os.DirFS(running[0])); err != nil {
		t.Fatal(err)
	}
	lock := filepath.Base(onlyHidden(t, running[0]))
	others := t.TempDir()
	write(t, filepath.Join(others, lock), nil)
	if err := os.Symlink(others, filepath.Join(cache, "payload-5")); err != nil {
		t.Fatal(err)
	}
	long := time.Now().Add(-2 * time.Hour)
	for name, written := range map[string]time.Time{
		"payload-6":                  long,
		"payload-7/files/of-whoever": long,
		"payload-mine/" + lock:       long,
		"mine/payload-8/" + lock:     long,
		"sha256-0123":                long,
		".download-1":                time.Now(),
		".download-2":                long,
		".download-mine":             long,
	} {
		path := filepath.Join(cache, name)
		write(t, path, []byte("x"))
		if err := os.Chtimes(path, written, written); err != nil {
			t.Fatal(err)
		}
	}
	if err := payload.RemoveLeftovers(cache); err != nil {
		t.Fatal(err)
	}
	want := []string{".download-1", ".download-mine", "mine", "payload-5", "payload-6", "payload-7", "payload-mine", filepath.Base(running[0]), "sha256-0123"}
	slices.Sort(want)
	if diff := cmp.Diff(want, names(t, cache)); diff != "" {
		t.Errorf("left (-want +got):\n%s", diff)
	}
	if got := names(t, filepath.Join(cache, "mine", "payload-8")); len(got) != 1 {
		t.Errorf("below a directory of others: %v", got)
	}
	if err := p.Verify(t.Context()); err != nil {
		t.Errorf("the payload in use: %v", err)
	}
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(running[0]); !os.IsNotExist(err) {
		t.Errorf("after it was closed: %v", err)
	}
}

func names(t *testing.T, dir string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return names
}

// onlyHidden returns the only file of a directory that begins with a period.
func onlyHidden(t *testing.T, dir string) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dir, ".*"))
	if err != nil || len(found) != 1 {
		t.Fatalf("found %v, %v", found, err)
	}
	return found[0]
}
