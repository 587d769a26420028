// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package csr

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	"github.com/prometheus/client_golang/prometheus/testutil"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	kubefake "k8s.io/client-go/kubernetes/fake"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/record"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlfake "sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/controller/csr/identity"
)

const (
	homeNamespace = "openshift-windows-machine-config-operator"
	testNamespace = "windows-hosts"
	testNode      = "win-1"
	testRequest   = "csr-1"
)

var testNow = time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC)

// recorder keeps events as "namespace/name: type reason: message".
type recorder struct {
	record.EventRecorder

	mu     sync.Mutex
	events []string
}

func (r *recorder) Event(object runtime.Object, eventType, reason, message string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	key := client.ObjectKeyFromObject(object.(client.Object)) //nolint:forcetypeassert // what has events is one
	r.events = append(r.events, key.String()+": "+eventType+" "+reason+": "+message)
}

func (r *recorder) take() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := r.events
	r.events = nil
	return out
}

// dns is a Resolver that knows these names.
type dns map[string]string

func (d dns) LookupNetIP(_ context.Context, _, host string) ([]netip.Addr, error) {
	if address, ok := d[host]; ok {
		return []netip.Addr{netip.MustParseAddr(address)}, nil
	}
	return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
}

// setup is a reconciler with what it sees.
type setup struct {
	*Reconciler
	kube   *kubefake.Clientset
	events *recorder
	clock  *clocktesting.FakePassiveClock
}

func newSetup(t *testing.T, objects ...client.Object) *setup {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v1alpha1.AddToScheme, machinev1beta1.Install} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	s := &setup{kube: kubefake.NewClientset(), events: &recorder{}, clock: clocktesting.NewFakePassiveClock(testNow)}
	for _, object := range objects {
		if request, ok := object.(*certificatesv1.CertificateSigningRequest); ok {
			if err := s.kube.Tracker().Add(request.DeepCopy()); err != nil {
				t.Fatal(err)
			}
		}
	}
	s.Reconciler = newReconciler(ctrlfake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).Build(), Options{Kube: s.kube, Namespace: homeNamespace, Recorder: s.events})
	s.Reconciler.resolver, s.Reconciler.clock = dns{"ip-10-0-0-5.ec2.internal.": "10.0.0.5"}, s.clock
	return s
}

// reconcile decides about the request of the test.
func (s *setup) reconcile(t *testing.T) reconcile.Result {
	t.Helper()
	result, err := s.Reconcile(t.Context(), reconcile.Request{NamespacedName: types.NamespacedName{Name: testRequest}})
	if err != nil {
		t.Fatal(err)
	}
	return result
}

// conditions returns those of the request in the cluster, without their time.
func (s *setup) conditions(t *testing.T) []certificatesv1.CertificateSigningRequestCondition {
	t.Helper()
	request, err := s.kube.CertificatesV1().CertificateSigningRequests().Get(t.Context(), testRequest, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range request.Status.Conditions {
		if request.Status.Conditions[i].LastUpdateTime.IsZero() {
			t.Error("a condition has no time")
		}
		request.Status.Conditions[i].LastUpdateTime = metav1.Time{}
	}
	return request.Status.Conditions
}

// host1 is an instance with a Node.
func host1(edit ...func(*v1alpha1.WindowsInstance)) *v1alpha1.WindowsInstance {
	instance := &v1alpha1.WindowsInstance{
		ObjectMeta: metav1.ObjectMeta{Namespace: testNamespace, Name: "one", UID: "i1"},
		Spec:       v1alpha1.WindowsInstanceSpec{Address: "10.0.0.5"},
		Status: v1alpha1.WindowsInstanceStatus{
			Addresses: []string{"10.0.0.5"}, Version: "v1",
			Node:   &v1alpha1.NodeReference{Name: testNode, UID: "n1"},
			System: &v1alpha1.SystemStatus{Hostname: "WIN-1", FQDN: "win-1.example.com"},
		},
	}
	for _, e := range edit {
		e(instance)
	}
	return instance
}

// deleted has the instance deleted, and its host be removed at some time.
func deleted(i *v1alpha1.WindowsInstance) {
	i.DeletionTimestamp, i.Finalizers = &metav1.Time{Time: testNow}, []string{v1alpha1.HostFinalizer}
}

// removed has an operation remove the host that started and finished at some time, if it has.
func removed(started, finished *metav1.Time) func(*v1alpha1.WindowsInstance) {
	return func(i *v1alpha1.WindowsInstance) {
		phase := v1alpha1.OperationPending
		switch {
		case finished != nil:
			phase = v1alpha1.OperationFailed
		case started != nil:
			phase = v1alpha1.OperationRunning
		}
		i.Status.Operation = &v1alpha1.Operation{ID: "o1", Type: v1alpha1.OperationRemove, Phase: phase, StartedAt: started, FinishedAt: finished, HostChanged: finished != nil}
	}
}

// waitsAgain has a removal be tried again that had begun.
func waitsAgain(cordoned bool) func(*v1alpha1.WindowsInstance) {
	return func(i *v1alpha1.WindowsInstance) {
		removed(&metav1.Time{Time: testNow}, &metav1.Time{Time: testNow})(i)
		i.Status.History = []v1alpha1.Operation{*i.Status.Operation}
		removed(&metav1.Time{Time: testNow}, nil)(i)
		i.Status.Operation.Node = &v1alpha1.OperationNode{Name: testNode, UID: "n1", WasUnschedulable: cordoned}
		i.Status.Operation.Steps = []v1alpha1.OperationStep{{Name: v1alpha1.StepWaitForSlot, State: v1alpha1.StepRunning}}
	}
}

// nodeOf is the Node with a UID.
func nodeOf(uid types.UID) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: testNode, UID: uid}}
}

// leftToWMCO has the host left to WMCO.
func leftToWMCO(i *v1alpha1.WindowsInstance) { withReason(v1alpha1.ReasonManagedByWMCO)(i) }

// withReason says why the host is not configured here.
func withReason(reason string) func(*v1alpha1.WindowsInstance) {
	return func(i *v1alpha1.WindowsInstance) {
		i.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionConfigured, Status: metav1.ConditionUnknown, Reason: reason}}
	}
}

