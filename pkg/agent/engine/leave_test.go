// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package engine

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
	"github.com/openshift/windows-instance-api/pkg/agent/api/config"
)

// Paths of what containers leave on a host.
const (
	shimPath  = `C:\k\containerd\shim.exe`
	snapshots = `C:\ProgramData\containerd\root\io.containerd.snapshotter.v1.windows\snapshots`
)

// containerBundle is a document whose programs run containers.
func containerBundle(t *testing.T) config.Bundle {
	t.Helper()
	b := generatedBundle(t)
	b.Document.Files = append(slices.Clone(b.Document.Files), program(shimPath, "1", config.OnChange{Impact: config.ImpactNone}))
	b.Document.Generated = append(slices.Clone(b.Document.Generated), `C:\ProgramData\containerd`)
	if err := b.Validate(); err != nil {
		t.Fatal(err)
	}
	return b
}

// runContainers does what a runtime does: the program that holds containers runs, and there are
// layers, of which the second is based on the first.
func (f *fake) runContainers() {
	f.run()
	for _, path := range slices.Backward(ancestors(snapshots + `\9\Files\x`)) {
		if config.Below(path, `C:\ProgramData\containerd`) {
			f.files[fold(path)] = fakeFile{Directory: true}
		}
	}
	for _, path := range []string{`\10`, `\10\Files`} {
		f.files[fold(snapshots+path)] = fakeFile{Directory: true}
	}
	f.files[fold(snapshots+`\9\Files\ntdll.dll`)] = fakeFile{Content: "theirs"}
	f.files[fold(snapshots+`\10\sandbox.vhdx`)] = fakeFile{Content: "theirs"}
	f.strays = append(f.strays, Process{PID: 5, Parent: 4, Path: shimPath})
}

// TestCleanupWithContainers: what still runs is ended, what stays in use is named and goes at
// the next boot, and nothing keeps the host from being left.
func TestCleanupWithContainers(t *testing.T) {
	denied := errors.New("access is denied")
	tests := []struct {
		name   string
		change func(f *fake)
		atBoot []string
	}{
		{name: "they end", change: func(*fake) {}},
		{name: "they do not end", change: func(f *fake) { f.failing["KillProcess "+shimPath] = denied }, atBoot: []string{shimPath}},
		{name: "somebody reads a file", change: func(f *fake) {
			f.held = map[string]bool{`c:\var\lib\kubelet\pki\kubelet-client-current.pem`: true}
		}, atBoot: []string{`C:\var\lib\kubelet (1 files)`}},
		{name: "somebody reads a file of the document", change: func(f *fake) {
			f.held = map[string]bool{`c:\k\kubelet.conf`: true}
		}, atBoot: []string{`C:\k\kubelet.conf`}},
		{name: "Windows does not know the layers", change: func(f *fake) {
			for _, layer := range []string{`\9`, `\10`} {
				f.failing["RemoveLayer "+snapshots+layer] = denied
				f.failing["RemoveLayer "+fold(snapshots+layer)] = denied
			}
		}},
		{name: "files of a layer belong to Windows", change: func(f *fake) {
			f.failing["Remove "+snapshots+`\9\files\ntdll.dll`] = denied
		}},
		{name: "a layer stays mounted", change: func(f *fake) {
			f.mounted = map[string]bool{fold(snapshots + `\10`): true}
			f.held = map[string]bool{fold(snapshots + `\10\sandbox.vhdx`): true}
		}, atBoot: []string{`C:\ProgramData\containerd (1 files)`}},
		{name: "a layer is mounted, and Windows says that it is not", change: func(f *fake) {
			f.mounted = map[string]bool{fold(snapshots + `\10`): true}
			f.failing["UnmountLayer "+snapshots+`\10`] = nil
			f.held = map[string]bool{fold(snapshots + `\10\sandbox.vhdx`): true}
		}, atBoot: []string{`C:\ProgramData\containerd (1 files)`}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := containerBundle(t)
			f := newFake()
			converge(t, f, b)
			f.runContainers()
			tt.change(f)
			r := engineOf(f).Cleanup(t.Context())
			if r.Outcome != api.OutcomeRemoved || len(r.Reboot) > 0 {
				t.Fatalf("cleanup: %+v", r)
			}
			if diff := cmp.Diff(tt.atBoot, r.AtBoot); diff != "" {
				t.Errorf("at the next boot (-want +got):\n%s", diff)
			}
			if ends := !slices.Contains(tt.atBoot, shimPath); len(f.strays) == 0 != ends {
				t.Errorf("containers run: %v", f.strays)
			}
			// An apply before that boot would lose its files then.
			clear(f.failing)
			p, err := engineOf(f).Plan(t.Context(), &b)
			if err != nil {
				t.Fatal(err)
			}
			if inPlace := len(tt.atBoot) > 0 && tt.atBoot[0] != shimPath; len(p.Reboot) > 0 != inPlace {
				t.Errorf("before that boot it needs a restart: %v, want %v", p.Reboot, inPlace)
			}
			f.boot()
			left := f.left()
			for path := range f.files {
				if config.Below(path, `C:\ProgramData\containerd`) || config.Below(path, stateDirectory) {
					left = append(left, path)
				}
			}
			if diff := cmp.Diff([]string(nil), left); diff != "" {
				t.Errorf("left (-want +got):\n%s\n%s", diff, strings.Join(f.log, "\n"))
			}
			mutations := f.mutations
			if r := engineOf(f).Cleanup(t.Context()); r.Outcome != api.OutcomeRemoved || f.mutations != mutations || len(r.AtBoot) > 0 {
				t.Errorf("cleaned up again: %+v\n%s", r, strings.Join(f.log[mutations:], "\n"))
			}
		})
	}
}

