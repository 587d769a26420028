// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package identity

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlfake "sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
)

var testNow = metav1.NewTime(time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC))

// newReader is a cache with the indexes that the controllers have.
func newReader(t *testing.T, objects ...client.Object) client.WithWatch {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v1alpha1.AddToScheme, machinev1beta1.Install} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	return ctrlfake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).
		WithIndex(&corev1.Node{}, NodeIndex, func(o client.Object) []string {
			return OfNode(o.(*corev1.Node)) //nolint:forcetypeassert // the index is of Nodes
		}).
		WithIndex(&v1alpha1.WindowsInstance{}, InstanceIndex, func(o client.Object) []string {
			return OfInstance(o.(*v1alpha1.WindowsInstance)) //nolint:forcetypeassert // the index is of instances
		}).Build()
}

func newNode(name string, edit ...func(*corev1.Node)) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-of-" + name)}}
	n.Status.NodeInfo.OperatingSystem = "windows"
	n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "10.0.0.5"}}
	for _, e := range edit {
		e(n)
	}
	return n
}

// newInstance is one whose host is a Node of ours.
func newInstance(name string, edit ...func(*v1alpha1.WindowsInstance)) *v1alpha1.WindowsInstance {
	i := &v1alpha1.WindowsInstance{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name), CreationTimestamp: testNow, Finalizers: []string{v1alpha1.HostFinalizer}},
		Spec:       v1alpha1.WindowsInstanceSpec{Address: "10.0.0.5"},
		Status:     v1alpha1.WindowsInstanceStatus{Node: &v1alpha1.NodeReference{Name: "win-1", UID: "uid-of-win-1"}},
	}
	for _, e := range edit {
		e(i)
	}
	return i
}

type instanceEdit = func(*v1alpha1.WindowsInstance)

func withoutNode(i *v1alpha1.WindowsInstance)  { i.Status.Node = nil }
func beingDeleted(i *v1alpha1.WindowsInstance) { i.DeletionTimestamp = &testNow }
func ofMachine(i *v1alpha1.WindowsInstance) {
	i.OwnerReferences = []metav1.OwnerReference{{APIVersion: machinev1beta1.SchemeGroupVersion.String(), Kind: "Machine", Name: "m", UID: "m1", Controller: new(true)}}
}

