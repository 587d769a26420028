// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package node

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"net"
	"net/netip"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/controller/csr/identity"
)

// TestLabels: it is known which labels a Node is to have before they are written, and they are those that are written then.
func TestLabels(t *testing.T) {
	for _, tt := range []struct {
		name string
		// changes are what somebody does to the instance, its pool and its Node after the labels were written.
		instance func(*v1alpha1.WindowsInstance)
		pool     func(*v1alpha1.WindowsNodePool)
		node     func(*corev1.Node)
		other    *v1alpha1.WindowsInstance
		gone     bool
		rack     string // default: 8
	}{
		{name: "nothing"},
		{name: "another value", pool: func(p *v1alpha1.WindowsNodePool) { p.Spec.Template.NodeLabels["rack"] = "9" }, rack: "9"},
		{name: "taken out of the template", pool: func(p *v1alpha1.WindowsNodePool) { p.Spec.Template.NodeLabels = nil }, gone: true},
		{name: "taken off the Node", node: func(n *corev1.Node) { delete(n.Labels, "rack") }},
		{name: "of others", node: func(n *corev1.Node) { n.Labels["disk"] = "ssd" }},
		{
			name: "the instance is paused", instance: func(i *v1alpha1.WindowsInstance) { i.Spec.Paused = true },
			pool: func(p *v1alpha1.WindowsNodePool) { p.Spec.Template.NodeLabels = nil },
		},
		{name: "the pool is paused", pool: func(p *v1alpha1.WindowsNodePool) { p.Spec.Paused, p.Spec.Template.NodeLabels = true, nil }},
		{name: "another pool, which does not exist", instance: func(i *v1alpha1.WindowsInstance) { i.Spec.PoolRef.Name = "another" }},
		{name: "no pool any more", instance: func(i *v1alpha1.WindowsInstance) { i.Spec.PoolRef = nil }, gone: true},
		{
			name: "the undone template is gone",
			pool: func(p *v1alpha1.WindowsNodePool) {
				p.Spec.Template.NodeLabels = nil
				p.Status.UpdateRevision, p.Status.RolledBack = "p-1", &v1alpha1.PoolRollback{Revision: "p-1", To: "p-0", RequestedBy: "alice"}
			},
		},
		{
			name: "another Node", instance: func(i *v1alpha1.WindowsInstance) { i.Status.Node.UID = "another" },
			pool: func(p *v1alpha1.WindowsNodePool) { p.Spec.Template.NodeLabels = nil },
		},
		{
			name: "the Node cannot be confirmed", instance: func(i *v1alpha1.WindowsInstance) { i.Status.System.Hostname = "other" },
			pool: func(p *v1alpha1.WindowsNodePool) { p.Spec.Template.NodeLabels = nil },
		},
		{
			name: "another instance has the Node", other: host(func(i *v1alpha1.WindowsInstance) { i.Namespace, i.UID = "elsewhere", "j" }),
			pool: func(p *v1alpha1.WindowsNodePool) { p.Spec.Template.NodeLabels = nil },
		},
		{
			name: "the Node is being deleted", pool: func(p *v1alpha1.WindowsNodePool) { p.Spec.Template.NodeLabels = nil },
			node: func(n *corev1.Node) { n.Finalizers = []string{"somebody.example.com/hold"} },
		},
		{
			name:     "never configured",
			instance: func(i *v1alpha1.WindowsInstance) { setConfigured(i, metav1.ConditionFalse) },
			pool:     func(p *v1alpha1.WindowsNodePool) { p.Spec.Template.NodeLabels = nil },
			node:     func(n *corev1.Node) { delete(n.Annotations, v1alpha1.ManagedTaintsAnnotation) },
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newSetup(t, host(), registered(), newPool(map[string]string{"rack": "8"}))
			s.reconcile()
			if tt.instance != nil {
				update(s, host(), tt.instance)
			}
			if tt.pool != nil {
				update(s, newPool(nil), tt.pool)
			}
			if tt.node != nil {
				update(s, s.node(), tt.node)
			}
			if tt.other != nil {
				if err := s.client.Create(t.Context(), tt.other); err != nil {
					t.Fatal(err)
				}
			}
			if len(s.node().Finalizers) > 0 {
				if err := s.client.Delete(t.Context(), s.node()); err != nil {
					t.Fatal(err)
				}
			}
			instance, node := host(), s.node()
			if err := s.client.Get(t.Context(), client.ObjectKeyFromObject(instance), instance); err != nil {
				t.Fatal(err)
			}
			before := maps.Clone(node.Labels)
			got, err := Labels(t.Context(), s.identities(), instance, node)
			if err != nil {
				t.Fatal(err)
			}
			if !maps.Equal(before, node.Labels) {
				t.Error("the Node was changed")
			}
			s.reconcile()
			if diff := gocmp.Diff(s.node().Labels, got); diff != "" {
				t.Errorf("labels (-written +foretold)\n%s", diff)
			}
			if rack, there := got["rack"]; there == tt.gone || there && rack != cmp.Or(tt.rack, "8") {
				t.Errorf("it has rack %q: %v", rack, there)
			}
		})
	}
}

