// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package engine

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
	"github.com/openshift/windows-instance-api/pkg/agent/api/config"
)

const secretText = "correct horse battery staple"

// certificate returns a new one.
func certificate(t *testing.T) config.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, NotAfter: time.Now().Add(time.Hour)}
	raw, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(raw)
	return config.Certificate{
		Store: config.StoreRoot, Fingerprint: hex.EncodeToString(sum[:]),
		PEM:      string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: raw})),
		OnChange: config.OnChange{Impact: config.ImpactRestart, Services: []string{"containerd"}},
	}
}

func restarts(services ...string) config.OnChange {
	return config.OnChange{Impact: config.ImpactRestart, Services: services}
}

func textFile(path, content string, o config.OnChange) config.File {
	return config.File{Path: path, Role: config.RoleConfiguration, Source: config.Source{Text: &content}, Digest: config.Digest([]byte(content)), OnChange: o}
}

// program is a file of the payload whose content is its name and version.
func program(path, version string, o config.OnChange) config.File {
	return config.File{Path: path, Role: config.RoleProgram, Source: config.Source{Payload: path}, Digest: config.Digest([]byte(path + version)), OnChange: o}
}

// copyOf is a program that is in another place as well.
func copyOf(f config.File, path string) config.File {
	f.Path = path
	return f
}

