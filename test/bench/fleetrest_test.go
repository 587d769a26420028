// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

//go:build linux

package bench

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/test/controlplane"
	"github.com/openshift/windows-instance-api/test/system"
)

const (
	// probedHosts are hosts that are there, and how often each of them is probed: ten in a second, which is the most that are probed of a fleet in
	// which all is well.
	probedHosts    = 20
	probedInterval = 2 * time.Second
	// restingPools are how many pools the hosts of a fleet at rest are in.
	restingPools = 20
	// statusInterval and leaseInterval are how often a kubelet reports by default
	// (--node-status-report-frequency, a quarter of --node-lease-duration-seconds).
	statusInterval, leaseInterval = 5 * time.Minute, 10 * time.Second
	// mostRenewals is how many Leases are renewed in a second at most. A thousand, as those of 10,000 kubelets, are more than this control
	// plane on two cores does besides, so that Nodes are not judged by them: nodeMonitorGrace is longer than statusInterval.
	mostRenewals     = 100
	nodeMonitorGrace = 15 * time.Minute
	// restingLimit is the GOMEMLIMIT of the controller, as docs/performance.md has it for fleets of this size.
	restingLimit = "540MiB"
	// restingTime is for how long a fleet at rest is measured.
	restingTime = 2 * time.Minute
	// restingMiB, restingCores and restingWrites are what the controller may use then for 10,000 hosts.
	restingMiB, restingCores, restingWrites = 600, 0.1, 0
	// restingWriters make the objects.
	restingWriters = 16
	// moreRequests is by how much what one host costs may differ in a large fleet: what is polled is polled a time more or less.
	moreRequests = 1.15
)

// restingHosts is how many hosts BenchmarkFleetAtRest has: 10,000, or what the variable BENCH_INSTANCES says.
var restingHosts = environmentNumber("BENCH_INSTANCES", 10_000)

// BenchmarkFleetAtRest measures the controller while nothing happens to as many hosts as there may be, whose Nodes report as those
// of kubelets do. Twenty hosts are there, and probed as often as those of the whole fleet together would be. The other instances are paused, so that
// nobody logs in for them, and have the status of one that is well.
func BenchmarkFleetAtRest(b *testing.B) {
	c := startConfigured(b, configuredOptions{system: system.Options{
		APIServerArgs: []string{"--max-objects-per-namespace=0"}, ControllerEnv: []string{"GOMEMLIMIT=" + restingLimit},
		ControllerArgs: []string{"--recheck-interval=" + probedInterval.String()},
		ControlPlane:   controlplane.Options{ControllerManagerArgs: []string{"--node-monitor-grace-period=" + nodeMonitorGrace.String()}},
	}})
	c.setUp(b, probedHosts)
	before := residentMiB(b, c.Controller.PID())
	began := time.Now()
	c.addResting(b, restingHosts)
	b.ReportMetric(time.Since(began).Seconds(), "s-made")
	stop := c.report(b, restingHosts)
	defer stop()
	for b.Loop() {
		c.quiet(b)
		used := cpuSeconds(b, c.Controller.PID())
		calls := c.calls(b, func() { <-time.After(restingTime) })
		cores := (cpuSeconds(b, c.Controller.PID()) - used) / restingTime.Seconds()
		resident := residentMiB(b, c.Controller.PID())
		for _, call := range calls {
			if call.ObjectRef.Resource == "leases" && strings.Contains(call.URI, "/namespaces/"+corev1.NamespaceNodeLease+"/") {
				b.Fatalf("Leases of Nodes are read at rest: %+v", call)
			}
		}
		wrote := writes(calls)
		for _, w := range wrote {
			b.Logf("%s wrote: %s %s %s/%s", w.UserAgent, w.Verb, w.ObjectRef.Resource, w.ObjectRef.Name, w.ObjectRef.Subresource)
		}
		b.ReportMetric(resident, "MiB-controller")
		b.ReportMetric(highestResidentMiB(b, c.Controller.PID()), "MiB-highest-controller")
		b.ReportMetric((resident-before)*1024/float64(restingHosts), "KiB/host")
		b.ReportMetric(cores, "cores-controller")
		b.ReportMetric(float64(len(wrote)), "writes")
		if resident > restingMiB || cores > restingCores || len(wrote) > restingWrites {
			b.Errorf("got %.0f MiB, %.3f cores and %d writes, wanted at most %d, %.2f and %d", resident, cores, len(wrote), restingMiB, restingCores, restingWrites)
		}
	}
}

