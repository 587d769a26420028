// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package document_test

import (
	"bytes"
	"fmt"
	"testing"

	configv1 "github.com/openshift/api/config/v1"

	"github.com/openshift/windows-instance-api/pkg/desired/document"
)

// authoritiesOfProxy is about how many the network operator of OpenShift writes for a cluster with a proxy.
const authoritiesOfProxy = 140

// trusting are the inputs of a host that trusts a number of authorities, which were read once for all hosts.
func trusting(t testing.TB, count int) document.Inputs {
	t.Helper()
	var bundle bytes.Buffer
	for n := range count {
		bundle.Write(authority(t, fmt.Sprintf("authority %d", n)))
	}
	in := inputs(configv1.AWSPlatformType)
	in.Cluster.TrustedCA = bundle.Bytes()
	if damaged := in.Cluster.Parse(); len(damaged) > 0 {
		t.Fatal(damaged)
	}
	return in
}

// BenchmarkBuild builds the document of one host, without and with the authorities of a proxy.
func BenchmarkBuild(b *testing.B) {
	for _, count := range []int{0, authoritiesOfProxy} {
		b.Run(fmt.Sprintf("authorities=%d", count), func(b *testing.B) {
			in := trusting(b, count)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := document.Build(in); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// TestAuthoritiesAreReadOnce: the document of each host is built whenever it is looked at, so that it does not read again what was read for
// all of them.
func TestAuthoritiesAreReadOnce(t *testing.T) {
	allocations := func(in document.Inputs) float64 {
		return testing.AllocsPerRun(5, func() {
			if _, err := document.Build(in); err != nil {
				t.Error(err)
			}
		})
	}
	without, with := allocations(trusting(t, 0)), allocations(trusting(t, authoritiesOfProxy))
	if each := (with - without) / authoritiesOfProxy; each > 5 {
		t.Errorf("each authority costs %.0f allocations", each)
	}
}