// The Node of an instance is one that runs Windows on the same machine.
func TestFindNode(t *testing.T) {
	withProvider := func(i *v1alpha1.WindowsInstance) { i.Spec.ProviderID = "p://1" }
	onProvider := func(id string) func(*corev1.Node) { return func(n *corev1.Node) { n.Spec.ProviderID = id } }
	azure := func(group string) string {
		return "azure:///subscriptions/1/resourceGroups/" + group + "/providers/Microsoft.Compute/virtualMachines/win-1"
	}
	inAzure := func(group string) instanceEdit {
		return func(i *v1alpha1.WindowsInstance) { i.Spec.ProviderID = azure(group) }
	}
	nameless := func(i *v1alpha1.WindowsInstance) { i.Spec.ProviderID = "vsphere://" }
	at := func(address string) func(*corev1.Node) {
		return func(n *corev1.Node) { n.Status.Addresses[0].Address = address }
	}
	running := func(system string) func(*corev1.Node) {
		return func(n *corev1.Node) { n.Status.NodeInfo.OperatingSystem = system }
	}
	known := func(i *v1alpha1.WindowsInstance) { i.Status.System = &v1alpha1.SystemStatus{Hostname: "WIN-1"} }
	identified := func(i *v1alpha1.WindowsInstance) {
		i.Status.MachineID, i.Status.HostIP = "firmware-1/windows-1", "10.0.0.5"
	}
	configured := func(i *v1alpha1.WindowsInstance) {
		i.Status.History = []v1alpha1.Operation{{Type: v1alpha1.OperationReconfigure, HostChanged: true}}
	}
	tests := []struct {
		name     string
		instance *v1alpha1.WindowsInstance
		nodes    []client.Object
		want     string // empty: none
	}{
		{"none", newInstance("i", withoutNode), nil, ""},
		{"by address", newInstance("i", withoutNode), []client.Object{newNode("a", at("10.0.0.4")), newNode("b")}, "b"},
		{"by an address that was resolved", newInstance("i", withoutNode, func(i *v1alpha1.WindowsInstance) {
			i.Spec.Address, i.Status.Addresses = "win.example.com", []string{"::ffff:10.0.0.5"}
		}), []client.Object{newNode("a")}, "a"},
		{"by name, however it is spelled", newInstance("i", withoutNode, func(i *v1alpha1.WindowsInstance) { i.Spec.Address = "WIN.example.com." }), []client.Object{newNode("a", at("win.example.com"))}, "a"},
		{"a system that is not told yet", newInstance("i", withoutNode), []client.Object{newNode("a", running(""))}, "a"},
		{"the control plane", newInstance("i", withoutNode), []client.Object{newNode("a", running("linux")), newNode("b")}, "b"},
		{"by provider, at another address", newInstance("i", withoutNode, withProvider), []client.Object{newNode("a"), newNode("b", onProvider("p://1"), at("10.0.0.9"))}, "b"},
		{"another machine has the address now", newInstance("i", withoutNode, withProvider), []client.Object{newNode("a", onProvider("p://2"))}, ""},
		{"the Node of a host that we configured, and somebody names another machine", newInstance("i", withProvider, identified, configured), []client.Object{newNode("a", onProvider("p://1"), at("10.0.0.9")), newNode("win-1", onProvider("p://2"))}, "win-1"},
		{"the Node of a host that calls itself so, and somebody names another machine", newInstance("i", withProvider, identified, known), []client.Object{newNode("a", onProvider("p://1"), at("10.0.0.9")), newNode("win-1", onProvider("p://2"))}, "win-1"},
		{"the same, before the provider has told of it", newInstance("i", withProvider, identified, known), []client.Object{newNode("a", onProvider("p://1"), at("10.0.0.9")), newNode("win-1")}, "win-1"},
		{"the Node of a host that we configured is gone, and somebody names another machine", newInstance("i", withProvider, identified, configured, withoutNode), []client.Object{newNode("a", onProvider("p://1"), at("10.0.0.9"))}, ""},
		{"the Node of a host that we configured is made again, at another address", newInstance("i", withProvider, identified, configured, withoutNode, known), []client.Object{newNode("win-1", onProvider("p://1"), at("10.0.0.9"))}, "win-1"},
		{"the Node of a host that we configured is made again, under another name", newInstance("i", withProvider, identified, configured, withoutNode), []client.Object{newNode("a", onProvider("p://1"))}, "a"},
		{"the Node that a host had by its address alone, and the machine is corrected", newInstance("i", withProvider, identified), []client.Object{newNode("a", onProvider("p://1"), at("10.0.0.9")), newNode("win-1", onProvider("p://2"))}, "a"},
		{"the provider is not told yet", newInstance("i", withoutNode, withProvider), []client.Object{newNode("a")}, "a"},
		{"by provider, in another spelling", newInstance("i", withoutNode, inAzure("RG")), []client.Object{newNode("a"), newNode("b", onProvider(azure("rg")), at("10.0.0.9"))}, "b"},
		{"by address, and the provider spells in another way", newInstance("i", withoutNode, inAzure("RG")), []client.Object{newNode("a", onProvider(azure("rg")))}, "a"},
		{"another machine of Azure has the address now", newInstance("i", withoutNode, inAzure("RG")), []client.Object{newNode("a", onProvider(azure("other")))}, ""},
		{"spellings count elsewhere", newInstance("i", withoutNode, withProvider), []client.Object{newNode("a", onProvider("P://1"))}, ""},
		{"no machine is named twice", newInstance("i", withoutNode, nameless), []client.Object{newNode("a", onProvider("vsphere://"), at("10.0.0.9"))}, ""},
		{"the provider has named no machine", newInstance("i", withoutNode, withProvider), []client.Object{newNode("a", onProvider("vsphere://"))}, "a"},
		{"an instance without provider", newInstance("i", withoutNode), []client.Object{newNode("a", onProvider("p://2"))}, "a"},
		{"two, none known", newInstance("i", withoutNode), []client.Object{newNode("b"), newNode("a")}, "a"},
		{"two, one known", newInstance("i"), []client.Object{newNode("a"), newNode("win-1")}, "win-1"},
		{"two, another one was known", newInstance("i", func(i *v1alpha1.WindowsInstance) { i.Status.Node.UID = "gone" }), []client.Object{newNode("a"), newNode("win-1")}, "a"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			node, owner, err := Nodes{Reader: newReader(t, tt.nodes...), Namespace: "ns"}.Find(t.Context(), tt.instance)
			got := ""
			if node != nil {
				got = node.Name
			}
			if got != tt.want || owner != nil || err != nil {
				t.Errorf("got %q, owner %v, %v, want %q", got, owner, err, tt.want)
			}
		})
	}
}

