// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package app

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

var exporterExpiryDesc = prometheus.NewDesc("windows_metrics_certificate_expiration_timestamp_seconds",
	"When the certificate expires that hosts serve metrics with, in seconds since 1970. It is not there where hosts serve none, or that is not known.", nil, nil)

// exporterExpiry says, when it is asked, until when hosts can be watched: nobody verifies a certificate that has expired.
type exporterExpiry struct{ expires func() time.Time }

// Describe implements prometheus.Collector.
func (exporterExpiry) Describe(to chan<- *prometheus.Desc) { to <- exporterExpiryDesc }

// Collect implements prometheus.Collector.
func (e exporterExpiry) Collect(to chan<- prometheus.Metric) {
	if at := e.expires(); !at.IsZero() {
		to <- prometheus.MustNewConstMetric(exporterExpiryDesc, prometheus.GaugeValue, float64(at.Unix()))
	}
}
