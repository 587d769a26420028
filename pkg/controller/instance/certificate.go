// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package instance

import (
	"slices"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
	"github.com/openshift/windows-instance-api/pkg/controller/internal/object"
	"github.com/openshift/windows-instance-api/pkg/host/diagnose/preflight"
)

// cannotReport says why the kubelet of a configured host cannot speak for its Node until it
// joins the cluster again, empty if it can, or nothing is known.
func (e *evaluation) cannotReport() string {
	if e.observation == nil || e.observation.report == nil {
		return ""
	}
	report := e.observation.report
	certificate := report.configuration.KubeletCertificate
	if !certificate.Useless() || object.KubeletReports(e.node) {
		return ""
	}
	text := "The host has to join the cluster again, which the controller has it do: " + certificate.String() + "."
	if certificate.Problem == api.CertificateExpired && slices.ContainsFunc(report.findings, func(f preflight.Finding) bool { return f.Code == preflight.ClockSkew }) {
		text += " That clock is wrong, see condition PreflightPassed: set it right first."
	}
	return text
}