// In a namespace that is not that of the operator, what the spec claims of a host gets nobody its Node.
func TestFindWhereTheHostWasFound(t *testing.T) {
	found := func(at string, edit ...instanceEdit) *v1alpha1.WindowsInstance {
		i := newInstance("i", withoutNode)
		i.Status.MachineID, i.Status.Addresses = "firmware-1/windows-1", []string{at}
		for _, e := range edit {
			e(i)
		}
		return i
	}
	node := newNode("win-1", func(n *corev1.Node) {
		n.Spec.ProviderID = "p://1"
		n.Status.Addresses = append(n.Status.Addresses, corev1.NodeAddress{Type: corev1.NodeHostName, Address: "win-1"})
	})
	tests := []struct {
		name     string
		instance *v1alpha1.WindowsInstance
		want     bool
	}{
		{"at its address", found("::ffff:10.0.0.5"), true},
		{"its address, where the host never was", found("10.0.0.6"), false},
		{"at one of the addresses of its name", found("10.0.0.5", func(i *v1alpha1.WindowsInstance) {
			i.Spec.Address, i.Status.HostIP = "name.example.com", "10.0.0.5"
		}), true},
		{"an address of its name, where it was not logged in to", found("10.0.0.5", func(i *v1alpha1.WindowsInstance) {
			i.Spec.Address, i.Status.HostIP = "name.example.com", "10.0.0.6"
		}), false},
		{"its provider ID", found("10.0.0.6", func(i *v1alpha1.WindowsInstance) { i.Spec.ProviderID = "p://1" }), false},
		{"its name", found("10.0.0.6", func(i *v1alpha1.WindowsInstance) { i.Spec.Address = "win-1" }), false},
		{"the Node that it had, whose address changes", found("10.0.0.6", func(i *v1alpha1.WindowsInstance) {
			i.Status.Node = &v1alpha1.NodeReference{Name: "win-1", UID: "uid-of-win-1"}
		}), true},
		{"it was found, and does not say which machine it is", newInstance("i", withoutNode, func(i *v1alpha1.WindowsInstance) {
			i.Status.Version, i.Status.Addresses = "v1", []string{"10.0.0.6"}
		}), false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, owner, err := Nodes{Reader: newReader(t, node), Namespace: "home"}.Find(t.Context(), tt.instance)
			if err != nil || owner != nil || (got != nil) != tt.want {
				t.Errorf("got %v, %v, %v", got, owner, err)
			}
		})
	}
}

// The first by name is the answer, in whatever order the cache has them.
func TestChooseNode(t *testing.T) {
	for _, nodes := range [][]corev1.Node{{*newNode("a"), *newNode("b")}, {*newNode("b"), *newNode("a")}} {
		if got := chooseNode(nodes, newInstance("i", withoutNode), true); got == nil || got.Name != "a" {
			t.Errorf("got %v", got)
		}
	}
}

