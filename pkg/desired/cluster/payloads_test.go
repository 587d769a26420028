// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package cluster_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	utilversion "k8s.io/apimachinery/pkg/util/version"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/rest"

	"github.com/openshift/windows-instance-api/pkg/desired/cluster"
	"github.com/openshift/windows-instance-api/pkg/desired/payload"
)

// serverVersion is an API server that says a version.
func serverVersion(t *testing.T, text string) func(context.Context) (cluster.Servers, error) {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(version.Info{GitVersion: text})
	}))
	t.Cleanup(server.Close)
	return cluster.ServerVersion(&rest.Config{Host: server.URL})
}

func TestVersionSkew(t *testing.T) {
	tests := []struct {
		name, kubelet, server string
		want                  string // part of the warning, or of the finding; empty: none
		refused               bool
	}{
		{name: "same", kubelet: "v1.36.2", server: "v1.36.2"},
		{name: "newer patch", kubelet: "v1.36.9", server: "v1.36.2"},
		{name: "newer minor", kubelet: "v1.37.0", server: "v1.36.2", want: "the kubelet 1.37.0 of the payload is newer than the API server 1.36.2, which is not supported: use a payload for it, make payload KUBERNETES=1.36", refused: true},
		{name: "oldest", kubelet: "v1.33.0", server: "v1.36.2"},
		{name: "too old", kubelet: "v1.32.5", server: "v1.36.2", want: "more than 3 minor versions older"},
		{name: "of a vendor", kubelet: "v1.37.0-rc.1+abc", server: "v1.36.2", want: "newer", refused: true},
		{name: "not known", kubelet: "", server: "v1.36.2"},
		{name: "no version", kubelet: "main", server: "v1.36.2"},
		{name: "no release", kubelet: "v0.0.0-unreleased", server: "v1.36.2"},
		{name: "no release of the API server", kubelet: "v1.37.0", server: "v0.0.0-master+$Format:%H$"},
		{name: "nobody says", kubelet: "v1.37.0", server: ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := settings()
			s.Payloads[0].Files[0].Version = tt.kubelet
			s.ServerVersion = serverVersion(t, tt.server)
			snapshot, err := cluster.Read(t.Context(), newCluster(t, kubeadmCluster(), nil), s)
			if (err != nil) != tt.refused {
				t.Fatal(err)
			}
			got := ""
			if err != nil {
				got = err.Error()
			} else {
				got = strings.Join(build(t, snapshot, cluster.Host{Instance: instance()}).Warnings, "")
			}
			if (got == "") != (tt.want == "") || !strings.Contains(got, tt.want) {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

// sideBySide is a payload for each version, each with a kubelet of its own digest.
func sideBySide(versions ...string) []*payload.Manifest {
	var all []*payload.Manifest
	for i, version := range versions {
		m := manifest()
		m.Files[0].Version, m.Files[0].SHA256 = version, strings.Repeat(string(rune('0'+i)), 64)
		all = append(all, m)
	}
	return all
}

// Of payloads side by side, hosts get the newest that the API server permits, and a host that has a newer kubelet keeps it.
func TestPayloadsSideBySide(t *testing.T) {
	for _, tt := range []struct {
		name, server, running string
		payloads              []string
		want                  int    // index of the payload
		warning, refused      string // parts; empty: none
	}{
		{name: "newest", server: "v1.37.0", payloads: []string{"v1.37.2", "v1.36.1"}, want: 0},
		{name: "older API server", server: "v1.36.9", payloads: []string{"v1.37.2", "v1.36.1"}, want: 1},
		{name: "order of versions", server: "v1.10.0", payloads: []string{"v1.10.1", "v1.9.1", "v1.11.0"}, want: 0},
		{name: "newest patch", server: "v1.36.0", payloads: []string{"v1.36.10", "v1.36.9"}, want: 0},
		{name: "upgrade of a host", server: "v1.37.0", running: "v1.36.1", payloads: []string{"v1.36.1", "v1.37.2"}, want: 1},
		{
			name: "not moved back", server: "v1.36.9", running: "v1.37.2", payloads: []string{"v1.36.1", "v1.37.2"}, want: 1,
			warning: "the kubelet 1.37.2 of the host is newer than the API server 1.36.9, which is not supported, and is kept",
		},
		{name: "moved back on purpose", server: "v1.37.0", running: "v1.37.2", payloads: []string{"v1.35.0", "v1.36.1"}, want: 1},
		{
			name: "nothing to keep it with", server: "v1.36.9", running: "v1.36.1", payloads: []string{"v1.35.0", "v1.37.2"},
			refused: "the host has the kubelet 1.36.1, and the payloads that are not newer than the API server 1.36.9 have only older ones: add a payload for it, make payload KUBERNETES=1.36;",
		},
		{
			name: "all newer", server: "v1.35.3", running: "v1.35.0", payloads: []string{"v1.37.2", "v1.36.1"},
			refused: "the kubelets of all payloads, 1.36.1, 1.37.2, are newer than the API server 1.35.3, which is not supported: use a payload for it, make payload KUBERNETES=1.35",
		},
		{
			name: "older than any payload of this release", server: "v1.33.6", payloads: []string{"v1.37.2"},
			refused: "the kubelet 1.37.2 of the payload is newer than the API server 1.33.6, which is not supported: this release has payloads for Kubernetes 1.35 and newer: upgrade the cluster first",
		},
		{
			name: "nothing that old to keep it with", server: "v1.36.9", running: "v1.34.1", payloads: []string{"v1.33.0", "v1.37.2"},
			refused: "have only older ones: add a payload with a newer one, make payload KUBERNETES=1.35;",
		},
		{
			name: "nothing to keep it with, and an older API server", server: "v1.34.9", running: "v1.34.1", payloads: []string{"v1.33.0", "v1.37.2"},
			refused: "have only older ones: this release has payloads for Kubernetes 1.35 and newer: upgrade the cluster first;",
		},
		{name: "too old", server: "v1.37.0", payloads: []string{"v1.32.0", "v1.33.1"}, want: 1, warning: "more than 3 minor versions older"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := settings()
			s.Payloads, s.ServerVersion = sideBySide(tt.payloads...), serverVersion(t, tt.server)
			host := cluster.Host{Instance: instance()}
			if tt.running != "" {
				host.Node = &corev1.Node{Status: corev1.NodeStatus{NodeInfo: corev1.NodeSystemInfo{KubeletVersion: tt.running}}}
				host.Node.Name = "win-1"
			}
			snapshot, err := cluster.Read(t.Context(), newCluster(t, kubeadmCluster(), nil), s)
			if err == nil {
				_, err = snapshot.Build(host)
			}
			if wrong := (*cluster.InputError)(nil); err != nil && !errors.As(err, &wrong) || (err != nil) != (tt.refused != "") || err != nil && !strings.Contains(err.Error(), tt.refused) {
				t.Fatalf("got %v, want %q", err, tt.refused)
			}
			if err != nil {
				return
			}
			got := build(t, snapshot, host)
			for _, f := range got.Bundle.Document.Files {
				if want := "sha256:" + s.Payloads[tt.want].Files[0].SHA256; f.Source.Payload == "kubelet.exe" && f.Digest != want {
					t.Errorf("it gets the kubelet %s, want %s", f.Digest, want)
				}
			}
			told := slices.DeleteFunc(got.Warnings, isUntested) // which has its own test
			if text := strings.Join(told, ""); (text == "") != (tt.warning == "") || !strings.Contains(text, tt.warning) {
				t.Errorf("it is told %q, want %q", text, tt.warning)
			}
		})
	}
}

// A payload that lacks a program is a finding only for the hosts that would get it.
func TestLackingPayload(t *testing.T) {
	s := settings()
	s.Payloads, s.ServerVersion = sideBySide("v1.36.1", "v1.37.2"), serverVersion(t, "v1.36.9")
	s.Payloads[1].Files = append(s.Payloads[1].Files[:1], s.Payloads[1].Files[2:]...)
	snapshot := read(t, s, kubeadmCluster())
	build(t, snapshot, cluster.Host{Instance: instance()})
	newer := &corev1.Node{Status: corev1.NodeStatus{NodeInfo: corev1.NodeSystemInfo{KubeletVersion: "v1.37.2"}}}
	if _, err := snapshot.Build(cluster.Host{Instance: instance(), Node: newer}); err == nil || !strings.Contains(err.Error(), `has no C:\k\kube-proxy.exe`) {
		t.Errorf("got %v", err)
	}
}

func TestCheckPayloads(t *testing.T) {
	for _, tt := range []struct {
		versions []string
		want     string
	}{
		{[]string{""}, ""},
		{[]string{"v1.36.1", "v1.36.2"}, ""},
		{[]string{"v1.36.1", "v1.36.1"}, "a and b have the same one, v1.36.1"},
		{[]string{"v1.36.1", "v0.0.0"}, `the kubelet of b has the version "v0.0.0"`},
	} {
		err := cluster.CheckPayloads(sideBySide(tt.versions...), []string{"a", "b"})
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%q: got %v, want %q", tt.versions, err, tt.want)
		}
	}
}

// TestOldestPayload: the oldest payload that is said to be there is, and the guide names its version to those who install.
func TestOldestPayload(t *testing.T) {
	root := filepath.Join("..", "..", "..")
	modules, err := filepath.Glob(filepath.Join(root, "hack", "payload", "kubernetes-*", "go.mod"))
	if err != nil || len(modules) == 0 {
		t.Fatalf("the modules of payloads: %q, %v", modules, err)
	}
	var oldest *utilversion.Version
	for _, module := range modules {
		v := utilversion.MustParseGeneric(strings.TrimPrefix(filepath.Base(filepath.Dir(module)), "kubernetes-"))
		if oldest == nil || v.LessThan(oldest) {
			oldest = v
		}
	}
	s := settings()
	s.ServerVersion = serverVersion(t, "v1.20.0")
	_, err = cluster.Read(t.Context(), newCluster(t, kubeadmCluster(), nil), s)
	if want := "this release has payloads for Kubernetes " + oldest.String() + " and newer"; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want %q", err, want)
	}
	guide, err := os.ReadFile(filepath.Join(root, "docs", "user-guide.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, install, _ := strings.Cut(string(guide), "\n## Install\n")
	install, _, _ = strings.Cut(install, "\n## ")
	if want := "Kubernetes " + oldest.String() + " or newer"; strings.Count(install, want) != 2 {
		t.Errorf("the guide does not say %q where it installs on OpenShift, and elsewhere", want)
	}
}
