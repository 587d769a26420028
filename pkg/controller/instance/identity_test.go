// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package instance

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/controller/csr/identity"
	"github.com/openshift/windows-instance-api/pkg/controller/internal/watch"
)

func TestFindNode(t *testing.T) {
	byAddress := newNode("by-address", "10.1.42.1", corev1.ConditionTrue)
	byProvider := newNode("by-provider", "10.1.42.99", corev1.ConditionTrue)
	byProvider.Spec.ProviderID = "aws:///eu-1a/i-1"
	reused := newNode("reused", "10.1.42.2", corev1.ConditionTrue) // another machine that got the address
	reused.Spec.ProviderID = "aws:///eu-1a/i-2"
	v6 := newNode("v6", "2001:db8::1", corev1.ConditionTrue)
	dns := newNode("dns", "10.1.42.3", corev1.ConditionTrue)
	dns.Status.Addresses = append(dns.Status.Addresses, corev1.NodeAddress{Type: corev1.NodeInternalDNS, Address: "Win-3.Example.com"})
	twinA, twinB := newNode("twin-a", "10.1.42.4", corev1.ConditionTrue), newNode("twin-b", "10.1.42.4", corev1.ConditionTrue)
	windows, linux := newNode("windows", "10.1.42.6", corev1.ConditionTrue), newNode("linux", "10.1.42.6", corev1.ConditionTrue)
	windows.Status.NodeInfo.OperatingSystem = "windows"
	linux.Status.NodeInfo.OperatingSystem, linux.Spec.ProviderID = "linux", "aws:///eu-1a/i-7"
	f := newFixture(t, byAddress, byProvider, reused, v6, dns, twinA, twinB, windows, linux)

	for _, test := range []struct {
		name       string
		address    string
		addresses  []string
		providerID string
		knownUID   string
		want       string
	}{
		{name: "by address", address: "10.1.42.1", want: "by-address"},
		{name: "by what the name stands for", address: "win-1.example.com", addresses: []string{"10.1.42.1"}, want: "by-address"},
		{name: "provider ID before address", address: "10.1.42.1", providerID: "aws:///eu-1a/i-1", want: "by-provider"},
		{name: "address, as the Node has no provider ID yet", address: "10.1.42.1", providerID: "aws:///eu-1a/i-9", want: "by-address"},
		{name: "not the Node of another machine", address: "10.1.42.2", providerID: "aws:///eu-1a/i-9", want: ""},
		{name: "another spelling of IPv6", address: "2001:DB8:0:0::1", want: "v6"},
		{name: "DNS name in another case", address: "win-3.example.COM.", want: "dns"},
		{name: "the first of several", address: "10.1.42.4", want: "twin-a"},
		{name: "the one that was found before", address: "10.1.42.4", knownUID: "uid-of-twin-b", want: "twin-b"},
		{name: "the one that has its name", address: "twin-b", addresses: []string{"10.1.42.4"}, want: "twin-b"},
		{name: "none", address: "10.1.42.5", want: ""},
		{name: "not a Node of Linux", address: "10.1.42.6", want: "windows"},
		{name: "not a Node of Linux by its provider ID", address: "10.1.42.7", providerID: "aws:///eu-1a/i-7", want: ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			instance := newInstance("win-1", test.address)
			instance.Namespace = homeNamespace
			instance.Spec.ProviderID, instance.Status.Addresses = test.providerID, test.addresses
			if test.knownUID != "" {
				instance.Status.Node = &v1alpha1.NodeReference{Name: "twin-b", UID: "uid-of-twin-b"}
			}
			node, _, err := identity.Nodes{Reader: f.client, Namespace: homeNamespace}.Find(t.Context(), instance)
			if err != nil {
				t.Fatal(err)
			}
			got := ""
			if node != nil {
				got = node.Name
			}
			if got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

func TestPrecedes(t *testing.T) {
	at := func(namespace, name string, age time.Duration) *v1alpha1.WindowsInstance {
		instance := newInstance(name, "10.1.42.1")
		instance.Namespace, instance.CreationTimestamp = namespace, metav1.NewTime(testNow.Add(-age))
		return instance
	}
	// configured says where its host was found, and which one it is.
	configured := func(instance *v1alpha1.WindowsInstance, address, machine string) *v1alpha1.WindowsInstance {
		instance.Status = v1alpha1.WindowsInstanceStatus{
			Addresses: []string{address}, MachineID: machine, HostKeys: []v1alpha1.HostKeyStatus{{Type: "t", Key: "k"}},
			History: []v1alpha1.Operation{{Type: v1alpha1.OperationReconfigure, HostChanged: true}},
		}
		return instance
	}
	sameMachine := at(homeNamespace, "b", time.Hour)
	sameMachine.Spec.Address, sameMachine.Status.MachineID, sameMachine.Status.HostKeys = "10.1.42.2", "m", []v1alpha1.HostKeyStatus{{Type: "t", Key: "k"}}
	elsewhere := configured(at("x", "a", 2*time.Hour), "10.1.42.9", "n")
	elsewhere.Spec.ProviderID, elsewhere.Spec.Address = "aws:///eu-1a/i-1", "10.1.42.9"
	named := at(homeNamespace, "b", time.Hour)
	named.Spec.ProviderID = "aws:///eu-1a/i-1"
	for _, test := range []struct {
		name string
		a, b *v1alpha1.WindowsInstance
	}{
		{"a configured one before one of the operator", configured(at("x", "b", time.Hour), "10.1.42.1", "m"), at(homeNamespace, "a", 2*time.Hour)},
		{"a configured one before an older one", configured(at("x", "b", time.Hour), "10.1.42.1", "m"), at("x", "a", 2*time.Hour)},
		{"a configured one before one of the operator with another address of the machine", configured(at("x", "b", time.Hour), "10.1.42.1", "m"), sameMachine},
		{"of two that are configured the one of the operator", configured(at(homeNamespace, "b", time.Hour), "10.1.42.1", "m"), configured(at("x", "a", 2*time.Hour), "10.1.42.1", "m")},
		{"one of the operator before one that has configured another host and claims to be this machine", named, elsewhere},
		{"the older one", at("x", "b", 2*time.Hour), at("x", "a", time.Hour)},
		{"by name when they are of one age", at("x", "a", time.Hour), at("x", "b", time.Hour)},
		{"by namespace when the name is the same too", at("x", "a", time.Hour), at("y", "a", time.Hour)},
		{"one of the operator before an older one elsewhere", at(homeNamespace, "b", time.Hour), at("a", "a", 2*time.Hour)},
		{"the older of two of the operator", at(homeNamespace, "b", 2*time.Hour), at(homeNamespace, "a", time.Hour)},
	} {
		t.Run(test.name, func(t *testing.T) {
			if !identity.Precedes(test.a, test.b, homeNamespace) || identity.Precedes(test.b, test.a, homeNamespace) || identity.Precedes(test.a, test.a, homeNamespace) {
				t.Errorf("%s/%s does not precede %s/%s, or not only", test.a.Namespace, test.a.Name, test.b.Namespace, test.b.Name)
			}
		})
	}
}

// TestDuplicateByMachine: who names the machine of another instance does not get its Node.
func TestDuplicateByMachine(t *testing.T) {
	first, second := newInstance("first", "10.1.42.1"), newInstance("second", "10.1.42.2")
	first.Spec.ProviderID, second.Spec.ProviderID = "azure:///subscriptions/1/resourceGroups/rg/x/win-1", "azure:///subscriptions/1/resourceGroups/RG/x/win-1"
	second.CreationTimestamp = metav1.NewTime(testNow)
	f := newFixture(t, first, second)
	for _, test := range []struct {
		instance *v1alpha1.WindowsInstance
		want     string
	}{{first, ""}, {second, "first"}} {
		other, err := findDuplicate(t.Context(), f.client, test.instance, nil, homeNamespace)
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		if other != nil {
			got = other.Name
		}
		if got != test.want {
			t.Errorf("for %s stands %q, want %q", test.instance.Name, got, test.want)
		}
	}
}

// TestNodeBelongsToOne: another port of a host, or a name for it, is no way to its Node.
func TestNodeBelongsToOne(t *testing.T) {
	first, second := newInstance("first", "10.1.42.1"), newInstance("second", "10.1.42.1")
	first.Status.Node = &v1alpha1.NodeReference{Name: "win-1", UID: "uid-of-win-1"}
	second.Spec.Port, second.CreationTimestamp = 2222, metav1.NewTime(testNow)
	for _, i := range []*v1alpha1.WindowsInstance{first, second} {
		i.Status.Version, i.Status.Addresses = "v1", []string{"10.1.42.1"}
	}
	f := newFixture(t, first, second, newNode("win-1", "10.1.42.1", corev1.ConditionTrue))
	look := func(name string) snapshot {
		t.Helper()
		w, err := f.r.snapshot(t.Context(), f.get(name), nil, remembered{})
		if err != nil {
			t.Fatal(err)
		}
		return w
	}
	if w := look("first"); w.node == nil || w.duplicate != "" {
		t.Errorf("the first has %v: %s", w.node, w.duplicate)
	}
	if w := look("second"); w.node != nil || !strings.Contains(w.duplicate, "Instance first already has Node win-1") {
		t.Errorf("the second has %v: %s", w.node, w.duplicate)
	}
	if got := f.r.sharingHost(t.Context(), first); len(got) != 1 || got[0].Name != "second" {
		t.Errorf("with the first %v are looked at, want the second", got)
	}
	second = f.get("second")
	second.Namespace = "elsewhere"
	if got := describeOwned(second, first, homeNamespace); strings.Contains(got, "first") || strings.Contains(got, "win-1") {
		t.Errorf("it tells of another namespace: %s", got)
	}
	if err := f.client.Delete(t.Context(), f.get("first")); err != nil {
		t.Fatal(err)
	}
	if w := look("second"); w.node == nil || w.duplicate != "" {
		t.Errorf("after the first is gone the second has %v: %s", w.node, w.duplicate)
	}
}

// TestConfiguredHostIsKept: what the operator declares later takes no host away that is configured.
func TestConfiguredHostIsKept(t *testing.T) {
	first, second := newInstance("first", "10.1.42.1"), newInstance("second", "win.example.com")
	second.Namespace, second.CreationTimestamp = homeNamespace, metav1.NewTime(testNow)
	f := newFixture(t, first, second)
	duplicateOf := func(instance *v1alpha1.WindowsInstance, addresses ...string) string {
		t.Helper()
		other, err := findDuplicate(t.Context(), f.client, instance, addresses, homeNamespace)
		if err != nil {
			t.Fatal(err)
		}
		if other == nil {
			return ""
		}
		return describeDuplicate(instance, other, homeNamespace)
	}
	if got := duplicateOf(second, "10.1.42.1"); got != "" {
		t.Errorf("nothing is on the host yet: %s", got)
	}
	before := f.get("first")
	first = before.DeepCopy()
	first.Status = v1alpha1.WindowsInstanceStatus{
		Addresses: []string{"10.1.42.1"}, MachineID: "m", History: []v1alpha1.Operation{{Type: v1alpha1.OperationReconfigure, HostChanged: true}},
	}
	if err := f.client.Status().Update(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	if got := duplicateOf(second, "10.1.42.1"); !strings.Contains(got, "Instance windows-hosts/first already represents this host") {
		t.Errorf("got %q", got)
	}
	second.Status.Addresses = []string{"10.1.42.1"}
	if err := f.client.Status().Update(t.Context(), second); err != nil {
		t.Fatal(err)
	}
	if got := duplicateOf(first); got != "" {
		t.Errorf("the host is taken away: %s", got)
	}
	if !endpointsChanged.Update(event.UpdateEvent{ObjectOld: before, ObjectNew: first}) {
		t.Error("others do not learn that the host is configured")
	}
}

func TestStandsFor(t *testing.T) {
	mine := newInstance("mine", "10.1.42.1")
	mine.Namespace = homeNamespace
	other := func(changes ...func(*v1alpha1.WindowsInstance)) *v1alpha1.WindowsInstance {
		instance := newInstance("other", "10.1.42.1")
		for _, c := range changes {
			c(instance)
		}
		return instance
	}
	home := func(i *v1alpha1.WindowsInstance) {
		i.Namespace, i.CreationTimestamp = homeNamespace, metav1.NewTime(testNow.Add(-2*time.Hour))
	}
	deleted := func(i *v1alpha1.WindowsInstance) { i.DeletionTimestamp = &metav1.Time{Time: testNow} }
	held := func(i *v1alpha1.WindowsInstance) { i.Finalizers = []string{v1alpha1.HostFinalizer} }
	loggedIn := func(i *v1alpha1.WindowsInstance) { i.Status.Version, i.Status.Addresses = "v1", []string{"10.1.42.1"} }
	heldByOthers := func(i *v1alpha1.WindowsInstance) { i.Finalizers = []string{"foregroundDeletion"} }
	duplicate := func(i *v1alpha1.WindowsInstance) {
		i.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionResolved, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonDuplicateHost}}
	}
	for _, test := range []struct {
		name  string
		other *v1alpha1.WindowsInstance
		want  bool
	}{
		{"precedes", other(home), true},
		{"does not precede", other(held), false},
		{"being cleaned, and does not precede", other(deleted, held, loggedIn), true},
		{"deleted, and the host was never logged in to", other(deleted, held), false},
		{"deleted, and nothing is on the host", other(home, deleted, heldByOthers), false},
		{"deleted, and never stood for the host", other(deleted, held, duplicate), false},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := identity.StandsFor(test.other, mine, homeNamespace); got != test.want {
				t.Errorf("got %v, want %v", got, test.want)
			}
		})
	}
}

