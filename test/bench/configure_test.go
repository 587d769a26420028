// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

//go:build linux

package bench

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/openshift/windows-instance-api/pkg/agent"
	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/controller/operation"
	informers "github.com/openshift/windows-instance-api/pkg/generated/informers/externalversions"
	listers "github.com/openshift/windows-instance-api/pkg/generated/listers/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/test/standin"
	"github.com/openshift/windows-instance-api/test/system"
	"github.com/openshift/windows-instance-api/test/winhost"
)

// manyHosts is how many hosts are set up at the same time: 100, or what the variable
// BENCH_HOSTS says.
var manyHosts = environmentNumber("BENCH_HOSTS", 100)

// payloadSize is how many MiB the files of the payload have, for each of which a host needs space.
var payloadSize = environmentNumber("BENCH_PAYLOAD_MIB", 1)

// bootSeconds is for how long a host is down that is restarted, in the part with such hosts.
var bootSeconds = environmentNumber("BENCH_BOOT_SECONDS", 60)

const (
	// idleHosts is how many hosts BenchmarkConfigureIdle leaves alone, and idleTime for how
	// long. They are looked at every idleRecheck.
	idleHosts   = 10
	idleTime    = 30 * time.Second
	idleRecheck = 2 * time.Second
	// dryRuns is of how many dry runs the median is taken.
	dryRuns = 5
	// configureTimeout bounds everything that is waited for.
	configureTimeout = 20 * time.Minute
)

// digestMirrorSets is where mirrors of registries are configured.
var digestMirrorSets = schema.GroupVersionResource{Group: "config.openshift.io", Version: "v1", Resource: "imagedigestmirrorsets"}

// BenchmarkConfigure measures how long it takes to make nodes of hosts: of one, and of a
// hundred at the same time (ratio-many-to-one), then what a change of one thing costs on
// all of them, and what it costs when nothing is to be done.
//
// What differs from a real cluster: all hosts, the cluster and the controller share this
// machine. What a hundred hosts cost in processor time, of whomever, is therefore reported
// as well: cpu-s/host of each program, and in s-cpu-many how long that takes on the
// processors that there are when nobody ever waits.
//
// Stand-ins boot at once, and Windows does not: in the second part a host is down for
// bootSeconds when it is restarted, as a server is. There all hosts may be disturbed at the same time, where
// the first part has the defaults but for how long hosts are watched after a change, and of the changes only the one that restarts something is
// measured. So it is in the third part, which has all defaults.
func BenchmarkConfigure(b *testing.B) {
	b.Run("boot=0s", func(b *testing.B) {
		c := startConfigured(b, configuredOptions{})
		c.setUp(b, 1) // what is done only once is not part of it
		for b.Loop() {
			c.oneAndMany(b)
			c.change(b, "kubelet", c.patchPool(`{"spec":{"template":{"kubelet":{"maxPods":300}}}}`), c.configuredAnew(b))
			c.change(b, "mirror", c.addMirror, c.configuredAnew(b))
			c.change(b, "label", c.patchPool(`{"spec":{"template":{"nodeLabels":{"bench":"changed"}}}}`), c.labeled)
			c.nothing(b)
		}
	})
	boot := time.Duration(bootSeconds) * time.Second
	b.Run("boot="+boot.String(), func(b *testing.B) {
		c := startConfigured(b, configuredOptions{system: system.Options{ControllerArgs: []string{fmt.Sprintf("--max-disruptive-operations=%d", 2*manyHosts)}}})
		bound := fmt.Sprintf(`{"spec":{"updateStrategy":{"rollingUpdate":{"maxUnavailable":%d,"settleSeconds":0}}}}`, 2*manyHosts)
		if err := c.patchPool(bound)(b.Context()); err != nil {
			b.Fatal(err)
		}
		c.setUp(b, 1)
		c.boot = boot
		for b.Loop() {
			c.oneAndMany(b)
			c.change(b, "kubelet", c.patchPool(`{"spec":{"template":{"kubelet":{"maxPods":300}}}}`), c.configuredAnew(b))
		}
	})
	b.Run("defaults", func(b *testing.B) {
		c := startConfigured(b, configuredOptions{system: system.Options{ControllerArgs: []string{"--node-settle-time=" + operation.DefaultSettle.String()}}})
		for b.Loop() {
			c.setUp(b, manyHosts)
			c.change(b, "kubelet", c.patchPool(`{"spec":{"template":{"kubelet":{"maxPods":300}}}}`), c.configuredAnew(b))
		}
	})
}

