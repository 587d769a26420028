// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package csr

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/controller/csr/identity"
)

// newIssuer is an issuer in a cluster whose signer signs what is approved.
func newIssuer(t *testing.T, objects ...client.Object) (*Issuer, *setup) {
	t.Helper()
	s := newSetup(t, objects...)
	s.kube.PrependReactor("create", "certificatesigningrequests", func(action clienttesting.Action) (bool, runtime.Object, error) {
		request := action.(clienttesting.CreateAction).GetObject().(*certificatesv1.CertificateSigningRequest)
		request.Name, request.UID = testRequest, "u1" // as the API server does
		return false, nil, nil
	})
	s.kube.PrependReactor("update", "certificatesigningrequests", func(action clienttesting.Action) (bool, runtime.Object, error) {
		request := action.(clienttesting.UpdateAction).GetObject().(*certificatesv1.CertificateSigningRequest)
		request.Status.Certificate = sign(t, request)
		return false, nil, nil
	})
	i := NewIssuer(s.Reconciler.client, s.kube, homeNamespace)
	i.resolver = s.Reconciler.resolver
	return i, s
}

// sign issues what a request asks for, as the signer of a cluster does.
func sign(t *testing.T, request *certificatesv1.CertificateSigningRequest) []byte {
	t.Helper()
	block, _ := pem.Decode(request.Spec.Request)
	parsed, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	ca := &x509.Certificate{Subject: pkix.Name{CommonName: "kubernetes"}}
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: parsed.Subject, NotBefore: time.Now(),
		NotAfter: time.Now().Add(time.Duration(*request.Spec.ExpirationSeconds) * time.Second),
	}, ca, parsed.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