// The other instance is named only to those who can read its namespace anyway.
func TestDescribeDuplicateTellsNothingOfOtherNamespaces(t *testing.T) {
	instance, other := newInstance("mine", "10.1.42.1"), newInstance("secret-name", "10.1.42.1")
	other.Status.History = []v1alpha1.Operation{{Type: v1alpha1.OperationReconfigure, HostChanged: true}}
	other.Status.Node = &v1alpha1.NodeReference{Name: "secret-node"}
	if got := describeDuplicate(instance, other, homeNamespace); !strings.Contains(got, "secret-name") {
		t.Errorf("got %q", got)
	}
	other.Namespace = "secret-namespace"
	for _, describe := range []func(instance, other *v1alpha1.WindowsInstance, home string) string{describeDuplicate, describeOwned} {
		if got := describe(instance, other, homeNamespace); strings.Contains(got, "secret") || !strings.Contains(got, "Delete this instance, which leaves the host as it is") {
			t.Errorf("got %q", got)
		}
		if got := describe(instance, other, testNamespace); !strings.Contains(got, "secret-namespace/secret-name") {
			t.Errorf("to those of the operator: %q", got)
		}
	}
}

// Whoever follows the message loses no host.
func TestDescribeDuplicateIsSafe(t *testing.T) {
	const abandon = `kubectl patch wi other -n windows-hosts --type=merge -p '{"spec":{"removal":{"policy":"Abandon"}}}'`
	changed := func(_, other *v1alpha1.WindowsInstance) {
		other.Status.History = []v1alpha1.Operation{{Type: v1alpha1.OperationReconfigure, HostChanged: true}}
	}
	for _, test := range []struct {
		name   string
		change func(this, other *v1alpha1.WindowsInstance)
		want   string
		not    string
	}{
		{"nothing of ours is on the host", nil, "Delete this instance, which leaves the host as it is", "Abandon"},
		{"the other one has configured the host", changed, "Do not delete instance other, because that may remove the host from the cluster. For this instance to represent the host instead, delete that one after: " + abandon, ""},
		{"the other one was restored", func(_, other *v1alpha1.WindowsInstance) { other.Finalizers = []string{v1alpha1.HostFinalizer} }, abandon, ""},
		{"this one comes from a source", func(this, _ *v1alpha1.WindowsInstance) {
			this.Annotations = map[string]string{v1alpha1.SourceAnnotation: "ConfigMap x/y, entry z"}
		}, "Remove this instance from its source (ConfigMap x/y, entry z), which leaves the host as it is", "Delete this"},
	} {
		t.Run(test.name, func(t *testing.T) {
			instance, other := newInstance("this", "10.1.42.1"), newInstance("other", "10.1.42.1")
			other.Status.Node = &v1alpha1.NodeReference{Name: "node"}
			if test.change != nil {
				test.change(instance, other)
			}
			for _, describe := range []func(instance, other *v1alpha1.WindowsInstance, home string) string{describeDuplicate, describeOwned} {
				if got := describe(instance, other, homeNamespace); !strings.Contains(got, test.want) || test.not != "" && strings.Contains(got, test.not) {
					t.Errorf("got %q", got)
				}
			}
		})
	}
}

