// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package document_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"flag"
	"fmt"
	"maps"
	"math/big"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	configv1 "github.com/openshift/api/config/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
	"github.com/openshift/windows-instance-api/pkg/agent/api/config"
	"github.com/openshift/windows-instance-api/pkg/agent/kubeletconfig"
	"github.com/openshift/windows-instance-api/pkg/desired/document"
	"github.com/openshift/windows-instance-api/pkg/wmco"
)

// update writes the golden files anew:
//
//	go test ./pkg/desired/document -update
//
// Look at the difference before you commit it: it is what changes on every host.
var update = flag.Bool("update", false, "write the golden files in testdata anew")

var platforms = []configv1.PlatformType{
	configv1.NonePlatformType, configv1.AWSPlatformType, configv1.AzurePlatformType,
	configv1.GCPPlatformType, configv1.VSpherePlatformType, configv1.NutanixPlatformType, configv1.BareMetalPlatformType,
}

const apiServer = "https://api-int.c.example.com:6443"

// options are what the services of a cluster on the platform depend on.
func options(platform configv1.PlatformType) document.ServiceOptions {
	o := document.ServiceOptions{Platform: platform, APIServerURL: apiServer, CredentialProvider: platform == configv1.AWSPlatformType}
	switch platform {
	case configv1.AWSPlatformType, configv1.GCPPlatformType, configv1.NutanixPlatformType:
		o.KubeletArguments = map[string]string{"cloud-provider": "external"}
	case configv1.AzurePlatformType:
		o.KubeletArguments = map[string]string{"cloud-provider": "external", "cloud-config": "/etc/kubernetes/cloud.conf"}
	case configv1.VSpherePlatformType:
		o.KubeletArguments = map[string]string{"cloud-provider": "external"}
		o.VXLANPort = 9898
	}
	return o
}

const (
	token     = "s3cr3t-token"
	agentPath = `C:\Windows\windows-node-agent\windows-node-agent-0123456789abcdef.exe`
)

// inputs are those of a host that is a node.
func inputs(platform configv1.PlatformType) document.Inputs {
	in := document.Inputs{
		Cluster: document.Cluster{
			ServiceOptions: options(platform),
			ServiceCIDRs:   []string{"172.30.0.0/16"},
			KubeletCA:      []byte("the CA of the kubelet"),
			APIServerCA:    []byte("the CA of the API server"),
			ImageDigestMirrors: []configv1.ImageDigestMirrors{
				{Source: "registry.example.com/team", Mirrors: []configv1.ImageMirror{"mirror.example.com/team"}},
			},
			ExporterCertificate: []byte("a certificate"),
			ExporterKey:         []byte("a private key"),
		},
		Instance:  document.Instance{Addresses: []netip.Addr{netip.MustParseAddr("10.0.0.5")}},
		Node:      &document.Node{Name: "win-1", Subnet: "10.132.0.0/24"},
		DigestKey: bytes.Repeat([]byte("k"), 32),
		AgentPath: agentPath,
	}
	switch platform {
	case configv1.AWSPlatformType:
		in.Cluster.CredentialProviderConfig = []byte("kind: CredentialProviderConfig\n")
	case configv1.AzurePlatformType:
		in.Cluster.CloudConfig = []byte(`{"cloud":"AzurePublicCloud"}`)
		in.Cluster.NodeManager = &document.TokenCredentials{CA: []byte("the CA of the API server"), Token: token}
	}
	// The payload is the same for all platforms.
	for _, p := range platforms {
		for _, f := range wmco.PayloadFiles(p) {
			path := f.Path()
			if !strings.HasSuffix(path, ".exe") || slices.ContainsFunc(in.Payload.Files, func(f document.PayloadFile) bool { return f.Path == path }) {
				continue
			}
			_, file := wmco.SplitPath(path)
			in.Payload.Files = append(in.Payload.Files, document.PayloadFile{
				Name: f.Source, Component: strings.TrimSuffix(file, ".exe"), Version: "v1", Path: path,
				Size: 1 << 20, SHA256: fmt.Sprintf("%064x", len(in.Payload.Files)+1),
			})
		}
	}
	return in
}

// golden compares with the file in testdata, or writes it.
func golden(t *testing.T, name string, value any) {
	t.Helper()
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(value); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, out.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(out.String(), "\n")); diff != "" {
		t.Errorf("%s (-want +got; see the flag update):\n%s", path, diff)
	}
}

func TestGoldenServices(t *testing.T) {
	for _, platform := range platforms {
		t.Run(string(platform), func(t *testing.T) {
			published, err := document.Publish(options(platform), document.Proxy{})
			if err != nil {
				t.Fatal(err)
			}
			golden(t, strings.ToLower(string(platform))+".services.json", published.Services)
		})
	}
}

