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

// othersHost is a host that another program has configured much as the first document has it, with a manager of its
// own, and how the host was before that.
func othersHost(t *testing.T) (f *fake, first, second config.Bundle, before map[string]string) {
	t.Helper()
	first, second = bundles(t)
	for _, b := range []*config.Bundle{&first, &second} {
		b.Document.Certificates = nil
	}
	f = newFake()
	f.files[`c:\k`] = fakeFile{Directory: true}
	f.files[`c:\k\other.txt`] = fakeFile{Content: "of somebody"}
	before = f.picture()
	converge(t, f, first)
	for path := range f.files {
		if strings.HasPrefix(path, fold(stateDirectory)) || config.Below(path, api.PayloadDirectory) {
			delete(f.files, path)
		}
	}
	for path, content := range map[string]string{
		`c:\k\manager.exe`: "manager", `c:\k\manager-certs\one.pem`: "secret", `c:\k\kubelet.conf`: "as they have it", `c:\k\csi.exe`: "csi",
	} {
		f.files[path] = fakeFile{Content: content}
	}
	f.files[`c:\k\manager-certs`] = fakeFile{Directory: true}
	f.files[`c:\k\theirs`] = fakeFile{Directory: true}
	f.services["manager"] = fakeService{state: ServiceRunning, Settings: config.ServiceSettings{CommandLine: `C:\k\manager.exe run`, Description: config.Description("manager")}}
	f.services["csi"] = fakeService{state: ServiceRunning, Settings: config.ServiceSettings{CommandLine: `C:\k\csi.exe`, Description: config.Description("csi")}}
	return f, first, second, before
}

func adoption() api.Adoption {
	return api.Adoption{
		Revision: "other-1.2.3", NodeName: "WIN-1", Manager: "manager",
		Requires: []api.RequiredService{{Name: "containerd"}, {Name: "kubelet", Contains: []string{`C:\K\KUBELET.exe`, "--node-ip="}}},
		Services: []string{"containerd", "kubelet", "overlay", "csi", "kube-proxy", "absent"},
		Files:    []string{`C:\k\manager.exe`, `C:\k\csi.exe`, `C:\k\absent.exe`}, Directories: []string{`C:\k\theirs`}, Trees: []string{`C:\k\manager-certs`},
	}
}

// TestAdoptAsItIs: what others have configured is ours, and nothing of it has changed but that their manager is gone. The next
// document changes it, and takes away what they had besides. What was there before them stays.
func TestAdoptAsItIs(t *testing.T) {
	f, first, second, before := othersHost(t)
	is, done := f.picture(), len(f.log)
	r := engineOf(f).Adopt(t.Context(), &api.AdoptRequest{Adoption: adoption(), Bundle: first})
	if r.Outcome != api.OutcomeApplied || len(r.Changed) != 1 || r.Changed[0].Name != "manager" || r.Revision != "other-1.2.3" {
		t.Fatalf("adopted: %+v", r)
	}
	for name := range is {
		if strings.Contains(name, "manager") && strings.HasPrefix(name, "service") {
			delete(is, name)
		}
	}
	now := f.picture()
	for name := range now {
		if strings.Contains(name, fold(stateDirectory)) {
			delete(now, name)
		}
	}
	if diff := cmp.Diff(is, now); diff != "" {
		t.Errorf("the host has changed (-before +after):\n%s", diff)
	}
	if i := slices.IndexFunc(f.log[done:], func(call string) bool { return strings.HasPrefix(call, "StartService") }); i >= 0 {
		t.Errorf("a service was started: %v", f.log[done:])
	}
	state, err := ReadState(f, f.clock)
	if err != nil || state.AppliedRevision != "other-1.2.3" || state.ApplyingRevision != "" || state.NodeName != "win-1" {
		t.Errorf("it says %+v, %v", state, err)
	}
	if r := engineOf(f).Adopt(t.Context(), &api.AdoptRequest{Adoption: adoption(), Bundle: first}); r.Outcome != api.OutcomeUnchanged {
		t.Errorf("adopted again: %+v", r)
	}
	plan, err := engineOf(f).Plan(t.Context(), &first)
	if err != nil {
		t.Fatal(err)
	}
	var items []string
	for _, i := range plan.Items {
		items = append(items, i.String())
	}
	for _, want := range []string{`Update File C:\k\kubelet.conf`, "Delete Service csi", `Delete File C:\k\manager.exe`, `Delete File C:\k\manager-certs\one.pem`, `Delete Directory C:\k\manager-certs`} {
		if !slices.Contains(items, want) {
			t.Errorf("the next update does not %s, but %v", want, items)
		}
	}
	converge(t, f, first)
	f.check(t, first)
	if state, err := ReadState(f, f.clock); err != nil || state.AppliedRevision != mustRevision(t, first) {
		t.Errorf("after the update it says %+v, %v", state, err)
	}
	f.files[`c:\k\until`] = fakeFile{Content: "x"}
	converge(t, f, second)
	delete(f.files, `c:\k\until`)
	if r := engineOf(f).Cleanup(t.Context()); r.Outcome != api.OutcomeRemoved {
		t.Fatalf("cleanup: %+v", r)
	}
	f.checkClean(t, before)
}

