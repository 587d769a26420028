// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package agentclient

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/openshift/windows-instance-api/test/winhost"
)

// left is a file in the directory of the agent, which was written some time ago.
func (s *site) left(t *testing.T, name string, content []byte, age time.Duration) string {
	t.Helper()
	path := filepath.Join(filepath.Dir(s.agentPath(t)), name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	then := time.Now().Add(-age)
	if err := os.Chtimes(path, then, then); err != nil {
		t.Fatal(err)
	}
	return path
}

// enlarge makes the build of the site so large that a part of it is certain.
func (s *site) enlarge(t *testing.T) (content []byte) {
	t.Helper()
	path := filepath.Join(s.AgentDir, bundledAgent)
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	content = append(content, bytes.Repeat([]byte("\n# more"), uncertainBytes/3)...)
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	s.client = s.newClient(t)
	return content
}

// TestUploadContinues: the part of the agent that is on the host since the connection was lost is not sent again, and does not stay
// there. What another process may be sending is left alone.
func TestUploadContinues(t *testing.T) {
	const stale, fresh = abandoned + time.Minute, abandoned - time.Minute
	s := newSite(t, winhost.InProcessOptions{})
	content := s.enlarge(t)
	name := s.client.options.Agents.name()
	part := s.left(t, "upload-00000001-"+name, content[:len(content)-1000], stale)
	before, err := os.Stat(part)
	if err != nil {
		t.Fatal(err)
	}
	gone := []string{
		part,
		s.left(t, "upload-00000002-"+name, content[:10], stale),
		s.left(t, "upload-00000003-"+name, append(bytes.Clone(content), "too much"...), stale),
		s.left(t, "upload-00000004-windows-node-agent-0123456789abcdef.exe", []byte("another build"), stale),
	}
	stay := []string{
		s.left(t, "upload-00000005-"+name, content[:20], fresh),
		s.left(t, "upload-6.exe", []byte("not ours"), stale),
		s.left(t, "theirs.txt", []byte("not ours"), stale),
	}
	if _, err := s.client.Facts(t.Context(), s.Instance); err != nil {
		t.Fatal(err)
	}
	after, err := os.Stat(s.agentPath(t))
	if err != nil || !os.SameFile(before, after) {
		t.Errorf("it was not continued, %v", err)
	}
	if now, err := os.ReadFile(s.agentPath(t)); err != nil || !bytes.Equal(now, content) {
		t.Errorf("what is on the host is not ours, %v", err)
	}
	for _, path := range gone {
		if _, err := os.Stat(path); !os.IsNotExist(err) {
			t.Errorf("%s: %v", path, err)
		}
	}
	for _, path := range stay {
		if _, err := os.Stat(path); err != nil {
			t.Error(err)
		}
	}
}

// TestUploadIsContinuedOnce: the part that one process continues is not taken, nor removed, by another that begins before the first
// one writes to it.
func TestUploadIsContinuedOnce(t *testing.T) {
	s := newSite(t, winhost.InProcessOptions{})
	content := s.enlarge(t)
	build := s.client.options.Agents
	s.left(t, "upload-00000001-"+build.name(), content[:len(content)-1000], abandoned+time.Minute)
	to, err := s.client.login(t.Context(), s.Instance)
	if err != nil {
		t.Fatal(err)
	}
	client, err := openSFTP(t.Context(), s.Pool, to.Target)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = client.Close() }()
	var remotes, locals []string
	for _, name := range []string{"upload-0000000a-" + build.name(), "upload-0000000b-" + build.name()} {
		locals = append(locals, s.left(t, name, nil, 0))
		remotes = append(remotes, overSFTP(commandPath(name)))
	}
	certain := int64(len(content) - 1000 - uncertainBytes)
	for i, want := range []int64{certain, 0} {
		if got := continueAbandoned(client, remotes[i], build); got != want {
			t.Errorf("process %d continues after %d bytes, want %d", i, got, want)
		}
	}
	for i, want := range []int64{certain + uncertainBytes, 0} {
		if info, err := os.Stat(locals[i]); err != nil || info.Size() != want {
			t.Errorf("the file of process %d: %v, %v, want %d bytes", i, info, err, want)
		}
	}

	// What is gone nevertheless is no matter of space.
	local, err := os.Open(build.path)
	if err != nil {
		t.Fatal(err)
	}
	defer local.Close()
	if err := client.Remove(remotes[0]); err != nil {
		t.Fatal(err)
	}
	if err := send(client, local, remotes[0], certain); err == nil || strings.Contains(whyNotSent(err), "disk") {
		t.Errorf("error %v, and it says%s", err, whyNotSent(err))
	}
}

// TestDamagedUploadIsGivenUp: a part that is not that of the build is not continued forever.
func TestDamagedUploadIsGivenUp(t *testing.T) {
	s := newSite(t, winhost.InProcessOptions{})
	content := s.enlarge(t)
	damaged := bytes.Clone(content)
	damaged[0] ^= 1
	s.left(t, "upload-00000001-"+s.client.options.Agents.name(), damaged, abandoned)
	if _, err := s.client.Facts(t.Context(), s.Instance); err == nil {
		t.Error("it was taken for the agent")
	}
	if _, err := s.client.Facts(t.Context(), s.Instance); err != nil {
		t.Error(err)
	}
	if left, err := filepath.Glob(filepath.Join(filepath.Dir(s.agentPath(t)), "*")); err != nil || len(left) != 1 {
		t.Errorf("on the host are %v, %v", left, err)
	}
}
