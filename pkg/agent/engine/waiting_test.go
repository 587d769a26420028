// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package engine

import (
	"errors"
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
	"github.com/openshift/windows-instance-api/pkg/agent/api/config"
)

// nodeBundles are a document for a host whose Node is known, and the one when it is not.
func nodeBundles(t *testing.T) (known, waiting config.Bundle) {
	t.Helper()
	known, _ = bundles(t)
	d := &known.Document
	d.Services = slices.Clone(d.Services)
	d.Services[1].Arguments = append(d.Services[1].Arguments, "--hostname-override=$(HOSTNAME)")
	d.Services[2].Arguments = []string{"--node", "$(NODE_NAME)"}
	d.Variables = append(d.Variables, config.Variable{Name: "HOSTNAME", Source: config.SourceAWSLocalHostname})
	waiting = known
	w := &waiting.Document
	d.Variables = append(slices.Clone(d.Variables), config.Variable{Name: "NODE_NAME", Source: config.SourceValue, Value: "win-1"})
	w.Variables = append(slices.Clone(w.Variables), config.Variable{Name: "NODE_NAME", Source: config.SourceKept})
	w.Services = slices.Clone(w.Services)
	w.Services[2].Waiting, w.Services[3].Waiting = true, true
	w.Files = slices.Clone(w.Files)
	for i := range w.Files {
		w.Files[i].Waiting = w.Files[i].AfterService != ""
	}
	hns := *w.HNS
	hns.Waiting = true
	w.HNS = &hns
	for _, b := range []config.Bundle{known, waiting} {
		if err := b.Validate(); err != nil {
			t.Fatal(err)
		}
	}
	return known, waiting
}

// TestWaiting: what waits for a Node is not made before, and is kept as it is when the Node is
// away: the network of pods that run depends on it.
func TestWaiting(t *testing.T) {
	known, waiting := nodeBundles(t)
	pods := func(f *fake) map[string]string {
		picture := f.picture()
		for key := range picture {
			if !slices.Contains([]string{"service overlay", "service kube-proxy", `file c:\k\kube-proxy.conf`, "network net", "endpoint VIPEndpoint"}, key) {
				delete(picture, key)
			}
		}
		return picture
	}
	f := usedHost(t, known)
	before := f.picture()
	converge(t, f, waiting)
	if got := pods(f); len(got) > 0 {
		t.Errorf("it was made already: %v", got)
	}
	if drifts := watchAs(t, f, 1, "none"); len(drifts) > 0 || len(pods(f)) > 0 {
		t.Errorf("the service finds %+v, and there is %v", drifts, pods(f))
	}
	converge(t, f, known)
	f.check(t, known)
	want := pods(f)
	if len(want) != 5 {
		t.Fatalf("there is only %v", want)
	}

	began := f.services["overlay"].started
	r := engineOf(f).Apply(t.Context(), &api.ApplyRequest{Bundle: waiting})
	if r.Outcome != api.OutcomeUnchanged || len(r.Changed) > 0 {
		t.Errorf("the Node is away: %+v", r)
	}
	if diff := cmp.Diff(want, pods(f)); diff != "" || f.services["overlay"].started != began {
		t.Errorf("the Node is away (-want +got):\n%s", diff)
	}
	// It is repaired meanwhile, and restarted for what it depends on.
	delete(f.files, `c:\k\kube-proxy.conf`)
	watch(t, f, 1)
	next := waiting
	next.Document.Files = slices.Clone(waiting.Document.Files)
	next.Document.Files[2] = program(`C:\k\overlay.exe`, "2", restarts("overlay"))
	send(t, f, next)
	f.files[fold(api.PayloadPath(next.Document.Files[2].Digest))] = fakeFile{Content: `C:\k\overlay.exe2`}
	converge(t, f, next)
	f.check(t, next)
	if diff := cmp.Diff(want, pods(f)); diff != "" || f.services["overlay"].started == began {
		t.Errorf("after a restart (-want +got):\n%s", diff)
	}
	converge(t, f, known)
	f.check(t, known)
	converge(t, f, waiting)
	if r := engineOf(f).Cleanup(t.Context()); r.Outcome != api.OutcomeRemoved {
		t.Fatalf("cleanup: %+v", r)
	}
	f.checkClean(t, before)
}