func build(t *testing.T, in document.Inputs) *document.Result {
	t.Helper()
	r, err := document.Build(in)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestGoldenDocument(t *testing.T) {
	for _, platform := range platforms {
		t.Run(string(platform), func(t *testing.T) {
			r := build(t, inputs(platform))
			if len(r.Waiting) > 0 || len(r.Warnings) > 0 {
				t.Errorf("waiting for %v, warned of %v, want nothing", r.Waiting, r.Warnings)
			}
			golden(t, strings.ToLower(string(platform))+".document.json", r.Bundle.Document)
		})
	}
}

// commandWith returns the command of a published service with the values of its variables,
// as WMCO does it: it replaces bare names wherever they stand. Longer names go first, so
// that a name which another one begins with is safe.
func commandWith(s document.PublishedService, values map[string]string) string {
	var names, pairs []string
	for _, v := range s.NodeVariables {
		names = append(names, v.Name)
	}
	for _, script := range s.Scripts {
		if script.Variable != "" {
			names = append(names, script.Variable)
		}
	}
	slices.SortStableFunc(names, func(a, b string) int { return len(b) - len(a) })
	for _, name := range names {
		pairs = append(pairs, name, values[name])
	}
	return strings.NewReplacer(pairs...).Replace(s.Command)
}

// TestPublishedIsTheDocument: what is published and what is done are the same command, but for
// csi-proxy, whose log WMCO does not rotate.
func TestPublishedIsTheDocument(t *testing.T) {
	for _, platform := range platforms {
		published, err := document.Publish(options(platform), document.Proxy{})
		if err != nil {
			t.Fatal(err)
		}
		values := map[string]string{"NODE_NAME": "win-1", "NODE_IP": "10.0.0.5", "HOSTNAME_OVERRIDE": "win-1.example.com"}
		commands := map[string]string{}
		for _, s := range published.Services {
			commands[s.Name] = commandWith(s, values)
		}
		commands["csi-proxy"] = `C:\k\kube-log-runner.exe -log-file=C:\var\log\csi-proxy\csi-proxy.log C:\k\csi-proxy.exe -windows-service --v=2`
		in := inputs(platform)
		in.AgentPath = "" // our own service is not published
		document := build(t, in).Bundle.Document
		if len(document.Services) != len(commands) {
			t.Errorf("%s: %d services in the document, %d are published", platform, len(document.Services), len(commands))
		}
		for _, s := range document.Services {
			got, err := s.CommandLine(values)
			if err != nil {
				t.Fatal(err)
			}
			if got != commands[s.Name] {
				t.Errorf("%s, %s:\ndone      %s\npublished %s", platform, s.Name, got, commands[s.Name])
			}
		}
	}
}

// names returns the names of the services of a document.
func names(d config.Document) []string {
	var list []string
	for _, s := range d.Services {
		list = append(list, s.Name)
	}
	return list
}

// TestNodeAddress: the host is told the IPv4 addresses by which it is known, in an order that
// does not depend on a name server.
func TestNodeAddress(t *testing.T) {
	in := inputs(configv1.NonePlatformType)
	in.Instance.Addresses = nil
	for _, text := range []string{"10.1.0.7", "fd00::7", "::ffff:10.0.0.7", "10.1.0.7"} {
		in.Instance.Addresses = append(in.Instance.Addresses, netip.MustParseAddr(text))
	}
	want := config.Variable{Name: "NODE_IP", Source: config.SourceDefaultRouteAddress, Preferred: []string{"10.0.0.7", "10.1.0.7"}}
	variables := build(t, in).Bundle.Document.Variables
	at := slices.IndexFunc(variables, func(v config.Variable) bool { return v.Name == want.Name })
	if diff := cmp.Diff(want, variables[at]); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestWaiting(t *testing.T) {
	tests := []struct {
		name     string
		platform configv1.PlatformType
		change   func(in *document.Inputs)
		services []string
		waiting  []string
		// kept are services that a host which has them keeps, and which wait for nothing.
		kept []string
	}{
		{name: "everything is there", platform: configv1.NonePlatformType, change: func(*document.Inputs) {},
			services: []string{"containerd", "kubelet", "windows_exporter", "hybrid-overlay-node", "csi-proxy", "kube-proxy"}},
		{name: "no Node yet", platform: configv1.NonePlatformType, change: func(in *document.Inputs) { in.Node = nil },
			services: []string{"containerd", "kubelet", "windows_exporter", "csi-proxy"}, waiting: []string{"hybrid-overlay-node for the Node of the host", "kube-proxy for the Node of the host"}},
		{name: "no subnet yet", platform: configv1.NonePlatformType, change: func(in *document.Inputs) { in.Node.Subnet = "" },
			services: []string{"containerd", "kubelet", "windows_exporter", "hybrid-overlay-node", "csi-proxy"}, waiting: []string{"kube-proxy for annotation k8s.ovn.org/hybrid-overlay-node-subnet of node win-1"}},
		{name: "no overlay in the payload", platform: configv1.NonePlatformType, change: func(in *document.Inputs) { removeProgram(in, `C:\k\hybrid-overlay-node.exe`) },
			services: []string{"containerd", "kubelet", "windows_exporter", "csi-proxy"}},
		{name: "no overlay in the payload, and no Node yet", platform: configv1.NonePlatformType, change: func(in *document.Inputs) {
			removeProgram(in, `C:\k\hybrid-overlay-node.exe`)
			in.Node = nil
		}, services: []string{"containerd", "kubelet", "windows_exporter", "csi-proxy"}},
		{name: "no overlay in the payload, and hybrid networking", platform: configv1.NonePlatformType, change: withoutOverlay,
			services: []string{"containerd", "kubelet", "windows_exporter", "csi-proxy", "kube-proxy"}},
		{name: "no overlay in the payload, hybrid networking, and no Node yet", platform: configv1.NonePlatformType, change: func(in *document.Inputs) {
			withoutOverlay(in)
			in.Node = nil
		}, services: []string{"containerd", "kubelet", "windows_exporter", "csi-proxy"}, waiting: []string{"kube-proxy for the Node of the host"}},
		{name: "no CSI proxy in the payload", platform: configv1.NonePlatformType, change: func(in *document.Inputs) { removeProgram(in, `C:\k\csi-proxy.exe`) },
			services: []string{"containerd", "kubelet", "windows_exporter", "hybrid-overlay-node", "kube-proxy"}},
		{name: "no certificate for metrics", platform: configv1.NonePlatformType, change: func(in *document.Inputs) {
			in.Cluster.ExporterCertificate, in.Cluster.ExporterKey = nil, nil
		}, services: []string{"containerd", "kubelet", "hybrid-overlay-node", "csi-proxy", "kube-proxy"}, kept: []string{"windows_exporter"}},
		{name: "no metrics", platform: configv1.NonePlatformType, change: func(in *document.Inputs) {
			in.Cluster.ExporterCertificate, in.Cluster.ExporterKey, in.Cluster.NoMetrics = nil, nil, true
		}, services: []string{"containerd", "kubelet", "hybrid-overlay-node", "csi-proxy", "kube-proxy"}},
		{name: "no credentials for the node manager", platform: configv1.AzurePlatformType, change: func(in *document.Inputs) { in.Cluster.NodeManager = nil },
			services: []string{"containerd", "kubelet", "windows_exporter", "hybrid-overlay-node", "csi-proxy", "kube-proxy"}},
		{name: "no credentials for the node manager at present", platform: configv1.AzurePlatformType, change: func(in *document.Inputs) {
			in.Cluster.NodeManager, in.Cluster.KeepNodeManager = nil, true
		}, services: []string{"containerd", "kubelet", "windows_exporter", "hybrid-overlay-node", "csi-proxy", "kube-proxy"}, kept: []string{"cloud-node-manager"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			in := inputs(tt.platform)
			in.AgentPath = ""
			tt.change(&in)
			r := build(t, in)
			var ready, kept []string
			for _, s := range r.Bundle.Document.Services {
				if s.Waiting {
					kept = append(kept, s.Name)
				} else {
					ready = append(ready, s.Name)
				}
			}
			if diff := cmp.Diff(tt.services, ready); diff != "" {
				t.Errorf("services (-want +got):\n%s", diff)
			}
			var waiting, keeps []string
			for _, w := range r.Waiting {
				waiting = append(waiting, w.Service+" for "+w.For)
				keeps = append(keeps, w.Service)
			}
			if diff := cmp.Diff(append(keeps, tt.kept...), kept); diff != "" {
				t.Errorf("services that a host which has them keeps (-want +got):\n%s", diff)
			}
			for _, path := range []string{`C:\k\cni\config\cni.conf`, `C:\k\kube-proxy.conf`} {
				at := slices.IndexFunc(r.Bundle.Document.Files, func(f config.File) bool { return f.Path == path })
				if want := slices.Contains(append(ready, kept...), "kube-proxy"); at >= 0 != want {
					t.Errorf("%s is in the document: %v, want %v", path, at >= 0, want)
				} else if want && r.Bundle.Document.Files[at].Waiting != slices.Contains(kept, "kube-proxy") {
					t.Errorf("%s waits: %v", path, r.Bundle.Document.Files[at].Waiting)
				}
			}
			if len(r.Warnings) > 0 {
				t.Errorf("warned of %q", r.Warnings)
			}
			if diff := cmp.Diff(tt.waiting, waiting); diff != "" {
				t.Errorf("waiting (-want +got):\n%s", diff)
			}
		})
	}
}

// TestSecrets: no secret is in what may be shown, and each is in what is sent.
// withoutOverlay has the program of the overlay missing in a cluster whose Windows nodes are connected by it.
func withoutOverlay(in *document.Inputs) {
	removeProgram(in, `C:\k\hybrid-overlay-node.exe`)
	in.Cluster.HybridNetwork = true
}

// TestKubeProxyWithoutOverlay: kube-proxy needs the network of the pods, and not the program of ours that makes it.
func TestKubeProxyWithoutOverlay(t *testing.T) {
	in := inputs(configv1.NonePlatformType)
	with := build(t, in).Bundle.Document
	withoutOverlay(&in)
	without := build(t, in).Bundle.Document
	want := &config.HNS{Foreign: []string{wmco.OverlayNetwork}, Endpoint: with.HNS.Endpoint}
	if diff := cmp.Diff(want, without.HNS); diff != "" {
		t.Errorf("networks (-want +got):\n%s", diff)
	}
	of := func(d config.Document, name string) config.Service {
		return d.Services[slices.IndexFunc(d.Services, func(s config.Service) bool { return s.Name == name })]
	}
	proxy := of(with, wmco.KubeProxyService)
	if proxy.Network != "" || !slices.Equal(proxy.Dependencies, []string{wmco.HybridOverlayService}) {
		t.Errorf("with the overlay of ours kube-proxy waits for network %q and depends on %q", proxy.Network, proxy.Dependencies)
	}
	proxy.Dependencies, proxy.Network = nil, wmco.OverlayNetwork
	if diff := cmp.Diff(proxy, of(without, wmco.KubeProxyService)); diff != "" {
		t.Errorf("kube-proxy (-want +got):\n%s", diff)
	}
	for _, path := range []string{wmco.CNIConfigPath, wmco.KubeProxyConfigPath} {
		file := func(d config.Document) config.File {
			return d.Files[slices.IndexFunc(d.Files, func(f config.File) bool { return f.Path == path })]
		}
		want := file(with)
		want.AfterService, want.Network = wmco.KubeletService, wmco.OverlayNetwork
		if diff := cmp.Diff(want, file(without)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", path, diff)
		}
	}
	if diff := cmp.Diff(with.Firewall, without.Firewall); diff != "" {
		t.Errorf("firewall (-want +got):\n%s", diff)
	}
}

func TestSecrets(t *testing.T) {
	in := inputs(configv1.AzurePlatformType)
	in.Instance.Bootstrap = &document.CertificateCredentials{CAFile: wmco.BootstrapCAPath, Certificate: []byte("c"), Key: []byte("b00tstrap")}
	in.Cluster.PullSecret = document.NewPullSecret(map[string]string{"mirror.example.com": "robot:hunter2"})
	in.Cluster.Proxy = document.Proxy{HTTP: "http://user:pr0xy@proxy.example.com:3128", None: "localhost"}
	r := build(t, in)
	shown, err := r.Bundle.Document.Canonical()
	if err != nil {
		t.Fatal(err)
	}
	sent, err := r.Bundle.Encode()
	if err != nil {
		t.Fatal(err)
	}
	var travels config.Bundle
	if err := json.Unmarshal(sent, &travels); err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for _, name := range slices.Sorted(maps.Keys(travels.Secrets)) {
		all.Write(travels.Secrets[name])
	}
	printed := fmt.Sprintf("%+v %#v %+v %#v %v", r, r, in, in, in)
	for _, secret := range []string{token, base64.StdEncoding.EncodeToString([]byte("b00tstrap")), "cm9ib3Q6aHVudGVyMg==", "pr0xy", "a private key", "AzurePublicCloud"} {
		if bytes.Contains(shown, []byte(secret)) {
			t.Errorf("%s can be seen in the document", secret)
		}
		if strings.Contains(printed, secret) {
			t.Errorf("%s is printed", secret)
		}
		if !strings.Contains(all.String(), secret) {
			t.Errorf("%s is not sent", secret)
		}
	}
	for _, f := range r.Bundle.Document.Files {
		if f.Path == wmco.BootstrapKubeconfigPath && f.UntilFile != `C:\var\lib\kubelet\pki\kubelet-client-current.pem` {
			t.Errorf("the bootstrap credential stays until %q", f.UntilFile)
		}
	}
	published, err := document.Publish(in.Cluster.ServiceOptions, in.Cluster.Proxy)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]string{"HTTP_PROXY": "http://xxxxx@proxy.example.com:3128", "NO_PROXY": "localhost"}, published.Environment); diff != "" {
		t.Errorf("published environment (-want +got):\n%s", diff)
	}
}

