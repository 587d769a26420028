// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package payload_test

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/openshift/windows-instance-api/pkg/desired/payload"
)

// sideBySide writes two payloads, and returns the directory of both. In the second one the first file is another one.
func sideBySide(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for name, edit := range map[string]func(*payload.Manifest, []payload.Source){
		"1.36": nil,
		"1.37": func(_ *payload.Manifest, list []payload.Source) { write(t, list[0].LocalPath, []byte("newer")) },
	} {
		if err := os.Rename(build(t, edit), filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func openSet(t *testing.T, path string) *payload.Set {
	t.Helper()
	s, err := payload.OpenSet(t.Context(), path, payload.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// A payload is one, whatever its form; and what is beside payloads is none. Programs are not read.
func TestOpenSet(t *testing.T) {
	for name, path := range layouts(t) {
		if got := openSet(t, path).Payloads(); len(got) != 1 || got[0].Path != path {
			t.Errorf("%s: %d payloads", name, len(got))
		}
	}
	dir := sideBySide(t)
	for _, name := range []string{".payload-about-to-be-written/manifest.json", "lost+found/README", "README"} {
		write(t, filepath.Join(dir, name), []byte("not read"))
	}
	for _, name := range []string{"1.36", "1.37"} {
		if err := os.RemoveAll(filepath.Join(dir, name, "files")); err != nil {
			t.Fatal(err)
		}
	}
	got := openSet(t, dir).Payloads()
	if len(got) != 2 || got[0].Path != filepath.Join(dir, "1.36") || got[1].Path != filepath.Join(dir, "1.37") {
		t.Errorf("got %d payloads", len(got))
	}

	// One that cannot be read is not left out.
	write(t, filepath.Join(dir, "1.38", "manifest.json"), []byte("{"))
	if _, err := payload.OpenSet(t.Context(), dir, payload.Options{}); err == nil || !strings.Contains(err.Error(), filepath.Join(dir, "1.38")) {
		t.Errorf("got %v", err)
	}
	if _, err := payload.OpenSet(t.Context(), t.TempDir(), payload.Options{}); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "make payload KUBERNETES=1.N OUT=") {
		t.Errorf("nothing: got %v", err)
	}
}

// A file is found in whichever payload has that content of it.
func TestFind(t *testing.T) {
	s := openSet(t, sideBySide(t))
	name := ""
	for _, p := range s.Payloads() {
		for i := range p.Manifest.Files {
			f := &p.Manifest.Files[i]
			of, got := s.Find(f.Name, f.Effective().SHA256)
			if of == nil || got == nil || got.Effective() != f.Effective() || !bytes.Equal(read(t, of, f.Name), read(t, p, f.Name)) {
				t.Errorf("%s of %s: got %+v", f.Name, p.Path, got)
			}
		}
		name = p.Manifest.Files[0].Name
	}
	if _, got := s.Find(name, "other"); got == nil || got.Name != name {
		t.Errorf("another content: got %+v", got)
	}
	if _, got := s.Find("other.exe", "other"); got != nil {
		t.Errorf("another name: got %+v", got)
	}
}