// BenchmarkRequestsPerHost counts what our programs ask of the API server for another kubelet setting on one host, in a fleet of
// a hundred and of a thousand. The others are in other pools, paused, and only objects.
func BenchmarkRequestsPerHost(b *testing.B) {
	c := startConfigured(b, configuredOptions{system: system.Options{APIServerArgs: []string{"--max-objects-per-namespace=0"}}})
	c.setUp(b, 1)
	pods := 250 // with fewer than before, hosts are drained
	update := func() (all, wrote float64) {
		var calls []call
		const rounds = 5 // of which the median is taken
		var alls, writesOf []time.Duration
		for range rounds {
			pods++
			patch := c.patchPool(fmt.Sprintf(`{"spec":{"template":{"kubelet":{"maxPods":%d}}}}`, pods))
			done := c.configuredAnewOf(b)
			calls = c.calls(b, func() {
				if err := patch(b.Context()); err != nil {
					b.Fatal(err)
				}
				c.wait(b, done)
			})
			alls, writesOf = append(alls, time.Duration(len(calls))), append(writesOf, time.Duration(len(writes(calls))))
		}
		return float64(quantile(alls, 0.5)), float64(quantile(writesOf, 0.5))
	}
	for b.Loop() {
		c.addResting(b, 99)
		c.quiet(b)
		few, fewWrites := update()
		c.addResting(b, 900)
		c.quiet(b)
		many, manyWrites := update()
		b.ReportMetric(few, "calls-100")
		b.ReportMetric(many, "calls-1000")
		b.ReportMetric(fewWrites, "writes-100")
		b.ReportMetric(manyWrites, "writes-1000")
		b.ReportMetric(many/few, "ratio-calls")
		b.ReportMetric(manyWrites/fewWrites, "ratio-writes")
		if many > few*moreRequests || manyWrites > fewWrites*moreRequests {
			b.Errorf("a host costs more where there are many: %.0f and %.0f calls, %.0f and %.0f writes", few, many, fewWrites, manyWrites)
		}
	}
}

// quiet waits until the controller has nothing to write for a while.
func (c *configured) quiet(b *testing.B) {
	b.Helper()
	used := cpuSeconds(b, c.Controller.PID())
	for deadline := time.Now().Add(configureTimeout); len(writes(c.calls(b, func() { <-time.After(5 * time.Second) }))) > 0; {
		if time.Now().After(deadline) {
			b.Fatal("the controller does not come to rest")
		}
	}
	b.ReportMetric(cpuSeconds(b, c.Controller.PID())-used, "s-cpu-until-quiet")
}

// configuredAnewOf returns how to find out whether the hosts that are there were configured with another revision than they have
// now, however many others only look so.
func (c *configured) configuredAnewOf(b *testing.B) func() (int, error) {
	b.Helper()
	before := map[string]string{}
	for name := range c.hosts {
		before[name] = c.named(b, name).Status.DesiredRevision
	}
	return func() (n int, _ error) {
		for name, revision := range before {
			if i := c.named(b, name); i.Status.DesiredRevision != revision && i.Status.CurrentRevision == i.Status.DesiredRevision && !i.Status.Operation.Active() {
				n++
			}
		}
		return n, nil
	}
}

func (c *configured) named(b *testing.B, name string) *v1alpha1.WindowsInstance {
	b.Helper()
	i, err := c.Windows.WindowsV1alpha1().WindowsInstances(c.ns).Get(b.Context(), name, metav1.GetOptions{})
	if err != nil {
		b.Fatal(err)
	}
	return i
}

