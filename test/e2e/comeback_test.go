// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

//go:build linux

package e2e

import (
	"cmp"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/test/winhost"
)

// configureComesBack has hosts lose their place in the cluster. All of them are Nodes again,
// and nobody has asked for that.
func configureComesBack(t *testing.T, s *site) {
	namespace := s.namespace(t, "cfg-back")
	year := 365 * 24 * time.Hour
	lost := newGroup(t)
	defer lost.wait()
	for _, tt := range []struct {
		name string
		lose func(*testing.T, *siteHost)
		// wantSame: it is the same Node as before.
		wantSame bool
		// wantAddress is where the host is found. Empty: where it was.
		wantAddress string
	}{
		{name: "deleted", lose: func(t *testing.T, h *siteHost) {
			if err := h.Kube.CoreV1().Nodes().Delete(t.Context(), h.name, metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
		}},
		{name: "expired", wantSame: true, lose: func(t *testing.T, h *siteHost) {
			h.replaceCertificate(t, h.name, s.clusterCA(t), time.Now().Add(-time.Hour), nil)
		}},
		{name: "foreign", wantSame: true, lose: func(t *testing.T, h *siteHost) {
			h.replaceCertificate(t, h.name, newCA(t), time.Now().Add(year), nil)
		}},
		// Its Node still has the former address, as nobody could report another one.
		{name: "elsewhere", wantSame: true, wantAddress: "127.9.1.3", lose: func(t *testing.T, h *siteHost) {
			port := h.secondAddress(t, "127.9.1.3")
			h.replaceCertificate(t, h.name, s.clusterCA(t), time.Now().Add(-time.Hour), func() { h.moveTo(t, "127.9.1.3", port) })
		}},
	} {
		lost.run(tt.name, func(t *testing.T) {
			h := s.readyHost(t, namespace, "cfg-"+tt.name, winhost.Options{})
			before, node := h.get(t), h.node(t, h.name)
			h.setLabel(t, "example.com/theirs")
			mustHaveJoined := h.watchJoin(t)
			tt.lose(t, h)
			after := h.wait(t, "the host is a Node again", func(i *v1alpha1.WindowsInstance) error {
				if i.Status.Operation.ID == before.Status.Operation.ID {
					return errors.New(describeConditions(i))
				}
				return isSetUp(i)
			})
			op := after.Status.Operation
			if step := op.FindStep(v1alpha1.StepJoin); !op.ByController() || step == nil || step.State != v1alpha1.StepSucceeded || len(after.Status.History) != 1 {
				t.Errorf("the host came back by\n%s\nafter %d operations", describeOperation(after), len(after.Status.History))
			}
			now := h.node(t, h.name)
			if same := now.UID == node.UID; same != tt.wantSame || same != (now.Labels["example.com/theirs"] != "") {
				t.Errorf("it has Node %s with labels %v, and had %s", now.UID, now.Labels, node.UID)
			}
			if want := cmp.Or(tt.wantAddress, h.host.Address()); !slices.Equal(after.Status.Addresses, []string{want}) {
				t.Errorf("it is found at %v, want %s", after.Status.Addresses, want)
			}
			mustHaveJoined()
			h.remove(t)
			h.waitGone(t)
			h.mustBeClean(t)
		})
	}
}

// setLabel sets a label on the Node as a person does.
func (h *siteHost) setLabel(t *testing.T, label string) {
	t.Helper()
	patch := fmt.Appendf(nil, `{"metadata":{"labels":{%q:"yes"}}}`, label)
	if _, err := h.Kube.CoreV1().Nodes().Patch(t.Context(), h.name, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
}

// clusterCA is the authority of the cluster.
func (s *site) clusterCA(t *testing.T) tls.Certificate {
	t.Helper()
	ca := s.ControlPlane.ClusterCA()
	pair, err := tls.LoadX509KeyPair(ca.CertFile, ca.KeyFile)
	if err != nil {
		t.Fatal(err)
	}
	return pair
}

// newCA is the authority of another cluster, which calls itself the same.
func newCA(t *testing.T) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "ca"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}
}

// replaceCertificate gives the kubelet of a host another client certificate, of a Node, while the
// host has no power, as a snapshot that is restored does. What else happens meanwhile may be nil.
func (h *siteHost) replaceCertificate(t *testing.T, node string, ca tls.Certificate, notAfter time.Time, meanwhile func()) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "system:node:" + node, Organization: []string{"system:nodes"}},
		NotBefore: notAfter.Add(-48 * time.Hour), NotAfter: notAfter, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}, ca.Leaf, key.Public(), ca.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	if err := h.host.PowerOff(); err != nil {
		t.Fatal(err)
	}
	h.write(t, `C:\var\lib\kubelet\pki\kubelet-client-current.pem`,
		string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))+string(pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: secret})))
	if meanwhile != nil {
		meanwhile()
	}
	if err := h.host.PowerOn(); err != nil {
		t.Fatal(err)
	}
}
