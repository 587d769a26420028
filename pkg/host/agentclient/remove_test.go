// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package agentclient

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
	"github.com/openshift/windows-instance-api/test/winhost"
	"github.com/openshift/windows-instance-api/test/winhost/hosttest"
)

// TestCleanupRemoves: everything that this project ever put into its directory goes, and
// nothing else.
func TestCleanupRemoves(t *testing.T) {
	digest := strings.Repeat("0123456789abcdef", 4)
	for _, tt := range []struct {
		name  string
		there []string // besides the agent, below engine.Root
		left  []string
		says  string // part of the error; empty: none
	}{
		{name: "the agent alone"},
		{name: "agents of other releases, and what was being sent", there: []string{
			"windows-node-agent-0123456789abcdef.exe", "windows-node-agent-0123456789abcdef", "upload-01234567-windows-node-agent-0123456789abcdef.exe",
			"payload/" + digest, "payload/" + digest + ".0123456789abcdef.gz.part", "payload/" + digest + ".ABCDEFGH.windows-node-agent.tmp",
		}},
		{name: "one that was terminated", there: []string{"owner.json"}},
		{name: "what is in use", there: []string{"state/trash/d1x2/open"}, left: []string{"state"}},
		{name: "something in the state of the agent that is not ours", there: []string{"state/notes.txt"}, left: []string{"state"}, says: "other files: state"},
		{name: "what is not ours", there: []string{"notes.txt", "windows-node-agent-latest.exe"}, left: []string{"notes.txt", "windows-node-agent-latest.exe"},
			says: `C:\Windows\windows-node-agent is kept because it contains other files: notes.txt, windows-node-agent-latest.exe`},
		{name: "a directory that is not ours", there: []string{"own/x"}, left: []string{"own"}, says: "other files: own"},
		{name: "much that is not ours", there: []string{"a1", "b2", "c3", "d4", "e5", "f6"}, left: []string{"a1", "b2", "c3", "d4", "e5", "f6"},
			says: "6 other files or directories, among them a1, b2, c3, d4, e5"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newSite(t, winhost.InProcessOptions{})
			if _, err := s.client.Facts(t.Context(), s.Instance); err != nil {
				t.Fatal(err)
			}
			root := filepath.Dir(s.agentPath(t))
			for _, name := range tt.there {
				if err := os.MkdirAll(filepath.Dir(filepath.Join(root, name)), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(filepath.Join(root, name), nil, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			result, err := s.client.Cleanup(t.Context(), s.Instance, nil)
			switch failed := (*Error)(nil); {
			case tt.says == "":
				if err != nil || result.Outcome != api.OutcomeRemoved {
					t.Errorf("got %+v, %v", result, err)
				}
			case !errors.As(err, &failed) || failed.Step != StepRemove || !strings.Contains(err.Error(), tt.says):
				t.Errorf("got %v, want %q in it", err, tt.says)
			}
			entries, err := os.ReadDir(root)
			if errors.Is(err, fs.ErrNotExist) != (tt.left == nil) {
				t.Errorf("the directory: %v", err)
			}
			var left []string
			for _, e := range entries {
				left = append(left, e.Name())
			}
			if diff := cmp.Diff(tt.left, left); diff != "" {
				t.Errorf("left (-want +got):\n%s", diff)
			}
		})
	}
}

// TestCleanupInUse: an agent that runs cannot be removed, which is tried for a while.
func TestCleanupInUse(t *testing.T) {
	s := newSite(t, winhost.InProcessOptions{})
	follow := func() *LogStream {
		t.Helper()
		local, err := s.Host.LocalPath(`C:\var\log\x.log`)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(local, []byte("line\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		stream, err := s.client.Logs(t.Context(), s.Instance, api.LogRequest{Queries: []string{"x.log"}, Follow: true})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = stream.Close() })
		return stream
	}
	stream := follow()
	s.client.patience.removal = time.Millisecond
	_, err := s.client.Cleanup(t.Context(), s.Instance, nil)
	if failed := (*Error)(nil); !errors.As(err, &failed) || failed.Step != StepRemove || !strings.Contains(err.Error(), "perhaps because it runs") {
		t.Errorf("got %v", err)
	}
	if _, err := os.Stat(s.agentPath(t)); err != nil {
		t.Errorf("what runs was removed: %v", err)
	}
	s.client.patience.removal = time.Minute
	done := make(chan error, 1)
	before := len(s.Host.Commands())
	go func() {
		_, err := s.client.Cleanup(t.Context(), s.Instance, nil)
		done <- err
	}()
	hosttest.Eventually(t, "the host is cleaned but for the agent", func() bool {
		return len(s.Host.Commands()) > before && s.Host.Running() == 1
	})
	if err := stream.Close(); err != nil {
		t.Error(err)
	}
	if err := <-done; err != nil {
		t.Errorf("after the one that runs has ended: %v", err)
	}
	if _, err := os.Stat(s.agentPath(t)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the agent: %v", err)
	}
}

// TestCleanupReboot: what a restart is needed for needs the agent.
func TestCleanupReboot(t *testing.T) {
	const answer = `{"result":{"outcome":"Removed","changed":[],"reboot":["Delete Environment HTTP_PROXY"]}}` + "\n"
	s := newHostileSite(t, say(answer))
	result, err := s.client.Cleanup(t.Context(), s.Instance, nil)
	if err != nil || len(result.Reboot) != 1 {
		t.Errorf("got %+v, %v", result, err)
	}
	if s.place(t, "forgotten") != "hostile" {
		t.Error("the agent is thought to be gone")
	}
	for _, outcome := range []api.Outcome{api.OutcomeApplied, api.OutcomeImpactExceeded, ""} {
		s := newHostileSite(t, say(fmt.Sprintf(`{"result":{"outcome":%q}}`+"\n", outcome)))
		_, err := s.client.runChange(t.Context(), mustTarget(t, s), "hostile", change{command: api.CommandCleanup})
		if failed := (*Error)(nil); !errors.As(err, &failed) {
			t.Errorf("outcome %q of a cleanup: %v", outcome, err)
		}
	}
}