func TestMachineIdentities(t *testing.T) {
	node := newNode("a", func(n *corev1.Node) {
		n.Spec.ProviderID = "p://1"
		n.Status.Addresses = []corev1.NodeAddress{{Address: "WIN-1."}, {Address: "FD00::0:5"}, {Address: "::ffff:10.0.0.5"}, {Address: "win-1"}}
	})
	if diff := cmp.Diff([]string{"address/10.0.0.5", "address/fd00::5", "address/win-1", "node/uid-of-a", "provider/p://1"}, OfNode(node)); diff != "" {
		t.Errorf("Node (-want +got)\n%s", diff)
	}
	i := newInstance("i", func(i *v1alpha1.WindowsInstance) {
		i.Spec.ProviderID, i.Spec.Address, i.Status.Addresses = "p://1", "win-1", []string{"fd00::5", "10.0.0.5", "fd00:0::5"}
	})
	if diff := cmp.Diff([]string{"provider/p://1", "address/fd00::5", "address/10.0.0.5", "address/win-1"}, OfInstance(i)); diff != "" {
		t.Errorf("instance (-want +got)\n%s", diff)
	}
	if diff := cmp.Diff([]string{"address/10.0.0.5"}, OfInstance(newInstance("i"))); diff != "" {
		t.Errorf("instance without provider (-want +got)\n%s", diff)
	}
	if got := OfNode(newNode("b", func(n *corev1.Node) { n.Status.Addresses = nil })); !slices.Equal(got, []string{"node/uid-of-b"}) {
		t.Errorf("a Node that says nothing is %q", got)
	}
}

// A Node that another instance has first is not ours.
func TestFindOwner(t *testing.T) {
	tests := []struct {
		name  string
		other *v1alpha1.WindowsInstance
		want  bool
	}{
		{"older", newInstance("a", func(i *v1alpha1.WindowsInstance) { i.CreationTimestamp.Time = testNow.Add(-time.Hour) }), true},
		{"younger", newInstance("z", func(i *v1alpha1.WindowsInstance) { i.CreationTimestamp.Time = testNow.Add(time.Hour) }), false},
		{"older, of another Node", newInstance("a", func(i *v1alpha1.WindowsInstance) { i.Status.Node.UID = "other" }), false},
		{"older, of no Node", newInstance("a", withoutNode), false},
		{"older, at another address", newInstance("a", func(i *v1alpha1.WindowsInstance) { i.Spec.Address = "10.0.0.6" }), false},
		{"younger, where the operator is", newInstance("z", func(i *v1alpha1.WindowsInstance) { i.Namespace = "home" }), true},
		{"itself", newInstance("i", func(i *v1alpha1.WindowsInstance) { i.CreationTimestamp.Time = testNow.Add(-time.Hour) }), false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			nodes := Nodes{Reader: newReader(t, newNode("win-1"), tt.other), Namespace: "home"}
			node, owner, err := nodes.Find(t.Context(), newInstance("i"))
			if err != nil || node == nil || (owner != nil) != tt.want {
				t.Fatalf("got %v, %v, %v", node, owner, err)
			}
			if owner != nil && owner.Name != tt.other.Name {
				t.Errorf("got %s", owner.Name)
			}
		})
	}
}

// TestAt: a Node that reports an address says something of the host there, unless the host of the Node is known and elsewhere.
func TestAt(t *testing.T) {
	const address = "10.0.0.5"
	found := func(name string, addresses ...string) *v1alpha1.WindowsInstance {
		return newInstance(name, func(i *v1alpha1.WindowsInstance) {
			i.Namespace, i.Spec.Address = "other", "10.0.0.6"
			i.Status.MachineID, i.Status.Addresses = "machine-of-"+name, addresses
		})
	}
	for _, tt := range []struct {
		name    string
		address string
		objects []client.Object
		want    int
	}{
		{"nobody has it", "10.0.0.7", []client.Object{newNode("win-1")}, 0},
		{"nobody knows its host", address, []client.Object{newNode("win-1")}, 1},
		{"written in another way", "::ffff:10.0.0.5", []client.Object{newNode("win-1")}, 1},
		{"two have it", address, []client.Object{newNode("win-1"), newNode("win-2")}, 2},
		{"its host is elsewhere", address, []client.Object{newNode("win-1"), newNode("win-2"), found("z", "10.0.0.6")}, 1},
		{"its host is there", address, []client.Object{newNode("win-1"), found("z", address, "10.0.0.6")}, 1},
		{"one of two instances was there", address, []client.Object{newNode("win-1"), found("a", "10.0.0.6"), found("z", address)}, 1},
		{"its host was never logged in to", address, []client.Object{newNode("win-1"), newInstance("z", func(i *v1alpha1.WindowsInstance) { i.Spec.Address = "10.0.0.6" })}, 1},
		{"it is that of the instance itself", address, []client.Object{newNode("win-1"), found("i", "10.0.0.6")}, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := Nodes{Reader: newReader(t, tt.objects...), Namespace: "home"}.At(t.Context(), newInstance("i"), tt.address)
			if err != nil || len(got) != tt.want {
				t.Errorf("got %v, %v", got, err)
			}
		})
	}
}

