// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package csr

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
)

// A host gets its first client certificate with the token that it was given, and with
// nothing else.
func TestJoining(t *testing.T) {
	type objects = []client.Object
	joining := func(i *v1alpha1.WindowsInstance) { i.Status.Node = nil }
	known := func(i *v1alpha1.WindowsInstance) { i.Status.MachineID = "firmware-1/windows-1" }
	as := func(request *certificatesv1.CertificateSigningRequest, user string) *certificatesv1.CertificateSigningRequest {
		request = bootstrapping(request)
		request.Spec.Username = user
		return request
	}
	tests := []struct {
		name    string
		request *certificatesv1.CertificateSigningRequest
		others  objects
		// users are whom hosts may join as, by instance.
		users  map[string]string
		reason string // of the event; empty: there is none
		// message is a part of it.
		message string
		want    bool // whether it is approved
	}{
		{
			name: "its own token", request: bootstrapping(renewal(t)), others: objects{host1(joining)},
			users: map[string]string{"one": "system:bootstrap:abcdef"}, want: true,
		},
		{
			name: "beside another host that joins", request: bootstrapping(renewal(t)), others: objects{host1(joining), host2(joining)},
			users: map[string]string{"one": "system:bootstrap:abcdef", "two": "system:bootstrap:ghijkl"}, want: true,
		},
		{
			name: "again, when it has lost its certificate", request: bootstrapping(renewal(t)), others: objects{host1(), lost("n1", "10.0.0.5")},
			users: map[string]string{"one": "system:bootstrap:abcdef"}, want: true,
		},
		{
			name: "again, without a token", request: bootstrapping(renewal(t)), others: objects{host1(), lost("n1", "10.0.0.5")}, reason: "NotJoining",
		},
		{
			name: "again, while a kubelet reports for the node", request: bootstrapping(renewal(t)), others: objects{host1(), alive(lost("n1", "10.0.0.5"), corev1.ConditionTrue)},
			users: map[string]string{"one": "system:bootstrap:abcdef"}, reason: "NodeReporting",
		},
		{
			name: "again, while a kubelet reports that the node is not ready", request: bootstrapping(renewal(t)), others: objects{host1(), alive(lost("n1", "10.0.0.5"), corev1.ConditionFalse)},
			users: map[string]string{"one": "system:bootstrap:abcdef"}, reason: "NodeReporting",
		},
		{
			name: "as a node at another address", request: bootstrapping(renewal(t)), others: objects{host1(), lost("n1", "10.0.0.6")},
			users: map[string]string{"one": "system:bootstrap:abcdef"}, reason: "NodeElsewhere",
		},
		{
			name: "again, at another address, by its machine", request: bootstrapping(renewal(t)), others: objects{host1(known), lost("n1", "10.0.0.6")},
			users: map[string]string{"one": "system:bootstrap:abcdef"}, want: true,
		},
		{
			name: "at another address, as a node that another host has made since", request: bootstrapping(renewal(t)), others: objects{host1(known), lost("n2", "10.0.0.6")},
			users: map[string]string{"one": "system:bootstrap:abcdef"}, reason: "NodeNameTaken",
		},
		{
			name: "as a node that another host has made since", request: bootstrapping(renewal(t)), others: objects{host1(), lost("n2", "10.0.0.5")},
			users: map[string]string{"one": "system:bootstrap:abcdef"}, reason: "NodeNameTaken",
		},
		{
			name: "as a node that only says that it is the host", request: bootstrapping(renewal(t)), others: objects{host1(unnamed), lost("n1", "10.0.0.5")},
			users: map[string]string{"one": "system:bootstrap:abcdef"}, reason: "NodeNameUnknown",
		},
		{
			name: "the token of another host", request: bootstrapping(renewal(t)), others: objects{host1(joining), host2(joining)},
			users: map[string]string{"one": "system:bootstrap:ghijkl", "two": "system:bootstrap:abcdef"}, reason: "RequesterMismatch",
		},
		{
			name: "a token that is not valid any more", request: bootstrapping(renewal(t)), others: objects{host1(joining)}, reason: "NotJoining",
		},
		{
			name: "somebody who is no bootstrapper", request: as(renewal(t), "system:serviceaccount:a:b"), others: objects{host1(joining)},
			users: map[string]string{"one": "system:bootstrap:abcdef"}, reason: "NotJoining",
		},
		{
			name: "to serve", request: bootstrapping(serving(t, "win-1")), others: objects{host1()},
			users: map[string]string{"one": "system:bootstrap:abcdef"}, reason: "RequesterMismatch",
		},
		{
			name: "under the name of a node that is another host", request: bootstrapping(renewal(t)), others: objects{host1(joining), node(testNode)},
			users: map[string]string{"one": "system:bootstrap:abcdef"}, reason: "NodeNameTaken", message: "rename the host, or delete the Node if it is a left-over",
		},
		{
			name: "under such a name, for something else", others: objects{host1(joining), node(testNode)},
			request: func() *certificatesv1.CertificateSigningRequest {
				r := bootstrapping(renewal(t))
				r.Spec.Usages = append(r.Spec.Usages, certificatesv1.UsageServerAuth)
				return r
			}(),
			users: map[string]string{"one": "system:bootstrap:abcdef"}, reason: "UsagesMismatch",
		},
		{
			name: "under such a name, without a token", request: bootstrapping(renewal(t)), others: objects{host1(joining), node(testNode)}, reason: "NotJoining",
		},
		{
			name: "under a name that nobody has", request: bootstrapping(renewal(t)), others: objects{host2(joining)},
			users: map[string]string{"two": "system:bootstrap:abcdef"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := newSetup(t, append(tt.others, tt.request)...)
			s.Bootstrappers = func(_ context.Context, instance *v1alpha1.WindowsInstance) ([]string, error) {
				if user, ok := tt.users[instance.Name]; ok {
					return []string{user}, nil
				}
				return nil, nil
			}
			s.reconcile(t)
			if got := len(s.conditions(t)) == 1; got != tt.want {
				t.Errorf("approved: %v, want %v", got, tt.want)
			}
			var reasons []string
			for _, event := range s.events.take() {
				_, after, _ := strings.Cut(event, "Warning ")
				reason, _, _ := strings.Cut(after, ":")
				reasons = append(reasons, reason)
				if !strings.Contains(event, tt.message) {
					t.Errorf("the event does not say %q: %s", tt.message, event)
				}
			}
			if diff := cmp.Diff(tt.reason, strings.Join(reasons, " ")); diff != "" {
				t.Errorf("reasons (-want +got)\n%s", diff)
			}
		})
	}
}

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

