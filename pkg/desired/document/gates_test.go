// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package document_test

import (
	"slices"
	"testing"

	configv1 "github.com/openshift/api/config/v1"
	"sigs.k8s.io/yaml"

	"github.com/openshift/windows-instance-api/pkg/agent/api/config"
	"github.com/openshift/windows-instance-api/pkg/desired/document"
	"github.com/openshift/windows-instance-api/pkg/wmco"
)

// TestFeatureGates: programs get no gates that they may no longer know, with which they would not start; hosts with programs of today
// keep their configuration.
func TestFeatureGates(t *testing.T) {
	for version, want := range map[string]bool{
		"": true, "unknown": true, "v1.34.1": true, "v1.37.2": true, "v1.37.2+2a9dcc9": true,
		"v1.38.0-alpha.1": false, "v1.38.0": false, "v1.38.4+0a1b2c3": false, "v1.40.0": false, "v2.0.0": false,
	} {
		in := inputs(configv1.NonePlatformType)
		for _, path := range []string{`C:\k\kubelet.exe`, `C:\k\kube-proxy.exe`} {
			i := slices.IndexFunc(in.Payload.Files, func(f document.PayloadFile) bool { return f.Path == path })
			in.Payload.Files[i].Component, in.Payload.Files[i].Version = "", version
		}
		files := build(t, in).Bundle.Document.Files
		for path, gates := range map[string][]string{
			wmco.KubeletConfigPath: {"NodeLogQuery", "RotateKubeletServerCertificate"}, wmco.KubeProxyConfigPath: {"WinDSR", "WinOverlay"},
		} {
			f := files[slices.IndexFunc(files, func(f config.File) bool { return f.Path == path })]
			var got struct{ FeatureGates map[string]bool }
			if err := yaml.Unmarshal([]byte(*f.Source.Text), &got); err != nil {
				t.Fatal(err)
			}
			if !want && got.FeatureGates != nil {
				t.Errorf("%s for version %q has gates %v", path, version, got.FeatureGates)
			}
			if want && (len(got.FeatureGates) != len(gates) || !got.FeatureGates[gates[0]] || !got.FeatureGates[gates[1]]) {
				t.Errorf("%s for version %q has gates %v, want %v", path, version, got.FeatureGates, gates)
			}
		}
	}
}
