// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package document_test

import (
	"encoding/json"
	"errors"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	configv1 "github.com/openshift/api/config/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/openshift/windows-instance-api/pkg/agent/api/config"
	"github.com/openshift/windows-instance-api/pkg/desired/document"
)

func TestParsePublishedServices(t *testing.T) {
	type m = map[string]string
	tests := []struct {
		name string
		data m
		want string // part of the error; empty: none
	}{
		{name: "required keys only", data: m{"services": "[]", "files": "[]"}},
		{name: "all keys", data: m{"services": "[]", "files": "[]", "environmentVars": `{"A":"b"}`, "watchedEnvironmentVars": `["A"]`}},
		{name: "optional keys without a value", data: m{"services": "[]", "files": "[]", "environmentVars": "", "watchedEnvironmentVars": ""}},
		{name: "nothing", want: "0 keys"},
		{name: "too much", data: m{"services": "[]", "files": "[]", "a": "", "b": "", "c": ""}, want: "5 keys"},
		{name: "no services", data: m{"files": "[]", "x": ""}, want: "key services is missing"},
		{name: "services without a value", data: m{"services": "", "files": "[]"}, want: "key services"},
		{name: "not a list", data: m{"services": "{}", "files": "[]"}, want: "key services"},
		{name: "negative priority", data: m{"services": `[{"name":"a","priority":-1}]`, "files": "[]"}, want: "key services"},
		{name: "one twice", data: m{"services": `[{"name":"a"},{"name":"a"}]`, "files": "[]"}, want: "twice"},
		{name: "bootstrap after another", data: m{"services": `[{"name":"a"},{"name":"b","bootstrap":true,"priority":1}]`, "files": "[]"}, want: "not below"},
		{name: "bootstrap beside another", data: m{"services": `[{"name":"b","bootstrap":true,"priority":1},{"name":"a","priority":1}]`, "files": "[]"}, want: "same priority"},
		{name: "bootstrap behind another of its priority", data: m{"services": `[{"name":"a","priority":1},{"name":"b","bootstrap":true,"priority":1}]`, "files": "[]"}, want: "not below"},
		{name: "huge priorities", data: m{"services": `[{"name":"a","bootstrap":true,"priority":1},{"name":"b","priority":18446744073709551615}]`, "files": "[]"}},
		{name: "what is needed is listed last", data: m{"services": `[{"name":"kubelet","dependencies":["containerd"],"priority":1},{"name":"overlay","dependencies":["kubelet"],"priority":2},{"name":"containerd","priority":3}]`, "files": "[]"}},
		{name: "circle behind a second edge", data: m{"services": `[{"name":"a","dependencies":["b","c"]},{"name":"b"},{"name":"c","dependencies":["a"]}]`, "files": "[]"}, want: "a → c → a"},
		{name: "dependency that is not ours", data: m{"services": `[{"name":"a","dependencies":["RpcSs"],"bootstrap":true}]`, "files": "[]"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := document.ParsePublishedServices(tt.data)
			if (err != nil) != (tt.want != "") || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want an error about %q", err, tt.want)
			}
		})
	}
}

func TestPublishedOrder(t *testing.T) {
	p, err := document.ParsePublishedServices(map[string]string{"files": "[]", "services": `[
		{"name":"d","priority":2},{"name":"c","priority":2},{"name":"a","bootstrap":true,"priority":0},{"name":"b","bootstrap":true,"priority":1}]`})
	if err != nil {
		t.Fatal(err)
	}
	list := func(services []document.PublishedService) string {
		var names []string
		for _, s := range services {
			names = append(names, s.Name)
		}
		return strings.Join(names, " ")
	}
	if got := list(p.Services); got != "a b d c" {
		t.Errorf("order %s, want a b d c", got)
	}
	if got := list(p.Bootstrap()); got != "a b" {
		t.Errorf("bootstrap services %s, want a b", got)
	}
}