// A host joins with a certificate of the node that it says it is, if it may be that node.
func TestIssue(t *testing.T) {
	type objects = []client.Object
	fresh := func(i *v1alpha1.WindowsInstance) { i.Status.Node = nil }
	known := func(i *v1alpha1.WindowsInstance) { i.Status.MachineID = "firmware-1/windows-1" }
	tests := []struct {
		name string
		// joins is the instance whose host joins, as testNode.
		joins  *v1alpha1.WindowsInstance
		others objects
		// want is a part of why it may not. Empty: it gets a certificate.
		want string
	}{
		{name: "for the first time", joins: host1(fresh)},
		{name: "beside another host", joins: host1(fresh), others: objects{host2(fresh)}},
		{name: "called as the metadata service of its platform says", joins: host1(fresh, func(i *v1alpha1.WindowsInstance) {
			i.Status.System.Hostname, i.Status.System.FQDN = "EC2AMAZ-1", "EC2AMAZ-1"
		})},
		{name: "again, when it has lost its certificate", joins: host1(), others: objects{lost("n1", "10.0.0.5")}},
		{
			name: "again, while a kubelet reports for the node", joins: host1(), others: objects{alive(lost("n1", "10.0.0.5"), corev1.ConditionTrue)},
			want: "a kubelet reports for Node win-1",
		},
		{
			name: "again, while a kubelet reports that the node is not ready", joins: host1(), others: objects{alive(lost("n1", "10.0.0.5"), corev1.ConditionFalse)},
			want: "a kubelet reports for Node win-1",
		},
		{name: "as a node at another address", joins: host1(), others: objects{lost("n1", "10.0.0.6")}, want: "does not report an address that the host is known to have"},
		{name: "again, at another address, by its machine", joins: host1(known), others: objects{lost("n1", "10.0.0.6")}},
		{
			name: "at another address, as a node that another host has made since", joins: host1(known), others: objects{lost("n2", "10.0.0.6")},
			want: "there is a Node of that name",
		},
		{name: "as a node that another host has made since", joins: host1(), others: objects{lost("n2", "10.0.0.5")}, want: "there is a Node of that name"},
		{
			name: "under the name of a node that is another host", joins: host1(fresh), others: objects{node(testNode)},
			want: "rename the host, or delete the Node if it is a left-over",
		},
		{
			name: "under the name of a Machine", joins: host1(fresh), others: objects{machine("win-1.example.com", "10.0.0.9")},
			want: "that is the name of Machine windows-hosts/machine-1",
		},
		{
			name: "under the name of its Machine, which a host of another namespace says, too", joins: host1(fresh, fromMachine),
			others: objects{machine("win-1"), host2(fresh, alsoNamed, func(i *v1alpha1.WindowsInstance) { i.Namespace = "tenant" })},
		},
		{name: "under the name of its Machine", joins: host1(fresh, fromMachine), others: objects{machine("win-1")}},
		{name: "under the name of the Machine at its address", joins: host1(fresh), others: objects{machine("win-1", "10.0.0.5")}},
		{name: "beside another Machine", joins: host1(fresh), others: objects{machine("win-2", "10.0.0.9")}},
		{
			name: "under the name of a Machine whose Node is another one", joins: host1(fresh), others: objects{func() client.Object {
				m := machine("10.0.0.9")
				m.Status.NodeRef = &corev1.ObjectReference{Name: testNode}
				return m
			}()}, want: "that is the name of Machine",
		},
		{
			name: "under a name that another host of the namespace has", joins: host1(fresh), others: objects{host2(fresh, alsoNamed)},
			want: "WindowsInstance two can be Node win-1, too",
		},
		{
			name: "under a name that a host in another namespace has", joins: host1(fresh),
			others: objects{host2(fresh, alsoNamed, func(i *v1alpha1.WindowsInstance) { i.Namespace = "tenant" })}, want: "instances in several namespaces can be node win-1",
		},
		{
			name: "under a name that a host of the operator is to have", joins: host2(fresh, alsoNamed),
			others: objects{host1(fresh, func(i *v1alpha1.WindowsInstance) {
				i.Namespace, i.Spec.Address, i.Status = homeNamespace, testNode, v1alpha1.WindowsInstanceStatus{}
			})},
			want: "instances in several namespaces can be node win-1",
		},
		{
			name: "of the operator, under a name that a host elsewhere has", joins: host1(fresh, func(i *v1alpha1.WindowsInstance) { i.Namespace = homeNamespace }),
			others: objects{host2(fresh, alsoNamed)},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			i, s := newIssuer(t, append(tt.others, tt.joins)...)
			got, err := i.Issue(t.Context(), tt.joins, testNode)
			if tt.want != "" {
				if err == nil || !strings.Contains(err.Error(), tt.want) {
					t.Errorf("got %v, want %q", err, tt.want)
				}
				if slices.ContainsFunc(s.kube.Actions(), func(a clienttesting.Action) bool { return a.GetVerb() == "create" }) {
					t.Error("a certificate was requested all the same")
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			pair, err := tls.X509KeyPair(got.Certificate, got.Key)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(pkix.Name{CommonName: "system:node:win-1", Organization: []string{"system:nodes"}}.String(), pair.Leaf.Subject.String()); diff != "" {
				t.Errorf("whose certificate it is (-want +got)\n%s", diff)
			}
			if lifetime := pair.Leaf.NotAfter.Sub(pair.Leaf.NotBefore); lifetime > time.Hour {
				t.Errorf("it is good for %s", lifetime)
			}
			want := []certificatesv1.CertificateSigningRequestCondition{{
				Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue, Reason: "HostJoins",
				Message: "WindowsInstance " + client.ObjectKeyFromObject(tt.joins).String() + " joins the cluster with it, as Node win-1.",
			}}
			if diff := cmp.Diff(want, s.conditions(t)); diff != "" {
				t.Errorf("approval (-want +got)\n%s", diff)
			}
			again, err := i.Issue(t.Context(), tt.joins, testNode)
			if err != nil || again != got {
				t.Errorf("asked again it is another one, %v", err)
			}
		})
	}
}

// A Node may have the name of its Machine with the DNS suffix of its host: nobody else becomes it.
func TestIssueUnderTheFullNameOfAMachine(t *testing.T) {
	const name = "machine-1.corp.example.com"
	theirs := func(i *v1alpha1.WindowsInstance) {
		i.Status.Node, i.Namespace = nil, "tenant"
		i.Status.System.Hostname, i.Status.System.FQDN = "machine-1", name
	}
	i, _ := newIssuer(t, host1(theirs), machine("10.0.0.9"))
	if _, err := i.Issue(t.Context(), host1(theirs), name); err == nil || !strings.Contains(err.Error(), "that is the name of Machine windows-hosts/machine-1") {
		t.Errorf("got %v, want a refusal", err)
	}
}

// A host that is not configured for long gets another certificate, before the one that it has expires.
func TestIssueAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i, s := newIssuer(t, host1(func(i *v1alpha1.WindowsInstance) { i.Status.Node = nil }))
		i.clock = clock.RealClock{} // of the bubble
		issue := func() string {
			got, err := i.Issue(t.Context(), host1(), testNode)
			if err != nil {
				t.Fatal(err)
			}
			if err := s.kube.Tracker().Delete(certificatesv1.SchemeGroupVersion.WithResource("certificatesigningrequests"), "", testRequest); err != nil && s.kube.Actions() == nil {
				t.Fatal(err)
			}
			return string(got.Certificate)
		}
		first := issue()
		time.Sleep(joinLifetime/2 - time.Second) //nolint:forbidigo // the time of the bubble
		if issue() != first {
			t.Error("it gets another one although that which it has is good")
		}
		time.Sleep(2 * time.Second) //nolint:forbidigo // the time of the bubble
		if issue() == first {
			t.Error("it gets one that expires soon")
		}
	})
}