func TestEndpoints(t *testing.T) {
	instance := newInstance("win-1", "2001:DB8:0::1")
	instance.Status.Addresses = []string{"2001:db8::1", "10.1.42.1"}
	if diff := cmp.Diff([]string{"10.1.42.1:22", "[2001:db8::1]:22"}, identity.Endpoints(instance)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if got := identity.Endpoints(newInstance("win-1", "win-1.example.com")); len(got) != 0 {
		t.Errorf("got %v", got)
	}
}

func TestContactDigest(t *testing.T) {
	base := newInstance("win-1", "10.1.42.1")
	pool := &v1alpha1.WindowsNodePool{}
	for _, test := range []struct {
		name   string
		change func(*v1alpha1.WindowsInstance, *v1alpha1.WindowsNodePool)
		same   bool
	}{
		{"nothing", func(*v1alpha1.WindowsInstance, *v1alpha1.WindowsNodePool) {}, true},
		{"paused", func(i *v1alpha1.WindowsInstance, p *v1alpha1.WindowsNodePool) {
			i.Spec.Paused, p.Spec.Paused = true, true
		}, true},
		{"provider ID", func(i *v1alpha1.WindowsInstance, _ *v1alpha1.WindowsNodePool) { i.Spec.ProviderID = "x" }, true},
		{"recorded host key", func(i *v1alpha1.WindowsInstance, _ *v1alpha1.WindowsNodePool) {
			i.Status.HostKeys = []v1alpha1.HostKeyStatus{{}}
		}, true},
		{"address", func(i *v1alpha1.WindowsInstance, _ *v1alpha1.WindowsNodePool) { i.Spec.Address = "x" }, false},
		{"port", func(i *v1alpha1.WindowsInstance, _ *v1alpha1.WindowsNodePool) { i.Spec.Port = 2222 }, false},
		{"user", func(i *v1alpha1.WindowsInstance, _ *v1alpha1.WindowsNodePool) { i.Spec.Username = "x" }, false},
		{"pinned host key", func(i *v1alpha1.WindowsInstance, _ *v1alpha1.WindowsNodePool) {
			i.Spec.HostKeys = []string{"x"}
		}, false},
		{"credentials", func(i *v1alpha1.WindowsInstance, _ *v1alpha1.WindowsNodePool) {
			i.Spec.CredentialsSecretRef = &v1alpha1.SecretReference{Name: "x"}
		}, false},
		{"bastion", func(i *v1alpha1.WindowsInstance, _ *v1alpha1.WindowsNodePool) {
			i.Spec.Bastion = &v1alpha1.Bastion{Address: "x"}
		}, false},
		{"bastion of the pool", func(_ *v1alpha1.WindowsInstance, p *v1alpha1.WindowsNodePool) {
			p.Spec.Template.Bastion = &v1alpha1.Bastion{Address: "x"}
		}, false},
		{"credentials of the pool", func(_ *v1alpha1.WindowsInstance, p *v1alpha1.WindowsNodePool) {
			p.Spec.Template.CredentialsSecretRef = &v1alpha1.SecretReference{Name: "x"}
		}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			instance, changed := base.DeepCopy(), pool.DeepCopy()
			test.change(instance, changed)
			if got := contactDigest(instance, changed) == contactDigest(base, pool); got != test.same {
				t.Errorf("the same: %t, want %t", got, test.same)
			}
		})
	}
}

