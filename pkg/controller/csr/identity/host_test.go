// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package identity

import (
	"context"
	"errors"
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
)

// dns is a Resolver that knows these names.
type dns map[string]string

func (d dns) LookupNetIP(_ context.Context, _, host string) ([]netip.Addr, error) {
	if address, ok := d[host]; ok {
		return []netip.Addr{netip.MustParseAddr(address)}, nil
	}
	return nil, errors.New("no such host")
}

func instance(edit ...func(*v1alpha1.WindowsInstance)) *v1alpha1.WindowsInstance {
	i := &v1alpha1.WindowsInstance{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "i"},
		Spec:       v1alpha1.WindowsInstanceSpec{Address: "W1.example.com."},
		Status: v1alpha1.WindowsInstanceStatus{
			Addresses: []string{"10.0.0.5", "::ffff:10.0.0.5"},
			System:    &v1alpha1.SystemStatus{Hostname: "WIN-1", FQDN: "win-1.corp.example.com"},
		},
	}
	for _, e := range edit {
		e(i)
	}
	return i
}

func TestNew(t *testing.T) {
	machine := &machinev1beta1.Machine{ObjectMeta: metav1.ObjectMeta{Name: "m"}, Status: machinev1beta1.MachineStatus{Addresses: []corev1.NodeAddress{
		{Type: corev1.NodeInternalDNS, Address: "ip-10-0-0-5.ec2.internal"}, {Type: corev1.NodeInternalIP, Address: "10.0.0.5"},
		{Type: corev1.NodeInternalIP, Address: "169.254.7.7"}, {Type: corev1.NodeInternalIP, Address: "fe80::1"},
	}}}
	if h := New(&v1alpha1.WindowsInstance{}, nil); h.Disputed("win-1") || len(h.Names) > 0 {
		t.Errorf("of nothing is known %+v", h.Instance)
	}
	h := New(instance(), machine)
	want := map[string]string{
		"w1.example.com": "spec.address", "w1": "spec.address", "10.0.0.5": "status.addresses",
		"ip-10-0-0-5.ec2.internal": "Machine m", "ip-10-0-0-5": "Machine m",
		"win-1": "status.system.hostname", "win-1.corp.example.com": "status.system.fqdn",
	}
	if diff := cmp.Diff(want, h.Sources); diff != "" {
		t.Errorf("sources (-want +got)\n%s", diff)
	}
	if len(h.Names)+len(h.Addresses) != len(want) || h.Node != "" || h.ID != "ns/i" {
		t.Errorf("got %+v", h.Instance)
	}
	h.Drop("win-1")
	if _, known := h.Sources["win-1"]; known || h.IsNamed("win-1") {
		t.Error("a name that was dropped counts")
	}
}

// A host calls itself as it likes.
func TestNamesOfServices(t *testing.T) {
	for _, name := range []string{"kubernetes", "kubernetes.default.svc", "localhost", "x.default.svc.cluster.local"} {
		h := New(instance(func(i *v1alpha1.WindowsInstance) { i.Status.System.Hostname = name }), nil)
		if h.IsNamed(name) {
			t.Errorf("the host is known as %s", name)
		}
	}
}

func TestNode(t *testing.T) {
	resolver := dns{"ip-10-0-0-5.ec2.internal.": "10.0.0.5", "theirs.example.com.": "10.0.0.9", "short.": "10.0.0.5", "kubernetes.example.com.": "10.0.0.5"}
	for _, tt := range []struct {
		node      string
		disputed  bool
		confirmed bool
	}{
		{node: "win-1", confirmed: true},
		{node: "w1.example.com", confirmed: true},
		{node: "ip-10-0-0-5.ec2.internal", disputed: true, confirmed: true},
		{node: "theirs.example.com", disputed: true},
		{node: "nowhere.example.com", disputed: true},
		{node: "kubernetes.example.com", disputed: true}, // that of a Service
		{node: "short", disputed: true},                  // it means something only with a search path
		{node: "win", disputed: true},                    // a part of a name is none
	} {
		t.Run(tt.node, func(t *testing.T) {
			h := New(instance(func(i *v1alpha1.WindowsInstance) {
				i.Status.Node = &v1alpha1.NodeReference{Name: tt.node}
			}), nil)
			if got := h.Disputed(tt.node); got != tt.disputed {
				t.Errorf("disputed: %t", got)
			}
			if h.Disputed("another") {
				t.Error("another node is disputed")
			}
			if tt.disputed {
				if err := h.lookUp(t.Context(), resolver, tt.node); err != nil {
					t.Error(err)
				}
			}
			if got := h.Node == tt.node; got != tt.confirmed {
				t.Errorf("confirmed: %t", got)
			}
			if source := h.Sources[tt.node]; tt.disputed && tt.confirmed && source != "DNS" {
				t.Errorf("confirmed by %q", source)
			}
		})
	}
}

func TestChanged(t *testing.T) {
	for _, tt := range []struct {
		name string
		edit func(*v1alpha1.WindowsInstance)
		want bool
	}{
		{name: "nothing", edit: func(*v1alpha1.WindowsInstance) {}},
		{name: "memory", edit: func(i *v1alpha1.WindowsInstance) { i.Status.System.CPUs = 8 }},
		{name: "host name", edit: func(i *v1alpha1.WindowsInstance) { i.Status.System.Hostname = "w" }, want: true},
		{name: "address", edit: func(i *v1alpha1.WindowsInstance) { i.Status.Addresses = nil }, want: true},
		{name: "where it is reached", edit: func(i *v1alpha1.WindowsInstance) { i.Spec.Address = "w2.example.com" }, want: true},
		{name: "through what it is reached", edit: func(i *v1alpha1.WindowsInstance) { i.Status.Bastion = atBastion }, want: true},
		{name: "domain", edit: func(i *v1alpha1.WindowsInstance) { i.Status.System.FQDN = "w.example.com" }, want: true},
		{name: "name of its platform", edit: func(i *v1alpha1.WindowsInstance) { i.Status.System.NodeName = "p" }, want: true},
		{name: "joins", edit: func(i *v1alpha1.WindowsInstance) { i.Status.Operation = &v1alpha1.Operation{JoinsAs: "p"} }, want: true},
		{name: "has joined", edit: func(i *v1alpha1.WindowsInstance) {
			i.Status.Operation = &v1alpha1.Operation{JoinsAs: "p", FinishedAt: &metav1.Time{}}
		}},
		{name: "no longer inspected", edit: func(i *v1alpha1.WindowsInstance) { i.Status.System = nil }, want: true},
		{name: "its Node", edit: func(i *v1alpha1.WindowsInstance) { i.Status.Node = &v1alpha1.NodeReference{Name: "n"} }, want: true},
		{name: "its Machine", edit: ofMachine, want: true},
		{name: "being deleted", edit: beingDeleted, want: true},
		{name: "made anew", edit: func(i *v1alpha1.WindowsInstance) { i.UID = "other" }, want: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := Changed(instance(), instance(tt.edit)); got != tt.want {
				t.Errorf("got %t", got)
			}
		})
	}
}
