// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package options

import (
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"
)

func parse(t *testing.T, args ...string) *Options {
	t.Helper()
	o := New()
	fs := pflag.NewFlagSet("test", pflag.ContinueOnError)
	o.AddFlags(fs)
	if err := fs.Parse(args); err != nil {
		t.Fatal(err)
	}
	return o
}

func TestDefaults(t *testing.T) {
	want := &Options{
		Namespace:          "openshift-windows-machine-config-operator",
		PrivateKeySecret:   "cloud-private-key",
		AgentDir:           "/usr/share/windows-instance-api/agent",
		DialTimeout:        10 * time.Second,
		MaxHostConnections: 1024,
	}
	if diff := cmp.Diff(want, parse(t)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestEveryFlagSetsItsField(t *testing.T) {
	dir := t.TempDir()
	got := parse(t, "--namespace=hosts", "--private-key-secret=key", "--agent-dir", dir,
		"--allowed-host-cidrs=127.0.0.0/8,fe80::/10", "--refused-host-cidrs=172.30.0.0/16", "--refused-host-cidrs=10.128.0.0/14",
		"--dial-timeout=3s", "--max-host-connections=7")
	want := &Options{
		Namespace: "hosts", PrivateKeySecret: "key", AgentDir: dir,
		AllowedHostCIDRs: []string{"127.0.0.0/8", "fe80::/10"}, RefusedHostCIDRs: []string{"172.30.0.0/16", "10.128.0.0/14"},
		DialTimeout: 3 * time.Second, MaxHostConnections: 7,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if errs := got.Validate(); len(errs) > 0 {
		t.Errorf("all of it is right, and got %v", errs)
	}
	rules, err := got.addressRules()
	if err != nil || !rules.Allowed[0].Contains(netip.MustParseAddr("127.1.2.3")) || len(rules.Allowed) != 2 ||
		!rules.Refused[0].Contains(netip.MustParseAddr("172.30.0.1")) || len(rules.Refused) != 2 {
		t.Errorf("got %v, %v", rules, err)
	}
	if got := got.ClusterCredentials().String(); got != "hosts/key" {
		t.Errorf("the cluster-wide key is in %s", got)
	}
	connections, err := got.Connections(func(netip.Addr) (string, error) { return "", nil })
	if err != nil || connections.DialTimeout != 3*time.Second || connections.HandshakeTimeout != 3*time.Second || connections.MaxConns != 7 {
		t.Errorf("connections are made with %+v, %v", connections, err)
	}
	if connections.Refusals == nil {
		t.Error("each pool remembers by itself which bastions refuse it")
	}
	if err := connections.AllowAddress(netip.MustParseAddr("172.30.0.1")); err == nil {
		t.Error("an address that is refused is dialed")
	}
}

func TestValidateSaysEverythingThatIsWrong(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	got := errors.Join(parse(t, "--agent-dir", file, "--allowed-host-cidrs=127.0.0.1,10.0.0.0/8", "--refused-host-cidrs=pods",
		"--dial-timeout=0s", "--max-host-connections=0").Validate()...)
	for _, flag := range []string{"agent-dir", "allowed-host-cidrs", "refused-host-cidrs", "dial-timeout", "max-host-connections"} {
		if got == nil || !strings.Contains(got.Error(), "--"+flag+": ") {
			t.Errorf("--%s is missing in %v", flag, got)
		}
	}
	if strings.Contains(got.Error(), `"10.0.0.0/8"`) {
		t.Errorf("a good address range is blamed: %v", got)
	}
	none := parse(t, "--agent-dir=/nowhere/agent")
	if _, err := none.Agents(); err == nil || !strings.Contains(err.Error(), "--agent-dir: ") {
		t.Errorf("without agents: %v", err)
	}
}