func TestFindFails(t *testing.T) {
	cause := errors.New("no cache")
	for _, failing := range []string{"Nodes", "instances"} {
		reader := interceptor.NewClient(newReader(t, newNode("win-1")), interceptor.Funcs{
			List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, o ...client.ListOption) error {
				if _, nodes := list.(*corev1.NodeList); nodes == (failing == "Nodes") {
					return cause
				}
				return c.List(ctx, list, o...)
			},
		})
		if node, owner, err := (Nodes{Reader: reader}).Find(t.Context(), newInstance("i")); !errors.Is(err, cause) || node != nil || owner != nil {
			t.Errorf("%s: got %v, %v, %v", failing, node, owner, err)
		}
		if at, err := (Nodes{Reader: reader}).At(t.Context(), newInstance("i"), "10.0.0.5"); !errors.Is(err, cause) || at != nil {
			t.Errorf("%s: at the address are %v, %v", failing, at, err)
		}
	}
}

// Before the Node of a host is used for something that its kubelet could profit from, somebody else must know the
// host by that name, and no other instance may have the Node.
func TestVerify(t *testing.T) {
	known := func(i *v1alpha1.WindowsInstance) { i.Status.System = &v1alpha1.SystemStatus{Hostname: "WIN-1"} }
	tests := []struct {
		name     string
		instance *v1alpha1.WindowsInstance
		others   []client.Object
		want     Verdict
	}{
		{"by the agent", newInstance("i", known), nil, Proven},
		{"by the address of the Node alone", newInstance("i"), nil, Unconfirmed},
		{"by the name of another Node", newInstance("i", known, func(i *v1alpha1.WindowsInstance) { i.Status.Node.Name = "win-2" }), nil, Unconfirmed},
		{"by DNS", newInstance("i", func(i *v1alpha1.WindowsInstance) { i.Status.Node.Name = "win-1.example.com" }), nil, Proven},
		{"by DNS, at an address where others say that it is", newInstance("i", func(i *v1alpha1.WindowsInstance) {
			i.Namespace, i.Status.Node.Name = "other", "win-1.example.com"
			i.Status.MachineID, i.Status.HostIP = "firmware-1/windows-1", "10.0.0.9"
		}), nil, Unconfirmed},
		{"by DNS, where it was found", newInstance("i", func(i *v1alpha1.WindowsInstance) {
			i.Namespace, i.Status.Node.Name = "other", "win-1.example.com"
			i.Status.MachineID, i.Status.HostIP = "firmware-1/windows-1", "10.0.0.5"
		}), nil, Proven},
		{"by its Machine", newInstance("i", ofMachine), []client.Object{newMachine("m1")}, Proven},
		{"by another Machine", newInstance("i", ofMachine), []client.Object{newMachine("m2")}, Unconfirmed},
		{"by a Machine that is gone", newInstance("i", ofMachine), nil, Unconfirmed},
		{"another instance has it", newInstance("i", known), []client.Object{newInstance("a")}, Shared},
		{"another instance has another one", newInstance("i", known), []client.Object{newInstance("a", func(i *v1alpha1.WindowsInstance) { i.Status.Node.Name = "win-2" })}, Proven},
		{"another instance had it", newInstance("i", known), []client.Object{newInstance("a", beingDeleted)}, Proven},
		{"another instance without a Node", newInstance("i", known), []client.Object{newInstance("a", withoutNode)}, Proven},
		{"the same instance", newInstance("i", known), []client.Object{newInstance("i", known)}, Proven},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			nodes := Nodes{Reader: newReader(t, tt.others...), Resolver: dns{"win-1.example.com.": "10.0.0.5"}, Namespace: "ns"}
			name := "win-1"
			if tt.instance.Status.Node.Name == "win-1.example.com" {
				name = tt.instance.Status.Node.Name
			}
			got, err := nodes.Verify(t.Context(), tt.instance, name)
			if err != nil || got != tt.want {
				t.Errorf("got %s, %v, want %s", got, err, tt.want)
			}
		})
	}
}