func TestConfigMap(t *testing.T) {
	for _, platform := range platforms {
		published, err := document.Publish(options(platform), document.Proxy{HTTP: "http://proxy.example.com"})
		if err != nil {
			t.Fatal(err)
		}
		cm, err := published.ConfigMap("ns", "1.2.3")
		if err != nil {
			t.Fatal(err)
		}
		if cm.Name != "windows-services-1.2.3" || cm.Namespace != "ns" || cm.Immutable == nil || !*cm.Immutable {
			t.Errorf("%s: got the ConfigMap %s/%s, immutable %v", platform, cm.Namespace, cm.Name, cm.Immutable)
		}
		if diff := cmp.Diff([]string{"environmentVars", "files", "services", "watchedEnvironmentVars"}, slices.Sorted(maps.Keys(cm.Data))); diff != "" {
			t.Errorf("%s: keys (-want +got):\n%s", platform, diff)
		}
		again, err := document.ParsePublishedServices(cm.Data)
		if err != nil {
			t.Fatalf("%s: what is published cannot be read: %v", platform, err)
		}
		if diff := cmp.Diff(published.Services, again.Services); diff != "" {
			t.Errorf("%s: services (-published +read):\n%s", platform, diff)
		}
	}
	if version, ok := document.PublishedVersion("windows-services-1.2.3"); version != "1.2.3" || !ok {
		t.Errorf("got %q, %v", version, ok)
	}
	for _, name := range []string{"windows-services-", "windows-instances", "x-windows-services-1"} {
		if version, ok := document.PublishedVersion(name); ok {
			t.Errorf("%s: got the version %q, want none", name, version)
		}
	}
}

// FuzzParsePublishedServices: what is read can be written and read again, and has no circle.
func FuzzParsePublishedServices(f *testing.F) {
	published, err := document.Publish(options(configv1.AzurePlatformType), document.Proxy{})
	if err != nil {
		f.Fatal(err)
	}
	data, err := published.Data()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data["services"], data["files"], "", data["watchedEnvironmentVars"])
	f.Add("null", "null", "null", "null")
	f.Fuzz(func(t *testing.T, services, files, environment, watched string) {
		first, err := document.ParsePublishedServices(map[string]string{
			"services": services, "files": files, "environmentVars": environment, "watchedEnvironmentVars": watched,
		})
		if err != nil {
			return
		}
		data, err := first.Data()
		if err != nil {
			t.Fatal(err)
		}
		second, err := document.ParsePublishedServices(data)
		if err != nil {
			t.Fatalf("what was read cannot be read again: %v", err)
		}
		if len(first.Services) != len(second.Services) {
			t.Errorf("%d services, then %d", len(first.Services), len(second.Services))
		}
		for _, s := range first.Services {
			if slices.Contains(s.Dependencies, s.Name) {
				t.Errorf("service %s depends on itself", s.Name)
			}
		}
	})
}

func TestNodeValues(t *testing.T) {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name:        "win-1",
		Annotations: map[string]string{"k8s.ovn.org/hybrid-overlay-node-subnet": "10.132.0.0/24", "plain": "x"},
	}}
	tests := []struct {
		name, path string
		wantErr    bool
		want       string
	}{
		{name: "name", path: "{.metadata.name}", want: "win-1"},
		{name: "annotation", path: "{.metadata.annotations.plain}", want: "x"},
		{name: "annotation with dots", path: `{.metadata.annotations.k8s\.ovn\.org/hybrid-overlay-node-subnet}`, want: "10.132.0.0/24"},
		{name: "text", path: `C:\k\kubeconfig`, want: `C:\k\kubeconfig`},
		{name: "missing", path: "{.metadata.annotations.other}", wantErr: true},
		{name: "not one text", path: "{.metadata.annotations}", wantErr: true},
		{name: "several", path: "{.metadata.annotations.*}", wantErr: true},
		{name: "two paths", path: "{.metadata.name}-{.metadata.name}", wantErr: true},
		{name: "no path", path: "{.metadata", wantErr: true},
		{name: "empty", path: "", wantErr: true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := document.NodeValues([]document.NodeVariable{{Name: "X", Path: tt.path}}, node)
			if got["X"] != tt.want || (err != nil) != tt.wantErr {
				t.Errorf("got %q, %v, want %q, error %v", got["X"], err, tt.want, tt.wantErr)
			}
		})
	}
}

