// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package node

import (
	"context"
	"errors"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlfake "sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/controller/csr/identity"
	"github.com/openshift/windows-instance-api/pkg/controller/internal/object"
	"github.com/openshift/windows-instance-api/pkg/wmco"
)

const (
	testNamespace = "windows-hosts"
	testInstance  = "10.0.0.5"
	testNode      = "win-1"
	testVersion   = "v1.2.3"
)

// recorder keeps events as "type reason: message".
type recorder struct {
	record.EventRecorder

	mu     sync.Mutex
	events []string
}

func (r *recorder) Event(_ runtime.Object, eventType, reason, message string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, eventType+" "+reason+": "+message)
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
	*testing.T
	*Reconciler
	events *recorder
	// writes are the requests that changed a Node, by their kind.
	writes []string
	// before is called before each of them.
	before func()
	// wmcoRuns: WMCO does. unknown is why nobody knows.
	wmcoRuns bool
	unknown  error
}

func newSetup(t *testing.T, objects ...client.Object) *setup {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v1alpha1.AddToScheme, machinev1beta1.Install} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	s := &setup{T: t, events: &recorder{}, before: func() {}}
	c := ctrlfake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithIndex(&corev1.Node{}, identity.NodeIndex, func(o client.Object) []string {
		return identity.OfNode(o.(*corev1.Node))
	}).WithReturnManagedFields().WithInterceptorFuncs(interceptor.Funcs{
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
			s.writes = append(s.writes, "patch")
			s.before()
			return c.Patch(ctx, o, p, opts...)
		},
		Apply: func(ctx context.Context, c client.WithWatch, o runtime.ApplyConfiguration, opts ...client.ApplyOption) error {
			s.writes = append(s.writes, "apply")
			return c.Apply(ctx, o, opts...)
		},
	}).Build()
	s.Reconciler = newReconciler(c, Options{Version: testVersion, Namespace: testNamespace, Recorder: s.events, WMCOEnded: func(context.Context) (bool, error) { return !s.wmcoRuns, s.unknown }})
	s.resolver = dns{"ip-10-0-0-5.ec2.internal.": "10.0.0.5"}
	return s
}

// identities are those by which [Labels] finds out whose Node it is, as of a reconciler.
func (s *setup) identities() identity.Nodes {
	return identity.Nodes{Reader: s.client, Resolver: s.resolver, Namespace: testNamespace}
}

// reconcile makes one pass and returns what was written.
func (s *setup) reconcile() ([]string, reconcile.Result) {
	s.Helper()
	s.writes = nil
	result, err := s.Reconcile(s.Context(), reconcile.Request{NamespacedName: client.ObjectKey{Namespace: testNamespace, Name: testInstance}})
	if err != nil {
		s.Fatal(err)
	}
	return s.writes, result
}

func (s *setup) node() *corev1.Node {
	s.Helper()
	var node corev1.Node
	if err := s.client.Get(s.Context(), client.ObjectKey{Name: testNode}, &node); err != nil {
		s.Fatal(err)
	}
	return &node
}

// update changes an object as somebody else would.
func update[T client.Object](s *setup, object T, change func(T)) {
	s.Helper()
	if err := s.client.Get(s.Context(), client.ObjectKeyFromObject(object), object); err != nil {
		s.Fatal(err)
	}
	change(object)
	if err := s.client.Update(s.Context(), object, client.FieldOwner("somebody")); err != nil {
		s.Fatal(err)
	}
}

// host is an instance whose host is configured.
func host(edit ...func(*v1alpha1.WindowsInstance)) *v1alpha1.WindowsInstance {
	instance := &v1alpha1.WindowsInstance{
		ObjectMeta: metav1.ObjectMeta{Namespace: testNamespace, Name: testInstance, UID: "i", Finalizers: []string{v1alpha1.HostFinalizer}},
		Spec:       v1alpha1.WindowsInstanceSpec{Address: "10.0.0.5", PoolRef: &v1alpha1.PoolReference{Name: "pool"}},
		Status: v1alpha1.WindowsInstanceStatus{
			Node: &v1alpha1.NodeReference{Name: testNode, UID: "n"}, System: &v1alpha1.SystemStatus{Hostname: "WIN-1"},
			CurrentRevision: "r1", DesiredRevision: "r1", Addresses: []string{"10.0.0.5"},
		},
	}
	setConfigured(instance, metav1.ConditionTrue)
	for _, e := range edit {
		e(instance)
	}
	return instance
}

