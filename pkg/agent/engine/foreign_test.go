// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package engine

import (
	"slices"
	"strings"
	"testing"

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

// TestAdoptedNetworkIsOurs: the network of a host that another program has configured was made by what is adopted, also where the
// document expects it of others: it goes when all is removed, and not before.
func TestAdoptedNetworkIsOurs(t *testing.T) {
	f, first, _, before := othersHost(t)
	b, a := foreignBundle(t, first), adoption()
	a.Files = append(a.Files, `C:\k\overlay.exe`)
	if r := engineOf(f).Adopt(t.Context(), &api.AdoptRequest{Adoption: a, Bundle: b}); r.Outcome != api.OutcomeApplied {
		t.Fatalf("adopted: %+v", r)
	}
	if _, err := engineOf(f).Plan(t.Context(), &b); err == nil || !strings.Contains(err.Error(), "pods of the host are connected by network net") {
		t.Errorf("its update: %v", err)
	}
	if r := engineOf(f).Cleanup(t.Context()); r.Outcome != api.OutcomeRemoved {
		t.Fatalf("cleanup: %+v", r)
	}
	f.checkClean(t, before)
}

// TestAdoptWithoutNetworkOfOthers: a host without a network that others make is as it has to be to be adopted.
func TestAdoptWithoutNetworkOfOthers(t *testing.T) {
	f, first, _, _ := othersHost(t)
	delete(f.networks, "net")
	delete(f.endpoints, "VIPEndpoint")
	if r := engineOf(f).Adopt(t.Context(), &api.AdoptRequest{Adoption: adoption(), Bundle: foreignBundle(t, first)}); r.Outcome != api.OutcomeApplied {
		t.Errorf("adopted: %+v", r)
	}
}