func TestDigestsNeedTheKey(t *testing.T) {
	digests := func(key byte) []string {
		in := inputs(configv1.AzurePlatformType)
		in.DigestKey = bytes.Repeat([]byte{key}, 32)
		var list []string
		for _, f := range build(t, in).Bundle.Document.Files {
			if f.Source.Secret != "" {
				list = append(list, f.Digest)
			}
		}
		return list
	}
	a, b := digests('a'), digests('b')
	if len(a) == 0 {
		t.Fatal("there are no secrets")
	}
	for i := range a {
		if a[i] == b[i] {
			t.Errorf("the digest %s is the same with another key", a[i])
		}
	}
}

// TestHealthOfKubeProxy: load balancers can ask each host that has kube-proxy whether it works.
func TestHealthOfKubeProxy(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(in *document.Inputs)
		want   bool
	}{
		"a node":                    {func(*document.Inputs) {}, true},
		"a host that is none yet":   {func(in *document.Inputs) { in.Node = nil }, true},
		"a host without kube-proxy": {func(in *document.Inputs) { removeProgram(in, `C:\k\hybrid-overlay-node.exe`) }, false},
	} {
		in := inputs(configv1.AWSPlatformType)
		tt.change(&in)
		open := slices.ContainsFunc(build(t, in).Bundle.Document.Firewall, func(r config.FirewallRule) bool {
			return r.Protocol == config.ProtocolTCP && r.Port == 10256
		})
		if open != tt.want {
			t.Errorf("%s: port 10256 is open: %t, want %t", name, open, tt.want)
		}
	}
}