func TestNodeChanged(t *testing.T) {
	for _, test := range []struct {
		name   string
		change func(*corev1.Node)
		want   bool
	}{
		{"heartbeat", func(n *corev1.Node) { n.Status.Conditions[0].LastHeartbeatTime = metav1.NewTime(testNow) }, false},
		{"images", func(n *corev1.Node) { n.Status.Images = []corev1.ContainerImage{{}} }, false},
		{"ready", func(n *corev1.Node) { n.Status.Conditions[0].Status = corev1.ConditionFalse }, true},
		{"why it is not ready", func(n *corev1.Node) { n.Status.Conditions[0].Message = "x" }, true},
		{"no conditions", func(n *corev1.Node) { n.Status.Conditions = nil }, true},
		{"address", func(n *corev1.Node) { n.Status.Addresses[0].Address = "10.1.42.2" }, true},
		{"kubelet", func(n *corev1.Node) { n.Status.NodeInfo.KubeletVersion = "v1.38.0" }, true},
		{"provider ID", func(n *corev1.Node) { n.Spec.ProviderID = "x" }, true},
		{"another reason", func(n *corev1.Node) { n.Status.Conditions[0].Reason = "x" }, true},
		{"another Node of the name", func(n *corev1.Node) { n.UID = "x" }, true},
		{"annotations", func(n *corev1.Node) { n.Annotations = map[string]string{"a": "b"} }, true},
		{"for whom it was configured", func(n *corev1.Node) { n.Labels = map[string]string{v1alpha1.NamespaceLabel: "a"} }, true},
		{"subnet", func(n *corev1.Node) { n.Spec.PodCIDRs = []string{"10.128.0.0/24"} }, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			before, after := newNode("win-1", "10.1.42.1", corev1.ConditionTrue), newNode("win-1", "10.1.42.1", corev1.ConditionTrue)
			test.change(after)
			if got := nodeChanged.Update(event.UpdateEvent{ObjectOld: before, ObjectNew: after}); got != test.want {
				t.Errorf("got %t, want %t", got, test.want)
			}
		})
	}
}

