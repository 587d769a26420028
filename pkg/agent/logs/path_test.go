// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package logs

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
	"github.com/openshift/windows-instance-api/pkg/agent/api/config"
)

func TestCleanPath(t *testing.T) {
	tests := []struct {
		name string
		path string
		want string
		code int
	}{
		{name: "slash", path: "kubelet/kubelet.log", want: "kubelet/kubelet.log"},
		{name: "backslash", path: `kubelet\kubelet.log`, want: "kubelet/kubelet.log"},
		{name: "dot", path: "./setup.log", want: "setup.log"},
		{name: "doubled separators", path: `a\\b//./c.log`, want: "a/b/c.log"},
		{name: "spaces within", path: `a b\c d.log`, want: "a b/c d.log"},
		{name: "dots within", path: "a..b/...c", want: "a..b/...c"},
		{name: "device name as a part of a name", path: "console/null.log", want: "console/null.log"},
		{name: "device without number", path: "com/lpt.log", want: "com/lpt.log"},
		{name: "not ASCII", path: "протокол/日志.log", want: "протокол/日志.log"},
		{name: "parent", path: `..\Windows\win.ini`, code: 403},
		{name: "parent within", path: "kubelet/../../x", code: 403},
		{name: "parent at the end", path: "kubelet/..", code: 403},
		{name: "parent with space", path: "kubelet/.. /x", code: 400},
		{name: "absolute", path: "/etc/passwd", code: 403},
		{name: "absolute on the drive", path: `\Windows\win.ini`, code: 403},
		{name: "drive", path: `C:\Windows\win.ini`, code: 403},
		{name: "drive relative", path: `C:..\x`, code: 403},
		{name: "UNC", path: `\\server\share\x`, code: 403},
		{name: "UNC with slashes", path: "//server/share/x", code: 403},
		{name: "device path", path: `\\.\PhysicalDrive0`, code: 403},
		{name: "verbatim path", path: `\\?\C:\x`, code: 403},
		{name: "object path", path: `\??\C:\x`, code: 403},
		{name: "stream", path: "a/x.log:secret", code: 403},
		{name: "default stream", path: "a/x.log::$DATA", code: 403},
		{name: "device", path: "a/NUL", code: 403},
		{name: "device in lower case", path: "a/con", code: 403},
		{name: "device with extension", path: "a/aux.log", code: 403},
		{name: "device as a directory", path: "com1/x.log", code: 403},
		{name: "device with space and extension", path: "a/LPT9 .txt", code: 403},
		{name: "device with superscript", path: "a/COM².log", code: 403},
		{name: "console device", path: "a/CONIN$", code: 403},
		{name: "trailing dot", path: "a/x.log.", code: 400},
		{name: "trailing space", path: "a/x.log ", code: 400},
		{name: "directory with trailing dot", path: "a./x.log", code: 400},
		{name: "NUL byte", path: "a/x\x00.log", code: 400},
		{name: "newline", path: "a/x\n.log", code: 400},
		{name: "wildcard", path: "a/*.log", code: 400},
		{name: "pipe", path: "a/x|y", code: 400},
		{name: "invalid UTF-8", path: "a/\xff", code: 400},
		{name: "nothing", path: "./", code: 400},
		{name: "too long", path: "a/" + strings.Repeat("x", maxPathBytes), code: 400},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := cleanPath(tt.path)
			code := 0
			if err != nil {
				code = err.Code
			}
			if got != tt.want || code != tt.code {
				t.Errorf("cleanPath(%q) = %q, %v, want %q and code %d", tt.path, got, err, tt.want, tt.code)
			}
		})
	}
}

// TestLinks proves that no link leads out of the log directory, and that those
// which stay within are followed.
func TestLinks(t *testing.T) {
	h := newTestHost(t)
	outside := t.TempDir()
	if err := os.WriteFile(filepath.Join(outside, "secret"), []byte("secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	h.write(t, "pods/p/0.log", "inside\n")
	link := func(target, name string) {
		t.Helper()
		path := filepath.Join(h.root, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(target, path); err != nil {
			t.Fatal(err)
		}
	}
	link(filepath.Join(h.root, "pods", "p", "0.log"), "containers/absolute.log")
	link("../pods/p/0.log", "containers/relative.log")
	link("absolute.log", "containers/twice.log")
	link(filepath.Join(h.root, "pods"), "dir")
	link(filepath.Join(outside, "secret"), "evil/absolute")
	link("../../"+filepath.Base(outside)+"/secret", "evil/relative")
	link(outside, "evil/dir")
	link("loop", "evil/loop")
	link(h.root+"-other/x", "evil/prefix")
	link("missing", "evil/dangling")

	tests := []struct {
		name string
		path string
		want string
		code int
	}{
		{name: "absolute within", path: "containers/absolute.log", want: "inside\n"},
		{name: "relative within", path: "containers/relative.log", want: "inside\n"},
		{name: "link to a link", path: "containers/twice.log", want: "inside\n"},
		{name: "absolute directory within", path: "dir/p/0.log", want: "inside\n"},
		{name: "absolute out", path: "evil/absolute", code: 403},
		{name: "relative out", path: "evil/relative", code: 403},
		{name: "directory out", path: "evil/dir/secret", code: 403},
		{name: "root's name as a prefix", path: "evil/prefix", code: 403},
		{name: "loop", path: "evil/loop", code: 403},
		{name: "dangling", path: "evil/dangling", code: 404},
		{name: "directory", path: "pods/p", code: 400},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			header, body := h.ask(t, api.LogRequest{Queries: []string{tt.path}})
			code := 0
			if header.Error != nil {
				code = header.Error.Code
			}
			if code != tt.code || body != tt.want {
				t.Errorf("got %+v and %q, want code %d and %q", header.Error, body, tt.code, tt.want)
			}
		})
	}
}

// FuzzPath proves that whatever path is accepted stays below the root and means the
// same on Windows.
func FuzzPath(f *testing.F) {
	for _, s := range []string{`a\b.log`, "../x", `\\?\C:\x`, "a/NUL.txt", "a/x:y", "a/x. ", "./x", "a\x00b/c", "C:/x", "a/COM¹", "..0/x"} {
		f.Add(s)
	}
	root := f.TempDir()
	f.Fuzz(func(t *testing.T, path string) {
		clean, err := cleanPath(path)
		if err != nil {
			if err.Code != 400 && err.Code != 403 {
				t.Errorf("%q: code %d", path, err.Code)
			}
			return
		}
		if !fs.ValidPath(clean) || clean == "." || !filepath.IsLocal(clean) {
			t.Errorf("%q became %q, which is not local", path, clean)
		}
		if strings.ContainsAny(clean, "\\:*?\"<>|\x00") || !utf8.ValidString(clean) {
			t.Errorf("%q became %q", path, clean)
		}
		for name := range strings.SplitSeq(clean, "/") {
			if config.IsDeviceName(name) || strings.TrimRight(name, ". ") != name {
				t.Errorf("%q became %q", path, clean)
			}
		}
		if rel, err := filepath.Rel(root, filepath.Join(root, clean)); err != nil || rel == ".." || strings.HasPrefix(rel, "../") {
			t.Errorf("%q leads to %q: %v", path, rel, err)
		}
		if again, err := cleanPath(clean); err != nil || again != clean {
			t.Errorf("%q is not stable: %q, %v", clean, again, err)
		}
	})
}
