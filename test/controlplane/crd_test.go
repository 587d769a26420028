// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

//go:build linux

package controlplane

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// writeFiles writes empty or given files below a new directory.
func writeFiles(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestOpenShiftCRD(t *testing.T) {
	const machine, config = "machine/v1beta1/zz_generated.crd-manifests/", "config/v1/zz_generated.crd-manifests/"
	dir := writeFiles(t, map[string]string{
		machine + "0000_10_machine-api_01_machines-CustomNoUpgrade.crd.yaml":                    "",
		machine + "0000_10_machine-api_01_machines-Default.crd.yaml":                            "",
		machine + "0000_10_machine-api_01_machinesets-Default.crd.yaml":                         "",
		config + "0000_10_config-operator_01_imagetagmirrorsets.crd.yaml":                       "",
		config + "0000_10_config-operator_01_schedulers-SelfManagedHA-Default.crd.yaml":         "",
		config + "0000_10_config-operator_01_schedulers-Hypershift.crd.yaml":                    "",
		config + "0000_10_config-operator_01_things.crd.yaml":                                   "",
		"config/v1alpha1/zz_generated.crd-manifests/0000_10_config-operator_01_things.crd.yaml": "",
	})
	tests := []struct {
		name     string
		resource string
		want     string // the file, or part of the error
	}{
		{name: "of several variants the default", resource: "machines.machine.openshift.io", want: machine + "0000_10_machine-api_01_machines-Default.crd.yaml"},
		{name: "no variants", resource: "imagetagmirrorsets.config.openshift.io", want: config + "0000_10_config-operator_01_imagetagmirrorsets.crd.yaml"},
		{name: "by cluster profile", resource: "schedulers.config.openshift.io", want: config + "0000_10_config-operator_01_schedulers-SelfManagedHA-Default.crd.yaml"},
		{name: "unknown", resource: "machine.machine.openshift.io", want: "no manifest for machine.machine"},
		{name: "in two versions", resource: "things.config.openshift.io", want: "ambiguous"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got, err := openshiftCRD(dir, test.resource)
			if err != nil {
				got = err.Error()
			}
			if !strings.Contains(got, test.want) {
				t.Errorf("openshiftCRD() = %v, want %v", got, test.want)
			}
		})
	}
}

func TestReadCRDs(t *testing.T) {
	const crd = "kind: CustomResourceDefinition\nmetadata: {name: %}\n"
	named := func(name string) string { return strings.ReplaceAll(crd, "%", name) }
	dir := writeFiles(t, map[string]string{
		"crds/a.yaml":     "# a comment\n---\n" + named("a") + "---\n" + named("b"),
		"crds/c.yaml":     named("c"),
		"crds/README.md":  "not YAML",
		"none/.keep":      "",
		"other/role.yaml": "kind: Role\n",
		"bad/bad.yaml":    "kind: [",
	})
	tests := []struct {
		name    string
		paths   []string
		want    []string
		wantErr string
	}{
		{name: "directory", paths: []string{"crds"}, want: []string{"a", "b", "c"}},
		{name: "file", paths: []string{"crds/c.yaml"}, want: []string{"c"}},
		{name: "nothing there", paths: []string{"none"}, wantErr: "there are none in"},
		{name: "missing", paths: []string{"nowhere"}, wantErr: "no such file"},
		{name: "another kind", paths: []string{"other"}, wantErr: "has a Role"},
		{name: "no YAML", paths: []string{"bad"}, wantErr: "bad.yaml"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var paths []string
			for _, path := range test.paths {
				paths = append(paths, filepath.Join(dir, path))
			}
			crds, err := readCRDs(paths)
			if test.wantErr != "" {
				if err == nil || !strings.Contains(err.Error(), test.wantErr) {
					t.Errorf("readCRDs() = %v, want an error with %q", err, test.wantErr)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, crd := range crds {
				got = append(got, crd.GetName())
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("readCRDs() (-want +got):\n%s", diff)
			}
		})
	}
}
