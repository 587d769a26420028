// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package openshift

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	clientfake "sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// theirMachine is what the Machine API knows of a host before it has a Node.
func theirMachine(created time.Time) *machinev1beta1.Machine {
	return &machinev1beta1.Machine{
		ObjectMeta: metav1.ObjectMeta{Namespace: "openshift-machine-api", Name: "winworker", CreationTimestamp: metav1.NewTime(created)},
		Status: machinev1beta1.MachineStatus{Addresses: []corev1.NodeAddress{
			{Type: corev1.NodeInternalIP, Address: "10.0.0.7"}, {Type: corev1.NodeExternalIP, Address: "203.0.113.7"},
			{Type: corev1.NodeInternalDNS, Address: "Win-1.example.internal."},
		}},
	}
}

// asks is a request for a certificate.
func asks(t *testing.T, user string, groups []string, signer string, usage certificatesv1.KeyUsage, template *x509.CertificateRequest) *certificatesv1.CertificateSigningRequest {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, template, key)
	if err != nil {
		t.Fatal(err)
	}
	return &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{Name: "csr-1", CreationTimestamp: metav1.Now()},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			Request: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}), Username: user, Groups: groups, SignerName: signer,
			Usages: []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, usage},
		},
	}
}

func nodeSubject(name string) pkix.Name {
	return pkix.Name{CommonName: nodeUserPrefix + name, Organization: []string{nodesGroup}}
}

const dnsName = "win-1.example.internal"

func firstRequest(t *testing.T) *certificatesv1.CertificateSigningRequest {
	return asks(t, Bootstrapper, bootstrapperGroups.UnsortedList(), certificatesv1.KubeAPIServerClientKubeletSignerName, certificatesv1.UsageClientAuth,
		&x509.CertificateRequest{Subject: nodeSubject(dnsName)})
}

func servingRequest(t *testing.T, names []string, ips ...string) *certificatesv1.CertificateSigningRequest {
	template := &x509.CertificateRequest{Subject: nodeSubject(dnsName), DNSNames: names}
	for _, ip := range ips {
		template.IPAddresses = append(template.IPAddresses, net.ParseIP(ip))
	}
	return asks(t, nodeUserPrefix+dnsName, []string{nodesGroup, authenticated}, certificatesv1.KubeletServingSignerName, certificatesv1.UsageServerAuth, template)
}

