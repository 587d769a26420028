// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package agentclient

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
	"github.com/openshift/windows-instance-api/test/winhost"
)

// TestLogsOfAFullDisk: a host that has no room for another build of the agent shows its logs with the one that it has, and does nothing
// else with it.
func TestLogsOfAFullDisk(t *testing.T) {
	for name, tt := range map[string]struct {
		spoil func(t *testing.T, s *site, older string)
		fault winhost.Fault
		want  string // part of the error; empty: the log is shown
	}{
		"an older build": {},
		"read only":      {fault: winhost.Fault{SFTPReadOnly: true}},
		"something else with its name": {spoil: func(t *testing.T, _ *site, older string) {
			if err := os.WriteFile(older, []byte("MZ something else"), 0o600); err != nil {
				t.Fatal(err)
			}
		}, want: "is the disk full? (to free space, kubectl windows exec works without the agent)"},
		"no other build": {spoil: func(t *testing.T, _ *site, older string) {
			if err := os.Remove(older); err != nil {
				t.Fatal(err)
			}
		}, want: "is the disk full?"},
		"another machine": {spoil: func(_ *testing.T, s *site, _ string) { s.Instance.Status.MachineID = "another/another" }, want: "is the disk full?"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t, winhost.InProcessOptions{})
			if _, err := s.client.Facts(t.Context(), s.Instance); err != nil {
				t.Fatal(err)
			}
			older := s.agentPath(t)
			if err := os.WriteFile(filepath.Join(s.AgentDir, bundledAgent), []byte("MZ the next build"), 0o600); err != nil {
				t.Fatal(err)
			}
			s.client = s.newClient(t)
			writeLog(t, s, "x.log", "line\n")
			if tt.spoil != nil {
				tt.spoil(t, s, older)
			}
			tt.fault.DiskFull = !tt.fault.SFTPReadOnly
			s.SetFault(t, tt.fault)
			var failed *Error
			if _, err := s.client.Facts(t.Context(), s.Instance); !errors.As(err, &failed) || failed.Step != StepUpload {
				t.Errorf("facts: %v", err)
			}
			stream, err := s.client.Logs(t.Context(), s.Instance, api.LogRequest{Queries: []string{"x.log"}})
			if tt.want != "" {
				if !errors.As(err, &failed) || failed.Step != StepUpload || !strings.Contains(err.Error(), tt.want) {
					t.Errorf("got %v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			defer stream.Close()
			if text, err := io.ReadAll(stream); err != nil || !strings.Contains(string(text), "line") {
				t.Errorf("got %q, %v", text, err)
			}
		})
	}
}