func setConfigured(instance *v1alpha1.WindowsInstance, status metav1.ConditionStatus) {
	meta.SetStatusCondition(&instance.Status.Conditions, metav1.Condition{Type: v1alpha1.ConditionConfigured, Status: status, Reason: "Test"})
}

func newPool(labels map[string]string, nodeTaints ...v1alpha1.NodeTaint) *v1alpha1.WindowsNodePool {
	pool := &v1alpha1.WindowsNodePool{ObjectMeta: metav1.ObjectMeta{Namespace: testNamespace, Name: "pool"}}
	pool.Spec.Template.NodeLabels, pool.Spec.Template.NodeTaints = labels, nodeTaints
	return pool
}

// registered is a Node as the kubelet of a host registers it, with what others added.
func registered(edit ...func(*corev1.Node)) *corev1.Node {
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: testNode, UID: "n", Labels: map[string]string{"kubernetes.io/os": "windows", "theirs": "1"}, Annotations: map[string]string{"theirs": "2"}},
		Spec: corev1.NodeSpec{Taints: []corev1.Taint{
			{Key: "node.kubernetes.io/not-ready", Effect: corev1.TaintEffectNoExecute}, defaultTaint,
		}},
	}
	for _, e := range edit {
		e(node)
	}
	return node
}

const notReady = "node.kubernetes.io/not-ready:NoExecute,"

