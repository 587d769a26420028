// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package networks

import (
	"context"
	"errors"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic/fake"
	coreinformers "k8s.io/client-go/informers/core/v1"
	kubefake "k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/yaml"

	"github.com/openshift/windows-instance-api/pkg/host/ssh"
)

// clients are those of a cluster.
type clients struct {
	dynamic *fake.FakeDynamicClient
	kube    *kubefake.Clientset
}

// prependReactor has a request answered by whoever asks.
func (c clients) prependReactor(verb, resource string, reaction clienttesting.ReactionFunc) {
	if resource == "nodes" {
		c.kube.PrependReactor(verb, resource, reaction)
		return
	}
	c.dynamic.PrependReactor(verb, resource, reaction)
}

func (c clients) watch(ctx context.Context) (*Networks, error) { return Watch(ctx, c.kube, c.dynamic) }

// cluster is a cluster with these objects.
func cluster(t *testing.T, documents ...string) clients {
	t.Helper()
	kinds := map[schema.GroupVersionResource]string{}
	for _, s := range append(otherSources(), nodesSource) {
		kinds[s.GroupVersionResource] = map[string]string{
			"servicecidrs": "ServiceCIDRList", "endpointslices": "EndpointSliceList", "nodes": "NodeList",
			"configmaps": "ConfigMapList", "networks": "NetworkList",
		}[s.Resource]
	}
	var objects, nodes []runtime.Object
	for _, document := range documents {
		if o := object(t, document); o.GetKind() == "Node" {
			nodes = append(nodes, node(t, document))
		} else {
			objects = append(objects, o)
		}
	}
	return clients{fake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), kinds, objects...), kubefake.NewClientset(nodes...)}
}

func node(t *testing.T, document string) *corev1.Node {
	t.Helper()
	n := &corev1.Node{}
	if err := yaml.Unmarshal([]byte(document), n); err != nil {
		t.Fatal(err)
	}
	return n
}

func object(t *testing.T, document string) *unstructured.Unstructured {
	t.Helper()
	u := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(document), &u.Object); err != nil {
		t.Fatal(err)
	}
	return u
}

