// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package engine

import (
	"errors"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
	"github.com/openshift/windows-instance-api/pkg/agent/api/config"
)

const (
	importedPath        = `C:\k\imported-certs.pem`
	managerCertificates = `C:\k\manager-certs`
	agentProgram        = api.Root + `\windows-node-agent-0123456789abcdef.exe`
)

// ourHost is a host that somebody has used before, and that we have configured, with our service.
func ourHost(t *testing.T) (f *fake, first config.Bundle) {
	t.Helper()
	first, _ = bundles(t)
	first.Document.Services = append(slices.Clone(first.Document.Services), config.Service{
		Name: api.ServiceName, Description: config.Description(api.ServiceName), BinaryPath: agentProgram, Arguments: []string{"run"}, StartType: config.StartAutomatic, OnChange: restarts(api.ServiceName),
		Recovery: &config.Recovery{ResetAfterSeconds: 300, RestartDelaysMilliseconds: []int64{1000}},
	})
	first.Document.Routes = []netip.Prefix{netip.MustParsePrefix("169.254.169.254/32")}
	f = usedHost(t, first)
	f.files[fold(agentProgram)] = fakeFile{Content: "agent"}
	converge(t, f, first)
	if f.services[api.ServiceName].state != ServiceRunning {
		t.Fatal("our service does not run")
	}
	return f, first
}

func release(t *testing.T, f *fake) *api.Result {
	t.Helper()
	return engineOf(f).Release(t.Context(), &api.ReleaseRequest{Imported: importedPath, Manager: "manager", ManagerCertificates: managerCertificates})
}

// withoutRelease drops from two pictures of a host what a release changes.
func withoutRelease(pictures ...map[string]string) {
	for _, picture := range pictures {
		for _, name := range []string{"service kube-proxy", "service " + api.ServiceName, "file " + fold(importedPath)} {
			delete(picture, name)
		}
		maps.DeleteFunc(picture, func(name, _ string) bool {
			return strings.HasPrefix(name, "file "+fold(api.ReleasedDirectory)) || strings.HasPrefix(name, "file "+fold(api.PayloadDirectory))
		})
	}
}