// oneAndMany sets up one host, and then many at the same time.
func (c *configured) oneAndMany(b *testing.B) {
	b.Helper()
	one := c.setUp(b, 1)
	var many time.Duration
	var used map[string]float64
	calls := c.calls(b, func() { used = c.used(b, func() { many = c.setUp(b, manyHosts) }) })
	all := 0.0
	for name, seconds := range used {
		all += seconds
		b.ReportMetric(seconds/float64(manyHosts), "cpu-s/host-"+name)
	}
	b.ReportMetric(all/float64(runtime.NumCPU()), "s-cpu-many")
	b.ReportMetric(float64(len(calls))/float64(manyHosts), "calls/host")
	b.ReportMetric(highestResidentMiB(b, c.Controller.PID()), "MiB-highest-controller")
	b.ReportMetric(one.Seconds(), "s-one")
	b.ReportMetric(many.Seconds(), "s-many")
	b.ReportMetric(many.Seconds()/one.Seconds(), "ratio-many-to-one")
}

// BenchmarkConfigureIdle counts what our programs write while hosts are set up, well, and
// looked at every two seconds. Leases do not count.
func BenchmarkConfigureIdle(b *testing.B) {
	c := startConfigured(b, configuredOptions{system: system.Options{ControllerArgs: []string{"--recheck-interval=" + idleRecheck.String()}}})
	n := min(idleHosts, manyHosts)
	for b.Loop() {
		c.setUp(b, n)
		// What follows the end of an operation is not idle yet.
		quiet := func() bool {
			return len(writes(c.calls(b, func() { <-time.After(3 * idleRecheck) }))) == 0
		}
		for deadline := time.Now().Add(time.Minute); !quiet() && time.Now().Before(deadline); {
			b.Log("it is not quiet yet")
		}
		received, used := c.received(), cpuSeconds(b, c.Controller.PID())
		calls := c.calls(b, func() { <-time.After(idleTime) })
		for _, w := range writes(calls) {
			b.Logf("%s wrote: %s %s %s/%s", w.UserAgent, w.Verb, w.ObjectRef.Resource, w.ObjectRef.Name, w.ObjectRef.Subresource)
		}
		b.ReportMetric(float64(len(writes(calls))), "writes")
		b.ReportMetric(float64(len(calls))/idleTime.Seconds(), "calls/s")
		b.ReportMetric(float64(c.received()-received)/float64(len(c.hosts))/1024/idleTime.Seconds(), "KiB/s/host")
		b.ReportMetric((cpuSeconds(b, c.Controller.PID())-used)/idleTime.Seconds(), "cores-controller")
	}
}

// configured is a system with a payload, and the hosts that it has set up.
type configured struct {
	*system.System
	signer  ssh.Signer
	dynamic dynamic.Interface
	audit   string // log of kube-apiserver
	ns      string
	hosts   map[string]winhost.Host
	// boot is for how long new hosts are down when they are restarted.
	boot time.Duration
	// starts is how many services were started on all of them.
	starts atomic.Int64
	// resting is how many instances there are beside those of hosts.
	resting int
	// instances are all of them as they were watched; nil until somebody lists them.
	instances listers.WindowsInstanceNamespaceLister
}

// configuredOptions say what a system with hosts to configure is like.
type configuredOptions struct {
	system  system.Options
	payload standin.PayloadOptions
}