// cloned has the host keep the computer name of another one.
func cloned(i *v1alpha1.WindowsInstance) {
	i.Status.Node, i.Status.System.Hostname = nil, "WIN-1"
	i.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionPreflightPassed, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonHostnameTaken}}
}

// host2 is another one, with another Node.
func host2(edit ...func(*v1alpha1.WindowsInstance)) *v1alpha1.WindowsInstance {
	return host1(append([]func(*v1alpha1.WindowsInstance){func(i *v1alpha1.WindowsInstance) {
		i.Name, i.UID, i.Spec.Address, i.Status.Addresses = "two", "i2", "10.0.0.6", []string{"10.0.0.6"}
		i.Status.Node = &v1alpha1.NodeReference{Name: "win-2", UID: "n2"}
		i.Status.System = &v1alpha1.SystemStatus{Hostname: "WIN-2"}
	}}, edit...)...)
}

func fromMachine(i *v1alpha1.WindowsInstance) {
	i.OwnerReferences = []metav1.OwnerReference{{
		APIVersion: machinev1beta1.SchemeGroupVersion.String(), Kind: "Machine", Name: "machine-1", UID: "m1", Controller: new(true),
	}}
}

func machine(addresses ...string) *machinev1beta1.Machine {
	m := &machinev1beta1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: testNamespace, Name: "machine-1", UID: "m1"}}
	for _, address := range addresses {
		kind := corev1.NodeInternalDNS
		if _, err := netip.ParseAddr(address); err == nil {
			kind = corev1.NodeInternalIP
		}
		m.Status.Addresses = append(m.Status.Addresses, corev1.NodeAddress{Type: kind, Address: address})
	}
	return m
}

func machineWith(addresses ...corev1.NodeAddress) *machinev1beta1.Machine {
	m := machine()
	m.Status.Addresses = addresses
	return m
}

// nodeWith is the Node of win-1 with an address.
func nodeWith(kind corev1.NodeAddressType, address string) *corev1.Node {
	n := node(testNode)
	n.Status.Addresses = []corev1.NodeAddress{{Type: kind, Address: address}}
	return n
}

// cloudProvesNothing is how the refusal of an address ends that only the cloud can have written, or the kubelet.
const cloudProvesNothing = ", which proves nothing, because its kubelet can write that. Where the host has a Machine, that must have it, too. " +
	"Otherwise find out whether the host has it, and approve the request (kubectl certificate approve csr-1) or, in the namespace of the operator, " +
	"set spec.address to a DNS name that has all addresses of the host."

func node(name string) *corev1.Node { return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}} }

// serving is a request of node win-1 to serve under the names and addresses.
func serving(t *testing.T, names ...string) *certificatesv1.CertificateSigningRequest {
	t.Helper()
	return servingAs(t, testNode, names...)
}

func servingAs(t *testing.T, nodeName string, names ...string) *certificatesv1.CertificateSigningRequest {
	t.Helper()
	request := renewal(t)
	request.Spec.Username = "system:node:" + nodeName
	request.Spec.SignerName = certificatesv1.KubeletServingSignerName
	request.Spec.Usages = []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageServerAuth}
	request.Spec.Request = encode(t, nodeName, names...)
	return request
}

// renewal is a request of node win-1 for its next client certificate.
func renewal(t *testing.T) *certificatesv1.CertificateSigningRequest {
	t.Helper()
	return &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{Name: testRequest, UID: "u1", CreationTimestamp: metav1.NewTime(testNow.Add(-patience))},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			SignerName: certificatesv1.KubeAPIServerClientKubeletSignerName,
			Username:   "system:node:" + testNode, Groups: []string{"system:nodes", "system:authenticated"},
			Usages:  []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageClientAuth},
			Request: encode(t, testNode),
		},
	}
}

// encode makes the request of a node for a certificate with these names and addresses.
func encode(t *testing.T, nodeName string, names ...string) []byte {
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
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})
}

// bootstrapping is a request with a bootstrap token.
func bootstrapping(request *certificatesv1.CertificateSigningRequest) *certificatesv1.CertificateSigningRequest {
	request.Spec.Username = "system:bootstrap:abcdef"
	request.Spec.Groups = []string{"system:bootstrappers", "system:authenticated"}
	return request
}