// TestImpact: only what changed moves, and only what it concerns.
func TestImpact(t *testing.T) {
	impacts := map[config.Impact]int{config.ImpactNone: 0, config.ImpactRestart: 1, config.ImpactDrain: 2, config.ImpactReboot: 3}
	tests := []struct {
		name     string
		change   func(in *document.Inputs)
		want     config.Impact
		services []string
		platform configv1.PlatformType // if it must be another one than None
	}{
		{name: "mirror", change: func(in *document.Inputs) { in.Cluster.ImageDigestMirrors[0].Mirrors[0] = "other.example.com" }, want: config.ImpactNone},
		{name: "CA of the kubelet", change: func(in *document.Inputs) { in.Cluster.KubeletCA = []byte("another") }, want: config.ImpactNone},
		// The kubelet of no version reads it again, and the other services depend on the kubelet.
		{name: "CA of the API server", change: func(in *document.Inputs) { in.Cluster.APIServerCA = []byte("another") }, want: config.ImpactRestart, services: []string{"hybrid-overlay-node", "kube-proxy", "kubelet"}},
		// windows_exporter reads both for each connection.
		{name: "rotated certificate of metrics", change: func(in *document.Inputs) {
			in.Cluster.ExporterCertificate, in.Cluster.ExporterKey = []byte("another"), []byte("its key")
		}, want: config.ImpactNone},
		{name: "CNI plugin", change: func(in *document.Inputs) { setProgram(in, `C:\k\cni\win-overlay.exe`) }, want: config.ImpactNone},
		{name: "kubelet", change: func(in *document.Inputs) { setProgram(in, `C:\k\kubelet.exe`) }, want: config.ImpactDrain, services: []string{"kubelet"}},
		{name: "fewer pods of the kubelet", change: func(in *document.Inputs) { in.Kubelet.MaxPods = 100 }, want: config.ImpactDrain, services: []string{"kubelet"}},
		{name: "more pods of the kubelet", change: func(in *document.Inputs) { in.Kubelet.MaxPods = 300 }, want: config.ImpactRestart, services: []string{"kubelet"}},
		{name: "more for the system", change: func(in *document.Inputs) {
			in.Kubelet.SystemReserved = map[corev1.ResourceName]string{corev1.ResourceMemory: "3Gi"}
		}, want: config.ImpactDrain, services: []string{"kubelet"}},
		{name: "less for the system", change: func(in *document.Inputs) {
			in.Kubelet.SystemReserved = map[corev1.ResourceName]string{corev1.ResourceMemory: "1Gi"}
		}, want: config.ImpactRestart, services: []string{"kubelet"}},
		{name: "eviction", change: func(in *document.Inputs) {
			in.Kubelet.EvictionHard = map[string]string{"memory.available": "500Mi"}
		}, want: config.ImpactDrain, services: []string{"kubelet"}},
		{name: "taint", change: func(in *document.Inputs) { in.Kubelet.Taints = []corev1.Taint{} }, want: config.ImpactRestart, services: []string{"kubelet"}},
		{name: "runner of logs", change: func(in *document.Inputs) { setProgram(in, `C:\k\kube-log-runner.exe`) }, want: config.ImpactRestart, services: []string{"csi-proxy", "kube-proxy", "kubelet"}},
		{name: "VXLAN port", change: func(in *document.Inputs) { in.Cluster.VXLANPort = 9999 }, want: config.ImpactRestart, services: []string{"hybrid-overlay-node"}},
		{name: "containerd", change: func(in *document.Inputs) { setProgram(in, `C:\k\containerd\containerd.exe`) }, want: config.ImpactDrain, services: []string{"containerd"}},
		{name: "pause image", change: func(in *document.Inputs) { in.Cluster.PauseImage = "example.com/pause:1" }, want: config.ImpactDrain, services: []string{"containerd"}},
		{name: "proxy", change: func(in *document.Inputs) { in.Cluster.Proxy.HTTP = "http://proxy.example.com" }, want: config.ImpactReboot},
		{name: "credential providers", platform: configv1.AWSPlatformType, change: func(in *document.Inputs) {
			in.Cluster.CredentialProviderConfig = []byte("kind: CredentialProviderConfig\nproviders: []\n")
		}, want: config.ImpactRestart, services: []string{"kubelet"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			platform := tt.platform
			if platform == "" {
				platform = configv1.NonePlatformType
			}
			before, in := build(t, inputs(platform)), inputs(platform)
			tt.change(&in)
			after := build(t, in)
			if before.Revision == after.Revision {
				t.Error("the revision is the same")
			}
			got, services := config.ImpactNone, map[string]bool{}
			for _, o := range changed(t, before.Bundle.Document, after.Bundle.Document) {
				if impacts[o.Impact] > impacts[got] {
					got = o.Impact
				}
				for _, name := range o.Services {
					services[name] = true
				}
			}
			if got != tt.want {
				t.Errorf("impact %s, want %s", got, tt.want)
			}
			if diff := cmp.Diff(tt.services, slices.Sorted(maps.Keys(services))); diff != "" {
				t.Errorf("restarted services (-want +got):\n%s", diff)
			}
		})
	}
}

