// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package csr

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
)

// A host gets its first client certificate with the token that it was given, and with
// nothing else.
func TestJoining(t *testing.T) {
	type objects = []client.Object
	fresh := func(i *v1alpha1.WindowsInstance) { i.Status.Node = nil }
	known := func(i *v1alpha1.WindowsInstance) { i.Status.MachineID = "firmware-1/windows-1" }
	as := func(request *certificatesv1.CertificateSigningRequest, user string) *certificatesv1.CertificateSigningRequest {
		request = bootstrapping(request)
		request.Spec.Username = user
		return request
	}
	of := func(request *certificatesv1.CertificateSigningRequest, uid string) *certificatesv1.CertificateSigningRequest {
		request = bootstrapping(request)
		request.Spec.Groups[2] = "system:bootstrappers:windows-instances:" + uid
		return request
	}
	over := func(i *v1alpha1.WindowsInstance) { i.Status.Operation.Phase = v1alpha1.OperationFailed }
	tests := []struct {
		name    string
		request *certificatesv1.CertificateSigningRequest
		others  objects
		reason  string // of the event; empty: there is none
		// message is a part of it.
		message string
		want    bool // whether it is approved
	}{
		{
			name: "its own token", request: bootstrapping(renewal(t)), others: objects{host1(fresh, joins)},
			want: true,
		},
		{
			name: "beside another host that joins", request: bootstrapping(renewal(t)), others: objects{host1(fresh, joins), host2(fresh, joins)},
			want: true,
		},
		{
			name: "again, when it has lost its certificate", request: bootstrapping(renewal(t)), others: objects{host1(joins), lost("n1", "10.0.0.5")},
			want: true,
		},
		{
			name: "again, without a token", request: bootstrapping(renewal(t)), others: objects{host1(), lost("n1", "10.0.0.5")}, reason: "NotJoining",
		},
		{
			name: "again, while a kubelet reports for the node", request: bootstrapping(renewal(t)), others: objects{host1(joins), alive(lost("n1", "10.0.0.5"), corev1.ConditionTrue)},
			reason: "NodeReporting",
		},
		{
			name: "again, while a kubelet reports that the node is not ready", request: bootstrapping(renewal(t)), others: objects{host1(joins), alive(lost("n1", "10.0.0.5"), corev1.ConditionFalse)},
			reason: "NodeReporting",
		},
		{
			name: "as a node at another address", request: bootstrapping(renewal(t)), others: objects{host1(joins), lost("n1", "10.0.0.6")},
			reason: "NodeElsewhere",
		},
		{
			name: "again, at another address, by its machine", request: bootstrapping(renewal(t)), others: objects{host1(known, joins), lost("n1", "10.0.0.6")},
			want: true,
		},
		{
			name: "at another address, as a node that another host has made since", request: bootstrapping(renewal(t)), others: objects{host1(known, joins), lost("n2", "10.0.0.6")},
			reason: "NodeNameTaken",
		},
		{
			name: "as a node that another host has made since", request: bootstrapping(renewal(t)), others: objects{host1(joins), lost("n2", "10.0.0.5")},
			reason: "NodeNameTaken",
		},
		{
			name: "as a node that only says that it is the host", request: bootstrapping(renewal(t)), others: objects{host1(unnamed, joins), lost("n1", "10.0.0.5")},
			reason: "NodeNameUnknown",
		},
		{
			name: "the token of another host", request: of(renewal(t), "i2"), others: objects{host1(fresh, joins), host2(fresh, joins)},
			reason: "RequesterMismatch",
		},
		{
			name: "a token for an instance that is another one by now", request: of(renewal(t), "i0"), others: objects{host1(fresh, joins)},
			reason: "RequesterMismatch",
		},
		{
			name: "a token of somebody else", others: objects{host1(fresh, joins)},
			request: func() *certificatesv1.CertificateSigningRequest {
				r := bootstrapping(renewal(t))
				r.Spec.Groups = slices.Delete(r.Spec.Groups, 2, 3)
				return r
			}(),
			reason: "RequesterMismatch",
		},
		{
			name: "a host that is not joining", request: bootstrapping(renewal(t)), others: objects{host1(fresh)}, reason: "NotJoining",
		},
		{
			name: "a host that is not joining, beside one that the node says it is", request: bootstrapping(renewal(t)),
			others: objects{host1(fresh), host2(func(i *v1alpha1.WindowsInstance) { i.Status.Node.Name = testNode }, joins), lost("n2", "10.0.0.6")}, reason: "NotJoining",
		},
		{
			name: "when the operation is over", request: bootstrapping(renewal(t)), others: objects{host1(fresh, joins, over)}, reason: "NotJoining",
		},
		{
			name: "somebody who is no bootstrapper", request: as(renewal(t), "system:serviceaccount:a:b"), others: objects{host1(fresh, joins)},
			reason: "NotJoining",
		},
		{
			name: "to serve", request: bootstrapping(serving(t, "win-1")), others: objects{host1(joins)},
			reason: "RequesterMismatch",
		},
		{
			name: "under the name of a node that is another host", request: bootstrapping(renewal(t)), others: objects{host1(fresh, joins), node(testNode)},
			reason: "NodeNameTaken", message: "rename the host, or delete the Node if it is a left-over",
		},
		{
			name: "under such a name, for something else", others: objects{host1(fresh, joins), node(testNode)},
			request: func() *certificatesv1.CertificateSigningRequest {
				r := bootstrapping(renewal(t))
				r.Spec.Usages = append(r.Spec.Usages, certificatesv1.UsageServerAuth)
				return r
			}(),
			reason: "UsagesMismatch",
		},
		{
			name: "under such a name, without a token", request: bootstrapping(renewal(t)), others: objects{host1(fresh), node(testNode)}, reason: "NotJoining",
		},
		{
			name: "under the name of a Machine", request: bootstrapping(renewal(t)), others: objects{host1(fresh, joins), machine("win-1.example.com", "10.0.0.9")},
			reason: "MachineNameTaken", message: "that is the name of Machine windows-hosts/machine-1",
		},
		{
			name: "under the name of its Machine", request: bootstrapping(renewal(t)), others: objects{host1(fresh, joins, fromMachine), machine("win-1")}, want: true,
		},
		{
			name: "under the name of the Machine at its address", request: bootstrapping(renewal(t)), others: objects{host1(fresh, joins), machine("win-1", "10.0.0.5")}, want: true,
		},
		{
			name: "beside another Machine", request: bootstrapping(renewal(t)), others: objects{host1(fresh, joins), machine("win-2", "10.0.0.9")}, want: true,
		},
		{
			name: "under the name of a Machine whose Node is another one", request: bootstrapping(renewal(t)), others: objects{host1(fresh, joins), func() client.Object {
				m := machine("10.0.0.9")
				m.Status.NodeRef = &corev1.ObjectReference{Name: testNode}
				return m
			}()}, reason: "MachineNameTaken",
		},
		{
			name: "under a name that two hosts of one namespace have", request: bootstrapping(renewal(t)), others: objects{host1(fresh, joins), host2(fresh, joins, alsoNamed)},
			reason: "AmbiguousInstance AmbiguousInstance",
		},
		{
			name: "under a name that a host in another namespace has", request: bootstrapping(renewal(t)),
			others: objects{host1(fresh, joins), host2(fresh, joins, alsoNamed, func(i *v1alpha1.WindowsInstance) { i.Namespace = "tenant" })}, reason: "AmbiguousInstance AmbiguousInstance",
		},
		{
			name: "under a name that a host of the operator is to have", request: of(renewal(t), "i2"),
			others: objects{host1(fresh, func(i *v1alpha1.WindowsInstance) {
				i.Namespace, i.Spec.Address, i.Status = homeNamespace, testNode, v1alpha1.WindowsInstanceStatus{}
			}), host2(fresh, joins, alsoNamed)},
			reason: "NotJoining",
		},
		{
			name: "of the operator, under a name that a host elsewhere has", request: bootstrapping(renewal(t)),
			others: objects{host1(fresh, joins, func(i *v1alpha1.WindowsInstance) { i.Namespace = homeNamespace }), host2(fresh, joins, alsoNamed)}, want: true,
		},
		{
			name: "under a name that nobody has", request: bootstrapping(renewal(t)), others: objects{host2(fresh, joins)},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := newSetup(t, append(tt.others, tt.request)...)
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

// alsoNamed is a host with the name of another one.
func alsoNamed(i *v1alpha1.WindowsInstance) { i.Status.System.Hostname = "WIN-1" }

// joins is a host that its operation has join the cluster: again, if it has a Node.
func joins(i *v1alpha1.WindowsInstance) {
	op := v1alpha1.NewOperation(v1alpha1.OperationReconfigure, "x", v1alpha1.OriginController, "", testNow)
	op.Phase = v1alpha1.OperationRunning
	op.Steps = []v1alpha1.OperationStep{
		{Name: v1alpha1.StepPlan, State: v1alpha1.StepSucceeded, StartedAt: &metav1.Time{Time: testNow}}, {Name: v1alpha1.StepJoin, State: v1alpha1.StepPending},
	}
	if node := i.Status.Node; node != nil {
		op.Node, op.JoinsAgain = &v1alpha1.OperationNode{Name: node.Name, UID: node.UID}, true
	}
	i.Status.Operation = op
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
