// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package engine

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
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
	f.files[`c:\k\link-of-others`] = fakeFile{Link: true}
	f.certs["root/other"] = true
	f.environment["PATH"] = "x"
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
	f.files[`c:\k\manager-certs\current.pem`] = fakeFile{Link: true}
	f.files[`c:\k\registries`] = fakeFile{Directory: true}
	f.files[`c:\k\registries\hosts.toml`] = fakeFile{Content: "mirrors"}
	f.files[`c:\k\registries\link`] = fakeFile{Link: true}
	imported, gone := theirCertificates(t)
	f.files[`c:\k\imported.pem`] = fakeFile{Content: "# of a registry\n" + imported.PEM + "\n\n" + gone.PEM}
	f.certs[certificateKey(imported.Store, imported.Fingerprint)] = true
	f.environment["NO_PROXY"], f.environment["HTTPS_PROXY"] = "as they have it", "http://theirs"
	f.files[`c:\k\theirs`] = fakeFile{Directory: true}
	f.services["csi"] = fakeService{state: ServiceRunning, Settings: config.ServiceSettings{CommandLine: `C:\k\csi.exe`, Description: config.Description("csi")}}
	for name, s := range f.services { // the manager starts them
		s.Settings.StartType, s.Recovery = config.StartManual, nil
		f.services[name] = s
	}
	f.services["manager"] = fakeService{state: ServiceRunning, Settings: config.ServiceSettings{CommandLine: `C:\k\manager.exe run`, Description: config.Description("manager"), StartType: config.StartAutomatic}}
	return f, first, second, before
}

var (
	once                   sync.Once
	importedCert, goneCert config.Certificate
)

// theirCertificates are those that the manager of each host has on record, of which somebody has removed one.
func theirCertificates(t *testing.T) (imported, gone config.Certificate) {
	t.Helper()
	once.Do(func() { importedCert, goneCert = certificate(t), certificate(t) })
	return importedCert, goneCert
}

func adoption() api.Adoption {
	return api.Adoption{
		Revision: "other-1.2.3", NodeName: "WIN-1", Manager: "manager", NetworkService: "overlay",
		Requires: []api.RequiredService{{Name: "containerd"}, {Name: "kubelet", Contains: []string{`C:\K\KUBELET.exe`, "--node-ip="}}},
		Services: []string{"containerd", "kubelet", "overlay", "csi", "kube-proxy", "absent"},
		Files:    []string{`C:\k\manager.exe`, `C:\k\csi.exe`, `C:\k\absent.exe`, `C:\k\imported.pem`}, Directories: []string{`C:\k\theirs`, `C:\k\manager-certs`},
		Trees: []string{`C:\k\registries`}, Whole: []string{`C:\k\manager-certs`, `C:\k\absent`},
		Environment: []string{"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY"}, Imported: `C:\k\imported.pem`,
	}
}