func TestReconcile(t *testing.T) {
	isMachine := func(i *v1alpha1.WindowsInstance) {
		i.OwnerReferences = []metav1.OwnerReference{{APIVersion: "machine.openshift.io/v1beta1", Kind: "Machine", Name: "m", UID: "m", Controller: ptr.To(true)}}
	}
	machine := &machinev1beta1.Machine{
		ObjectMeta: metav1.ObjectMeta{Namespace: testNamespace, Name: "m", UID: "m"},
		Status:     machinev1beta1.MachineStatus{Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalDNS, Address: testNode}}},
	}
	renamed := func(i *v1alpha1.WindowsInstance) { i.Status.System.Hostname = "other" }
	tests := []struct {
		name     string
		instance *v1alpha1.WindowsInstance
		pool     *v1alpha1.WindowsNodePool
		node     *corev1.Node
		others   []client.Object
		// untouched: nothing is written.
		untouched  bool
		pausedPool bool
		event      string
		// The labels and annotations that the Node has besides those that it had.
		labels, annotations map[string]string
		taints, providerID  string
	}{
		{
			name: "labels and taints of the pool", instance: host(),
			pool:   newPool(map[string]string{"team": "a"}, v1alpha1.NodeTaint{Key: "team", Value: "a", Effect: "NoExecute"}),
			labels: map[string]string{"team": "a", workerLabel: "", v1alpha1.NamespaceLabel: testNamespace, wmco.BYOHLabel: "true"},
			annotations: map[string]string{
				wmco.VersionAnnotation: testVersion, v1alpha1.WrittenVersionAnnotation: testVersion, wmco.DesiredVersionAnnotation: testVersion, v1alpha1.ManagedTaintsAnnotation: "team=a:NoExecute",
			},
			taints: notReady + "team=a:NoExecute",
		},
		{
			name: "a pool that says nothing", instance: host(), pool: newPool(nil),
			labels:      map[string]string{workerLabel: "", v1alpha1.NamespaceLabel: testNamespace, wmco.BYOHLabel: "true"},
			annotations: map[string]string{wmco.VersionAnnotation: testVersion, v1alpha1.WrittenVersionAnnotation: testVersion, wmco.DesiredVersionAnnotation: testVersion, v1alpha1.ManagedTaintsAnnotation: "os=Windows:NoSchedule"},
			taints:      notReady + "os=Windows:NoSchedule",
		},
		{
			name: "a Machine, in no pool", instance: host(isMachine, renamed, func(i *v1alpha1.WindowsInstance) { i.Spec.PoolRef, i.Spec.ProviderID = nil, "aws:///i-1" }),
			others:      []client.Object{machine},
			labels:      map[string]string{workerLabel: "", v1alpha1.NamespaceLabel: testNamespace},
			annotations: map[string]string{wmco.VersionAnnotation: testVersion, v1alpha1.WrittenVersionAnnotation: testVersion, wmco.DesiredVersionAnnotation: testVersion, v1alpha1.ManagedTaintsAnnotation: "os=Windows:NoSchedule"},
			taints:      notReady + "os=Windows:NoSchedule", providerID: "aws:///i-1",
		},
		{
			name: "an ID that the Node has stays", instance: host(func(i *v1alpha1.WindowsInstance) { i.Spec.ProviderID = "aws:///i-1" }), pool: newPool(nil),
			node:        registered(func(n *corev1.Node) { n.Spec.ProviderID = "aws:///i-2" }),
			labels:      map[string]string{workerLabel: "", v1alpha1.NamespaceLabel: testNamespace, wmco.BYOHLabel: "true"},
			annotations: map[string]string{wmco.VersionAnnotation: testVersion, v1alpha1.WrittenVersionAnnotation: testVersion, wmco.DesiredVersionAnnotation: testVersion, v1alpha1.ManagedTaintsAnnotation: "os=Windows:NoSchedule"},
			taints:      notReady + "os=Windows:NoSchedule", providerID: "aws:///i-2",
		},
		{
			name: "an ID that names no machine is not given", instance: host(func(i *v1alpha1.WindowsInstance) { i.Spec.ProviderID = "vsphere://" }), pool: newPool(nil),
			labels:      map[string]string{workerLabel: "", v1alpha1.NamespaceLabel: testNamespace, wmco.BYOHLabel: "true"},
			annotations: map[string]string{wmco.VersionAnnotation: testVersion, v1alpha1.WrittenVersionAnnotation: testVersion, wmco.DesiredVersionAnnotation: testVersion, v1alpha1.ManagedTaintsAnnotation: "os=Windows:NoSchedule"},
			taints:      notReady + "os=Windows:NoSchedule",
		},
		{
			name: "an ID that another Node has in another spelling is not given", instance: host(func(i *v1alpha1.WindowsInstance) { i.Spec.ProviderID = "vsphere://4228E784" }), pool: newPool(nil),
			others:      []client.Object{&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "another", UID: "another"}, Spec: corev1.NodeSpec{ProviderID: "vsphere://4228e784"}}},
			labels:      map[string]string{workerLabel: "", v1alpha1.NamespaceLabel: testNamespace, wmco.BYOHLabel: "true"},
			annotations: map[string]string{wmco.VersionAnnotation: testVersion, v1alpha1.WrittenVersionAnnotation: testVersion, wmco.DesiredVersionAnnotation: testVersion, v1alpha1.ManagedTaintsAnnotation: "os=Windows:NoSchedule"},
			taints:      notReady + "os=Windows:NoSchedule",
		},
		{
			name: "an ID that another Node has is not given", instance: host(func(i *v1alpha1.WindowsInstance) { i.Spec.ProviderID = "aws:///i-1" }), pool: newPool(nil),
			others:      []client.Object{&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "another", UID: "another"}, Spec: corev1.NodeSpec{ProviderID: "aws:///i-1"}}},
			labels:      map[string]string{workerLabel: "", v1alpha1.NamespaceLabel: testNamespace, wmco.BYOHLabel: "true"},
			annotations: map[string]string{wmco.VersionAnnotation: testVersion, v1alpha1.WrittenVersionAnnotation: testVersion, wmco.DesiredVersionAnnotation: testVersion, v1alpha1.ManagedTaintsAnnotation: "os=Windows:NoSchedule"},
			taints:      notReady + "os=Windows:NoSchedule",
		},
		{
			name: "configured anew", pool: newPool(nil),
			instance: host(func(i *v1alpha1.WindowsInstance) {
				setConfigured(i, metav1.ConditionFalse)
				i.Status.DesiredRevision = "r2"
			}),
			node: registered(func(n *corev1.Node) {
				n.Annotations = map[string]string{wmco.VersionAnnotation: "v1.0.0", v1alpha1.ManagedTaintsAnnotation: "os=Windows:NoSchedule"}
			}),
			labels:      map[string]string{workerLabel: "", v1alpha1.NamespaceLabel: testNamespace, wmco.BYOHLabel: "true"},
			annotations: map[string]string{wmco.VersionAnnotation: "v1.0.0", v1alpha1.WrittenVersionAnnotation: "v1.0.0", wmco.DesiredVersionAnnotation: testVersion},
			taints:      notReady + "os=Windows:NoSchedule",
		},
		{name: "never configured", instance: host(func(i *v1alpha1.WindowsInstance) { setConfigured(i, metav1.ConditionFalse) }), pool: newPool(nil), untouched: true},
		{
			name: "released, and read before its Node was", pool: newPool(nil), untouched: true,
			instance: host(func(i *v1alpha1.WindowsInstance) {
				i.Status.Operation = &v1alpha1.Operation{Type: v1alpha1.OperationRelease, HostReleased: true}
			}),
			node: registered(func(n *corev1.Node) {
				n.Annotations = map[string]string{v1alpha1.ManagedTaintsAnnotation: "os=Windows:NoSchedule"}
			}),
		},
		{name: "a host that is only watched", instance: host(func(i *v1alpha1.WindowsInstance) { i.Finalizers = nil }), pool: newPool(nil), untouched: true},
		{name: "paused", instance: host(func(i *v1alpha1.WindowsInstance) { i.Spec.Paused = true }), pool: newPool(nil), untouched: true},
		{name: "the pool is paused", instance: host(), pool: newPool(nil, v1alpha1.NodeTaint{Key: "team", Value: "a", Effect: "NoExecute"}), pausedPool: true, untouched: true},
		{name: "being removed", instance: host(func(i *v1alpha1.WindowsInstance) { i.DeletionTimestamp = ptr.To(metav1.Now()) }), pool: newPool(nil), untouched: true},
		{name: "the pool is not there", instance: host(), untouched: true},
		{name: "another Node of the same name", instance: host(func(i *v1alpha1.WindowsInstance) { i.Status.Node.UID = "before" }), pool: newPool(nil), untouched: true},
		{
			name: "a kubelet that reports the address of the host", instance: host(renamed), pool: newPool(nil), untouched: true,
			event: "Warning NodeNameUnknown: Labels and taints of node win-1 are left alone: only the addresses that the Node itself reports connect it to this host. " +
				"The host does not call itself so, and DNS has no such name with the address of the host.",
		},
		{
			name: "two instances with one Node", instance: host(), pool: newPool(nil), untouched: true,
			others: []client.Object{host(func(i *v1alpha1.WindowsInstance) { i.Namespace, i.UID = "elsewhere", "j" })},
			event:  "Warning AmbiguousInstance: Labels and taints of node win-1 are left alone: another instance has it, too.",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			node := tt.node
			if node == nil {
				node = registered()
			}
			objects := append([]client.Object{tt.instance, node.DeepCopy()}, tt.others...)
			if tt.pool != nil {
				tt.pool.Spec.Paused = tt.pausedPool
				objects = append(objects, tt.pool)
			}
			s := newSetup(t, objects...)
			writes, _ := s.reconcile()
			if tt.untouched {
				tt.taints = notReady + "os=Windows:NoSchedule"
				if len(writes) > 0 {
					t.Errorf("it was written: %v", writes)
				}
			}
			got := s.node()
			labels, annotations := maps.Clone(node.Labels), maps.Clone(node.Annotations)
			maps.Copy(labels, tt.labels)
			maps.Copy(annotations, tt.annotations)
			if diff := cmp.Diff(labels, got.Labels); diff != "" {
				t.Errorf("labels (-want +got)\n%s", diff)
			}
			if diff := cmp.Diff(annotations, got.Annotations); diff != "" {
				t.Errorf("annotations (-want +got)\n%s", diff)
			}
			if text := formatTaints(got.Spec.Taints); text != tt.taints {
				t.Errorf("got taints %s, want %s", text, tt.taints)
			}
			if got.Spec.ProviderID != tt.providerID {
				t.Errorf("got provider's ID %q, want %q", got.Spec.ProviderID, tt.providerID)
			}
			if again, _ := s.reconcile(); len(again) > 0 {
				t.Errorf("a second pass writes: %v", again)
			}
			var events []string
			if tt.event != "" {
				events = []string{tt.event}
			}
			if diff := cmp.Diff(events, s.events.events); diff != "" {
				t.Errorf("events (-want +got)\n%s", diff)
			}
		})
	}
}

