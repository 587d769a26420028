// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package document

import (
	"github.com/openshift/windows-instance-api/pkg/agent/api"
	"github.com/openshift/windows-instance-api/pkg/wmco"
)

// Adoption is the request to adopt a host that WMCO has made the Node of that name, with that version. Empty: the Node does not say it.
func (r *Result) Adoption(node, version string) *api.AdoptRequest {
	return &api.AdoptRequest{Bundle: r.Bundle, Adoption: api.Adoption{
		Revision: wmco.AdoptedRevision(version), NodeName: node, Manager: wmco.WICDService, NetworkService: wmco.HybridOverlayService,
		Requires: []api.RequiredService{{Name: wmco.ContainerdService}, {Name: wmco.KubeletService, Contains: wmco.KubeletKeeps()}},
		Services: wmco.Services(), Files: wmco.Files(), Directories: wmco.Directories(), Trees: wmco.Trees(), Whole: wmco.DaemonDirectories(),
		Environment: ProxyVariables(), Imported: wmco.ImportedCertificatesPath,
	}}
}
