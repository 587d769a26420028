// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package agentclient

import (
	"testing"

	"github.com/openshift/windows-instance-api/pkg/agent/api/config"
)

// A word of a secret that the document has openly, too, is none: hosts name files and services that are called so.
func TestWordsOfTheDocumentAreNoSecrets(t *testing.T) {
	bundle := &config.Bundle{
		Document: config.Document{Files: []config.File{{Path: `C:\k\azure-cloud-node-manager.exe`, Source: config.Source{Payload: "azure-cloud-node-manager.exe"}}}},
		Secrets:  config.Secrets{"kubeconfig": []byte(`{"users":[{"name":"cloud-node-manager","user":{"token":"abcdefghijklmnop"}}]}`)},
	}
	const says = `{"name":"azure-cloud-node-manager.exe","error":"[redacted]"}`
	if got := redactorOf(bundle).text(`{"name":"azure-cloud-node-manager.exe","error":"abcdefghijklmnop"}`); got != says {
		t.Errorf("got %s, want %s", got, says)
	}
}