func TestReconcile(t *testing.T) {
	type objects = []client.Object
	withoutNode := func(i *v1alpha1.WindowsInstance) { i.Status.Node = nil }
	otherName := func(i *v1alpha1.WindowsInstance) {
		i.Status.System = &v1alpha1.SystemStatus{Hostname: "EC2AMAZ-1"}
	}
	const stays = "CertificateSigningRequest csr-1 for the kubelet serving certificate of node win-1 is not approved and stays pending: "
	tests := []struct {
		name    string
		request *certificatesv1.CertificateSigningRequest
		others  objects
		// approved is the message of the approval. Empty: it is not approved.
		approved string
		events   []string
	}{
		{
			name: "renewal by the node", request: renewal(t), others: objects{host1(), host2()},
			approved: "The kubelet client certificate of node win-1, requested by system:node:win-1. WindowsInstance windows-hosts/one is that host: win-1 from status.system.hostname.",
		},
		{
			name: "serving", request: serving(t, "win-1", "WIN-1.example.com", "10.0.0.5"), others: objects{host1(), host2(), node(testNode)},
			approved: "The kubelet serving certificate of node win-1, requested by system:node:win-1. WindowsInstance windows-hosts/one is that host: " +
				"win-1 from status.system.hostname, win-1.example.com from status.system.fqdn, 10.0.0.5 from spec.address.",
		},
		{name: "of a host that cannot be configured here, so that others make it a node", request: serving(t, "win-1", "10.0.0.5"), others: objects{host1(withReason(v1alpha1.ReasonInputsMissing)), host2(), node(testNode)}},
		{
			name: "of a host of others, where nothing is managed", request: serving(t, "win-1", "10.0.0.5"), others: objects{host1(withReason(v1alpha1.ReasonNotManaged)), host2(), node(testNode)},
			approved: "The kubelet serving certificate of node win-1, requested by system:node:win-1. WindowsInstance windows-hosts/one is that host: win-1 from status.system.hostname, 10.0.0.5 from spec.address.",
		},
		{name: "of a host that WMCO manages", request: serving(t, "win-1", "10.0.0.5"), others: objects{host1(leftToWMCO), host2(), node(testNode)}},
		{
			name: "serving at the addresses of the platform", request: serving(t, "win-1", "10.0.0.5", "10.7.0.1"),
			others: objects{host1(fromMachine), machine("10.0.0.5", "10.7.0.1", "win-1")},
			approved: "The kubelet serving certificate of node win-1, requested by system:node:win-1. WindowsInstance windows-hosts/one is that host: " +
				"win-1 from Machine machine-1, 10.0.0.5 from spec.address, 10.7.0.1 from Machine machine-1.",
		},
		{
			name: "at an address that DNS gave", request: serving(t, "10.7.0.1"),
			others: objects{host1(func(i *v1alpha1.WindowsInstance) {
				i.Spec.Address, i.Status.Addresses = "win-1.corp.example.com", []string{"10.7.0.1"}
			})},
			approved: "The kubelet serving certificate of node win-1, requested by system:node:win-1. WindowsInstance windows-hosts/one is that host: " +
				"win-1 from spec.address, 10.7.0.1 from status.addresses.",
		},
		{
			name: "named as its platform told it", request: servingAs(t, "win-1.c.example.internal", "10.0.0.5"),
			others: objects{host1(otherName, func(i *v1alpha1.WindowsInstance) {
				i.Status.Node.Name, i.Status.System.NodeName = "win-1.c.example.internal", "win-1.c.example.internal"
			})},
			approved: "The kubelet serving certificate of node win-1.c.example.internal, requested by system:node:win-1.c.example.internal. WindowsInstance windows-hosts/one is that host: " +
				"win-1.c.example.internal from status.system.nodeName, 10.0.0.5 from spec.address.",
		},
		{
			name: "of a host that joins under the name that its platform told it", request: servingAs(t, "win-1.c.example.internal", "10.0.0.5"),
			others: objects{host1(otherName, func(i *v1alpha1.WindowsInstance) {
				i.Status.Node.Name, i.Status.Operation = "win-1.c.example.internal", &v1alpha1.Operation{JoinsAs: "win-1.c.example.internal"}
			})},
			approved: "The kubelet serving certificate of node win-1.c.example.internal, requested by system:node:win-1.c.example.internal. WindowsInstance windows-hosts/one is that host: " +
				"win-1.c.example.internal from status.operation.joinsAs, 10.0.0.5 from spec.address.",
		},
		{
			name: "whose name a clone of its disk says, too", request: servingAs(t, "win-1.c.example.internal", "10.0.0.5"),
			others: objects{
				host1(otherName, func(i *v1alpha1.WindowsInstance) {
					i.Status.Node.Name, i.Status.System.NodeName = "win-1.c.example.internal", "win-1.c.example.internal"
				}),
				host2(func(i *v1alpha1.WindowsInstance) {
					i.Status.Node, i.Status.System = nil, &v1alpha1.SystemStatus{Hostname: "win-2", NodeName: "win-1.c.example.internal"}
				}),
			},
			approved: "The kubelet serving certificate of node win-1.c.example.internal, requested by system:node:win-1.c.example.internal. WindowsInstance windows-hosts/one is that host: " +
				"win-1.c.example.internal from status.system.nodeName, 10.0.0.5 from spec.address.",
		},
		{
			name: "named as DNS of the platform has it", request: servingAs(t, "ip-10-0-0-5.ec2.internal", "10.0.0.5"),
			others: objects{host1(otherName, func(i *v1alpha1.WindowsInstance) { i.Status.Node.Name = "ip-10-0-0-5.ec2.internal" })},
			approved: "The kubelet serving certificate of node ip-10-0-0-5.ec2.internal, requested by system:node:ip-10-0-0-5.ec2.internal. WindowsInstance windows-hosts/one is that host: " +
				"ip-10-0-0-5.ec2.internal from DNS, 10.0.0.5 from spec.address.",
		},
		{
			name: "at another address of its name", request: serving(t, "10.7.0.2"),
			others: objects{host1(func(i *v1alpha1.WindowsInstance) {
				i.Spec.Address, i.Status.Addresses, i.Status.HostIP = "win-1.corp.example.com", []string{"10.7.0.1", "10.7.0.2"}, "10.7.0.1"
			})},
			events: []string{"windows-hosts/one: Warning AddressNotOfInstance: " + stays + "address 10.7.0.2 is not an address of instance windows-hosts/one."},
		},
		{
			name: "at an address that the spec names meanwhile", request: serving(t, "10.7.0.2"),
			others: objects{host1(func(i *v1alpha1.WindowsInstance) { i.Spec.Address, i.Status.HostIP = "10.7.0.2", "10.0.0.5" })},
			events: []string{"windows-hosts/one: Warning AddressNotOfInstance: " + stays + "address 10.7.0.2 is not an address of instance windows-hosts/one."},
		},
		{
			name: "at another address of its name, in the namespace of the operator", request: serving(t, "10.7.0.2"),
			others: objects{host1(func(i *v1alpha1.WindowsInstance) {
				i.Namespace, i.Spec.Address, i.Status.Addresses, i.Status.HostIP = homeNamespace, "win-1.corp.example.com", []string{"10.7.0.1", "10.7.0.2"}, "10.7.0.1"
			})},
			approved: "The kubelet serving certificate of node win-1, requested by system:node:win-1. WindowsInstance " + homeNamespace + "/one is that host: " +
				"win-1 from spec.address, 10.7.0.2 from status.addresses.",
		},
		{
			name: "at what the cloud has given to its Machine", request: serving(t, "win-1", "203.0.113.7", "ec2-203-0-113-7.example.com", "ip-10-0-0-5.ec2.internal"),
			others: objects{
				nodeWith(corev1.NodeExternalIP, "203.0.113.7"), host1(fromMachine),
				machineWith(
					corev1.NodeAddress{Type: corev1.NodeExternalIP, Address: "203.0.113.7"}, corev1.NodeAddress{Type: corev1.NodeExternalDNS, Address: "ec2-203-0-113-7.example.com"},
					corev1.NodeAddress{Type: corev1.NodeInternalDNS, Address: "ip-10-0-0-5.ec2.internal"},
				),
			},
			approved: "The kubelet serving certificate of node win-1, requested by system:node:win-1. WindowsInstance windows-hosts/one is that host: " +
				"win-1 from status.system.hostname, ec2-203-0-113-7.example.com from Machine machine-1, ip-10-0-0-5.ec2.internal from Machine machine-1, 203.0.113.7 from Machine machine-1.",
		},
		{
			name: "at what only its Node has from the cloud", request: serving(t, "win-1", "203.0.113.7"),
			others: objects{nodeWith(corev1.NodeExternalIP, "203.0.113.7"), host1()},
			events: []string{"windows-hosts/one: Warning AddressNotOfInstance: " + stays + "address 203.0.113.7 is not an address of instance windows-hosts/one: its Node has it as ExternalIP" + cloudProvesNothing},
		},
		{
			name: "under the name that only its Node has from the cloud", request: serving(t, "EC2-203-0-113-7.example.com"),
			others: objects{nodeWith(corev1.NodeExternalDNS, "ec2-203-0-113-7.example.com"), host1()},
			events: []string{"windows-hosts/one: Warning NameNotOfInstance: " + stays + `name "EC2-203-0-113-7.example.com" is not a name of instance windows-hosts/one: its Node has it as ExternalDNS` + cloudProvesNothing},
		},
		{
			name: "at an external address that is that of the Machine of another host", request: serving(t, "203.0.113.7"),
			others: objects{
				nodeWith(corev1.NodeInternalIP, "203.0.113.7"), host1(), host2(fromMachine),
				machineWith(corev1.NodeAddress{Type: corev1.NodeExternalIP, Address: "203.0.113.7"}),
			},
			events: []string{"windows-hosts/one: Warning AddressNotOfInstance: " + stays + "address 203.0.113.7 is not an address of instance windows-hosts/one."},
		},
		{
			name: "IPv6", request: serving(t, "fd00::5"),
			others: objects{host1(func(i *v1alpha1.WindowsInstance) {
				i.Spec.Address, i.Status.Addresses = "FD00:0::5", []string{"fd00::5"}
			})},
			approved: "The kubelet serving certificate of node win-1, requested by system:node:win-1. WindowsInstance windows-hosts/one is that host: " +
				"win-1 from status.system.hostname, fd00::5 from spec.address.",
		},
		{
			name: "IPv4 written as IPv6", request: serving(t, "10.0.0.5"),
			others: objects{host1(func(i *v1alpha1.WindowsInstance) {
				i.Spec.Address, i.Status.Addresses = "::ffff:10.0.0.5", []string{"10.0.0.5"}
			})},
			approved: "The kubelet serving certificate of node win-1, requested by system:node:win-1. WindowsInstance windows-hosts/one is that host: " +
				"win-1 from status.system.hostname, 10.0.0.5 from spec.address.",
		},
		{
			name: "address that a host gives itself without DHCP", request: serving(t, "169.254.1.2"),
			others: objects{host1(fromMachine), machine("169.254.1.2")},
			events: []string{"windows-hosts/one: Warning AddressNotOfInstance: " + stays + "address 169.254.1.2 is not an address of instance windows-hosts/one."},
		},
		{
			name: "name that DNS has for another host", request: servingAs(t, "ip-10-0-0-5.ec2.internal", "10.0.0.6"),
			others: objects{host2(func(i *v1alpha1.WindowsInstance) { i.Status.Node.Name = "ip-10-0-0-5.ec2.internal" })},
			events: []string{"windows-hosts/two: Warning NodeNameUnknown: " + strings.ReplaceAll(stays, testNode, "ip-10-0-0-5.ec2.internal") +
				"only the addresses that node ip-10-0-0-5.ec2.internal itself reports connect it to this host: " +
				"the host does not call itself so, and DNS has no such name with the address of the host."},
		},
		{
			name: "node that reports the address of the host", request: serving(t, "10.0.0.5"), others: objects{host1(otherName)},
			events: []string{"windows-hosts/one: Warning NodeNameUnknown: " + stays + "only the addresses that node win-1 itself reports connect it to this host: " +
				"the host does not call itself so, and DNS has no such name with the address of the host."},
		},
		{
			name: "node that reports the address of another host, too", request: serving(t, "10.0.0.6"),
			others: objects{host1(), host2(func(i *v1alpha1.WindowsInstance) { i.Status.Node.Name = testNode })},
			events: []string{"windows-hosts/one: Warning AddressNotOfInstance: " + stays + "address 10.0.0.6 is not an address of instance windows-hosts/one."},
		},
		{
			name: "address of another host", request: serving(t, "win-1", "10.0.0.6"), others: objects{host1(), host2()},
			events: []string{"windows-hosts/one: Warning AddressNotOfInstance: " + stays + "address 10.0.0.6 is not an address of instance windows-hosts/one."},
		},
		{
			name: "addresses of a Machine that is another one by now", request: serving(t, "10.7.0.1"),
			others: objects{host1(fromMachine), func() *machinev1beta1.Machine { m := machine("10.7.0.1"); m.UID = "m2"; return m }()},
			events: []string{"windows-hosts/one: Warning AddressNotOfInstance: " + stays + "address 10.7.0.1 is not an address of instance windows-hosts/one."},
		},
		{
			name: "host that calls itself as another Node", request: serving(t, "win-1", "linux-1"),
			others: objects{host1(func(i *v1alpha1.WindowsInstance) { i.Status.System.FQDN = "linux-1" }), node(testNode), node("linux-1")},
			events: []string{"windows-hosts/one: Warning NameNotOfInstance: " + stays + `name "linux-1" is not a name of instance windows-hosts/one.`},
		},
		{
			name: "host that says that its platform calls it as another Node", request: serving(t, "win-1", "linux-1"),
			others: objects{host1(func(i *v1alpha1.WindowsInstance) { i.Status.System.NodeName = "linux-1" }), node(testNode), node("linux-1")},
			events: []string{"windows-hosts/one: Warning NameNotOfInstance: " + stays + `name "linux-1" is not a name of instance windows-hosts/one.`},
		},
		{
			name: "host that calls itself as the API server", request: serving(t, "win-1", "kubernetes.default.svc"),
			others: objects{host1(func(i *v1alpha1.WindowsInstance) { i.Status.System.FQDN = "kubernetes.default.svc" })},
			events: []string{"windows-hosts/one: Warning NameNotOfInstance: " + stays + `name "kubernetes.default.svc" is not a name of instance windows-hosts/one.`},
		},
		{
			name: "asked for by somebody else", request: bootstrapping(serving(t, "win-1")), others: objects{host1()},
			events: []string{"windows-hosts/one: Warning RequesterMismatch: " + stays + `requester "system:bootstrap:abcdef" is not node win-1 itself.`},
		},
		{
			name: "first client certificate", request: bootstrapping(renewal(t)), others: objects{host1(withoutNode)},
			events: []string{"windows-hosts/one: Warning RequesterMismatch: CertificateSigningRequest csr-1 for the kubelet client certificate of node win-1 is not approved and stays pending: " +
				`requester "system:bootstrap:abcdef" is not node win-1 itself.`},
		},
		{
			name: "two instances that can be the node", request: serving(t, "win-1"),
			others: objects{
				host1(), host2(withoutNode, func(i *v1alpha1.WindowsInstance) { i.Status.System.Hostname = "WIN-1" }),
				host2(func(i *v1alpha1.WindowsInstance) { i.Name, i.Status.Node.Name = "three", testNode }), // only its kubelet says so
			},
			events: []string{
				"windows-hosts/one: Warning AmbiguousInstance: " + stays + "instances windows-hosts/one and windows-hosts/two can both be node win-1.",
				"windows-hosts/two: Warning AmbiguousInstance: " + stays + "instances windows-hosts/one and windows-hosts/two can both be node win-1.",
			},
		},
		{
			name: "beside a clone that keeps its computer name", request: renewal(t), others: objects{host1(), host2(cloned)},
			approved: "The kubelet client certificate of node win-1, requested by system:node:win-1. WindowsInstance windows-hosts/one is that host: win-1 from status.system.hostname.",
		},
		{name: "of a clone that keeps the computer name of a host which is gone", request: renewal(t), others: objects{host2(cloned)}},
		{
			name: "one of which is in a namespace that others may not see", request: serving(t, "win-1"),
			others: objects{host1(), host1(func(i *v1alpha1.WindowsInstance) { i.Namespace, i.Name = "secret", "hidden" })},
			events: []string{
				"secret/hidden: Warning AmbiguousInstance: " + stays + "instances in several namespaces can be node win-1.",
				"windows-hosts/one: Warning AmbiguousInstance: " + stays + "instances in several namespaces can be node win-1.",
			},
		},
		{
			name: "beside one of another namespace that calls itself so", request: renewal(t),
			others:   objects{host1(), host2(withoutNode, func(i *v1alpha1.WindowsInstance) { i.Namespace, i.Status.System.Hostname = "tenant", "WIN-1" })},
			approved: "The kubelet client certificate of node win-1, requested by system:node:win-1. WindowsInstance windows-hosts/one is that host: win-1 from status.system.hostname.",
		},
		{
			name: "beside one that names it, and that nobody was let in for", request: renewal(t),
			others: objects{host1(), host1(func(i *v1alpha1.WindowsInstance) {
				i.Name, i.Spec.Address, i.Status = "squatter", testNode, v1alpha1.WindowsInstanceStatus{Node: i.Status.Node}
			})},
			approved: "The kubelet client certificate of node win-1, requested by system:node:win-1. WindowsInstance windows-hosts/one is that host: win-1 from status.system.hostname.",
		},
		{
			name: "two instances, one of which is being deleted", request: renewal(t),
			others: objects{host1(), host1(func(i *v1alpha1.WindowsInstance) {
				i.Name, i.DeletionTimestamp, i.Finalizers = "gone", &metav1.Time{Time: testNow}, []string{"example.com/f"}
			})},
			approved: "The kubelet client certificate of node win-1, requested by system:node:win-1. WindowsInstance windows-hosts/one is that host: win-1 from status.system.hostname.",
		},
		{
			name: "of a host whose removal waits", request: renewal(t), others: objects{host1(deleted), nodeOf("n1")},
			approved: "The kubelet client certificate of node win-1, requested by system:node:win-1. WindowsInstance windows-hosts/one is that host: win-1 from status.system.hostname.",
		},
		{
			name: "of one whose removal was recorded, and waits", request: serving(t, "win-1"), others: objects{host1(deleted, removed(nil, nil)), nodeOf("n1")},
			approved: "The kubelet serving certificate of node win-1, requested by system:node:win-1. WindowsInstance windows-hosts/one is that host: win-1 from status.system.hostname.",
		},
		{
			name: "of one whose removal was begun, and waits", request: renewal(t),
			others: objects{host1(deleted, removed(&metav1.Time{Time: testNow}, nil), func(i *v1alpha1.WindowsInstance) {
				i.Status.Operation.Steps = []v1alpha1.OperationStep{{Name: v1alpha1.StepWaitForSlot, State: v1alpha1.StepRunning}, {Name: v1alpha1.StepDrain, State: v1alpha1.StepPending}}
			}), nodeOf("n1")},
			approved: "The kubelet client certificate of node win-1, requested by system:node:win-1. WindowsInstance windows-hosts/one is that host: win-1 from status.system.hostname.",
		},
		{
			name: "of one whose removal was canceled after it had begun, and waits again", request: renewal(t), others: objects{host1(deleted, waitsAgain(false)), nodeOf("n1")},
			approved: "The kubelet client certificate of node win-1, requested by system:node:win-1. WindowsInstance windows-hosts/one is that host: win-1 from status.system.hostname.",
		},
		{name: "of one whose removal goes on", request: renewal(t), others: objects{host1(deleted, waitsAgain(true)), nodeOf("n1")}},
		{name: "of one whose removal has begun", request: renewal(t), others: objects{host1(deleted, removed(&metav1.Time{Time: testNow}, nil)), nodeOf("n1")}},
		{name: "of one whose removal has failed half way", request: renewal(t), others: objects{host1(deleted, removed(&metav1.Time{Time: testNow}, &metav1.Time{Time: testNow})), nodeOf("n1")}},
		{name: "of one whose Node is another one", request: renewal(t), others: objects{host1(deleted), nodeOf("n2")}},
		{name: "of one that has no Node any more", request: renewal(t), others: objects{host1(deleted)}},
		{name: "of one that does not stay until its host is clean", request: renewal(t), others: objects{host1(deleted, func(i *v1alpha1.WindowsInstance) { i.Finalizers = []string{"example.com/f"} }), nodeOf("n1")}},
		{
			name: "of one whose removal waits, beside one of another namespace that calls itself so", request: renewal(t),
			others:   objects{host1(deleted), nodeOf("n1"), host2(withoutNode, func(i *v1alpha1.WindowsInstance) { i.Namespace, i.Status.System.Hostname = "tenant", "WIN-1" })},
			approved: "The kubelet client certificate of node win-1, requested by system:node:win-1. WindowsInstance windows-hosts/one is that host: win-1 from status.system.hostname.",
		},
		{
			name: "of one that another instance takes over", request: renewal(t),
			others:   objects{host1(deleted), nodeOf("n1"), host1(func(i *v1alpha1.WindowsInstance) { i.Name, i.UID = "next", "i9" })},
			approved: "The kubelet client certificate of node win-1, requested by system:node:win-1. WindowsInstance windows-hosts/next is that host: win-1 from status.system.hostname.",
		},
		{name: "nobody's", request: renewal(t), others: objects{host2()}},
		{name: "another signer", request: func() *certificatesv1.CertificateSigningRequest {
			r := renewal(t)
			r.Spec.SignerName = certificatesv1.KubeAPIServerClientSignerName
			return r
		}(), others: objects{host1()}},
		{name: "unreadable", request: func() *certificatesv1.CertificateSigningRequest {
			r := renewal(t)
			r.Spec.Request = []byte("x")
			return r
		}(), others: objects{host1()}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := newSetup(t, append(tt.others, tt.request)...)
			s.reconcile(t)
			s.reconcile(t) // the cache does not know of an approval yet; a refusal is not told twice
			var want []certificatesv1.CertificateSigningRequestCondition
			if tt.approved != "" {
				want = append(want, certificatesv1.CertificateSigningRequestCondition{
					Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue, Reason: "HostCertificateApproved", Message: tt.approved,
				})
			}
			if diff := cmp.Diff(want, s.conditions(t)); diff != "" {
				t.Errorf("conditions (-want +got)\n%s", diff)
			}
			got := s.events.take()
			slices.Sort(got)
			if diff := cmp.Diff(tt.events, got); diff != "" {
				t.Errorf("events (-want +got)\n%s", diff)
			}
		})
	}
}

