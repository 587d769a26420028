// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package facts

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
)

// newCertificate returns a certificate and its key as PEM.
func newCertificate(t *testing.T, name string, notAfter time.Time) (certificate, key []byte) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name, Organization: []string{"system:nodes"}}, NotBefore: notAfter.Add(-time.Hour), NotAfter: notAfter}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalECPrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: secret})
}

func TestCollectCertificates(t *testing.T) {
	dir := t.TempDir()
	end := time.Date(2027, 1, 2, 3, 4, 5, 0, time.UTC)
	first, key := newCertificate(t, "system:node:win-1", end)
	second, _ := newCertificate(t, "ca", end.Add(time.Hour))
	for name, content := range map[string]string{
		"kubelet-client-current.pem":             string(first) + string(key),
		"kubelet-client-2026-01-01-00-00-00.pem": string(first),
		"bundle.crt":                             "a comment\n" + string(first) + string(second),
		"broken.crt":                             "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
		"key.crt":                                string(key),
		"text.crt":                               "no certificate at all",
		"many.crt":                               strings.Repeat(string(first), maxCertificatesEach+1),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var f api.Facts
	Certificates(&f, []string{filepath.Join(dir, "*-current.pem"), filepath.Join(dir, "[bkt]*.crt"), filepath.Join(dir, "missing", "*.crt")})

	certificate := func(file, name string, notAfter time.Time) api.Certificate {
		subject := "CN=" + name + ",O=system:nodes"
		return api.Certificate{Path: filepath.Join(dir, file), Subject: subject, Issuer: subject, NotBefore: notAfter.Add(-time.Hour), NotAfter: notAfter}
	}
	if name := f.Certificates[0].NotBefore.Sub(end); name != -time.Hour {
		t.Errorf("valid from %s", f.Certificates[0].NotBefore)
	}
	want := []api.Certificate{
		certificate("kubelet-client-current.pem", "system:node:win-1", end),
		certificate("bundle.crt", "system:node:win-1", end),
		certificate("bundle.crt", "ca", end.Add(time.Hour)),
	}
	if diff := cmp.Diff(want, f.Certificates); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	var failed []string
	for _, e := range f.Errors {
		failed = append(failed, filepath.Base(e.Area))
	}
	if diff := cmp.Diff([]string{"broken.crt", "text.crt"}, failed); diff != "" {
		t.Errorf("errors (-want +got):\n%s", diff)
	}
	answer, err := json.Marshal(f)
	if err != nil {
		t.Fatal(err)
	}
	if block, _ := pem.Decode(key); strings.Contains(string(answer), string(key)) || strings.Contains(string(answer), string(block.Bytes)) {
		t.Error("the answer has the key")
	}

	f = api.Facts{}
	Certificates(&f, []string{filepath.Join(dir, "many.crt")})
	if len(f.Certificates) != maxCertificatesEach || len(f.Errors) != 1 {
		t.Errorf("got %d certificates and %v", len(f.Certificates), f.Errors)
	}
}
