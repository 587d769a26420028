// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

//go:build linux

package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/test/controlplane"
	"github.com/openshift/windows-instance-api/test/kubelet"
	"github.com/openshift/windows-instance-api/test/system"
	"github.com/openshift/windows-instance-api/test/winhost"
)

const (
	// drainedPods are on each Node that is drained: so many groups of so many, of which
	// a budget lets some be away at a time, and as many others in one group without.
	budgetedGroups = 5
	groupSize      = 25
	mayBeAway      = 5
	drainedPods    = 2 * budgetedGroups * groupSize
	// drainRounds is how many pairs of Nodes are drained. Who is first changes.
	drainRounds = 2
	// spareNode is where pods go that have to leave.
	spareNode = "spare"
	// drainTimeout is far more than a drain takes.
	drainTimeout = 3 * time.Minute
)

// BenchmarkDrain drains a Node with 250 pods through our API, and an equal one with
// `kubectl drain`: half of the pods are behind budgets that let a fifth of a group be
// away, all belong to ReplicaSets, whose controller makes them anew on another Node, and
// a stand-in for a kubelet ends them at once. Both wait 5 s before they ask again for a
// pod that may not leave. Reported are the time, and the requests that kube-apiserver
// got: from our controller and API server, whatever for, and from kubectl.
func BenchmarkDrain(b *testing.B) {
	audit := filepath.Join(b.TempDir(), "audit.log")
	policy := filepath.Join(b.TempDir(), "policy.yaml")
	if err := os.WriteFile(policy, []byte(auditPolicy), 0o600); err != nil {
		b.Fatal(err)
	}
	s, signer, _ := startSystem(b, system.Options{ControlPlane: controlplane.Options{APIServerArgs: []string{
		"--audit-policy-file=" + policy, "--audit-log-path=" + audit,
	}}})
	// What stands in for the rest of a cluster is neither counted nor slowed down.
	config := rest.CopyConfig(s.AdminConfig())
	config.QPS, config.UserAgent = -1, "stand-ins"
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		b.Fatal(err)
	}
	scheduler := startScheduler(b, client)
	startNode(b, client, spareNode, "192.0.2.1")

	c, pair := newContest(), 0
	calls := map[string]*requests{"ours": {}, "kubectl": {}}
	for b.Loop() {
		for range drainRounds {
			pair++
			nodes := map[string]string{}
			for name := range calls {
				nodes[name] = fmt.Sprintf("%s-%d", name, pair)
				newDrainedNode(b, s, client, scheduler, signer, nodes[name])
			}
			c.round(b, map[string]func() error{
				"ours": func() error {
					return calls["ours"].count(audit, "windows-", func() error { return drainOurs(b.Context(), s, nodes["ours"]) })
				},
				"kubectl": func() error {
					return calls["kubectl"].count(audit, "kubectl/", func() error {
						_, err := s.Kubectl(b.Context(), "drain", nodes["kubectl"], "--ignore-daemonsets", "--timeout="+drainTimeout.String())
						return err
					})
				},
			})
			for name, node := range nodes {
				left, err := client.CoreV1().Pods(metav1.NamespaceAll).List(b.Context(), metav1.ListOptions{FieldSelector: "spec.nodeName=" + node})
				if err != nil {
					b.Fatal(err)
				}
				if len(left.Items) > 0 {
					b.Fatalf("%s: %d pods are still on the Node", name, len(left.Items))
				}
			}
		}
	}
	c.report(b, "time", "ours", "kubectl")
	drains := float64(pair)
	for name, r := range calls {
		b.ReportMetric(c.median(name).Seconds(), "s-"+name)
		b.ReportMetric(float64(r.all)/drains, "calls-"+name)
		b.ReportMetric(float64(r.evictions)/drains, "evictions-"+name)
	}
	b.ReportMetric(float64(calls["ours"].all)/float64(calls["kubectl"].all), "ratio-calls")
}