// What is decided, by whomever, stays as it is.
func TestReconcileLeavesWhatIsDecided(t *testing.T) {
	request := renewal(t)
	request.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{{Type: certificatesv1.CertificateDenied, Status: corev1.ConditionTrue}}
	s := newSetup(t, host1(), request)
	s.reconcile(t)
	if got := s.kube.Actions(); len(got) > 0 {
		t.Errorf("it was written: %v", got)
	}
}

// Somebody denies or deletes the request between the decision and the approval.
func TestApprovalThatComesTooLate(t *testing.T) {
	group := certificatesv1.Resource("certificatesigningrequests")
	t.Run("denied", func(t *testing.T) {
		approvalThatComesTooLate(t, apierrors.NewConflict(group, testRequest, errors.New("the object has been modified")))
	})
	t.Run("deleted", func(t *testing.T) { approvalThatComesTooLate(t, apierrors.NewNotFound(group, testRequest)) })
}

func approvalThatComesTooLate(t *testing.T, answer error) {
	t.Helper()
	request := renewal(t)
	request.ResourceVersion = "7"
	s := newSetup(t, host1(), request)
	var sent string
	s.kube.PrependReactor("update", "certificatesigningrequests", func(a clienttesting.Action) (bool, runtime.Object, error) {
		if update, ok := a.(clienttesting.UpdateAction); ok && a.GetSubresource() == "approval" {
			sent = update.GetObject().(*certificatesv1.CertificateSigningRequest).ResourceVersion //nolint:forcetypeassert // nothing else is updated
		}
		return true, nil, answer
	})
	if result := s.reconcile(t); result != (reconcile.Result{}) {
		t.Errorf("it is tried again by itself: %v", result)
	}
	if sent != "7" {
		t.Errorf("the approval is for version %q, want that which was decided about", sent)
	}
	if n := testutil.ToFloat64(s.decisions.WithLabelValues("KubeletClient", "Approve", "HostCertificateApproved")) + testutil.ToFloat64(s.decisions.WithLabelValues("KubeletServing", "Approve", "HostCertificateApproved")); n != 0 {
		t.Errorf("%v approvals are counted", n)
	}
}

