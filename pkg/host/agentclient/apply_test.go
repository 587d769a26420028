// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package agentclient

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
	"github.com/openshift/windows-instance-api/pkg/agent/api/config"
	"github.com/openshift/windows-instance-api/pkg/agent/engine"
	"github.com/openshift/windows-instance-api/pkg/desired/payload"
	"github.com/openshift/windows-instance-api/pkg/host/agentclient/answer"
	"github.com/openshift/windows-instance-api/pkg/host/ssh"
	"github.com/openshift/windows-instance-api/pkg/host/transfer"
	"github.com/openshift/windows-instance-api/test/hostsite"
	"github.com/openshift/windows-instance-api/test/programs"
	"github.com/openshift/windows-instance-api/test/winhost"
	"github.com/openshift/windows-instance-api/test/winhost/hosttest"
)

// Files of the payload of configurable sites: one that is sent compressed, one that is not.
const (
	compressible = "kubelet.exe"
	random       = "containerd.exe"
	megabytes    = 4
)

// secretToken is in the bundle of configurable sites, in what a kubeconfig looks like.
const secretToken = "abcdef.0123456789abcdef"

// configurable is a site with a payload, and a bundle for its host.
type configurable struct {
	*site
	payloadDir string
	bundle     config.Bundle
}

func newConfigurable(t *testing.T, o winhost.InProcessOptions) *configurable {
	t.Helper()
	return newConfigurableOn(t, winhost.Options{InProcess: o})
}