// While kube-controller-manager of OpenShift has no leader, nobody signs for more than two minutes.
func TestIssueWaitsForTheSigner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i, s := newIssuer(t, host1(func(i *v1alpha1.WindowsInstance) { i.Status.Node = nil }))
		s.kube.ReactionChain = slices.Delete(s.kube.ReactionChain, 0, 1) // the signer
		s.kube.PrependReactor("update", "certificatesigningrequests", func(action clienttesting.Action) (bool, runtime.Object, error) {
			request := action.(clienttesting.UpdateAction).GetObject().(*certificatesv1.CertificateSigningRequest).DeepCopy()
			time.AfterFunc(137*time.Second+30*time.Second, func() {
				request.Status.Certificate = sign(t, request)
				if err := s.kube.Tracker().Update(certificatesv1.SchemeGroupVersion.WithResource("certificatesigningrequests"), request, ""); err != nil {
					t.Error(err)
				}
			})
			return false, nil, nil
		})
		began := time.Now()
		if _, err := i.Issue(t.Context(), host1(), testNode); err != nil || time.Since(began) < 137*time.Second {
			t.Errorf("after %s: %v", time.Since(began), err)
		}
	})
}

// What the cluster does with the request is told.
func TestIssueFails(t *testing.T) {
	for name, tt := range map[string]struct {
		react clienttesting.ReactionFunc
		want  string
	}{
		"nobody signs": {func(action clienttesting.Action) (bool, runtime.Object, error) { return false, nil, nil }, "was not signed within 3m: see whether kube-controller-manager runs"},
		"it is denied": {func(action clienttesting.Action) (bool, runtime.Object, error) {
			request := action.(clienttesting.UpdateAction).GetObject().(*certificatesv1.CertificateSigningRequest)
			request.Status.Conditions = append(request.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{Type: certificatesv1.CertificateDenied, Reason: "Policy", Message: "not on Mondays"})
			return false, nil, nil
		}, "not on Mondays"},
		"it may not be approved": {func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, errors.New("forbidden") }, "approving CertificateSigningRequest csr-1: forbidden"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				i, s := newIssuer(t, host1(func(i *v1alpha1.WindowsInstance) { i.Status.Node = nil }))
				s.kube.ReactionChain = slices.Delete(s.kube.ReactionChain, 0, 1) // the signer
				s.kube.PrependReactor("update", "certificatesigningrequests", tt.react)
				if _, err := i.Issue(t.Context(), host1(), testNode); err == nil || !strings.Contains(err.Error(), tt.want) {
					t.Errorf("got %v, want %q", err, tt.want)
				}
			})
		})
	}
}

// slowDNS has not answered yet for some times.
type slowDNS struct{ left int }

func (d *slowDNS) LookupNetIP(context.Context, string, string) ([]netip.Addr, error) {
	if d.left--; d.left >= 0 {
		return nil, identity.ErrLookingUp
	}
	return nil, nil
}

// Names that are looked up meanwhile are waited for.
func TestIssueWaitsForDNS(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i, _ := newIssuer(t, host1(func(i *v1alpha1.WindowsInstance) { i.Status.Node = nil }), host2(func(i *v1alpha1.WindowsInstance) {
			i.Status.Node.Name = "win-1.example.com"
		}))
		resolver := &slowDNS{left: 2}
		i.resolver = resolver
		if _, err := i.Issue(t.Context(), host1(func(i *v1alpha1.WindowsInstance) { i.Status.Node = nil }), "win-1.example.com"); err != nil || resolver.left >= 0 {
			t.Errorf("got %v, %d answers are left", err, resolver.left)
		}
	})
}

// alsoNamed is a host with the name of another one.
func alsoNamed(i *v1alpha1.WindowsInstance) { i.Status.System.Hostname = "WIN-1" }

// lost is a Node whose kubelet does not report any more.
func lost(uid types.UID, address string) *corev1.Node {
	n := node(testNode)
	n.UID = uid
	n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: address}, {Type: corev1.NodeHostName, Address: testNode}}
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionUnknown}}
	return n
}

func alive(n *corev1.Node, ready corev1.ConditionStatus) *corev1.Node {
	n.Status.Conditions[0].Status = ready
	return n
}