// Which of several instances stands for a host depends on more than where they are contacted.
func TestEndpointsChanged(t *testing.T) {
	for _, test := range []struct {
		name   string
		change func(*v1alpha1.WindowsInstance)
		want   bool
	}{
		{"nothing", func(*v1alpha1.WindowsInstance) {}, false},
		{"what it says of itself", func(i *v1alpha1.WindowsInstance) { i.Status.System = &v1alpha1.SystemStatus{Build: "20348"} }, false},
		{"its computer name", func(i *v1alpha1.WindowsInstance) { i.Status.System = &v1alpha1.SystemStatus{Hostname: "h"} }, true},
		{"it was logged in to", func(i *v1alpha1.WindowsInstance) { i.Status.Version = "v1" }, true},
		{"address", func(i *v1alpha1.WindowsInstance) { i.Spec.Address = "10.1.42.2" }, true},
		{"machine", func(i *v1alpha1.WindowsInstance) { i.Status.MachineID = "m" }, true},
		{"it was configured", func(i *v1alpha1.WindowsInstance) {
			i.Status.History = []v1alpha1.Operation{{Type: v1alpha1.OperationReconfigure, HostChanged: true}}
		}, true},
		{"it is being deleted", func(i *v1alpha1.WindowsInstance) { i.DeletionTimestamp = &metav1.Time{Time: testNow} }, true},
		{"Node", func(i *v1alpha1.WindowsInstance) { i.Status.Node = &v1alpha1.NodeReference{Name: "win-1", UID: "n"} }, true},
	} {
		before, after := newInstance("win-1", "10.1.42.1"), newInstance("win-1", "10.1.42.1")
		test.change(after)
		if got := endpointsChanged.Update(event.UpdateEvent{ObjectOld: before, ObjectNew: after}); got != test.want {
			t.Errorf("%s: got %t, want %t", test.name, got, test.want)
		}
	}
	with, without := newNode("win-1", "10.1.42.1", corev1.ConditionTrue), newNode("win-1", "10.1.42.1", corev1.ConditionTrue)
	without.Status.Conditions = nil
	if !nodeChanged.Update(event.UpdateEvent{ObjectOld: without, ObjectNew: with}) || nodeChanged.Update(event.UpdateEvent{ObjectOld: without, ObjectNew: without.DeepCopy()}) {
		t.Error("a Node that begins to report is not seen, or one that never did is")
	}
}