// addResting makes instances that are paused, with the status of hosts that are well, and their Nodes, in pools of their own.
func (c *configured) addResting(b *testing.B, n int) {
	b.Helper()
	var pools []string
	for i := range restingPools {
		pool := &v1alpha1.WindowsNodePool{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("resting-%d", i)}}
		pool.Spec.Source.Instances = &v1alpha1.InstancesSource{}
		if _, err := c.Windows.WindowsV1alpha1().WindowsNodePools(c.ns).Create(b.Context(), pool, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
			b.Fatal(err)
		}
		pools = append(pools, pool.Name)
	}
	g, ctx := errgroup.WithContext(b.Context())
	g.SetLimit(restingWriters)
	for i := range n {
		at := c.resting + i
		g.Go(func() error { return c.addOneResting(ctx, at, pools[i%len(pools)]) })
	}
	if err := g.Wait(); err != nil {
		b.Fatal(err)
	}
	c.resting += n
}

func (c *configured) addOneResting(ctx context.Context, n int, pool string) error {
	name := fmt.Sprintf("resting-%05d", n)
	address := fmt.Sprintf("10.%d.%d.%d", 200+n/62500, n/250%250, 1+n%250)
	node, err := c.Kube.CoreV1().Nodes().Create(ctx, restingNode(name, address), metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("making Node %s: %w", name, err)
	}
	instances := c.Windows.WindowsV1alpha1().WindowsInstances(c.ns)
	instance := &v1alpha1.WindowsInstance{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.WindowsInstanceSpec{
		Address: address, Username: "Administrator", Paused: true, PoolRef: &v1alpha1.PoolReference{Name: pool},
	}}
	if instance, err = instances.Create(ctx, instance, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("making instance %s: %w", name, err)
	}
	for {
		instance.Status = restingStatus(node, instance.Generation)
		if _, err = instances.UpdateStatus(ctx, instance, metav1.UpdateOptions{}); !apierrors.IsConflict(err) {
			break
		}
		if instance, err = instances.Get(ctx, name, metav1.GetOptions{}); err != nil {
			break
		}
	}
	if err != nil {
		return fmt.Errorf("writing the status of %s: %w", name, err)
	}
	return nil
}

// restingStatus is that of a host that is well, with as much in it as it has after a year.
func restingStatus(node *corev1.Node, generation int64) v1alpha1.WindowsInstanceStatus {
	now := metav1.Now()
	status := v1alpha1.WindowsInstanceStatus{
		ObservedGeneration: generation, Phase: v1alpha1.InstanceReady, MachineID: string(node.UID), Version: "v0.0.0",
		CurrentRevision: strings.Repeat("1", 64), DesiredRevision: strings.Repeat("1", 64), Node: &v1alpha1.NodeReference{Name: node.Name, UID: node.UID},
		HostKeys: []v1alpha1.HostKeyStatus{{Type: "ssh-ed25519", Key: restingKey(node.Name), TrustedBy: v1alpha1.TrustedOnFirstUse}},
	}
	for _, kind := range []string{
		v1alpha1.ConditionResolved, v1alpha1.ConditionReachable, v1alpha1.ConditionHostKeyTrusted, v1alpha1.ConditionAuthenticated, v1alpha1.ConditionPreflightPassed,
		v1alpha1.ConditionConfigured, v1alpha1.ConditionUpToDate, v1alpha1.ConditionNodeReady, v1alpha1.ConditionReady,
	} {
		status.Conditions = append(status.Conditions, metav1.Condition{Type: kind, Status: metav1.ConditionTrue, Reason: "AsExpected", Message: strings.Repeat("x", 80), LastTransitionTime: now})
	}
	for range v1alpha1.MaxHistory {
		op := v1alpha1.NewOperation(v1alpha1.OperationReconfigure, "xxxxxxxx", v1alpha1.OriginController, v1alpha1.ControllerRequester, now.Time)
		op.Phase, op.Revision, op.Impact, op.Message, op.StartedAt, op.FinishedAt = v1alpha1.OperationSucceeded, status.CurrentRevision, v1alpha1.ImpactRestart, strings.Repeat("x", 120), &now, &now
		op.Node = &v1alpha1.OperationNode{Name: node.Name, UID: node.UID}
		status.History = append(status.History, *op)
	}
	return status
}

