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

	"github.com/openshift/windows-instance-api/pkg/agent/api/config"
	"github.com/openshift/windows-instance-api/pkg/desired/document"
)

// readServices reads services as whoever uses the ConfigMap does, and validates them.
func readServices(text string) (*document.PublishedServices, error) {
	p := &document.PublishedServices{}
	if err := json.Unmarshal([]byte(text), &p.Services); err != nil {
		return nil, err
	}
	return p, p.Validate()
}

func TestValidatePublishedServices(t *testing.T) {
	tests := []struct {
		name, services string
		want           string // part of the error; empty: none
	}{
		{name: "none", services: "[]"},
		{name: "one twice", services: `[{"name":"a"},{"name":"a"}]`, want: "twice"},
		{name: "bootstrap after another", services: `[{"name":"a"},{"name":"b","bootstrap":true,"priority":1}]`, want: "not below"},
		{name: "bootstrap beside another", services: `[{"name":"b","bootstrap":true,"priority":1},{"name":"a","priority":1}]`, want: "same priority"},
		{name: "bootstrap behind another of its priority", services: `[{"name":"a","priority":1},{"name":"b","bootstrap":true,"priority":1}]`, want: "not below"},
		{name: "huge priorities", services: `[{"name":"a","bootstrap":true,"priority":1},{"name":"b","priority":18446744073709551615}]`},
		{name: "what is needed is listed last", services: `[{"name":"kubelet","dependencies":["containerd"],"priority":1},{"name":"overlay","dependencies":["kubelet"],"priority":2},{"name":"containerd","priority":3}]`},
		{name: "circle behind a second edge", services: `[{"name":"a","dependencies":["b","c"]},{"name":"b"},{"name":"c","dependencies":["a"]}]`, want: "a → c → a"},
		{name: "dependency that is not ours", services: `[{"name":"a","dependencies":["RpcSs"],"bootstrap":true}]`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := readServices(tt.services)
			if (err != nil) != (tt.want != "") || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want an error about %q", err, tt.want)
			}
		})
	}
}

func TestPublishedOrder(t *testing.T) {
	p, err := readServices(`[{"name":"d","priority":2},{"name":"c","priority":2},{"name":"a","bootstrap":true,"priority":0},{"name":"b","bootstrap":true,"priority":1}]`)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, s := range p.Services {
		names = append(names, s.Name)
	}
	if got := strings.Join(names, " "); got != "a b d c" {
		t.Errorf("order %s, want a b d c", got)
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
		again, err := readServices(cm.Data["services"])
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

// FuzzPublishedServices: what is valid can be written and read again, and has no circle.
func FuzzPublishedServices(f *testing.F) {
	published, err := document.Publish(options(configv1.AzurePlatformType), document.Proxy{})
	if err != nil {
		f.Fatal(err)
	}
	data, err := published.Data()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data["services"])
	f.Add("null")
	f.Fuzz(func(t *testing.T, services string) {
		first, err := readServices(services)
		if err != nil {
			return
		}
		data, err := first.Data()
		if err != nil {
			t.Fatal(err)
		}
		second, err := readServices(data["services"])
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
			want := "-log-file=x " + tt.want + "y"
			if got := strings.Join(document.NewLogRotation(tt.size, tt.age).Runner("x", "y"), " "); got != want {
				t.Errorf("got %s, want %s", got, want)
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