func TestApprovalThatFails(t *testing.T) {
	s := newSetup(t, host1(), renewal(t))
	s.kube.PrependReactor("update", "certificatesigningrequests", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewForbidden(certificatesv1.Resource("signers"), "x", nil)
	})
	_, err := s.Reconcile(t.Context(), reconcile.Request{NamespacedName: types.NamespacedName{Name: testRequest}})
	if !apierrors.IsForbidden(err) {
		t.Errorf("got %v", err)
	}
}

// Instances that came from Machines stay when the Machine API is removed.
func TestWithoutMachineAPI(t *testing.T) {
	s := newSetup(t, host1(fromMachine), serving(t, "10.0.0.5"))
	s.client = interceptor.NewClient(s.client.(client.WithWatch), interceptor.Funcs{ //nolint:forcetypeassert // the fake is one
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object, o ...client.GetOption) error {
			if _, ok := object.(*machinev1beta1.Machine); ok {
				return &meta.NoKindMatchError{GroupKind: schema.GroupKind{Group: machinev1beta1.GroupName, Kind: "Machine"}}
			}
			return c.Get(ctx, key, object, o...)
		},
	})
	s.reconcile(t)
	if got := s.conditions(t); len(got) != 1 {
		t.Errorf("it is not approved: %q", s.events.take())
	}
}