func newMachine(uid types.UID) *machinev1beta1.Machine {
	m := &machinev1beta1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "m", UID: uid}}
	m.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalDNS, Address: "win-1"}}
	return m
}

func TestMachineOf(t *testing.T) {
	edit := func(change func(*metav1.OwnerReference)) *v1alpha1.WindowsInstance {
		return newInstance("i", ofMachine, func(i *v1alpha1.WindowsInstance) { change(&i.OwnerReferences[0]) })
	}
	tests := []struct {
		name     string
		instance *v1alpha1.WindowsInstance
		want     bool
	}{
		{"a Machine", newInstance("i", ofMachine), true},
		{"nothing", newInstance("i"), false},
		{"another kind", edit(func(o *metav1.OwnerReference) { o.Kind = "MachineSet" }), false},
		{"another group", edit(func(o *metav1.OwnerReference) { o.APIVersion = "cluster.x-k8s.io/v1beta1" }), false},
		{"no controller", edit(func(o *metav1.OwnerReference) { o.Controller = nil }), false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := MachineOf(tt.instance); (got != nil) != tt.want {
				t.Errorf("got %v", got)
			}
			if got, err := Machine(t.Context(), newReader(t, newMachine("m1")), tt.instance); err != nil || (got != nil) != tt.want {
				t.Errorf("got %v, %v", got, err)
			}
		})
	}
}

func TestWithoutMachineAPI(t *testing.T) {
	for _, tt := range []struct {
		err  error
		want bool
	}{{&meta.NoKindMatchError{GroupKind: schema.GroupKind{Kind: "Machine"}}, false}, {errors.New("no cache"), true}} {
		reader := interceptor.NewClient(newReader(t), interceptor.Funcs{
			Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
				return tt.err
			},
		})
		if machine, err := Machine(t.Context(), reader, newInstance("i", ofMachine)); machine != nil || (err != nil) != tt.want {
			t.Errorf("%v: got %v, %v", tt.err, machine, err)
		}
	}
}