// TestRelease: the host is as it was, and runs on, also after a boot; what is recorded of it is gone, and with it our service. What was
// there before us is kept.
func TestRelease(t *testing.T) {
	f, first := ourHost(t)
	is, proxy, done := f.picture(), f.services["kube-proxy"], len(f.log)
	r := release(t, f)
	if r.Outcome != api.OutcomeReleased {
		t.Fatalf("released: %+v", r)
	}
	var changed []string
	for _, i := range r.Changed {
		changed = append(changed, i.String())
	}
	if diff := cmp.Diff([]string{"Update Service kube-proxy", "Delete Service " + api.ServiceName, "Create File " + importedPath}, changed); diff != "" {
		t.Errorf("changed (-want +got)\n%s", diff)
	}
	if diff := cmp.Diff(&api.Left{Aside: true, Routes: []string{"169.254.169.254/32"}}, r.Left); diff != "" {
		t.Errorf("left (-want +got)\n%s", diff)
	}
	now := f.picture()
	withoutRelease(is, now)
	if diff := cmp.Diff(is, now); diff != "" {
		t.Errorf("the host has changed (-before +after):\n%s", diff)
	}
	if i := slices.IndexFunc(f.log[done:], func(call string) bool {
		return strings.HasPrefix(call, "StartService") || strings.HasPrefix(call, "StopService") && call != "StopService "+api.ServiceName
	}); i >= 0 {
		t.Errorf("a service was started or stopped: %v", f.log[done:])
	}
	want := proxy.Settings
	want.StartType = config.StartAutomatic
	if got := f.services["kube-proxy"]; got.pid != proxy.pid || cmp.Diff(want, got.Settings) != "" || got.Recovery == nil {
		t.Errorf("kube-proxy was %+v, and is %+v", proxy, got)
	}
	if _, there := f.services[api.ServiceName]; there {
		t.Error("our service is there")
	}
	for path := range f.files {
		if config.Below(path, api.Root) && path != fold(api.Root) && path != fold(agentProgram) {
			t.Errorf("%s is left", path)
		}
	}
	if got := f.files[fold(importedPath)].Content; !strings.Contains(got, strings.TrimSpace(first.Document.Certificates[0].PEM)) || strings.Contains(got, strings.TrimSpace(first.Document.Certificates[1].PEM)) {
		t.Errorf("recorded as imported: %s", got)
	}
	kept := f.children(api.ReleasedDirectory)
	if len(kept) != 1 || f.files[fold(api.ReleasedDirectory+`\`+kept[0])].Content != "theirs" || f.files[fold(api.ReleasedDirectory)].Access != config.AccessAdministrators {
		t.Errorf("kept: %v", kept)
	}
	if state, err := ReadState(t.Context(), f, f.clock); err != nil || state.AppliedRevision != "" || state.ApplyingRevision != "" || state.NodeName != "" {
		t.Errorf("it says %+v, %v", state, err)
	}
	before := f.mutations
	if r := release(t, f); r.Outcome != api.OutcomeUnchanged || f.mutations != before {
		t.Errorf("released again: %+v, %v", r, f.log[before:])
	}
	f.boot()
	for _, name := range []string{"containerd", "kubelet", "overlay", "kube-proxy"} {
		if s := f.services[name]; s.state != ServiceRunning {
			t.Errorf("after a boot service %s is %s", name, s.state)
		}
	}
	before = f.mutations
	if r := engineOf(f).Cleanup(t.Context()); r.Outcome != api.OutcomeRemoved || f.mutations != before {
		t.Errorf("a removal changes it: %+v, %v", r, f.log[before:])
	}
}

// TestReleaseToManager: the program that has the host next, and is there already, has set how services are started.
func TestReleaseToManager(t *testing.T) {
	f, _ := ourHost(t)
	f.services["manager"] = f.services["overlay"]
	proxy := f.services["kube-proxy"].Settings
	r := engineOf(f).Release(t.Context(), &api.ReleaseRequest{Manager: "manager"})
	if r.Outcome != api.OutcomeReleased {
		t.Fatalf("released: %+v", r)
	}
	if diff := cmp.Diff(proxy, f.services["kube-proxy"].Settings); diff != "" {
		t.Errorf("kube-proxy (-before +after)\n%s", diff)
	}
}

// TestReleaseRemovesExpiredCertificates: the program that has the host next finds no certificates that nobody has renewed. Those that its
// service renews stay.
func TestReleaseRemovesExpiredCertificates(t *testing.T) {
	for name, there := range map[string]bool{"nobody renews them": false, "the manager renews them": true} {
		t.Run(name, func(t *testing.T) {
			f, first, _, _ := othersHost(t)
			if r := engineOf(f).Adopt(t.Context(), &api.AdoptRequest{Adoption: adoption(), Bundle: first}); r.Outcome != api.OutcomeApplied {
				t.Fatalf("adopted: %+v", r)
			}
			if there {
				f.services["manager"] = f.services["overlay"]
			}
			request := &api.ReleaseRequest{Manager: "manager", ManagerCertificates: managerCertificates}
			r := engineOf(f).Release(t.Context(), request)
			removed := slices.ContainsFunc(r.Changed, func(i api.Item) bool { return i.String() == "Delete Directory "+managerCertificates })
			if r.Outcome != api.OutcomeReleased || removed == there {
				t.Errorf("released: %+v", r)
			}
			for path := range f.files {
				if config.Below(path, managerCertificates) && !there {
					t.Errorf("%s is left", path)
				}
			}
			if _, is := f.files[fold(managerCertificates+`\current.pem`)]; is != there {
				t.Errorf("the certificate is there: %t", is)
			}
			if r := engineOf(f).Release(t.Context(), request); r.Outcome != api.OutcomeUnchanged {
				t.Errorf("released again: %+v", r)
			}
		})
	}
}

// TestReleaseAndAdopt: a host that was given up can be taken over again, as that of others, and updated.
func TestReleaseAndAdopt(t *testing.T) {
	f, first := ourHost(t)
	if r := release(t, f); r.Outcome != api.OutcomeReleased {
		t.Fatalf("released: %+v", r)
	}
	r := engineOf(f).Adopt(t.Context(), &api.AdoptRequest{Adoption: api.Adoption{
		Revision: "other-1", NodeName: "win-1", Manager: "manager", Services: []string{"containerd", "kubelet", "overlay", "kube-proxy"},
		Requires: []api.RequiredService{{Name: "containerd"}, {Name: "kubelet", Contains: []string{"--node-ip="}}}, Files: []string{importedPath},
	}, Bundle: first})
	if r.Outcome != api.OutcomeApplied {
		t.Fatalf("adopted: %+v", r)
	}
	plan, err := engineOf(f).Plan(t.Context(), &first)
	if err != nil || plan.Impact != config.ImpactRestart {
		t.Errorf("the update is %+v, %v", plan, err)
	}
	converge(t, f, first)
	f.check(t, first)
}

// TestReleaseTells: what whoever has the host next has to know of it.
func TestReleaseTells(t *testing.T) {
	for name, tt := range map[string]struct {
		set    func(f *fake, inv *inventory)
		want   api.Left
		reboot []string
	}{
		"as it should be": {func(*fake, *inventory) {}, api.Left{}, nil},
		"half way":        {func(_ *fake, inv *inventory) { inv.Applying = "next" }, api.Left{Incomplete: true}, nil},
		"a key replaced":  {func(f *fake, _ *inventory) { f.files[fold(api.ReplacedKeysPath)] = fakeFile{Content: "{}"} }, api.Left{KeysReplaced: true}, nil},
		"a restart is due": {func(f *fake, inv *inventory) {
			inv.Reboot = &pendingReboot{Boot: "boot-2", Reasons: []string{"Update Environment NO_PROXY"}}
		}, api.Left{}, []string{"Update Environment NO_PROXY"}},
		"a restart is done": {func(_ *fake, inv *inventory) {
			inv.Reboot = &pendingReboot{Boot: "boot-1", Reasons: []string{"Update Environment NO_PROXY"}}
		}, api.Left{}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			f, _ := ourHost(t)
			st, err := openStore(f)
			if err != nil {
				t.Fatal(err)
			}
			f.boots = 2
			tt.set(f, st.inventory)
			content, err := st.encode()
			if err != nil {
				t.Fatal(err)
			}
			f.files[fold(inventoryPath)] = fakeFile{Content: string(content)}
			tt.want.Aside, tt.want.Routes = true, []string{"169.254.169.254/32"}
			r := release(t, f)
			if diff := cmp.Diff(&tt.want, r.Left); r.Outcome != api.OutcomeReleased || diff != "" || !slices.Equal(r.Reboot, tt.reboot) {
				t.Errorf("%+v (-want +got)\n%s", r, diff)
			}
			if _, err := f.inventory(); err == nil {
				t.Error("there is an inventory")
			}
		})
	}
}

// TestReleaseLeavesWhatOthersRecorded: a record of imported certificates that is there is that of the other program.
func TestReleaseLeavesWhatOthersRecorded(t *testing.T) {
	f, _ := ourHost(t)
	f.files[fold(importedPath)] = fakeFile{Content: "theirs"}
	if r := release(t, f); r.Outcome != api.OutcomeReleased || f.files[fold(importedPath)].Content != "theirs" {
		t.Errorf("%+v; recorded %s", r, f.files[fold(importedPath)].Content)
	}
}

// TestReleaseOfAnAdoptedHost: one that was adopted and never updated is as it was before, but for the service of the others, and the
// certificates that it renewed.
func TestReleaseOfAnAdoptedHost(t *testing.T) {
	f, first, _, _ := othersHost(t)
	if r := engineOf(f).Adopt(t.Context(), &api.AdoptRequest{Adoption: adoption(), Bundle: first}); r.Outcome != api.OutcomeApplied {
		t.Fatalf("adopted: %+v", r)
	}
	is := f.picture()
	maps.DeleteFunc(is, func(name, _ string) bool { return strings.HasPrefix(name, "file "+fold(managerCertificates)) })
	if r := release(t, f); r.Outcome != api.OutcomeReleased || len(r.Changed) != 1 {
		t.Errorf("released: %+v", r)
	}
	if diff := cmp.Diff(is, f.picture()); diff != "" {
		t.Errorf("the host has changed (-before +after):\n%s", diff)
	}
}

// TestReleaseKeepsTheHost: what fails before everything is given up leaves the host ours, with its service.
func TestReleaseKeepsTheHost(t *testing.T) {
	for _, call := range []string{"SetAutomatic kube-proxy", "Remove " + managerCertificates + `\one.pem`, "StopService " + api.ServiceName} {
		f, _ := ourHost(t)
		f.files[fold(managerCertificates)], f.files[fold(managerCertificates+`\one.pem`)] = fakeFile{Directory: true}, fakeFile{Content: "expired"}
		f.failing[call], f.failing["KillProcess "+agentProgram] = errors.New("access is denied"), errors.New("access is denied")
		r := release(t, f)
		s := f.services[api.ServiceName]
		if inv, err := f.inventory(); r.Outcome != api.OutcomeFailed || !strings.Contains(r.Error, "access is denied") || err != nil || inv.Applied == "" || s.state != ServiceRunning || s.Recovery == nil {
			t.Errorf("%s: %+v, the service is %+v, %v", call, r, s, err)
		}
	}
}

// sameAs is another host that is as this one.
func (f *fake) sameAs() *fake {
	other := newFake()
	other.files, other.services, other.environment, other.certs = maps.Clone(f.files), maps.Clone(f.services), maps.Clone(f.environment), maps.Clone(f.certs)
	other.rules, other.exclusions, other.features = maps.Clone(f.rules), maps.Clone(f.exclusions), maps.Clone(f.features)
	other.endpoints, other.networks = maps.Clone(f.endpoints), maps.Clone(f.networks)
	other.hostname, other.next, other.boots, other.lastPID, other.ticks = f.hostname, f.next, f.boots, f.lastPID, f.ticks
	return other
}

// TestReleaseCrash: wherever it is interrupted, the same can be requested again and ends as if it had not been.
func TestReleaseCrash(t *testing.T) {
	start, first := ourHost(t)
	whole := start.sameAs()
	if r := release(t, whole); r.Outcome != api.OutcomeReleased {
		t.Fatalf("released: %+v", r)
	}
	want := whole.picture()
	for at := 2; ; at++ {
		f := start.sameAs()
		crashed := crashing(f, at, func() { release(t, f) })
		f.loseProcess()
		if _, ours := f.files[fold(inventoryPath)]; ours { // somebody may have it configured again in place of that, and removed later
			kept := f.sameAs()
			converge(t, kept, first)
			if r := engineOf(kept).Cleanup(t.Context()); r.Outcome != api.OutcomeRemoved {
				t.Fatalf("crash %d: removed: %+v", at, r)
			}
			if got := kept.files[`c:\k\was-there.conf`].Content; got != "theirs" {
				t.Fatalf("crash %d: who has kept it and removed it then finds %q", at, got)
			}
		}
		if r := release(t, f); r.Outcome == api.OutcomeFailed {
			t.Fatalf("crash %d: %+v", at, r)
		}
		if diff := cmp.Diff(want, f.picture()); diff != "" {
			t.Fatalf("crash %d: (-want +got)\n%s", at, diff)
		}
		for path := range f.files {
			if config.Below(path, api.Root) && path != fold(api.Root) && path != fold(agentProgram) {
				t.Fatalf("crash %d: %s is left", at, path)
			}
		}
		if !crashed {
			return
		}
	}
}