// startConfigured starts a system with a pool and no host.
func startConfigured(b *testing.B, o configuredOptions) *configured {
	b.Helper()
	o.payload.Bytes = payloadSize << 20
	dir := b.TempDir()
	c := &configured{audit: filepath.Join(dir, "audit.log"), hosts: map[string]winhost.Host{}}
	policy, payload := filepath.Join(dir, "policy.yaml"), filepath.Join(dir, "payload")
	if err := os.WriteFile(policy, []byte(auditPolicy), 0o600); err != nil {
		b.Fatal(err)
	}
	if err := standin.WritePayload(b.Context(), payload, o.payload); err != nil {
		b.Fatal(err)
	}
	o.system.Payload, o.system.MachineAPI = payload, true
	o.system.ControlPlane.APIServerArgs = []string{"--audit-policy-file=" + policy, "--audit-log-path=" + c.audit}
	c.System, c.signer, _ = startSystem(b, o.system)
	var err error
	if c.dynamic, err = dynamic.NewForConfig(c.AdminConfig()); err != nil {
		b.Fatal(err)
	}
	if o.system.OpenShift == "" {
		// A mirror may need the pull secret of the cluster, which the controller must be able to look for.
		namespace(b, c.System, "openshift-config")
		namespace(b, c.System, "openshift-machine-config-operator")
		namespace(b, c.System, "openshift-network-operator")
		if _, err := c.Kubectl(b.Context(), "apply", "-f", filepath.Join("..", "..", "artifacts", "openshift", "inputs.yaml")); err != nil {
			b.Fatal(err)
		}
	}
	c.ns = namespace(b, c.System, "configure")
	pool := &v1alpha1.WindowsNodePool{ObjectMeta: metav1.ObjectMeta{Name: "hosts"}}
	pool.Spec.Source.Instances = &v1alpha1.InstancesSource{}
	if _, err := c.Windows.WindowsV1alpha1().WindowsNodePools(c.ns).Create(b.Context(), pool, metav1.CreateOptions{}); err != nil {
		b.Fatal(err)
	}
	return c
}

// services are the programs of the services of a host, whose starts are counted.
func (c *configured) services() map[string]winhost.ServiceFunc {
	known := standin.Services()
	counted := map[string]winhost.ServiceFunc{}
	for _, name := range agent.ServicesOfInterest() {
		counted[name] = func(ctx context.Context, s winhost.ServiceStart) error {
			c.starts.Add(1)
			if run := known[name]; run != nil {
				return run(ctx, s)
			}
			<-ctx.Done()
			return nil
		}
	}
	return counted
}

// setUp makes nodes of n more hosts, and says how long it took.
func (c *configured) setUp(b *testing.B, n int) time.Duration {
	b.Helper()
	var added []string
	for range n {
		name := fmt.Sprintf("bench-%03d", len(c.hosts))
		c.hosts[name] = startHost(b, c.signer, winhost.Options{Name: name, InProcess: winhost.InProcessOptions{Services: c.services()}})
		c.hosts[name].SetRestart(winhost.RestartOptions{Takes: c.boot})
		added = append(added, name)
	}
	began := time.Now()
	for _, name := range added {
		host := c.hosts[name]
		instance := &v1alpha1.WindowsInstance{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.WindowsInstanceSpec{
			Address: host.Address(), Port: int32(host.Port()), Username: host.User(), PoolRef: &v1alpha1.PoolReference{Name: "hosts"},
		}}
		if _, err := c.Windows.WindowsV1alpha1().WindowsInstances(c.ns).Create(b.Context(), instance, metav1.CreateOptions{}); err != nil {
			b.Fatal(err)
		}
	}
	c.wait(b, func() (int, error) {
		return c.count(b, func(i *v1alpha1.WindowsInstance) bool {
			return meta.IsStatusConditionTrue(i.Status.Conditions, v1alpha1.ConditionReady) && meta.IsStatusConditionTrue(i.Status.Conditions, v1alpha1.ConditionUpToDate)
		}), nil
	})
	return time.Since(began)
}

// waitInterval is how often is looked whether hosts are done.
const waitInterval = 50 * time.Millisecond

// wait waits until all hosts are done.
func (c *configured) wait(b *testing.B, done func() (int, error)) {
	b.Helper()
	ticker := time.NewTicker(waitInterval)
	defer ticker.Stop()
	for deadline := time.Now().Add(configureTimeout); ; <-ticker.C {
		n, err := done()
		if err != nil {
			b.Fatal(err)
		}
		if n == len(c.hosts) {
			return
		}
		if time.Now().After(deadline) {
			b.Fatalf("%d of %d hosts are done", n, len(c.hosts))
		}
	}
}