func setProgram(in *document.Inputs, path string) {
	for i := range in.Payload.Files {
		if in.Payload.Files[i].Path == path {
			in.Payload.Files[i].SHA256 = strings.Repeat("f", 64)
		}
	}
}

func removeProgram(in *document.Inputs, path string) {
	in.Payload.Files = slices.DeleteFunc(in.Payload.Files, func(f document.PayloadFile) bool { return f.Path == path })
}

// TestMetricsAreKept: without the certificate of metrics, all of windows_exporter is what a host that has it keeps, whatever is in its
// files; and nothing of it is there where no host is to serve metrics.
func TestMetricsAreKept(t *testing.T) {
	known := build(t, inputs(configv1.NonePlatformType)).Bundle.Document
	in := inputs(configv1.NonePlatformType)
	in.Cluster.ExporterCertificate, in.Cluster.ExporterKey = nil, nil
	kept := build(t, in).Bundle
	in.Cluster.NoMetrics = true
	none := build(t, in).Bundle.Document
	of := func(d config.Document) map[string]config.File {
		files := map[string]config.File{}
		for _, f := range d.Files {
			if strings.HasPrefix(f.Path, wmco.TLSDir) {
				files[f.Path] = f
			}
		}
		return files
	}
	if len(of(known)) != 3 || len(of(none)) != 0 {
		t.Fatalf("with metrics there are %d files, and without %d", len(of(known)), len(of(none)))
	}
	for path, before := range of(known) {
		now, is := of(kept.Document)[path]
		if !is || !now.Waiting || now.Access != before.Access || now.Role != before.Role {
			t.Errorf("%s was %+v, and is %+v", path, before, now)
		}
		if configuration := before.Role == config.RoleConfiguration; configuration != (before.Digest == now.Digest) || configuration == now.Source.Expand {
			t.Errorf("%s is known: %+v", path, now)
		}
	}
	if len(kept.Secrets) > 0 {
		t.Errorf("it has secrets: %v", slices.Sorted(maps.Keys(kept.Secrets)))
	}
}

// TestNodeManagerIsKept: while there are no credentials of the cloud node manager, a host that has it keeps them with it, and what changes
// for that, or when they come back, costs at most a restart of it.
func TestNodeManagerIsKept(t *testing.T) {
	in := inputs(configv1.AzurePlatformType)
	known := build(t, in).Bundle
	in.Cluster.NodeManager, in.Cluster.KeepNodeManager = nil, true
	kept := build(t, in).Bundle
	of := func(d config.Document) config.File {
		at := slices.IndexFunc(d.Files, func(f config.File) bool { return f.Path == wmco.WICDKubeconfigPath })
		if at < 0 {
			t.Fatal("there is no " + wmco.WICDKubeconfigPath)
		}
		return d.Files[at]
	}
	before, now := of(known.Document), of(kept.Document)
	if before.Waiting || !now.Waiting || !now.Source.Expand || now.Access != before.Access || now.Role != before.Role {
		t.Errorf("it was %+v, and is %+v", before, now)
	}
	if _, secret := kept.Secrets[wmco.WICDKubeconfigPath]; secret {
		t.Error("it is sent all the same")
	}
	restart := config.OnChange{Impact: config.ImpactRestart, Services: []string{wmco.CloudNodeManagerService}}
	for _, got := range append(changed(t, known.Document, kept.Document), changed(t, kept.Document, known.Document)...) {
		if got.Impact != config.ImpactNone && !cmp.Equal(got, restart) {
			t.Errorf("something has the impact %+v", got)
		}
	}
}

// TestImpactOfMetrics: the first certificate starts the exporter, and disturbs nothing else.
func TestImpactOfMetrics(t *testing.T) {
	without := inputs(configv1.NonePlatformType)
	without.Cluster.ExporterCertificate, without.Cluster.ExporterKey = nil, nil
	before, after := build(t, without), build(t, inputs(configv1.NonePlatformType))
	want := config.OnChange{Impact: config.ImpactRestart, Services: []string{wmco.WindowsExporterService}}
	started := false
	for _, got := range changed(t, before.Bundle.Document, after.Bundle.Document) {
		switch {
		case cmp.Equal(got, want):
			started = true
		case got.Impact != config.ImpactNone:
			t.Errorf("something has the impact %+v", got)
		}
	}
	if !started {
		t.Error("the exporter is not started")
	}
}

