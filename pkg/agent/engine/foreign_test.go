// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package engine

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
	"github.com/openshift/windows-instance-api/pkg/agent/api/config"
)

// foreignBundle is the first one of [bundles] without the program that makes the network: others do.
func foreignBundle(t *testing.T, first config.Bundle) config.Bundle {
	t.Helper()
	b := first
	d := &b.Document
	d.HNS = &config.HNS{Foreign: []string{"net"}, Endpoint: &config.HNSEndpoint{Name: "VIPEndpoint", Network: "net"}}
	d.Services = slices.DeleteFunc(slices.Clone(d.Services), func(s config.Service) bool { return s.Name == "overlay" })
	proxy := &d.Services[len(d.Services)-1]
	proxy.Dependencies, proxy.Network = nil, "net"
	d.Files = slices.DeleteFunc(slices.Clone(d.Files), func(f config.File) bool { return f.Path == `C:\k\overlay.exe` })
	for i := range d.Files {
		if d.Files[i].AfterService != "" {
			d.Files[i].AfterService, d.Files[i].Network = "kubelet", "net"
		}
	}
	if err := b.Validate(); err != nil {
		t.Fatal(err)
	}
	return b
}

// mustWait fails unless the host says that exactly these services wait for the network.
func mustWait(t *testing.T, f *fake, b config.Bundle, want ...api.Waiting) {
	t.Helper()
	plan, err := engineOf(f).Plan(t.Context(), &b)
	if err != nil {
		t.Fatal(err)
	}
	state, err := ReadState(t.Context(), f, f.clock)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([][]api.Waiting{want, want}, [][]api.Waiting{plan.Waiting, state.Waiting}); diff != "" {
		t.Errorf("what waits, by the plan and by the state (-want +got):\n%s", diff)
	}
}

