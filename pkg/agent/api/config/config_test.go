// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package config_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/openshift/windows-instance-api/pkg/agent/api/config"
)

// text returns a file with the content.
func text(path, content string) config.File {
	return config.File{
		Path: path, Role: config.RoleConfiguration, Source: config.Source{Text: &content},
		Digest: config.Digest([]byte(content)), OnChange: config.OnChange{Impact: config.ImpactNone},
	}
}

// service returns a service that is valid.
func service(name string, dependencies ...string) config.Service {
	return config.Service{
		Name: name, Description: config.Description(name), BinaryPath: `C:\k\` + name + `.exe`,
		Dependencies: dependencies, StartType: config.StartAutomatic,
		OnChange: config.OnChange{Impact: config.ImpactRestart, Services: []string{name}},
	}
}

const zeroDigest = "0000000000000000000000000000000000000000000000000000000000000000"

// secretFile returns a file whose content is a secret.
func secretFile(path, name string) config.File {
	return config.File{
		Path: path, Role: config.RoleCredential, Source: config.Source{Secret: name}, Digest: "hmac-sha256:" + zeroDigest,
		Access: config.AccessAdministrators, OnChange: config.OnChange{Impact: config.ImpactNone},
	}
}

// valid returns a document that uses most of the types.
func valid() config.Document {
	kubelet := service("kubelet", "containerd")
	kubelet.Arguments = []string{"--node-ip=$(NODE_IP)"}
	kubelet.Recovery = &config.Recovery{ResetAfterSeconds: 300, RestartDelaysMilliseconds: []int64{10_000}}
	kubelet.Health = &config.Health{URL: "http://127.0.0.1:10248/healthz", WithinSeconds: 60}
	proxyConfig := text(`C:\k\kube-proxy.conf`, "vip: $(SOURCE_VIP)")
	proxyConfig.Source.Expand = true
	proxyConfig.AfterService = "kubelet"
	proxyConfig.OnChange = config.OnChange{Impact: config.ImpactRestart, Services: []string{"kube-proxy"}}
	return config.Document{
		Version:  config.SchemaVersion,
		Hostname: "win-1",
		Features: []config.Feature{{Name: "Containers", OnChange: config.OnChange{Impact: config.ImpactReboot}}},
		Directories: []config.Directory{
			{Path: `C:\k`},
			{Path: `C:\k\cni\config`, Retention: &config.Retention{Pattern: "ovnkube-client-*.pem", Keep: 2}},
		},
		Files: []config.File{text(`C:\k\kubelet.conf`, "{}"), proxyConfig, secretFile(`C:\k\bootstrap-kubeconfig`, "bootstrap"), text(`C:\k\ca.crt`, "PEM")},
		ClientCertificate: &config.ClientCertificate{
			Path: `C:\var\lib\kubelet\pki\current.pem`, Kubeconfig: `C:\k\kubeconfig`, CAFile: `C:\k\ca.crt`, ServerCAFile: `c:\K\ca.crt`,
		},
		Environment: []config.EnvironmentVariable{
			{Name: "NO_PROXY", Value: "localhost", OnChange: config.OnChange{Impact: config.ImpactReboot}},
		},
		Firewall: []config.FirewallRule{{Name: "ContainerLogsPort", Protocol: config.ProtocolTCP, Port: 10250}},
		HNS:      &config.HNS{Networks: []string{"net"}, Endpoint: &config.HNSEndpoint{Name: "VIPEndpoint", Network: "net"}},
		Variables: []config.Variable{
			{Name: "NODE_IP", Source: config.SourceDefaultRouteAddress},
			{Name: "SOURCE_VIP", Source: config.SourceHNSEndpointAddress, Network: "net"},
		},
		Services:    []config.Service{service("containerd"), kubelet, service("kube-proxy", "kubelet")},
		Routes:      []netip.Prefix{netip.MustParsePrefix("169.254.169.254/32")},
		LogRotation: []config.LogRotation{{Path: `C:\var\log\containerd\containerd.log`, MaxBytes: 1 << 20}},
		Components:  []config.Component{{Name: "kubelet", Version: "v1.37.0"}},
	}
}

func TestValidate(t *testing.T) {
	tests := []struct {
		name   string
		change func(d *config.Document)
		want   string // part of the error; empty: none
	}{
		{name: "as it is", change: func(*config.Document) {}},
		{name: "another version", change: func(d *config.Document) { d.Version = 2 }, want: "version 2"},
		{name: "long host name", change: func(d *config.Document) { d.Hostname = "a-name-of-sixteen" }, want: "NetBIOS"},
		{name: "relative path", change: func(d *config.Document) { d.Files[0].Path = `k\kubelet.conf` }, want: "not absolute"},
		{name: "path outside", change: func(d *config.Document) { d.Files[0].Path = `C:\Windows\System32\drivers\etc\hosts` }, want: "is in none of"},
		{name: "path that leaves", change: func(d *config.Document) { d.Files[0].Path = `C:\k\..\Windows\x` }, want: `the element ".."`},
		{name: "path beside a root", change: func(d *config.Document) { d.Files[0].Path = `C:\kk\x` }, want: "is in none of"},
		{name: "path with a slash", change: func(d *config.Document) { d.Files[0].Path = `C:\k\a/../../b` }, want: "forbids"},
		{name: "alternate stream", change: func(d *config.Document) { d.Files[0].Path = `C:\k\a.txt:hidden` }, want: "forbids"},
		{name: "path with a dot at its end", change: func(d *config.Document) { d.Files[0].Path = `C:\k\a.` }, want: "dot or a space"},
		{name: "device", change: func(d *config.Document) { d.Files[0].Path = `C:\k\NUL.txt` }, want: "device"},
		{name: "network path", change: func(d *config.Document) { d.Files[0].Path = `\\server\k\a` }, want: "not absolute"},
		{name: "one file twice", change: func(d *config.Document) { d.Files = append(d.Files, text(`c:\K\kubelet.conf`, "")) }, want: "twice"},
		{name: "digest of another text", change: func(d *config.Document) { d.Files[0].Digest = "sha256:" + zeroDigest }, want: "not that of its text"},
		{name: "digest that is none", change: func(d *config.Document) {
			d.Files[0].Source = config.Source{Payload: "kubelet.exe"}
			d.Files[0].Digest = "sha256:abc"
		}, want: "64 hexadecimal digits"},
		{name: "content from two places", change: func(d *config.Document) { d.Files[0].Source.Payload = "x" }, want: "exactly one of"},
		{name: "content from nowhere", change: func(d *config.Document) { d.Files[0].Source = config.Source{} }, want: "exactly one of"},
		{name: "secret that all may read", change: func(d *config.Document) { d.Files[2].Access = config.AccessInherited }, want: "administrators only"},
		{name: "secret with a digest without a key", change: func(d *config.Document) { d.Files[2].Digest = "sha256:" + zeroDigest }, want: "hmac-sha256"},
		{name: "file of an unknown service", change: func(d *config.Document) {
			d.Files[0].OnChange = config.OnChange{Impact: config.ImpactRestart, Services: []string{"x"}}
		}, want: "service x, which it restarts"},
		{name: "file that is written too late", change: func(d *config.Document) { d.Files[1].AfterService = "kube-proxy" }, want: "starts before kube-proxy"},
		{name: "client certificate outside", change: func(d *config.Document) { d.ClientCertificate.Path = `C:\Windows\win.ini` }, want: "is in none of"},
		{name: "kubeconfig outside", change: func(d *config.Document) { d.ClientCertificate.Kubeconfig = `C:\Windows\win.ini` }, want: "is in none of"},
		{name: "client certificate of an unknown authority", change: func(d *config.Document) { d.ClientCertificate.CAFile = `C:\k\other.crt` }, want: `file C:\k\other.crt, by which it is verified`},
		{name: "authority that each host has another one of", change: func(d *config.Document) { d.ClientCertificate.ServerCAFile = d.Files[1].Path }, want: "by which it is verified"},
		{name: "unknown variable in the name of the node", change: func(d *config.Document) { d.ClientCertificate.NodeName = "$(X)" }, want: "variable X"},
		{name: "file that is compared", change: func(d *config.Document) { d.Files[0].Format = config.FormatKubelet }},
		{name: "unknown format", change: func(d *config.Document) { d.Files[0].Format = "TOML" }, want: `format "TOML" is not known`},
		{name: "secret that is compared", change: func(d *config.Document) { d.Files[2].Format = config.FormatKubelet }, want: "only text that is the same"},
		{name: "text of each host that is compared", change: func(d *config.Document) { d.Files[1].Format = config.FormatKubelet }, want: "only text that is the same"},
		{name: "unknown impact", change: func(d *config.Document) { d.Files[0].OnChange.Impact = "Maybe" }, want: `impact "Maybe"`},
		{name: "unknown variable in a file", change: func(d *config.Document) { d.Variables = d.Variables[:1] }, want: "variable SOURCE_VIP"},
		{name: "unknown variable in an argument", change: func(d *config.Document) { d.Variables = d.Variables[1:] }, want: "variable NODE_IP"},
		{name: "network of others", change: func(d *config.Document) {
			d.HNS = &config.HNS{Foreign: []string{"net"}, Endpoint: d.HNS.Endpoint}
			d.Services[0].Network, d.Files[0].Network = "net", "net"
		}},
		{name: "network that is ours and of others", change: func(d *config.Document) { d.HNS = &config.HNS{Networks: []string{"net"}, Foreign: []string{"net"}} }, want: "twice"},
		{name: "network of others without a name", change: func(d *config.Document) { d.HNS.Foreign = []string{""} }, want: "a network has no name"},
		{name: "networks that keep an argument", change: func(d *config.Document) {
			d.HNS.Keep = &config.KeptArgument{Service: "kube-proxy", Name: "--port", OnChange: config.OnChange{Impact: config.ImpactDrain, Services: []string{"containerd"}}}
		}},
		{name: "networks that keep an argument of an unknown service", change: func(d *config.Document) {
			d.HNS.Keep = &config.KeptArgument{Service: "overlay", Name: "--port", OnChange: config.OnChange{Impact: config.ImpactNone}}
		}, want: `service "overlay" is not in the document`},
		{name: "networks that keep an argument of a program outside", change: func(d *config.Document) {
			d.HNS.Keep = &config.KeptArgument{Service: "kube-proxy", Name: "--port", Programs: []string{"shim.exe"}, OnChange: config.OnChange{Impact: config.ImpactNone}}
		}, want: "not absolute"},
		{name: "service that waits for a network of ours", change: func(d *config.Document) { d.Services[0].Network = "net" }, want: `network "net", which it waits for, is not one that others make`},
		{name: "file that waits for an unknown network", change: func(d *config.Document) { d.Files[0].Network = "x" }, want: `network "x", which it waits for`},
		{name: "variable of an unknown network", change: func(d *config.Document) { d.Variables[1].Network = "x" }, want: `network "x"`},
		{name: "variable with a value from two places", change: func(d *config.Document) { d.Variables[0].Value = "1" }, want: "comes from the host"},
		{name: "service after what needs it", change: func(d *config.Document) { slices.Reverse(d.Services) }, want: "is before containerd, which it depends on"},
		{name: "service whose dependency waits", change: func(d *config.Document) { d.Services[1].Waiting = true }, want: "kube-proxy does not wait, and depends on kubelet"},
		{name: "kept variable with a value", change: func(d *config.Document) {
			d.Variables = append(d.Variables, config.Variable{Name: "X", Source: config.SourceKept, Value: "1"})
		}, want: "comes from the host"},
		{name: "preferred address that is none", change: func(d *config.Document) { d.Variables[0].Preferred = []string{"10.0.0.7", "fd00::7"} }, want: `"fd00::7" cannot be preferred`},
		{name: "preferred addresses", change: func(d *config.Document) { d.Variables[0].Preferred = []string{"10.0.0.7"} }},
		{name: "kept variable", change: func(d *config.Document) {
			d.Variables = append(d.Variables, config.Variable{Name: "X", Source: config.SourceKept})
		}},
		{name: "service that depends on itself", change: func(d *config.Document) { d.Services[0].Dependencies = []string{"containerd"} }, want: "depends on"},
		{name: "service of Windows that is depended on", change: func(d *config.Document) { d.Services[0].Dependencies = []string{"RpcSs"} }},
		{name: "bootstrap service that needs a node", change: func(d *config.Document) { d.Services[1].Bootstrap = true }, want: "cannot depend on containerd"},
		{name: "service without the tag", change: func(d *config.Document) { d.Services[0].Description = "containerd" }, want: "mark it as ours"},
		{name: "delay in seconds", change: func(d *config.Document) { d.Services[1].Recovery.RestartDelaysMilliseconds = []int64{10} }, want: "10 ms"},
		{name: "argument with a line break", change: func(d *config.Document) { d.Services[0].Arguments = []string{"external\nRestart=always"} }, want: "more than one line"},
		{name: "health asked elsewhere", change: func(d *config.Document) { d.Services[1].Health.URL = "http://10.0.0.1/" }, want: "host itself"},
		{name: "unknown store", change: func(d *config.Document) {
			d.Certificates = []config.Certificate{{Store: "My", OnChange: config.OnChange{Impact: config.ImpactNone}}}
		}, want: `store "My"`},
		{name: "variable of the machine with a line break", change: func(d *config.Document) { d.Environment[0].Value = "a\nb" }, want: "more than one line"},
		{name: "pattern that leaves its directory", change: func(d *config.Document) { d.Directories[1].Retention.Pattern = `..\*` }, want: "pattern"},
		{name: "nothing is kept", change: func(d *config.Document) { d.Directories[1].Retention.Keep = 0 }, want: "at least one"},
		{name: "rule without a port", change: func(d *config.Document) { d.Firewall[0].Port = 0 }, want: "no port"},
		{name: "default route", change: func(d *config.Document) { d.Routes = []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0")} }, want: "route to 0.0.0.0/0"},
		{name: "route to nothing", change: func(d *config.Document) { d.Routes = []netip.Prefix{{}} }, want: "route to"},
		{name: "route with bits behind the prefix", change: func(d *config.Document) { d.Routes = []netip.Prefix{netip.MustParsePrefix("10.0.0.1/8")} }, want: "route to 10.0.0.1/8"},
		{name: "rotation without limits", change: func(d *config.Document) { d.LogRotation[0].MaxBytes = 0 }, want: "are no limits"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d := valid()
			tt.change(&d)
			err := d.Validate()
			if (err != nil) != (tt.want != "") {
				t.Fatalf("got error %v, want one about %q", err, tt.want)
			}
			if err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got error %q, want it to say %q", err, tt.want)
			}
		})
	}
}

func TestValidateReportsEverything(t *testing.T) {
	d := valid()
	d.Hostname = "?"
	d.Firewall[0].Port = 0
	d.Services[0].StartType = "Boot"
	err := d.Validate()
	for _, want := range []string{"host name", "no port", "start type"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want it to tell of the %s too", err, want)
		}
	}
}

func TestRevision(t *testing.T) {
	base := valid()
	revision := func(d config.Document) string {
		t.Helper()
		r, err := d.Revision()
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	tests := []struct {
		name   string
		change func(d *config.Document)
		same   bool
	}{
		{name: "as it is", change: func(*config.Document) {}, same: true},
		{name: "files in another order", change: func(d *config.Document) { slices.Reverse(d.Files) }, same: true},
		{name: "directories in another order", change: func(d *config.Document) { slices.Reverse(d.Directories) }, same: true},
		{name: "variables in another order", change: func(d *config.Document) { slices.Reverse(d.Variables) }, same: true},
		{name: "an empty list for none", change: func(d *config.Document) { d.Certificates = []config.Certificate{} }, same: true},
		{name: "services in another order", change: func(d *config.Document) { slices.Reverse(d.Services) }},
		{name: "another content", change: func(d *config.Document) { d.Files[0] = text(`C:\k\kubelet.conf`, "{ }") }},
		{name: "another secret", change: func(d *config.Document) { d.Files[2].Digest = "hmac-sha256:1" + zeroDigest[1:] }},
		{name: "one argument in place of two", change: func(d *config.Document) { d.Services[0].Arguments = []string{"a b"} }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d := valid()
			tt.change(&d)
			if got := revision(d) == revision(base); got != tt.same {
				t.Errorf("the revisions are equal: %v, want %v", got, tt.same)
			}
		})
	}
	if got := revision(base); len(got) != 64 {
		t.Errorf("the revision is %q, want 64 hexadecimal digits", got)
	}
}

func TestCanonicalChangesNothing(t *testing.T) {
	d := valid()
	slices.Reverse(d.Files)
	want := slices.Clone(d.Files)
	if _, err := d.Canonical(); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, d.Files); diff != "" {
		t.Errorf("the encoding changed its document (-want +got):\n%s", diff)
	}
}

func TestCycles(t *testing.T) {
	tests := []struct {
		name  string
		edges map[string][]string
		order []string // of the names
		want  []string // the circle; nil: none
	}{
		{name: "none", edges: map[string][]string{"b": {"a"}, "c": {"b"}}, order: []string{"a", "b", "c"}},
		{name: "what is needed is listed last", edges: map[string][]string{"c": {"b"}, "b": {"a"}}, order: []string{"c", "b", "a"}},
		{name: "visited twice, through different services", edges: map[string][]string{"d": {"b", "c"}, "b": {"a"}, "c": {"a"}}, order: []string{"a", "b", "c", "d"}},
		{name: "visited before", edges: map[string][]string{"kubelet": {"containerd"}, "overlay": {"kubelet"}}, order: []string{"kubelet", "overlay", "containerd"}},
		{name: "itself", edges: map[string][]string{"a": {"a"}}, order: []string{"a"}, want: []string{"a", "a"}},
		{name: "two", edges: map[string][]string{"a": {"b"}, "b": {"a"}}, order: []string{"a", "b"}, want: []string{"a", "b", "a"}},
		{name: "behind a second edge", edges: map[string][]string{"a": {"b", "c"}, "c": {"a"}}, order: []string{"a", "b", "c"}, want: []string{"a", "c", "a"}},
		{name: "not through the first", edges: map[string][]string{"a": {"b"}, "b": {"c"}, "c": {"b"}}, order: []string{"a", "b", "c"}, want: []string{"b", "c", "b"}},
		{name: "of services that are not ours", edges: map[string][]string{"a": {"x"}, "x": {"a"}}, order: []string{"a"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := config.FindCycle(tt.order, func(name string) []string { return tt.edges[name] })
			var cycle *config.CycleError
			if errors.As(err, &cycle) != (tt.want != nil) {
				t.Fatalf("got %v, want the circle %v", err, tt.want)
			}
			if cycle != nil {
				if diff := cmp.Diff(tt.want, cycle.Cycle); diff != "" {
					t.Errorf("circle (-want +got):\n%s", diff)
				}
			}
		})
	}
}

func TestStartOrder(t *testing.T) {
	with := func(priority int, s config.Service) config.Service {
		s.Priority = priority
		return s
	}
	tests := []struct {
		name     string
		services []config.Service
		wantErr  bool
		want     []string
	}{
		{name: "none"},
		{name: "by priority", services: []config.Service{with(2, service("c")), with(0, service("a")), with(1, service("b"))}, want: []string{"a", "b", "c"}},
		{name: "as given when alike", services: []config.Service{service("b"), service("a")}, want: []string{"b", "a"}},
		{name: "dependencies before priority", services: []config.Service{with(0, service("a", "b")), with(5, service("b"))}, want: []string{"b", "a"}},
		{name: "what is needed is listed last", services: []config.Service{with(1, service("kubelet", "containerd")), with(2, service("overlay", "kubelet")), with(0, service("containerd"))}, want: []string{"containerd", "kubelet", "overlay"}},
		{name: "dependency that is not ours", services: []config.Service{service("a", "RpcSs")}, want: []string{"a"}},
		{name: "circle", services: []config.Service{service("a", "b"), service("b", "a")}, wantErr: true},
		{name: "twice", services: []config.Service{service("a"), service("a")}, wantErr: true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			ordered, err := config.StartOrder(tt.services)
			if (err != nil) != tt.wantErr {
				t.Fatalf("got error %v, want one: %v", err, tt.wantErr)
			}
			var got []string
			for _, s := range ordered {
				got = append(got, s.Name)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("order (-want +got):\n%s", diff)
			}
		})
	}
}

func TestExpand(t *testing.T) {
	values := map[string]string{"NODE": "win-1", "NODE_IP": "10.0.0.5", "REF": "$(NODE)"}
	tests := []struct {
		name, text string
		wantErr    bool
		want       string
	}{
		{name: "nothing", text: `C:\k\a.exe --x`, want: `C:\k\a.exe --x`},
		{name: "one", text: "--node=$(NODE)", want: "--node=win-1"},
		{name: "a name that another one begins with", text: "$(NODE)/$(NODE_IP)", want: "win-1/10.0.0.5"},
		{name: "the bare name stays", text: "NODE $NODE ${NODE}", want: "NODE $NODE ${NODE}"},
		{name: "values are not expanded", text: "$(REF)", want: "$(NODE)"},
		{name: "escaped", text: "$$(NODE) $(NODE)", want: "$(NODE) win-1"},
		{name: "no value", text: "$(NODE) $(OTHER)", wantErr: true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := config.Expand(tt.text, values)
			if got != tt.want || (err != nil) != tt.wantErr {
				t.Errorf("got %q, %v, want %q, error %v", got, err, tt.want, tt.wantErr)
			}
		})
	}
}

func TestCommandLine(t *testing.T) {
	tests := []struct {
		name      string
		binary    string
		arguments []string
		want      string
	}{
		{name: "plain", binary: `C:\k\a.exe`, arguments: []string{"--v=2", `--dir=c:\var\pki\`}, want: `C:\k\a.exe --v=2 --dir=c:\var\pki\`},
		{name: "space", binary: `C:\Program Files\a.exe`, arguments: []string{"a b"}, want: `"C:\Program Files\a.exe" "a b"`},
		{name: "empty", binary: `C:\k\a.exe`, arguments: []string{""}, want: `C:\k\a.exe ""`},
		{name: "quote", binary: `C:\k\a.exe`, arguments: []string{`say "hi"`}, want: `C:\k\a.exe "say \"hi\""`},
		{name: "backslashes before a quote", binary: `C:\k\a.exe`, arguments: []string{`a\\"b`}, want: `C:\k\a.exe "a\\\\\"b"`},
		{name: "space and a backslash at the end", binary: `C:\k\a.exe`, arguments: []string{`C:\a b\`}, want: `C:\k\a.exe "C:\a b\\"`},
		{name: "a value with a space is one argument", binary: `C:\k\a.exe`, arguments: []string{"--name=$(X)"}, want: `C:\k\a.exe "--name=a b"`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := config.Service{Name: "a", BinaryPath: tt.binary, Arguments: tt.arguments}
			got, err := s.CommandLine(map[string]string{"X": "a b"})
			if got != tt.want || err != nil {
				t.Errorf("got %s, %v, want %s", got, err, tt.want)
			}
		})
	}
}

func TestSettingsEqual(t *testing.T) {
	base := config.ServiceSettings{CommandLine: "a", Description: "d", Dependencies: []string{"x", "y"}, StartType: config.StartAutomatic}
	same := base
	same.Dependencies = []string{"Y", "x"}
	if !base.Equal(same) {
		t.Error("the order and case of dependencies make a difference")
	}
	for _, change := range []func(s *config.ServiceSettings){
		func(s *config.ServiceSettings) { s.CommandLine = "A" },
		func(s *config.ServiceSettings) { s.Description = "" },
		func(s *config.ServiceSettings) { s.Dependencies = []string{"x"} },
		func(s *config.ServiceSettings) { s.StartType = config.StartManual },
	} {
		other := base
		change(&other)
		if base.Equal(other) {
			t.Errorf("%+v equals %+v", base, other)
		}
	}
}

func TestExcess(t *testing.T) {
	r := config.Retention{Pattern: "ovnkube-client-*.pem", Keep: 2}
	tests := []struct {
		name  string
		names []string
		want  []string
	}{
		{name: "none"},
		{name: "as many as are kept", names: []string{"ovnkube-client-1.pem", "ovnkube-client-2.pem"}},
		{name: "the oldest goes", names: []string{"ovnkube-client-2.pem", "ovnkube-client-1.pem", "ovnkube-client-3.pem"}, want: []string{"ovnkube-client-1.pem"}},
		{name: "others stay", names: []string{"cni.conf", "a.pem", "ovnkube-client-1.pem"}},
		{name: "in any case", names: []string{"OVNKUBE-client-1.PEM", "ovnkube-client-2.pem", "ovnkube-client-3.pem"}, want: []string{"OVNKUBE-client-1.PEM"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, r.Excess(tt.names), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("excess (-want +got):\n%s", diff)
			}
		})
	}
}

func TestEnvironmentChanges(t *testing.T) {
	own := func(value string, before ...string) config.OwnedVariable {
		o := config.OwnedVariable{Value: value}
		if len(before) > 0 {
			o.Before = &before[0]
		}
		return o
	}
	type m = map[string]string
	tests := []struct {
		name     string
		desired  m
		existing m
		owned    map[string]config.OwnedVariable
		want     m // the variables afterwards
		wantOwn  map[string]config.OwnedVariable
	}{
		{name: "nothing", existing: m{"PATH": "x"}, want: m{"PATH": "x"}},
		{name: "new", desired: m{"NO_PROXY": "a"}, want: m{"NO_PROXY": "a"}, wantOwn: map[string]config.OwnedVariable{"NO_PROXY": own("a")}},
		{name: "there already", desired: m{"NO_PROXY": "a"}, existing: m{"NO_PROXY": "a"}, want: m{"NO_PROXY": "a"}, wantOwn: map[string]config.OwnedVariable{"NO_PROXY": own("a", "a")}},
		{name: "the user's is remembered", desired: m{"NO_PROXY": "a"}, existing: m{"NO_PROXY": "user"}, want: m{"NO_PROXY": "a"}, wantOwn: map[string]config.OwnedVariable{"NO_PROXY": own("a", "user")}},
		{name: "the user's is put back", existing: m{"NO_PROXY": "a"}, owned: map[string]config.OwnedVariable{"NO_PROXY": own("a", "user")}, want: m{"NO_PROXY": "user"}},
		{name: "ours is removed", existing: m{"NO_PROXY": "a"}, owned: map[string]config.OwnedVariable{"NO_PROXY": own("a")}, want: m{}},
		{name: "never ours stays", existing: m{"HTTP_PROXY": "user"}, want: m{"HTTP_PROXY": "user"}},
		{name: "changed by somebody since", existing: m{"NO_PROXY": "theirs"}, owned: map[string]config.OwnedVariable{"NO_PROXY": own("a", "user")}, want: m{"NO_PROXY": "theirs"}},
		{name: "changed again by us", desired: m{"NO_PROXY": "b"}, existing: m{"NO_PROXY": "a"}, owned: map[string]config.OwnedVariable{"NO_PROXY": own("a", "user")}, want: m{"NO_PROXY": "b"}, wantOwn: map[string]config.OwnedVariable{"NO_PROXY": own("b", "user")}},
		{name: "in another case", desired: m{"NO_PROXY": "a"}, existing: m{"no_proxy": "a"}, want: m{"no_proxy": "a"}, wantOwn: map[string]config.OwnedVariable{"NO_PROXY": own("a", "a")}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			changes, owned := config.EnvironmentChanges(tt.desired, tt.existing, tt.owned)
			got := maps.Clone(tt.existing)
			if got == nil {
				got = m{}
			}
			for _, c := range changes {
				if c.Value == nil {
					delete(got, c.Name)
				} else {
					got[c.Name] = *c.Value
				}
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("variables (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tt.wantOwn, owned, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("ours (-want +got):\n%s", diff)
			}
			if again, _ := config.EnvironmentChanges(tt.desired, got, owned); len(again) > 0 {
				t.Errorf("a second time: %+v, want no changes", again)
			}
		})
	}
}

func bundle() config.Bundle {
	return config.Bundle{Document: valid(), Secrets: config.Secrets{"bootstrap": config.SecretValue("hunter2")}}
}

func TestSecretsAreNotPrinted(t *testing.T) {
	b := bundle()
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
		text := fmt.Sprintf(verb, b) + fmt.Sprintf(verb, b.Secrets) + fmt.Sprintf(verb, b.Secrets["bootstrap"])
		for _, leak := range []string{"hunter2", "68756e74657232", "104 117 110", "0x68, 0x75"} {
			if strings.Contains(text, leak) {
				t.Errorf("%s prints the secret: %s", verb, text)
			}
		}
	}
	document, err := b.Document.Canonical()
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(document, []byte("hunter2")) || bytes.Contains(document, []byte("aHVudGVyMg")) {
		t.Errorf("the document has the secret: %s", document)
	}
}

func TestDecode(t *testing.T) {
	b := bundle()
	encoded, err := b.Encode()
	if err != nil {
		t.Fatal(err)
	}
	got, err := config.Decode(bytes.NewReader(encoded))
	if err != nil {
		t.Fatal(err)
	}
	want, _ := b.Document.Revision()
	if revision, _ := got.Document.Revision(); revision != want {
		t.Errorf("revision %s after its travel, want %s", revision, want)
	}
	if string(got.Secrets["bootstrap"]) != "hunter2" {
		t.Error("the secret did not travel")
	}

	change := func(edit func(m map[string]any)) []byte {
		var m map[string]any
		if err := json.Unmarshal(encoded, &m); err != nil {
			t.Fatal(err)
		}
		edit(m)
		changed, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		return changed
	}
	tests := []struct {
		name string
		text []byte
		want string
	}{
		{name: "nothing", text: nil, want: "no JSON"},
		{name: "cut off", text: encoded[:len(encoded)-10], want: "no JSON"},
		{name: "endless", text: append(bytes.Repeat([]byte(" "), config.MaxBundleBytes), encoded...), want: "more than"},
		{name: "more behind it", text: append(slices.Clone(encoded), '{'), want: "no JSON"},
		{name: "newer schema", text: change(func(m map[string]any) { m["document"] = map[string]any{"version": 2, "new": 1} }), want: "version of the schema"},
		{name: "unknown member", text: change(func(m map[string]any) { m["document"].(map[string]any)["new"] = 1 }), want: "unknown field"},
		{name: "missing secret", text: change(func(m map[string]any) { delete(m, "secrets") }), want: "secret bootstrap is missing"},
		{name: "secret that nobody wants", text: change(func(m map[string]any) { m["secrets"].(map[string]any)["x"] = "eA==" }), want: "secret x is used by nothing"},
		{name: "not valid", text: change(func(m map[string]any) { m["document"].(map[string]any)["hostname"] = "?" }), want: "host name"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := config.Decode(bytes.NewReader(tt.text))
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Fatalf("got error %v, want it to say %q", err, tt.want)
			}
			if strings.Contains(err.Error(), "hunter2") {
				t.Errorf("the error has the secret: %v", err)
			}
		})
	}
}

// FuzzDecode: whatever is decoded is valid, and stays the same document when it travels.
func FuzzDecode(f *testing.F) {
	b := bundle()
	encoded, err := b.Encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(encoded)
	f.Add([]byte(`{"document":{"version":1}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		first, err := config.Decode(bytes.NewReader(text))
		if err != nil {
			return
		}
		again, err := first.Encode()
		if err != nil {
			t.Fatal(err)
		}
		second, err := config.Decode(bytes.NewReader(again))
		if err != nil {
			t.Fatalf("a document that was accepted is refused when it is sent on: %v", err)
		}
		want, _ := first.Document.Revision()
		if got, _ := second.Document.Revision(); got != want {
			t.Errorf("revision %s, then %s", want, got)
		}
	})
}