// TestCleanupAfterAnUpgrade: containers that run since before the program that holds them was
// replaced end, too. Windows knows such a process by where its file is now.
func TestCleanupAfterAnUpgrade(t *testing.T) {
	b := containerBundle(t)
	f := newFake()
	converge(t, f, b)
	f.runContainers()
	last := len(b.Document.Files) - 1
	b.Document.Files = slices.Clone(b.Document.Files)
	b.Document.Files[last] = program(shimPath, "2", b.Document.Files[last].OnChange)
	converge(t, f, b)
	if len(f.strays) != 1 || !config.Below(f.strays[0].Path, trashDirectory) {
		t.Fatalf("the containers are held by %v, want one in the trash", f.strays)
	}
	r := engineOf(f).Cleanup(t.Context())
	if r.Outcome != api.OutcomeRemoved || len(r.AtBoot) > 0 || len(f.strays) > 0 {
		t.Errorf("got %+v, and containers run: %v", r, f.strays)
	}
}

// Layers are removed before those that they are based on.
func TestNewestFirst(t *testing.T) {
	names := []string{"1", "10", "2", "9"}
	if newestFirst(names); !slices.Equal(names, []string{"10", "9", "2", "1"}) {
		t.Errorf("got %v", names)
	}
}

// TestCleanupNeedsARestart: a host that has to restart after it was cleaned is restarted, also when
// the first attempt ended before that, and its answer was lost.
func TestCleanupNeedsARestart(t *testing.T) {
	first, _ := bundles(t)
	want := []string{"Delete Environment HTTP_PROXY", "Delete Environment NO_PROXY"}
	clean := func(t *testing.T, f *fake) *api.Result {
		t.Helper()
		r := engineOf(f).Cleanup(t.Context())
		if r.Outcome != api.OutcomeRemoved {
			t.Fatalf("%+v", r)
		}
		return r
	}
	t.Run("asked again", func(t *testing.T) {
		f := usedHost(t, first)
		before := f.picture()
		converge(t, f, first)
		empty := config.Bundle{Document: config.Document{Version: config.SchemaVersion}}
		if p, err := engineOf(f).Plan(t.Context(), &empty); err != nil || p.Impact != config.ImpactReboot {
			t.Errorf("it is not known before that it restarts: %+v, %v", p, err)
		}
		for range 3 {
			if r := clean(t, f); !slices.Equal(r.Reboot, want) {
				t.Errorf("it has to restart because of %q", r.Reboot)
			}
		}
		if state, err := ReadState(t.Context(), f, f.clock); err != nil || state.AppliedRevision != "" || state.ApplyingRevision != "" {
			t.Errorf("it counts as configured: %+v, %v", state, err)
		}
		if r := engineOf(f).Apply(t.Context(), &api.ApplyRequest{Allow: config.ImpactReboot, Bundle: first}); r.Outcome != api.OutcomeRebootRequired {
			t.Errorf("it is configured again before it has restarted: %+v", r)
		}
		f.boot()
		if r := clean(t, f); len(r.Reboot) > 0 {
			t.Errorf("it has to restart once more because of %q", r.Reboot)
		}
		f.checkClean(t, before)
	})
	t.Run("broken off", func(t *testing.T) {
		f := usedHost(t, first)
		converge(t, f, first)
		ctx, cancel := context.WithCancel(t.Context())
		e := engineOf(f)
		e.Events = func(v api.Event) {
			if v.State == api.EventDone && v.Item == want[1] {
				cancel()
			}
		}
		if r := e.Cleanup(ctx); r.Outcome != api.OutcomeFailed {
			t.Fatalf("it was not broken off: %+v", r)
		}
		if r := clean(t, f); !slices.Equal(r.Reboot, want) {
			t.Errorf("it has to restart because of %q", r.Reboot)
		}
	})
	t.Run("a feature is pending", func(t *testing.T) {
		f := usedHost(t, first)
		b := first
		b.Document.Environment = nil
		b.Secrets = config.Secrets{"kubeconfig": []byte(secretText)}
		send(t, f, b)
		if r := engineOf(f).Apply(t.Context(), &api.ApplyRequest{Allow: config.ImpactReboot, Bundle: b}); r.Outcome != api.OutcomeRebootRequired {
			t.Fatalf("%+v", r)
		}
		if r := clean(t, f); len(r.Reboot) > 0 {
			t.Errorf("it has to restart because of %q", r.Reboot)
		}
	})
}

