// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package kubelet

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestSplitWords(t *testing.T) {
	for _, tt := range []struct {
		name, line string
		want       []string
	}{
		{"nothing", "  ", nil},
		{"plain", `C:\k\a.exe  --b=c`, []string{`C:\k\a.exe`, "--b=c"}},
		{"quoted", `"C:\a b\c.exe" --d="e f"`, []string{`C:\a b\c.exe`, "--d=e f"}},
		{"empty", `a ""`, []string{"a", ""}},
		{"backslashes", `a "b\\" c\\d\`, []string{"a", `b\`, `c\\d\`}},
		{"a quote", `a "b\"c" \\\"d`, []string{"a", `b"c`, `\"d`}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := splitWords(tt.line); !slices.Equal(got, tt.want) {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestParseCommandLine(t *testing.T) {
	const required = ` --config=c --kubeconfig=k --cert-dir=d`
	for _, tt := range []struct {
		name, line string
		// want is in the error; empty: there is none.
		want string
	}{
		{"the kubelet itself", `C:\k\kubelet.exe` + required, ""},
		{"behind kube-log-runner", `C:\k\kube-log-runner.exe -log-file=C:\l -log-file-size=5M C:\k\kubelet.exe` + required + " --v=4 --windows-service", ""},
		{"a flag that does not exist", `kubelet.exe` + required + " --frobnicate", "unknown flag: --frobnicate"},
		{"a flag that is missing", `kubelet.exe --config=c --cert-dir=d`, "there is no flag --kubeconfig"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c, err := parseCommandLine(tt.line)
			if tt.want != "" {
				if err == nil || !strings.Contains(err.Error(), tt.want) {
					t.Errorf("got %v, want an error with %q", err, tt.want)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if c.program != `C:\k\kubelet.exe` || c.config != "c" || c.kubeconfig != "k" || c.certDir != "d" {
				t.Errorf("got %+v", c)
			}
		})
	}
}

func TestDrive(t *testing.T) {
	root := t.TempDir()
	if err := os.MkdirAll(filepath.Join(root, "Var", "lib"), 0o700); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		`c:\var\LIB\kubelet\pki\`: "Var/lib/kubelet/pki", `C:\k`: "k", `C:\`: ".",
	} {
		if got := drive(root).local(path); got != filepath.Join(root, want) {
			t.Errorf("%s is %s, want %s", path, got, want)
		}
	}
}