// TestUnknownContent: a file whose content nobody knows at present stays as it is on a host that has it, and another one gets it when
// it is known.
func TestUnknownContent(t *testing.T) {
	known, _ := bundles(t)
	const path = `C:\k\pki\kubeconfig`
	text := "$(KEPT)"
	unknown := known
	unknown.Secrets = maps.Clone(known.Secrets)
	d := &unknown.Document
	d.Variables = append(slices.Clone(d.Variables), config.Variable{Name: "KEPT", Source: config.SourceKept})
	d.Files = slices.Clone(d.Files)
	at := slices.IndexFunc(d.Files, func(f config.File) bool { return f.Path == path })
	delete(unknown.Secrets, d.Files[at].Source.Secret)
	d.Files[at].Source, d.Files[at].Digest, d.Files[at].Waiting = config.Source{Text: &text, Expand: true}, config.Digest([]byte(text)), true
	if err := unknown.Validate(); err != nil {
		t.Fatal(err)
	}

	f := usedHost(t, known)
	before := f.picture()
	converge(t, f, unknown)
	if content, is := f.files[fold(path)]; is {
		t.Errorf("a host that does not have it got %+v", content)
	}
	converge(t, f, known)
	f.check(t, known)
	want := f.picture()
	if r := engineOf(f).Apply(t.Context(), &api.ApplyRequest{Bundle: unknown}); r.Outcome != api.OutcomeUnchanged || len(r.Changed) > 0 {
		t.Errorf("a host that has it: %+v", r)
	}
	if drifts := watchAs(t, f, 1, "none"); len(drifts) > 0 {
		t.Errorf("the service finds %+v", drifts)
	}
	if diff := cmp.Diff(want, f.picture()); diff != "" {
		t.Errorf("a host that has it (-want +got):\n%s", diff)
	}
	// What is gone cannot be repaired, and keeps nothing else from it.
	delete(f.files, fold(path))
	converge(t, f, unknown)
	converge(t, f, known)
	f.check(t, known)
	converge(t, f, unknown)
	if r := engineOf(f).Cleanup(t.Context()); r.Outcome != api.OutcomeRemoved {
		t.Fatalf("cleanup: %+v", r)
	}
	f.checkClean(t, before)
}

// TestUnknownAuthorities: where nobody knows all certificates that a host is to trust, it gets those that are known and loses none; they
// go when all are known again, or with the rest.
func TestUnknownAuthorities(t *testing.T) {
	first, next := bundles(t)
	known := first
	known.Document.Certificates = next.Document.Certificates // one of them, and another one
	unknown := first
	unknown.Document.Certificates, unknown.Document.KeepCertificates = next.Document.Certificates[1:], true

	f := usedHost(t, first)
	before := f.picture()
	converge(t, f, first)
	had := maps.Clone(f.certs)
	converge(t, f, unknown)
	f.check(t, unknown)
	for key := range had {
		if !f.certs[key] {
			t.Errorf("it does not trust %s any more", key)
		}
	}
	if added := certificateKey("Root", next.Document.Certificates[1].Fingerprint); had[added] || !f.certs[added] {
		t.Errorf("it trusts what was added: before %t, now %t", had[added], f.certs[added])
	}
	if drifts := watchAs(t, f, 1, "none"); len(drifts) > 0 {
		t.Errorf("the service finds %+v", drifts)
	}
	converge(t, f, unknown) // what is ours is known however often
	converge(t, f, known)
	f.check(t, known)
	if gone := certificateKey("Root", first.Document.Certificates[0].Fingerprint); f.certs[gone] {
		t.Error("it trusts what was taken away")
	}
	converge(t, f, unknown)
	if r := engineOf(f).Cleanup(t.Context()); r.Outcome != api.OutcomeRemoved {
		t.Fatalf("cleanup: %+v", r)
	}
	f.checkClean(t, before)
}

// TestMetadataServiceIsAway: the name of a host in its cloud never changes, and its metadata
// service may be out of reach after a restart. The host is repaired all the same.
func TestMetadataServiceIsAway(t *testing.T) {
	known, _ := nodeBundles(t)
	known.Document.Files = append(slices.Clone(known.Document.Files), textFile(`C:\k\ca.crt`, newAuthority(t, "kubernetes").pem(), config.OnChange{Impact: config.ImpactNone}))
	known.Document.ClientCertificate = &config.ClientCertificate{
		Path: `C:\k\kubelet.pem`, Kubeconfig: `C:\k\kubeconfig`, CAFile: `C:\k\ca.crt`, ServerCAFile: `C:\k\ca.crt`, NodeName: "$(HOSTNAME)",
	}
	f := usedHost(t, known)
	f.failing["Value AWSLocalHostname"] = errors.New("no route to host")
	if r := engineOf(f).Apply(t.Context(), &api.ApplyRequest{Allow: config.ImpactReboot, Bundle: known}); r.Outcome != api.OutcomeFailed {
		t.Errorf("a host that never had a name: %+v", r)
	}
	clear(f.failing)
	converge(t, f, known)
	f.failing["Value AWSLocalHostname"] = errors.New("no route to host")
	// Nor does the servicing stack answer while it installs an update.
	f.failing["Feature"] = errors.New("servicing is in progress")
	s := f.services["kube-proxy"]
	s.state, s.pid = ServiceStopped, 0
	f.services["kube-proxy"] = s
	drifts := watchAs(t, f, 1, "none")
	if len(drifts) != 1 || drifts[0].Error != "" || len(drifts[0].Repaired) != 1 {
		t.Errorf("got %+v", drifts)
	}
	if state, err := ReadState(t.Context(), f, f.clock); err != nil || state.NodeName != "ip-10-0-0-7" {
		t.Errorf("it says that its node is called %q, %v", state.NodeName, err)
	}
	delete(f.failing, "Feature")
	f.check(t, known)
}

