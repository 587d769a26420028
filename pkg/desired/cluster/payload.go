// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package cluster

import (
	"path"
	"strings"

	"github.com/openshift/windows-instance-api/pkg/desired/document"
	"github.com/openshift/windows-instance-api/pkg/desired/payload"
)

// payloadFiles returns what of a payload belongs on hosts. The agent gets there another
// way, before anything else does. Hosts join without kubeadm, which payloads of earlier releases have.
func payloadFiles(m *payload.Manifest) []document.PayloadFile {
	var files []document.PayloadFile
	for i := range m.Files {
		f := &m.Files[i]
		if f.Role == payload.RoleAgent || f.Role == payload.RoleKubeadm {
			continue
		}
		content := f.Effective()
		files = append(files, document.PayloadFile{
			Name: f.Name, Component: strings.TrimSuffix(f.Name, path.Ext(f.Name)), Version: f.Version,
			Path: f.Path, Size: content.Size, SHA256: content.SHA256,
		})
	}
	return files
}

// versionOf returns the version of the program with a role. Empty: it is not known.
func versionOf(m *payload.Manifest, role payload.Role) string {
	for _, f := range m.ByRole(role) {
		if f.Version != "" {
			return f.Version
		}
	}
	return ""
}