// TestUpgradeOfRunningWMCO: the label by which WMCO upgrades one node at a time stays as long as WMCO runs, or may.
func TestUpgradeOfRunningWMCO(t *testing.T) {
	for name, unknown := range map[string]error{"it runs": nil, "it is not known": errors.New("boom")} {
		t.Run(name, func(t *testing.T) {
			s := newSetup(t, host(), registered(func(n *corev1.Node) { n.Labels[wmco.UpgradingLabel] = "true" }), newPool(nil))
			s.wmcoRuns, s.unknown = true, unknown
			result, err := s.Reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKey{Namespace: testNamespace, Name: testInstance}})
			if (err != nil) != (unknown != nil) || err == nil && result.RequeueAfter != reconsiderInterval {
				t.Errorf("got %v, %v", result, err)
			}
			if _, left := s.node().Labels[wmco.UpgradingLabel]; !left {
				t.Error("the label is gone")
			}
			s.wmcoRuns, s.unknown = false, nil
			s.reconcile()
			if _, left := s.node().Labels[wmco.UpgradingLabel]; left {
				t.Error("the label is left")
			}
		})
	}
}

// TestUpgradeOfWMCO: the label of an upgrade that WMCO did not complete goes when the host is configured by us and nothing is under way.
func TestUpgradeOfWMCO(t *testing.T) {
	upgrading := func(n *corev1.Node) { n.Labels[wmco.UpgradingLabel] = "true" }
	for _, tt := range []struct {
		name   string
		change func(*v1alpha1.WindowsInstance)
		goes   bool
	}{
		{"configured", func(*v1alpha1.WindowsInstance) {}, true},
		{"something is under way", func(i *v1alpha1.WindowsInstance) {
			i.Status.Operation = &v1alpha1.Operation{Phase: v1alpha1.OperationRunning}
		}, false},
		{"something has ended", func(i *v1alpha1.WindowsInstance) {
			i.Status.Operation = &v1alpha1.Operation{Phase: v1alpha1.OperationFailed}
		}, true},
		{"configured once, and no longer", func(i *v1alpha1.WindowsInstance) { setConfigured(i, metav1.ConditionUnknown) }, false},
		{"paused", func(i *v1alpha1.WindowsInstance) { i.Spec.Paused = true }, false},
		{"only watched", func(i *v1alpha1.WindowsInstance) { i.Finalizers = nil }, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newSetup(t, host(tt.change), registered(upgrading, func(n *corev1.Node) {
				n.Annotations[v1alpha1.ManagedTaintsAnnotation] = formatTaints([]corev1.Taint{defaultTaint})
			}), newPool(nil))
			s.reconcile()
			node := s.node()
			if _, left := node.Labels[wmco.UpgradingLabel]; left == tt.goes {
				t.Errorf("the label is left: %t", left)
			}
			if node.Labels["theirs"] != "1" || formatTaints(node.Spec.Taints) != notReady+"os=Windows:NoSchedule" {
				t.Errorf("labels %v, taints %v", node.Labels, node.Spec.Taints)
			}
			if again, _ := s.reconcile(); len(again) > 0 {
				t.Errorf("a second pass writes: %v", again)
			}
		})
	}
}

