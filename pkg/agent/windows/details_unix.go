// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

//go:build unix

package windows

import (
	"context"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
	"github.com/openshift/windows-instance-api/pkg/agent/facts"
)

// certificateFiles are where a kubelet keeps its certificates.
var certificateFiles = []string{"/var/lib/kubelet/pki/*-current.pem", "/var/lib/kubelet/pki/*.crt"}

// Details implements [agent.Host].
func (h *Host) Details(_ context.Context, f *api.Facts) {
	facts.Certificates(f, certificateFiles)
}
