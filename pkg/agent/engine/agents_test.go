// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package engine

import (
	"slices"
	"strings"
	"testing"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
	"github.com/openshift/windows-instance-api/pkg/agent/api/config"
)

// Executables of the agent, of three versions.
const (
	agentOne   = "windows-node-agent-0000000000000001.exe"
	agentTwo   = "windows-node-agent-0000000000000002.exe"
	agentThree = "windows-node-agent-0000000000000003.exe"
)

// agentBundle is a document whose service is the agent itself.
func agentBundle(name string) config.Bundle {
	s := testService("windows-node-agent")
	s.BinaryPath, s.Arguments = api.Root+`\`+name, []string{"run"}
	return config.Bundle{Document: config.Document{Version: config.SchemaVersion, Services: []config.Service{s}}}
}

// TestAgentIsReplaced: another version of the agent comes with its document. Its process,
// which is not that of the service, restarts the service with it, and removes the old one.
func TestAgentIsReplaced(t *testing.T) {
	apply := func(f *fake, name string) *api.Result {
		f.files[fold(api.Root+`\`+name)] = fakeFile{Content: name}
		e := engineOf(f)
		e.Executable = name
		return e.Apply(t.Context(), &api.ApplyRequest{Allow: config.ImpactRestart, Bundle: agentBundle(name)})
	}
	agents := func(f *fake) []string {
		return slices.DeleteFunc(f.children(api.Root), func(name string) bool { return !strings.HasSuffix(name, ".exe") })
	}
	f := newFake()
	if r := apply(f, agentOne); r.Outcome != api.OutcomeApplied {
		t.Fatalf("first: %+v", r)
	}
	f.inUse[fold(api.Root+`\`+agentOne)] = true
	first := f.services["windows-node-agent"]

	// The service inspects the host before and after, and leaves itself alone.
	look := func() {
		t.Helper()
		var drifts []api.Drift
		e := engineOf(f)
		k := &keeper{Engine: e, options: RunOptions{Service: "windows-node-agent", Report: func(d api.Drift) { drifts = append(drifts, d) }}, observer: observer{system: f}}
		k.check(t.Context())
		if len(drifts) > 0 {
			t.Errorf("the service reports %+v", drifts)
		}
	}
	look()
	r := apply(f, agentTwo)
	if r.Outcome != api.OutcomeApplied || len(r.Changed) != 1 || r.Changed[0].Impact != config.ImpactRestart {
		t.Fatalf("second: %+v", r)
	}
	look()
	now := f.services["windows-node-agent"]
	if want := api.Root + `\` + agentTwo + " run"; now.Settings.CommandLine != want || now.state != ServiceRunning || now.started <= first.started {
		t.Errorf("the service is %+v, want one that was started with %s", now, want)
	}
	// The old one is still in use, as its process is just ending.
	if got, want := agents(f), []string{agentOne, agentTwo}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	clear(f.inUse)
	if r := apply(f, agentTwo); r.Outcome != api.OutcomeUnchanged {
		t.Errorf("again: %+v", r)
	}
	if got, want := agents(f), []string{agentTwo}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestOldAgents(t *testing.T) {
	services := agentBundle(agentTwo).Document.Services
	names := []string{
		agentOne, agentTwo, strings.ToUpper(agentThree), "state", "payload", "windows-node-agent.exe", "windows-node-agent-1.exe",
		"windows-node-agent-0000000000000004.exe.tmp", "windows-node-agent-000000000000000g.exe", "owner.json",
	}
	tests := []struct {
		name string
		own  string
		want []string
	}{
		{name: "that of the service", own: agentTwo, want: []string{agentOne, strings.ToUpper(agentThree)}},
		{name: "another one", own: agentOne, want: []string{strings.ToUpper(agentThree)}},
		{name: "in another case", own: agentThree, want: []string{agentOne}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := oldAgents(names, tt.own, services); !slices.Equal(got, tt.want) {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}
