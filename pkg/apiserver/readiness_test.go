// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package apiserver

import (
	"crypto/x509"
	"testing"

	"k8s.io/apiserver/pkg/server/dynamiccertificates"
)

// knownCA is an authority that is known or not yet.
type knownCA struct {
	dynamiccertificates.CAContentProvider
	known bool
}

func (k knownCA) VerifyOptions() (x509.VerifyOptions, bool) { return x509.VerifyOptions{}, k.known }

func TestFrontProxyReady(t *testing.T) {
	for _, known := range []bool{false, true} {
		if err := frontProxyReady(knownCA{known: known}).Check(nil); (err == nil) != known {
			t.Errorf("with an authority that is known (%v): %v", known, err)
		}
	}
}
