// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package payloadtest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/openshift/windows-instance-api/pkg/desired/payload"
)

// TestDir: what is built is a payload with everything that hosts need, and it is not built
// twice.
func TestDir(t *testing.T) {
	dir, err := Dir(t.Context(), Options{Logf: t.Logf})
	if err != nil {
		t.Fatal(err)
	}
	p, err := payload.Open(t.Context(), dir, payload.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if err := p.Verify(t.Context()); err != nil {
		t.Error(err)
	}
	for _, role := range []payload.Role{payload.RoleKubelet, payload.RoleLogRunner, payload.RoleContainerd, payload.RoleAgent} {
		if len(p.Manifest.ByRole(role)) != 1 {
			t.Errorf("there is no %s", role)
		}
	}
	if v := p.Manifest.File("kubelet.exe").Version; !strings.HasPrefix(v, "v1.") {
		t.Errorf("the version of the kubelet is %q", v)
	}
	again, err := Dir(t.Context(), Options{Logf: func(format string, args ...any) { t.Errorf("again: "+format, args...) }})
	if err != nil || again != dir {
		t.Errorf("the second time: %q, %v; want %q", again, err, dir)
	}
}

// TestRemoveUnused: what was asked for stays, what was not goes, and what has another name is
// left alone.
func TestRemoveUnused(t *testing.T) {
	cache := t.TempDir()
	for _, name := range []string{"files-used", "files-unused", "other"} {
		if err := once(filepath.Join(cache, name), func(string) error { return nil }); err != nil {
			t.Fatal(err)
		}
	}
	now := time.Now().Add(unusedFiles + time.Minute)
	if err := os.Chtimes(filepath.Join(cache, "files-used"), now, now); err != nil {
		t.Fatal(err)
	}
	if err := removeUnused(cache, "files-", unusedFiles, now); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]bool{"files-used": true, "files-unused": false, "files-unused.lock": true, "other": true} {
		if exists(filepath.Join(cache, name)) != want {
			t.Errorf("%s is there: %v, want %v", name, !want, want)
		}
	}
}
