// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package csr

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	policy "github.com/openshift/windows-instance-api/pkg/controller/csr/policy"
)

// metrics counts decisions, each request once for each of them.
type metrics struct {
	total *prometheus.CounterVec
}

func newMetrics() *metrics {
	return &metrics{total: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "windows_instance_certificate_requests_total",
		Help: "Certificate signing requests of hosts, by kind (KubeletClient, KubeletServing), by what was decided (Approve; Refuse, which leaves them pending) and why.",
	}, []string{"kind", "decision", "reason"})}
}

func (m *metrics) register(to prometheus.Registerer) error {
	if err := to.Register(m.total); err != nil {
		return fmt.Errorf("registering the metrics of the CSR controller: %w", err)
	}
	return nil
}

func (m *metrics) decided(d policy.Decision) {
	m.total.WithLabelValues(string(d.Kind), string(d.Verdict), string(d.Reason)).Inc()
}
