// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package apiserver

import (
	"errors"
	"net/http"

	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	"k8s.io/apiserver/pkg/server/healthz"
)

// frontProxyReady is not ready until the authority is known that signs the certificate
// of kube-apiserver. A server reads it in the background, and treats every user as
// anonymous until then: their requests would get 403.
func frontProxyReady(ca dynamiccertificates.CAContentProvider) healthz.HealthChecker {
	return healthz.NamedCheck("front-proxy-ca", func(*http.Request) error {
		if _, known := ca.VerifyOptions(); !known {
			return errors.New("the certificate authority of the front proxy is not known yet")
		}
		return nil
	})
}
