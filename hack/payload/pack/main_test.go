// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package main

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/openshift/windows-instance-api/pkg/desired/payload"
)

// site has a list of what is in a payload, a directory with that, and a file that a site adds.
func site(t *testing.T) (args []string, dir string) {
	t.Helper()
	dir = t.TempDir()
	for name, content := range map[string]string{
		"list.json": `{"name": "x", "os": "windows", "architecture": "amd64",
			"files": [{"name": "kubelet.exe", "path": "C:\\k\\kubelet.exe", "role": "Kubelet"},
				{"name": "windows-node-agent.exe", "path": "C:\\a\\windows-node-agent.exe", "role": "Agent"}],
			"slots": [{"name": "csi-proxy.exe", "path": "C:\\k\\csi-proxy.exe", "role": "CSIProxy"}]}`,
		"kubelet.exe": "a program of ours",
		"own":         "a program of the site",
		"agent.json":  `{"windows-node-agent.exe": {"url": "https://example.com/agent.exe", "size": 1, "sha256": "` + strings.Repeat("0", 64) + `"}}`,

		"windows-node-agent.exe": "the agent",
		"overrides.json":         `{"kubelet.exe": {"url": "https://example.com/kubelet.exe", "size": 1, "sha256": "` + strings.Repeat("0", 64) + `"}}`,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return []string{"-list", filepath.Join(dir, "list.json"), "-bin", dir, "-version", "v9", "-out", filepath.Join(dir, "out")}, dir
}

func TestRun(t *testing.T) {
	for _, tt := range []struct {
		name  string
		image bool
	}{{"directory", false}, {"image", true}} {
		t.Run(tt.name, func(t *testing.T) {
			args, dir := site(t)
			text := filepath.Join(dir, "texts", "example.com", "a@v1", "LICENSE")
			if err := errors.Join(os.MkdirAll(filepath.Dir(text), 0o755), os.WriteFile(text, []byte("the terms of a"), 0o444)); err != nil {
				t.Fatal(err)
			}
			args = append(args, "-licenses", filepath.Join(dir, "texts"), "-add", "csi-proxy.exe="+filepath.Join(dir, "own"), "-overrides", filepath.Join(dir, "overrides.json"))
			if tt.image {
				args = append(args, "-image")
			}
			var out bytes.Buffer
			if err := run(t.Context(), args, &out); err != nil {
				t.Fatal(err)
			}
			p, err := payload.Open(t.Context(), filepath.Join(dir, "out"), payload.Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer p.Close()
			kubelet, own := p.Manifest.File("kubelet.exe"), p.Manifest.File("csi-proxy.exe")
			if kubelet.Override == nil || kubelet.Override.URL != "https://example.com/kubelet.exe" {
				t.Errorf("override %+v", kubelet.Override)
			}
			if own.Path != `C:\k\csi-proxy.exe` || len(p.Manifest.Slots) != 0 {
				t.Errorf("the site's file is %+v, slots %+v", own, p.Manifest.Slots)
			}
			kept := false // in whichever form
			for name, content := range snapshot(t, filepath.Join(dir, "out")) {
				kept = kept || content == "the terms of a" && name == "licenses/example.com/a@v1/LICENSE" ||
					tt.image && strings.Contains(content, "the terms of a") && strings.Contains(content, "payload/licenses/example.com/a@v1/LICENSE")
			}
			if !kept {
				t.Error("the license text is not there")
			}
			if !strings.Contains(out.String(), "kubelet.exe") {
				t.Errorf("the report does not name what is there:\n%s", &out)
			}
			if left, _ := filepath.Glob(filepath.Join(dir, ".*")); len(left) > 0 {
				t.Errorf("left behind: %v", left)
			}
		})
	}
}

func TestOrigin(t *testing.T) {
	program, err := os.Executable() // a Go program, as most of a payload are
	if err != nil {
		t.Fatal(err)
	}
	version, source := origin(program, "v9")
	// Of a test, the path may end in .test.
	if version != "v9" || !strings.HasPrefix(source, "github.com/openshift/windows-instance-api/hack/payload/pack") || !strings.HasSuffix(source, "@v9") {
		t.Errorf("got %s of %s", version, source)
	}
	_, dir := site(t)
	if version, source := origin(filepath.Join(dir, "own"), "v9"); version != "" || source != "" {
		t.Errorf("what is no Go program is %s of %s", version, source)
	}
}

func TestRunRefuses(t *testing.T) {
	for _, tt := range []struct {
		name string
		args []string // DIR stands for the directory of the test
		want string
	}{
		{"unknown flag", []string{"-x"}, "-x"},
		{"no file", []string{"-add", "csi-proxy.exe"}, "want name=file"},
		{"no place", []string{"-add", "x.exe=DIR/own"}, "no place for a file of this name"},
		{"no such file", []string{"-add", "csi-proxy.exe=DIR/none"}, "DIR/none"},
		{"override of an empty slot", []string{"-overrides", "DIR/list.json"}, "list.json"},
		{"another agent", []string{"-add", "windows-node-agent.exe=DIR/own"}, "--agent-dir: put yours there"},
		{"override of the agent", []string{"-overrides", "DIR/agent.json"}, "--agent-dir: put yours there"},
		{"no list", []string{"-list", "DIR/none"}, "DIR/none"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			args, dir := site(t)
			for _, a := range tt.args {
				args = append(args, strings.ReplaceAll(a, "DIR", dir))
			}
			err := run(t.Context(), args, &bytes.Buffer{})
			if want := strings.ReplaceAll(tt.want, "DIR", dir); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("got %v, want %q", err, want)
			}
		})
	}
}