func TestMayOwn(t *testing.T) {
	tests := []struct {
		name string
		edit instanceEdit
		want bool
	}{
		{"a host of ours", func(*v1alpha1.WindowsInstance) {}, true},
		{"being deleted", beingDeleted, false},
		{"paused", func(i *v1alpha1.WindowsInstance) { i.Spec.Paused = true }, false},
		{"without a Node", withoutNode, false},
		{"never configured", func(i *v1alpha1.WindowsInstance) { i.Finalizers = []string{"example.com/f"} }, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := MayOwn(newInstance("i", tt.edit)); got != tt.want {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}

// Of two instances exactly one precedes.
func TestPrecedes(t *testing.T) {
	at := func(namespace, name string, age time.Duration) *v1alpha1.WindowsInstance {
		return newInstance(name, func(i *v1alpha1.WindowsInstance) {
			i.Namespace, i.CreationTimestamp = namespace, metav1.NewTime(testNow.Add(-age))
		})
	}
	configured := func(i *v1alpha1.WindowsInstance, addresses ...string) *v1alpha1.WindowsInstance {
		i.Status.MachineID, i.Status.Addresses = "firmware-1/windows-1", addresses
		i.Status.History = []v1alpha1.Operation{{Type: v1alpha1.OperationReconfigure, HostChanged: true}}
		return i
	}
	named := func(i *v1alpha1.WindowsInstance, address string) *v1alpha1.WindowsInstance {
		i.Spec.Address, i.Status.Addresses = address, nil
		return i
	}
	// found is an instance whose host had a configuration when it was logged in to first.
	found := func(i *v1alpha1.WindowsInstance) *v1alpha1.WindowsInstance {
		i.Status.MachineID, i.Status.Addresses, i.Status.CurrentRevision = "firmware-1/windows-1", []string{"10.1.42.7"}, "r"
		i.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionConfigured, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonConfigured}}
		return i
	}
	// nameless is an instance whose host does not say which machine it is, so that its addresses are
	// those of its name.
	nameless := func(i *v1alpha1.WindowsInstance) *v1alpha1.WindowsInstance {
		i.Status.MachineID = ""
		return i
	}
	// loggedIn is an instance whose host is not configured, and was logged in to at an address.
	loggedIn := func(i *v1alpha1.WindowsInstance, addresses ...string) *v1alpha1.WindowsInstance {
		i.Status.MachineID, i.Status.Addresses = "firmware-1/windows-1", addresses
		return i
	}
	// heldAt records at which of them it was logged in to.
	heldAt := func(i *v1alpha1.WindowsInstance, address string) *v1alpha1.WindowsInstance {
		i.Status.HostIP = address
		return i
	}
	tests := []struct {
		name          string
		first, second *v1alpha1.WindowsInstance
	}{
		{"configured, at one of the addresses of its name, before home", heldAt(configured(at("a", "a", 0), "10.1.42.8", "10.1.42.7"), "10.1.42.7"), named(at("home", "z", time.Hour), "10.1.42.7")},
		{"home before one that was configured at another address, whatever DNS says", named(at("home", "z", 0), "10.1.42.7"), heldAt(configured(at("a", "a", time.Hour), "10.1.42.7"), "10.1.42.8")},
		{"age before one whose DNS says that it is there", named(at("a", "a", time.Hour), "10.1.42.7"), heldAt(nameless(loggedIn(at("b", "z", 0), "10.1.42.7", "10.1.42.8")), "10.1.42.8")},
		{"logged in to before age", loggedIn(at("b", "z", 0), "10.1.42.7"), named(at("a", "a", time.Hour), "10.1.42.7")},
		{"logged in to, without a machine, before age", nameless(loggedIn(configured(at("b", "z", 0)), "10.1.42.7")), named(at("a", "a", time.Hour), "10.1.42.7")},
		{"age before one that was logged in to elsewhere", named(at("a", "a", time.Hour), "10.1.42.7"), loggedIn(at("b", "z", 0), "10.1.42.8")},
		{"home before one that was logged in to", named(at("home", "z", 0), "10.1.42.7"), loggedIn(at("a", "a", time.Hour), "10.1.42.7")},
		{"home before one that was not found at the address", named(at("home", "z", 0), "10.1.42.7"), nameless(configured(at("a", "a", time.Hour), "10.1.42.7"))},
		{"home before one that only found it configured", named(at("home", "z", 0), "10.1.42.7"), found(at("a", "a", time.Hour))},
		{"configured at home before one that only found it configured", found(at("home", "z", 0)), found(at("a", "a", time.Hour))},
		{"configured before one at home that only found it configured", configured(at("a", "a", 0), "10.1.42.7"), found(at("home", "z", time.Hour))},
		{"found before age", found(at("z", "z", 0)), named(at("a", "a", time.Hour), "10.1.42.7")},
		{"configured before home", configured(at("a", "a", time.Hour), "10.1.42.7"), named(at("home", "z", 0), "10.1.42.7")},
		{"home before one whose name has the address of another host as well", named(at("home", "z", 0), "10.1.42.7"), configured(at("a", "a", time.Hour), "10.1.42.8", "10.1.42.7")},
		{"home before age", at("home", "z", 0), at("a", "a", time.Hour)},
		{"age before name", at("z", "z", time.Hour), at("a", "a", 0)},
		{"name before namespace", at("z", "a", 0), at("a", "b", 0)},
		{"namespace", at("a", "a", 0), at("b", "a", 0)},
		{"age at home", at("home", "z", time.Hour), at("home", "a", 0)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if !Precedes(tt.first, tt.second, "home") || Precedes(tt.second, tt.first, "home") || Precedes(tt.first, tt.first, "home") {
				t.Error("the wrong one precedes")
			}
		})
	}
}