// A request that is refused is decided again, and told of only when it is old enough
// and when there is something new to tell.
func TestRefusalIsReconsidered(t *testing.T) {
	request := serving(t, "win-1", "10.0.0.9")
	request.CreationTimestamp = metav1.NewTime(testNow.Add(-time.Second))
	instance := host1(func(i *v1alpha1.WindowsInstance) { i.Status.Node = nil })
	s := newSetup(t, instance, request)

	if got, want := s.reconcile(t).RequeueAfter, patience-time.Second; got != want {
		t.Errorf("a new request is decided again after %s, want %s", got, want)
	}
	if got := s.events.take(); len(got) > 0 {
		t.Errorf("told too early: %q", got)
	}
	update := func(change func(*v1alpha1.WindowsInstance)) {
		t.Helper()
		change(instance)
		if err := s.client.Update(t.Context(), instance); err != nil {
			t.Fatal(err)
		}
	}
	expect := func(reason string) {
		t.Helper()
		if got := s.reconcile(t).RequeueAfter; got != reconsiderInterval {
			t.Errorf("it is decided again after %s, want %s", got, reconsiderInterval)
		}
		events := s.events.take()
		if reason == "" && len(events) > 0 || reason != "" && (len(events) != 1 || !strings.Contains(events[0], " "+reason+": ")) {
			t.Errorf("got events %q, want %q", events, reason)
		}
	}
	s.clock.SetTime(testNow.Add(patience))
	expect("NodeMissing")
	expect("")
	update(func(i *v1alpha1.WindowsInstance) {
		i.Status.Node = &v1alpha1.NodeReference{Name: testNode}
	})
	expect("AddressNotOfInstance")
	expect("")
	update(func(i *v1alpha1.WindowsInstance) { i.Status.Addresses = []string{"10.0.0.5", "10.0.0.9"} })
	s.reconcile(t)
	if got := s.conditions(t); len(got) != 1 || got[0].Type != certificatesv1.CertificateApproved {
		t.Errorf("it is not approved: %v", got)
	}
	for reason, want := range map[string]float64{"NodeMissing": 1, "AddressNotOfInstance": 1} {
		if got := testutil.ToFloat64(s.decisions.WithLabelValues("KubeletServing", "Refuse", reason)); got != want {
			t.Errorf("%s is counted %v times, want %v", reason, got, want)
		}
	}
	if got := testutil.ToFloat64(s.decisions.WithLabelValues("KubeletServing", "Approve", "HostCertificateApproved")); got != 1 {
		t.Errorf("approvals are counted %v times, want once", got)
	}
	if got, want := testutil.CollectAndCount(s.decisions), testutil.CollectAndCount(newDecisions(nil)); got != want || want == 0 {
		t.Errorf("a decision was not counted from the beginning: there are %d counters, %d before", got, want)
	}
}