// TestMachineApprover: it approves what the cluster-machine-approver does, says why not otherwise, and denies nothing.
func TestMachineApprover(t *testing.T) {
	linked := func(m *machinev1beta1.Machine) { m.Status.NodeRef = &corev1.ObjectReference{Name: dnsName} }
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: dnsName}}
	for _, tt := range []struct {
		name    string
		request *certificatesv1.CertificateSigningRequest
		age     time.Duration // of the Machine
		machine func(*machinev1beta1.Machine)
		node    *corev1.Node
		// want is in the error; "approved": it is; empty: it is not looked at
		want string
	}{
		{name: "the first certificate of a young Machine", request: firstRequest(t), want: "approved"},
		{name: "a clock that is behind", request: firstRequest(t), age: -5 * time.Second, want: "approved"},
		{name: "a late Machine", request: firstRequest(t), age: 2*time.Hour + time.Second, want: "was created"},
		{name: "a Node of that name", request: firstRequest(t), node: node, want: "there is Node"},
		{name: "a Machine that has its Node", request: firstRequest(t), machine: linked, want: "has Node"},
		{name: "a Machine without the name", request: firstRequest(t), machine: func(m *machinev1beta1.Machine) { m.Status.Addresses = m.Status.Addresses[:2] }, want: "no Machine has"},
		{name: "our own request", request: func() *certificatesv1.CertificateSigningRequest {
			r := firstRequest(t)
			r.Spec.Username = "system:serviceaccount:ours:windows-controller"
			return r
		}(), want: ""},
		{name: "more groups", request: func() *certificatesv1.CertificateSigningRequest {
			r := firstRequest(t)
			r.Spec.Groups = append(r.Spec.Groups, "others")
			return r
		}(), want: "not the node-bootstrapper"},
		{name: "to serve", request: servingRequest(t, []string{dnsName}, "10.0.0.7", "203.0.113.7"), node: node, machine: linked, want: "approved"},
		{name: "to serve without the link", request: servingRequest(t, []string{dnsName}, "10.0.0.7"), node: node, want: "no Machine has Node"},
		{name: "to serve at the address of another", request: servingRequest(t, nil, "10.0.0.8"), node: node, machine: linked, want: "has no address 10.0.0.8"},
		{name: "to serve under the name of the computer", request: servingRequest(t, []string{"win-1"}), node: node, machine: linked, want: "has no name win-1"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			machine := theirMachine(tt.request.CreationTimestamp.Add(-tt.age))
			if tt.machine != nil {
				tt.machine(machine)
			}
			c := newFake(t, machine, tt.request)
			if tt.node != nil {
				if err := c.Create(t.Context(), tt.node.DeepCopy()); err != nil {
					t.Fatal(err)
				}
			}
			err := machineApprover{}.approve(t.Context(), c, tt.request.DeepCopy())
			got := &certificatesv1.CertificateSigningRequest{}
			if err := c.Get(t.Context(), client.ObjectKeyFromObject(tt.request), got); err != nil {
				t.Fatal(err)
			}
			approved := len(got.Status.Conditions) == 1 && got.Status.Conditions[0].Type == certificatesv1.CertificateApproved
			switch {
			case approved != (tt.want == "approved") || !approved && len(got.Status.Conditions) > 0:
				t.Errorf("it has conditions %+v: %v", got.Status.Conditions, err)
			case approved || tt.want == "":
				if err != nil {
					t.Error(err)
				}
			case err == nil || !strings.Contains(err.Error(), tt.want):
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}

func newFake(t *testing.T, objects ...client.Object) client.Client {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	return clientfake.NewClientBuilder().WithScheme(scheme).WithStatusSubresource(&machinev1beta1.Machine{}).WithObjects(objects...).Build()
}

// TestTooManyRequests: more requests than Machines and Nodes by a hundred stop the approver, and old ones do not count.
func TestTooManyRequests(t *testing.T) {
	now := time.Now()
	request := firstRequest(t)
	requests := slices.Repeat([]certificatesv1.CertificateSigningRequest{*request}, 103)
	if !tooMany(requests, 1, 2, now) || tooMany(requests, 3, 2, now) || tooMany(requests, 1, 2, now.Add(2*time.Hour)) {
		t.Error("it counts in another way")
	}
}

// TestMachineController: a Machine runs when its Node is there, and goes with it when its hooks let it.
func TestMachineController(t *testing.T) {
	machine := theirMachine(time.Now())
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "win-1", UID: "n"},
		Status:     corev1.NodeStatus{Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "10.0.0.7"}}},
	}
	c, kube := newFake(t, machine), fake.NewClientset(node.DeepCopy())
	m := machineController{client: c, kube: kube}
	pass := func() *machinev1beta1.Machine {
		t.Helper()
		for range 4 { // it does one thing at a time
			if _, err := m.reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(machine)}); err != nil {
				t.Fatal(err)
			}
		}
		now := &machinev1beta1.Machine{}
		if err := client.IgnoreNotFound(c.Get(t.Context(), client.ObjectKeyFromObject(machine), now)); err != nil {
			t.Fatal(err)
		}
		return now
	}
	if now := pass(); ptr.Deref(now.Status.Phase, "") != machinev1beta1.PhaseProvisioned || now.Status.NodeRef != nil {
		t.Errorf("without a Node it has status %+v", now.Status)
	}
	if err := c.Create(t.Context(), node.DeepCopy()); err != nil {
		t.Fatal(err)
	}
	now := pass()
	if ptr.Deref(now.Status.Phase, "") != machinev1beta1.PhaseRunning || now.Status.NodeRef == nil || now.Status.NodeRef.UID != "n" {
		t.Errorf("with its Node it has status %+v", now.Status)
	}
	now.Spec.LifecycleHooks = machinev1beta1.LifecycleHooks{
		PreDrain: []machinev1beta1.LifecycleHook{{Name: "d", Owner: "o"}}, PreTerminate: []machinev1beta1.LifecycleHook{{Name: "t", Owner: "o"}},
	}
	if err := c.Update(t.Context(), now); err != nil {
		t.Fatal(err)
	}
	if err := c.Delete(t.Context(), now); err != nil {
		t.Fatal(err)
	}
	if now = pass(); isDrained(now) || ptr.Deref(now.Status.Phase, "") != machinev1beta1.PhaseDeleting {
		t.Errorf("its hook is there, and it has status %+v", now.Status)
	}
	now.Spec.LifecycleHooks.PreDrain = nil
	if err := c.Update(t.Context(), now); err != nil {
		t.Fatal(err)
	}
	if now = pass(); !isDrained(now) {
		t.Errorf("it is not drained: %+v", now.Status)
	}
	if drained, err := kube.CoreV1().Nodes().Get(t.Context(), node.Name, metav1.GetOptions{}); err != nil || !drained.Spec.Unschedulable {
		t.Errorf("its Node is not cordoned: %v", err)
	}
	now.Spec.LifecycleHooks.PreTerminate = nil
	if err := c.Update(t.Context(), now); err != nil {
		t.Fatal(err)
	}
	if now = pass(); now.Name != "" {
		t.Errorf("it is still there: %+v", now)
	}
	if nodes, err := kube.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{}); err != nil || len(nodes.Items) > 0 {
		t.Errorf("its Node is still there: %v", err)
	}
}