// TestAdoptAsItIs: what others have configured is ours, and nothing of it has changed but that their manager is gone. The next
// document changes it, and takes away what they had besides. What was there before them stays.
func TestAdoptAsItIs(t *testing.T) {
	f, first, second, before := othersHost(t)
	is, done := f.picture(), len(f.log)
	r := engineOf(f).Adopt(t.Context(), &api.AdoptRequest{Adoption: adoption(), Bundle: first})
	if r.Outcome != api.OutcomeApplied || r.Revision != "other-1.2.3" {
		t.Fatalf("adopted: %+v", r)
	}
	var changed []string
	for _, i := range r.Changed {
		changed = append(changed, i.String())
	}
	if diff := cmp.Diff([]string{
		"Update Service containerd", "Update Service kubelet", "Update Service overlay", "Update Service csi", "Update Service kube-proxy", "Delete Service manager",
	}, changed); diff != "" {
		t.Errorf("changed (-want +got)\n%s", diff)
	}
	now := f.picture()
	for name := range is {
		if strings.HasPrefix(name, "service") {
			delete(is, name)
			delete(now, name)
		}
	}
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
	state, err := ReadState(t.Context(), f, f.clock)
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
	for _, want := range []string{
		`Update File C:\k\kubelet.conf`, "Delete Service csi", `Delete File C:\k\manager.exe`, `Delete File C:\k\registries\hosts.toml`, `Delete File C:\k\registries\link`,
		`Delete Directory C:\k\registries`, `Delete Directory C:\k\manager-certs`, "Update Environment NO_PROXY", "Delete Environment HTTPS_PROXY",
	} {
		if !slices.Contains(items, want) {
			t.Errorf("the next update does not %s, but %v", want, items)
		}
	}
	converge(t, f, first)
	f.check(t, first)
	if state, err := ReadState(t.Context(), f, f.clock); err != nil || state.AppliedRevision != mustRevision(t, first) {
		t.Errorf("after the update it says %+v, %v", state, err)
	}
	if len(f.certs) != 1 {
		t.Errorf("after the update the host trusts %v", f.certs)
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

// TestPlanAdoption: what the first update does is known before the host is adopted, all of it, and nothing is changed for the answer. A host
// that cannot be adopted says so.
func TestPlanAdoption(t *testing.T) {
	f, first, _, _ := othersHost(t)
	request := func(b config.Bundle) *api.AdoptRequest { return &api.AdoptRequest{Adoption: adoption(), Bundle: b} }
	before, mutations := f.picture(), f.mutations
	plan, err := engineOf(f).PlanAdoption(t.Context(), request(first))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := engineOf(f).PlanAdoption(t.Context(), request(foreignBundle(t, first))); err == nil || !strings.Contains(err.Error(), "hack/take-from-wmco.sh") {
		t.Errorf("without the program that connects pods: %v", err)
	}
	if diff := cmp.Diff(before, f.picture()); diff != "" || f.mutations != mutations {
		t.Errorf("the host was changed: %q (-before +after)\n%s", f.log, diff)
	}
	if r := engineOf(f).Adopt(t.Context(), request(first)); r.Outcome != api.OutcomeApplied {
		t.Fatalf("adopted: %+v", r)
	}
	want, err := engineOf(f).Plan(t.Context(), &first)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, plan); diff != "" {
		t.Errorf("before it was adopted (-afterwards +before):\n%s", diff)
	}
	if !slices.ContainsFunc(want.Items, func(i api.Item) bool { return i.String() == "Delete Service csi" }) || want.Impact != config.ImpactReboot {
		t.Errorf("it is %+v", want)
	}
	repeated := request(first)
	repeated.Adoption.Revision = "wmco-unknown" // whoever asks does not know yet that it was adopted
	again, err := engineOf(f).PlanAdoption(t.Context(), repeated)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, again); diff != "" {
		t.Errorf("asked again (-want +got):\n%s", diff)
	}
	converge(t, f, first)
	if _, err := engineOf(f).PlanAdoption(t.Context(), request(first)); err == nil || !strings.Contains(err.Error(), "nothing to adopt") {
		t.Errorf("after the update: %v", err)
	}
}

// TestAdoptedHostBoots: Windows starts the services of a host that was adopted and not updated yet, when it boots and when a program
// ends, as the manager did before. Nothing else of them changes, and nothing of one that somebody has disabled.
func TestAdoptedHostBoots(t *testing.T) {
	f, first, _, _ := othersHost(t)
	const disabled = config.StartType("Disabled")
	s := f.services["csi"]
	s.Settings.StartType = disabled
	f.services["csi"] = s
	before := maps.Clone(f.services)
	if r := engineOf(f).Adopt(t.Context(), &api.AdoptRequest{Adoption: adoption(), Bundle: first}); r.Outcome != api.OutcomeApplied {
		t.Fatalf("adopted: %+v", r)
	}
	for _, name := range []string{"containerd", "kubelet", "overlay", "kube-proxy"} {
		want := before[name].Settings
		want.StartType = config.StartAutomatic
		if diff := cmp.Diff(want, f.services[name].Settings); diff != "" {
			t.Errorf("service %s (-want +got)\n%s", name, diff)
		}
		if f.services[name].pid != before[name].pid || f.services[name].Recovery == nil {
			t.Errorf("service %s is %+v", name, f.services[name])
		}
	}
	if s := f.services["csi"]; s.Settings.StartType != disabled || s.Recovery != nil {
		t.Errorf("the disabled service is %+v", s)
	}
	f.boot()
	for _, name := range []string{"containerd", "kubelet", "overlay", "kube-proxy"} {
		if s := f.services[name]; s.state != ServiceRunning {
			t.Errorf("after a boot service %s is %s", name, s.state)
		}
	}
	if r := engineOf(f).Adopt(t.Context(), &api.AdoptRequest{Adoption: adoption(), Bundle: first}); r.Outcome != api.OutcomeUnchanged {
		t.Errorf("adopted again: %+v", r)
	}
}