// TestMayBeReleased: where a release may have begun, WMCO may be making the host its own. It waits for the version that it has written, so
// that nothing is written to the Node, until the host was configured again.
func TestMayBeReleased(t *testing.T) {
	const theirs = "11.0.0"
	for _, tt := range []struct {
		name string
		// version is that of the Node. Empty: it has none, which asks for a configuration otherwise.
		version    string
		configured metav1.ConditionStatus
	}{
		{"WMCO upgrades it", testVersion, metav1.ConditionUnknown},
		{"its daemon configures it", "", metav1.ConditionUnknown},
		{"it has configured it", theirs, metav1.ConditionUnknown},
		{"the condition is from before", testVersion, metav1.ConditionTrue},
		{"the same while the daemon configures it", "", metav1.ConditionTrue},
	} {
		t.Run(tt.name, func(t *testing.T) {
			instance := host(func(i *v1alpha1.WindowsInstance) {
				setConfigured(i, tt.configured)
				i.Status.Operation = &v1alpha1.Operation{ID: "release", Type: v1alpha1.OperationRelease, Phase: v1alpha1.OperationFailed, ReleaseBegun: true}
			})
			s := newSetup(t, instance, newPool(map[string]string{"team": "a"}), registered(func(n *corev1.Node) {
				n.Labels[wmco.UpgradingLabel] = "true"
				maps.Copy(n.Annotations, map[string]string{
					v1alpha1.ManagedTaintsAnnotation: "os=Windows:NoSchedule", v1alpha1.WrittenVersionAnnotation: testVersion, wmco.DesiredVersionAnnotation: theirs,
				})
				if tt.version != "" {
					n.Annotations[wmco.VersionAnnotation] = tt.version
				}
			}))
			s.wmcoRuns = true
			before := s.node()
			if writes, _ := s.reconcile(); len(writes) > 0 {
				t.Errorf("it was written: %v\n%s", writes, cmp.Diff(before.Annotations, s.node().Annotations))
			}
			// It changes the host, so that it is ours again.
			again := instance.DeepCopy()
			again.Status.History = []v1alpha1.Operation{*again.Status.Operation}
			again.Status.Operation = &v1alpha1.Operation{ID: "reconfigure", Type: v1alpha1.OperationReconfigure, Phase: v1alpha1.OperationSucceeded, HostChanged: true}
			if !instanceChanged.Update(event.UpdateEvent{ObjectOld: instance, ObjectNew: again}) {
				t.Error("that it is ours again is not noticed")
			}
			update(s, instance, func(i *v1alpha1.WindowsInstance) { i.Status = again.Status })
			s.reconcile()
			if node := s.node(); node.Annotations[wmco.DesiredVersionAnnotation] != testVersion || node.Labels["team"] != "a" {
				t.Errorf("when it is ours again: labels %v, annotations %v", node.Labels, node.Annotations)
			}
		})
	}
}

