// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package main

import (
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// site is a module with a program, and the modules that it uses: forked has a package by others in it,
// and onwindows is linked on Windows only.
var site = map[string]string{
	"app/go.mod": `module example.com/app

go 1.26.0

require (
	example.com/forked v1.2.3
	example.com/onwindows v0.1.0
)

replace (
	example.com/forked => ../forked
	example.com/onwindows => ../onwindows
)
`,
	"app/LICENSE":                     "ours",
	"app/cmd/app/main.go":             "package main\n\nimport _ \"example.com/forked\"\n\nfunc main() {}\n",
	"app/cmd/app/main_windows.go":     "package main\n\nimport _ \"example.com/onwindows\"\n",
	"app/test/NOTICE":                 "of no program",
	"forked/go.mod":                   "module example.com/forked\n",
	"forked/LICENSE.txt":              "theirs",
	"forked/NOTICE":                   "who they are",
	"forked/PATENTS":                  "what they grant",
	"forked/license.go":               "package forked\n\nimport _ \"example.com/forked/third_party/a\"\n",
	"forked/third_party/COPYING":      "",
	"forked/third_party/a/License.md": "of a",
	"forked/third_party/a/a.go":       "package a\n",
	"forked/third_party/b/LICENSE":    "of b, which nothing uses",
	"forked/third_party/b/b.go":       "package b\n",
	"onwindows/go.mod":                "module example.com/onwindows\n",
	"onwindows/LICENSE-MIT":           "of Windows",
	"onwindows/onwindows.go":          "package onwindows\n",
}

// write writes files below a directory.
func write(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o444); err != nil { // as in the module cache
			t.Fatal(err)
		}
	}
	return dir
}

// collected returns the texts in a directory, but for those of Go, and whether Go has its own.
func collected(t *testing.T, dir string) (texts map[string]string, ofGo bool) {
	t.Helper()
	texts = map[string]string{}
	err := fs.WalkDir(os.DirFS(dir), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		if below, std := strings.CutPrefix(name, "std@go"); std {
			ofGo = ofGo || strings.HasSuffix(below, "/LICENSE")
			return nil
		}
		text, err := os.ReadFile(filepath.Join(dir, name))
		texts[name] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return texts, ofGo
}

// TestRun: of what is linked, and of nothing else, all texts are there; a second run adds to them.
func TestRun(t *testing.T) {
	t.Setenv("GOWORK", "off")
	t.Setenv("GOFLAGS", "-mod=mod")
	dir := write(t, site)
	out := filepath.Join(dir, "out")
	want := map[string]string{
		"LICENSE":                                            "ours",
		"example.com/forked@v1.2.3/LICENSE.txt":              "theirs",
		"example.com/forked@v1.2.3/NOTICE":                   "who they are",
		"example.com/forked@v1.2.3/PATENTS":                  "what they grant",
		"example.com/forked@v1.2.3/third_party/a/License.md": "of a",
	}
	for _, platform := range []string{"linux/amd64", "windows/amd64"} {
		if err := run(t.Context(), []string{"-C", filepath.Join(dir, "app"), "-platform", platform, "-out", out, "./cmd/app"}); err != nil {
			t.Fatalf("%s: %v", platform, err)
		}
		if platform == "windows/amd64" {
			want["example.com/onwindows@v0.1.0/LICENSE-MIT"] = "of Windows"
		}
		got, ofGo := collected(t, out)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: the texts (-want +got):\n%s", platform, diff)
		}
		if !ofGo {
			t.Errorf("%s: the license of Go is missing", platform)
		}
	}
}

func TestRunRefuses(t *testing.T) {
	t.Setenv("GOWORK", "off")
	t.Setenv("GOFLAGS", "-mod=mod")
	for _, tt := range []struct {
		name    string
		without []string
		with    map[string]string
		args    []string
		want    []string
	}{
		{name: "no text in two modules", without: []string{"forked/LICENSE.txt", "onwindows/LICENSE-MIT"},
			want: []string{"example.com/forked@v1.2.3 has no file with a license for package example.com/forked,", "example.com/onwindows@v0.1.0 has no file with a license for package example.com/onwindows,"}},
		{name: "an empty text", with: map[string]string{"onwindows/LICENSE-MIT": ""}, want: []string{"example.com/onwindows@v0.1.0 has no file with a license"}},
		{name: "a notice without terms", without: []string{"onwindows/LICENSE-MIT"}, with: map[string]string{"onwindows/COPYRIGHT": "who", "onwindows/NOTICE": "of what"}, want: []string{"example.com/onwindows@v0.1.0 has no file with a license"}},
		{name: "a program that has the name", without: []string{"onwindows/LICENSE-MIT"}, with: map[string]string{"onwindows/license.sh": "exit"}, want: []string{"example.com/onwindows@v0.1.0 has no file with a license"}},
		{name: "none of our own", without: []string{"app/LICENSE"}, want: []string{"the module that is built has no file with a license for package example.com/app/cmd/app,"}},
		{name: "a package that is not there", args: []string{"./cmd/none"}, want: []string{"go list: "}},
		{name: "no package", args: []string{}, want: []string{"name the packages"}},
		{name: "no platform", args: []string{"-platform", "windows", "./cmd/app"}, want: []string{"want GOOS/GOARCH"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			files := maps.Clone(site)
			maps.Copy(files, tt.with)
			for _, name := range tt.without {
				delete(files, name)
			}
			dir := write(t, files)
			args := tt.args
			if args == nil {
				args = []string{"./cmd/app"}
			}
			out := filepath.Join(dir, "out")
			err := run(t.Context(), slices.Concat([]string{"-C", filepath.Join(dir, "app"), "-platform", "windows/amd64", "-out", out}, args))
			for _, want := range tt.want {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("got %v, want %q", err, want)
				}
			}
			if _, err := os.Stat(out); err == nil {
				t.Error("it wrote something")
			}
		})
	}
}