// TestNetworksLeft: networks that others have made stay, and whoever cleans the host is told of those
// that keep it from another cluster.
func TestNetworksLeft(t *testing.T) {
	first, _ := bundles(t)
	for _, tt := range []struct {
		name    string
		service ServiceState
		fails   bool
		want    []string
	}{
		{name: "there are some", service: ServiceRunning, want: []string{"cbr0", "flannel.4096"}},
		{name: "nobody may start the service", service: ServiceStopped},
		{name: "there is no service"},
		{name: "it does not answer", service: ServiceRunning, fails: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := usedHost(t, first)
			converge(t, f, first)
			for _, name := range []string{"flannel.4096", "cbr0", "nat", "Default Switch"} {
				f.networks[name] = true
			}
			f.networkTypes = map[string]string{"nat": "nat", "Default Switch": "ICS", "cbr0": "L2Bridge"}
			delete(f.services, "hns")
			if tt.service != "" {
				f.services["hns"] = fakeService{state: tt.service}
			}
			if tt.fails {
				f.failing["HNSNetworks"] = errors.New("no")
			}
			r := engineOf(f).Cleanup(t.Context())
			if r.Outcome != api.OutcomeRemoved || !slices.Equal(r.Networks, tt.want) {
				t.Errorf("got %q: %+v", r.Networks, r)
			}
			if f.networks["net"] || !f.networks["cbr0"] {
				t.Errorf("the networks are %v", f.networks)
			}
		})
	}
}

// TestLoadBalancersGoFirst: what kube-proxy has made goes before the network that it refers to, without which it could not be removed; that it cannot
// be keeps nothing else from going.
func TestLoadBalancersGoFirst(t *testing.T) {
	denied := errors.New("access is denied")
	for name, fails := range map[string]bool{"they go": false, "they stay": true} {
		for removes, removed := range map[string]func(t *testing.T, e *Engine, next config.Bundle) *api.Result{
			"the host is cleaned": func(t *testing.T, e *Engine, _ config.Bundle) *api.Result { return e.Cleanup(t.Context()) },
			"the network is no longer wanted": func(t *testing.T, e *Engine, next config.Bundle) *api.Result {
				return e.Apply(t.Context(), &api.ApplyRequest{Allow: config.ImpactReboot, Bundle: next})
			},
		} {
			t.Run(name+", "+removes, func(t *testing.T) {
				first, _ := bundles(t)
				f := usedHost(t, first)
				converge(t, f, first)
				f.balancers = 3
				want, orphaned := 0, 0
				if fails {
					f.failing["RemoveHNSPolicyLists net"] = denied
					want, orphaned = 2, 3
				}
				var notes []string
				e := engineOf(f)
				e.Events = func(v api.Event) {
					if v.State == api.EventNote && v.Item == string(api.KindNetwork)+" net" {
						notes = append(notes, v.Message)
					}
				}
				next := first
				next.Document.HNS, next.Document.Variables = nil, first.Document.Variables[:1]
				next.Document.Services = slices.DeleteFunc(slices.Clone(first.Document.Services), func(s config.Service) bool { return s.Name == "kube-proxy" || s.Name == "overlay" })
				next.Document.Files = slices.DeleteFunc(slices.Clone(first.Document.Files), func(f config.File) bool { return f.AfterService != "" || strings.Contains(f.Path, "overlay") })
				r := removed(t, e, next)
				if r.Outcome != api.OutcomeRemoved && r.Outcome != api.OutcomeApplied || f.networks["net"] || f.orphaned != orphaned {
					t.Errorf("%d stay, networks %v: %+v", f.orphaned, f.networks, r)
				}
				if len(notes) != want || fails && !strings.Contains(notes[0], denied.Error()) {
					t.Errorf("got the notes %q", notes)
				}
			})
		}
	}
}