// changed returns the impact of each file, service and variable that differs.
func changed(t *testing.T, before, after config.Document) []config.OnChange {
	t.Helper()
	parts := func(d config.Document) map[string]any {
		all := map[string]any{}
		for _, f := range d.Files {
			all["file "+f.Path] = f
		}
		for _, s := range d.Services {
			all["service "+s.Name] = s
		}
		for _, e := range d.Environment {
			all["variable "+e.Name] = e
		}
		return all
	}
	old := parts(before)
	var list []config.OnChange
	for name, part := range parts(after) {
		if cmp.Equal(old[name], part) {
			continue
		}
		switch part := part.(type) {
		case config.File:
			o := part.OnChange
			if before, known := old[name].(config.File); known && part.Format == config.FormatKubelet {
				// As the agent does.
				less, err := kubeletconfig.Less([]byte(*before.Source.Text), []byte(*part.Source.Text))
				if err != nil {
					t.Fatal(err)
				}
				if len(less) == 0 {
					o.Impact = config.ImpactRestart
				}
			}
			list = append(list, o)
		case config.Service:
			list = append(list, part.OnChange)
		case config.EnvironmentVariable:
			list = append(list, part.OnChange)
		}
	}
	return list
}

func TestRevisionIsThatOfTheInputs(t *testing.T) {
	want := build(t, inputs(configv1.AzurePlatformType))
	for range 10 {
		got := build(t, inputs(configv1.AzurePlatformType))
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("the same inputs give another result (-first +now):\n%s", diff)
		}
	}
	in := inputs(configv1.AzurePlatformType)
	slices.Reverse(in.Payload.Files)
	if got := build(t, in); got.Revision != want.Revision {
		t.Error("the order of the payload makes another revision")
	}
}

func TestBuildErrors(t *testing.T) {
	tests := []struct {
		name     string
		platform configv1.PlatformType
		change   func(in *document.Inputs)
		want     string
	}{
		{name: "short key", platform: configv1.NonePlatformType, change: func(in *document.Inputs) { in.DigestKey = in.DigestKey[:31] }, want: "31 bytes"},
		{name: "no service network", platform: configv1.NonePlatformType, change: func(in *document.Inputs) { in.Cluster.ServiceCIDRs = nil }, want: "no service network"},
		{name: "service network without a tenth address", platform: configv1.NonePlatformType, change: func(in *document.Inputs) { in.Cluster.ServiceCIDRs = []string{"10.0.0.0/29"} }, want: "tenth address"},
		{name: "URL without TLS", platform: configv1.NonePlatformType, change: func(in *document.Inputs) { in.Cluster.APIServerURL = "http://a" }, want: "https URL"},
		{name: "argument with a line break", platform: configv1.NonePlatformType, change: func(in *document.Inputs) {
			in.Cluster.KubeletArguments = map[string]string{"cloud-provider": "external\nRestart=always"}
		}, want: "white space"},
		{name: "missing program", platform: configv1.NonePlatformType, change: func(in *document.Inputs) { removeProgram(in, `C:\k\kubelet.exe`) }, want: `the payload has no C:\k\kubelet.exe`},
		{name: "missing program of the platform", platform: configv1.AWSPlatformType, change: func(in *document.Inputs) { removeProgram(in, `C:\k\ecr-credential-provider.exe`) }, want: "credentials of registries from a program"},
		{name: "program with a digest that is none", platform: configv1.NonePlatformType, change: func(in *document.Inputs) { in.Payload.Files[0].SHA256 = "abc" }, want: "64 hexadecimal digits"},
		{name: "program outside", platform: configv1.NonePlatformType, change: func(in *document.Inputs) {
			in.Payload.Files = append(in.Payload.Files, document.PayloadFile{Name: "x", Path: `C:\Windows\System32\x.exe`, SHA256: strings.Repeat("0", 64)})
		}, want: "is in none of"},
		{name: "component of two versions", platform: configv1.NonePlatformType, change: func(in *document.Inputs) {
			in.Payload.Files = append(in.Payload.Files, document.PayloadFile{Name: "x", Component: "kubelet", Version: "v2", Path: `C:\k\x.exe`, SHA256: strings.Repeat("0", 64)})
		}, want: "the versions v1 and v2"},
		{name: "no configuration of the cloud", platform: configv1.AzurePlatformType, change: func(in *document.Inputs) { in.Cluster.CloudConfig = nil }, want: "--cloud-config"},
		{name: "no credential provider", platform: configv1.AWSPlatformType, change: func(in *document.Inputs) { in.Cluster.CredentialProviderConfig = nil }, want: "credential provider"},
		{name: "bootstrap without a certificate", platform: configv1.NonePlatformType, change: func(in *document.Inputs) {
			in.Instance.Bootstrap = &document.CertificateCredentials{CAFile: wmco.BootstrapCAPath}
		}, want: "no certificate"},
		{name: "image that is TOML", platform: configv1.NonePlatformType, change: func(in *document.Inputs) { in.Cluster.PauseImage = "a'\nroot = 'b" }, want: "not a reference"},
		{name: "damaged trust", platform: configv1.NonePlatformType, change: func(in *document.Inputs) {
			in.Cluster.TrustedCA = []byte("-----BEGIN CERTIFICATE-----\nAAAA\n")
		}, want: "trusted certificates"},
		{name: "subnet that is none", platform: configv1.NonePlatformType, change: func(in *document.Inputs) { in.Node.Subnet = "x" }, want: "subnet of node"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			in := inputs(tt.platform)
			tt.change(&in)
			r, err := document.Build(in)
			if r != nil || err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, %v, want an error about %q", r, err, tt.want)
			}
		})
	}
}

// authority returns a certificate in PEM.
func authority(t testing.TB, name string) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotAfter: time.Unix(1<<33, 0)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

