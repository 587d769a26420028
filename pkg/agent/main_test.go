// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package agent

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
	"github.com/openshift/windows-instance-api/pkg/agent/engine"
	"github.com/openshift/windows-instance-api/pkg/agent/logs"
	"github.com/openshift/windows-instance-api/pkg/agent/updates"
)

type fakeHost struct {
	root       string
	executable string
	facts      api.Facts
	restarts   []api.RestartRequest
	restartErr error
	routes     []api.Route
	events     logs.EventLog
	eventsErr  error
	files      stateFiles
	lowered    bool
	full       string // the file for which there is no room
	keysErr    error
	machine    string // empty: firmware/windows
	warnings   []string
	warningErr error
}

// stateFiles are the files of a system that has nothing else, by path.
type stateFiles map[string]string

// system is a host as the engine sees it, with its files alone.
type system struct {
	System
	files stateFiles
	full  string
}

func (s system) Open(path string) (io.ReadCloser, error) {
	text, there := s.files[path]
	if !there {
		return nil, fs.ErrNotExist
	}
	return io.NopCloser(strings.NewReader(text)), nil
}

func (s system) Stat(path string) (engine.FileInfo, error) {
	if _, there := s.files[path]; there {
		return engine.FileInfo{Kind: engine.FileRegular}, nil
	}
	return engine.FileInfo{}, nil
}

func (h *fakeHost) System() System { return system{files: h.files, full: h.full} }
func (h *fakeHost) Serve(ctx context.Context, run func(context.Context) error) error {
	return run(ctx)
}
func (h *fakeHost) ReportDrift(message string) error {
	h.warnings = append(h.warnings, message)
	return h.warningErr
}
func (h *fakeHost) Updates() updates.Source { return nil }
func (h *fakeHost) LowerPriority()          { h.lowered = true }

func (h *fakeHost) MachineID() string {
	if h.machine != "" {
		return h.machine
	}
	return "firmware/windows"
}

func (h *fakeHost) LogRoot() string { return h.root }
func (h *fakeHost) Now() time.Time  { return time.Date(2026, 3, 5, 12, 0, 0, 0, time.UTC) }

func (h *fakeHost) EventLog() (logs.EventLog, error) {
	if h.events == nil && h.eventsErr == nil {
		return nil, logs.ErrNoEventLog
	}
	return h.events, h.eventsErr
}

func (h *fakeHost) Details(_ context.Context, f *api.Facts) {
	f.Certificates = []api.Certificate{{Path: "kubelet.crt"}}
}
func (h *fakeHost) BootTimes(context.Context) ([]time.Time, error) { return nil, errors.New("unknown") }
func (h *fakeHost) Facts(context.Context) *api.Facts               { f := h.facts; return &f }

func (h *fakeHost) Executable() (string, error) {
	if h.executable == "" {
		return "", errors.New("unknown")
	}
	return h.executable, nil
}

