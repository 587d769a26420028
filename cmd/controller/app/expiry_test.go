// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package app

import (
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
)

func TestExporterExpiry(t *testing.T) {
	var at time.Time
	collector := exporterExpiry{func() time.Time { return at }}
	if n := testutil.CollectAndCount(collector); n != 0 {
		t.Errorf("without a certificate there are %d", n)
	}
	at = time.Unix(2_000_000_000, 0)
	const want = `# HELP windows_metrics_certificate_expiration_timestamp_seconds When the certificate expires that hosts serve metrics with, in seconds since 1970. It is not there where hosts serve none, or that is not known.
# TYPE windows_metrics_certificate_expiration_timestamp_seconds gauge
windows_metrics_certificate_expiration_timestamp_seconds 2e+09
`
	if err := testutil.CollectAndCompare(collector, strings.NewReader(want)); err != nil {
		t.Error(err)
	}
}