func newConfigurableOn(t *testing.T, o winhost.Options) *configurable {
	t.Helper()
	s := newSiteOn(t, o)
	if o.Tier != "" {
		s.useRealAgent(t)
	}
	c := &configurable{site: s, payloadDir: filepath.Join(t.TempDir(), "payload")}
	built, err := builtPayload()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(c.payloadDir, built); err != nil {
		t.Fatal(err)
	}
	open, err := payload.OpenSet(t.Context(), c.payloadDir, payload.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := open.Close(); err != nil {
			t.Error(err)
		}
	})
	c.client.options.Payload = open
	none := config.OnChange{Impact: config.ImpactNone}
	restart := config.OnChange{Impact: config.ImpactRestart, Services: []string{"kubelet"}}
	text := "kind: KubeletConfiguration\n"
	document := config.Document{
		Version:     config.SchemaVersion,
		Directories: []config.Directory{{Path: `C:\var\log\kubelet`}},
		Files: []config.File{
			{Path: `C:\k\kubelet.conf`, Role: config.RoleConfiguration, Source: config.Source{Text: &text}, Digest: config.Digest([]byte(text)), OnChange: restart},
			{Path: `C:\k\bootstrap-kubeconfig`, Role: config.RoleCredential, Source: config.Source{Secret: "bootstrap"}, Digest: "hmac-sha256:" + strings.Repeat("0", 64), Access: config.AccessAdministrators, OnChange: none},
		},
		Services: []config.Service{{
			Name: "kubelet", Description: config.Description("kubelet"), BinaryPath: `C:\k\` + compressible, StartType: config.StartAutomatic, OnChange: restart,
		}},
	}
	for _, f := range open.Payloads()[0].Manifest.Files {
		document.Files = append(document.Files, config.File{
			Path: f.Path, Role: config.RoleProgram, Source: config.Source{Payload: f.Name, Size: f.Size}, Digest: "sha256:" + f.SHA256, OnChange: restart,
		})
	}
	c.bundle = config.Bundle{Document: document, Secrets: config.Secrets{"bootstrap": []byte("users:\n- user:\n    token: " + secretToken + "\n")}}
	if err := c.bundle.Validate(); err != nil {
		t.Fatal(err)
	}
	return c
}

// builtPayload is the payload of configurable sites, which is built once for all tests.
var builtPayload = sync.OnceValues(func() (fs.FS, error) {
	dir, err := os.MkdirTemp("", "payload-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	noise := make([]byte, megabytes<<20)
	_, _ = rand.NewChaCha8([32]byte{}).Read(noise) // never fails
	var list []payload.Source
	for name, content := range map[string][]byte{compressible: bytes.Repeat([]byte("MZ kubelet "), 100_000), random: noise} {
		local := filepath.Join(dir, name)
		if err := os.WriteFile(local, content, 0o600); err != nil {
			return nil, err
		}
		list = append(list, payload.Source{LocalPath: local, File: payload.File{Slot: payload.Slot{Name: name, Path: `C:\k\` + name, Role: payload.RoleKubelet}}})
	}
	manifest := payload.Manifest{Name: "test", Version: "v1", OS: "windows", Architecture: "amd64"}
	built := filepath.Join(dir, "built")
	if err := payload.Build(context.Background(), built, manifest, list); err != nil {
		return nil, err
	}
	kept := fstest.MapFS{}
	return kept, fs.WalkDir(os.DirFS(built), ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := os.ReadFile(filepath.Join(built, name))
		kept[name] = &fstest.MapFile{Data: content, Mode: 0o600}
		return err
	})
})

// useRealAgent has the site put the agent on the host that is built from this tree.
func (s *site) useRealAgent(t *testing.T) {
	t.Helper()
	program, err := programs.Build(t.Context(), "cmd/agent", "windows", runtime.GOARCH)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(s.AgentDir, bundledAgent), program, 0o600); err != nil {
		t.Fatal(err)
	}
	s.client = s.newClient(t)
}

// request allows everything.
func (c *configurable) request() *api.ApplyRequest {
	return &api.ApplyRequest{Allow: config.ImpactReboot, Bundle: c.bundle}
}

// missing is what the host needs of the payload.
func (c *configurable) missing(t *testing.T) []api.PayloadFile {
	t.Helper()
	plan, err := c.client.PlanConfiguration(t.Context(), c.Instance, &c.bundle)
	if err != nil {
		t.Fatal(err)
	}
	return plan.Payload
}

// local is where a path of drive C is on this machine.
func (c *configurable) local(t *testing.T, windowsPath string) string {
	t.Helper()
	local, err := c.Host.LocalPath(windowsPath)
	if err != nil {
		t.Fatal(err)
	}
	return local
}

// content is that of a file of the host; nil: there is none.
func (c *configurable) content(t *testing.T, hostPath string) []byte {
	t.Helper()
	b, err := os.ReadFile(c.local(t, hostPath))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	return b
}

// withoutPayload is the bundle without what would have to be sent.
func (c *configurable) withoutPayload() *api.ApplyRequest {
	r := c.request()
	r.Bundle.Document.Services = nil
	r.Bundle.Document.Files = slices.DeleteFunc(slices.Clone(r.Bundle.Document.Files), func(f config.File) bool { return f.Source.Payload != "" })
	for i := range r.Bundle.Document.Files {
		r.Bundle.Document.Files[i].OnChange = config.OnChange{Impact: config.ImpactNone}
	}
	return r
}

// overlayNetwork is what the program of an overlay makes.
const overlayNetwork = "OVNKubernetesHybridOverlayNetwork"

// waiting is a request that the host does not get to the end of before makeNetwork was called: nothing else makes the network
// that its service needs.
func (c *configurable) waiting() *api.ApplyRequest {
	r := c.withoutPayload()
	r.Bundle.Document.HNS = &config.HNS{Networks: []string{overlayNetwork}}
	r.Bundle.Document.Variables = []config.Variable{{Name: "SUBNET", Source: config.SourceHNSSubnet, Network: overlayNetwork}}
	r.Bundle.Document.Services = []config.Service{{
		Name: "proxy", Description: config.Description("proxy"), BinaryPath: `C:\k\kubelet.conf`, Arguments: []string{"$(SUBNET)"},
		StartType: config.StartAutomatic, OnChange: config.OnChange{Impact: config.ImpactRestart, Services: []string{"proxy"}},
	}}
	return r
}

// makeNetwork has a program of others make the network that waiting waits for.
func (c *configurable) makeNetwork(t *testing.T) {
	t.Helper()
	system, ok := winhost.SystemOf(c.Host)
	if !ok {
		t.Fatal("this host makes no networks")
	}
	const overlay = "hybrid-overlay-node"
	if err := system.CreateService(overlay, config.ServiceSettings{CommandLine: c.client.AgentPath()}, nil); err != nil {
		t.Fatal(err)
	}
	if err := system.StartService(overlay); err != nil {
		t.Fatal(err)
	}
}

// TestConfigure is the life of a host, from nothing to a node and back. On the hosts that
// are not made up it is the agent itself that runs.
func TestConfigure(t *testing.T) {
	for _, tier := range winhost.Tiers() {
		t.Run(tier, func(t *testing.T) {
			o := winhost.Options{Tier: tier}
			if tier == winhost.TierInProcess {
				o.Tier = ""
			}
			testConfigure(t, newConfigurableOn(t, o))
		})
	}
}

func testConfigure(t *testing.T, c *configurable) {
	if c.Host.Tier() == winhost.TierWine {
		// Its services are real ones, and these programs are none.
		c.bundle.Document.Services = nil
		for i := range c.bundle.Document.Files {
			c.bundle.Document.Files[i].OnChange = config.OnChange{Impact: config.ImpactNone}
		}
	}
	revision, err := c.bundle.Document.Revision()
	if err != nil {
		t.Fatal(err)
	}
	plan, err := c.client.PlanConfiguration(t.Context(), c.Instance, &c.bundle)
	if err != nil {
		t.Fatal(err)
	}
	if plan.Revision != revision || len(plan.Items) < 6 || len(plan.Payload) != 2 {
		t.Errorf("the plan is %+v", plan)
	}
	// Without what it needs.
	result, err := c.client.Apply(t.Context(), c.Instance, c.request(), nil)
	if err != nil || result.Outcome != api.OutcomeFailed || result.Reason != api.ReasonPayload {
		t.Errorf("before anything was sent: %+v, %v", result, err)
	}
	var last transfer.Progress
	if err := c.client.Deliver(t.Context(), c.Instance, plan.Payload, func(p transfer.Progress) { last = p }); err != nil {
		t.Fatal(err)
	}
	if len(last.Files) != 2 || last.Sent != last.Total || last.Sent < megabytes<<20 || last.Sent > megabytes<<20+200_000 {
		t.Errorf("sent %+v", last)
	}
	for range 2 { // of which the second one finds it done
		if left := c.missing(t); len(left) > 0 {
			t.Errorf("still missing: %v", left)
		}
		if err := c.client.Deliver(t.Context(), c.Instance, plan.Payload, nil); err != nil {
			t.Error(err)
		}
	}
	result, err = c.client.Apply(t.Context(), c.Instance, &api.ApplyRequest{Allow: config.ImpactNone, Bundle: c.bundle}, nil)
	if err != nil || result.Outcome != api.OutcomeImpactExceeded && result.Outcome != api.OutcomeApplied {
		t.Errorf("with nothing allowed: %+v, %v", result, err)
	}
	var events []api.Event
	result, err = c.client.Apply(t.Context(), c.Instance, c.request(), func(e api.Event) { events = append(events, e) })
	if err != nil || result.Revision != revision || result.Outcome != api.OutcomeApplied && result.Outcome != api.OutcomeUnchanged {
		t.Fatalf("got %+v, %v", result, err)
	}
	for i, e := range events {
		if e.Item == "" || e.Time.IsZero() || e.Step > e.Steps || i > 0 && e.Step < events[i-1].Step {
			t.Errorf("event %d is %+v after %+v", i, e, events[max(0, i-1)])
		}
	}
	for _, f := range c.bundle.Document.Files {
		if f.Source.Secret == "" && config.Digest(c.content(t, f.Path)) != f.Digest {
			t.Errorf("%s is not what it should be", f.Path)
		}
	}
	if result, err = c.client.Apply(t.Context(), c.Instance, c.request(), nil); err != nil || result.Outcome != api.OutcomeUnchanged {
		t.Errorf("again: %+v, %v", result, err)
	}
	inspection, err := c.client.Inspect(t.Context(), c.Instance)
	if err != nil || inspection.Configuration.AppliedRevision != revision {
		t.Errorf("the host says that it has %+v, %v", inspection, err)
	}

	for range 2 { // the second one puts the agent there and takes it away again
		result, err = c.client.Cleanup(t.Context(), c.Instance, nil)
		if err != nil || result.Outcome != api.OutcomeRemoved {
			t.Fatalf("cleaning: %+v, %v", result, err)
		}
		for _, gone := range []string{api.Root, `C:\k`, `C:\var\log\kubelet`} {
			local := c.local(t, gone)
			if _, err := os.Stat(local); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("%s is left: %v", gone, err)
			}
		}
	}
	if uploads := c.uploads(); uploads != 2 {
		t.Errorf("the agent was put there %d times", uploads)
	}
}

// TestApplyLocked: of two at once, the second one is told so by the host, also when who asked for the first one has left: the
// agent is not ended in the middle.
func TestApplyLocked(t *testing.T) {
	c := newConfigurable(t, winhost.InProcessOptions{})
	ctx, cancel := context.WithCancel(t.Context())
	first := make(chan error, 1)
	begun := make(chan struct{}, 1)
	go func() {
		_, err := c.client.Apply(ctx, c.Instance, c.waiting(), func(api.Event) {
			select {
			case begun <- struct{}{}:
			default:
			}
		})
		first <- err
	}()
	<-begun
	result, err := c.client.Apply(t.Context(), c.Instance, c.withoutPayload(), nil)
	if err != nil || result.Outcome != api.OutcomeFailed || result.Reason != api.ReasonLocked || !strings.Contains(result.Error, `"apply" changes this host`) {
		t.Errorf("the second one: %+v, %v", result, err)
	}
	// The end of its context ends the session of the first one, and nothing else: the agent holds its lock until it is done.
	cancel()
	if err := <-first; hostsite.Reason(err) != ssh.ReasonCanceled {
		t.Errorf("the first one: %v", err)
	}
	result, err = c.client.Apply(t.Context(), c.Instance, c.withoutPayload(), nil)
	if err != nil || result.Reason != api.ReasonLocked {
		t.Errorf("after the first one was left: %+v, %v", result, err)
	}
	c.makeNetwork(t)
	hosttest.Eventually(t, "the first one gets to its end", func() bool {
		system, _ := winhost.SystemOf(c.Host)
		service, err := system.Service("proxy")
		if err != nil {
			t.Fatal(err)
		}
		return service != nil && service.State == engine.ServiceRunning
	})
	c.applies(t)
}

// applies repeats what may be held up by one before it, until that has ended.
func (c *configurable) applies(t *testing.T) {
	t.Helper()
	hosttest.Eventually(t, "the host is set up", func() bool {
		result, err := c.client.Apply(t.Context(), c.Instance, c.withoutPayload(), nil)
		if err != nil {
			t.Fatal(err)
		}
		if result.Outcome == api.OutcomeFailed && result.Reason != api.ReasonLocked {
			t.Fatalf("got %+v", result)
		}
		return result.Outcome == api.OutcomeApplied || result.Outcome == api.OutcomeUnchanged
	})
}

// TestApplyConnectionLost: whoever loses the connection asks again.
func TestApplyConnectionLost(t *testing.T) {
	c := newConfigurable(t, winhost.InProcessOptions{})
	var once bool
	result, err := c.client.Apply(t.Context(), c.Instance, c.waiting(), func(api.Event) {
		if once {
			return
		}
		once = true
		if err := errors.Join(c.Host.PowerOff(), c.Host.PowerOn()); err != nil {
			t.Error(err)
		}
	})
	if reason := hostsite.Reason(err); reason != ssh.ReasonConnectionLost {
		t.Errorf("got %+v, %v", result, err)
	}
	c.applies(t)
	if got := c.content(t, `C:\k\kubelet.conf`); len(got) == 0 {
		t.Error("the host is not set up")
	}
}

// TestApplyAgentGone: somebody may have removed the agent since it was put there.
func TestApplyAgentGone(t *testing.T) {
	c := newConfigurable(t, winhost.InProcessOptions{})
	if _, err := c.client.Facts(t.Context(), c.Instance); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(c.agentPath(t)); err != nil {
		t.Fatal(err)
	}
	result, err := c.client.Apply(t.Context(), c.Instance, c.withoutPayload(), nil)
	if err != nil || result.Outcome != api.OutcomeApplied {
		t.Errorf("got %+v, %v", result, err)
	}
}

// TestSilence: a host that tells nothing new is not waited for.
func TestSilence(t *testing.T) {
	c := newConfigurable(t, winhost.InProcessOptions{})
	if _, err := c.client.Facts(t.Context(), c.Instance); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name     string
		patience patience
		want     string
	}{
		{"silent", patience{silence: 200 * time.Millisecond, change: time.Hour}, "it reported nothing new for 200ms"},
		{"without an end", patience{silence: time.Hour, change: 200 * time.Millisecond}, "it did not end within 200ms"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c.client.patience = tt.patience
			c.SetFault(t, winhost.Fault{ExecHang: true, ExecMatch: "apply$"})
			_, err := c.client.Apply(t.Context(), c.Instance, c.withoutPayload(), nil)
			var failed *Error
			if !errors.As(err, &failed) || !strings.Contains(err.Error(), tt.want) || !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("got %v", err)
			}
		})
	}
}

// TestHostileProgress: a host can tell anything of what it does.
func TestHostileProgress(t *testing.T) {
	const event = `{"event":{"item":"x","state":"Done"}}` + "\n"
	c := newConfigurable(t, winhost.InProcessOptions{})
	revision, err := c.withoutPayload().Bundle.Document.Revision()
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name   string
		answer func(w io.Writer)
		want   string // part of the error; empty: there is a result
	}{
		{"as it should be", say(event + `{"result":{"revision":"` + revision + `","outcome":"Applied","changed":[]}}` + "\n" + "and more"), ""},
		{"nothing", say(""), "ended without a result"},
		{"events only", say(strings.Repeat(event, 3)), "ended without a result"},
		{"half a result", say(`{"result":{"outcome":"Applied"`), "ended without a result"},
		{"garbage", say("\x00\xff\n"), "does not answer as the agent does"},
		{"another document of JSON", say(`{"id":"one"}` + "\n"), "either an event or a result"},
		{"both", say(`{"event":{},"result":{}}` + "\n"), "must have either"},
		{"unknown outcome", say(`{"result":{"outcome":"Perfect"}}` + "\n"), `unknown outcome "Perfect"`},
		{"outcome of a cleanup", say(`{"result":{"outcome":"Removed"}}` + "\n"), `unknown outcome "Removed"`},
		{"another revision", say(`{"result":{"outcome":"Applied","revision":"other"}}` + "\n"), `answers for the revision "other"`},
		{"too costly, and no plan", say(`{"result":{"outcome":"ImpactExceeded","revision":"` + revision + `"}}` + "\n"), "does not report what it would do"},
		{"too costly, and what it would do", say(`{"result":{"outcome":"ImpactExceeded","revision":"` + revision + `","plan":{"revision":"` + revision + `","impact":"Drain"}}}` + "\n"), ""},
		{"too costly, and something else", say(`{"result":{"outcome":"ImpactExceeded","revision":"` + revision + `","plan":{"revision":"other","impact":"Drain"}}}` + "\n"), `answers for the revision "other"`},
		{"a line without an end", endless, "a line has more than 1048576 bytes"},
		{"events without an end", func(w io.Writer) {
			flood(w, `{"event":{"item":"`+strings.Repeat("x", 32<<10)+`","state":"Done"}}`+"\n")
		}, "more than 8388608 bytes"},
		{"more objects than there can be", say(`{"result":{"changed":[` + strings.Repeat("{},", answer.OfPlan.Objects) + `{}]}}` + "\n"), "objects, more than"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newHostileSite(t, tt.answer)
			r := c.withoutPayload()
			encoded, err := r.Encode()
			if err != nil {
				t.Fatal(err)
			}
			// Asked once: the second time our agent would have been put there.
			result, err := s.client.runChange(t.Context(), mustTarget(t, s), "hostile", change{command: api.CommandApply, input: encoded, bundle: &r.Bundle, report: func(api.Event) {}})
			if tt.want == "" {
				if err != nil || (result.Outcome == api.OutcomeImpactExceeded) != (result.Plan != nil) {
					t.Errorf("got %+v, %v", result, err)
				}
				return
			}
			if failed := (*Error)(nil); !errors.As(err, &failed) || failed.Step != StepRun || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q in it", err, tt.want)
			}
		})
	}
}

// TestChangeThatBeganIsNotRepeated: an agent that breaks off after it has begun may have changed the
// host, which only its caller may decide to go on with. One that never began is placed and asked again.
func TestChangeThatBeganIsNotRepeated(t *testing.T) {
	for _, tt := range []struct {
		name, answer string
		want         bool // repeated
	}{
		{"nothing was said", "", true},
		{"an event came", `{"event":{"item":"x","state":"Done"}}` + "\n", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newHostileSite(t, say(tt.answer))
			events := 0
			_, err := s.client.Cleanup(t.Context(), s.Instance, func(api.Event) { events++ })
			repeated := s.place(t, "none") != "hostile"
			if repeated != tt.want || err == nil && !repeated || (events > 0) == tt.want {
				t.Errorf("repeated: %v, want %v; %d events, %v", repeated, tt.want, events, err)
			}
		})
	}
}

// say answers with a text.
func say(text string) func(w io.Writer) {
	return func(w io.Writer) { _, _ = io.WriteString(w, text) }
}

// flood answers with a text again and again.
func flood(w io.Writer, text string) {
	for {
		if _, err := io.WriteString(w, text); err != nil {
			return
		}
	}
}

// TestHostileText: what a host says is bounded and clean, and has no secret.
func TestHostileText(t *testing.T) {
	c := newConfigurable(t, winhost.InProcessOptions{})
	r := c.withoutPayload()
	long := strings.Repeat("x", 3*answer.MaxText)
	var got []api.Event
	result, err := readProgress(strings.NewReader(fmt.Sprintf(
		`{"event":{"item":"\u001b[2J\n","state":"Note","message":"token %s","step":-1,"steps":99999999999}}`+"\n"+`{"result":{"outcome":"Failed","error":"bearer %s %s"}}`+"\n",
		secretToken, secretToken, long)), redactorOf(&r.Bundle), func(e api.Event) { got = append(got, e) })
	if err != nil {
		t.Fatal(err)
	}
	want := []api.Event{{Item: "?[2J ", State: api.EventNote, Message: "token [redacted]", Steps: maxSteps}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	if len(result.Error) > answer.MaxText || !strings.HasPrefix(result.Error, "bearer [redacted] xxx") {
		t.Errorf("the error has %d bytes: %.40q", len(result.Error), result.Error)
	}
}

// TestSecretsStay: what fails says nothing of the bundle, even where a host repeats it.
func TestSecretsStay(t *testing.T) {
	c := newConfigurable(t, winhost.InProcessOptions{Command: func(_ context.Context, c winhost.CommandLine) (uint32, bool) {
		b, _ := io.ReadAll(c.Stdin)
		_, _ = c.Stderr.Write(b)
		return 1, true
	}})
	encoded, err := c.request().Encode()
	if err != nil {
		t.Fatal(err)
	}
	c.place(t, "hostile")
	target := mustTarget(t, c.site)
	for _, input := range [][]byte{encoded, []byte("as text " + secretToken)} {
		_, applied := c.client.runChange(t.Context(), target, "hostile", change{command: api.CommandApply, input: input, bundle: &c.bundle})
		_, planned := queryProgram(t.Context(), c.Pool, target, "hostile", query{command: api.CommandPlan, encoded: input, bundle: &c.bundle}, &api.Plan{})
		for _, err := range []error{applied, planned} {
			if err == nil || strings.Contains(err.Error(), secretToken) || strings.Contains(err.Error(), base64.StdEncoding.EncodeToString(c.bundle.Secrets["bootstrap"])) || !strings.Contains(err.Error(), redacted) {
				t.Errorf("got %v", err)
			}
		}
	}
}

// TestHostilePlan: a host can ask for anything to be sent anywhere.
func TestHostilePlan(t *testing.T) {
	c := newConfigurable(t, winhost.InProcessOptions{})
	revision, err := c.bundle.Document.Revision()
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(c.bundle.Document.Files, func(f config.File) bool { return f.Source.Payload == compressible })
	file := c.bundle.Document.Files[i]
	for _, tt := range []struct {
		name string
		plan api.Plan
		want string // part of the error; empty: none
	}{
		{"path of its own", api.Plan{Payload: []api.PayloadFile{{Name: file.Source.Payload, Digest: file.Digest, Path: `C:\Windows\System32\sethc.exe`, URL: "http://169.254.169.254/", Size: -1}}}, ""},
		{"another file", api.Plan{Payload: []api.PayloadFile{{Name: "other.exe", Digest: file.Digest}}}, "other.exe"},
		{"another digest", api.Plan{Payload: []api.PayloadFile{{Name: file.Source.Payload, Digest: "sha256:0"}}}, "which was not requested"},
		{"what is no file of the payload", api.Plan{Payload: []api.PayloadFile{{Digest: c.bundle.Document.Files[0].Digest}}}, "which was not requested"},
		{"another revision", api.Plan{Revision: "other"}, `"other"`},
		{"unknown impact", api.Plan{Impact: "Little"}, `impact "Little"`},
		{"unknown impact of an item", api.Plan{Items: []api.Item{{Action: api.ActionCreate}}}, `impact ""`},
		{"unknown action", api.Plan{Items: []api.Item{{Action: "Explode", Impact: config.ImpactNone}}}, `action "Explode"`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := tt.plan
			if p.Revision == "" {
				p.Revision = revision
			}
			if p.Impact == "" {
				p.Impact = config.ImpactNone
			}
			err := checkPlan(&p, &c.bundle)
			if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
			for _, f := range p.Payload {
				if err == nil && f != (api.PayloadFile{Name: file.Source.Payload, Digest: file.Digest, Size: file.Source.Size, Path: api.PayloadPath(file.Digest)}) {
					t.Errorf("got %+v", f)
				}
			}
		})
	}
}