// drainOurs drains the Node of an instance and returns when it is done.
func drainOurs(ctx context.Context, s *system.System, name string) error {
	ctx, cancel := context.WithTimeout(ctx, drainTimeout)
	defer cancel()
	instances := s.Windows.WindowsV1alpha1().WindowsInstances(metav1.NamespaceDefault)
	answer, err := instances.Drain(ctx, name, &v1alpha1.WindowsInstanceDrain{}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	w, err := instances.Watch(ctx, metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector("metadata.name", name).String()})
	if err != nil {
		return err
	}
	defer w.Stop()
	for event := range w.ResultChan() {
		instance, ok := event.Object.(*v1alpha1.WindowsInstance)
		if !ok {
			return fmt.Errorf("the watch says %v", event.Object)
		}
		op := instance.Status.Operation
		if op == nil || op.ID != answer.Status.Operation.ID || op.FinishedAt == nil {
			continue
		}
		if op.Phase != v1alpha1.OperationSucceeded {
			return fmt.Errorf("the drain is %s: %s", op.Phase, op.Message)
		}
		return nil
	}
	return errors.New("the watch ended before the drain")
}

// requests are those of one client that an audit log has.
type requests struct {
	all, evictions int
}

// count adds the requests by clients whose user agent begins so, while do runs.
func (r *requests) count(log, userAgent string, do func() error) error {
	calls, err := callsDuring(log, userAgent, do)
	for _, c := range calls {
		r.all++
		if c.ObjectRef.Subresource == "eviction" {
			r.evictions++
		}
	}
	return err
}

// newDrainedNode makes a Node with its host, its instance, and its pods in a namespace
// of the same name, and waits until all of them are as they should be.
func newDrainedNode(b *testing.B, s *system.System, client kubernetes.Interface, scheduler *scheduler, signer ssh.Signer, name string) {
	b.Helper()
	host := startHost(b, signer, winhost.Options{})
	startNode(b, client, name, host.Address())
	createInstance(b, s, metav1.NamespaceDefault, name, host)
	ns := namespace(b, s, name)
	scheduler.place(ns, name, drainedPods)
	for i := range budgetedGroups {
		group := fmt.Sprintf("group-%d", i)
		createGroup(b, client, ns, group, groupSize)
		away := intstr.FromInt32(mayBeAway)
		if _, err := client.PolicyV1().PodDisruptionBudgets(ns).Create(b.Context(), &policyv1.PodDisruptionBudget{
			ObjectMeta: metav1.ObjectMeta{Name: group},
			Spec:       policyv1.PodDisruptionBudgetSpec{MaxUnavailable: &away, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": group}}},
		}, metav1.CreateOptions{}); err != nil {
			b.Fatal(err)
		}
	}
	createGroup(b, client, ns, "free", budgetedGroups*groupSize)
	until(b, "the pods run and the budgets count them", func() error {
		budgets, err := client.PolicyV1().PodDisruptionBudgets(ns).List(b.Context(), metav1.ListOptions{})
		if err != nil {
			return err
		}
		for i := range budgets.Items {
			if status := budgets.Items[i].Status; status.CurrentHealthy != groupSize || status.DisruptionsAllowed != mayBeAway {
				return fmt.Errorf("budget %s has %+v", budgets.Items[i].Name, status)
			}
		}
		free, err := client.AppsV1().ReplicaSets(ns).Get(b.Context(), "free", metav1.GetOptions{})
		if err == nil && free.Status.ReadyReplicas != budgetedGroups*groupSize {
			err = fmt.Errorf("%d pods of group free are ready", free.Status.ReadyReplicas)
		}
		return err
	})
	until(b, "the instance has its Node", func() error {
		instance, err := s.Windows.WindowsV1alpha1().WindowsInstances(metav1.NamespaceDefault).Get(b.Context(), name, metav1.GetOptions{})
		if err == nil && (instance.Status.Phase != v1alpha1.InstanceReady || instance.Status.Node == nil) {
			err = fmt.Errorf("it is %s", instance.Status.Phase)
		}
		return err
	})
}

// startNode makes a Node with a stand-in for its kubelet.
func startNode(b *testing.B, client kubernetes.Interface, name, address string) {
	b.Helper()
	if _, err := client.CoreV1().Nodes().Create(b.Context(), &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Status: corev1.NodeStatus{NodeInfo: corev1.NodeSystemInfo{OperatingSystem: "windows"}},
	}, metav1.CreateOptions{}); err != nil {
		b.Fatal(err)
	}
	// A patch does not mind that kube-controller-manager looks after the Node already.
	addresses := fmt.Appendf(nil, `{"status":{"addresses":[{"type":"InternalIP","address":%q}]}}`, address)
	if _, err := client.CoreV1().Nodes().PatchStatus(b.Context(), name, addresses); err != nil {
		b.Fatal(err)
	}
	k, err := kubelet.Start(kubelet.Options{Client: client, Node: name, ReportInterval: 2 * time.Second, Logf: b.Logf})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(k.Stop)
}