// TestAdoptedServicesAreRestarted: the services of a host that was adopted and not updated yet are restarted as those of any other
// host, also after an interruption. One that somebody has disabled or removed stays away.
func TestAdoptedServicesAreRestarted(t *testing.T) {
	f, first, _, _ := othersHost(t)
	if r := engineOf(f).Adopt(t.Context(), &api.AdoptRequest{Adoption: adoption(), Bundle: first}); r.Outcome != api.OutcomeApplied {
		t.Fatalf("adopted: %+v", r)
	}
	f.changeSettings("csi", func(s *fakeService) { s.Settings.StartType, s.state, s.pid = "Disabled", ServiceStopped, 0 })
	delete(f.services, "kube-proxy")
	before := maps.Clone(f.services)
	f.failing["StartService kubelet"] = errors.New("access denied")
	if r := engineOf(f).RestartServices(t.Context()); r.Outcome != api.OutcomeFailed || !strings.Contains(r.Error, "access denied") {
		t.Errorf("got %+v", r)
	}
	clear(f.failing)
	f.changeSettings("kubelet", func(s *fakeService) { s.Recovery = nil }) // as it is while it is stopped
	f.log = nil
	r := engineOf(f).RestartServices(t.Context())
	if r.Outcome != api.OutcomeApplied || r.Revision != adoption().Revision || len(r.Changed) != 3 {
		t.Fatalf("got %+v", r)
	}
	for _, name := range []string{"containerd", "kubelet", "overlay"} {
		s := f.services[name]
		if s.state != ServiceRunning || s.pid == before[name].pid || !sameRecovery(before[name].Recovery, s.Recovery) || s.Recovery == nil {
			t.Errorf("service %s was %+v, and is %+v", name, before[name], s)
		}
		if diff := cmp.Diff(before[name].Settings, s.Settings); diff != "" {
			t.Errorf("service %s (-before +after)\n%s", name, diff)
		}
	}
	if s := f.services["csi"]; s.state != ServiceStopped || f.count("StartService csi") > 0 {
		t.Errorf("the disabled service is %s: %q", s.state, f.log)
	}
}

// TestAdoptStartsFirst: the manager goes last, so that a host on which the others could not be changed goes on with it.
func TestAdoptStartsFirst(t *testing.T) {
	f, first, _, _ := othersHost(t)
	f.failing["SetAutomatic kubelet"] = errors.New("access is denied")
	if r := engineOf(f).Adopt(t.Context(), &api.AdoptRequest{Adoption: adoption(), Bundle: first}); r.Outcome != api.OutcomeFailed || !strings.Contains(r.Error, "have service kubelet start with the host: access is denied") {
		t.Errorf("%+v", r)
	}
	if f.services["manager"].state != ServiceRunning {
		t.Error("the manager was ended")
	}
}

// TestAdoptLeavesTheManagerAsItWas: one that cannot be stopped goes on for whom it belongs to, and Windows starts it when it ends.
func TestAdoptLeavesTheManagerAsItWas(t *testing.T) {
	f, first, _, _ := othersHost(t)
	f.changeSettings("manager", func(s *fakeService) { s.Recovery = &config.Recovery{} })
	f.failing["StopService manager"] = errors.New("access is denied")
	r := engineOf(f).Adopt(t.Context(), &api.AdoptRequest{Adoption: adoption(), Bundle: first})
	if r.Outcome != api.OutcomeFailed || f.services["manager"].Recovery == nil {
		t.Errorf("%+v; its recovery is %v", r, f.services["manager"].Recovery)
	}
}

