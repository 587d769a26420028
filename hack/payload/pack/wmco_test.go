// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// archived is an archive with one file.
func archived(t *testing.T, name, content string) string {
	t.Helper()
	var out bytes.Buffer
	compressed := gzip.NewWriter(&out)
	archive := tar.NewWriter(compressed)
	if err := archive.WriteHeader(&tar.Header{Name: name, Mode: 0o755, Size: int64(len(content))}); err != nil {
		t.Fatal(err)
	}
	if _, err := archive.Write([]byte(content)); err != nil {
		t.Fatal(err)
	}
	if err := archive.Close(); err != nil {
		t.Fatal(err)
	}
	if err := compressed.Close(); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// sum is a line of the file with the digests, which are those of the programs in the archives.
func sum(content, path string) string {
	return fmt.Sprintf("%x  %s\n", sha256.Sum256([]byte(content)), path)
}

// TestTakeFromWMCO: hack/take-from-wmco.sh takes the programs that are intact, and writes none if one is not.
func TestTakeFromWMCO(t *testing.T) {
	script, err := filepath.Abs(filepath.Join("..", "..", "take-from-wmco.sh"))
	if err != nil {
		t.Fatal(err)
	}
	overlay, proxy := archived(t, "hybrid-overlay-node.exe", "overlay"), archived(t, "./build/csi-proxy.exe", "proxy")
	all := map[string]string{
		"hybrid-overlay-node.exe.tar.gz": overlay, "csi-proxy/csi-proxy.exe.tar.gz": proxy, "azure-cloud-node-manager.exe": "manager", "kubelet.exe.tar.gz": "another",
		"sha256sum": sum("overlay", "/build/hybrid-overlay-node.exe") + sum("proxy", "/build/csi-proxy.exe") + sum("manager", "azure-cloud-node-manager.exe") + sum("x", "kubelet.exe"),
	}
	for _, tt := range []struct {
		name   string
		change map[string]string // files that others are in place of; empty: none
		want   map[string]string
		says   string
	}{
		{name: "all", want: map[string]string{"hybrid-overlay-node.exe": "overlay", "csi-proxy.exe": "proxy", "azure-cloud-node-manager.exe": "manager"}},
		{
			name: "one is not in it", change: map[string]string{"azure-cloud-node-manager.exe": ""},
			want: map[string]string{"hybrid-overlay-node.exe": "overlay", "csi-proxy.exe": "proxy"}, says: "azure-cloud-node-manager.exe is not in",
		},
		{name: "one is damaged", change: map[string]string{"csi-proxy/csi-proxy.exe.tar.gz": archived(t, "csi-proxy.exe", "damaged")}, says: "nothing was written"},
		{name: "an archive of something else", change: map[string]string{"csi-proxy/csi-proxy.exe.tar.gz": archived(t, "my-csi-proxy.exe", "proxy")}, says: "there is no csi-proxy.exe in"},
		{name: "one has no digest", change: map[string]string{"sha256sum": sum("overlay", "hybrid-overlay-node.exe")}, says: "there is no digest of csi-proxy.exe"},
		{name: "one has two digests", change: map[string]string{"sha256sum": all["sha256sum"] + sum("x", "/other/csi-proxy.exe")}, says: "there are several of digest of csi-proxy.exe"},
		{name: "it is there twice", change: map[string]string{"other/csi-proxy.exe.tar.gz": proxy}, says: "there are several of csi-proxy.exe"},
		{name: "another directory", change: map[string]string{"sha256sum": ""}, says: "is that /payload of an image of WMCO?"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			files := map[string]string{}
			for name, content := range all {
				files[filepath.Join("payload", name)] = content
			}
			for name, content := range tt.change {
				if files[filepath.Join("payload", name)] = content; content == "" {
					delete(files, filepath.Join("payload", name))
				}
			}
			writeFiles(t, dir, files)
			out := filepath.Join(dir, "out")
			var stdout, stderr bytes.Buffer
			cmd := exec.CommandContext(t.Context(), script, filepath.Join(dir, "payload"), out)
			cmd.Stdout, cmd.Stderr = &stdout, &stderr
			if err := cmd.Run(); (err == nil) != (tt.want != nil) {
				t.Fatalf("%v\n%s", err, &stderr)
			}
			if !strings.Contains(stderr.String(), tt.says) {
				t.Errorf("it says %s, want something about %q", &stderr, tt.says)
			}
			if tt.want == nil {
				if left, err := filepath.Glob(filepath.Join(out, "*")); len(left) > 0 || err != nil {
					t.Errorf("it has written %q, %v", left, err)
				}
				return
			}
			if diff := cmp.Diff(tt.want, snapshot(t, out)); diff != "" {
				t.Errorf("what it has written (-want +got):\n%s", diff)
			}
			for name := range tt.want {
				if want := fmt.Sprintf("--add %s=%s\n", name, filepath.Join(out, name)); !strings.Contains(stdout.String(), want) {
					t.Errorf("it prints %s, want %q", &stdout, want)
				}
			}
		})
	}
}
