// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

// Package metrics shows the connections to hosts among the metrics of a program. Only the
// programs import it.
package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/openshift/windows-instance-api/pkg/host/ssh"
)

// collector is a [prometheus.Collector] of the numbers of a pool.
type collector struct {
	stats   func() ssh.Stats
	gauges  []metric[int]
	counts  []metric[uint64]
	failure *prometheus.Desc
}

// metric is one number of [ssh.Stats].
type metric[T int | uint64] struct {
	desc  *prometheus.Desc
	value func(*ssh.Stats) T
}

// NewCollector shows the connections that stats is about, with names that begin with those
// of the program.
func NewCollector(program string, stats func() ssh.Stats) prometheus.Collector {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(program+"_ssh_"+name, help, labels, nil)
	}
	return &collector{
		stats: stats,
		gauges: []metric[int]{
			{desc("connections", "SSH connections to hosts that are open."), func(s *ssh.Stats) int { return s.Connections }},
			{desc("idle_connections", "Those of them that nothing uses."), func(s *ssh.Stats) int { return s.Idle }},
			{desc("sessions", "Sessions on these connections."), func(s *ssh.Stats) int { return s.Sessions }},
			{desc("dials_in_flight", "SSH connections being made."), func(s *ssh.Stats) int { return s.Dialing }},
			{desc("waiting", "Callers that wait for a session."), func(s *ssh.Stats) int { return s.Waiting }},
		},
		counts: []metric[uint64]{
			{desc("dials_total", "SSH connections that were begun."), func(s *ssh.Stats) uint64 { return s.Dials }},
			{desc("connections_lost_total", "SSH connections that ended without our doing."), func(s *ssh.Stats) uint64 { return s.Lost }},
		},
		failure: desc("dial_failures_total", "SSH connections that could not be made, by reason.", "reason"),
	}
}

// Describe implements [prometheus.Collector].
func (c *collector) Describe(out chan<- *prometheus.Desc) {
	for _, g := range c.gauges {
		out <- g.desc
	}
	for _, n := range c.counts {
		out <- n.desc
	}
	out <- c.failure
}

// Collect implements [prometheus.Collector].
func (c *collector) Collect(out chan<- prometheus.Metric) {
	s := c.stats()
	for _, g := range c.gauges {
		out <- prometheus.MustNewConstMetric(g.desc, prometheus.GaugeValue, float64(g.value(&s)))
	}
	for _, n := range c.counts {
		out <- prometheus.MustNewConstMetric(n.desc, prometheus.CounterValue, float64(n.value(&s)))
	}
	for reason, n := range s.DialFailures {
		out <- prometheus.MustNewConstMetric(c.failure, prometheus.CounterValue, float64(n), string(reason))
	}
}