// TestTrust: hosts trust each certificate of a bundle that can be used, and it is said what is wrong with each other block.
func TestTrust(t *testing.T) {
	a, b := authority(t, "a"), authority(t, "b")
	join := func(parts ...[]byte) []byte { return bytes.Join(parts, nil) }
	// Longer than the buffer of a scanner of lines.
	comment := []byte("# " + strings.Repeat("x", 1<<17) + "\n")
	// The serial number 1 becomes a negative one, which Go refuses.
	block, _ := pem.Decode(authority(t, "c"))
	block.Bytes = bytes.Replace(block.Bytes, []byte{2, 1, 1}, []byte{2, 1, 0xff}, 1)
	negative := pem.EncodeToMemory(block)
	sum := sha256.Sum256(block.Bytes)
	fingerprint := hex.EncodeToString(sum[:])
	// Most programs ignore a block with headers.
	block, _ = pem.Decode(a)
	block.Headers = map[string]string{"Name": "a"}
	withHeaders := pem.EncodeToMemory(block)
	tests := []struct {
		name   string
		bundle []byte
		want   int
		whole  bool     // the bundle stays as it is
		says   []string // one for each other block
	}{
		{name: "none"},
		{name: "no PEM", bundle: []byte("hunter2")},
		{name: "two", bundle: join(a, b), want: 2, whole: true},
		{name: "one twice", bundle: join(a, a), want: 1, whole: true},
		{name: "comments and space", bundle: join(comment, a, []byte("\n\n# b\n"), b, []byte(" \r\n\t")), want: 2, whole: true},
		{name: "cut off", bundle: join(a, b[:len(b)/2]), want: 1, says: []string{"block 2 is left out: it is damaged"}},
		{name: "damaged in the middle", bundle: join(a[:len(a)/2], []byte("\n"), b), want: 1, says: []string{"block 1 is left out: it is damaged"}},
		{name: "damaged, below a name", bundle: join([]byte("# one:5000\n"), a, []byte("\n\n# two:5000\n"), b[:len(b)/2]), want: 1, says: []string{"block 2 (of two:5000) is left out: it is damaged"}},
		{name: "a name for several", bundle: join([]byte("# one:5000\r\n"), a, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: []byte("x")})), want: 1, says: []string{`block 2 (of one:5000) is left out: it is a "PRIVATE KEY"`}},
		{name: "one that cannot be read", bundle: join(a, negative, b), want: 2, says: []string{"block 2, the certificate with the SHA-256 fingerprint " + fingerprint + ", is left out: x509: "}},
		{name: "a key among them", bundle: join(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: []byte("x")}), a), want: 1, says: []string{`block 1 is left out: it is a "PRIVATE KEY"`}},
		{name: "a key", bundle: pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: []byte("x")}), says: []string{`block 1 is left out: it is a "PRIVATE KEY"`}},
		{name: "no certificate", bundle: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte("x")}), says: []string{"block 1, the certificate with the SHA-256 fingerprint 2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881, is left out: x509: "}},
		{name: "headers", bundle: join(b, withHeaders), want: 2},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			usable, damaged := document.UsableCertificates(tt.bundle)
			if whole := usable != nil && bytes.Equal(usable, tt.bundle); whole != tt.whole || (usable != nil) != (tt.want > 0) || len(damaged) != len(tt.says) {
				t.Fatalf("got %q, and %q, want %q", usable, damaged, tt.says)
			}
			for i := range damaged {
				if !strings.HasPrefix(damaged[i], tt.says[i]) {
					t.Errorf("got %q, want %q", damaged[i], tt.says[i])
				}
			}
			in := inputs(configv1.NonePlatformType)
			in.Cluster.TrustedCA = usable
			each := build(t, in)
			if n := len(each.Bundle.Document.Certificates); n != tt.want {
				t.Errorf("hosts trust %d certificates, want %d", n, tt.want)
			}
			if damaged := in.Cluster.Parse(); len(damaged) > 0 || build(t, in).Revision != each.Revision {
				t.Errorf("read once for all, it is another document: %q", damaged)
			}
			if in.Cluster.TrustedCA = tt.bundle; tt.want > 0 && build(t, in).Revision != each.Revision {
				t.Error("it is read for each document")
			}
			in = inputs(configv1.NonePlatformType)
			in.Cluster.TrustedCA = tt.bundle
			if in.Cluster.Parse(); len(tt.says) > 0 {
				if _, err := document.Build(in); err == nil {
					t.Error("what is damaged is not said any more")
				}
			}
			if again, damaged := document.UsableCertificates(usable); !bytes.Equal(again, usable) || len(damaged) != 0 {
				t.Errorf("what can be used cannot be: %q, %q", again, damaged)
			}
		})
	}
}

func TestLogRotationInDocument(t *testing.T) {
	in := inputs(configv1.NonePlatformType)
	in.Cluster.LogRotation = document.NewLogRotation(100<<20, 168*time.Hour)
	d := build(t, in).Bundle.Document
	want := []config.LogRotation{
		{Path: `C:\var\log\containerd\containerd.log`, MaxBytes: 100 << 20, MaxAgeSeconds: 168 * 3600},
		{Path: `C:\var\log\windows_exporter\windows_exporter.log`, MaxBytes: 100 << 20, MaxAgeSeconds: 168 * 3600},
	}
	if diff := cmp.Diff(want, d.LogRotation); diff != "" {
		t.Errorf("logs that the agent rotates (-want +got):\n%s", diff)
	}
	for _, s := range d.Services {
		rotates := slices.Contains(s.Arguments, "-log-file-size=100Mi") && slices.Contains(s.Arguments, "-log-file-age=168h0m0s")
		if want := s.Name == "kubelet" || s.Name == "kube-proxy" || s.Name == "csi-proxy"; rotates != want {
			t.Errorf("%s rotates its log itself: %v, want %v", s.Name, rotates, want)
		}
	}
}

