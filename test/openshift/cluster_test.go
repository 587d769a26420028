// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

//go:build linux

package openshift

import (
	"os"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/openshift/windows-instance-api/pkg/desired/cluster"
	"github.com/openshift/windows-instance-api/pkg/desired/payload"
	"github.com/openshift/windows-instance-api/test/controlplane"
	"github.com/openshift/windows-instance-api/test/standin"
)

// TestInstall: a real API server with OpenShift's own kinds takes what a cluster of each platform has, and
// what the product reads from it is complete.
func TestInstall(t *testing.T) {
	t.Parallel()
	cp, err := controlplane.Start(t.Context(), controlplane.Options{Logf: t.Logf})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cp.Stop(); err != nil {
			t.Error(err)
		}
	})
	crds, err := controlplane.OpenShiftCRDs(t.Context(), Resources...)
	if err != nil {
		t.Fatal(err)
	}
	if err := cp.InstallCRDs(t.Context(), crds...); err != nil {
		t.Fatal(err)
	}
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, cluster.AddToScheme, AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	c, err := client.New(cp.AdminConfig(), client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	ca, err := os.ReadFile(cp.CAFile())
	if err != nil {
		t.Fatal(err)
	}
	settings := cluster.Settings{Namespace: "openshift-windows-machine-config-operator", AgentPath: `C:\Windows\windows-node-agent\windows-node-agent-0123456789abcdef.exe`, Payloads: []*payload.Manifest{manifest(t)}}
	if err := c.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: settings.Namespace}}); err != nil {
		t.Fatal(err)
	}
	if err := cluster.EnsureDigestKey(t.Context(), c, settings.Namespace); err != nil {
		t.Fatal(err)
	}
	for _, platform := range Platforms {
		t.Run(string(platform), func(t *testing.T) {
			o := Cluster{Platform: platform, APIServerURL: "https://api-int.demo.example.com:6443", APIServerCA: ca, ClientCA: ca, ServiceNetwork: "172.30.0.0/16", DNS: "172.30.0.10"}
			if err := o.Install(t.Context(), c); err != nil {
				t.Fatal(err)
			}
			// The payload of the tests has no program of a cloud.
			if _, err := cluster.Read(t.Context(), c, settings); err != nil {
				t.Errorf("what hosts are configured with: %v", err)
			}
			objects, err := o.Objects()
			if err != nil {
				t.Fatal(err)
			}
			for _, object := range objects {
				if err := client.IgnoreNotFound(c.Delete(t.Context(), object)); err != nil { // a token goes with its account
					t.Error(err)
				}
			}
		})
	}
}

// manifest is that of a payload with what hosts of all platforms need.
func manifest(t *testing.T) *payload.Manifest {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "payload")
	if err := standin.WritePayload(t.Context(), dir, standin.PayloadOptions{Overlay: true}); err != nil {
		t.Fatal(err)
	}
	p, err := payload.Open(t.Context(), dir, payload.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return &p.Manifest
}