// TestLabelsAskDNS: a Node that DNS alone can confirm keeps its labels if DNS says that it is another host. Without an answer there
// may be one when the labels are written, so they count as written.
func TestLabelsAskDNS(t *testing.T) {
	const name = "ip-10-0-0-5.ec2.internal"
	for what, tt := range map[string]struct {
		resolver identity.Resolver
		gone     bool
	}{
		"the host":              {resolver: dns{name + ".": "10.0.0.5"}, gone: true},
		"the host, elsewhere":   {resolver: dns{name + ".": "10.0.0.7"}, gone: true},
		"another host":          {resolver: dns{name + ".": "10.0.0.6"}},
		"nobody":                {resolver: dns{}},
		"DNS does not answer":   {resolver: failing{&net.DNSError{Err: "i/o timeout", IsTimeout: true}}, gone: true},
		"DNS cannot be reached": {resolver: failing{errors.New("no route")}, gone: true},
	} {
		t.Run(what, func(t *testing.T) {
			named := func(i *v1alpha1.WindowsInstance) {
				i.Status.Node.Name, i.Status.System.Hostname = name, "other"
				// In the namespace of the operator, it may be at any of its addresses.
				i.Status.HostIP, i.Status.Addresses = "10.0.0.5", []string{"10.0.0.5", "10.0.0.7"}
			}
			node := registered(func(n *corev1.Node) { n.Name = name })
			s := newSetup(t, host(named), node, newPool(map[string]string{"rack": "8"}))
			s.reconcile()
			update(s, newPool(nil), func(p *v1alpha1.WindowsNodePool) { p.Spec.Template.NodeLabels = nil })
			if err := s.client.Get(t.Context(), client.ObjectKeyFromObject(node), node); err != nil {
				t.Fatal(err)
			}
			if node.Labels["rack"] == "" {
				t.Fatal("the label was not written")
			}
			got, err := Labels(t.Context(), identity.Nodes{Reader: s.client, Resolver: tt.resolver, Namespace: testNamespace}, host(named), node)
			if err != nil {
				t.Fatal(err)
			}
			if _, there := got["rack"]; there == tt.gone {
				t.Errorf("it is said to have the label: %v", there)
			}
		})
	}
}

// failing is a Resolver that gets no answer.
type failing struct{ err error }

func (f failing) LookupNetIP(context.Context, string, string) ([]netip.Addr, error) {
	return nil, f.err
}

// TestLabelsUnknown: a template that cannot be read is not an empty one.
func TestLabelsUnknown(t *testing.T) {
	want := errors.New("the API does not answer")
	if _, err := Labels(t.Context(), identity.Nodes{Reader: unreadable{err: want}, Resolver: dns{}, Namespace: testNamespace}, host(), registered()); !errors.Is(err, want) {
		t.Errorf("got %v", err)
	}
}

// unreadable is a reader whose requests fail.
type unreadable struct {
	client.Reader

	err error
}

func (u unreadable) Get(context.Context, client.ObjectKey, client.Object, ...client.GetOption) error {
	return u.err
}
