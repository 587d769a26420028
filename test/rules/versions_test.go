// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package rules

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

// TestVersionsOfKubernetes: the newest kubelet that hosts get is of the version of the API server that it is tested with, and what is generated
// of the libraries that it is compiled with.
func TestVersionsOfKubernetes(t *testing.T) {
	for what, modules := range map[string]map[string]string{
		"programs":  {"test/controlplane/binaries/go.mod": "kubernetes", "hack/payload/kubernetes/go.mod": "kubernetes"},
		"libraries": {"go.mod": "api", "hack/tools/go.mod": "code-generator"},
	} {
		versions := map[string]string{}
		for file, module := range modules {
			content, err := os.ReadFile(filepath.Join(root, file))
			if err != nil {
				t.Fatal(err)
			}
			match := regexp.MustCompile(`(?m)^\s*k8s\.io/` + module + ` (v\S+)`).FindSubmatch(content)
			if match == nil {
				t.Fatalf("%s does not require k8s.io/%s", file, module)
			}
			versions[string(match[1])] = file
		}
		if len(versions) != 1 {
			t.Errorf("the %s of Kubernetes have different versions: %v", what, versions)
		}
	}
}