// TestVersionChanges: a version that somebody removes or changes stays so, because that asks for a new configuration, and is written
// again when that is done. Other things are written meanwhile.
func TestVersionChanges(t *testing.T) {
	for name, change := range map[string]func(map[string]string){
		"removed": func(a map[string]string) { delete(a, wmco.VersionAnnotation) },
		"cleared": func(a map[string]string) { a[wmco.VersionAnnotation] = "" },
		"changed": func(a map[string]string) { a[wmco.VersionAnnotation] = "invalid" },
	} {
		t.Run(name, func(t *testing.T) {
			s := newSetup(t, host(), registered(), newPool(nil))
			s.reconcile()
			update(s, s.node(), func(n *corev1.Node) { change(n.Annotations) })
			want := maps.Clone(s.node().Annotations)
			s.reconcile()
			if diff := cmp.Diff(want, s.node().Annotations); diff != "" {
				t.Errorf("annotations (-want +got)\n%s", diff)
			}
			update(s, newPool(nil), func(p *v1alpha1.WindowsNodePool) { p.Spec.Template.NodeLabels = map[string]string{"team": "a"} })
			s.reconcile()
			if !object.AsksForConfiguration(s.node()) || s.node().Labels["team"] != "a" {
				t.Errorf("labels %v, annotations %v", s.node().Labels, s.node().Annotations)
			}
			update(s, s.node(), func(n *corev1.Node) { delete(n.Annotations, v1alpha1.WrittenVersionAnnotation) })
			s.reconcile()
			if got := s.node().Annotations; got[wmco.VersionAnnotation] != testVersion || got[v1alpha1.WrittenVersionAnnotation] != testVersion {
				t.Errorf("annotations %v", got)
			}
			if again, _ := s.reconcile(); len(again) > 0 {
				t.Errorf("a second pass writes: %v", again)
			}
		})
	}
}

// What is taken out of a template is taken off the Node, and what others set stays.
func TestTemplateChanges(t *testing.T) {
	s := newSetup(t, host(), registered(), newPool(map[string]string{"team": "a", "zone": "1"},
		v1alpha1.NodeTaint{Key: "team", Effect: "NoExecute"}, v1alpha1.NodeTaint{Key: "os", Value: "Windows", Effect: "NoSchedule"}))
	s.reconcile()
	update(s, s.node(), func(n *corev1.Node) {
		n.Labels["added"] = "later"
		n.Labels["zone"] = "changed by somebody"
		n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: "added", Effect: corev1.TaintEffectNoSchedule})
	})
	s.reconcile()
	if got := s.node().Labels["zone"]; got != "1" {
		t.Errorf("label zone has %q, want that of the template", got)
	}
	update(s, newPool(nil), func(p *v1alpha1.WindowsNodePool) {
		p.Spec.Template.NodeLabels, p.Spec.Template.NodeTaints = map[string]string{"team": "b"}, nil
	})
	if writes, _ := s.reconcile(); !slices.Equal(writes, []string{"patch", "apply"}) {
		t.Errorf("got %v", writes)
	}
	node := s.node()
	if diff := cmp.Diff(map[string]string{"kubernetes.io/os": "windows", "theirs": "1", "added": "later", "team": "b", workerLabel: "", v1alpha1.NamespaceLabel: testNamespace, wmco.BYOHLabel: "true"}, node.Labels); diff != "" {
		t.Errorf("labels (-want +got)\n%s", diff)
	}
	if got, want := formatTaints(node.Spec.Taints), notReady+"os=Windows:NoSchedule,added:NoSchedule"; got != want {
		t.Errorf("got taints %s, want %s", got, want)
	}
	// A label is no reason to write taints.
	update(s, newPool(nil), func(p *v1alpha1.WindowsNodePool) { p.Spec.Template.NodeLabels = nil })
	if writes, _ := s.reconcile(); !slices.Equal(writes, []string{"apply"}) {
		t.Errorf("got %v", writes)
	}
	if _, ok := s.node().Labels["team"]; ok {
		t.Error("label team is left")
	}
}