func mustRevision(t *testing.T, b config.Bundle) string {
	t.Helper()
	revision, err := b.Document.Revision()
	if err != nil {
		t.Fatal(err)
	}
	return revision
}

// TestAdoptAndCleanup: a host that was adopted and never updated is left as it was before the others came.
func TestAdoptAndCleanup(t *testing.T) {
	f, first, _, before := othersHost(t)
	if r := engineOf(f).Adopt(t.Context(), &api.AdoptRequest{Adoption: adoption(), Bundle: first}); r.Outcome != api.OutcomeApplied {
		t.Fatalf("adopted: %+v", r)
	}
	if r := engineOf(f).Cleanup(t.Context()); r.Outcome != api.OutcomeRemoved {
		t.Fatalf("cleanup: %+v", r)
	}
	f.checkClean(t, before)
}

// TestAdoptCrash: wherever it is interrupted, nothing is ours before all is, and the same can be requested again.
func TestAdoptCrash(t *testing.T) {
	whole, first, _, _ := othersHost(t)
	request := &api.AdoptRequest{Adoption: adoption(), Bundle: first}
	engineOf(whole).Adopt(t.Context(), request)
	want := whole.picture()
	for at := 2; ; at++ {
		f, _, _, _ := othersHost(t)
		crashed := crashing(f, at, func() { engineOf(f).Adopt(t.Context(), request) })
		f.loseProcess()
		if state, err := ReadState(f, f.clock); err != nil || state.ApplyingRevision != "" {
			t.Fatalf("crash %d: %+v, %v", at, state, err)
		}
		if r := engineOf(f).Adopt(t.Context(), request); r.Outcome == api.OutcomeFailed {
			t.Fatalf("crash %d: %+v", at, r)
		}
		if diff := cmp.Diff(want, f.picture()); diff != "" {
			t.Fatalf("crash %d: (-want +got)\n%s", at, diff)
		}
		if !crashed {
			return
		}
	}
}

// TestAdoptRefuses: a host that is not equivalent, or is ours, keeps its manager.
func TestAdoptRefuses(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(t *testing.T, f *fake, first config.Bundle)
		want   string
	}{
		"no kubelet": {func(_ *testing.T, f *fake, _ config.Bundle) { delete(f.services, "kubelet") }, "there is no service kubelet"},
		"containerd does not run": {func(_ *testing.T, f *fake, _ config.Bundle) {
			s := f.services["containerd"]
			s.state = ServiceStopped
			f.services["containerd"] = s
		}, "service containerd is Stopped"},
		"another kubelet": {func(_ *testing.T, f *fake, _ config.Bundle) {
			s := f.services["kubelet"]
			s.Settings.CommandLine = `C:\theirs\kubelet.exe`
			f.services["kubelet"] = s
		}, `service kubelet does not run with C:\K\KUBELET.exe`},
		"another network": {func(_ *testing.T, f *fake, _ config.Bundle) { delete(f.networks, "net") }, "there is no network net"},
		"ours":            {func(t *testing.T, f *fake, first config.Bundle) { converge(t, f, first) }, "has configured the host before"},
	} {
		t.Run(name, func(t *testing.T) {
			f, first, _, _ := othersHost(t)
			tt.change(t, f, first)
			r := engineOf(f).Adopt(t.Context(), &api.AdoptRequest{Adoption: adoption(), Bundle: first})
			if r.Outcome != api.OutcomeFailed || r.Reason != api.ReasonConflict || !strings.Contains(r.Error, tt.want) {
				t.Errorf("%+v", r)
			}
			if f.services["manager"].state != ServiceRunning {
				t.Error("the manager was ended")
			}
		})
	}
}