func TestWatchesFindWhatAChangeConcerns(t *testing.T) {
	one, two, elsewhere, foreign := newInstance("one", "10.1.42.1"), newInstance("two", "win.example.com"), newInstance("elsewhere", "10.1.42.9"), newInstance("foreign", "10.1.42.10")
	two.Status.Addresses = []string{"10.1.42.1"}
	one.Spec.PoolRef = &v1alpha1.PoolReference{Name: "rack-1"}
	foreign.Spec.PoolRef = &v1alpha1.PoolReference{Name: "rack-1"}
	foreign.Namespace = "another"
	f := newFixture(t, one, two, elsewhere, foreign)
	names := func(of func() []string) string { return strings.Join(of(), " ") }
	ctx := context.Background()

	if got := names(func() (out []string) {
		for _, r := range f.r.sharingHost(ctx, one) {
			out = append(out, r.Name)
		}
		return out
	}); got != "two" {
		t.Errorf("an instance concerns %q", got)
	}
	elsewhere.Status.System, one.Status.System = &v1alpha1.SystemStatus{Hostname: "CLONE"}, &v1alpha1.SystemStatus{Hostname: "clone"}
	if err := f.client.Status().Update(ctx, elsewhere); err != nil {
		t.Fatal(err)
	}
	if got := names(func() (out []string) {
		for _, r := range f.r.sharingHost(ctx, one) {
			out = append(out, r.Name)
		}
		return out
	}); got != "two elsewhere" {
		t.Errorf("an instance whose computer name changes concerns %q", got)
	}
	if got := names(func() (out []string) {
		for _, r := range watch.MembersOf(f.r.client)(ctx, &v1alpha1.WindowsNodePool{ObjectMeta: metav1.ObjectMeta{Namespace: testNamespace, Name: "rack-1"}}) {
			out = append(out, r.Name)
		}
		return out
	}); got != "one" {
		t.Errorf("a pool concerns %q", got)
	}
	moved := two.DeepCopy()
	moved.Status.Addresses = []string{"10.1.42.9"}
	if !endpointsChanged.Update(event.UpdateEvent{ObjectOld: two, ObjectNew: moved}) || endpointsChanged.Update(event.UpdateEvent{ObjectOld: two, ObjectNew: two}) {
		t.Error("only a change of the addresses concerns others")
	}
}