func TestCommandWith(t *testing.T) {
	s := document.PublishedService{
		Command:       "a.exe --node NODE --ip NODE_IP --again NODE",
		NodeVariables: []document.NodeVariable{{Name: "NODE"}},
		Scripts:       []document.Script{{Variable: "NODE_IP"}, {Command: "x.ps1"}},
	}
	tests := []struct {
		name    string
		values  map[string]string
		wantErr bool
		want    string
	}{
		{name: "a name that another one begins with", values: map[string]string{"NODE": "win-1", "NODE_IP": "10.0.0.5\r\n"}, want: "a.exe --node win-1 --ip 10.0.0.5 --again win-1"},
		{name: "a value that is a name", values: map[string]string{"NODE": "NODE_IP", "NODE_IP": "10.0.0.5"}, want: "a.exe --node NODE_IP --ip 10.0.0.5 --again NODE_IP"},
		{name: "no value", values: map[string]string{"NODE": "win-1"}, wantErr: true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := s.CommandWith(tt.values)
			if got != tt.want || (err != nil) != tt.wantErr {
				t.Errorf("got %q, %v, want %q, error %v", got, err, tt.want, tt.wantErr)
			}
		})
	}
}

func TestClusterDNS(t *testing.T) {
	tests := []struct {
		cidr    string
		wantErr bool
		want    string
	}{
		{cidr: "172.30.0.0/16", want: "172.30.0.10"},
		{cidr: "10.0.128.8/24", want: "10.0.128.10"},
		{cidr: "10.0.0.0/28", want: "10.0.0.10"},
		{cidr: "10.0.0.248/28", want: "10.0.0.250"},
		{cidr: "fd02::/112", want: "fd02::a"},
		{cidr: "10.0.0.0/29", wantErr: true},
		{cidr: "255.255.255.252/30", wantErr: true},
		{cidr: "10.0.0.0", wantErr: true},
		{cidr: "", wantErr: true},
	}
	for _, tt := range tests {
		got, err := document.ClusterDNS(tt.cidr)
		if (err != nil) != tt.wantErr || err == nil && got.String() != tt.want {
			t.Errorf("ClusterDNS(%q) = %v, %v, want %s, error %v", tt.cidr, got, err, tt.want, tt.wantErr)
		}
	}
}

