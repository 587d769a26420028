// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package app

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"

	"github.com/openshift/windows-instance-api/pkg/desired/flags"
	hostoptions "github.com/openshift/windows-instance-api/pkg/host/options"
)

// parse completes and validates options as the command does.
func parse(t *testing.T, args ...string) (*options, error) {
	t.Helper()
	o := newOptions()
	fs := pflag.NewFlagSet("windows-controller", pflag.ContinueOnError)
	o.addFlags(fs)
	if err := fs.Parse(args); err != nil {
		t.Fatal(err)
	}
	o.complete()
	return o, o.validate()
}

func TestDefaults(t *testing.T) {
	t.Setenv(namespaceVariable, "")
	got, err := parse(t, "--agent-dir", t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	want := &options{
		InstancesConfigMap:      "windows-instances",
		MaxRemovals:             "10%",
		RemovalWindow:           time.Hour,
		LeaderElect:             true,
		LeaderElectionNamespace: "openshift-windows-machine-config-operator",
		// What OpenShift wants (CONVENTIONS.md of openshift/enhancements).
		LeaderElectLeaseDuration: 137 * time.Second,
		LeaderElectRenewDeadline: 107 * time.Second,
		LeaderElectRetryPeriod:   26 * time.Second,
		MetricsBindAddress:       ":8443",
		HealthProbeBindAddress:   ":8081",
		Hosts: &hostoptions.Options{
			Namespace:          "openshift-windows-machine-config-operator",
			PrivateKeySecret:   "cloud-private-key",
			AgentDir:           got.Hosts.AgentDir,
			DialTimeout:        10 * time.Second,
			MaxHostConnections: 1024,
		},
		ConcurrentProbes:        64,
		ConcurrentSlowProbes:    32,
		ConcurrentOperations:    128,
		ProbeTimeout:            4 * time.Minute,
		NodeSettleTime:          30 * time.Second,
		MissingNamespaceTimeout: time.Hour,
		APIServerSettleTime:     10 * time.Minute,
		RecheckInterval:         5 * time.Minute,
		MaxDisruptiveOperations: 1,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestEveryFlagSetsItsField(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"tls.crt", "tls.key", "kubeconfig"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	got, err := parse(t,
		"--kubeconfig", filepath.Join(dir, "kubeconfig"), "--namespace=hosts", "--instances-configmap=list", "--private-key-secret=key",
		"--max-removals=5", "--removal-window=2h", "--remove-without-confirmation",
		"--leader-elect=false", "--leader-election-namespace=leases", "--leader-elect-lease-duration=15s", "--leader-elect-renew-deadline=10s", "--leader-elect-retry-period=2s",
		"--metrics-bind-address=127.0.0.1:9443", "--metrics-cert-dir", dir, "--tls-min-version=VersionTLS12", "--tls-cipher-suites=TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256", "--health-probe-bind-address=0",
		"--agent-dir", dir, "--allowed-host-cidrs=127.0.0.0/8,fe80::/10", "--refused-host-cidrs=172.30.0.0/16", "--refused-host-cidrs=10.128.0.0/14", "--dial-timeout=3s", "--max-host-connections=7",
		"--concurrent-probes=5", "--concurrent-slow-probes=2", "--concurrent-operations=3", "--probe-timeout=30s", "--recheck-interval=1m", "--node-settle-time=20s", "--missing-namespace-timeout=24h", "--api-server-settle-time=5m",
		"--payload", dir, "--payload-cache-dir", dir, "--api-server-url=https://api.example.com:6443", "--service-cidr=10.96.0.0/12", "--cluster-dns=10.96.0.10",
		"--max-disruptive-operations=4", "--host-upload-limit=10Mi", "--total-upload-limit=100M")
	if err != nil {
		t.Fatal(err)
	}
	want := &options{
		Kubeconfig: filepath.Join(dir, "kubeconfig"), InstancesConfigMap: "list", MaxRemovals: "5", RemovalWindow: 2 * time.Hour, RemoveWithoutConfirmation: true,
		LeaderElectionNamespace: "leases", LeaderElectLeaseDuration: 15 * time.Second, LeaderElectRenewDeadline: 10 * time.Second, LeaderElectRetryPeriod: 2 * time.Second,
		MetricsBindAddress: "127.0.0.1:9443", MetricsCertDir: dir, HealthProbeBindAddress: "0",
		TLSMinVersion: "VersionTLS12", TLSCipherSuites: []string{"TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"},
		Hosts: &hostoptions.Options{
			Namespace: "hosts", PrivateKeySecret: "key", AgentDir: dir,
			AllowedHostCIDRs: []string{"127.0.0.0/8", "fe80::/10"}, RefusedHostCIDRs: []string{"172.30.0.0/16", "10.128.0.0/14"},
			DialTimeout: 3 * time.Second, MaxHostConnections: 7,
		},
		ConcurrentProbes: 5, ConcurrentSlowProbes: 2, ConcurrentOperations: 3, ProbeTimeout: 30 * time.Second, RecheckInterval: time.Minute, NodeSettleTime: 20 * time.Second, MissingNamespaceTimeout: 24 * time.Hour, APIServerSettleTime: 5 * time.Minute,
		Desired: flags.Flags{
			Payload: dir, PayloadCache: dir, APIServerURL: "https://api.example.com:6443", ServiceCIDR: "10.96.0.0/12", ClusterDNS: "10.96.0.10",
		},
		MaxDisruptiveOperations: 4, HostUploadLimit: "10Mi", TotalUploadLimit: "100M",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if host, total, err := got.uploadLimits(); err != nil || host != 10<<20 || total != 100_000_000 {
		t.Errorf("the limits of uploads are %d, %d, %v", host, total, err)
	}
}

func TestMaxRemovals(t *testing.T) {
	for value, want := range map[string]bool{"0": true, "7": true, "0%": true, "10%": true, "100%": true, "-1": false, "101%": false, "-1%": false, "10": true, "500": true, "ten": false, "": false, "1.5%": false} {
		_, err := parse(t, "--agent-dir", t.TempDir(), "--max-removals="+value)
		if (err == nil) != want {
			t.Errorf("%q: got %v", value, err)
		}
	}
}

func TestNamespace(t *testing.T) {
	for _, test := range []struct {
		name      string
		env       string
		args      []string
		want      string
		wantLease string
	}{
		{"default", "", nil, "openshift-windows-machine-config-operator", "openshift-windows-machine-config-operator"},
		{"that of the pod", "of-the-pod", nil, "of-the-pod", "of-the-pod"},
		{"the flag before that of the pod", "of-the-pod", []string{"--namespace=of-the-flag"}, "of-the-flag", "of-the-flag"},
		{"an empty flag", "of-the-pod", []string{"--namespace="}, "of-the-pod", "of-the-pod"},
		{"another for the Lease", "of-the-pod", []string{"--leader-election-namespace=of-the-lease"}, "of-the-pod", "of-the-lease"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Setenv(namespaceVariable, test.env)
			o, err := parse(t, append(test.args, "--agent-dir", t.TempDir())...)
			if err != nil {
				t.Fatal(err)
			}
			if o.Hosts.Namespace != test.want || o.LeaderElectionNamespace != test.wantLease {
				t.Errorf("got %s and %s, want %s and %s", o.Hosts.Namespace, o.LeaderElectionNamespace, test.want, test.wantLease)
			}
		})
	}
}

func TestValidateSaysEverythingThatIsWrong(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := parse(t, "--namespace=A B", "--leader-election-namespace=a.b", "--leader-elect-lease-duration=1ms", "--leader-elect-renew-deadline=1ms", "--leader-elect-retry-period=999ms", "--instances-configmap=", "--private-key-secret=/",
		"--metrics-bind-address=8443", "--health-probe-bind-address=:http", "--metrics-cert-dir", t.TempDir(), "--tls-min-version=1.3", "--tls-cipher-suites=RC4", "--kubeconfig=/nowhere/kubeconfig",
		"--agent-dir", file, "--allowed-host-cidrs=127.0.0.1,10.0.0.0/8", "--refused-host-cidrs=pods", "--dial-timeout=0s", "--probe-timeout=-1s", "--recheck-interval=1ms", "--node-settle-time=-1s", "--missing-namespace-timeout=-1s", "--api-server-settle-time=-1s",
		"--max-host-connections=0", "--concurrent-probes=-1", "--concurrent-slow-probes=0", "--concurrent-operations=0",
		"--payload", file, "--payload-cache-dir=/nowhere", "--api-server-url=http://x", "--service-cidr=10.96.0.0", "--cluster-dns=dns",
		"--max-disruptive-operations=0", "--host-upload-limit=1", "--total-upload-limit=much",
		"--max-removals=a few", "--removal-window=1ms")
	if err == nil {
		t.Fatal("all of it is taken")
	}
	for _, flag := range []string{"namespace", "leader-election-namespace", "leader-elect-lease-duration", "leader-elect-renew-deadline", "leader-elect-retry-period", "instances-configmap", "private-key-secret", "metrics-bind-address",
		"health-probe-bind-address", "metrics-cert-dir", "tls-min-version", "tls-cipher-suites", "kubeconfig", "agent-dir", "allowed-host-cidrs", "refused-host-cidrs", "dial-timeout", "probe-timeout", "recheck-interval", "node-settle-time", "missing-namespace-timeout", "api-server-settle-time",
		"max-host-connections", "concurrent-probes", "concurrent-slow-probes", "concurrent-operations",
		"payload", "payload-cache-dir", "api-server-url", "service-cidr", "cluster-dns", "max-disruptive-operations", "host-upload-limit", "total-upload-limit",
		"max-removals", "removal-window"} {
		if n := strings.Count(err.Error(), "--"+flag+": "); n != 1 && (flag != "metrics-cert-dir" || n != 2) { // it lacks two files
			t.Errorf("--%s is blamed %d times in %v", flag, n, err)
		}
	}
	var lines []string
	for _, e := range err.(utilerrors.Aggregate).Errors() { //nolint:errorlint,forcetypeassert // it is never wrapped
		lines = append(lines, e.Error())
	}
	if !slices.IsSorted(lines) {
		t.Errorf("the order is another one each time: %q", lines)
	}
	if strings.Contains(err.Error(), `"10.0.0.0/8"`) {
		t.Errorf("a good address range is blamed: %v", err)
	}
}

// What is just enough is taken.
func TestLeastValues(t *testing.T) {
	if _, err := parse(t, "--agent-dir", t.TempDir(), "--leader-elect-lease-duration=3s", "--leader-elect-renew-deadline=2s", "--leader-elect-retry-period=1s", "--host-upload-limit=16Ki", "--probe-timeout=1s", "--recheck-interval=1s", "--removal-window=1s", "--node-settle-time=0", "--missing-namespace-timeout=0", "--api-server-settle-time=0",
		"--concurrent-probes=1", "--concurrent-slow-probes=1", "--concurrent-operations=1", "--max-disruptive-operations=1"); err != nil {
		t.Error(err)
	}
}

func TestBindAddress(t *testing.T) {
	for address, want := range map[string]bool{"0": true, ":1": true, "[::1]:65535": true, "127.0.0.1:65536": false, ":0": false, ":1a": false, ":": false, "127.0.0.1": false, "": false} {
		if err := checkBindAddress(address); (err == nil) != want {
			t.Errorf("%q: got %v", address, err)
		}
	}
}

// One wrong namespace is said once, although the Lease is there, too.
func TestNamespaceIsBlamedOnce(t *testing.T) {
	if _, err := parse(t, "--agent-dir", t.TempDir(), "--namespace=A"); err == nil || strings.Count(err.Error(), "is no namespace") != 1 {
		t.Errorf("got %v", err)
	}
}

func TestTheSameAddressTwice(t *testing.T) {
	if _, err := parse(t, "--agent-dir", t.TempDir(), "--metrics-bind-address=:8081"); err == nil || !strings.Contains(err.Error(), "--metrics-bind-address: ") {
		t.Errorf("got %v", err)
	}
	if _, err := parse(t, "--agent-dir", t.TempDir(), "--metrics-bind-address=0", "--health-probe-bind-address=0"); err != nil {
		t.Errorf("got %v", err)
	}
}

// A host that is slow is not one that is away.
func TestDialTimeoutBelowASecond(t *testing.T) {
	if _, err := parse(t, "--agent-dir", t.TempDir(), "--dial-timeout=1ms"); err == nil || !strings.Contains(err.Error(), "--dial-timeout: ") {
		t.Errorf("got %v", err)
	}
}