// watching is what is known of a cluster.
func watching(t *testing.T, client clients) *Networks {
	t.Helper()
	n, err := client.watch(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(n.Close)
	n.WaitBriefly(t.Context())
	return n
}

func (n *Networks) expect(t *testing.T, want map[string]string) {
	t.Helper()
	for address, want := range want {
		if got, err := n.Kind(netip.MustParseAddr(address)); err != nil || got != want {
			t.Errorf("%s is %q, %v, want %q", address, got, err, want)
		}
	}
}

const (
	serviceCIDR   = `{apiVersion: networking.k8s.io/v1, kind: ServiceCIDR, metadata: {name: kubernetes}, spec: {cidrs: [10.96.0.0/16, "fd00:96::/112"]}}`
	endpointSlice = `{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, metadata: {name: kubernetes, namespace: default}, addressType: IPv4,
		endpoints: [{addresses: [192.0.2.10]}, {addresses: [192.0.2.11]}]}`
	linuxNode = `{apiVersion: v1, kind: Node, metadata: {name: linux-1, labels: {kubernetes.io/os: linux}}, spec: {podCIDR: 10.244.0.0/24, podCIDRs: [10.244.0.0/24, "fd00:244::/64"]},
		status: {addresses: [{type: InternalIP, address: 192.0.2.20}, {type: ExternalIP, address: 203.0.113.20}, {type: Hostname, address: linux-1}]}}`
	unlabeledNode = `{apiVersion: v1, kind: Node, metadata: {name: linux-2}, status: {nodeInfo: {operatingSystem: linux}, addresses: [{type: InternalIP, address: 192.0.2.21}]}}`
	windowsNode   = `{apiVersion: v1, kind: Node, metadata: {name: win-1, labels: {kubernetes.io/os: windows}}, spec: {podCIDR: 10.244.9.0/24, podCIDRs: [10.244.9.0/24]},
		status: {addresses: [{type: InternalIP, address: 192.0.2.30}]}}`
	newNode = `{apiVersion: v1, kind: Node, metadata: {name: new}, status: {addresses: [{type: InternalIP, address: 192.0.2.31}]}}`
)

func TestKind(t *testing.T) {
	for _, tt := range []struct {
		name    string
		objects []string
		want    map[string]string
	}{
		{"a cluster", []string{serviceCIDR, endpointSlice, linuxNode, unlabeledNode, windowsNode, newNode}, map[string]string{
			"10.96.0.1": kindService, "10.96.255.255": kindService, "fd00:96::1": kindService, "10.97.0.1": "",
			"192.0.2.10": kindAPIServer, "192.0.2.11": kindAPIServer, "192.0.2.12": "",
			"192.0.2.20": kindNode, "203.0.113.20": kindNode, "192.0.2.21": kindNode,
			"10.244.0.7": kindPod, "fd00:244::7": kindPod, "10.244.9.7": kindPod, "10.244.1.7": "",
			"192.0.2.30": "", "192.0.2.31": "", // a Windows Node, and one that says nothing yet
		}},
		{"nothing is known", nil, map[string]string{"10.96.0.1": "", "192.0.2.20": ""}},
		// Where pods have addresses of the network of the Nodes, Windows Nodes are in it, too.
		{"pods in the network of the Nodes", []string{
			`{apiVersion: v1, kind: Node, metadata: {name: linux-1, labels: {kubernetes.io/os: linux}}, spec: {podCIDRs: [192.0.2.0/24]}, status: {addresses: [{type: InternalIP, address: 192.0.2.20}]}}`,
			windowsNode, endpointSlice,
		}, map[string]string{"192.0.2.30": "", "192.0.2.31": kindPod, "192.0.2.20": kindNode, "192.0.2.10": kindAPIServer}},
		// A kubelet says what it likes about itself.
		{"a Windows Node that claims to be everything", []string{serviceCIDR, endpointSlice,
			`{apiVersion: v1, kind: Node, metadata: {name: win-1, labels: {kubernetes.io/os: windows}}, status: {addresses: [{type: InternalIP, address: 10.96.0.1}, {type: InternalIP, address: 192.0.2.10}]}}`,
		}, map[string]string{"10.96.0.1": kindService, "192.0.2.10": kindAPIServer}},
		{"a Node that claims the addresses of one that was there before", []string{
			`{apiVersion: v1, kind: Node, metadata: {name: a, creationTimestamp: "2026-02-01T00:00:00Z", labels: {kubernetes.io/os: windows}}, status: {addresses: [{type: InternalIP, address: 192.0.2.20}]}}`,
			`{apiVersion: v1, kind: Node, metadata: {name: b, creationTimestamp: "2026-01-01T00:00:00Z", labels: {kubernetes.io/os: linux}}, status: {addresses: [{type: InternalIP, address: 192.0.2.20}]}}`,
			`{apiVersion: v1, kind: Node, metadata: {name: c, creationTimestamp: "2026-01-01T00:00:00Z", labels: {kubernetes.io/os: windows}}, status: {addresses: [{type: InternalIP, address: 192.0.2.30}]}}`,
			`{apiVersion: v1, kind: Node, metadata: {name: d, creationTimestamp: "2026-02-01T00:00:00Z", labels: {kubernetes.io/os: linux}}, status: {addresses: [{type: InternalIP, address: 192.0.2.30}]}}`,
		}, map[string]string{"192.0.2.20": kindNode, "192.0.2.30": ""}},
		{"a Node that claims to have all addresses for its pods", []string{
			`{apiVersion: v1, kind: Node, metadata: {name: win-1, labels: {kubernetes.io/os: windows}}, spec: {podCIDRs: [0.0.0.0/0, "::/0", 10.0.0.0/8]}}`,
		}, map[string]string{"10.0.0.1": "", "192.0.2.1": "", "2001:db8::1": ""}},
		{"addresses in other forms", []string{
			`{apiVersion: v1, kind: Node, metadata: {name: linux-1, labels: {kubernetes.io/os: linux}}, spec: {podCIDRs: [nonsense, 10.244.7.9/24]}, status: {addresses: [{type: InternalIP, address: "::ffff:192.0.2.20"}]}}`,
		}, map[string]string{"192.0.2.20": kindNode, "10.244.7.1": kindPod}},
		{"OpenShift", []string{
			`{apiVersion: config.openshift.io/v1, kind: Network, metadata: {name: cluster}, spec: {clusterNetwork: [{cidr: 10.128.0.0/14}], serviceNetwork: [172.30.0.0/16]}, status: {clusterNetwork: [{cidr: 10.124.0.0/14}], serviceNetwork: [172.29.0.0/16]}}`,
			`{apiVersion: operator.openshift.io/v1, kind: Network, metadata: {name: cluster}, spec: {defaultNetwork: {ovnKubernetesConfig: {hybridOverlayConfig: {hybridClusterNetwork: [{cidr: 10.132.0.0/14}]}}}}}`,
		}, map[string]string{"172.30.0.1": kindService, "172.29.0.1": kindService, "10.128.0.1": kindPod, "10.124.0.1": kindPod, "10.132.0.1": kindPod, "10.136.0.1": ""}},
		{"kubeadm", []string{
			`{apiVersion: v1, kind: ConfigMap, metadata: {name: kubeadm-config, namespace: kube-system}, data: {ClusterConfiguration: "networking:\n  podSubnet: 10.244.0.0/16, fd00:244::/56\n  serviceSubnet: 10.96.0.0/12\n"}}`,
		}, map[string]string{"10.244.200.1": kindPod, "fd00:244::1": kindPod, "10.111.0.1": kindService}},
		{"kubeadm's ConfigMap is something else", []string{
			`{apiVersion: v1, kind: ConfigMap, metadata: {name: kubeadm-config, namespace: kube-system}, data: {ClusterConfiguration: "["}}`, serviceCIDR,
		}, map[string]string{"10.96.0.1": kindService}},
		{"an object of another form", []string{
			`{apiVersion: networking.k8s.io/v1, kind: ServiceCIDR, metadata: {name: other}, spec: {cidrs: 7}}`, serviceCIDR,
		}, map[string]string{"10.96.0.1": kindService}},
	} {
		t.Run(tt.name, func(t *testing.T) { watching(t, cluster(t, tt.objects...)).expect(t, tt.want) })
	}
}

// TestChanges: what changes in the cluster counts from then on.
func TestChanges(t *testing.T) {
	client := cluster(t, linuxNode)
	n := watching(t, client)
	n.expect(t, map[string]string{"192.0.2.20": kindNode, "192.0.2.21": ""})
	nodes := client.kube.CoreV1().Nodes()
	if _, err := nodes.Create(t.Context(), node(t, unlabeledNode), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	n.eventually(t, "192.0.2.21", kindNode) // before it watches, the fake would not tell of the deletion
	if err := nodes.Delete(t.Context(), "linux-1", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	n.eventually(t, "192.0.2.20", "")
}

func (n *Networks) eventually(t *testing.T, address, want string) {
	t.Helper()
	if err := wait.PollUntilContextTimeout(t.Context(), 10*time.Millisecond, 30*time.Second, true, func(context.Context) (bool, error) {
		got, err := n.Kind(netip.MustParseAddr(address))
		return got == want, err
	}); err != nil {
		t.Errorf("%s is not %q: %v", address, want, err)
	}
}

// TestWatchBeside: what an informer of somebody else has counts as soon as that runs, and nothing is decided before.
func TestWatchBeside(t *testing.T) {
	client := cluster(t, serviceCIDR, linuxNode, windowsNode)
	informer := coreinformers.NewNodeInformer(client.kube, 0, cache.Indexers{})
	n, err := WatchBeside(t.Context(), informer, client.dynamic)
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	if _, err := n.Kind(netip.MustParseAddr("192.0.2.30")); !errors.Is(err, ssh.ErrUndecided) || !strings.Contains(err.Error(), "nodes cannot be read") {
		t.Errorf("got %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var ended sync.WaitGroup
	ended.Go(func() { informer.RunWithContext(ctx) })
	defer ended.Wait()
	defer cancel()
	if err := n.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	n.expect(t, map[string]string{"192.0.2.20": kindNode, "192.0.2.30": "", "10.244.0.7": kindPod, "10.96.0.1": kindService})
	changed := node(t, linuxNode)
	changed.Status.Addresses[0].Address = "192.0.2.22"
	if _, err := client.kube.CoreV1().Nodes().Update(t.Context(), changed, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	n.eventually(t, "192.0.2.22", kindNode)
	n.eventually(t, "192.0.2.20", "")
	if err := client.kube.CoreV1().Nodes().Delete(t.Context(), "linux-1", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	n.eventually(t, "192.0.2.22", "")
}

// TestWhatCannotBeRead leaves the rest in force. What the cluster does not have delays nothing; what it does
// not let us read may be for a moment.
func TestWhatCannotBeRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := cluster(t, serviceCIDR, endpointSlice, linuxNode)
		refuse := func(resource string, err error) {
			client.prependReactor("list", resource, func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, err })
		}
		// As kube-apiserver answers for a group that it does not have.
		refuse("servicecidrs", apierrors.NewGenericServerResponse(http.StatusNotFound, "GET", schema.GroupResource{Resource: "servicecidrs"}, "", "404 page not found\n", 0, true))
		began := time.Now()
		n := watching(t, client)
		n.expect(t, map[string]string{"192.0.2.10": kindAPIServer, "10.96.0.1": "", "192.0.2.20": kindNode})
		n.Close()
		if took := time.Since(began); took > 0 {
			t.Errorf("it took %s", took)
		}
		refuse("nodes", apierrors.NewForbidden(schema.GroupResource{Resource: "nodes"}, "", nil))
		n = watching(t, client)
		if err := n.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		n.expect(t, map[string]string{"192.0.2.10": kindAPIServer, "10.96.0.1": "", "192.0.2.20": ""})
		n.Close()
	})
}

// An API server that has just started refuses what it allows a moment later, and a load balancer before it knows
// nothing of the API: neither opens anything.
func TestRefusedForAMoment(t *testing.T) {
	for name, refusal := range map[string]error{
		"roles are not read yet": apierrors.NewForbidden(schema.GroupResource{Resource: "nodes"}, "", nil),
		"a load balancer":        apierrors.NewGenericServerResponse(http.StatusNotFound, "GET", schema.GroupResource{Resource: "nodes"}, "", "<html>", 0, true),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				client := cluster(t, linuxNode)
				refusals := 2
				client.prependReactor("list", "nodes", func(clienttesting.Action) (bool, runtime.Object, error) {
					refusals--
					return refusals >= 0, nil, refusal
				})
				n, err := client.watch(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				defer n.Close()
				if _, err := n.Kind(netip.MustParseAddr("192.0.2.20")); !errors.Is(err, ssh.ErrUndecided) {
					t.Errorf("got %v", err)
				}
				if err := n.Wait(t.Context()); err != nil {
					t.Fatal(err)
				}
				n.expect(t, map[string]string{"192.0.2.20": kindNode})
			})
		})
	}
}