func TestKubeletOptions(t *testing.T) {
	got := document.KubeletConfiguration(netip.MustParseAddr("172.30.0.10"), document.KubeletOptions{
		MaxPods: 30, SystemReserved: map[corev1.ResourceName]string{corev1.ResourceMemory: "4Gi"},
		KubeReserved: map[corev1.ResourceName]string{corev1.ResourceCPU: "100m"},
		EvictionHard: map[string]string{"memory.available": "500Mi", "nodefs.available": "5%"},
	})
	if got.MaxPods != 30 {
		t.Errorf("%d pods, want 30", got.MaxPods)
	}
	want := map[string]string{"cpu": "500m", "memory": "4Gi", "ephemeral-storage": "1Gi"}
	if diff := cmp.Diff(want, got.SystemReserved); diff != "" {
		t.Errorf("reserved (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]string{"cpu": "100m"}, got.KubeReserved); diff != "" {
		t.Errorf("reserved for the kubelet (-want +got):\n%s", diff)
	}
	want = map[string]string{"memory.available": "500Mi", "nodefs.available": "5%", "imagefs.available": "15%"}
	if diff := cmp.Diff(want, got.EvictionHard); diff != "" {
		t.Errorf("thresholds (-want +got):\n%s", diff)
	}
	// What one pool sets is not what another one has.
	got = document.KubeletConfiguration(netip.MustParseAddr("172.30.0.10"), document.KubeletOptions{})
	if got.MaxPods != 250 || got.SystemReserved["memory"] != "2Gi" || got.EvictionHard["nodefs.available"] != "10%" || got.KubeReserved != nil {
		t.Errorf("the defaults changed: %v", got)
	}
}

func TestKubeconfig(t *testing.T) {
	tests := []struct {
		name string
		data map[string][]byte
		want []error
	}{
		{name: "all there", data: map[string][]byte{"ca.crt": []byte("ca"), "token": []byte("t")}},
		{name: "nothing", want: []error{document.ErrNoCA, document.ErrNoToken}},
		{name: "no token", data: map[string][]byte{"ca.crt": []byte("ca")}, want: []error{document.ErrNoToken}},
		{name: "empty CA", data: map[string][]byte{"ca.crt": {}, "token": []byte("t")}, want: []error{document.ErrNoCA}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			credentials, err := document.TokenCredentialsOf(tt.data)
			for _, want := range tt.want {
				if !errors.Is(err, want) {
					t.Errorf("got %v, want %v", err, want)
				}
			}
			if len(tt.want) > 0 {
				return
			}
			text, err := credentials.Kubeconfig(apiServer, "kubelet")
			if err != nil || !json.Valid(text) {
				t.Errorf("got %s, %v", text, err)
			}
		})
	}
}

func TestNewLogRotation(t *testing.T) {
	tests := []struct {
		name string
		size int64
		age  time.Duration
		want string
	}{
		{name: "both", size: document.DefaultLogSize, age: document.DefaultLogAge, want: "-log-file-size=100Mi -log-file-age=168h0m0s "},
		{name: "for ever", size: 5 << 30, want: "-log-file-size=5Gi "},
		{name: "never", age: time.Hour},
		{name: "less than a second", size: 1 << 20, age: time.Millisecond, want: "-log-file-size=1Mi "},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			want := `C:\k\kube-log-runner.exe -log-file=x ` + tt.want + "y"
			if got := document.NewLogRotation(tt.size, tt.age).RunnerCommand("x", "y"); got != want {
				t.Errorf("got %s, want %s", got, want)
			}
		})
	}
}

func TestParseLogRotation(t *testing.T) {
	tests := []struct {
		name, size, age, flush string
		want                   []string // parts of the error
	}{
		{name: "nothing"},
		{name: "all", size: "100M", age: "168h", flush: "5s"},
		{name: "space", size: " 100Mi ", age: "\t30s", flush: "0s "},
		{name: "everything is wrong", size: "-1", age: "-5s", flush: "often", want: []string{"size", "age", "flush interval"}},
		{name: "a number is no duration", age: "5", want: []string{"age"}},
		{name: "no quantity", size: "100X", want: []string{"size"}},
		{name: "less than nothing", age: "-0s", want: []string{"age"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := document.ParseLogRotation(tt.size, tt.age, tt.flush)
			if (err != nil) != (len(tt.want) > 0) {
				t.Fatalf("got %v, want an error about %v", err, tt.want)
			}
			for _, want := range tt.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("got %v, want it to tell of the %s", err, want)
				}
			}
		})
	}
}

// TestRecovery: the service control manager counts the delays in milliseconds.
func TestRecovery(t *testing.T) {
	for _, s := range build(t, inputs(configv1.NonePlatformType)).Bundle.Document.Services {
		want := &config.Recovery{ResetAfterSeconds: 300, RestartDelaysMilliseconds: []int64{10_000, 30_000, 60_000, 120_000}}
		if diff := cmp.Diff(want, s.Recovery); diff != "" {
			t.Errorf("%s (-want +got):\n%s", s.Name, diff)
		}
		if s.Description != "OpenShift managed "+s.Name {
			t.Errorf("%s has the description %q", s.Name, s.Description)
		}
	}
}
