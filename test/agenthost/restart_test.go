// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package agenthost

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
)

func TestRequestRestart(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "restart")
	for range 2 { // asking again is harmless
		if err := requestRestart(file, api.RestartRequest{BootID: "one", Reason: "a test", Force: true}); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(file); err != nil || string(got) != `{"bootID":"one","reason":"a test","force":true}`+"\n" {
		t.Errorf("the request is %q, %v", got, err)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
		t.Errorf("something is left beside the request: %v, %v", entries, err)
	}
	if err := requestRestart(filepath.Join(dir, "missing", "restart"), api.RestartRequest{}); err == nil {
		t.Error("a machine that nobody restarts on request is no error")
	}
}