// list returns all instances, which nobody may change. They are watched, as by somebody who looks on: to list all of them again and
// again was a seventh of what a change cost all programs together.
func (c *configured) list(b *testing.B) []*v1alpha1.WindowsInstance {
	b.Helper()
	if c.instances == nil {
		factory := informers.NewSharedInformerFactoryWithOptions(c.Windows, 0, informers.WithNamespace(c.ns))
		c.instances = factory.Windows().V1alpha1().WindowsInstances().Lister().WindowsInstances(c.ns)
		factory.StartWithContext(b.Context())
		for kind, synced := range factory.WaitForCacheSync(b.Context().Done()) {
			if !synced {
				b.Fatalf("%s cannot be listed", kind)
			}
		}
	}
	list, err := c.instances.List(labels.Everything())
	if err != nil {
		b.Fatal(err)
	}
	return list
}

// count says of how many instances something is true.
func (c *configured) count(b *testing.B, is func(*v1alpha1.WindowsInstance) bool) (n int) {
	b.Helper()
	for _, instance := range c.list(b) {
		if is(instance) {
			n++
		}
	}
	return n
}

// received is what all hosts have been sent, in bytes.
func (c *configured) received() (n int64) {
	for _, host := range c.hosts {
		n += host.Received()
	}
	return n
}

// processorTime is what each program has used, in seconds. That of the hosts is that of
// this process.
func (c *configured) processorTime(b *testing.B) map[string]float64 {
	b.Helper()
	used := map[string]float64{}
	for name, pid := range map[string]int{
		"controller": c.Controller.PID(), "windows-apiserver": c.Server.PID(), "hosts": os.Getpid(),
		"kube-apiserver": c.APIServer.PID(), "etcd": c.Etcd.PID(), "kube-controller-manager": c.ControllerManager.PID(),
	} {
		used[name] = cpuSeconds(b, pid)
	}
	return used
}

// used is what each program uses while do runs, in seconds.
func (c *configured) used(b *testing.B, do func()) map[string]float64 {
	b.Helper()
	before := c.processorTime(b)
	do()
	used := c.processorTime(b)
	for name := range used {
		used[name] -= before[name]
	}
	return used
}

// patchPool returns what changes the pool.
func (c *configured) patchPool(patch string) func(context.Context) error {
	return func(ctx context.Context) error {
		_, err := c.Windows.WindowsV1alpha1().WindowsNodePools(c.ns).Patch(ctx, "hosts", types.MergePatchType, []byte(patch), metav1.PatchOptions{})
		return err
	}
}

// addMirror adds a mirror of a registry.
func (c *configured) addMirror(ctx context.Context) error {
	_, err := c.dynamic.Resource(digestMirrorSets).Create(ctx, &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "config.openshift.io/v1", "kind": "ImageDigestMirrorSet", "metadata": map[string]any{"name": "mirror"},
		"spec": map[string]any{"imageDigestMirrors": []any{map[string]any{"source": "registry.example.com", "mirrors": []any{"mirror.example.com/m"}}}},
	}}, metav1.CreateOptions{})
	return err
}

// configuredAnew returns how to find out how many hosts were configured with another
// revision than they have now.
func (c *configured) configuredAnew(b *testing.B) func() (int, error) {
	b.Helper()
	before := map[string]string{}
	for _, instance := range c.list(b) {
		before[instance.Name] = instance.Status.DesiredRevision
	}
	return func() (int, error) {
		return c.count(b, func(i *v1alpha1.WindowsInstance) bool {
			return i.Status.DesiredRevision != before[i.Name] && i.Status.CurrentRevision == i.Status.DesiredRevision && !i.Status.Operation.Active() &&
				meta.IsStatusConditionTrue(i.Status.Conditions, v1alpha1.ConditionReady)
		}), nil
	}
}

// labeled says how many Nodes have the label.
func (c *configured) labeled() (int, error) {
	nodes, err := c.Kube.CoreV1().Nodes().List(context.Background(), metav1.ListOptions{LabelSelector: "bench=changed"})
	if err != nil {
		return 0, err
	}
	return len(nodes.Items), nil
}

// cost is what a change of one thing costs all hosts together.
type cost struct {
	took                   time.Duration
	bytes, starts          int64
	drains, reboots, hosts int
}