// ofNetwork is what a host has because of the network.
func ofNetwork(f *fake) []string {
	var names []string
	for name := range f.picture() {
		if slices.Contains([]string{"service kube-proxy", `file c:\k\kube-proxy.conf`, "endpoint VIPEndpoint", "network net"}, name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// TestNetworkOfOthers: what needs a network that other programs make is not waited for, comes with it, survives that it is away for a
// while, and goes without it.
func TestNetworkOfOthers(t *testing.T) {
	first, _ := bundles(t)
	b := foreignBundle(t, first)
	waits := api.Waiting{Service: "kube-proxy", Network: "net"}
	f := usedHost(t, b)
	before := f.picture()
	converge(t, f, b)
	if got := ofNetwork(f); len(got) > 0 {
		t.Fatalf("without the network there is %q", got)
	}
	mustWait(t, f, b, waits)
	if drifts := watchAs(t, f, 2, "none"); len(drifts) > 0 || len(ofNetwork(f)) > 0 {
		t.Errorf("without the network the service finds %+v, and there is %q", drifts, ofNetwork(f))
	}
	if r := engineOf(f).Apply(t.Context(), &api.ApplyRequest{Bundle: b}); r.Outcome != api.OutcomeUnchanged || len(r.Changed) > 0 {
		t.Errorf("applied again without the network: %+v", r)
	}

	f.networks["net"] = true
	drifts := watchAs(t, f, 2, "none")
	for _, d := range drifts {
		if d.Error != "" || len(d.Left) > 0 {
			t.Errorf("with the network the service finds %+v", d)
		}
	}
	if got := ofNetwork(f); len(got) != 4 {
		t.Errorf("with the network there is %q", got)
	}
	f.check(t, b)
	mustWait(t, f, b)

	// It goes, say with whoever has made it, and the host is restarted meanwhile, and updated.
	delete(f.networks, "net")
	delete(f.endpoints, "VIPEndpoint")
	f.boot()
	if drifts := watchAs(t, f, 1, "none"); len(drifts) > 0 || f.services["kube-proxy"].state != ServiceStopped {
		t.Errorf("without its network it is %s, and the service finds %+v", f.services["kube-proxy"].state, drifts)
	}
	mustWait(t, f, b, waits)
	r := engineOf(f).RestartServices(t.Context())
	restarted := slices.ContainsFunc(r.Changed, func(i api.Item) bool { return i.Name == "kube-proxy" })
	if state := f.services["kube-proxy"].state; r.Outcome != api.OutcomeApplied || restarted || len(r.Changed) == 0 || state != ServiceStopped {
		t.Errorf("services are restarted without the network: %+v, and it is %s", r, state)
	}
	next := b
	next.Document.Files = slices.Clone(b.Document.Files)
	next.Document.Files[slices.IndexFunc(next.Document.Files, func(f config.File) bool { return f.Path == `C:\k\kube-proxy.exe` })] = program(`C:\k\kube-proxy.exe`, "2", restarts("kube-proxy"))
	converge(t, f, next)
	if r := engineOf(f).Apply(t.Context(), &api.ApplyRequest{Bundle: next}); r.Outcome != api.OutcomeUnchanged || len(r.Changed) > 0 || f.services["kube-proxy"].state != ServiceStopped {
		t.Errorf("updated without the network: %+v", r)
	}
	f.networks["net"] = true
	converge(t, f, next)
	f.check(t, next)

	if r := engineOf(f).RestartServices(t.Context()); r.Outcome != api.OutcomeApplied || len(r.Changed) != len(next.Document.Services) {
		t.Errorf("services are restarted with the network: %+v", r)
	}
	f.check(t, next)

	if r := engineOf(f).Cleanup(t.Context()); r.Outcome != api.OutcomeRemoved {
		t.Fatalf("cleanup: %+v", r)
	}
	before["network net"] = "there"
	f.checkClean(t, before)
}

// TestNetworkIsThere: a host whose network others have made before is configured at once.
func TestNetworkIsThere(t *testing.T) {
	first, _ := bundles(t)
	b := foreignBundle(t, first)
	f := usedHost(t, b)
	f.networks["net"] = true
	converge(t, f, b)
	f.check(t, b)
	mustWait(t, f, b)
}

// TestNetworkWasThereBefore: a program of ours that uses a network which others have made before can be taken away again, and leaves
// the network to them, also while nothing is known of the Node.
func TestNetworkWasThereBefore(t *testing.T) {
	first, waiting := nodeBundles(t)
	b := foreignBundle(t, first)
	f := usedHost(t, b)
	before := f.picture()
	f.networks["net"] = true
	converge(t, f, b)
	converge(t, f, first)
	f.check(t, first)
	network := ofNetwork(f)
	if r := engineOf(f).Apply(t.Context(), &api.ApplyRequest{Allow: config.ImpactReboot, Bundle: waiting}); r.Outcome != api.OutcomeApplied && r.Outcome != api.OutcomeUnchanged {
		t.Errorf("the Node is away: %+v", r)
	}
	if diff := cmp.Diff(network, ofNetwork(f)); diff != "" {
		t.Errorf("the Node is away (-want +got):\n%s", diff)
	}
	converge(t, f, first)
	f.services["overlay"] = fakeService{Settings: f.services["overlay"].Settings, state: ServiceStopped} // it crashes
	converge(t, f, b)
	f.check(t, b)
	if _, is := f.services["overlay"]; is || !f.networks["net"] {
		t.Errorf("there is service overlay: %t, the network of others: %t", is, f.networks["net"])
	}
	converge(t, f, first)
	if r := engineOf(f).Cleanup(t.Context()); r.Outcome != api.OutcomeRemoved {
		t.Fatalf("cleanup: %+v", r)
	}
	before["network net"] = "there"
	f.checkClean(t, before)
}

// TestNetworkWasNotMade: a program that has failed before it made its network can be taken away again.
func TestNetworkWasNotMade(t *testing.T) {
	first, _ := bundles(t)
	b := foreignBundle(t, first)
	f := usedHost(t, first)
	before := f.picture()
	f.failing["StartService overlay"] = errors.New("its program ended with code 2")
	for range 2 {
		send(t, f, first)
		if r := engineOf(f).Apply(t.Context(), &api.ApplyRequest{Allow: config.ImpactReboot, Bundle: first}); r.Outcome == api.OutcomeRebootRequired {
			f.boot()
		}
	}
	if inv, err := f.inventory(); err != nil || !slices.Contains(inv.Networks, "net") {
		t.Fatalf("what it was about to make is not recorded: %+v, %v", inv, err)
	}
	delete(f.networks, "net")
	delete(f.failing, "StartService overlay")
	converge(t, f, b)
	mustWait(t, f, b, api.Waiting{Service: "kube-proxy", Network: "net"})
	if r := engineOf(f).Cleanup(t.Context()); r.Outcome != api.OutcomeRemoved {
		t.Fatalf("cleanup: %+v", r)
	}
	f.checkClean(t, before)
}

// TestNetworkIsMadeLater: the network that others have made is gone, and a program of ours makes another one once it starts again,
// in a repair, which may be interrupted: it is ours.
func TestNetworkIsMadeLater(t *testing.T) {
	first, _ := bundles(t)
	f := usedHost(t, first)
	before := f.picture()
	f.networks["net"] = true
	converge(t, f, first)
	delete(f.networks, "net")
	delete(f.endpoints, "VIPEndpoint")
	for _, name := range []string{"kube-proxy", "overlay"} {
		s := f.services[name]
		s.state, s.pid = ServiceStopped, 0
		f.services[name] = s
	}
	watchAs(t, f, 3, "none")
	if !f.networks["net"] {
		t.Fatal("it makes no network")
	}
	if r := engineOf(f).Cleanup(t.Context()); r.Outcome != api.OutcomeRemoved {
		t.Fatalf("cleanup: %+v", r)
	}
	f.checkClean(t, before)
}

// TestNetworkIsThereAfterBoot: a service that waits for its Node runs on a host that has it, and its network, whenever the host is
// restarted.
func TestNetworkIsThereAfterBoot(t *testing.T) {
	first, _ := bundles(t)
	b := foreignBundle(t, first)
	f := usedHost(t, b)
	f.networks["net"] = true
	converge(t, f, b)
	waiting := b
	waiting.Document.Services = slices.Clone(b.Document.Services)
	waiting.Document.Services[len(waiting.Document.Services)-1].Waiting = true
	converge(t, f, waiting)
	f.boot()
	if state := f.services["kube-proxy"].state; state != ServiceStopped {
		t.Fatalf("it is %s, so that nothing is shown", state)
	}
	watchAs(t, f, 1, "none")
	f.check(t, waiting)
}

// TestNetworksAreAskedFor: whoever asks how a host is neither starts the Host Networking Service nor waits for one that hangs.
func TestNetworksAreAskedFor(t *testing.T) {
	first, _ := bundles(t)
	b := foreignBundle(t, first)
	waits := []api.Waiting{{Service: "kube-proxy", Network: "net"}}
	for _, tt := range []struct {
		name    string
		service *fakeService
		hang    func(ctx context.Context, released <-chan struct{})
		want    []api.Waiting
		err     string
	}{
		{name: "it does not exist", want: waits},
		{name: "it is stopped", service: &fakeService{state: ServiceStopped}, want: waits},
		{name: "it hangs", service: &fakeService{state: ServiceRunning}, err: "does not answer", hang: func(ctx context.Context, _ <-chan struct{}) { <-ctx.Done() }},
		{
			name: "it hangs, whatever the context", service: &fakeService{state: ServiceRunning}, err: "does not answer",
			hang: func(_ context.Context, released <-chan struct{}) { <-released },
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := usedHost(t, b)
				f.networks["net"] = true
				converge(t, f, b)
				delete(f.services, hnsService)
				if tt.service != nil {
					f.services[hnsService] = *tt.service
				}
				released := make(chan struct{})
				var asked atomic.Bool
				defer close(released)
				state, err := ReadState(t.Context(), slowNetworks{f, func(ctx context.Context) {
					asked.Store(true)
					if tt.hang != nil {
						tt.hang(ctx, released)
					}
				}}, f.clock)
				if (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
					t.Errorf("error %v, want one with %q", err, tt.err)
				}
				if state.AppliedRevision != mustRevision(t, b) || asked.Load() != (tt.hang != nil) {
					t.Errorf("it was asked: %t, and the host has revision %q", asked.Load(), state.AppliedRevision)
				}
				if diff := cmp.Diff(tt.want, state.Waiting); diff != "" {
					t.Errorf("what waits (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// slowNetworks is a host whose Host Networking Service answers once a function returns.
type slowNetworks struct {
	System
	wait func(context.Context)
}

func (s slowNetworks) HNSNetwork(ctx context.Context, _ string) (bool, error) {
	s.wait(ctx)
	return false, ctx.Err()
}

// TestNetworkIsNotTakenAway: a host whose pods are connected by a program of ours keeps it, and says so, where it is to have that no
// longer.
func TestNetworkIsNotTakenAway(t *testing.T) {
	first, _ := bundles(t)
	b := foreignBundle(t, first)
	f := usedHost(t, first)
	converge(t, f, first)
	before := f.picture()
	r := engineOf(f).Apply(t.Context(), &api.ApplyRequest{Allow: config.ImpactReboot, Bundle: b})
	if r.Outcome != api.OutcomeFailed || r.Reason != api.ReasonConflict || !strings.Contains(r.Error, "connected by network net, which a service makes that the host would have no longer") {
		t.Errorf("it is %+v", r)
	}
	if diff := cmp.Diff(before, f.picture()); diff != "" {
		t.Errorf("it was changed (-before +after):\n%s", diff)
	}
	f.check(t, first)
}

// TestAdoptedNetworkIsOurs: the network of a host that another program has configured was made by what is adopted: it goes when all is
// removed, and not before. A host that was adopted by a release that did not ask for the program that makes it is updated once the document
// has that, and until then says which one it needs.
func TestAdoptedNetworkIsOurs(t *testing.T) {
	f, first, _, before := othersHost(t)
	b, a := foreignBundle(t, first), adoption()
	if r := engineOf(f).Adopt(t.Context(), &api.AdoptRequest{Adoption: a, Bundle: first}); r.Outcome != api.OutcomeApplied {
		t.Fatalf("adopted: %+v", r)
	}
	if _, err := engineOf(f).Plan(t.Context(), &b); err == nil || !strings.Contains(err.Error(), "pods of the host are connected by network net") || !strings.Contains(err.Error(), "hack/take-from-wmco.sh") {
		t.Errorf("its update: %v", err)
	}
	converge(t, f, first)
	f.check(t, first)
	if r := engineOf(f).Cleanup(t.Context()); r.Outcome != api.OutcomeRemoved {
		t.Fatalf("cleanup: %+v", r)
	}
	f.checkClean(t, before)
}

// TestAdoptedWithOneNetwork: a host of which an earlier release has recorded only the network of pods loses the one below it as well, when it
// is removed after an update. Where the adoption has recorded none, they are those of others.
func TestAdoptedWithOneNetwork(t *testing.T) {
	for name, tt := range map[string]struct {
		none bool
		port bool // the update brings another port, which networks keep
		left []string
	}{
		"one":                    {left: nil},
		"one, with another port": {port: true, left: nil},
		"none":                   {none: true, left: []string{"base", "net"}},
	} {
		t.Run(name, func(t *testing.T) {
			f, first, second, _ := othersHost(t)
			f.networks["base"] = true
			adopted, a := first, adoption()
			if tt.none {
				adopted, a.NetworkService = second, "" // earlier releases did not ask for it
			}
			if r := engineOf(f).Adopt(t.Context(), &api.AdoptRequest{Adoption: a, Bundle: adopted}); r.Outcome != api.OutcomeApplied {
				t.Fatalf("adopted: %+v", r)
			}
			hns := *first.Document.HNS
			hns.Networks = []string{"base", "net"}
			first.Document.HNS = &hns
			if tt.port {
				hns.Keep = withPort(t, "").Document.HNS.Keep
				first.Document.Services = withPort(t, "9898").Document.Services
			}
			done := len(f.log)
			converge(t, f, first)
			if remade := !f.networks["base"]; remade != tt.port { // this host's program makes the other one only
				t.Errorf("networks are made again: %t, for another port: %t", remade, tt.port)
			}
			if r := engineOf(f).Cleanup(t.Context()); r.Outcome != api.OutcomeRemoved {
				t.Fatalf("cleanup: %+v", r)
			}
			if left := slices.Sorted(maps.Keys(f.networks)); !slices.Equal(left, tt.left) {
				t.Errorf("these networks are left: %v", left)
			}
			removed := slices.DeleteFunc(f.log[done:], func(call string) bool { return !strings.HasPrefix(call, "RemoveHNSNetwork") })
			if want := 2 - len(tt.left); !tt.port && len(removed) != want || tt.port && len(removed) != want+1 {
				t.Errorf("removed %v", removed)
			}
		})
	}
}

// TestAdoptKeepsTheNetwork: a host whose pods are connected by a service that it would lose is left alone, whatever the document expects of
// others. One that others have connected is adopted if they have, and the network stays theirs.
func TestAdoptKeepsTheNetwork(t *testing.T) {
	withoutService := func(f *fake) { delete(f.services, "overlay") }
	withoutNetwork := func(f *fake) {
		delete(f.networks, "net")
		delete(f.endpoints, "VIPEndpoint")
	}
	for name, tt := range map[string]struct {
		set    func(*fake)
		no     bool // the document has no network at all
		refuse string
	}{
		"a service makes it":              {set: func(*fake) {}, refuse: "hack/take-from-wmco.sh"},
		"a service has not made it":       {set: withoutNetwork, refuse: "hack/take-from-wmco.sh"},
		"the document has no network":     {set: func(*fake) {}, no: true, refuse: "service overlay connects the pods of the host"},
		"others have made it":             {set: withoutService},
		"others have not made it":         {set: func(f *fake) { withoutService(f); withoutNetwork(f) }, refuse: "there is no network net"},
		"nobody needs what there is none": {set: func(f *fake) { withoutService(f); withoutNetwork(f) }, no: true},
	} {
		t.Run(name, func(t *testing.T) {
			f, first, b, _ := othersHost(t)
			if !tt.no {
				b = foreignBundle(t, first)
			}
			tt.set(f)
			r := engineOf(f).Adopt(t.Context(), &api.AdoptRequest{Adoption: adoption(), Bundle: b})
			_, managed := f.services["manager"]
			if tt.refuse != "" {
				if r.Outcome != api.OutcomeFailed || r.Reason != api.ReasonConflict || !strings.Contains(r.Error, tt.refuse) || !managed {
					t.Errorf("the manager is there: %t; %+v", managed, r)
				}
				return
			}
			if r.Outcome != api.OutcomeApplied {
				t.Fatalf("adopted: %+v", r)
			}
			if tt.no {
				return
			}
			converge(t, f, b)
			f.check(t, b)
			if r := engineOf(f).Cleanup(t.Context()); r.Outcome != api.OutcomeRemoved || !f.networks["net"] {
				t.Errorf("cleanup: %+v; the network of others is there: %t", r, f.networks["net"])
			}
		})
	}
}