// TestAdoptMuch: what the manager alone has written is one thing to remove, however much that is, and what links in it lead to stays. Of the
// rest there may not be more than the plan of an update may have; then the manager stays.
func TestAdoptMuch(t *testing.T) {
	for name, tt := range map[string]struct {
		directory string
		refuse    string
	}{
		"of the manager":    {directory: `c:\k\manager-certs`},
		"of documents, too": {directory: `c:\k\registries`, refuse: "more than 4096 files and directories to adopt"},
	} {
		t.Run(name, func(t *testing.T) {
			f, first, _, before := othersHost(t)
			for n := range 5000 {
				f.files[fmt.Sprintf(`%s\%d.pem`, tt.directory, n)] = fakeFile{Content: "secret"}
			}
			if refused, ok := errors.AsType[*Error](planOf(t, f, first)); ok != (tt.refuse != "") || ok && (refused.Reason != api.ReasonConflict || !strings.Contains(refused.Error(), tt.refuse)) {
				t.Errorf("the plan is refused: %v", refused)
			}
			r := engineOf(f).Adopt(t.Context(), &api.AdoptRequest{Adoption: adoption(), Bundle: first})
			if tt.refuse != "" {
				if _, managed := f.services["manager"]; r.Outcome != api.OutcomeFailed || !strings.Contains(r.Error, tt.refuse) || !managed {
					t.Errorf("the manager is there: %t; %+v", managed, r)
				}
				return
			}
			if r.Outcome != api.OutcomeApplied {
				t.Fatalf("adopted: %+v", r)
			}
			plan, err := engineOf(f).Plan(t.Context(), &first)
			if err != nil || len(plan.Items) > 100 {
				t.Errorf("the update is %+v, %v", plan, err)
			}
			converge(t, f, first)
			f.check(t, first)
			if r := engineOf(f).Cleanup(t.Context()); r.Outcome != api.OutcomeRemoved {
				t.Fatalf("cleanup: %+v", r)
			}
			f.checkClean(t, before)
		})
	}
}

// planOf is why the adoption of a host is not planned.
func planOf(t *testing.T, f *fake, b config.Bundle) error {
	t.Helper()
	_, err := engineOf(f).PlanAdoption(t.Context(), &api.AdoptRequest{Adoption: adoption(), Bundle: b})
	return err
}

// TestAdoptedMuchBefore: what an earlier release has recorded file by file, however much that is, is one thing to remove for this one.
func TestAdoptedMuchBefore(t *testing.T) {
	for name, update := range map[string]bool{"updated": true, "removed": false} {
		t.Run(name, func(t *testing.T) {
			f, first, _, before := othersHost(t)
			a := adoption()
			a.Trees = append(a.Trees, api.FormerTrees()...)
			for _, directory := range a.Trees[1:] {
				f.files[fold(directory)], f.files[fold(directory)+`\link`] = fakeFile{Directory: true}, fakeFile{Link: true}
				for n := range 300 {
					f.files[fmt.Sprintf(`%s\%d.pem`, fold(directory), n)] = fakeFile{Content: "secret"}
				}
			}
			if r := engineOf(f).Adopt(t.Context(), &api.AdoptRequest{Adoption: a, Bundle: first}); r.Outcome != api.OutcomeApplied {
				t.Fatalf("adopted: %+v", r)
			}
			plan, err := engineOf(f).Plan(t.Context(), &first)
			if err != nil || len(plan.Items) > 100 {
				t.Errorf("the update has %d items, %v", len(plan.Items), err)
			}
			if update {
				converge(t, f, first)
				f.check(t, first)
				if _, there := f.files[`c:\k\wicd-certs`]; there {
					t.Error("it is there")
				}
			}
			if r := engineOf(f).Cleanup(t.Context()); r.Outcome != api.OutcomeRemoved || len(r.Changed) > 100 {
				t.Fatalf("cleanup: %s %s, %d changes", r.Outcome, r.Error, len(r.Changed))
			}
			f.checkClean(t, before)
		})
	}
}

// ending is a host on which the manager writes until it has ended.
type ending struct{ *fake }

func (e ending) StopService(name string) error {
	e.files[`c:\k\manager-certs\two.pem`], e.files[`c:\k\registries\last.toml`] = fakeFile{Content: "secret"}, fakeFile{Content: "mirrors"}
	return e.fake.StopService(name)
}

// TestAdoptWhatIsWrittenLast: what the manager has written while the host was adopted is ours as well.
func TestAdoptWhatIsWrittenLast(t *testing.T) {
	f, first, _, before := othersHost(t)
	e := engineOf(f)
	e.System = ending{f}
	if r := e.Adopt(t.Context(), &api.AdoptRequest{Adoption: adoption(), Bundle: first}); r.Outcome != api.OutcomeApplied {
		t.Fatalf("adopted: %+v", r)
	}
	if f.files[`c:\k\registries\last.toml`].Content == "" {
		t.Fatal("nothing was written")
	}
	if r := engineOf(f).Cleanup(t.Context()); r.Outcome != api.OutcomeRemoved {
		t.Fatalf("cleanup: %+v", r)
	}
	f.checkClean(t, before)
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
		if state, err := ReadState(t.Context(), f, f.clock); err != nil || state.ApplyingRevision != "" {
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