// A taint that somebody sets between the look and the write must not get lost.
func TestWriteThatComesTooLate(t *testing.T) {
	s := newSetup(t, host(), registered(), newPool(nil, v1alpha1.NodeTaint{Key: "team", Effect: "NoExecute"}))
	once := sync.OnceFunc(func() {
		update(s, s.node(), func(n *corev1.Node) {
			n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: "added", Effect: corev1.TaintEffectNoSchedule})
		})
	})
	s.before = once
	if _, result := s.reconcile(); result.RequeueAfter != conflictInterval {
		t.Errorf("it is tried again after %s, want %s", result.RequeueAfter, conflictInterval)
	}
	s.reconcile()
	if got, want := formatTaints(s.node().Spec.Taints), notReady+"added:NoSchedule,team:NoExecute"; got != want {
		t.Errorf("got taints %s, want %s", got, want)
	}
}

// A Node that is deleted while it is written is not made again.
func TestNodeIsNotMadeAgain(t *testing.T) {
	s := newSetup(t, host(), registered(), newPool(map[string]string{"team": "a"}))
	s.reconcile()
	update(s, newPool(nil), func(p *v1alpha1.WindowsNodePool) { p.Spec.Template.NodeLabels = nil })
	stale := s.node()
	if err := s.client.Delete(t.Context(), s.node()); err != nil {
		t.Fatal(err)
	}
	if err := s.write(t.Context(), host(), nil, stale, false); err == nil {
		t.Error("there is no error")
	}
	var node corev1.Node
	if err := s.client.Get(t.Context(), client.ObjectKey{Name: testNode}, &node); !apierrors.IsNotFound(err) {
		t.Errorf("the Node is back: %v, %v", node.Labels, err)
	}
}

// Platforms name Nodes as their DNS does.
func TestConfirmedByDNS(t *testing.T) {
	const name = "ip-10-0-0-5.ec2.internal"
	s := newSetup(t, host(func(i *v1alpha1.WindowsInstance) { i.Status.Node.Name = name }), registered(func(n *corev1.Node) { n.Name = name }), newPool(nil))
	if writes, _ := s.reconcile(); len(writes) != 2 {
		t.Errorf("got %v, events %q", writes, s.events.events)
	}
}

func TestTrimManagedFields(t *testing.T) {
	s := newSetup(t, host(), registered(), newPool(nil))
	s.reconcile()
	update(s, s.node(), func(n *corev1.Node) { n.Labels["other"] = "1" })
	node := s.node()
	all := len(node.ManagedFields)
	TrimManagedFields(node)
	if all < 2 || len(node.ManagedFields) != 1 || node.ManagedFields[0].Manager != fieldManager {
		t.Errorf("of %d managers %v are left", all, node.ManagedFields)
	}
}

func TestPredicates(t *testing.T) {
	for _, tt := range []struct {
		name string
		edit func(*v1alpha1.WindowsInstance)
		want bool
	}{
		{name: "nothing", edit: func(*v1alpha1.WindowsInstance) {}},
		{name: "a step of an operation", edit: func(i *v1alpha1.WindowsInstance) { i.Status.Operation = &v1alpha1.Operation{ID: "o"} }},
		{name: "an operation begins", edit: func(i *v1alpha1.WindowsInstance) {
			i.Status.Operation = &v1alpha1.Operation{Phase: v1alpha1.OperationPending}
		}, want: true},
		{name: "a release may begin", edit: func(i *v1alpha1.WindowsInstance) {
			i.Status.Operation = &v1alpha1.Operation{Phase: v1alpha1.OperationFailed, Type: v1alpha1.OperationRelease, ReleaseBegun: true}
		}, want: true},
		{name: "it was released", edit: func(i *v1alpha1.WindowsInstance) {
			i.Status.Operation = &v1alpha1.Operation{Phase: v1alpha1.OperationFailed, Type: v1alpha1.OperationRelease, HostReleased: true}
		}, want: true},
		{name: "not configured any more", edit: func(i *v1alpha1.WindowsInstance) { setConfigured(i, metav1.ConditionFalse) }, want: true},
		{name: "another revision is wanted", edit: func(i *v1alpha1.WindowsInstance) { i.Status.DesiredRevision = "r2" }, want: true},
		{name: "another Node", edit: func(i *v1alpha1.WindowsInstance) { i.Status.Node.UID = "m" }, want: true},
		{name: "another name of the host", edit: func(i *v1alpha1.WindowsInstance) { i.Status.System.Hostname = "w" }, want: true},
		{name: "another spec", edit: func(i *v1alpha1.WindowsInstance) { i.Generation++ }, want: true},
	} {
		t.Run("instance: "+tt.name, func(t *testing.T) {
			if got := instanceChanged.Update(event.UpdateEvent{ObjectOld: host(), ObjectNew: host(tt.edit)}); got != tt.want {
				t.Errorf("got %t", got)
			}
		})
	}
	for _, tt := range []struct {
		name string
		edit func(*corev1.Node)
		want bool
	}{
		{name: "a heartbeat", edit: func(n *corev1.Node) { n.Status.Phase = corev1.NodeRunning; n.ResourceVersion = "9" }},
		{name: "a label", edit: func(n *corev1.Node) { n.Labels["a"] = "b" }, want: true},
		{name: "a taint", edit: func(n *corev1.Node) { n.Spec.Taints = nil }, want: true},
	} {
		t.Run("Node: "+tt.name, func(t *testing.T) {
			if got := nodeChanged.Update(event.UpdateEvent{ObjectOld: registered(), ObjectNew: registered(tt.edit)}); got != tt.want {
				t.Errorf("got %t", got)
			}
		})
	}
}

