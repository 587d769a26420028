// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package conformance

import (
	"bytes"
	"cmp"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
	hostssh "github.com/openshift/windows-instance-api/pkg/host/ssh"
	"github.com/openshift/windows-instance-api/test/programs"
)

var (
	hostFlag         = flag.String("host", "", "the Windows host, as user@address or user@address:port")
	keyFlag          = flag.String("key", "", "the file with the private key that it lets in")
	hostKeyFlag      = flag.String("host-key", "", "the public key of the host: type and base64. Empty: that in -known-hosts")
	knownHostsFlag   = flag.String("known-hosts", "", "a file in the format of known_hosts with the public key of the host. Empty: ~/.ssh/known_hosts")
	installFlag      = flag.String("install-updates", "", "install updates of Windows: Security or All of those that wait; needs -allow-restart. Empty: none")
	allowRestartFlag = flag.Bool("allow-restart", false, "the host may be restarted")
	cleanFlag        = flag.Bool("clean", false, "take off the host first what a run that was interrupted has left")
)

// checkTimeout is how long one check may take; a restart of a host takes longest.
const checkTimeout = 15 * time.Minute

// build adds the programs that are put on a host.
func build(t *testing.T, o Options, arch string) Options {
	t.Helper()
	for pkg, program := range map[string]*[]byte{"cmd/agent": &o.Agent, "test/winhost/winservice": &o.Service, "test/conformance/slowservice": &o.SlowService} {
		var err error
		if *program, err = programs.Build(t.Context(), pkg, "windows", arch); err != nil {
			t.Fatal(err)
		}
	}
	var err error
	if o.Tests, err = programs.BuildTests(t.Context(), "pkg/agent/windows", "windows", arch); err != nil {
		t.Fatal(err)
	}
	return o
}