// What was told of a request is not kept for longer than the request.
func TestRequestsAreForgotten(t *testing.T) {
	request := serving(t, "10.0.0.9")
	s := newSetup(t, host1(), request)
	s.reconcile(t)
	if len(s.told) != 1 {
		t.Fatalf("%d requests are told of, want 1", len(s.told))
	}
	if err := s.client.Delete(t.Context(), request); err != nil {
		t.Fatal(err)
	}
	s.reconcile(t)
	if len(s.told) != 0 {
		t.Errorf("%d requests are kept", len(s.told))
	}
}

// Nor than there is an instance that it is about.
func TestRequestsOfNobodyAreForgotten(t *testing.T) {
	instance := host1()
	s := newSetup(t, instance, serving(t, "10.0.0.9"))
	s.reconcile(t)
	if len(s.told) != 1 {
		t.Fatalf("%d requests are told of, want 1", len(s.told))
	}
	if err := s.client.Delete(t.Context(), instance); err != nil {
		t.Fatal(err)
	}
	if result := s.reconcile(t); len(s.told) != 0 || result != (reconcile.Result{}) {
		t.Errorf("%d requests are kept, and decided again: %v", len(s.told), result)
	}
}

// Instances are read only for requests that they matter to; that they cannot be read is an error.
func TestReconcileReadsInstances(t *testing.T) {
	unreadable := renewal(t)
	unreadable.Spec.Request = []byte("x")
	for _, tt := range []struct {
		name    string
		request *certificatesv1.CertificateSigningRequest
		want    bool
	}{{"of a node", renewal(t), true}, {"unreadable", unreadable, false}} {
		t.Run(tt.name, func(t *testing.T) {
			s := newSetup(t, tt.request)
			cause := errors.New("no cache")
			s.client = interceptor.NewClient(s.client.(client.WithWatch), interceptor.Funcs{ //nolint:forcetypeassert // the fake is one
				List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error { return cause },
			})
			_, err := s.Reconcile(t.Context(), reconcile.Request{NamespacedName: types.NamespacedName{Name: testRequest}})
			if errors.Is(err, cause) != tt.want {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestChangesOfRequestsThatMatter(t *testing.T) {
	other, decided := renewal(t), renewal(t)
	other.Spec.SignerName = "example.com/signer"
	decided.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{{Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue}}
	for _, tt := range []struct {
		name    string
		request client.Object
		want    bool
	}{{"pending", renewal(t), true}, {"another signer", other, false}, {"decided", decided, false}, {"something else", node("n"), false}} {
		if got := pending.Create(event.CreateEvent{Object: tt.request}); got != tt.want {
			t.Errorf("%s: created: %v", tt.name, got)
		}
		if got := pending.Delete(event.DeleteEvent{Object: tt.request}); got != tt.want {
			t.Errorf("%s: deleted: %v", tt.name, got)
		}
		if got := pending.Update(event.UpdateEvent{ObjectOld: tt.request, ObjectNew: decided}); got != tt.want {
			t.Errorf("%s, and then decided: %v", tt.name, got)
		}
		if got := pending.Update(event.UpdateEvent{ObjectOld: decided, ObjectNew: tt.request}); got != tt.want {
			t.Errorf("decided, and then %s: %v", tt.name, got)
		}
	}
	for _, e := range []event.UpdateEvent{{ObjectOld: node("n"), ObjectNew: host1()}, {ObjectOld: host1(), ObjectNew: node("n")}} {
		if identityChanged.Update(e) {
			t.Error("something else is taken for an instance")
		}
	}
}

func TestChangesOfInstancesThatMatter(t *testing.T) {
	tests := []struct {
		name string
		edit func(*v1alpha1.WindowsInstance)
		want bool
	}{
		{name: "nothing", edit: func(*v1alpha1.WindowsInstance) {}},
		{name: "another phase", edit: func(i *v1alpha1.WindowsInstance) { i.Status.Phase = v1alpha1.InstanceReady }},
		{name: "restarted", edit: func(i *v1alpha1.WindowsInstance) { i.Status.System.BootTime = &metav1.Time{Time: testNow} }},
		{name: "address", edit: func(i *v1alpha1.WindowsInstance) { i.Spec.Address = "10.0.0.7" }, want: true},
		{name: "addresses", edit: func(i *v1alpha1.WindowsInstance) { i.Status.Addresses = []string{"10.0.0.7"} }, want: true},
		{name: "host name", edit: func(i *v1alpha1.WindowsInstance) { i.Status.System.Hostname = "x" }, want: true},
		{name: "domain", edit: func(i *v1alpha1.WindowsInstance) { i.Status.System.FQDN = "x" }, want: true},
		{name: "name of its platform", edit: func(i *v1alpha1.WindowsInstance) { i.Status.System.NodeName = "p" }, want: true},
		{name: "Node", edit: func(i *v1alpha1.WindowsInstance) { i.Status.Node = nil }, want: true},
		{name: "Machine", edit: fromMachine, want: true},
		{name: "left to WMCO", edit: leftToWMCO, want: true},
		{name: "its name is that of another host", edit: func(i *v1alpha1.WindowsInstance) {
			i.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionPreflightPassed, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonHostnameTaken}}
		}, want: true},
		{name: "being deleted", edit: func(i *v1alpha1.WindowsInstance) { i.DeletionTimestamp = &metav1.Time{Time: testNow} }, want: true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := identityChanged.Update(event.UpdateEvent{ObjectOld: host1(), ObjectNew: host1(tt.edit)}); got != tt.want {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}

// An instance that changes has the requests decided again that are pending.
func TestPendingRequests(t *testing.T) {
	decided, other := renewal(t), renewal(t)
	decided.Name, other.Name = "decided", "other"
	decided.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{{Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue}}
	other.Spec.SignerName = "example.com/signer"
	s := newSetup(t, renewal(t), decided, other)
	got := s.pendingRequests(t.Context(), host1())
	want := []reconcile.Request{{NamespacedName: types.NamespacedName{Name: testRequest}}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// The cache keeps of requests what they are decided by, and all of those that are
// written back.
func TestStrip(t *testing.T) {
	full := renewal(t)
	full.Annotations = map[string]string{"a": "b"}
	full.Spec.Extra = map[string]certificatesv1.ExtraValue{"a": {"b"}}
	bare := full.DeepCopy()
	bare.Annotations, bare.Spec.Request, bare.Spec.Extra, bare.Spec.Groups = nil, nil, nil, nil
	with := func(request *certificatesv1.CertificateSigningRequest, certificate string, conditions ...certificatesv1.CertificateSigningRequestCondition) *certificatesv1.CertificateSigningRequest {
		out := request.DeepCopy()
		out.Status.Conditions = conditions
		if certificate != "" {
			out.Status.Certificate = []byte(certificate)
		}
		return out
	}
	approved := certificatesv1.CertificateSigningRequestCondition{Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue}
	tests := []struct {
		name        string
		given, want *certificatesv1.CertificateSigningRequest
	}{
		{"pending", full, full},
		{"approved", with(full, "certificate", approved), with(bare, "", approved)},
		{"issued without a condition", with(full, "certificate"), with(bare, "certificate")},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			given := tt.given.DeepCopy()
			given.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "x"}}
			got, err := strip(given)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(any(tt.want), got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
	if got, err := strip("a tombstone"); got != "a tombstone" || err != nil {
		t.Errorf("something else became %v, %v", got, err)
	}
}

// awaited is a Resolver that is looking a name up.
type awaited struct{}

func (awaited) LookupNetIP(context.Context, string, string) ([]netip.Addr, error) {
	return nil, identity.ErrLookingUp
}

// TestNameIsAwaited: nothing is decided, or told, while the name of the Node is looked up; then it is at once.
func TestNameIsAwaited(t *testing.T) {
	const name = "ip-10-0-0-5.ec2.internal"
	request := servingAs(t, name, "10.0.0.5")
	request.CreationTimestamp = metav1.NewTime(testNow.Add(-time.Hour))
	s := newSetup(t, host1(func(i *v1alpha1.WindowsInstance) { i.Status.Node.Name = name }),
		&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: "n1"}}, request)
	known := s.resolver
	s.resolver = awaited{}
	if got := s.reconcile(t).RequeueAfter; got != identity.RetryLookup {
		t.Errorf("it is decided again after %s", got)
	}
	if events := s.events.take(); len(events) > 0 {
		t.Errorf("told too early: %q", events)
	}
	s.resolver = known
	if got := s.reconcile(t); got != (reconcile.Result{}) {
		t.Errorf("it is not approved: %+v, %q", got, s.events.take())
	}
}
