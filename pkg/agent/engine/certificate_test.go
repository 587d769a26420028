// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package engine

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"math/big"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
	"github.com/openshift/windows-instance-api/pkg/agent/api/config"
)

const (
	testPEM        = `C:\k\pki\kubelet-client-current.pem`
	testKubeconfig = `C:\k\kubeconfig`
	testBootstrap  = `C:\k\bootstrap`
)

// authority issues client certificates.
type authority struct {
	key  *ecdsa.PrivateKey
	cert *x509.Certificate
}

func newAuthority(t *testing.T, name string) *authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC), NotAfter: time.Date(2040, 1, 1, 0, 0, 0, 0, time.UTC),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return &authority{key, cert}
}

func (a *authority) pem() string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.cert.Raw}))
}

// issue returns what a kubelet keeps: a certificate and its key.
func (a *authority) issue(t *testing.T, name string, from, to time.Time) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "system:node:" + name, Organization: []string{"system:nodes"}},
		NotBefore: from, NotAfter: to, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})) + string(pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: secret}))
}

// kubeconfigBy is what a kubelet writes when it joins.
const kubeconfigBy = "clusters:\n- cluster:\n    certificate-authority: C:\\k\\ca.crt\n"

// kubeconfigWith is what one wrote that joined in an earlier release.
func kubeconfigWith(ca string) string {
	return "clusters:\n- cluster:\n    certificate-authority-data: " + base64.StdEncoding.EncodeToString([]byte(ca)) + "\n"
}

// node is a host that is a node, by the certificates of an authority.
type node struct {
	*fake
	ca *authority
	// lasting is the document of a host that is a node, joining the one with what it joins with.
	lasting, joining config.Bundle
}

func newNode(t *testing.T) *node {
	t.Helper()
	n := &node{fake: newFake(), ca: newAuthority(t, "kubernetes")}
	n.hostname, n.next = "WIN-1", "WIN-1"
	n.lasting = n.document(n.ca, "")
	n.joining = n.document(n.ca, "token")
	converge(t, n.fake, n.joining)
	n.join(t)
	converge(t, n.fake, n.lasting)
	return n
}

// document is that of a cluster with an authority. With a token the host joins.
func (n *node) document(ca *authority, token string) config.Bundle {
	none := config.OnChange{Impact: config.ImpactNone}
	d := config.Document{
		Version:   config.SchemaVersion,
		Files:     []config.File{program(`C:\k\kubelet.exe`, "1", restarts("kubelet")), textFile(`C:\k\ca.crt`, ca.pem(), none)},
		Generated: []string{testKubeconfig, `C:\k\pki`},
		Services:  []config.Service{testService("kubelet")},
		ClientCertificate: &config.ClientCertificate{
			Path: testPEM, Kubeconfig: testKubeconfig, CAFile: `C:\k\ca.crt`, ServerCAFile: `C:\k\ca.crt`,
		},
	}
	if token != "" {
		bootstrap := textFile(testBootstrap, token, restarts("kubelet"))
		bootstrap.UntilFile = testPEM
		d.Files = append(d.Files, bootstrap)
	}
	return config.Bundle{Document: d}
}

// join is what a kubelet does with the credentials that it finds when it starts.
func (n *node) join(t *testing.T) {
	t.Helper()
	if _, there := n.files[fold(testBootstrap)]; !there {
		t.Fatal("the kubelet ends: it has nothing to join with")
	}
	n.put(testPEM, n.ca.issue(t, "win-1", n.clock, n.clock.AddDate(1, 0, 0)))
	n.put(testKubeconfig, kubeconfigBy)
}

func (n *node) put(path, content string) {
	n.files[`c:\k\pki`] = fakeFile{Directory: true}
	n.files[fold(path)] = fakeFile{Content: content}
}

func (n *node) remove(path string) { delete(n.files, fold(path)) }

func (n *node) exists(path string) bool {
	_, there := n.files[fold(path)]
	return there
}

// starts is when the kubelet was started last.
func (n *node) starts() int { return n.services["kubelet"].started }

