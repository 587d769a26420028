// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package agenthost

import (
	"bytes"
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/openshift/windows-instance-api/pkg/agent"
	"github.com/openshift/windows-instance-api/pkg/agent/api"
	"github.com/openshift/windows-instance-api/pkg/agent/api/config"
)

// tree lists the files below a directory with their contents.
func tree(t *testing.T, root string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := fs.WalkDir(os.DirFS(root), ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			out[path] = ""
			return err
		}
		content, err := os.ReadFile(filepath.Join(root, path))
		out[path] = string(content)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// runAgent runs a sub-command of the agent on a host and returns its result.
func runAgent(t *testing.T, host *Host, command string, stdin []byte) (api.Result, string) {
	t.Helper()
	var out, stderr bytes.Buffer
	code := agent.Main(t.Context(), host, []string{command}, bytes.NewReader(stdin), &out, &stderr)
	var last api.Progress
	for line := range bytes.Lines(out.Bytes()) {
		last = api.Progress{}
		if err := json.Unmarshal(line, &last); err != nil {
			t.Fatalf("%s: %v in %s", command, err, line)
		}
	}
	if last.Result == nil {
		t.Fatalf("%s: code %d, no result: %s", command, code, stderr.String())
	}
	if (code == api.ExitOK) != (last.Result.Outcome != api.OutcomeFailed) {
		t.Errorf("%s: code %d and %+v", command, code, last.Result)
	}
	return *last.Result, out.String()
}

// readLog reads a log of a host by its name.
func readLog(t *testing.T, host *Host, name string) string {
	t.Helper()
	request, err := json.Marshal(api.LogRequest{Queries: []string{name}})
	if err != nil {
		t.Fatal(err)
	}
	var out, stderr bytes.Buffer
	if code := agent.Main(t.Context(), host, []string{api.CommandLogs}, bytes.NewReader(append(request, '\n')), &out, &stderr); code != api.ExitOK {
		t.Fatalf("logs: code %d: %s", code, stderr.String())
	}
	header, text, _ := strings.Cut(out.String(), "\n")
	if strings.Contains(header, `"error"`) {
		t.Errorf("the log %s was refused: %s", name, header)
	}
	return text
}

// TestConfigure configures a host through the agent's command line and removes everything.
func TestConfigure(t *testing.T) {
	root := t.TempDir()
	drive := filepath.Join(root, "c")
	host := NewHost(Options{Drive: drive, LogRoot: filepath.Join(drive, "var", "log")})
	// The agent is there, and somebody else's file, in a directory in another case.
	for _, d := range []string{"Windows/windows-node-agent", "K"} {
		if err := os.MkdirAll(filepath.Join(drive, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(drive, "K", "kubelet.conf"), []byte("theirs"), 0o644); err != nil {
		t.Fatal(err)
	}
	before := tree(t, drive)

	// A program that belongs in two places has been sent once.
	const sent = "a program"
	payload := filepath.Join(drive, "Windows", "windows-node-agent", "payload")
	if err := os.Mkdir(payload, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(payload, strings.TrimPrefix(config.Digest([]byte(sent)), "sha256:")), []byte(sent), 0o600); err != nil {
		t.Fatal(err)
	}
	program := func(path string) config.File {
		return config.File{
			Path: path, Role: config.RoleProgram, Source: config.Source{Payload: "program.exe"}, Digest: config.Digest([]byte(sent)),
			OnChange: config.OnChange{Impact: config.ImpactNone},
		}
	}

	text, secret := "ours", "a secret"
	bundle := config.Bundle{
		Document: config.Document{
			Version:     config.SchemaVersion,
			Directories: []config.Directory{{Path: `C:\var\log\kubelet`}, {Path: `C:\k\cni`, Access: config.AccessAdministratorsWrite}},
			Files: []config.File{
				program(`C:\k\cni\program.exe`), program(`C:\k\program.exe`),
				{Path: `C:\k\kubelet.conf`, Role: config.RoleConfiguration, Source: config.Source{Text: &text}, Digest: config.Digest([]byte(text)), OnChange: config.OnChange{Impact: config.ImpactNone}},
				{
					Path: `C:\k\token`, Role: config.RoleCredential, Source: config.Source{Secret: "token"}, Digest: "hmac-sha256:" + strings.Repeat("0", 64),
					Access: config.AccessAdministrators, OnChange: config.OnChange{Impact: config.ImpactNone},
				},
			},
		},
		Secrets: config.Secrets{"token": []byte(secret)},
	}
	request, err := (&api.ApplyRequest{Bundle: bundle}).Encode()
	if err != nil {
		t.Fatal(err)
	}
	r, progress := runAgent(t, host, "apply", request)
	if r.Outcome != api.OutcomeApplied {
		t.Fatalf("got %+v", r)
	}
	transcript, err := os.ReadFile(filepath.Join(drive, "var", "log", "windows-node-agent", "apply.log"))
	if err != nil || string(transcript) != progress {
		t.Errorf("the transcript is %q, %v, want what was printed", transcript, err)
	}
	for _, name := range []string{"operation", "agent", "windows-node-agent"} {
		if got := readLog(t, host, name); got != progress {
			t.Errorf("the log %s is %q, want what was printed", name, got)
		}
	}
	if strings.Contains(progress, secret) {
		t.Error("the secret is in what was printed")
	}
	if info, err := os.Stat(filepath.Join(drive, "K", "token")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the secret file: %v, %v", info, err)
	}
	for _, path := range []string{"K/program.exe", "K/cni/program.exe"} {
		if content, err := os.ReadFile(filepath.Join(drive, path)); err != nil || string(content) != sent {
			t.Errorf("%s is %q, %v", path, content, err)
		}
	}
	if left, err := os.ReadDir(payload); err != nil || len(left) > 0 {
		t.Errorf("what was sent is left: %v, %v", left, err)
	}
	after := tree(t, root)
	if r, _ := runAgent(t, host, "apply", request); r.Outcome != api.OutcomeUnchanged {
		t.Errorf("again: %+v", r)
	}
	again := tree(t, root)
	for _, m := range []map[string]string{after, again} {
		delete(m, "c/var/log/windows-node-agent/apply.log")
		delete(m, "c.lock")
	}
	if diff := cmp.Diff(after, again); diff != "" {
		t.Errorf("the second time changed something (-before +after):\n%s", diff)
	}
	if r, _ := runAgent(t, host, "cleanup", nil); r.Outcome != api.OutcomeRemoved {
		t.Errorf("cleanup: %+v", r)
	}
	if diff := cmp.Diff(before, tree(t, drive)); diff != "" {
		t.Errorf("after cleanup (-before +after):\n%s", diff)
	}
}

// TestTranscriptRotates: the transcript does not fill the disk.
func TestTranscriptRotates(t *testing.T) {
	root := t.TempDir()
	host := NewHost(Options{Drive: filepath.Join(root, "c"), LogRoot: root})
	directory := filepath.Join(root, "windows-node-agent")
	if err := os.Mkdir(directory, 0o755); err != nil {
		t.Fatal(err)
	}
	bundle := config.Bundle{Document: config.Document{Version: config.SchemaVersion}}
	request, err := (&api.ApplyRequest{Bundle: bundle}).Encode()
	if err != nil {
		t.Fatal(err)
	}
	for range 7 {
		if err := os.WriteFile(filepath.Join(directory, "apply.log"), make([]byte, 1<<20), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.MkdirAll(filepath.Join(root, "c", "Windows"), 0o755); err != nil {
			t.Fatal(err)
		}
		runAgent(t, host, "apply", request)
	}
	entries, err := os.ReadDir(directory)
	if err != nil || len(entries) != 5 {
		t.Errorf("there are %v, %v", entries, err)
	}
	if info, err := os.Stat(filepath.Join(directory, "apply.log")); err != nil || info.Size() >= 1<<20 {
		t.Errorf("the newest: %v, %v", info, err)
	}
}
