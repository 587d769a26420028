// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package apiserver

import (
	"errors"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/authenticatorfactory"
	"k8s.io/apiserver/pkg/authentication/request/x509"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	"k8s.io/apiserver/pkg/server/healthz"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
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

// throughFrontProxy serves requests for the objects of the API group only if they come from
// kube-apiserver, or from this server itself. Whoever came here directly, with a token that is
// good, would pass by the audit log of the cluster and by its limits. A nil front proxy: nobody's do.
// It is asked after authentication and authorization, so that it tells nothing to those who have no rights.
func throughFrontProxy(frontProxy *authenticatorfactory.RequestHeaderConfig, handler http.Handler) http.Handler {
	isFrontProxy := func(*http.Request) bool { return false }
	if frontProxy != nil {
		anyUser := authenticator.RequestFunc(func(*http.Request) (*authenticator.Response, bool, error) { return nil, true, nil })
		certificate := x509.NewDynamicCAVerifier(frontProxy.CAContentProvider.VerifyOptions, anyUser, frontProxy.AllowedClientNames)
		isFrontProxy = func(r *http.Request) bool {
			_, ok, err := certificate.AuthenticateRequest(r)
			return ok && err == nil
		}
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		info, known := genericapirequest.RequestInfoFrom(r.Context())
		if known && info.IsResourceRequest && !isFrontProxy(r) && !isThisServer(r) {
			responsewriters.ErrorNegotiated(apierrors.NewForbidden(v1alpha1.Resource(info.Resource), info.Name,
				errors.New("windows-apiserver was asked directly; ask kube-apiserver, with kubectl or at the address of the cluster")),
				Codecs, v1alpha1.SchemeGroupVersion, w, r)
			return
		}
		handler.ServeHTTP(w, r)
	})
}

// isThisServer says whether a request is one that this server makes to itself. The token for that never
// leaves its memory.
func isThisServer(r *http.Request) bool {
	who, ok := genericapirequest.UserFrom(r.Context())
	return ok && who.GetName() == user.APIServerUser
}
