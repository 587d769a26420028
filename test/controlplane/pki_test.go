// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

//go:build linux

package controlplane

import (
	"crypto/tls"
	"crypto/x509"
	"io/fs"
	"os"
	"testing"
)

func TestAuthorityIssue(t *testing.T) {
	ca, err := newAuthority(t.TempDir(), "ca", "test-ca")
	if err != nil {
		t.Fatal(err)
	}
	other, err := newAuthority(t.TempDir(), "ca", "other-ca")
	if err != nil {
		t.Fatal(err)
	}
	pair, err := ca.issueFiles("server", leaf{commonName: "server", usage: serverAuth, hosts: []string{"api.windows.svc", "127.96.0.2"}})
	if err != nil {
		t.Fatal(err)
	}
	loaded, err := tls.LoadX509KeyPair(pair.CertFile, pair.KeyFile)
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{pair.KeyFile, ca.keyFile()} {
		info, err := os.Stat(file)
		if err != nil {
			t.Fatal(err)
		}
		if got, want := info.Mode().Perm(), fs.FileMode(0o600); got != want {
			t.Errorf("%s has mode %v, want %v", file, got, want)
		}
	}

	tests := []struct {
		name  string
		ca    *authority
		host  string
		usage x509.ExtKeyUsage
		want  bool
	}{
		{name: "by name", ca: ca, host: "api.windows.svc", usage: serverAuth, want: true},
		{name: "by address", ca: ca, host: "127.96.0.2", usage: serverAuth, want: true},
		{name: "another name", ca: ca, host: "api.linux.svc", usage: serverAuth, want: false},
		{name: "another usage", ca: ca, host: "api.windows.svc", usage: clientAuth, want: false},
		{name: "another authority", ca: other, host: "api.windows.svc", usage: serverAuth, want: false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			roots := x509.NewCertPool()
			roots.AppendCertsFromPEM(test.ca.bundle())
			_, err := loaded.Leaf.Verify(x509.VerifyOptions{DNSName: test.host, Roots: roots, KeyUsages: []x509.ExtKeyUsage{test.usage}})
			if got := err == nil; got != test.want {
				t.Errorf("Verify() = %v, want success: %v", err, test.want)
			}
		})
	}
}
