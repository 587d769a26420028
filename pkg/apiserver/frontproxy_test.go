// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package apiserver

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"math/big"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"k8s.io/apiserver/pkg/authentication/authenticatorfactory"
	"k8s.io/apiserver/pkg/authentication/request/headerrequest"
	"k8s.io/apiserver/pkg/authentication/user"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
)

// knownCA is an authority that is known or not yet.
type knownCA struct {
	dynamiccertificates.CAContentProvider
	known bool
	roots *x509.CertPool
}

func (k knownCA) VerifyOptions() (x509.VerifyOptions, bool) {
	return x509.VerifyOptions{Roots: k.roots, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}, k.known
}

func TestFrontProxyReady(t *testing.T) {
	for _, known := range []bool{false, true} {
		if err := frontProxyReady(knownCA{known: known}).Check(nil); (err == nil) != known {
			t.Errorf("with an authority that is known (%v): %v", known, err)
		}
	}
}

// selfSigned returns a certificate of a client that is its own authority.
func selfSigned(t *testing.T, name string) *x509.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotAfter: time.Now().Add(time.Hour),
		KeyUsage: x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}, IsCA: true, BasicConstraintsValid: true,
	}
	raw, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := x509.ParseCertificate(raw)
	if err != nil {
		t.Fatal(err)
	}
	return certificate
}

// TestThroughFrontProxy: with a good token, nobody passes by the audit log of kube-apiserver.
func TestThroughFrontProxy(t *testing.T) {
	proxy, otherName, otherAuthority := selfSigned(t, "front-proxy-client"), selfSigned(t, "kubelet"), selfSigned(t, "front-proxy-client")
	roots := x509.NewCertPool()
	roots.AddCert(proxy)
	roots.AddCert(otherName)
	frontProxy := func(known bool) *authenticatorfactory.RequestHeaderConfig {
		return &authenticatorfactory.RequestHeaderConfig{
			CAContentProvider:  knownCA{known: known, roots: roots},
			AllowedClientNames: headerrequest.StaticStringSlice{"front-proxy-client"},
		}
	}
	objects := &genericapirequest.RequestInfo{IsResourceRequest: true, Verb: "create", Resource: "windowsinstances", Subresource: "exec", Name: "win-1"}
	for _, tt := range []struct {
		name        string
		frontProxy  *authenticatorfactory.RequestHeaderConfig
		certificate *x509.Certificate
		user        string
		info        *genericapirequest.RequestInfo
		want        int
	}{
		{"kube-apiserver", frontProxy(true), proxy, "alice", objects, http.StatusOK},
		{"a token", frontProxy(true), nil, "alice", objects, http.StatusForbidden},
		{"another client of the same authority", frontProxy(true), otherName, "alice", objects, http.StatusForbidden},
		{"a client of another authority", frontProxy(true), otherAuthority, "alice", objects, http.StatusForbidden},
		{"before the authority is known", frontProxy(false), proxy, "alice", objects, http.StatusForbidden},
		{"without a front proxy", nil, proxy, "alice", objects, http.StatusForbidden},
		{"this server", frontProxy(true), nil, user.APIServerUser, objects, http.StatusOK},
		{"metrics", frontProxy(true), nil, "prometheus", &genericapirequest.RequestInfo{Path: "/metrics"}, http.StatusOK},
	} {
		t.Run(tt.name, func(t *testing.T) {
			request := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/apis/windows.openshift.io/v1alpha1", nil)
			request.TLS = &tls.ConnectionState{}
			if tt.certificate != nil {
				request.TLS.PeerCertificates = []*x509.Certificate{tt.certificate}
			}
			ctx := genericapirequest.WithUser(genericapirequest.WithRequestInfo(t.Context(), tt.info), &user.DefaultInfo{Name: tt.user})
			answer := httptest.NewRecorder()
			throughFrontProxy(tt.frontProxy, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})).ServeHTTP(answer, request.WithContext(ctx))
			if answer.Code != tt.want {
				t.Errorf("got %d %s", answer.Code, answer.Body)
			}
			if answer.Code == http.StatusForbidden && !strings.Contains(answer.Body.String(), "ask kube-apiserver") {
				t.Errorf("the answer does not say what to do: %s", answer.Body)
			}
		})
	}
}
