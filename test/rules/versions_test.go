// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package rules

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

// TestVersionsOfKubernetes: the newest kubelet that hosts get is of the version of the API server that it is tested with.
func TestVersionsOfKubernetes(t *testing.T) {
	required := regexp.MustCompile(`(?m)^\s*k8s\.io/kubernetes (v\S+)`)
	versions := map[string]string{}
	for _, name := range []string{"test/controlplane/binaries/go.mod", "hack/payload/kubernetes/go.mod"} {
		content, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		match := required.FindSubmatch(content)
		if match == nil {
			t.Fatalf("%s does not require k8s.io/kubernetes", name)
		}
		versions[string(match[1])] = name
	}
	if len(versions) != 1 {
		t.Errorf("these modules have different versions of k8s.io/kubernetes: %v", versions)
	}
}