// TestNameAfterRestart: a host that gets another name knows, before the restart that it needs for that, by which full
// name its kubelet will register, because that is what it gets credentials for.
func TestNameAfterRestart(t *testing.T) {
	for _, tt := range []struct{ hostname, domain, desired, want string }{
		{"WIN-7GQ2P1", ".corp.example.com", "winworker-x7k2p", "winworker-x7k2p.corp.example.com"},
		{"WIN-7GQ2P1", "", "winworker-x7k2p", "winworker-x7k2p"},
		{"WINWORKER-X7K2P", ".corp.example.com", "winworker-x7k2p", "winworker-x7k2p.corp.example.com"},
		{"WIN-7GQ2P1", ".corp.example.com", "", "win-7gq2p1.corp.example.com"},
	} {
		known, _ := nodeBundles(t)
		d := &known.Document
		d.Hostname, d.Variables[len(d.Variables)-2].Source = tt.desired, config.SourceFQDN
		d.Files = append(slices.Clone(d.Files), textFile(`C:\k\ca.crt`, newAuthority(t, "kubernetes").pem(), config.OnChange{Impact: config.ImpactNone}))
		d.ClientCertificate = &config.ClientCertificate{
			Path: `C:\k\kubelet.pem`, Kubeconfig: `C:\k\kubeconfig`, CAFile: `C:\k\ca.crt`, ServerCAFile: `C:\k\ca.crt`, NodeName: "$(HOSTNAME)",
		}
		f := newFake()
		f.hostname, f.next, f.domain = tt.hostname, tt.hostname, tt.domain
		p, err := engineOf(f).Plan(t.Context(), &known)
		if err != nil || p.NodeName != tt.want {
			t.Errorf("%s%s, which is to be called %q, will be node %q, %v; want %s", tt.hostname, tt.domain, tt.desired, p.NodeName, err, tt.want)
		}
	}
}

// TestNodeKeepsItsName: once its kubelet has a certificate, a host stays the node that it is, whatever the metadata
// service or DNS calls it later; a host that was made from its disk, and one that has not joined, do not.
func TestNodeKeepsItsName(t *testing.T) {
	for _, tt := range []struct {
		name   string
		source config.VariableSource
		joined string
		edit   func(*fake)
		want   string
	}{
		{"the metadata service changes its mind", config.SourceAWSLocalHostname, "ip-10-0-0-7", nil, "ip-10-0-0-7"},
		{"the host joins a domain", config.SourceFQDN, "win-1.corp.example.com", nil, "win-1.corp.example.com"},
		{"it has not joined", config.SourceAWSLocalHostname, "", nil, "ip-10-0-0-8"},
		{"its certificate is that of another node", config.SourceAWSLocalHostname, "ip-10-0-0-9", nil, "ip-10-0-0-8"},
		{"another machine has its disk", config.SourceAWSLocalHostname, "ip-10-0-0-7", func(f *fake) { f.machine = "two" }, "ip-10-0-0-8"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			ca := newAuthority(t, "kubernetes")
			known, _ := nodeBundles(t)
			d := &known.Document
			d.Variables[len(d.Variables)-2].Source = tt.source
			d.Files = append(slices.Clone(d.Files), textFile(`C:\k\ca.crt`, ca.pem(), config.OnChange{Impact: config.ImpactNone}))
			d.ClientCertificate = &config.ClientCertificate{
				Path: `C:\k\kubelet.pem`, Kubeconfig: `C:\k\kubeconfig`, CAFile: `C:\k\ca.crt`, ServerCAFile: `C:\k\ca.crt`, NodeName: "$(HOSTNAME)",
			}
			f := newFake()
			f.hostname, f.next, f.domain, f.machine = "win-1", "win-1", ".corp.example.com", "one"
			converge(t, f, known)
			if tt.joined != "" {
				f.files[fold(`C:\k\kubelet.pem`)] = fakeFile{Content: ca.issue(t, tt.joined, f.clock.AddDate(-1, 0, 0), f.clock.AddDate(0, 0, -1))}
			}
			f.cloudName, f.domain = "ip-10-0-0-8", ".ad.example.com"
			if tt.edit != nil {
				tt.edit(f)
			}
			p, err := engineOf(f).Plan(t.Context(), &known)
			if err != nil || p.NodeName != tt.want {
				t.Errorf("it is node %q, %v, want %s", p.NodeName, err, tt.want)
			}
			for _, item := range p.Items {
				if (item.Kind == api.KindService) == (tt.want == tt.joined) {
					t.Errorf("it is to be changed: %s: %s", item, item.Reason)
				}
			}
		})
	}
}
