// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package app

import (
	"crypto/tls"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
)

// newExpiry is the metric that says when the certificate which is served expires: one that nobody
// renews ends the API.
func newExpiry(served dynamiccertificates.CertKeyContentProvider) prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "windows_apiserver_serving_certificate_expiration_timestamp_seconds",
		Help: "When the serving certificate expires, in seconds since 1970; 0 if there is none.",
	}, func() float64 {
		pair, err := tls.X509KeyPair(served.CurrentCertKeyContent())
		if err != nil {
			return 0
		}
		return float64(pair.Leaf.NotAfter.Unix())
	})
}