// TestJoinAgain: whatever makes the credentials of a kubelet useless, the kubelet finds what it
// can join with when it is started again, and nothing that keeps it from using that.
func TestJoinAgain(t *testing.T) {
	other := newAuthority(t, "another cluster")
	tests := []struct {
		name string
		// lose makes the credentials useless.
		lose func(*node)
		// joins is the document by which the host joins again. Nil: that of the same cluster.
		joins func(*node) config.Bundle
		want  api.CertificateProblem
		// wantGone are removed.
		wantGone []string
	}{
		{name: "the Node was deleted", lose: func(*node) {}},
		{
			name: "months without power", lose: func(n *node) { n.clock = n.clock.AddDate(1, 1, 0) },
			want: api.CertificateExpired, wantGone: []string{testPEM},
		},
		{
			name: "of another cluster", lose: func(n *node) { n.put(testPEM, other.issue(t, "win-1", n.clock, n.clock.AddDate(1, 0, 0))) },
			want: api.CertificateOtherIssuer, wantGone: []string{testPEM},
		},
		{
			name: "of the host that this one was cloned from", lose: func(n *node) { n.put(testPEM, n.ca.issue(t, "template", n.clock, n.clock.AddDate(1, 0, 0))) },
			want: api.CertificateOtherNode, wantGone: []string{testPEM},
		},
		{name: "deleted", lose: func(n *node) { n.remove(testPEM) }, want: api.CertificateMissing},
		{name: "emptied by a power loss", lose: func(n *node) { n.put(testPEM, "") }, want: api.CertificateMissing, wantGone: []string{testPEM}},
		{name: "filled with zeros by a power loss", lose: func(n *node) { n.put(testPEM, "\x00\x00") }, want: api.CertificateUnreadable, wantGone: []string{testPEM}},
		{name: "without its kubeconfig", lose: func(n *node) { n.remove(testKubeconfig) }, want: api.CertificateMissing},
		{name: "with a damaged kubeconfig", lose: func(n *node) { n.put(testKubeconfig, "\x00") }, want: api.CertificateOtherServer, wantGone: []string{testKubeconfig}},
		{
			name: "the cluster has another authority", lose: func(n *node) { n.ca = other }, joins: func(n *node) config.Bundle { return n.document(other, "token") },
			want: api.CertificateOtherIssuer, wantGone: []string{testPEM},
		},
		{
			name: "the cluster has another authority, and the host joined in an earlier release",
			lose: func(n *node) { n.put(testKubeconfig, kubeconfigWith(n.ca.pem())); n.ca = other }, joins: func(n *node) config.Bundle { return n.document(other, "token") },
			want: api.CertificateOtherIssuer, wantGone: []string{testPEM, testKubeconfig},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			n := newNode(t)
			tt.lose(n)
			joining := n.joining
			if tt.joins != nil {
				joining = tt.joins(n)
			}
			lasting := n.document(n.ca, "")
			p, err := engineOf(n.fake).Plan(t.Context(), &lasting)
			if err != nil || p.KubeletCertificate.Problem != tt.want {
				t.Fatalf("got %+v and %v, want %q", p, err, tt.want)
			}
			if tt.joins == nil {
				if facts, err := ReadState(t.Context(), n.fake, n.clock); err != nil || facts.KubeletCertificate.Problem != tt.want {
					t.Errorf("the facts are %+v and %v, want %q", facts.KubeletCertificate, err, tt.want)
				}
				// Nothing is changed as long as there is nothing to join with.
				before := n.mutations
				watch(t, n.fake, 2)
				if n.mutations != before {
					t.Errorf("changed %v", n.log[before:])
				}
			}
			starts := n.starts()
			if r := converge(t, n.fake, joining); r.Outcome != api.OutcomeApplied {
				t.Errorf("got %+v", r)
			}
			if n.starts() <= max(starts, n.files[fold(testBootstrap)].changed) {
				t.Error("the kubelet was not started with what it joins with")
			}
			for _, path := range tt.wantGone {
				if n.exists(path) {
					t.Errorf("%s is still there", path)
				}
			}
			// The kubelet writes its kubeconfig before it has its certificate, and is left alone.
			n.put(testKubeconfig, kubeconfigBy)
			starts = n.starts()
			if r := converge(t, n.fake, joining); tt.want != "" && !n.exists(testPEM) && r.Outcome != api.OutcomeUnchanged {
				t.Errorf("while the kubelet waits for its certificate: %+v", r)
			}
			n.remove(testBootstrap)
			n.put(testBootstrap, "token")
			n.join(t)
			converge(t, n.fake, joining)
			if n.exists(testBootstrap) {
				t.Error("what the kubelet joined with is still there")
			}
			converge(t, n.fake, lasting)
			n.check(t, lasting)
			if n.starts() != starts {
				t.Error("the kubelet was started again although it has joined")
			}
		})
	}
}