// A Node that reports the address of a host is not the Node of the host by that alone.
func TestPlausible(t *testing.T) {
	kubelet := func(f *api.Facts) { f.Services = []api.Service{{Name: "kubelet"}} }
	unread := func(f *api.Facts) { f.Errors = []api.FactError{{Area: "services/kubelet"}} }
	for _, test := range []struct {
		name   string
		node   string
		change func(*v1alpha1.WindowsInstance)
		seen   *observation
		want   bool
	}{
		{"it has the name of the host", "win-1", nil, healthy(), true},
		{"the host was not inspected", "liar", nil, &observation{}, true},
		{"another name, and the host has a kubelet", "ip-10-1-42-1.ec2.internal", nil, healthy(kubelet), true},
		{"another name, and it is not known whether the host has a kubelet", "liar", nil, healthy(unread), true},
		{"another name, and no kubelet", "liar", nil, healthy(), false},
		{"the host was configured by us", "ip-10-1-42-1.ec2.internal", func(i *v1alpha1.WindowsInstance) {
			i.Status.History = []v1alpha1.Operation{{Type: v1alpha1.OperationReconfigure, HostChanged: true}}
		}, healthy(), true},
	} {
		t.Run(test.name, func(t *testing.T) {
			instance := newInstance("win-1", "10.1.42.1")
			if test.change != nil {
				test.change(instance)
			}
			if got := plausible(newNode(test.node, "10.1.42.1", corev1.ConditionTrue), instance, test.seen); got != test.want {
				t.Errorf("got %v, want %v", got, test.want)
			}
		})
	}
}