// unnamed is a host that does not call itself by the name of its Node.
func unnamed(i *v1alpha1.WindowsInstance) { i.Status.System = nil }

// Whom a host may join as is looked up only for requests that it matters to.
func TestBootstrappersAreAskedRarely(t *testing.T) {
	disputed := host2(func(i *v1alpha1.WindowsInstance) { i.Name, i.Status.Node.Name = "disputed", testNode })
	for _, request := range []*certificatesv1.CertificateSigningRequest{renewal(t), serving(t, "win-1"), bootstrapping(serving(t, "win-1"))} {
		s := newSetup(t, host1(), host2(), request)
		s.Bootstrappers = func(_ context.Context, instance *v1alpha1.WindowsInstance) ([]string, error) {
			t.Errorf("instance %s is asked about for %s", instance.Name, request.Spec.SignerName)
			return nil, nil
		}
		s.reconcile(t)
	}
	s := newSetup(t, host1(), host2(), disputed, bootstrapping(renewal(t)))
	s.Bootstrappers = func(_ context.Context, instance *v1alpha1.WindowsInstance) ([]string, error) {
		if instance.Name != "one" {
			t.Errorf("instance %s is asked about", instance.Name)
		}
		return nil, errors.New("the API server is away")
	}
	_, err := s.Reconcile(t.Context(), reconcile.Request{NamespacedName: types.NamespacedName{Name: testRequest}})
	if err == nil || !strings.Contains(err.Error(), "windows-hosts/one") {
		t.Errorf("got %v, want an error about the instance", err)
	}
}
