// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

// Package metrics shows the connections to hosts among the metrics of a program. Only the
// programs import it.
package metrics

import (
	"maps"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/openshift/windows-instance-api/pkg/host/ssh"
)

// collector is a [prometheus.Collector] of the numbers of a pool.
type collector struct {
	stats   func() ssh.Stats
	metrics []metric
	failure *prometheus.Desc
}

// metric is one number of [ssh.Stats].
type metric struct {
	kind  prometheus.ValueType
	desc  *prometheus.Desc
	value func(*ssh.Stats) float64
}

// NewCollector shows the connections that stats is about, with names that begin with those
// of the program.
func NewCollector(program string, stats func() ssh.Stats) prometheus.Collector {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(program+"_ssh_"+name, help, labels, nil)
	}
	const gauge, counter = prometheus.GaugeValue, prometheus.CounterValue
	return &collector{
		stats: stats,
		metrics: []metric{
			{gauge, desc("connections", "SSH connections to hosts that are open."), func(s *ssh.Stats) float64 { return float64(s.Connections) }},
			{gauge, desc("idle_connections", "Open SSH connections without a session or a forwarded port."), func(s *ssh.Stats) float64 { return float64(s.Idle) }},
			{gauge, desc("sessions", "Sessions on open SSH connections."), func(s *ssh.Stats) float64 { return float64(s.Sessions) }},
			{gauge, desc("dials_in_flight", "SSH connections being made."), func(s *ssh.Stats) float64 { return float64(s.Dialing) }},
			{gauge, desc("waiting", "Callers that wait for a session."), func(s *ssh.Stats) float64 { return float64(s.Waiting) }},
			{counter, desc("dials_total", "SSH connections that were begun."), func(s *ssh.Stats) float64 { return float64(s.Dials) }},
			{counter, desc("connections_lost_total", "SSH connections that ended without our doing."), func(s *ssh.Stats) float64 { return float64(s.Lost) }},
		},
		failure: desc("dial_failures_total", "SSH connections that could not be made, by reason.", "reason"),
	}
}

// Describe implements [prometheus.Collector].
func (c *collector) Describe(out chan<- *prometheus.Desc) {
	for _, m := range c.metrics {
		out <- m.desc
	}
	out <- c.failure
}

// Collect implements [prometheus.Collector].
func (c *collector) Collect(out chan<- prometheus.Metric) {
	s := c.stats()
	for _, m := range c.metrics {
		out <- prometheus.MustNewConstMetric(m.desc, m.kind, m.value(&s))
	}
	failures := map[ssh.Reason]uint64{}
	for _, reason := range dialFailures {
		failures[reason] = 0 // one that begins with 1 has increased by nothing, as far as Prometheus knows
	}
	maps.Copy(failures, s.DialFailures)
	for reason, n := range failures {
		out <- prometheus.MustNewConstMetric(c.failure, prometheus.CounterValue, float64(n), string(reason))
	}
}

// dialFailures are the reasons for which connections are usually not made.
var dialFailures = []ssh.Reason{
	ssh.ReasonNameNotResolved, ssh.ReasonAddressRefused, ssh.ReasonAddressUndecided,
	ssh.ReasonConnectionRefused, ssh.ReasonConnectionTimedOut, ssh.ReasonHostUnreachable, ssh.ReasonConnectionReset,
	ssh.ReasonHandshakeTimedOut, ssh.ReasonNotSSH, ssh.ReasonHandshakeFailed, ssh.ReasonForwardRefused,
	ssh.ReasonHostKeyUnknown, ssh.ReasonHostKeyChanged, ssh.ReasonCredentialsRefused, ssh.ReasonTimedOut,
}
