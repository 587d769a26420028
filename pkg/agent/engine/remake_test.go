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

const shimProgram = `C:\k\shim.exe`

// withPort is the first document with a service that makes networks with a port. Empty: it has no argument for it.
func withPort(t *testing.T, port string) config.Bundle {
	t.Helper()
	b, _ := bundles(t)
	// Certificates differ from call to call.
	b.Document.Certificates = nil
	b.Document.Services = slices.Clone(b.Document.Services)
	overlay := &b.Document.Services[indexOfService(b.Document.Services, "overlay")]
	overlay.Dependencies = []string{"kubelet"}
	if port != "" {
		overlay.Arguments = []string{"--name", "win 1", "--port", port}
	}
	hns := *b.Document.HNS
	hns.Keep = &config.KeptArgument{
		Service: "overlay", Name: "--port", Default: "4789", Programs: []string{shimProgram},
		OnChange: config.OnChange{Impact: config.ImpactDrain, Services: []string{"containerd"}},
	}
	b.Document.HNS = &hns
	if err := b.Validate(); err != nil {
		t.Fatal(err)
	}
	return b
}

// hostWithPort is a node with that port, on which containers run.
func hostWithPort(t *testing.T, port string) *fake {
	t.Helper()
	f := newFake()
	f.files[`c:\k`] = fakeFile{Directory: true}
	converge(t, f, withPort(t, port))
	f.strays = append(f.strays, Process{PID: 5, Parent: 4, Path: shimProgram})
	return f
}

// TestNetworksKeepTheirPort: a network has the port that it was made with, whatever its service is told since. So it is made again, after
// a drain, and nothing stays connected by the one that was.
func TestNetworksKeepTheirPort(t *testing.T) {
	f, next := hostWithPort(t, ""), withPort(t, "9898")
	plan, err := engineOf(f).Plan(t.Context(), &next)
	if err != nil || plan.Impact != config.ImpactDrain || !slices.Contains(plan.Restarts, "containerd") {
		t.Fatalf("the update is %+v, %v", plan, err)
	}
	done := len(f.log)
	r := converge(t, f, next)
	if !strings.Contains(f.madeWith, "--port 9898") || len(f.strays) > 0 || !f.endpoints["VIPEndpoint"] {
		t.Errorf("the network was made by %q, containers are %v, endpoints %v: %+v", f.madeWith, f.strays, f.endpoints, r)
	}
	stopped, removed := slices.Index(f.log[done:], "StopService containerd"), slices.Index(f.log[done:], "RemoveHNSNetwork")
	if stopped < 0 || removed < stopped {
		t.Errorf("a network is removed while containers are started: %v", f.log[done:])
	}
	f.check(t, next)
}

func withCommandLine(s fakeService, commandLine string) fakeService {
	s.Settings.CommandLine = commandLine
	return s
}

// TestNetworksStay: what does not change the port of a network removes none, and a repair never does.
func TestNetworksStay(t *testing.T) {
	for name, change := range map[string]func(s *config.Service){
		"the same port":               func(*config.Service) {},
		"the usual port, by its name": func(s *config.Service) { s.Arguments = []string{"--name", "win 1", "--port", "4789"} },
		"another argument":            func(s *config.Service) { s.Arguments = []string{"--name", "port"} },
	} {
		t.Run(name, func(t *testing.T) {
			f, next := hostWithPort(t, ""), withPort(t, "")
			change(&next.Document.Services[indexOfService(next.Document.Services, "overlay")])
			before := f.madeWith
			plan, err := engineOf(f).Plan(t.Context(), &next)
			if err != nil || slices.ContainsFunc(plan.Items, func(i api.Item) bool { return i.Kind == api.KindNetwork || i.Kind == api.KindEndpoint }) || costlier(plan.Impact, config.ImpactRestart) {
				t.Errorf("the update is %+v, %v", plan, err)
			}
			converge(t, f, next)
			f.services["overlay"] = withCommandLine(f.services["overlay"], `C:\k\overlay.exe --port 1`)
			if _, err := newKeeper(engineOf(f), RunOptions{Service: api.ServiceName}).repair(t.Context()); err != nil || f.services["overlay"].Settings.CommandLine == `C:\k\overlay.exe --port 1` {
				t.Errorf("it is not repaired: %+v, %v", f.services["overlay"], err)
			}
			if f.madeWith != before || len(f.strays) != 1 {
				t.Errorf("the network was made again, by %q; containers are %v", f.madeWith, f.strays)
			}
		})
	}
}

// TestNetworksAreRemadeWithoutTheirService: a network that is ours is made again for another port, also when somebody has deleted the service
// that had made it.
func TestNetworksAreRemadeWithoutTheirService(t *testing.T) {
	for name, tt := range map[string]struct {
		port    string
		forgets bool // nothing was applied completely
		remade  bool
	}{
		"another port":                       {port: "9898", remade: true},
		"the same port":                      {port: ""},
		"nobody knows what it was made with": {port: "9898", forgets: true, remade: true},
	} {
		t.Run(name, func(t *testing.T) {
			f, next := hostWithPort(t, ""), withPort(t, tt.port)
			before := f.madeWith
			delete(f.services, "overlay")
			if tt.forgets {
				delete(f.files, fold(appliedPath))
			}
			converge(t, f, next)
			if remade := f.madeWith != before; remade != tt.remade || remade && !strings.Contains(f.madeWith, "--port 9898") {
				t.Errorf("the network was made by %q", f.madeWith)
			}
		})
	}
}

// TestNetworksAreRemadeAfterACrash: wherever it is interrupted, also by a boot with which the service of before makes what is missing,
// the network ends with the port of the document.
func TestNetworksAreRemadeAfterACrash(t *testing.T) {
	start, next := hostWithPort(t, ""), withPort(t, "9898")
	for at := 2; ; at++ {
		f := start.sameAs()
		f.madeWith = start.madeWith
		crashed := crashing(f, at, func() { engineOf(f).Apply(t.Context(), &api.ApplyRequest{Allow: config.ImpactReboot, Bundle: next}) })
		f.loseProcess()
		if at%3 == 0 {
			f.boot()
		}
		converge(t, f, next)
		if !strings.Contains(f.madeWith, "--port 9898") {
			t.Fatalf("crash %d: the network was made by %q", at, f.madeWith)
		}
		if !crashed {
			return
		}
	}
}

// TestNetworksOfOthersStay: a network that somebody else has made is not removed for another port, and nothing is done to the host that would
// leave its pods cut off.
func TestNetworksOfOthersStay(t *testing.T) {
	f := newFake()
	f.files[`c:\k`] = fakeFile{Directory: true}
	f.networks["net"], f.madeWith = true, "others"
	converge(t, f, withPort(t, ""))
	f.strays = append(f.strays, Process{PID: 5, Parent: 4, Path: shimProgram})
	next := withPort(t, "9898")
	if _, err := engineOf(f).Plan(t.Context(), &next); err == nil || !strings.Contains(err.Error(), "network net was made by others, and with another --port") {
		t.Errorf("the plan says %v", err)
	}
	engineOf(f).Apply(t.Context(), &api.ApplyRequest{Allow: config.ImpactReboot, Bundle: next})
	if f.madeWith != "others" || len(f.strays) != 1 || strings.Contains(f.services["overlay"].Settings.CommandLine, "9898") {
		t.Errorf("the network was made by %q, containers are %v, the service is %+v", f.madeWith, f.strays, f.services["overlay"])
	}
}
