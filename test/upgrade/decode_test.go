// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

//go:build linux

package upgrade

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/openshift/windows-instance-api/pkg/agent/api/config"
	"github.com/openshift/windows-instance-api/pkg/agent/engine"
	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/test/agenthost"
)

// TestDecode has the agent of this tree read the state that agents of each release have
// written.
func TestDecode(t *testing.T) {
	clusters, err := filepath.Glob("testdata/v*")
	if err != nil || len(clusters) == 0 {
		t.Fatalf("there is no fixture: %v", err)
	}
	for _, dir := range clusters {
		f, err := readFixture(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, host := range f.Hosts {
			t.Run(filepath.Base(dir)+"/"+host.Name, func(t *testing.T) { decodeHost(t, f, host.Name) })
		}
	}
}

func decodeHost(t *testing.T, f *fixture, name string) {
	dir := t.TempDir()
	if err := f.restoreHost(name, dir); err != nil {
		t.Fatal(err)
	}
	var instance v1alpha1.WindowsInstance
	stored, err := f.read(objectsDir, "registry/windows.openshift.io/windows.openshift.io", instancesPrefix, name+".yaml")
	if err == nil {
		err = yaml.Unmarshal(stored, &instance)
	}
	if err != nil {
		t.Fatal(err)
	}
	state, err := engine.ReadState(t.Context(), agenthost.NewSystem(filepath.Join(dir, "drive_c"), func() (string, error) { return "boot", nil }), time.Now())
	if err != nil {
		t.Fatal(err)
	}
	current := instance.Status.CurrentRevision
	if name == hostWatched { // its instance has the digest of the agent
		current = ""
	}
	if state.AppliedRevision != current {
		t.Errorf("the host has applied revision %q, and its instance has %q", state.AppliedRevision, current)
	}
	if applying := state.ApplyingRevision != ""; applying != (name == hostHalf) {
		t.Errorf("the host is applying revision %q", state.ApplyingRevision)
	}
	if current == "" {
		return
	}
	applied, err := os.ReadFile(filepath.Join(dir, `drive_c/Windows/windows-node-agent/state/applied.json`))
	if err != nil {
		t.Fatal(err)
	}
	bundle, err := config.Decode(strings.NewReader(string(applied)))
	if err != nil {
		t.Fatal(err)
	}
	if revision, err := bundle.Document.Revision(); err != nil || revision != current {
		t.Errorf("the document has revision %q, want %q: %v", revision, current, err)
	}
}
