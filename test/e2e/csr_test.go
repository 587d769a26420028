// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

//go:build linux

package e2e

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/test/winhost"
)

// certificateHost is a host with a Node of the name that it calls itself by, and the
// identity of its kubelet.
type certificateHost struct {
	host      winhost.Host
	name      string
	namespace string
	kubelet   kubernetes.Interface
}

// newCertificateHost starts a host and makes its Node. It has no instance yet.
func newCertificateHost(t *testing.T, name string) *certificateHost {
	t.Helper()
	h := &certificateHost{host: startHost(t, winhost.Options{Name: name}), name: name, namespace: newNamespace(t), kubelet: kubeletOf(t, name)}
	makeNode(t, name)
	// A kubelet says itself where it is.
	addresses := fmt.Appendf(nil, `{"status":{"addresses":[{"type":"InternalIP","address":%q},{"type":"Hostname","address":%q}]}}`, h.host.Address(), name)
	if _, err := h.kubelet.CoreV1().Nodes().PatchStatus(t.Context(), name, addresses); err != nil {
		t.Fatal(err)
	}
	return h
}

// makeNode makes a Node that goes away with the test.
func makeNode(t *testing.T, name string) {
	t.Helper()
	nodes := sys.Kube.CoreV1().Nodes()
	if _, err := nodes.Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		// The context of the test is over by now.
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := nodes.Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
			t.Errorf("deleting the Node: %v", err)
		}
	})
}

// join makes the instance and waits until it knows its Node and how the host calls itself.
func (h *certificateHost) join(t *testing.T) {
	t.Helper()
	instances := sys.Windows.WindowsV1alpha1().WindowsInstances(h.namespace)
	if _, err := instances.Create(t.Context(), &v1alpha1.WindowsInstance{
		ObjectMeta: metav1.ObjectMeta{Name: "w"},
		Spec:       v1alpha1.WindowsInstanceSpec{Address: h.host.Address(), Port: int32(h.host.Port()), Username: h.host.User()},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the instance knows its host", func() error {
		instance, err := instances.Get(t.Context(), "w", metav1.GetOptions{})
		if err == nil && (instance.Status.Node == nil || instance.Status.System == nil) {
			err = fmt.Errorf("it is %s", instance.Status.Phase)
		}
		return err
	})
}

// kubeletOf is a client with the certificate of a node.
func kubeletOf(t *testing.T, nodeName string) kubernetes.Interface {
	t.Helper()
	config, err := sys.UserConfig("system:node:"+nodeName, "system:nodes")
	if err != nil {
		t.Fatal(err)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// askForCertificate asks for the certificate of a node: to serve under names and addresses, or
// without any of them its client certificate. It returns the name of the request.
func askForCertificate(t *testing.T, as kubernetes.Interface, nodeName string, names ...string) string {
	t.Helper()
	created, err := requestCertificate(t, as, nodeName, names...)
	if err != nil {
		t.Fatalf("asking for a certificate: %v", err)
	}
	return created.Name
}

// requestCertificate is askForCertificate where that may be refused at once.
func requestCertificate(t *testing.T, as kubernetes.Interface, nodeName string, names ...string) (*certificatesv1.CertificateSigningRequest, error) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.CertificateRequest{Subject: pkix.Name{CommonName: "system:node:" + nodeName, Organization: []string{"system:nodes"}}}
	for _, name := range names {
		if ip := net.ParseIP(name); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, name)
		}
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, template, key)
	if err != nil {
		t.Fatal(err)
	}
	spec := certificatesv1.CertificateSigningRequestSpec{
		Request:    pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}),
		SignerName: certificatesv1.KubeAPIServerClientKubeletSignerName,
		Usages:     []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageClientAuth},
	}
	if len(names) > 0 {
		spec.SignerName = certificatesv1.KubeletServingSignerName
		spec.Usages = []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageServerAuth}
	}
	return as.CertificatesV1().CertificateSigningRequests().Create(t.Context(), &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "csr-"}, Spec: spec,
	}, metav1.CreateOptions{})
}

// waitForCertificate waits until a request is approved by us and signed by
// kube-controller-manager, and returns the certificate.
func waitForCertificate(t *testing.T, name string) *x509.Certificate {
	t.Helper()
	var issued *certificatesv1.CertificateSigningRequest
	eventually(t, "the certificate is issued", func() error {
		var err error
		issued, err = sys.Kube.CertificatesV1().CertificateSigningRequests().Get(t.Context(), name, metav1.GetOptions{})
		if err == nil && len(issued.Status.Certificate) == 0 {
			err = fmt.Errorf("request %s has conditions %+v", name, issued.Status.Conditions)
		}
		return err
	})
	if c := issued.Status.Conditions; len(c) != 1 || c[0].Type != certificatesv1.CertificateApproved || c[0].Reason != "HostCertificateApproved" {
		t.Errorf("got conditions %+v", c)
	}
	block, _ := pem.Decode(issued.Status.Certificate)
	if block == nil {
		t.Fatalf("the certificate is not PEM: %q", issued.Status.Certificate)
	}
	certificate, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	return certificate
}