func testService(name string, dependencies ...string) config.Service {
	return config.Service{
		Name: name, Description: config.Description(name), BinaryPath: `C:\k\` + name + `.exe`, Dependencies: dependencies,
		StartType: config.StartAutomatic, OnChange: restarts(name),
		Recovery: &config.Recovery{ResetAfterSeconds: 300, RestartDelaysMilliseconds: []int64{10_000}},
	}
}

const zeroDigest = "hmac-sha256:0000000000000000000000000000000000000000000000000000000000000000"

// bundles are documents that follow one another on a host.
func bundles(t *testing.T) (first, second config.Bundle) {
	t.Helper()
	drain := config.OnChange{Impact: config.ImpactDrain, Services: []string{"containerd"}}
	reboot := config.OnChange{Impact: config.ImpactReboot}
	certs := []config.Certificate{certificate(t), certificate(t), certificate(t)}
	kubelet, overlay, proxy := testService("kubelet", "containerd"), testService("overlay"), testService("kube-proxy", "overlay")
	kubelet.Arguments = []string{"--node-ip=$(NODE_IP)"}
	kubelet.Health = &config.Health{URL: "http://127.0.0.1:10248/healthz", WithinSeconds: 10}
	proxy.StartType = config.StartManual
	late := textFile(`C:\k\kube-proxy.conf`, "vip $(SOURCE_VIP) in $(SUBNET)", restarts("kube-proxy"))
	late.Source.Expand, late.AfterService = true, "overlay"
	secret := config.File{
		Path: `C:\k\pki\kubeconfig`, Role: config.RoleCredential, Source: config.Source{Secret: "kubeconfig"}, Digest: zeroDigest,
		Access: config.AccessAdministrators, OnChange: config.OnChange{Impact: config.ImpactNone},
	}
	bootstrap := textFile(`C:\k\bootstrap`, "token", config.OnChange{Impact: config.ImpactNone})
	bootstrap.UntilFile = `C:\k\until`
	document := config.Document{
		Version: config.SchemaVersion, Hostname: "win-1",
		Features:    []config.Feature{{Name: "Containers", OnChange: reboot}},
		Directories: []config.Directory{{Path: `C:\var\log\kubelet`}, {Path: `C:\k\pki`, Access: config.AccessAdministrators}},
		Files: []config.File{
			program(`C:\k\containerd.exe`, "1", drain), program(`C:\k\kubelet.exe`, "1", restarts("kubelet")),
			program(`C:\k\overlay.exe`, "1", restarts("overlay")), program(`C:\k\kube-proxy.exe`, "1", restarts("kube-proxy")),
			textFile(`C:\k\kubelet.conf`, "one", restarts("kubelet")), textFile(`C:\k\was-there.conf`, "ours", config.OnChange{Impact: config.ImpactNone}),
			late, secret, bootstrap,
			copyOf(program(`C:\k\kubelet.exe`, "1", config.OnChange{Impact: config.ImpactNone}), `C:\k\again\kubelet.exe`),
			copyOf(program(`C:\k\kubelet.exe`, "1", config.OnChange{Impact: config.ImpactNone}), `C:\k\pki\kubelet.exe`),
		},
		Environment: []config.EnvironmentVariable{
			{Name: "NO_PROXY", Value: "ours", OnChange: reboot},
			{Name: "HTTP_PROXY", Secret: "proxy", Digest: zeroDigest, OnChange: reboot},
		},
		Certificates:        certs[:2],
		Firewall:            []config.FirewallRule{{Name: "Logs", Protocol: config.ProtocolTCP, Port: 10250}},
		HNS:                 &config.HNS{Networks: []string{"net"}, Endpoint: &config.HNSEndpoint{Name: "VIPEndpoint", Network: "net"}},
		AntivirusExclusions: []string{`C:\k\containerd.exe`},
		Variables: []config.Variable{
			{Name: "NODE_IP", Source: config.SourceDefaultRouteAddress},
			{Name: "SOURCE_VIP", Source: config.SourceHNSEndpointAddress, Network: "net"},
			{Name: "SUBNET", Source: config.SourceHNSSubnet, Network: "net"},
		},
		Services: []config.Service{testService("containerd"), kubelet, overlay, proxy},
	}
	first = config.Bundle{Document: document, Secrets: config.Secrets{"kubeconfig": []byte(secretText), "proxy": []byte("http://u:" + secretText + "@p")}}

	next := document
	next.Directories = document.Directories[:1]
	next.Files = []config.File{
		program(`C:\k\containerd.exe`, "2", drain), program(`C:\k\kubelet.exe`, "1", restarts("kubelet")),
		copyOf(program(`C:\k\containerd.exe`, "2", config.OnChange{Impact: config.ImpactNone}), `C:\k\again\kubelet.exe`),
		textFile(`C:\k\kubelet.conf`, "two", restarts("kubelet")), bootstrap,
		textFile(`C:\k\cni\new.conf`, "new", config.OnChange{Impact: config.ImpactNone}),
	}
	next.Environment = []config.EnvironmentVariable{{Name: "NO_PROXY", Value: "other", OnChange: reboot}}
	next.Certificates = certs[1:]
	next.Firewall = []config.FirewallRule{{Name: "Logs", Protocol: config.ProtocolTCP, Port: 10251}}
	next.HNS, next.AntivirusExclusions = nil, nil
	next.Variables = document.Variables[:1]
	changed := kubelet
	changed.Arguments = []string{"--node-ip=$(NODE_IP)", "--v=4"}
	next.Services = []config.Service{testService("containerd"), changed}
	second = config.Bundle{Document: next}
	for _, b := range []config.Bundle{first, second} {
		if err := b.Validate(); err != nil {
			t.Fatal(err)
		}
	}
	return first, second
}

// usedHost is a host that somebody else has used before.
func usedHost(t *testing.T, b config.Bundle) *fake {
	t.Helper()
	f := newFake()
	f.environment["No_Proxy"] = "theirs"
	f.environment["PATH"] = "x"
	f.files[`c:\k`] = fakeFile{Directory: true}
	f.files[`c:\k\was-there.conf`] = fakeFile{Content: "theirs"}
	f.files[`c:\k\other.txt`] = fakeFile{Content: "not ours"}
	// One of the certificates is trusted already.
	c := b.Document.Certificates[1]
	f.certs[certificateKey(c.Store, c.Fingerprint)] = true
	f.certs["root/other"] = true
	f.services["w32time"] = fakeService{state: ServiceRunning}
	return f
}

// send puts the payload that a plan asks for on the host.
func send(t *testing.T, f *fake, b config.Bundle) {
	t.Helper()
	p, err := engineOf(f).Plan(t.Context(), &b)
	if err != nil {
		t.Fatal(err)
	}
	f.files[fold(api.PayloadDirectory)] = fakeFile{Directory: true}
	for _, file := range p.Payload {
		for _, version := range []string{"1", "2"} {
			if config.Digest([]byte(file.Name+version)) == file.Digest {
				f.files[fold(file.Path)] = fakeFile{Content: file.Name + version}
			}
		}
	}
}

func engineOf(f *fake) *Engine {
	return &Engine{System: f, Now: func() time.Time { return f.clock }, Sleep: f.sleep}
}

// converge applies a bundle until it is done, as a controller does.
func converge(t *testing.T, f *fake, b config.Bundle) *api.Result {
	t.Helper()
	return convergeKeeping(t, f, b, nil)
}

// convergeKeeping is converge for a host that keeps programs with these digests.
func convergeKeeping(t *testing.T, f *fake, b config.Bundle, keep []string) *api.Result {
	t.Helper()
	for range 4 {
		send(t, f, b)
		r := engineOf(f).Apply(t.Context(), &api.ApplyRequest{Allow: config.ImpactReboot, Keep: keep, Bundle: b})
		switch r.Outcome {
		case api.OutcomeRebootRequired:
			f.boot()
		case api.OutcomeApplied, api.OutcomeUnchanged:
			return r
		default:
			t.Fatalf("%s: %s\n%s", r.Outcome, r.Error, strings.Join(f.log, "\n"))
		}
	}
	t.Fatal("it needs one restart after the other")
	return nil
}

// check reports what is wrong with a host that must be as the bundle says.
func (f *fake) check(t *testing.T, b config.Bundle) {
	t.Helper()
	for _, file := range b.Document.Files {
		for _, name := range file.OnChange.Services {
			if s := f.services[fold(name)]; s.started < f.files[fold(file.Path)].changed {
				t.Errorf("service %s runs with an old %s", name, file.Path)
			}
		}
	}
	for _, s := range b.Document.Services {
		if state := f.services[fold(s.Name)].state; state != ServiceRunning {
			t.Errorf("service %s is %s", s.Name, state)
		}
	}
	if path := f.secretAnywhere(secretText); path != "" {
		t.Errorf("all can read the secret in %s", path)
	}
	before := f.mutations
	r := engineOf(f).Apply(t.Context(), &api.ApplyRequest{Bundle: b})
	if r.Outcome != api.OutcomeUnchanged || len(r.Changed) > 0 || f.mutations != before {
		t.Errorf("applied again: %+v\n%s", r, strings.Join(f.log[before:], "\n"))
	}
}

func TestApplyAndCleanup(t *testing.T) {
	first, second := bundles(t)
	f := usedHost(t, first)
	before := f.picture()

	if r := converge(t, f, first); r.Outcome != api.OutcomeApplied {
		t.Errorf("first: %+v", r)
	}
	f.check(t, first)
	if got := f.files[`c:\k\kube-proxy.conf`].Content; got != "vip 10.1.0.2 in 10.1.0.0/24" {
		t.Errorf("the file that waits for a service has %q", got)
	}
	if got := f.services["kubelet"].Settings.CommandLine; got != `C:\k\kubelet.exe --node-ip=10.0.0.7` {
		t.Errorf("the kubelet's command line is %q", got)
	}

	// The kubelet has a credential of its own now.
	f.files[`c:\k\until`] = fakeFile{Content: "x"}
	converge(t, f, second)
	f.check(t, second)
	if _, there := f.files[`c:\k\bootstrap`]; there {
		t.Error("the file that is needed no more is there")
	}
	if _, there := f.services["overlay"]; there {
		t.Error("the service that is not wanted is there")
	}
	delete(f.files, `c:\k\until`)

	if r := engineOf(f).Cleanup(t.Context()); r.Outcome != api.OutcomeRemoved {
		t.Fatalf("cleanup: %+v", r)
	}
	f.checkClean(t, before)
}

// checkClean compares a host with what it was before us. Its name and features stay.
func (f *fake) checkClean(t *testing.T, before map[string]string) {
	t.Helper()
	for _, kept := range []string{"hostname", "feature Containers"} {
		delete(before, kept)
	}
	after := f.picture()
	for _, kept := range []string{"hostname", "feature Containers"} {
		delete(after, kept)
	}
	if diff := cmp.Diff(before, after); diff != "" {
		t.Errorf("it is not as it was (-before +after):\n%s", diff)
	}
	if inv, err := f.inventory(); err == nil && inv.Reboot != nil {
		f.boot()
		if r := engineOf(f).Cleanup(t.Context()); r.Outcome != api.OutcomeRemoved || len(r.Reboot) > 0 {
			t.Errorf("cleaned up after the restart: %+v", r)
		}
	}
	for path := range f.files {
		if strings.HasPrefix(path, fold(stateDirectory)) {
			t.Errorf("%s is left", path)
		}
	}
	mutations := f.mutations
	if r := engineOf(f).Cleanup(t.Context()); r.Outcome != api.OutcomeRemoved || f.mutations != mutations {
		t.Errorf("cleaned up again: %+v\n%s", r, strings.Join(f.log[mutations:], "\n"))
	}
}

// crashing runs something until the host crashes, and reports whether it did.
func crashing(f *fake, at int, run func()) (crashed bool) {
	defer func() {
		if p := recover(); p != nil {
			if _, ok := p.(crash); !ok {
				panic(p)
			}
			crashed = true
		}
	}()
	f.calls, f.crashAt = 0, at
	run()
	f.crashAt = -1
	return false
}

// TestCrash ends the process, or the power, before and after every call, and inspects
// what the next one makes of the host.
func TestCrash(t *testing.T) {
	first, second := bundles(t)
	empty := config.Bundle{Document: config.Document{Version: config.SchemaVersion}}
	apply := func(b config.Bundle) func(f *fake) {
		return func(f *fake) {
			engineOf(f).Apply(context.Background(), &api.ApplyRequest{Allow: config.ImpactReboot, Bundle: b})
		}
	}
	cleanup := func(f *fake) { engineOf(f).Cleanup(context.Background()) }
	tests := []struct {
		name    string
		before  []config.Bundle // that the host has seen
		reboot  bool            // the first apply is that before the restart, which is not what crashes
		crashes func(f *fake)
		sent    *config.Bundle // whose payload is there
		want    config.Bundle  // applied afterwards
	}{
		{name: "first, before the restart", crashes: apply(first), sent: &first, want: first},
		{name: "first, after the restart", reboot: true, crashes: apply(first), sent: &first, want: first},
		{name: "second after first", before: []config.Bundle{first}, crashes: apply(second), sent: &second, want: second},
		{name: "first, then second", reboot: true, crashes: apply(first), sent: &first, want: second},
		{name: "second, then first again", before: []config.Bundle{first}, crashes: apply(second), sent: &second, want: first},
		{name: "nothing after first", before: []config.Bundle{first}, crashes: apply(empty), want: second},
		{name: "cleanup", before: []config.Bundle{first}, crashes: cleanup, want: second},
		{name: "cleanup after half an apply", reboot: true, crashes: apply(first), sent: &first, want: empty},
	}
	for _, tt := range tests {
		for _, power := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, power %v", tt.name, power), func(t *testing.T) {
				prepare := func() (*fake, map[string]string) {
					f := usedHost(t, first)
					before := f.picture()
					for _, b := range tt.before {
						converge(t, f, b)
					}
					if tt.reboot {
						send(t, f, *tt.sent)
						tt.crashes(f)
						f.boot()
					}
					if tt.sent != nil {
						send(t, f, *tt.sent)
					}
					return f, before
				}
				reference, _ := prepare()
				converge(t, reference, tt.want)
				reference.boot() // so that all services were started by the same
				converge(t, reference, tt.want)
				wantInventory, err := reference.inventory()
				if err != nil {
					t.Fatal(err)
				}
				wantPicture := reference.picture()
				dropPayload(wantPicture)

				points := 0
				for at := 2; ; at++ {
					f, before := prepare()
					if !crashing(f, at, func() { tt.crashes(f) }) {
						break
					}
					points++
					f.loseProcess()
					if power {
						f.boot()
					}
					if (at%2 == 0) == power { // from where it stands, everything can be removed
						r := engineOf(f).Cleanup(t.Context())
						if r.Outcome != api.OutcomeRemoved {
							t.Fatalf("crash %d: cleanup: %+v", at, r)
						}
						f.checkClean(t, before)
					} else {
						converge(t, f, tt.want)
						f.check(t, tt.want)
						f.boot()
						converge(t, f, tt.want)
						got := f.picture()
						dropPayload(got)
						if diff := cmp.Diff(wantPicture, got); diff != "" {
							t.Fatalf("crash %d (-want +got):\n%s", at, diff)
						}
						inv, err := f.inventory()
						if err != nil {
							t.Fatalf("crash %d: %v", at, err)
						}
						if diff := cmp.Diff(wantInventory, inv, cmp.AllowUnexported(inventory{})); diff != "" {
							t.Fatalf("crash %d: inventory (-want +got):\n%s", at, diff)
						}
					}
					if t.Failed() {
						t.Fatalf("crash %d", at)
					}
				}
				if points < 50 {
					t.Errorf("only %d points were tried", points)
				}
			})
		}
	}
}

// dropPayload forgets what was sent and is not needed.
func dropPayload(picture map[string]string) {
	for key := range picture {
		if strings.HasPrefix(key, "file "+fold(api.PayloadDirectory)) {
			delete(picture, key)
		}
	}
}

func TestPlanShowsNoSecrets(t *testing.T) {
	first, _ := bundles(t)
	f := usedHost(t, first)
	p, err := engineOf(f).Plan(t.Context(), &first)
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256([]byte(secretText))
	for _, hidden := range []string{secretText, hex.EncodeToString(sum[:])} {
		if strings.Contains(string(text), hidden) {
			t.Errorf("the plan shows %q", hidden)
		}
	}
	if f.mutations != 0 {
		t.Errorf("planning changed %v", f.log)
	}
	if !slices.ContainsFunc(p.Items, func(i api.Item) bool { return i.Kind == api.KindFile && i.Name == `C:\k\pki\kubeconfig` }) {
		t.Error("the secret file is not in the plan")
	}
}

// watch inspects a host as the service does, n times.
func watch(t *testing.T, f *fake, n int) []api.Drift {
	t.Helper()
	return watchAs(t, f, n, "kube-proxy")
}

// watchAs is watch as a service, which is not touched.
func watchAs(t *testing.T, f *fake, n int, service string) []api.Drift {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var drifts []api.Drift
	e := engineOf(f)
	const every = time.Hour
	e.Sleep = func(ctx context.Context, d time.Duration) error {
		if d == every {
			if n--; n == 0 {
				cancel()
			}
		}
		return f.sleep(ctx, d)
	}
	if err := e.Run(ctx, RunOptions{Service: service, Every: every, Report: func(d api.Drift) { drifts = append(drifts, d) }}); err != nil {
		t.Fatal(err)
	}
	return drifts
}

// TestRunAgainstAnother: something that another program changes at every look costs restarts of
// services a few times only, and is named; what was calm for a while is repaired at once again.
func TestRunAgainstAnother(t *testing.T) {
	first, _ := bundles(t)
	f := usedHost(t, first)
	converge(t, f, first)
	const path = `c:\k\kubelet.conf`
	var left api.Drift
	before := 0
	restarts := func() int {
		n := 0
		for _, done := range f.log[before:] {
			if strings.HasPrefix(done, "StopService kubelet") {
				n++
			}
		}
		before = len(f.log)
		return n
	}
	restarts() // those of the first configuration
	e := engineOf(f)
	look := 0
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	change := func() { f.files[path] = fakeFile{Content: "theirs", changed: f.ticks} }
	change()
	const every = time.Minute
	e.Sleep = func(ctx context.Context, d time.Duration) error {
		if d != every {
			return f.sleep(ctx, d)
		}
		f.clock = f.clock.Add(d)
		switch look++; {
		case look < 60:
			change()
		case look == 60:
			if n := restarts(); n < 3 || n > 7 {
				t.Errorf("restarted %d times within an hour, want a few times", n)
			}
			if len(left.Left) != 1 || left.Left[0].Left != api.LeftContested || !strings.Contains(left.Left[0].Reason, "changed by something else each time") {
				t.Errorf("left: %+v, want the file and why", left)
			}
			f.files[path] = fakeFile{Content: "one", changed: f.ticks} // the other program has gone
		case look == 60+75:
			restarts()
			change()
		case look == 60+76:
			if n := restarts(); n != 1 {
				t.Errorf("changed once after a calm time: restarted %d times, want 1", n)
			}
			cancel()
		}
		return ctx.Err()
	}
	if err := e.Run(ctx, RunOptions{Service: "kube-proxy", Every: every, Report: func(d api.Drift) {
		if len(d.Left) > 0 {
			left = d
		}
	}}); err != nil {
		t.Fatal(err)
	}
	if look != 60+76 {
		t.Errorf("it looked %d times", look)
	}
}

func TestRun(t *testing.T) {
	first, _ := bundles(t)
	tests := []struct {
		name     string
		change   func(f *fake)
		stays    bool // the host is not repaired
		repaired []string
		left     []string
	}{
		{name: "nothing", change: func(*fake) {}},
		{name: "a file was changed", change: func(f *fake) {
			f.files[`c:\k\kubelet.conf`] = fakeFile{Content: "theirs", changed: f.ticks}
		}, repaired: []string{`Update File C:\k\kubelet.conf`}},
		{name: "a secret was removed", change: func(f *fake) { delete(f.files, `c:\k\pki\kubeconfig`) }, repaired: []string{`Create File C:\k\pki\kubeconfig`}},
		{name: "a service was stopped", change: func(f *fake) {
			s := f.services["kubelet"]
			s.state = ServiceStopped
			f.services["kubelet"] = s
		}, repaired: []string{"Update Service kubelet"}},
		{name: "a certificate was removed", change: func(f *fake) {
			delete(f.certs, certificateKey("Root", first.Document.Certificates[0].Fingerprint))
		}, repaired: []string{"Create Certificate " + first.Document.Certificates[0].Fingerprint}},
		{name: "a variable was changed", change: func(f *fake) { f.environment["NO_PROXY"] = "else" }, repaired: []string{"Update Environment NO_PROXY"}},
		{name: "a variable was removed", change: func(f *fake) { delete(f.environment, "HTTP_PROXY") }, repaired: []string{"Create Environment HTTP_PROXY"}},
		{name: "a service was deleted", change: func(f *fake) { delete(f.services, "kubelet") }, repaired: []string{"Create Service kubelet"}},
		{name: "arguments of a service were changed", change: func(f *fake) {
			s := f.services["kubelet"]
			s.Settings.CommandLine = "else"
			f.services["kubelet"] = s
		}, repaired: []string{"Update Service kubelet"}},
		{name: "recovery actions of a service were changed", change: func(f *fake) {
			s := f.services["containerd"]
			s.Recovery = nil
			f.services["containerd"] = s
		}, repaired: []string{"Update Service containerd"}},
		{name: "what needs a restart of the host, and what does not", change: func(f *fake) {
			f.next = "ELSE"
			delete(f.files, `c:\k\was-there.conf`)
		}, stays: true, repaired: []string{`Create File C:\k\was-there.conf`}, left: []string{"Update Hostname win-1"}},
		{name: "a program was removed", change: func(f *fake) { delete(f.files, `c:\k\overlay.exe`) }, stays: true, left: []string{`Create File C:\k\overlay.exe`}},
		{name: "an apply did not get to its end", change: func(f *fake) {
			second := first
			second.Document.Files = slices.Clone(first.Document.Files)
			second.Document.Files[4] = textFile(`C:\k\kubelet.conf`, "three", config.OnChange{Impact: config.ImpactNone})
			second.Document.Files[5] = textFile(`C:\k\was-there.conf`, "three", config.OnChange{Impact: config.ImpactNone})
			f.failing[`WriteFile C:\k\was-there.conf`] = fmt.Errorf("disk full")
			if r := engineOf(f).Apply(context.Background(), &api.ApplyRequest{Allow: config.ImpactReboot, Bundle: second}); r.Outcome != api.OutcomeFailed {
				t.Errorf("the apply: %+v", r)
			}
			clear(f.failing)
		}, stays: true},
		{name: "its own service was stopped", change: func(f *fake) {
			s := f.services["kube-proxy"]
			s.state = ServiceStopped
			f.services["kube-proxy"] = s
		}, stays: true},
		{name: "somebody else is at work", change: func(f *fake) { f.locked = &Owner{PID: 1}; delete(f.files, `c:\k\kubelet.conf`) }, stays: true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := usedHost(t, first)
			converge(t, f, first)
			tt.change(f)
			mutations := f.mutations
			drifts := watch(t, f, 1)
			itemNames := func(items []api.Item) []string {
				var list []string
				for _, i := range items {
					list = append(list, i.String())
				}
				return list
			}
			var got api.Drift
			if len(drifts) > 0 {
				got = drifts[0]
			}
			if diff := cmp.Diff(tt.repaired, itemNames(got.Repaired)); diff != "" || got.Error != "" {
				t.Errorf("repaired (-want +got), error %q:\n%s", got.Error, diff)
			}
			if diff := cmp.Diff(tt.left, itemNames(got.Left)); diff != "" {
				t.Errorf("left (-want +got):\n%s", diff)
			}
			if len(tt.repaired)+len(tt.left) == 0 && f.mutations != mutations {
				t.Errorf("it changed %v", f.log[mutations:])
			}
			if len(drifts) > 0 {
				read, err := readDrift(f)
				if diff := cmp.Diff(&got, read); err != nil || diff != "" {
					t.Errorf("the file, error %v (-want +got):\n%s", err, diff)
				}
			}
			if !tt.stays {
				f.check(t, first)
			}
			f.locked = nil
			if again := watch(t, f, 3); len(again) > 1 {
				t.Errorf("the same is reported again and again: %+v", again)
			}
		})
	}
}

func TestLocked(t *testing.T) {
	first, _ := bundles(t)
	tests := []struct {
		name  string
		owner Owner
		ends  time.Duration // when the other one is done
		want  api.FailureReason
	}{
		{name: "another apply", owner: Owner{PID: 7, Command: "apply"}, ends: time.Second, want: api.ReasonLocked},
		{name: "the service, for a moment", owner: Owner{PID: 7, Command: "run"}, ends: 2 * time.Second},
		{name: "the service, for ever", owner: Owner{PID: 7, Command: "run"}, ends: time.Hour, want: api.ReasonLocked},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := usedHost(t, first)
			f.locked = &tt.owner
			ends := f.clock.Add(tt.ends)
			e := engineOf(f)
			e.Sleep = func(ctx context.Context, d time.Duration) error {
				if !f.clock.Before(ends) {
					f.locked = nil
				}
				return f.sleep(ctx, d)
			}
			r := e.Cleanup(t.Context())
			if r.Reason != tt.want {
				t.Errorf("got %+v, want %q", r, tt.want)
			}
			if tt.want == api.ReasonLocked && !strings.Contains(r.Error, fmt.Sprintf("%q changes this host, process 7", tt.owner.Command)) {
				t.Errorf("the error does not name the other one: %s", r.Error)
			}
		})
	}
}

// TestServiceThatHangs: one that does not stop is terminated, and reported.
func TestServiceThatHangs(t *testing.T) {
	first, second := bundles(t)
	f := usedHost(t, first)
	converge(t, f, first)
	s := f.services["kubelet"]
	s.hangs = true
	f.services["kubelet"] = s
	send(t, f, second)
	var events []api.Event
	e := engineOf(f)
	e.Events = func(v api.Event) { events = append(events, v) }
	before := f.clock
	r := e.Apply(t.Context(), &api.ApplyRequest{Allow: config.ImpactReboot, Bundle: second})
	if r.Outcome != api.OutcomeRebootRequired {
		t.Fatalf("got %+v", r)
	}
	// The restart is left out, so that the service hangs now.
	f.boots++
	r = e.Apply(t.Context(), &api.ApplyRequest{Allow: config.ImpactReboot, Bundle: second})
	if r.Outcome != api.OutcomeApplied {
		t.Fatalf("got %+v", r)
	}
	if !slices.ContainsFunc(events, func(v api.Event) bool { return strings.Contains(v.Message, "its process is terminated") }) {
		t.Errorf("nothing tells that the service was terminated: %v", events)
	}
	if took := f.clock.Sub(before); took < time.Minute || took > 5*time.Minute {
		t.Errorf("it took %s", took)
	}

	s = f.services["kubelet"]
	s.hangs = true
	f.services["kubelet"] = s
	f.failing[`KillProcess C:\k\kubelet.exe`] = fmt.Errorf("access denied")
	r = e.Cleanup(t.Context())
	if r.Outcome != api.OutcomeFailed || !strings.Contains(r.Error, `service kubelet is StopPending and cannot be terminated: process`) || !strings.Contains(r.Error, "access denied") {
		t.Errorf("got %+v", r)
	}
}

func TestImpact(t *testing.T) {
	first, _ := bundles(t)
	only := func(change func(d *config.Document)) config.Bundle {
		b := first
		b.Document.Files = slices.Clone(first.Document.Files)
		b.Document.Services = slices.Clone(first.Document.Services)
		b.Document.Environment = slices.Clone(first.Document.Environment)
		change(&b.Document)
		return b
	}
	tests := []struct {
		name     string
		want     config.Bundle
		impact   config.Impact
		restarts []string
	}{
		{name: "nothing", want: first, impact: config.ImpactNone},
		{name: "a file that is read again", want: only(func(d *config.Document) {
			d.Files[5] = textFile(`C:\k\was-there.conf`, "more", config.OnChange{Impact: config.ImpactNone})
		}), impact: config.ImpactNone},
		{name: "a file of the kubelet", want: only(func(d *config.Document) {
			d.Files[4] = textFile(`C:\k\kubelet.conf`, "more", restarts("kubelet"))
		}), impact: config.ImpactRestart, restarts: []string{"kubelet"}},
		{name: "arguments of a service that others need", want: only(func(d *config.Document) {
			d.Services[2].Arguments = []string{"-v"}
		}), impact: config.ImpactRestart, restarts: []string{"kube-proxy", "overlay"}},
		{name: "containerd", want: only(func(d *config.Document) {
			d.Files[0] = program(`C:\k\containerd.exe`, "2", config.OnChange{Impact: config.ImpactDrain, Services: []string{"containerd"}})
		}), impact: config.ImpactDrain, restarts: []string{"kubelet", "containerd"}},
		{name: "a variable", want: only(func(d *config.Document) { d.Environment[0].Value = "more" }), impact: config.ImpactReboot},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := usedHost(t, first)
			converge(t, f, first)
			send(t, f, tt.want)
			p, err := engineOf(f).Plan(t.Context(), &tt.want)
			if err != nil {
				t.Fatal(err)
			}
			if p.Impact != tt.impact || !slices.Equal(p.Restarts, tt.restarts) {
				t.Errorf("got %s and restarts of %v, want %s and %v", p.Impact, p.Restarts, tt.impact, tt.restarts)
			}
			for _, allow := range config.Impacts() {
				if !costlier(p.Impact, allow) {
					break
				}
				before := f.mutations
				r := engineOf(f).Apply(t.Context(), &api.ApplyRequest{Allow: allow, Bundle: tt.want})
				if r.Outcome != api.OutcomeImpactExceeded || f.mutations != before || r.Plan == nil {
					t.Errorf("with %s allowed: %+v", allow, r)
				}
			}
		})
	}
}

func TestConflicts(t *testing.T) {
	first, _ := bundles(t)
	tests := []struct {
		name   string
		change func(f *fake)
		want   string
		reason api.FailureReason
	}{
		{name: "service of somebody else", change: func(f *fake) { f.services["containerd"] = fakeService{state: ServiceRunning} }, want: "service containerd exists and was not created by this agent", reason: api.ReasonConflict},
		{name: "directory in place of a file", change: func(f *fake) { f.files[`c:\k\kubelet.exe`] = fakeFile{Directory: true} }, want: `C:\k\kubelet.exe is not a file`, reason: api.ReasonConflict},
		{name: "file in place of a directory", change: func(f *fake) { f.files[`c:\var`] = fakeFile{} }, want: `C:\var is not a directory`, reason: api.ReasonConflict},
		{name: "payload is missing", change: func(*fake) {}, want: `C:\k\containerd.exe`, reason: api.ReasonPayload},
		{name: "inventory is damaged", change: func(f *fake) { f.files[fold(inventoryPath)] = fakeFile{Content: "{}"} }, want: "inventory.json", reason: api.ReasonInventory},
		{name: "inventory is gone", change: func(f *fake) { f.files[fold(appliedPath)] = fakeFile{Content: "{}"} }, want: "is missing, but a document was applied", reason: api.ReasonInventory},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := usedHost(t, first)
			tt.change(f)
			r := engineOf(f).Apply(t.Context(), &api.ApplyRequest{Allow: config.ImpactReboot, Bundle: first})
			if r.Outcome != api.OutcomeFailed || r.Reason != tt.reason || !strings.Contains(r.Error, tt.want) {
				t.Errorf("got %+v, want %s: %s", r, tt.reason, tt.want)
			}
			if f.mutations > 0 {
				t.Errorf("it changed %v", f.log)
			}
		})
	}
}

// TestWrongPayload: what arrived broken never becomes a program, and is sent again.
func TestWrongPayload(t *testing.T) {
	first, _ := bundles(t)
	f := usedHost(t, first)
	before := f.picture()
	send(t, f, first)
	path := fold(api.PayloadPath(first.Document.Files[1].Digest))
	f.files[path] = fakeFile{Content: "broken"}
	engineOf(f).Apply(t.Context(), &api.ApplyRequest{Allow: config.ImpactReboot, Bundle: first})
	f.boot()
	r := engineOf(f).Apply(t.Context(), &api.ApplyRequest{Allow: config.ImpactReboot, Bundle: first})
	if r.Outcome != api.OutcomeFailed || r.Reason != api.ReasonPayload {
		t.Fatalf("got %+v", r)
	}
	if _, there := f.files[`c:\k\kubelet.exe`]; there {
		t.Error("it became a program")
	}
	converge(t, f, first)
	f.check(t, first)
	engineOf(f).Cleanup(t.Context())
	f.checkClean(t, before)
}

// TestAdopt: services that earlier software made and tagged become ours.
func TestAdopt(t *testing.T) {
	first, _ := bundles(t)
	f := usedHost(t, first)
	before := f.picture()
	f.services["kubelet"] = fakeService{state: ServiceStopped, Settings: config.ServiceSettings{Description: "OpenShift managed kubelet", CommandLine: "old"}}
	converge(t, f, first)
	f.check(t, first)
	engineOf(f).Cleanup(t.Context())
	f.checkClean(t, before)
}

// TestProgramInUse: a program that runs gives way to another one.
func TestProgramInUse(t *testing.T) {
	first, second := bundles(t)
	f := usedHost(t, first)
	converge(t, f, first)
	f.inUse[`c:\k\containerd.exe`] = true
	send(t, f, second)
	for range 2 {
		if r := engineOf(f).Apply(t.Context(), &api.ApplyRequest{Allow: config.ImpactReboot, Bundle: second}); r.Outcome == api.OutcomeFailed {
			t.Fatalf("got %+v", r)
		}
		f.boots++ // the program continues
	}
	if got := f.files[`c:\k\containerd.exe`].Content; got != `C:\k\containerd.exe2` {
		t.Errorf("the program is %q", got)
	}
	if len(f.children(trashDirectory)) != 1 || len(f.atBoot) != 1 {
		t.Errorf("the old program is not kept until the next boot: %v, %v", f.children(trashDirectory), f.atBoot)
	}
}

// TestProgramsInUse: several programs that run give way at the same moment: the clock of Windows ticks each 16 milliseconds only.
func TestProgramsInUse(t *testing.T) {
	f := newFake()
	a := &application{Engine: engineOf(f)}
	for _, directory := range []string{`c:\`, `c:\k`, fold(api.Root), fold(stateDirectory)} {
		f.files[directory] = fakeFile{Directory: true}
	}
	for _, path := range []string{`c:\k\a.exe`, `c:\k\b.exe`, `c:\k\c.exe`} {
		f.files[path] = fakeFile{Content: path}
		f.inUse[path] = true
		if err := a.moveAway(path); err != nil {
			t.Error(err)
		}
	}
	var left []string
	for _, name := range f.children(trashDirectory) {
		left = append(left, f.files[fold(trashDirectory+`\`+name)].Content)
	}
	slices.Sort(left)
	if diff := cmp.Diff([]string{`c:\k\a.exe`, `c:\k\b.exe`, `c:\k\c.exe`}, left); diff != "" {
		t.Errorf("what they were (-want +got):\n%s", diff)
	}
	if len(a.discarded) != 3 || len(f.atBoot) != 3 {
		t.Errorf("they are removed as %v, at the next boot %v", a.discarded, f.atBoot)
	}
}

// FuzzInventory: what is read from a disk is the inventory that was written, or an error.
func FuzzInventory(f *testing.F) {
	inv := newInventory()
	inv.Files["x"] = fileRecord{Path: "x", Aside: "y"}
	content, err := inv.encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(content)
	f.Add(content[:len(content)-1])
	f.Add([]byte(nil))
	f.Add([]byte(inventoryMagic))
	f.Add([]byte(inventoryMagic + "74234e98afe7498fb5daf1f36ac2d78acc339464f950703b8c019892f982b90b\nnull")) // with the right digest
	f.Add(later(`{"files":{"x":{"path":"x","later":{}}},"services":[{"name":"x","later":1},{"later":2}],"later":[1]}`))
	f.Fuzz(func(t *testing.T, content []byte) {
		inv, err := decodeInventory(content)
		if err != nil {
			return
		}
		if inv.Files == nil || inv.Directories == nil {
			t.Error("a map is missing")
		}
		if _, err := inv.encode(); err != nil {
			t.Error(err)
		}
	})
}

// FuzzDamage: an inventory with one byte changed or its end missing is refused.
func FuzzDamage(f *testing.F) {
	inv := newInventory()
	inv.Applied, inv.Services = "revision", []serviceRecord{{Name: "kubelet"}}
	content, err := inv.encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(uint(0), byte(1), uint(0))
	f.Add(uint(len(content)-1), byte(255), uint(0))
	f.Add(uint(0), byte(0), uint(1))
	f.Fuzz(func(t *testing.T, at uint, change byte, missing uint) {
		damaged := slices.Clone(content[:uint(len(content))-missing%uint(len(content))])
		damaged[at%uint(len(damaged))] ^= change
		if _, err := decodeInventory(damaged); (err == nil) != slices.Equal(damaged, content) {
			t.Errorf("got %v for %q", err, damaged)
		}
	})
}

// TestStopWaitsForProcesses: a service that has stopped for the service control manager may hold
// its files and ports for a while, itself or through the program that it runs.
func TestStopWaitsForProcesses(t *testing.T) {
	const runner = `C:\k\kube-log-runner.exe`
	behind := func(b *config.Bundle) {
		b.Document.Services = slices.Clone(b.Document.Services)
		kubelet := b.Document.Services[1]
		kubelet.Arguments = append([]string{`C:\k\kubelet.exe`}, kubelet.Arguments...)
		kubelet.BinaryPath = runner
		b.Document.Services[1] = kubelet
	}
	tests := []struct {
		name    string
		change  func(b *config.Bundle)
		happens func(f *fake, kubelet *fakeService)
		says    string // in an event
	}{
		{name: "its process ends later", happens: func(_ *fake, s *fakeService) { s.lingers = 20 }},
		{name: "its process does not end", happens: func(_ *fake, s *fakeService) { s.lingers = 1 << 20 }, says: "its process is terminated"},
		{name: "its program ends later", change: behind, happens: func(_ *fake, s *fakeService) { s.lingers = 20 }},
		{name: "its program was left behind", change: behind, happens: func(f *fake, s *fakeService) {
			s.state, s.pid = ServiceStopped, 0
			f.strays = append(f.strays, Process{PID: 7, Parent: 6, Path: `C:\k\kubelet.exe`})
		}, says: "its process is terminated"},
		{name: "it does not stop, and Windows would start it again", happens: func(_ *fake, s *fakeService) { s.hangs = true }, says: "its process is terminated"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			first, _ := bundles(t)
			if tt.change != nil {
				tt.change(&first)
			}
			f := usedHost(t, first)
			f.files[runner] = fakeFile{}
			f.files[fold(runner)] = fakeFile{}
			converge(t, f, first)
			s := f.services["kubelet"]
			tt.happens(f, &s)
			f.services["kubelet"] = s
			// Containers continue without their runtime.
			shim := Process{PID: 5, Parent: f.services["containerd"].pid, Path: `C:\k\containerd\shim.exe`}
			f.strays = append(f.strays, shim)

			second := first
			second.Document.Files = slices.Clone(first.Document.Files)
			second.Document.Files[1] = program(`C:\k\kubelet.exe`, "2", restarts("kubelet"))
			send(t, f, second)
			f.files[fold(api.PayloadPath(second.Document.Files[1].Digest))] = fakeFile{Content: `C:\k\kubelet.exe2`}
			var notes []string
			e := engineOf(f)
			e.Events = func(v api.Event) { notes = append(notes, v.Message) }
			r := e.Apply(t.Context(), &api.ApplyRequest{Allow: config.ImpactReboot, Bundle: second})
			if r.Outcome != api.OutcomeApplied {
				t.Fatalf("got %+v", r)
			}
			if said := strings.Join(notes, "\n"); strings.Contains(said, "terminated") != (tt.says != "") {
				t.Errorf("it says:\n%s", said)
			}
			if trash := f.children(trashDirectory); len(trash) > 0 {
				t.Errorf("a program was replaced while it ran: %v", f.log)
			}
			if !slices.Contains(f.strays, shim) {
				t.Error("a container was ended")
			}
			f.check(t, second)
		})
	}
}

// TestServiceThatIsStuck: a service that neither stops nor can be terminated is named, with what its process is and what can be done.
func TestServiceThatIsStuck(t *testing.T) {
	const refuses = ", and Windows refuses to stop it: it cannot accept control messages at this time; restart the host"
	for name, tt := range map[string]struct {
		state ServiceState
		pid   int
		says  string
	}{
		"it starts for ever":          {ServiceStartPending, 77, `service kubelet stays StartPending and its process 77 (C:\k\kubelet.exe) does not end` + refuses},
		"it starts without a process": {ServiceStartPending, 0, "service kubelet stays StartPending although it has no process any more" + refuses},
		"it stops for ever":           {ServiceStopPending, 77, `service kubelet stays StopPending and its process 77 (C:\k\kubelet.exe) does not end: restart the host`},
	} {
		t.Run(name, func(t *testing.T) {
			first, _ := bundles(t)
			f := usedHost(t, first)
			converge(t, f, first)
			s := f.services["kubelet"]
			s.stuck, s.state, s.pid = true, tt.state, tt.pid
			f.services["kubelet"] = s
			second := first
			second.Document.Files = slices.Clone(first.Document.Files)
			second.Document.Files[1] = program(`C:\k\kubelet.exe`, "2", restarts("kubelet"))
			send(t, f, second)
			f.files[fold(api.PayloadPath(second.Document.Files[1].Digest))] = fakeFile{Content: `C:\k\kubelet.exe2`}
			r := engineOf(f).Apply(t.Context(), &api.ApplyRequest{Allow: config.ImpactReboot, Bundle: second})
			if r.Outcome != api.OutcomeFailed || !strings.Contains(r.Error, tt.says) {
				t.Errorf("got %+v, want %q", r, tt.says)
			}
		})
	}
}

// TestStartThatIsNotReported: a program that Windows gives up, because it is slow at first, is started again.
func TestStartThatIsNotReported(t *testing.T) {
	for slow, says := range map[int]string{
		1: "",
		2: "",
		3: "start it: its program did not report to Windows in time: service request timeout (tries: 3): see",
	} {
		t.Run(fmt.Sprint(slow), func(t *testing.T) {
			first, _ := bundles(t)
			f := usedHost(t, first)
			converge(t, f, first)
			s := f.services["kubelet"]
			s.slow, s.state, s.pid = slow, ServiceStopped, 0
			f.services["kubelet"] = s
			var notes []string
			e := engineOf(f)
			e.Events = func(v api.Event) { notes = append(notes, v.Message) }
			r := e.Apply(t.Context(), &api.ApplyRequest{Allow: config.ImpactReboot, Bundle: first})
			if failed := r.Outcome == api.OutcomeFailed; failed != (says != "") || !strings.Contains(r.Error, says) {
				t.Errorf("got %+v", r)
			}
			if want := min(slow, 2); strings.Count(strings.Join(notes, "\n"), "it is started again (try ") != want {
				t.Errorf("it says %q, not %d times that it tries again", notes, want)
			}
		})
	}
}

// TestRepairStartsOnce: a repair does not keep others from the host for longer than one start takes.
func TestRepairStartsOnce(t *testing.T) {
	first, _ := bundles(t)
	f := usedHost(t, first)
	converge(t, f, first)
	s := f.services["kubelet"]
	s.slow, s.state, s.pid = 10, ServiceStopped, 0
	f.services["kubelet"] = s
	if _, err := newKeeper(engineOf(f), RunOptions{Service: api.ServiceName}).repair(t.Context()); err == nil || !strings.Contains(err.Error(), "(tries: 1)") {
		t.Errorf("got %v", err)
	}
	if left := f.services["kubelet"].slow; left != 9 {
		t.Errorf("it was started %d times", 10-left)
	}
}

// TestServiceThatOthersNeed: a service of somebody else that needs one of ours is not cut off.
func TestServiceThatOthersNeed(t *testing.T) {
	first, _ := bundles(t)
	f := usedHost(t, first)
	converge(t, f, first)
	f.services["theirs"] = fakeService{state: ServiceRunning, Settings: config.ServiceSettings{Dependencies: []string{"containerd"}}}
	began := f.clock
	r := engineOf(f).Cleanup(t.Context())
	if r.Outcome != api.OutcomeFailed || !strings.Contains(r.Error, "service containerd cannot be stopped: other services depend on it: theirs; stop") {
		t.Errorf("got %+v", r)
	}
	s := f.services["containerd"]
	if took := f.clock.Sub(began); took > 30*time.Second || s.state != ServiceRunning || s.Recovery == nil {
		t.Errorf("after %s it is %+v", took, s)
	}
	delete(f.services, "theirs")
	if r := engineOf(f).Cleanup(t.Context()); r.Outcome != api.OutcomeRemoved {
		t.Errorf("when nothing needs it: %+v", r)
	}
}