// cost changes one thing, and says what that costs until all hosts are done.
func (c *configured) cost(b *testing.B, do func(context.Context) error, done func() (int, error)) cost {
	b.Helper()
	operations := map[string]string{}
	for _, instance := range c.list(b) {
		operations[instance.Name] = instance.Status.Operation.ID
	}
	restarts := func() (n int) {
		for _, host := range c.hosts {
			n += host.Restarts()
		}
		return n
	}
	sent, started, restarted, began := c.received(), c.starts.Load(), restarts(), time.Now()
	if err := do(b.Context()); err != nil {
		b.Fatal(err)
	}
	c.wait(b, done)
	took := time.Since(began)
	drains := c.count(b, func(i *v1alpha1.WindowsInstance) bool {
		o := i.Status.Operation
		return o.ID != operations[i.Name] && (o.Impact == v1alpha1.ImpactDrain || o.Impact == v1alpha1.ImpactReboot)
	})
	return cost{took: took, bytes: c.received() - sent, starts: c.starts.Load() - started, drains: drains, reboots: restarts() - restarted, hosts: len(c.hosts)}
}

// change changes one thing and reports what that costs.
func (c *configured) change(b *testing.B, name string, do func(context.Context) error, done func() (int, error)) {
	b.Helper()
	var of cost
	used := c.used(b, func() { of = c.cost(b, do, done) })
	hosts, all := float64(of.hosts), 0.0
	for program, seconds := range used {
		all += seconds
		b.ReportMetric(seconds/hosts, "cpu-s/host-"+name+"-"+program)
	}
	b.ReportMetric(all/hosts, "cpu-s/host-"+name)
	b.ReportMetric(of.took.Seconds(), "s-"+name)
	b.ReportMetric(float64(of.bytes)/hosts/1024, "KiB/host-"+name)
	b.ReportMetric(float64(of.starts)/hosts, "services/host-"+name)
	b.ReportMetric(float64(of.drains), "drains-"+name)
	b.ReportMetric(float64(of.reboots), "reboots-"+name)
}

// nothing asks for a reconfigure of a host on which nothing is to be changed, first as dry
// runs.
func (c *configured) nothing(b *testing.B) {
	b.Helper()
	name := slices.Min(slices.Collect(maps.Keys(c.hosts)))
	instances := c.Windows.WindowsV1alpha1().WindowsInstances(c.ns)
	var dry []time.Duration
	for range dryRuns {
		began := time.Now()
		answer, err := instances.Reconfigure(b.Context(), name, &v1alpha1.WindowsInstanceReconfigure{}, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if err != nil {
			b.Fatal(err)
		}
		if len(answer.Status.Plan) > 0 {
			b.Fatalf("nothing is to be done, and the plan is %+v", answer.Status.Plan)
		}
		dry = append(dry, time.Since(began))
	}
	b.ReportMetric(milliseconds(quantile(dry, 0.5)), "ms-dry-run")

	starts, began := c.starts.Load(), time.Now()
	if _, err := instances.Reconfigure(b.Context(), name, &v1alpha1.WindowsInstanceReconfigure{}, metav1.CreateOptions{}); err != nil {
		b.Fatal(err)
	}
	ticker := time.NewTicker(10 * time.Millisecond)
	defer ticker.Stop()
	for deadline := time.Now().Add(configureTimeout); ; <-ticker.C {
		instance, err := instances.Get(b.Context(), name, metav1.GetOptions{})
		if err != nil {
			b.Fatal(err)
		}
		if o := instance.Status.Operation; !o.Active() {
			if o.Phase != v1alpha1.OperationSucceeded || o.Impact != v1alpha1.ImpactNone || c.starts.Load() != starts {
				b.Fatalf("nothing was to be done, and it ended %s with impact %s: %s", o.Phase, o.Impact, o.Message)
			}
			break
		}
		if time.Now().After(deadline) {
			b.Fatal("it does not end")
		}
	}
	b.ReportMetric(milliseconds(time.Since(began)), "ms-nothing-to-do")
}

// calls returns the requests of our programs that kube-apiserver gets while do runs.
func (c *configured) calls(b *testing.B, do func()) []call {
	b.Helper()
	calls, err := callsDuring(c.audit, "windows-", func() error { do(); return nil })
	if err != nil {
		b.Fatal(err)
	}
	return calls
}

// writes are the calls that write anything but a Lease, or ask who somebody is.
func writes(calls []call) []call {
	return slices.DeleteFunc(slices.Clone(calls), func(c call) bool {
		return !slices.Contains([]string{"create", "update", "patch", "delete"}, c.Verb) || strings.Contains(c.URI, "dryRun=All") ||
			slices.Contains([]string{"leases", "tokenreviews", "subjectaccessreviews"}, c.ObjectRef.Resource)
	})
}