// createGroup makes a ReplicaSet.
func createGroup(b *testing.B, client kubernetes.Interface, ns, name string, size int32) {
	b.Helper()
	labels := map[string]string{"app": name}
	if _, err := client.AppsV1().ReplicaSets(ns).Create(b.Context(), &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: appsv1.ReplicaSetSpec{
			Replicas: &size, Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{
				AutomountServiceAccountToken: new(false), Containers: []corev1.Container{{Name: "c", Image: "example.com/c"}},
			}},
		},
	}, metav1.CreateOptions{}); err != nil {
		b.Fatal(err)
	}
}

// until polls a condition.
func until(b *testing.B, what string, condition func() error) {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.Context(), 2*time.Minute)
	defer cancel()
	for {
		err := condition()
		if err == nil {
			return
		}
		select {
		case <-ctx.Done():
			b.Fatalf("%s: %v", what, err)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// scheduler binds pods to the Node of their namespace, as many as it has room for, and
// then to the spare Node. The control plane of the benchmarks has no other.
type scheduler struct {
	client kubernetes.Interface

	mu    sync.Mutex // guards what follows
	nodes map[string]string
	room  map[string]int
}

func startScheduler(b *testing.B, client kubernetes.Interface) *scheduler {
	b.Helper()
	s := &scheduler{client: client, nodes: map[string]string{}, room: map[string]int{}}
	factory := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithTweakListOptions(func(o *metav1.ListOptions) { o.FieldSelector = "spec.nodeName=" }))
	ctx, cancel := context.WithCancel(context.Background())
	pods := make(chan *corev1.Pod)
	informer := factory.Core().V1().Pods().Informer()
	if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: func(object any) {
		if pod, ok := object.(*corev1.Pod); ok {
			select {
			case pods <- pod:
			case <-ctx.Done():
			}
		}
	}}); err != nil {
		cancel()
		b.Fatal(err)
	}
	var running sync.WaitGroup
	running.Go(func() { informer.RunWithContext(ctx) })
	for range 8 {
		running.Go(func() {
			for {
				select {
				case <-ctx.Done():
					return
				case pod := <-pods:
					if err := s.bind(ctx, pod); err != nil && ctx.Err() == nil {
						b.Errorf("binding pod %s: %v", pod.Name, err)
					}
				}
			}
		})
	}
	b.Cleanup(func() {
		cancel()
		running.Wait()
	})
	return s
}

// place sends the first pods of a namespace to a Node.
func (s *scheduler) place(ns, node string, room int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.nodes[ns], s.room[ns] = node, room
}

func (s *scheduler) bind(ctx context.Context, pod *corev1.Pod) error {
	s.mu.Lock()
	node := spareNode
	if s.room[pod.Namespace] > 0 {
		s.room[pod.Namespace]--
		node = s.nodes[pod.Namespace]
	}
	s.mu.Unlock()
	return s.client.CoreV1().Pods(pod.Namespace).Bind(ctx, &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Name: pod.Name, UID: pod.UID}, Target: corev1.ObjectReference{Kind: "Node", Name: node},
	}, metav1.CreateOptions{})
}