func newFakeHost(t *testing.T) *fakeHost {
	t.Helper()
	h := &fakeHost{root: t.TempDir()}
	h.executable = filepath.Join(h.root, "agent.exe")
	if err := os.WriteFile(h.executable, []byte("program"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(h.root, "kubelet.log"), []byte("one\r\ntwo\r\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return h
}

func TestMainProgram(t *testing.T) {
	tests := []struct {
		name   string
		args   []string
		stdin  string
		code   int
		stdout string // all of it, when set
		stderr string // a part of it
	}{
		{name: "nothing", code: api.ExitUsage, stderr: "usage:"},
		{name: "unknown", args: []string{"reboot"}, code: api.ExitUsage, stderr: `unknown sub-command "reboot"`},
		{name: "too many", args: []string{"logs", "kubelet"}, code: api.ExitUsage, stderr: "got 2 arguments"},
		{name: "logs", args: []string{"logs"}, stdin: `{"queries":["kubelet"]}` + "\n", stdout: `{"protocol":1}` + "\none\ntwo\n"},
		{
			name: "a refusal is an answer", args: []string{"logs"}, stdin: `{"queries":["kubelet"],"tailLines":-1}`,
			stdout: `{"protocol":1,"error":{"code":400,"reason":"BadRequest","message":"must not be negative","field":"tailLines"}}` + "\n",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			code := Main(t.Context(), newFakeHost(t), tt.args, strings.NewReader(tt.stdin), &stdout, &stderr)
			if code != tt.code || !strings.Contains(stderr.String(), tt.stderr) || (tt.stderr == "") != (stderr.Len() == 0) {
				t.Errorf("got code %d and %q on standard error, want %d and %q", code, stderr.String(), tt.code, tt.stderr)
			}
			if diff := cmp.Diff(tt.stdout, stdout.String()); diff != "" {
				t.Errorf("standard output (-want +got):\n%s", diff)
			}
		})
	}
}

// Whoever reads logs takes no processor from pods. What configures a host is not slowed down by them.
func TestLogsGiveWay(t *testing.T) {
	for request, want := range map[string]bool{`{"queries":["kubelet"],"pattern":"x"}`: true, `{"queries":["kubelet"]}`: false} {
		host := newFakeHost(t)
		if err := os.MkdirAll(filepath.Join(host.root, "kubelet"), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(host.root, "kubelet", "kubelet.log"), []byte("x\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		var stdout bytes.Buffer
		if code := Main(t.Context(), host, []string{api.CommandLogs}, strings.NewReader(request+"\n"), &stdout, io.Discard); code != api.ExitOK {
			t.Errorf("%s ends with %d", request, code)
		}
		if host.lowered != want {
			t.Errorf("%s gives way: %t, want %t; it answers %s", request, host.lowered, want, stdout.String())
		}
	}
}

func TestVersion(t *testing.T) {
	h := newFakeHost(t)
	read := func() api.Version {
		t.Helper()
		var out bytes.Buffer
		if code := Main(t.Context(), h, []string{api.CommandVersion}, nil, &out, io.Discard); code != api.ExitOK {
			t.Fatalf("code %d", code)
		}
		if n := strings.Count(out.String(), "\n"); n != 1 {
			t.Errorf("%d lines, want one", n)
		}
		var v api.Version
		if err := json.Unmarshal(out.Bytes(), &v); err != nil {
			t.Fatal(err)
		}
		return v
	}
	v := read()
	if want := fmt.Sprintf("%x", sha256.Sum256([]byte("program"))); v.SHA256 != want || v.Protocol != api.ProtocolVersion {
		t.Errorf("got %+v, want digest %s and protocol %d", v, want, api.ProtocolVersion)
	}
	h.executable = ""
	if v := read(); v.SHA256 != "" || v.Version == "" {
		t.Errorf("unknown executable: got %+v, want a version and no digest", v)
	}
}

// TestWhoHasADigest: what is asked often does not read the whole program.
func TestWhoHasADigest(t *testing.T) {
	for command, want := range map[string]bool{api.CommandFacts: false, api.CommandInspect: true} {
		h := newFakeHost(t)
		var out bytes.Buffer
		if code := Main(t.Context(), h, []string{command}, nil, &out, io.Discard); code != api.ExitOK {
			t.Fatalf("%s: code %d", command, code)
		}
		var got api.Facts
		if err := json.Unmarshal(out.Bytes(), &got); err != nil {
			t.Fatal(err)
		}
		if has := got.Agent.SHA256 != ""; has != want || got.Agent.Version == "" || got.Agent.MachineID != h.MachineID() {
			t.Errorf("%s: got %+v, want a digest: %t", command, got.Agent, want)
		}
	}
}

func TestFactsRoundTrip(t *testing.T) {
	h := newFakeHost(t)
	yes := true
	h.facts = api.Facts{
		System:        api.SystemFacts{OS: "windows", Build: 20348, Server: true},
		PendingReboot: api.PendingReboot{Pending: true, Reasons: []string{api.RebootWindowsUpdate}},
		Network:       api.NetworkFacts{DeviceLessNICDisabled: &yes},
	}
	h.facts.Collect("disks", func() error { return errors.New("no disks today") })
	h.facts.Collect("services/kubelet", func() error { panic("write to a nil map") })
	h.facts.Collect("memory", func() error { return nil })

	var out bytes.Buffer
	if code := Main(t.Context(), h, []string{api.CommandFacts}, nil, &out, io.Discard); code != api.ExitOK {
		t.Fatalf("code %d", code)
	}
	var got api.Facts
	if err := json.Unmarshal(out.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	want := h.facts
	want.Agent = identityOf(h)
	want.Time.Answered = h.Now()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("facts (-want +got):\n%s", diff)
	}
	if len(got.Errors) != 2 || got.Errors[0].Area != "disks" || !strings.Contains(got.Errors[1].Message, "nil map") {
		t.Errorf("got errors %+v, want one of the disks and the panic of the service", got.Errors)
	}
}

// TestFactsOfConfiguration: whatever the state of the configuration is, there are facts.
func TestFactsOfConfiguration(t *testing.T) {
	inventory := func(body string) string {
		return fmt.Sprintf("windows-node-agent inventory 1 %x\n%s", sha256.Sum256([]byte(body)), body)
	}
	const (
		inventoryPath = `C:\Windows\windows-node-agent\state\inventory.json`
		driftPath     = `C:\Windows\windows-node-agent\state\drift.json`
		seen          = `{"time":"2026-03-05T11:00:00Z","revision":"one","repaired":[{"kind":"File","name":"x","action":"Update","impact":"None","reason":"differs"}]}`
	)
	drift := &api.Drift{
		Time: time.Date(2026, 3, 5, 11, 0, 0, 0, time.UTC), Revision: "one",
		Repaired: []api.Item{{Kind: api.KindFile, Name: "x", Action: api.ActionUpdate, Impact: "None", Reason: "differs"}},
	}
	tests := []struct {
		name  string
		files stateFiles
		want  api.ConfigurationFacts
		error string // a part of it
	}{
		{name: "never configured"},
		{name: "applied", files: stateFiles{inventoryPath: inventory(`{"applied":"one"}`)}, want: api.ConfigurationFacts{AppliedRevision: "one"}},
		{
			name: "half way to another one", files: stateFiles{inventoryPath: inventory(`{"applied":"one","applying":"two"}`)},
			want: api.ConfigurationFacts{AppliedRevision: "one", ApplyingRevision: "two"},
		},
		{
			name: "changed by others", files: stateFiles{inventoryPath: inventory(`{"applied":"one"}`), driftPath: seen},
			want: api.ConfigurationFacts{AppliedRevision: "one", Drift: drift},
		},
		{
			name: "changed by others before the last one", files: stateFiles{inventoryPath: inventory(`{"applied":"two"}`), driftPath: seen},
			want: api.ConfigurationFacts{AppliedRevision: "two"},
		},
		{
			name: "drift is unreadable", files: stateFiles{inventoryPath: inventory(`{"applied":"one"}`), driftPath: "{"},
			want: api.ConfigurationFacts{AppliedRevision: "one"}, error: "read the drift",
		},
		{name: "inventory is damaged", files: stateFiles{inventoryPath: "{}"}, error: "the inventory of the host cannot be read"},
	}
	for _, tt := range tests {
		for _, command := range []string{api.CommandFacts, api.CommandInspect} {
			t.Run(tt.name+", "+command, func(t *testing.T) {
				h := newFakeHost(t)
				h.files, h.facts.CPUs = tt.files, 4
				var out bytes.Buffer
				if code := Main(t.Context(), h, []string{command}, nil, &out, io.Discard); code != api.ExitOK {
					t.Fatalf("code %d", code)
				}
				var got api.Facts
				if err := json.Unmarshal(out.Bytes(), &got); err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(tt.want, got.Configuration); diff != "" || got.CPUs != 4 {
					t.Errorf("%d CPUs, configuration (-want +got):\n%s", got.CPUs, diff)
				}
				var errs []api.FactError
				for _, e := range got.Errors {
					if e.Area == "configuration" {
						errs = append(errs, e)
					}
				}
				if (len(errs) > 0) != (tt.error != "") || len(errs) > 0 && !strings.Contains(errs[0].Message, tt.error) {
					t.Errorf("got errors %v, want %q", errs, tt.error)
				}
			})
		}
	}
}

func TestMainReportsBrokenOutput(t *testing.T) {
	var stderr bytes.Buffer
	r, w := io.Pipe()
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	if code := Main(t.Context(), newFakeHost(t), []string{api.CommandFacts}, nil, w, &stderr); code != api.ExitFailed || !strings.Contains(stderr.String(), "closed pipe") {
		t.Errorf("got code %d and %q", code, stderr.String())
	}
}
