// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package cluster

import (
	"errors"
	"fmt"
	"path"
	"strings"

	utilversion "k8s.io/apimachinery/pkg/util/version"

	"github.com/openshift/windows-instance-api/pkg/desired/document"
	"github.com/openshift/windows-instance-api/pkg/desired/payload"
)

// candidate is a payload that hosts may get.
type candidate struct {
	// kubelet is the version of its kubelet. Nil: it is not known, and the payload is the only one.
	kubelet *utilversion.Version
	payload document.Payload
	// provider: it has what gets credentials of registries on the platform.
	provider bool
	// missing are the programs that hosts cannot do without, warnings what they lack all the same.
	missing, warnings []string
}

// candidates are the payloads of the settings, by the versions of their kubelets.
func (r *reader) candidates() []candidate {
	var all []candidate
	for _, m := range r.settings.Payloads {
		c := candidate{kubelet: release(versionOf(m, payload.RoleKubelet)), payload: document.Payload{Files: payloadFiles(m)}}
		c.provider, c.missing = c.payload.CredentialProvider(r.cluster.Platform), c.payload.Missing(r.cluster.Platform)
		if r.openShift {
			c.warnings = c.payload.Without(r.cluster.Platform)
		}
		all = append(all, c)
	}
	sortCandidates(all)
	return all
}

// lacking is the finding about programs that a payload does not have. Nil: it has all.
func (c *candidate) lacking() []Finding {
	if len(c.missing) == 0 {
		return nil
	}
	return []Finding{{Problem: "the payload has no " + strings.Join(c.missing, ", no "), Remedy: "set --payload to one that has them"}}
}

// kubelets are the versions of the kubelets.
func kubelets(all []candidate) []*utilversion.Version {
	versions := make([]*utilversion.Version, len(all))
	for i := range all {
		versions[i] = all[i].kubelet
	}
	return versions
}

// ErrUndistinguished is wrapped by errors about payloads of which none can be chosen.
var ErrUndistinguished = errors.New("payloads are chosen by the versions of their kubelets")

// CheckPayloads returns an error if payloads cannot be distinguished. names are for the error.
func CheckPayloads(manifests []*payload.Manifest, names []string) error {
	if len(manifests) < 2 {
		return nil
	}
	known := map[string]string{}
	for i, m := range manifests {
		text := versionOf(m, payload.RoleKubelet)
		if release(text) == nil {
			return fmt.Errorf("%w, and the kubelet of %s has the version %q: build it again, or give it a directory of its own", ErrUndistinguished, names[i], text)
		}
		if other, ok := known[text]; ok {
			return fmt.Errorf("%w, and %s and %s have the same one, %s: remove one of them", ErrUndistinguished, other, names[i], text)
		}
		known[text] = names[i]
	}
	return nil
}

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