// run does all checks. What is missing on the host is why checks that need it fail.
func run(t *testing.T, o Options, missing map[string]string) {
	t.Helper()
	h, err := Open(t.Context(), o)
	t.Cleanup(func() {
		// The test is over for its context.
		ctx, cancel := context.WithTimeout(context.Background(), checkTimeout)
		defer cancel()
		if err := h.Close(ctx); err != nil {
			t.Errorf("leaving the host: %v", err)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	facts, err := h.facts(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("the host runs %s, %s, %s (%s)", facts.System.Product, facts.System.InstallationType, facts.System.Version, facts.System.Architecture)
	for _, c := range Checks() {
		ok := t.Run(strings.ReplaceAll(c.Name, " ", "_"), func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), cmp.Or(c.Timeout, checkTimeout))
			defer cancel()
			err := c.Run(ctx, h)
			switch why, lacks := missing[c.Needs]; {
			case lacks && err == nil:
				t.Errorf("this host has %s, and the table of what is missing says that it has not", c.Needs)
			case lacks:
				t.Skipf("%s: %s\n%v", c.Needs, why, err)
			case errors.Is(err, ErrNotAllowed), errors.Is(err, ErrNotAsked), errors.Is(err, ErrNotThere):
				t.Skip(err)
			case err != nil:
				t.Error(err)
			}
		})
		if !ok && c.Essential {
			t.Fatal("the checks that follow build on this one")
		}
	}
}

// TestHost checks a host that somebody names.
func TestHost(t *testing.T) {
	if *hostFlag == "" {
		t.Skip("no Windows host is given: make conformance HOST=user@address KEY=file")
	}
	target, err := ParseHost(*hostFlag)
	if err != nil {
		t.Fatal(err)
	}
	if target.HostKeys, err = HostKeys(target, *hostKeyFlag, *knownHostsFlag); err != nil {
		t.Fatal(err)
	}
	pem, err := os.ReadFile(*keyFlag)
	if err != nil {
		t.Fatalf("-key: %v", err)
	}
	signer, err := ssh.ParsePrivateKey(pem)
	if err != nil {
		t.Fatalf("-key: %v", err)
	}
	target.Credential = hostssh.Credential{ID: "key", Signers: []ssh.Signer{signer}}
	o := Options{Target: target, AllowRestart: *allowRestartFlag, InstallUpdates: api.UpdateScope(*installFlag), Clean: *cleanFlag}
	if err := o.Validate(); err != nil {
		t.Fatal(err)
	}
	run(t, build(t, o, "amd64"), nil)
}

// The table has what checks need, and nothing else.
func TestMissingInWine(t *testing.T) {
	needed, names := map[string]bool{"": true}, map[string]bool{}
	for _, c := range Checks() {
		needed[c.Needs] = true
		if names[c.Name] {
			t.Errorf("%q is there twice", c.Name)
		}
		names[c.Name] = true
		if c.Needs != "" && c.Essential {
			t.Errorf("%q is essential and cannot be done everywhere", c.Name)
		}
	}
	for api, why := range MissingInWine {
		if !needed[api] || why == "" {
			t.Errorf("%q is in the table and no check needs it, or it does not say why", api)
		}
	}
}

func TestParseHost(t *testing.T) {
	for _, tt := range []struct {
		text, user, address string
		port                int
		wantErr             bool
	}{
		{text: "Administrator@192.0.2.7", user: "Administrator", address: "192.0.2.7", port: 22},
		{text: "a@w.example.com:2222", user: "a", address: "w.example.com", port: 2222},
		{text: "a@2001:db8::1", user: "a", address: "2001:db8::1", port: 22},
		{text: "a@[2001:db8::1]:2222", user: "a", address: "2001:db8::1", port: 2222},
		{text: "a@[2001:db8::1]", user: "a", address: "2001:db8::1", port: 22},
		{text: "192.0.2.7", wantErr: true},
		{text: "@192.0.2.7", wantErr: true},
		{text: "a@w:ssh", wantErr: true},
	} {
		t.Run(tt.text, func(t *testing.T) {
			got, err := ParseHost(tt.text)
			if (err != nil) != tt.wantErr || got.User != tt.user || got.Address != tt.address || got.Port != tt.port {
				t.Errorf("got %+v, %v", got, err)
			}
		})
	}
}

func newKey(t *testing.T) ssh.PublicKey {
	t.Helper()
	public, _, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	key, err := ssh.NewPublicKey(public)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// A host whose key is not known is not talked to.
func TestHostKeys(t *testing.T) {
	key, other := newKey(t), newKey(t)
	file := filepath.Join(t.TempDir(), "known_hosts")
	lines := knownhosts.Line([]string{"[192.0.2.7]:2222"}, key) + "\n" + knownhosts.Line([]string{"192.0.2.8"}, other) + "\n"
	if err := os.WriteFile(file, []byte(lines), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name, hostKey, address string
		port                   int
		wantErr                string
	}{
		{name: "in the file", address: "192.0.2.7", port: 2222},
		{name: "another port is another host", address: "192.0.2.7", port: 22, wantErr: "has no key of 192.0.2.7:22"},
		{name: "told", hostKey: string(ssh.MarshalAuthorizedKey(key)), address: "192.0.2.9", port: 22},
		{name: "told wrongly", hostKey: "ssh-ed25519 nonsense", address: "192.0.2.7", port: 2222, wantErr: "the host key"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			keys, err := HostKeys(hostssh.Target{Address: tt.address, Port: tt.port}, tt.hostKey, file)
			if tt.wantErr != "" {
				if err == nil || !strings.Contains(err.Error(), tt.wantErr) {
					t.Errorf("got %v", err)
				}
				return
			}
			if err != nil || len(keys) != 1 || !bytes.Equal(keys[0].Marshal(), key.Marshal()) {
				t.Errorf("got %v, %v", keys, err)
			}
		})
	}
}

// Updates are installed only when somebody asks for them, in words that are known, and allows the restart.
func TestOptions(t *testing.T) {
	for _, tt := range []struct {
		install api.UpdateScope
		restart bool
		ok      bool
	}{{"", false, true}, {"", true, true}, {api.UpdatesSecurity, true, true}, {api.UpdatesAll, true, true}, {api.UpdatesAll, false, false}, {"security", true, false}} {
		if err := (Options{InstallUpdates: tt.install, AllowRestart: tt.restart}).Validate(); (err == nil) != tt.ok {
			t.Errorf("%+v: %v", tt, err)
		}
	}
	if err := updatesAreInstalled(t.Context(), &Host{}); !errors.Is(err, ErrNotAsked) {
		t.Errorf("without being asked: %v", err)
	}
	if err := updatesAreInstalled(t.Context(), &Host{Options: Options{InstallUpdates: api.UpdatesAll}}); !errors.Is(err, ErrNotAllowed) {
		t.Errorf("without a restart: %v", err)
	}
}