// expectRefusal waits for the event that says why a request is not approved, and sees
// that it is still pending.
func (h *certificateHost) expectRefusal(t *testing.T, name, reason, message string) {
	t.Helper()
	eventually(t, "an event says why", func() error {
		events, err := sys.Kube.CoreV1().Events(h.namespace).List(t.Context(), metav1.ListOptions{FieldSelector: "involvedObject.name=w"})
		if err != nil {
			return err
		}
		for i := range events.Items {
			if e := &events.Items[i]; strings.Contains(e.Message, "CertificateSigningRequest "+name+" ") {
				if e.Type != corev1.EventTypeWarning || e.Reason != reason || !strings.Contains(e.Message, message) || e.Count > 1 {
					t.Errorf("got %d events %s %s: %s, want %s with %q", e.Count, e.Type, e.Reason, e.Message, reason, message)
				}
				return nil
			}
		}
		return errors.New("there is none")
	})
	request, err := sys.Kube.CertificatesV1().CertificateSigningRequests().Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if len(request.Status.Conditions) > 0 || len(request.Status.Certificate) > 0 {
		t.Errorf("it is not pending any more: %+v", request.Status)
	}
}

func TestCertificatesOfKubelets(t *testing.T) {
	t.Parallel()
	h := newCertificateHost(t, "e2e-csr-1")
	// Asked for before anybody knows that this is a host of ours.
	early := askForCertificate(t, h.kubelet, h.name, h.name, h.host.Address())
	h.join(t)

	bundle, err := os.ReadFile(sys.CAFile())
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(bundle)
	verify := func(t *testing.T, certificate *x509.Certificate, usage x509.ExtKeyUsage) {
		t.Helper()
		if got := certificate.Subject.CommonName; got != "system:node:"+h.name {
			t.Errorf("it is that of %s", got)
		}
		if _, err := certificate.Verify(x509.VerifyOptions{Roots: roots, KeyUsages: []x509.ExtKeyUsage{usage}}); err != nil {
			t.Error(err)
		}
	}
	t.Run("serving", func(t *testing.T) {
		t.Parallel()
		certificate := waitForCertificate(t, early)
		verify(t, certificate, x509.ExtKeyUsageServerAuth)
		if diff := cmp.Diff([]string{h.name}, certificate.DNSNames); diff != "" {
			t.Errorf("names (-want +got)\n%s", diff)
		}
		if got := fmt.Sprint(certificate.IPAddresses); got != "["+h.host.Address()+"]" {
			t.Errorf("addresses %s, want %s", got, h.host.Address())
		}
	})
	t.Run("renewal", func(t *testing.T) {
		t.Parallel()
		verify(t, waitForCertificate(t, askForCertificate(t, h.kubelet, h.name)), x509.ExtKeyUsageClientAuth)
	})
	for _, tt := range []struct {
		name, request, reason, message string
	}{
		{"address of another host", askForCertificate(t, h.kubelet, h.name, h.name, "127.0.250.1"), "AddressNotOfInstance", "127.0.250.1"},
		{"a name more", askForCertificate(t, h.kubelet, h.name, h.name, "kubernetes.default.svc"), "NameNotOfInstance", "kubernetes.default.svc"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			h.expectRefusal(t, tt.request, tt.reason, tt.message)
		})
	}
	// The plugin NodeRestriction keeps nodes from asking for each other; what passes it where a cluster
	// lacks the plugin is in the tests of the policy.
	_, err = requestCertificate(t, kubeletOf(t, "e2e-csr-2"), h.name)
	mustBeRefused(t, "another node asks for the client certificate", err, "e2e-csr-2")
}

// A kubelet reports the address of a host that is not its own, to get a certificate for it.
func TestCertificateForTheAddressOfAnotherHost(t *testing.T) {
	t.Parallel()
	h := newCertificateHost(t, "e2e-csr-3")
	// The host calls itself otherwise than the Node that claims its address.
	thief := "e2e-csr-thief"
	makeNode(t, thief)
	kubelet := kubeletOf(t, thief)
	// The Node of the host is not there yet when the thief comes.
	if _, err := h.kubelet.CoreV1().Nodes().PatchStatus(t.Context(), h.name, []byte(`{"status":{"addresses":null}}`)); err != nil {
		t.Fatal(err)
	}
	addresses := fmt.Appendf(nil, `{"status":{"addresses":[{"type":"InternalIP","address":%q}]}}`, h.host.Address())
	if _, err := kubelet.CoreV1().Nodes().PatchStatus(t.Context(), thief, addresses); err != nil {
		t.Fatal(err)
	}
	h.join(t)
	h.expectRefusal(t, askForCertificate(t, kubelet, thief, h.host.Address()), "NodeNameUnknown", "itself reports")
}