// A kubelet that joins is started once for what it joins with, wherever that is interrupted.
func TestCrashWhileJoining(t *testing.T) {
	for _, power := range []bool{false, true} {
		for at := 2; ; at++ {
			n := newNode(t)
			n.clock = n.clock.AddDate(2, 0, 0)
			crashed := crashing(n.fake, at, func() {
				engineOf(n.fake).Apply(context.Background(), &api.ApplyRequest{Allow: config.ImpactReboot, Bundle: n.joining})
			})
			if !crashed {
				if at < 50 {
					t.Errorf("only %d points were tried", at)
				}
				break
			}
			n.loseProcess()
			if power {
				n.boot()
			}
			converge(t, n.fake, n.joining)
			n.check(t, n.joining)
			if n.exists(testPEM) || !n.exists(testBootstrap) {
				t.Fatalf("crash %d: %v", at, n.log)
			}
		}
	}
}

// A kubelet with a good certificate is started once for each credentials that it gets: that is how it comes to make
// its Node again.
func TestJoinWithNewCredentials(t *testing.T) {
	n := newNode(t)
	converge(t, n.fake, n.joining)
	starts := n.starts()
	converge(t, n.fake, n.joining)
	if n.starts() != starts {
		t.Error("the same credentials started the kubelet twice")
	}
	converge(t, n.fake, n.document(n.ca, "another token"))
	if n.starts() == starts {
		t.Error("other credentials did not start the kubelet")
	}
}

func TestJudgeCertificate(t *testing.T) {
	ca, now := newAuthority(t, "kubernetes"), time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	year := func(from time.Time, name string) string { return ca.issue(t, name, from, from.AddDate(1, 0, 0)) }
	tests := []struct {
		name    string
		content string
		rules   credentialRules
		want    api.CertificateProblem
	}{
		{name: "good", content: year(now, "win-1"), rules: credentialRules{node: "WIN-1"}},
		{name: "the clock of the host is behind", content: year(now.Add(time.Hour), "win-1"), rules: credentialRules{node: "win-1"}},
		{name: "of an unknown node", content: year(now, "win-1")},
		{name: "a name longer than that of the computer", content: year(now, "a-very-long-name-1"), rules: credentialRules{node: "A-VERY-LONG-NAM", cut: true}},
		{name: "another long name", content: year(now, "a-very-lone-name-1"), rules: credentialRules{node: "A-VERY-LONG-NAM", cut: true}, want: api.CertificateOtherNode},
		{name: "a short name is not cut", content: year(now, "win-10"), rules: credentialRules{node: "win-1"}, want: api.CertificateOtherNode},
		{name: "expired", content: year(now.AddDate(-2, 0, 0), "win-1"), want: api.CertificateExpired},
		{name: "without its key", content: ca.pem(), want: api.CertificateUnreadable},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.rules.clientCAs, tt.rules.now = ca.pem(), now
			got := tt.rules.judge([]byte(tt.content))
			if diff := cmp.Diff(tt.want, got.Problem); diff != "" {
				t.Error(diff)
			}
		})
	}
	if got := (credentialRules{clientCAs: "unreadable", now: now}).judge([]byte(year(now, "win-1"))); got.Problem != "" {
		t.Errorf("without authorities it is %s", got.String())
	}
	if got := (credentialRules{clientCAs: ca.pem(), now: now}).judge([]byte(year(now, "win-1"))); got.Subject != "system:node:win-1" || got.Issuer != "CN=kubernetes" || !got.NotAfter.Equal(now.AddDate(1, 0, 0)) {
		t.Errorf("got %+v", got)
	}
}
