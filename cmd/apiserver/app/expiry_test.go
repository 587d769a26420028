// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package app

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	"k8s.io/client-go/util/cert"
)

func TestExpiry(t *testing.T) {
	const validity = 48 * time.Hour
	certificate, key, err := cert.GenerateSelfSignedCertKeyWithOptions(cert.SelfSignedCertKeyOptions{Host: "windows-apiserver", MaxAge: validity})
	if err != nil {
		t.Fatal(err)
	}
	served, err := dynamiccertificates.NewStaticCertKeyContent("test", certificate, key)
	if err != nil {
		t.Fatal(err)
	}
	if left := time.Until(time.Unix(int64(testutil.ToFloat64(newExpiry(served))), 0)); left <= 0 || left > validity {
		t.Errorf("it expires in %s", left)
	}
}