// TestAPIIsAway: nothing is known until the API answers, and that is waited for; what is known stays.
func TestAPIIsAway(t *testing.T) {
	client := cluster(t, serviceCIDR)
	tries := 0
	client.prependReactor("list", "servicecidrs", func(clienttesting.Action) (bool, runtime.Object, error) {
		tries++
		return tries == 1, nil, apierrors.NewServiceUnavailable("starting")
	})
	n := watching(t, client)
	n.expect(t, map[string]string{"10.96.0.1": kindService})
	n.Close() // with what is known
	n.expect(t, map[string]string{"10.96.0.1": kindService})
}

// A source that answers with errors keeps nobody from starting, and nothing is dialed until it answers.
func TestNotKnownYet(t *testing.T) {
	client := cluster(t, serviceCIDR)
	var healed atomic.Bool
	client.prependReactor("list", "nodes", func(clienttesting.Action) (bool, runtime.Object, error) {
		return !healed.Load(), nil, apierrors.NewInternalError(errors.New("a webhook is broken"))
	})
	n, err := client.watch(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	if _, err := n.Kind(netip.MustParseAddr("10.96.0.1")); err == nil || !strings.Contains(err.Error(), "is not known yet") {
		t.Errorf("got %v", err)
	}
	healed.Store(true)
	if err := wait.PollUntilContextTimeout(t.Context(), 10*time.Millisecond, 30*time.Second, true, func(context.Context) (bool, error) {
		_, err := n.Kind(netip.MustParseAddr("10.96.0.1"))
		return err == nil, nil
	}); err != nil {
		t.Fatal("it does not become known")
	}
	n.expect(t, map[string]string{"10.96.0.1": kindService, "192.0.2.1": ""})
}

// TestWatchEnds with its context, also while it waits.
func TestWatchEnds(t *testing.T) {
	client := cluster(t)
	ctx, cancel := context.WithCancel(t.Context())
	client.prependReactor("list", "nodes", func(clienttesting.Action) (bool, runtime.Object, error) {
		cancel()
		return true, nil, apierrors.NewServiceUnavailable("starting")
	})
	n, err := client.watch(ctx)
	if err != nil {
		t.Fatal(err)
	}
	n.Close()
}