// restingKey is a public key as no other host has it.
func restingKey(name string) string {
	digest := sha256.Sum256([]byte(name))
	return base64.StdEncoding.EncodeToString(slices.Concat([]byte("\x00\x00\x00\x0bssh-ed25519\x00\x00\x00\x20"), digest[:]))
}

// restingNode is a Node with as many images as a kubelet reports.
func restingNode(name, address string) *corev1.Node {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelOSStable: "windows", corev1.LabelHostname: name, corev1.LabelArchStable: "amd64"}}}
	node.Status.NodeInfo = corev1.NodeSystemInfo{OperatingSystem: "windows", MachineID: name, KubeletVersion: "v1.36.0", OSImage: "Windows Server 2022 Datacenter"}
	node.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: address}, {Type: corev1.NodeHostName, Address: name}}
	node.Status.Capacity = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("8"), corev1.ResourceMemory: resource.MustParse("32Gi"), corev1.ResourcePods: resource.MustParse("110")}
	node.Status.Allocatable = node.Status.Capacity
	node.Status.Conditions = readyConditions(time.Now())
	for i := range 50 { // --node-status-max-images
		node.Status.Images = append(node.Status.Images, corev1.ContainerImage{Names: []string{fmt.Sprintf("registry.example.com/windows/application-%02d@sha256:%064d", i, i)}, SizeBytes: 1 << 30})
	}
	return node
}

func readyConditions(now time.Time) []corev1.NodeCondition {
	at := metav1.NewTime(now)
	return []corev1.NodeCondition{
		{Type: corev1.NodeMemoryPressure, Status: corev1.ConditionFalse, LastHeartbeatTime: at, LastTransitionTime: at, Reason: "KubeletHasSufficientMemory"},
		{Type: corev1.NodeDiskPressure, Status: corev1.ConditionFalse, LastHeartbeatTime: at, LastTransitionTime: at, Reason: "KubeletHasNoDiskPressure"},
		{Type: corev1.NodePIDPressure, Status: corev1.ConditionFalse, LastHeartbeatTime: at, LastTransitionTime: at, Reason: "KubeletHasSufficientPID"},
		{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastHeartbeatTime: at, LastTransitionTime: at, Reason: "KubeletReady"},
	}
}

// report has the Nodes of resting hosts report, one after the other, as often as kubelets do, and renew their Leases, as far as this
// machine keeps up, until the function that it returns is called.
func (c *configured) report(b *testing.B, n int) (stop func()) {
	b.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var ended sync.WaitGroup
	every := func(pause time.Duration, do func(context.Context, kubernetes.Interface, string) error) {
		ended.Go(func() {
			ticker := time.NewTicker(pause)
			defer ticker.Stop()
			for i := 0; ; i++ {
				select {
				case <-ctx.Done():
					return
				case <-ticker.C:
				}
				if err := do(ctx, c.Kube, fmt.Sprintf("resting-%05d", i%n)); err != nil && ctx.Err() == nil {
					b.Errorf("reporting: %v", err)
					return
				}
			}
		})
	}
	every(statusInterval/time.Duration(n), func(ctx context.Context, client kubernetes.Interface, name string) error {
		at := time.Now().UTC().Format(time.RFC3339)
		_, err := client.CoreV1().Nodes().PatchStatus(ctx, name, fmt.Appendf(nil, `{"status":{"conditions":[{"type":"Ready","lastHeartbeatTime":%q}]}}`, at))
		return err
	})
	every(max(leaseInterval/time.Duration(n), time.Second/mostRenewals), func(ctx context.Context, client kubernetes.Interface, name string) error {
		leases, now := client.CoordinationV1().Leases(corev1.NamespaceNodeLease), metav1.NowMicro()
		_, err := leases.Patch(ctx, name, types.MergePatchType, fmt.Appendf(nil, `{"spec":{"renewTime":%q}}`, now.UTC().Format(metav1.RFC3339Micro)), metav1.PatchOptions{})
		if apierrors.IsNotFound(err) {
			lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: coordinationv1.LeaseSpec{HolderIdentity: &name, RenewTime: &now}}
			_, err = leases.Create(ctx, lease, metav1.CreateOptions{})
		}
		return err
	})
	return func() {
		cancel()
		ended.Wait()
	}
}
