// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

//go:build unix

package agent_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/openshift/windows-instance-api/pkg/agent"
	"github.com/openshift/windows-instance-api/pkg/agent/api"
	"github.com/openshift/windows-instance-api/pkg/agent/engine"
	"github.com/openshift/windows-instance-api/test/agenthost"
)

// receiver is a host whose drive C is a directory.
type receiver struct {
	*agenthost.Host
	payload string // engine.PayloadDirectory on this machine
	system  func(agent.System) agent.System
}

func newReceiver(t *testing.T) *receiver {
	t.Helper()
	drive := t.TempDir()
	r := &receiver{
		Host: agenthost.NewHost(agenthost.Options{Drive: drive}), payload: filepath.Join(drive, "Windows", "windows-node-agent", "payload"),
		system: func(s agent.System) agent.System { return s },
	}
	if err := os.MkdirAll(r.payload, 0o755); err != nil {
		t.Fatal(err)
	}
	return r
}

func (r *receiver) System() agent.System { return r.system(r.Host.System()) }

func (r *receiver) write(t *testing.T, name string, content []byte) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(r.payload, name), content, 0o600); err != nil {
		t.Fatal(err)
	}
}

// content is what has each name in the directory of the payload.
func (r *receiver) content(t *testing.T) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(r.payload)
	if err != nil {
		t.Fatal(err)
	}
	content := map[string]string{}
	for _, e := range entries {
		b, err := os.ReadFile(filepath.Join(r.payload, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		content[e.Name()] = string(b)
	}
	return content
}

// run runs a command of the agent.
func (r *receiver) run(t *testing.T, command string, request, answer any) (stderr string) {
	t.Helper()
	in, err := json.Marshal(request)
	if err != nil {
		t.Fatal(err)
	}
	var out, failure bytes.Buffer
	code := agent.Main(context.Background(), r, []string{command}, bytes.NewReader(in), &out, &failure)
	if (code == api.ExitOK) != (failure.Len() == 0) {
		t.Errorf("exit code %d with %q", code, failure.String())
	}
	if code == api.ExitOK {
		if err := json.Unmarshal(out.Bytes(), answer); err != nil {
			t.Errorf("%s: %v", out.String(), err)
		}
	}
	return failure.String()
}

func sum(content []byte) string {
	s := sha256.Sum256(content)
	return hex.EncodeToString(s[:])
}

func zip(t *testing.T, content []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := w.Write(content); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestFiles(t *testing.T) {
	r := newReceiver(t)
	r.write(t, "kubelet", []byte("content"))
	if err := os.Mkdir(filepath.Join(r.payload, "directory"), 0o755); err != nil {
		t.Fatal(err)
	}
	var answer api.FilesAnswer
	at := func(name string, size int64) api.WantedFile {
		return api.WantedFile{Path: api.PayloadDirectory + `\` + name, Size: size}
	}
	request := api.FilesRequest{Files: []api.WantedFile{at("kubelet", 7), at("missing", 7), at("kubelet", 8), at("directory", 7), at("KUBELET", 7)}}
	if stderr := r.run(t, api.CommandFiles, request, &answer); stderr != "" {
		t.Fatal(stderr)
	}
	there := api.FileState{Exists: true, Size: 7, SHA256: sum([]byte("content")), Volume: "C:"}
	want := []api.FileState{there, {Volume: "C:"}, {Exists: true, Size: 7, Volume: "C:"}, {Exists: true, Volume: "C:"}, there}
	if diff := cmp.Diff(want, answer.Files, cmpopts.IgnoreFields(api.FileState{}, "FreeBytes")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for _, f := range answer.Files {
		if f.FreeBytes <= 0 {
			t.Errorf("%d bytes are free", f.FreeBytes)
		}
	}
}

// TestReceivedPaths: nothing outside of the directory of the agent is read or written.
func TestReceivedPaths(t *testing.T) {
	r := newReceiver(t)
	good := api.PayloadDirectory + `\x1`
	for _, path := range []string{
		``, `C:\`, `C:\k\kubelet.exe`, api.Root, api.Root + `\`, api.Root + `-2\xx`, `windows-node-agent\xx`,
		api.Root + `\..\System32\xx.dll`, api.Root + `\payload\..\..\xx`, api.Root + `\.\xx`, api.Root + `\\xx`, api.Root + `/xx`,
		api.PayloadDirectory + `\x1:stream`, api.PayloadDirectory + `\x1::$DATA`, api.PayloadDirectory + `\x1.`, api.PayloadDirectory + `\x1 `,
		api.PayloadDirectory + `\nul`, api.PayloadDirectory + `\COM1.part`, api.PayloadDirectory + `\x*`, api.PayloadDirectory + "\\x\x00y",
		`\\?\` + api.PayloadDirectory + `\x1`, `D:\Windows\windows-node-agent\xx`,
	} {
		if stderr := r.run(t, api.CommandFiles, api.FilesRequest{Files: []api.WantedFile{{Path: path}}}, nil); !strings.Contains(stderr, "path ") {
			t.Errorf("files of %q: got %q", path, stderr)
		}
		for _, c := range []api.CommitRequest{{Temporary: path, Path: good}, {Temporary: good, Path: path}} {
			var answer api.CommitAnswer
			r.run(t, api.CommandCommit, c, &answer)
			if answer.Error == nil || answer.Error.Reason != api.CommitFailed || !strings.HasPrefix(answer.Error.Message, "path ") {
				t.Errorf("commit of %+v: got %+v", c, answer.Error)
			}
		}
	}
	var answer api.FilesAnswer
	for _, path := range []string{good, strings.ToUpper(good), strings.ToLower(good), api.Root + `\windows-node-agent-0123456789abcdef.exe`} {
		if stderr := r.run(t, api.CommandFiles, api.FilesRequest{Files: []api.WantedFile{{Path: path}}}, &answer); stderr != "" {
			t.Errorf("files of %q: got %q", path, stderr)
		}
	}
}

func TestCommit(t *testing.T) {
	content := bytes.Repeat([]byte("kubelet "), 10_000)
	packed := zip(t, content)
	corrupt := bytes.Clone(packed)
	corrupt[len(corrupt)/2] ^= 0xff
	for _, tt := range []struct {
		name   string
		sent   []byte
		gzip   bool
		change func(*api.CommitRequest)
		want   api.CommitReason // empty: the file has its name
	}{
		{name: "plain", sent: content},
		{name: "compressed", sent: packed, gzip: true},
		{name: "empty", change: func(c *api.CommitRequest) { c.Size, c.SHA256 = 0, sum(nil) }},
		{name: "empty, compressed", sent: zip(t, nil), gzip: true, change: func(c *api.CommitRequest) { c.Size, c.SHA256 = 0, sum(nil) }},
		{name: "other content of the same size", sent: bytes.ToUpper(content), want: api.CommitDigestMismatch},
		{name: "too short", sent: content[1:], want: api.CommitDigestMismatch},
		{name: "too long", sent: append(bytes.Clone(content), 'x'), want: api.CommitDigestMismatch},
		{name: "other content, compressed", sent: zip(t, bytes.ToUpper(content)), gzip: true, want: api.CommitDigestMismatch},
		{name: "content without an end, compressed", sent: zip(t, make([]byte, 10<<20)), gzip: true, want: api.CommitDigestMismatch},
		{name: "not compressed", sent: content, gzip: true, want: api.CommitDigestMismatch},
		{name: "nothing in place of compressed", gzip: true, want: api.CommitDigestMismatch},
		{name: "compressed, cut", sent: packed[:len(packed)-9], gzip: true, want: api.CommitDigestMismatch},
		{name: "compressed, cut in its end", sent: packed[:len(packed)-4], gzip: true, want: api.CommitDigestMismatch},
		{name: "compressed, damaged", sent: corrupt, gzip: true, want: api.CommitDigestMismatch},
		{name: "not sent", change: func(c *api.CommitRequest) { c.Temporary += "x" }, want: api.CommitFailed},
		{name: "in another directory", change: func(c *api.CommitRequest) { c.Path = api.Root + `\kubelet` }, want: api.CommitFailed},
		{name: "onto itself", change: func(c *api.CommitRequest) { c.Path = c.Temporary }, want: api.CommitFailed},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newReceiver(t)
			r.write(t, "kubelet", []byte("old"))
			r.write(t, "kubelet.part", tt.sent)
			request := api.CommitRequest{
				Temporary: api.PayloadDirectory + `\kubelet.part`, Path: api.PayloadDirectory + `\kubelet`,
				Size: int64(len(content)), SHA256: sum(content), Gzip: tt.gzip,
			}
			if tt.change != nil {
				tt.change(&request)
			}
			var answer api.CommitAnswer
			if stderr := r.run(t, api.CommandCommit, request, &answer); stderr != "" {
				t.Fatal(stderr)
			}
			want := map[string]string{"kubelet": string(content[:request.Size])}
			if tt.want != "" {
				want = map[string]string{"kubelet": "old", "kubelet.part": string(tt.sent)}
			}
			if diff := cmp.Diff(want, r.content(t)); diff != "" {
				t.Errorf("files (-want +got):\n%s", diff)
			}
			var got api.CommitReason
			if answer.Error != nil {
				got = answer.Error.Reason
			}
			if got != tt.want {
				t.Errorf("got %+v, want %q", answer.Error, tt.want)
			}
			if tt.want != "" {
				return
			}
			// The answer may have been lost.
			if stderr := r.run(t, api.CommandCommit, request, &answer); stderr != "" || answer.Error != nil {
				t.Errorf("the second time: %q, %+v", stderr, answer.Error)
			}
		})
	}
}

// full is a host whose disk has no room, which /dev/full is like.
type full struct{ *agenthost.System }

func (s full) Create(path string) (agent.ReceivedFile, error) {
	f, err := s.System.Create(path)
	if err != nil {
		return nil, err
	}
	device, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	return fullFile{f, device}, err
}

type fullFile struct {
	agent.ReceivedFile
	device *os.File
}

func (f fullFile) Write(b []byte) (int, error) {
	if n, err := f.ReceivedFile.Write(b[:len(b)/2]); err != nil {
		return n, err
	}
	n, err := f.device.Write(b[len(b)/2:])
	return len(b)/2 + n, fmt.Errorf("%w: %w", agent.ErrDiskFull, err)
}

func (f fullFile) Discard() error { return errors.Join(f.ReceivedFile.Discard(), f.device.Close()) }

// TestCommitDiskFull: what was unpacked is no use and takes the last of the space.
func TestCommitDiskFull(t *testing.T) {
	r := newReceiver(t)
	r.system = func(s agent.System) agent.System { return full{s.(*agenthost.System)} }
	content := bytes.Repeat([]byte("kubelet "), 10_000)
	sent := string(zip(t, content))
	r.write(t, "kubelet.gz.part", []byte(sent))
	var answer api.CommitAnswer
	r.run(t, api.CommandCommit, api.CommitRequest{
		Temporary: api.PayloadDirectory + `\kubelet.gz.part`, Path: api.PayloadDirectory + `\kubelet`,
		Size: int64(len(content)), SHA256: sum(content), Gzip: true,
	}, &answer)
	if answer.Error == nil || answer.Error.Reason != api.CommitDiskFull || !strings.Contains(answer.Error.Message, "no space left") {
		t.Errorf("got %+v", answer.Error)
	}
	if diff := cmp.Diff(map[string]string{"kubelet.gz.part": sent}, r.content(t)); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
}

// counting is a host that knows how much was unpacked on it.
type counting struct {
	*agenthost.System
	written *int
}

func (s counting) Create(path string) (agent.ReceivedFile, error) {
	f, err := s.System.Create(path)
	return countingFile{f, s.written}, err
}

type countingFile struct {
	agent.ReceivedFile
	written *int
}

func (f countingFile) Write(b []byte) (int, error) {
	n, err := f.ReceivedFile.Write(b)
	*f.written += n
	return n, err
}

// TestCommitBounded: however much unpacks from what was sent, no more is written than was announced.
func TestCommitBounded(t *testing.T) {
	const size = 1000
	r := newReceiver(t)
	written := 0
	r.system = func(s agent.System) agent.System { return counting{s.(*agenthost.System), &written} }
	r.write(t, "kubelet.gz.part", zip(t, make([]byte, 100<<20)))
	var answer api.CommitAnswer
	r.run(t, api.CommandCommit, api.CommitRequest{
		Temporary: api.PayloadDirectory + `\kubelet.gz.part`, Path: api.PayloadDirectory + `\kubelet`,
		Size: size, SHA256: sum(make([]byte, size)), Gzip: true,
	}, &answer)
	if answer.Error == nil || answer.Error.Reason != api.CommitDigestMismatch || written != size {
		t.Errorf("got %+v after %d bytes", answer.Error, written)
	}
}

// inUse is a host on which no file can be replaced.
type inUse struct{ *agenthost.System }

func (inUse) Rename(string, string) error { return engine.ErrInUse }

func (s inUse) Create(path string) (agent.ReceivedFile, error) {
	f, err := s.System.Create(path)
	return inUseFile{f}, err
}

type inUseFile struct{ agent.ReceivedFile }

func (f inUseFile) Commit() error {
	if err := f.Discard(); err != nil {
		return err
	}
	return engine.ErrInUse
}

func TestCommitInUse(t *testing.T) {
	for _, compressed := range []bool{false, true} {
		r := newReceiver(t)
		r.system = func(s agent.System) agent.System { return inUse{s.(*agenthost.System)} }
		sent := []byte("content")
		if compressed {
			sent = zip(t, sent)
		}
		r.write(t, "kubelet.part", sent)
		var answer api.CommitAnswer
		r.run(t, api.CommandCommit, api.CommitRequest{
			Temporary: api.PayloadDirectory + `\kubelet.part`, Path: api.PayloadDirectory + `\kubelet`,
			Size: 7, SHA256: sum([]byte("content")), Gzip: compressed,
		}, &answer)
		if answer.Error == nil || answer.Error.Reason != api.CommitInUse {
			t.Errorf("got %+v", answer.Error)
		}
		if diff := cmp.Diff(map[string]string{"kubelet.part": string(sent)}, r.content(t)); diff != "" {
			t.Errorf("files (-want +got):\n%s", diff)
		}
	}
}