// TestOtherMachine: a Node at the address of a host that is not its Node because of its provider ID is named, so that somebody corrects that or deletes the Node.
// Where the address proves nothing, and whoever has a bastion could ask for the Nodes of all addresses, none is.
func TestOtherMachine(t *testing.T) {
	const address = "10.1.42.1"
	provider := func(id string) func(*v1alpha1.WindowsInstance) {
		return func(i *v1alpha1.WindowsInstance) { i.Spec.ProviderID = id }
	}
	onProvider := func(id string) func(*corev1.Node) { return func(n *corev1.Node) { n.Spec.ProviderID = id } }
	for _, test := range []struct {
		name string
		edit func(*v1alpha1.WindowsInstance)
		node func(*corev1.Node)
		want string
	}{
		{"another machine", provider("aws:///a/i-1"), onProvider("aws:///a/i-2"), "win-0"},
		{"no Node", provider("aws:///a/i-1"), nil, ""},
		{"its Node", provider("aws:///a/i-1"), onProvider("aws:///a/i-1"), ""},
		{"its Node, in another spelling", provider("vsphere://4228E784"), onProvider("vsphere://4228e784"), ""},
		{"a Node without an ID", provider("aws:///a/i-1"), func(*corev1.Node) {}, ""},
		{"a Node of Linux", provider("aws:///a/i-1"), func(n *corev1.Node) {
			onProvider("aws:///a/i-2")(n)
			n.Status.NodeInfo.OperatingSystem = "linux"
		}, ""},
		{"at another address", provider("aws:///a/i-1"), func(n *corev1.Node) {
			onProvider("aws:///a/i-2")(n)
			n.Status.Addresses[0].Address = "10.1.42.9"
		}, ""},
		{"at an address that only the name of the host has", func(i *v1alpha1.WindowsInstance) {
			provider("aws:///a/i-1")(i)
			i.Status.HostIP, i.Status.Addresses = "10.1.42.7", []string{address}
		}, onProvider("aws:///a/i-2"), ""},
		{"behind a bastion", func(i *v1alpha1.WindowsInstance) {
			provider("aws:///a/i-1")(i)
			i.Status.Bastion = "10.9.9.9:22"
		}, onProvider("aws:///a/i-2"), ""},
		{"not logged in to", func(i *v1alpha1.WindowsInstance) {
			provider("aws:///a/i-1")(i)
			i.Status = v1alpha1.WindowsInstanceStatus{Addresses: []string{address}}
		}, onProvider("aws:///a/i-2"), ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			instance := newInstance("win-1", address)
			instance.Status.MachineID, instance.Status.HostIP, instance.Status.Addresses = "firmware-1/windows-1", address, []string{address}
			test.edit(instance)
			objects := []client.Object{instance}
			if test.node != nil {
				node := newNode("win-0", address, corev1.ConditionTrue)
				test.node(node)
				objects = append(objects, node)
			}
			f := newFixture(t, objects...)
			got, err := f.r.snapshot(t.Context(), instance, nil, remembered{})
			if err != nil || got.otherMachine != test.want {
				t.Errorf("got %q, %v, want %q", got.otherMachine, err, test.want)
			}
		})
	}
}
