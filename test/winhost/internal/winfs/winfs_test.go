// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package winfs

import (
	"os"
	"path/filepath"
	"testing"
)

func TestClean(t *testing.T) {
	f := &FS{Home: "/C:/Users/Administrator"}
	for _, tc := range []struct{ name, path, want string }{
		{"home", ".", "/C:/Users/Administrator"},
		{"empty", "", "/C:/Users/Administrator"},
		{"relative", "a/b", "/C:/Users/Administrator/a/b"},
		{"absolute as sftp has it", "/C:/k/x", "/C:/k/x"},
		{"joined to home by the library", "/C:/Users/Administrator/C:/k/x", "/C:/k/x"},
		{"without the first slash", "C:/k/x", "/C:/k/x"},
		{"as Windows has it", `C:\k\x`, "/C:/k/x"},
		{"drive alone", "D:", "/D:"},
		{"dots", "/C:/k/../x/./y", "/C:/x/y"},
		{"dots above the drive", `C:\..\..\x`, "/C:/x"},
		{"no drive", "/etc/../x", "/x"},
		{"root", "/", "/"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := f.Clean(tc.path); got != tc.want {
				t.Errorf("got %s, want %s", got, tc.want)
			}
		})
	}
}

func TestResolve(t *testing.T) {
	root := t.TempDir()
	if err := os.MkdirAll(filepath.Join(root, "ProgramData", "Kept"), 0o700); err != nil {
		t.Fatal(err)
	}
	f := &FS{Home: "/C:/Users/Administrator", Local: Below(root)}
	for _, tc := range []struct {
		name, path string
		want       string // below root; empty: an error
	}{
		{"drive", "C:/", "."},
		{"any case", "/c:/PROGRAMDATA/kept/New", "ProgramData/Kept/New"},
		{"new", "/C:/new/File", "new/File"},
		{"no other drive", "/D:/x", ""},
		{"root", "/", ""},
		{"no drive", "/etc/passwd", ""},
		{"up and out", "/C:/../../../etc/passwd", "etc/passwd"},
		{"stream", "/C:/file:stream", ""},
		{"wildcard", "/C:/*.log", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := f.resolve(tc.path)
			want := filepath.Join(root, tc.want)
			if tc.want == "" && err == nil || tc.want != "" && (err != nil || got != want) {
				t.Errorf("got %q, %v, want %q", got, err, want)
			}
		})
	}
}
