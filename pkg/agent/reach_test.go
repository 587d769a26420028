// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package agent

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
	"github.com/openshift/windows-instance-api/pkg/agent/api/config"
)

// newTLSServer serves with handler, and returns what verifies it besides.
func newTLSServer(t *testing.T, handler http.HandlerFunc) (server *httptest.Server, ca string) {
	t.Helper()
	server = httptest.NewUnstartedServer(handler)
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	t.Cleanup(server.Close)
	return server, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))
}

// anotherAuthority is one that has issued nothing.
func anotherAuthority(t *testing.T) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "another"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}

// tunnel is a proxy that connects to wherever it is asked to.
func tunnel(t *testing.T) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		to, err := (&net.Dialer{}).DialContext(r.Context(), "tcp", r.Host)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		defer to.Close()
		from, buffered, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer from.Close()
		if _, err := io.WriteString(from, "HTTP/1.1 200 OK\r\n\r\n"); err != nil {
			return
		}
		back := make(chan struct{})
		go func() {
			defer close(back)
			_, _ = io.Copy(from, to)
			_ = from.Close()
		}()
		_, _ = io.Copy(to, buffered)
		_ = to.Close()
		<-back
	}
}

func TestReach(t *testing.T) {
	otherCA := anotherAuthority(t)
	server, ca := newTLSServer(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) })
	rude, rudeCA := newTLSServer(t, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	proxy := httptest.NewServer(tunnel(t))
	t.Cleanup(proxy.Close)
	closed := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) }))
	t.Cleanup(closed.Close)
	nobody, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	nowhere := nobody.Addr().String()
	if err := nobody.Close(); err != nil {
		t.Fatal(err)
	}
	_, port, err := net.SplitHostPort(server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	withPassword := func(address string) config.SecretValue {
		u, err := url.Parse(address)
		if err != nil {
			t.Fatal(err)
		}
		u.User = url.UserPassword("user", "s3cret")
		return config.SecretValue(u.String())
	}
	for _, tt := range []struct {
		name    string
		request api.ReachRequest
		failed  api.ReachLayer
		address string
		want    string // in the error
	}{
		{name: "it answers", request: api.ReachRequest{URL: server.URL, CA: ca}, address: server.Listener.Addr().String()},
		{name: "through a proxy", request: api.ReachRequest{URL: server.URL, CA: ca, Proxy: withPassword(proxy.URL)}, address: proxy.Listener.Addr().String()},
		{name: "no name", request: api.ReachRequest{URL: "https://api..example.com:6443", CA: ca}, failed: api.ReachDNS, address: "api..example.com:6443", want: "no such host"},
		{name: "nobody there", request: api.ReachRequest{URL: "https://" + nowhere, CA: ca}, failed: api.ReachConnect, address: nowhere, want: "refused"},
		{name: "another authority", request: api.ReachRequest{URL: server.URL, CA: otherCA}, failed: api.ReachTLS, address: server.Listener.Addr().String(), want: "unknown authority"},
		{name: "another name", request: api.ReachRequest{URL: "https://localhost:" + port, CA: ca}, failed: api.ReachTLS, address: server.Listener.Addr().String(), want: "not localhost"},
		{name: "no answer", request: api.ReachRequest{URL: rude.URL, CA: rudeCA}, failed: api.ReachHTTP, address: rude.Listener.Addr().String(), want: "EOF"},
		{name: "no proxy", request: api.ReachRequest{URL: server.URL, CA: ca, Proxy: withPassword("http://" + nowhere)}, failed: api.ReachConnect, address: nowhere, want: "refused"},
		{name: "a proxy that does not let it through", request: api.ReachRequest{URL: server.URL, CA: ca, Proxy: withPassword(closed.URL)}, failed: api.ReachProxy, address: closed.Listener.Addr().String(), want: "Forbidden"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			stdin, err := json.Marshal(tt.request)
			if err != nil {
				t.Fatal(err)
			}
			var stdout, stderr bytes.Buffer
			if code := Main(t.Context(), &fakeHost{}, []string{api.CommandReach}, bytes.NewReader(stdin), &stdout, &stderr); code != api.ExitOK {
				t.Fatalf("it ends with %d: %s", code, stderr.String())
			}
			var got api.ReachAnswer
			if err := json.Unmarshal(stdout.Bytes(), &got); err != nil {
				t.Fatal(err)
			}
			if got.Failed != tt.failed || got.Address != tt.address || !strings.Contains(got.Error, tt.want) || (got.Error == "") != (tt.failed == "") {
				t.Errorf("got %+v, want %s at %s: %s", got, tt.failed, tt.address, tt.want)
			}
			if strings.Contains(stdout.String(), "s3cret") {
				t.Errorf("the answer has the password: %s", stdout.String())
			}
		})
	}
}

func TestReachRefuses(t *testing.T) {
	otherCA := anotherAuthority(t)
	for name, request := range map[string]api.ReachRequest{
		"no URL": {CA: otherCA}, "not https": {URL: "http://127.0.0.1", CA: otherCA}, "no CA": {URL: "https://127.0.0.1"},
		"not a proxy": {URL: "https://127.0.0.1", CA: otherCA, Proxy: config.SecretValue("user:s3cret@:")},
	} {
		t.Run(name, func(t *testing.T) {
			stdin, err := json.Marshal(request)
			if err != nil {
				t.Fatal(err)
			}
			var stdout, stderr bytes.Buffer
			if code := Main(t.Context(), &fakeHost{}, []string{api.CommandReach}, bytes.NewReader(stdin), &stdout, &stderr); code != api.ExitFailed || strings.Contains(stderr.String(), "s3cret") {
				t.Errorf("it ends with %d: %s%s", code, stdout.String(), stderr.String())
			}
		})
	}
}
