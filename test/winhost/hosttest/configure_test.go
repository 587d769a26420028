// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package hosttest

import (
	"bytes"
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
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/big"
	"path"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
	"github.com/openshift/windows-instance-api/pkg/agent/api/config"
	"github.com/openshift/windows-instance-api/pkg/agent/engine"
	"github.com/openshift/windows-instance-api/test/agenthost"
	"github.com/openshift/windows-instance-api/test/programs"
	"github.com/openshift/windows-instance-api/test/winhost"
)

// configured is a host that is configured through its agent.
type configured struct {
	*testing.T
	host    winhost.Host
	signer  ssh.Signer
	agent   string
	payload map[string][]byte // by digest
}

func configure(t *testing.T, h winhost.Host, signer ssh.Signer) *configured {
	t.Helper()
	agent, _ := installAgent(t, h, signer)
	return &configured{T: t, host: h, signer: signer, agent: agent, payload: map[string][]byte{}}
}

// onHost is where a path of drive C is for SFTP.
func (c *configured) onHost(windowsPath string) string {
	return "/" + strings.ReplaceAll(windowsPath, `\`, "/")
}

// content of a file, or nil when there is none.
func (c *configured) content(windowsPath string) []byte {
	c.Helper()
	f, err := sftpClient(c.T, c.host, c.signer).Open(c.onHost(windowsPath))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		c.Fatal(err)
	}
	defer f.Close()
	content, err := io.ReadAll(f)
	if err != nil {
		c.Fatal(err)
	}
	return content
}

// program is a file of the payload.
func (c *configured) program(windowsPath string, content []byte, services ...string) config.File {
	digest := config.Digest(content)
	c.payload[digest] = content
	return config.File{
		Path: windowsPath, Role: config.RoleProgram, Source: config.Source{Payload: windowsPath, Size: int64(len(content))}, Digest: digest,
		OnChange: onChange(services...),
	}
}

// onChange restarts services, or nothing.
func onChange(services ...string) config.OnChange {
	if len(services) == 0 {
		return config.OnChange{Impact: config.ImpactNone}
	}
	return config.OnChange{Impact: config.ImpactRestart, Services: services}
}

func textOnHost(windowsPath, content string, services ...string) config.File {
	return config.File{
		Path: windowsPath, Role: config.RoleConfiguration, Source: config.Source{Text: &content}, Digest: config.Digest([]byte(content)),
		OnChange: onChange(services...),
	}
}

// plan asks the agent, and sends what it needs.
func (c *configured) plan(b config.Bundle) api.Plan {
	c.Helper()
	text, err := b.Encode()
	if err != nil {
		c.Fatal(err)
	}
	var p api.Plan
	if err := json.Unmarshal(output(c.T, c.host, c.signer, c.agent+" plan", bytes.NewReader(text)), &p); err != nil {
		c.Fatal(err)
	}
	files := sftpClient(c.T, c.host, c.signer)
	for _, f := range p.Payload {
		name := c.onHost(f.Path)
		if err := files.MkdirAll(path.Dir(name)); err != nil {
			c.Fatal(err)
		}
		upload(c.T, files, name, c.payload[f.Digest])
	}
	return p
}

// change runs a sub-command that answers with progress.
func (c *configured) change(command string, stdin io.Reader) api.Result {
	c.Helper()
	ctx, cancel := context.WithTimeout(c.Context(), patience)
	defer cancel()
	var out bytes.Buffer
	runErr := (&client{host: c.host, signer: c.signer}).run(ctx, c.agent+" "+command, stdin, &out)
	var last api.Progress
	for line := range bytes.Lines(out.Bytes()) {
		last = api.Progress{}
		if err := json.Unmarshal(line, &last); err != nil {
			c.Fatalf("%s: %v: %s", command, err, line)
		}
	}
	if last.Result == nil {
		c.Fatalf("%s has no result: %v\n%s", command, runErr, out.String())
	}
	if (runErr != nil) != (last.Result.Outcome == api.OutcomeFailed) {
		c.Errorf("%s ended with %v and says %+v", command, runErr, last.Result)
	}
	return *last.Result
}

func (c *configured) request(b config.Bundle) io.Reader {
	c.Helper()
	text, err := (&api.ApplyRequest{Allow: config.ImpactReboot, Bundle: b}).Encode()
	if err != nil {
		c.Fatal(err)
	}
	return bytes.NewReader(text)
}

// apply plans and applies until it is done.
func (c *configured) apply(b config.Bundle) api.Result {
	c.Helper()
	for range 3 {
		c.plan(b)
		r := c.change("apply", c.request(b))
		switch r.Outcome {
		case api.OutcomeRebootRequired:
			if err := c.host.Reboot(); err != nil {
				c.Fatal(err)
			}
		case api.OutcomeApplied, api.OutcomeUnchanged:
			return r
		default:
			c.Fatalf("apply: %+v", r)
		}
	}
	c.Fatal("it needs one restart after the other")
	return api.Result{}
}

func newCertificate(t *testing.T) config.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "a test"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(der)
	return config.Certificate{
		Store: config.StoreRoot, Fingerprint: hex.EncodeToString(sum[:]), OnChange: onChange(),
		PEM: string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})),
	}
}

func managed(name, binary string, arguments, dependencies []string) config.Service {
	return config.Service{
		Name: name, Description: config.Description(name), BinaryPath: binary, Arguments: arguments, Dependencies: dependencies,
		StartType: config.StartAutomatic, OnChange: onChange(name),
		Recovery: &config.Recovery{ResetAfterSeconds: 300, RestartDelaysMilliseconds: []int64{10_000, 60_000}},
	}
}

// document is one that every tier can carry out. The program is the service's.
func (c *configured) document(program []byte) config.Bundle {
	secret := config.File{
		Path: `C:\k\pki\token`, Role: config.RoleCredential, Source: config.Source{Secret: "token"}, Access: config.AccessAdministrators,
		Digest: "hmac-sha256:" + strings.Repeat("0", 64), OnChange: onChange(),
	}
	return config.Bundle{
		Document: config.Document{
			Version:     config.SchemaVersion,
			Directories: []config.Directory{{Path: `C:\k\pki`, Access: config.AccessAdministrators}, {Path: `C:\var\log\base`}},
			Files: []config.File{
				c.program(`C:\k\base service.exe`, program, "base"), textOnHost(`C:\k\base.conf`, "one", "base"),
				textOnHost(`C:\k\theirs.conf`, "ours"), secret,
			},
			Environment:         []config.EnvironmentVariable{{Name: "WINSERVICE", Value: "ours", OnChange: config.OnChange{Impact: config.ImpactReboot}}},
			Certificates:        []config.Certificate{newCertificate(c.T)},
			AntivirusExclusions: []string{`C:\k\base service.exe`},
			Services: []config.Service{
				managed("base", `C:\k\base service.exe`, []string{`C:\var\log\base\started`, "first"}, nil),
				managed("above", `C:\k\base service.exe`, []string{`C:\var\log\base\above`, "first"}, []string{"base"}),
			},
		},
		Secrets: config.Secrets{"token": []byte("a secret")},
	}
}

// serviceProgram is the program of the services.
func serviceProgram(t *testing.T, h winhost.Host) []byte {
	t.Helper()
	if h.Tier() == winhost.TierOpenSSH {
		return []byte("no service runs here")
	}
	program, err := programs.Build(t.Context(), "test/winhost/winservice", "windows", runtime.GOARCH)
	if err != nil {
		t.Fatal(err)
	}
	return program
}

// TestConfigure: the agent configures a host, changes it, and takes everything away again,
// over a real SSH server. That it does so on Windows is for package conformance to show.
func TestConfigure(t *testing.T) {
	signer := NewKey(t)
	h := Start(t, winhost.Options{Tier: winhost.TierOpenSSH, AuthorizedKeys: []ssh.PublicKey{signer.PublicKey()}})
	c := configure(t, h, signer)
	files := sftpClient(t, h, signer)
	if err := files.MkdirAll(c.onHost(`C:\k`)); err != nil {
		t.Fatal(err)
	}
	upload(t, files, c.onHost(`C:\k\theirs.conf`), []byte("theirs"))
	upload(t, files, c.onHost(`C:\k\other.txt`), []byte("other"))

	b := c.document(serviceProgram(t, h))
	b.Document.Hostname = "renamed"
	if r := c.apply(b); r.Outcome != api.OutcomeApplied {
		t.Errorf("first: %+v", r)
	}
	if r := c.change("apply", c.request(b)); r.Outcome != api.OutcomeUnchanged || len(r.Changed) > 0 {
		t.Errorf("again: %s, %s", r.Outcome, reasons(r.Changed))
	}
	if got := string(c.content(`C:\k\pki\token`)); got != "a secret" {
		t.Errorf("the secret is %q", got)
	}

	// A file and the arguments of a service.
	b.Document.Files[1] = textOnHost(`C:\k\base.conf`, "two", "base")
	b.Document.Services = slices.Clone(b.Document.Services)
	b.Document.Services[0] = managed("base", `C:\k\base service.exe`, []string{`C:\var\log\base\started`, "second and more"}, nil)
	if p := c.plan(b); p.Impact != config.ImpactRestart || !slices.Equal(p.Restarts, []string{"above", "base"}) {
		t.Errorf("plan: %s, restarts %v", p.Impact, p.Restarts)
	}
	if r := c.apply(b); len(r.Changed) != 2 {
		t.Errorf("second: %s", reasons(r.Changed))
	}

	// A program, without stopping it.
	b.Document.Files[0] = c.program(`C:\k\base service.exe`, append(serviceProgram(t, h), 0))
	if r := c.apply(b); len(r.Changed) != 1 {
		t.Errorf("program: %s", reasons(r.Changed))
	}

	// What others change is seen.
	upload(t, sftpClient(t, h, signer), c.onHost(`C:\k\base.conf`), []byte("changed"))
	if p := c.plan(b); len(p.Items) != 1 || p.Items[0].Name != `C:\k\base.conf` {
		t.Errorf("after a change by somebody else: %s", reasons(p.Items))
	}

	// That the host has to restart is not forgotten before it has.
	for range 2 {
		if r := c.change("cleanup", nil); r.Outcome != api.OutcomeRemoved || len(r.Reboot) != 1 {
			t.Fatalf("cleanup: %+v", r)
		}
	}
	if err := h.Reboot(); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if r := c.change("cleanup", nil); r.Outcome != api.OutcomeRemoved || len(r.Changed)+len(r.Reboot) > 0 {
			t.Errorf("cleanup again: %+v", r)
		}
	}
	c.clean()
	// Everything differs again: nothing of it was left. But the host keeps its name.
	d := b.Document
	if p, want := c.plan(b), len(d.Files)+len(d.Environment)+len(d.Certificates)+len(d.Services)+len(d.AntivirusExclusions)+1; len(p.Items) < want {
		t.Errorf("%d items are missing, want at least %d: %s", len(p.Items), want, reasons(p.Items))
	}
}

// reasons tells why items differ.
func reasons(items []api.Item) string {
	var out strings.Builder
	for _, i := range items {
		fmt.Fprintf(&out, "\n%s: %s", i, i.Reason)
	}
	return out.String()
}

// running checks that the services of a Wine host run, and how the one below was started.
func (c *configured) running() {
	c.Helper()
	if got, want := string(c.content(`C:\var\log\base\started`)), "first\n\n"; got != want {
		c.Errorf("the service was started with %q, want %q", got, want)
	}
	for _, name := range []string{"base", "above"} {
		if got := string(output(c.T, c.host, c.signer, "sc query "+name, nil)); !strings.Contains(got, "RUNNING") {
			c.Errorf("service %s: %s", name, got)
		}
	}
}

// clean checks that only what was there before is there.
func (c *configured) clean() {
	c.Helper()
	for name, want := range map[string]string{`C:\k\theirs.conf`: "theirs", `C:\k\other.txt`: "other", `C:\k\base.conf`: "", `C:\k\base service.exe`: ""} {
		if got := string(c.content(name)); got != want {
			c.Errorf("%s has %.20q, want %q", name, got, want)
		}
	}
	files := sftpClient(c.T, c.host, c.signer)
	for _, name := range []string{`C:\k\pki`, api.Root + `\state`, api.PayloadDirectory} {
		if _, err := files.Stat(c.onHost(name)); !errors.Is(err, fs.ErrNotExist) {
			list, _ := files.ReadDir(c.onHost(name))
			c.Errorf("%s is left: %v %v", name, err, list)
		}
	}
	if c.host.Tier() != winhost.TierWine {
		return
	}
	for _, line := range []string{"sc query base", "sc query above", `reg query "HKLM\SYSTEM\CurrentControlSet\Control\Session Manager\Environment" /v WINSERVICE`} {
		if got := try(c.T, c.host, c.signer, line, ""); got.What == "ok" {
			c.Errorf("%s finds something: %+v", line, got)
		}
	}
}

// TestConfigurePowerLoss: a host that loses power while it is configured is configured by
// the next try, and what was there before is still known.
func TestConfigurePowerLoss(t *testing.T) {
	h, signer := startWine(t)
	c := configure(t, h, signer)
	files := sftpClient(t, h, signer)
	if err := files.MkdirAll(c.onHost(`C:\k`)); err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string]string{`C:\k\theirs.conf`: "theirs", `C:\k\other.txt`: "other"} {
		upload(t, files, c.onHost(name), []byte(content))
	}
	b := c.document(serviceProgram(t, h))
	b.Document.Environment = nil // so that no restart is asked for
	for _, when := range []string{`Create File C:\k\base.conf`, `Update File C:\k\theirs.conf`, "Create Service base", "Create Service above"} {
		c.plan(b)
		c.powerLoss(b, when)
	}
	if r := c.apply(b); r.Outcome != api.OutcomeApplied && r.Outcome != api.OutcomeUnchanged {
		t.Fatalf("got %+v", r)
	}
	c.running()
	if r := c.change("apply", c.request(b)); r.Outcome != api.OutcomeUnchanged {
		t.Errorf("again: %+v", r)
	}
	if r := c.change("cleanup", nil); r.Outcome != api.OutcomeRemoved {
		t.Fatalf("cleanup: %+v", r)
	}
	c.clean()
}

// powerLoss applies a bundle and takes the power when an item begins.
func (c *configured) powerLoss(b config.Bundle, when string) {
	c.Helper()
	read, write := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		err := (&client{host: c.host, signer: c.signer}).run(c.Context(), c.agent+" apply", c.request(b), write)
		ended <- errors.Join(err, write.Close())
	}()
	decoder := json.NewDecoder(read)
	for {
		var p api.Progress
		if err := decoder.Decode(&p); err != nil || p.Result != nil {
			// It was done before: the power goes all the same.
			break
		}
		if p.Event.Item == when && p.Event.State == api.EventStarted {
			break
		}
	}
	if err := c.host.PowerOff(); err != nil {
		c.Fatal(err)
	}
	_ = read.Close()
	<-ended // with whatever a lost connection is
	if err := c.host.PowerOn(); err != nil {
		c.Fatal(err)
	}
}

// TestConfigureTwice: of two at a time one is told about the other.
func TestConfigureTwice(t *testing.T) {
	signer := NewKey(t)
	h := Start(t, winhost.Options{Tier: winhost.TierOpenSSH, AuthorizedKeys: []ssh.PublicKey{signer.PublicKey()}})
	c := configure(t, h, signer)
	b := c.document(serviceProgram(t, h))
	drive, err := h.LocalPath(`C:\`)
	if err != nil {
		t.Fatal(err)
	}
	release, err := agenthost.NewSystem(drive, nil).Lock(engine.Owner{PID: 7, Command: "apply"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = release() })
	c.plan(b)
	r := c.change("apply", c.request(b))
	if r.Outcome != api.OutcomeFailed || r.Reason != api.ReasonLocked || !strings.Contains(r.Error, `"apply" changes this host, process 7`) {
		t.Errorf("got %+v", r)
	}
}