// TestClaimsOfTenants: a name that DNS has at an address confirms a Node only if the host was found there, or the instance is one of the
// operator's; certificates go by the same.
func TestClaimsOfTenants(t *testing.T) {
	const name = "ip-10-0-0-5.ec2.internal"
	foundAt := func(ip string) func(*v1alpha1.WindowsInstance) {
		return func(i *v1alpha1.WindowsInstance) {
			i.Status.MachineID, i.Status.HostIP, i.Status.System = "firmware-1/windows-1", ip, &v1alpha1.SystemStatus{Hostname: "WIN-7"}
			i.Status.Node.Name = name
		}
	}
	for _, tt := range []struct {
		name, home, found string
		written           bool
	}{
		{"of the operator, which names the address", testNamespace, "10.0.0.9", true},
		{"of others, who name the address", "openshift-windows", "10.0.0.9", false},
		{"of others, found at the address", "openshift-windows", "10.0.0.5", true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newSetup(t, host(foundAt(tt.found)), registered(func(n *corev1.Node) { n.Name = name }), newPool(nil))
			s.Namespace = tt.home
			writes, _ := s.reconcile()
			if (len(writes) > 0) != tt.written {
				t.Errorf("written: %v", writes)
			}
			if refused := len(s.events.events) == 1 && strings.HasPrefix(s.events.events[0], "Warning "+reasonNodeNameUnknown); refused == tt.written {
				t.Errorf("events: %v", s.events.events)
			}
		})
	}
}

// TestAbandonedMark: the mark of a cordon that somebody has lifted is not there any more when the Node is cordoned again. While an
// operation runs it is that one's.
func TestAbandonedMark(t *testing.T) {
	for name, tt := range map[string]struct {
		cordoned bool
		phase    v1alpha1.OperationPhase
		left     bool
	}{
		"somebody has uncordoned the Node": {phase: v1alpha1.OperationFailed},
		"it is cordoned":                   {cordoned: true, phase: v1alpha1.OperationFailed, left: true},
		"an operation runs":                {phase: v1alpha1.OperationRunning, left: true},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSetup(t, host(func(i *v1alpha1.WindowsInstance) {
				i.Status.Operation = &v1alpha1.Operation{ID: "op-1", Type: v1alpha1.OperationReboot, Phase: tt.phase}
			}), registered(), newPool(nil))
			s.reconcile()
			before := s.node()
			update(s, s.node(), func(n *corev1.Node) {
				n.Spec.Unschedulable = tt.cordoned
				n.Annotations[v1alpha1.CordonedByAnnotation] = "op-1 Reboot (asked for by alice), until the Node is ready after 2026-03-14T14:09:26Z"
			})
			s.reconcile()
			got := s.node()
			if _, left := got.Annotations[v1alpha1.CordonedByAnnotation]; left != tt.left {
				t.Errorf("it has the mark: %t", left)
			}
			if diff := cmp.Diff(before.Spec.Taints, got.Spec.Taints); diff != "" || got.Spec.Unschedulable != tt.cordoned {
				t.Errorf("unschedulable: %t, taints (-before +after)\n%s", got.Spec.Unschedulable, diff)
			}
		})
	}
	marked := func(unschedulable bool) *corev1.Node {
		return &corev1.Node{Spec: corev1.NodeSpec{Unschedulable: unschedulable}}
	}
	if !nodeChanged.Update(event.UpdateEvent{ObjectOld: marked(true), ObjectNew: marked(false)}) {
		t.Error("that the Node was uncordoned is not noticed")
	}
}