// One that is being deleted stands for its host until that is clean. One of another namespace does
// so only for a host that was logged in to for it.
func TestStandsFor(t *testing.T) {
	resolved := func(reason string) instanceEdit {
		return func(i *v1alpha1.WindowsInstance) {
			i.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionResolved, Status: metav1.ConditionFalse, Reason: reason}}
		}
	}
	elsewhere := func(i *v1alpha1.WindowsInstance) {
		i.Namespace, i.CreationTimestamp.Time = "elsewhere", testNow.Add(-time.Hour)
	}
	loggedIn := func(addresses ...string) instanceEdit {
		return func(i *v1alpha1.WindowsInstance) {
			i.Status.MachineID, i.Status.Addresses = "firmware-1/windows-1", addresses
		}
	}
	without := func(i *v1alpha1.WindowsInstance) { i.Finalizers = []string{"example.com/f"} }
	tests := []struct {
		name  string
		other *v1alpha1.WindowsInstance
		want  bool
	}{
		{"it precedes", newInstance("a"), true},
		{"it does not", newInstance("z"), false},
		{"deleted, not yet clean", newInstance("z", beingDeleted), true},
		{"deleted, and found", newInstance("z", beingDeleted, resolved("Found")), true},
		{"deleted, and never in charge", newInstance("a", beingDeleted, resolved(v1alpha1.ReasonDuplicateHost)), false},
		{"deleted, and clean", newInstance("a", beingDeleted, without), false},
		{"elsewhere, older", newInstance("a", elsewhere), false},
		{"elsewhere, older, and found at another address", newInstance("a", elsewhere, loggedIn("10.0.0.6")), false},
		{"elsewhere, older, and one of its addresses", newInstance("a", elsewhere, loggedIn("10.0.0.5", "10.0.0.6")), false},
		{"elsewhere, logged in to", newInstance("z", elsewhere, loggedIn("10.0.0.5")), true},
		{"elsewhere, and logged in to at another address than DNS says", newInstance("a", elsewhere, loggedIn("10.0.0.5"), func(i *v1alpha1.WindowsInstance) { i.Status.HostIP = "10.0.0.6" }), false},
		{"elsewhere, logged in to, with the machine of another address", newInstance("a", elsewhere, loggedIn("10.0.0.6"), func(i *v1alpha1.WindowsInstance) { i.Spec.ProviderID = "p://1" }), false},
		{"elsewhere, deleted, held by its user", newInstance("a", elsewhere, beingDeleted), false},
		{"elsewhere, deleted, logged in to", newInstance("a", elsewhere, beingDeleted, loggedIn("10.0.0.5")), true},
		{"where the operator is", newInstance("z", func(i *v1alpha1.WindowsInstance) { i.Namespace = "home" }), true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := StandsFor(tt.other, newInstance("i"), "home"); got != tt.want {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}

func TestUseful(t *testing.T) {
	for address, want := range map[string]bool{"10.0.0.5": true, "fd00::5": true, "win-1": true, "169.254.7.7": false, "fe80::1": false, "127.0.0.1": false} {
		if got := useful(corev1.NodeAddress{Address: address}); got != want {
			t.Errorf("%s: got %v", address, got)
		}
	}
}

// DNS is asked only where nothing else knows the host by the name.
func TestHostAsksDNSRarely(t *testing.T) {
	i := newInstance("i", func(i *v1alpha1.WindowsInstance) {
		i.Status.Node.Name, i.Status.System = "win-1.example.com", &v1alpha1.SystemStatus{FQDN: "win-1.example.com"}
	})
	for _, name := range []string{"win-1.example.com", "win-2.example.com"} {
		h, err := Nodes{Reader: newReader(t), Resolver: silent{t}}.Host(t.Context(), i, name)
		if err != nil || h.Node != "win-1.example.com" {
			t.Errorf("%s: got %+v, %v", name, h, err)
		}
	}
}

type silent struct{ t *testing.T }

func (s silent) LookupNetIP(_ context.Context, _, host string) ([]netip.Addr, error) {
	s.t.Errorf("DNS is asked for %s", host)
	return nil, nil
}

// An answer of DNS that is an error confirms nothing, whatever comes with it.
func TestLookUpFails(t *testing.T) {
	h := New(newInstance("i", func(i *v1alpha1.WindowsInstance) { i.Status.Node.Name = "win-1.example.com" }), nil)
	if err := h.lookUp(t.Context(), halfAnswer{t}, "win-1.example.com"); err != nil {
		t.Error(err)
	}
	if h.Node != "" {
		t.Error("it is confirmed")
	}
}

type halfAnswer struct{ t *testing.T }

func (h halfAnswer) LookupNetIP(_ context.Context, network, host string) ([]netip.Addr, error) {
	if network != "ip" || host != "win-1.example.com." {
		h.t.Errorf("asked for %s of %s", network, host)
	}
	return []netip.Addr{netip.MustParseAddr("10.0.0.5")}, errors.New("it was cut off")
}