// TestAgentService: the agent looks after every host, from its first document on, starts
// last, and is restarted without anything else.
func TestAgentService(t *testing.T) {
	tests := []struct {
		name   string
		change func(in *document.Inputs)
		want   bool
	}{
		{name: "node", change: func(*document.Inputs) {}, want: true},
		{name: "no node yet", change: func(in *document.Inputs) { in.Node = nil }, want: true},
		{name: "no agent", change: func(in *document.Inputs) { in.AgentPath = "" }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			in := inputs(configv1.NonePlatformType)
			tt.change(&in)
			services := build(t, in).Bundle.Document.Services
			last := services[len(services)-1]
			if !tt.want {
				if slices.Contains(names(config.Document{Services: services}), api.ServiceName) {
					t.Error("there is the service")
				}
				return
			}
			want := config.Service{
				Name: api.ServiceName, Description: "OpenShift managed windows-node-agent",
				BinaryPath: agentPath, Arguments: []string{"run"}, StartType: config.StartAutomatic, Priority: last.Priority,
				Recovery: services[0].Recovery,
				OnChange: config.OnChange{Impact: config.ImpactRestart, Services: []string{api.ServiceName}},
			}
			if diff := cmp.Diff(want, last); diff != "" {
				t.Errorf("last service (-want +got):\n%s", diff)
			}
			for _, s := range services[:len(services)-1] {
				if s.Priority >= last.Priority || slices.Contains(s.Dependencies, api.ServiceName) {
					t.Errorf("%s starts with the agent or after it", s.Name)
				}
			}
		})
	}
	for _, s := range build(t, inputs(configv1.NonePlatformType)).Bundle.Document.Files {
		if s.Path == agentPath {
			t.Error("the document writes the agent, which runs it")
		}
	}
}

// TestGenerated: what the services of a host leave there is known, each log with its
// directory. A path that is missing stays on a host forever.
func TestGenerated(t *testing.T) {
	d := build(t, inputs(configv1.AzurePlatformType)).Bundle.Document
	known := func(path string) bool {
		return slices.ContainsFunc(d.Generated, func(g string) bool { return config.Below(path, g) })
	}
	for _, path := range []string{
		`C:\k\kubeconfig`, `C:\var\lib\kubelet\pki\kubelet-client-current.pem`, `C:\var\lib\kubelet\pods\x`, `C:\k\cni\config\ovnkube-client-1.pem`,
		`C:\ProgramData\containerd\root\x`, `C:\var\log\pods\x`, `C:\var\log\containers\x.log`, `C:\var\lib\cni\x`,
	} {
		if !known(path) {
			t.Errorf("%s is left", path)
		}
	}
	for _, s := range d.Services {
		for _, argument := range s.Arguments {
			if i := strings.Index(argument, `C:\var\log\`); i >= 0 && !known(argument[i:]) {
				t.Errorf("%s is left by %s", argument[i:], s.Name)
			}
		}
	}
	for _, path := range []string{`C:\k`, `C:\var\log`, `C:\var\lib`, `C:\var\log\other.log`} {
		if slices.Contains(d.Generated, path) || known(path) {
			t.Errorf("%s goes, with what others have there", path)
		}
	}
	for _, dir := range d.Directories {
		if dir.Path == `C:\var\lib\kubelet\pki` && dir.Access != config.AccessAdministrators {
			t.Errorf("%s has the access %q", dir.Path, dir.Access)
		}
	}
}

// TestPoolSettings: what a pool may set is in the document, and costs what it should.
func TestPoolSettings(t *testing.T) {
	file := func(d config.Document, path string) string {
		for _, f := range d.Files {
			if f.Path == path {
				return *f.Source.Text
			}
		}
		return ""
	}
	arguments := func(d config.Document, name string) string {
		for _, s := range d.Services {
			if s.Name == name {
				return strings.Join(s.Arguments, " ")
			}
		}
		return ""
	}
	in := inputs(configv1.NonePlatformType)
	in.Cluster.LogVerbosity = new(int32(6))
	in.Cluster.ContainerdLogLevel = "warn"
	in.Cluster.PauseImage = "registry.example.com/pause:1"
	in.Cluster.LogRotation = document.NewLogRotation(20<<20, 0)
	in.Kubelet = document.KubeletOptions{ClusterDomain: "c.example.com", Taints: []corev1.Taint{{Key: "a", Effect: corev1.TaintEffectNoExecute}}}
	d := build(t, in).Bundle.Document
	for _, want := range []struct{ where, text, part string }{
		{"kubelet", arguments(d, "kubelet"), "--v=6"},
		{"kubelet", arguments(d, "kubelet"), "-log-file-size=20Mi C:\\k"},
		{"kube-proxy", file(d, wmco.KubeProxyConfigPath), `"verbosity": 6`},
		{"containerd", arguments(d, "containerd"), "--log-level warn"},
		{"containerd", file(d, wmco.ContainerdConfigPath), "sandbox_image = 'registry.example.com/pause:1'"},
		{"kubelet.conf", file(d, wmco.KubeletConfigPath), `"registerWithTaints":[{"key":"a","effect":"NoExecute"}]`},
		{"kubelet.conf", file(d, wmco.KubeletConfigPath), `"clusterDomain":"c.example.com"`},
	} {
		if !strings.Contains(want.text, strings.ReplaceAll(want.part, `\\`, `\`)) {
			t.Errorf("%s has no %s: %s", want.where, want.part, want.text)
		}
	}
	if slices.ContainsFunc(d.LogRotation, func(l config.LogRotation) bool { return l.MaxBytes != 20<<20 || l.MaxAgeSeconds != 0 }) {
		t.Errorf("rotation %v", d.LogRotation)
	}
	for _, bad := range []func(in *document.Inputs){
		func(in *document.Inputs) { in.Cluster.LogVerbosity = new(int32(11)) },
		func(in *document.Inputs) { in.Cluster.ContainerdLogLevel = "loud\" --address" },
	} {
		in := inputs(configv1.NonePlatformType)
		bad(&in)
		if _, err := document.Build(in); err == nil {
			t.Error("there is no error")
		}
	}
}
