// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

//go:build linux

package bench

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/test/standin"
	"github.com/openshift/windows-instance-api/test/system"
	"github.com/openshift/windows-instance-api/test/winhost"
)

// manyHosts is how many hosts are set up at the same time: 100, or what the variable
// BENCH_HOSTS says.
var manyHosts = environmentNumber("BENCH_HOSTS", 100)

// configured is a system with a payload, and the hosts that it has set up.
type configured struct {
	*system.System
	signer ssh.Signer
	ns     string
	hosts  map[string]winhost.Host
}

// BenchmarkConfigure measures how long it takes to make nodes of hosts: of one, and of a
// hundred at the same time (ratio-many-to-one), then what a change of one thing costs on
// all of them, and what it costs when nothing is to be done.
//
// What differs from a real cluster: all hosts, the cluster and the controller share this
// machine, so that the hundred hosts also pay for the hosts' own part.
func BenchmarkConfigure(b *testing.B) {
	dir := filepath.Join(b.TempDir(), "payload")
	if err := standin.WritePayload(context.Background(), dir, standin.PayloadOptions{Bytes: 1 << 20}); err != nil {
		b.Fatal(err)
	}
	s, signer, _ := startSystem(b, system.Options{Payload: dir, ControllerArgs: []string{"--concurrent-operations=100", "--concurrent-probes=100"}})
	for b.Loop() {
		c := &configured{System: s, signer: signer, ns: namespace(b, s, fmt.Sprintf("configure-%d", time.Now().UnixNano())), hosts: map[string]winhost.Host{}}
		c.pool(b)
		one := c.setUp(b, 1)
		before := cpuSeconds(b, s.Controller.PID())
		many := c.setUp(b, manyHosts)
		b.ReportMetric((cpuSeconds(b, s.Controller.PID())-before)/float64(manyHosts), "cpu-s/host")
		b.ReportMetric(one.Seconds(), "s-one")
		b.ReportMetric(many.Seconds(), "s-many")
		b.ReportMetric(many.Seconds()/one.Seconds(), "ratio-many-to-one")

		c.change(b, "kubelet", `{"spec":{"template":{"kubelet":{"maxPods":111}}}}`)
		c.label(b)
		c.nothing(b)
	}
}

// pool makes the pool of the hosts.
func (c *configured) pool(b *testing.B) {
	b.Helper()
	pool := &v1alpha1.WindowsNodePool{ObjectMeta: metav1.ObjectMeta{Name: "hosts"}}
	pool.Spec.Source.Instances = &v1alpha1.InstancesSource{}
	if _, err := c.Windows.WindowsV1alpha1().WindowsNodePools(c.ns).Create(context.Background(), pool, metav1.CreateOptions{}); err != nil {
		b.Fatal(err)
	}
}

// setUp makes nodes of n more hosts, and says how long it took.
func (c *configured) setUp(b *testing.B, n int) time.Duration {
	b.Helper()
	first := len(c.hosts)
	for i := range n {
		name := fmt.Sprintf("c%03d-%s", first+i, c.ns[len(c.ns)-6:])
		c.hosts[name] = startHost(b, c.signer, winhost.Options{Name: name, InProcess: winhost.InProcessOptions{Services: standin.Services()}})
	}
	began := time.Now()
	for name, host := range c.hosts {
		instance := &v1alpha1.WindowsInstance{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.WindowsInstanceSpec{
			Address: host.Address(), Port: int32(host.Port()), Username: host.User(), PoolRef: &v1alpha1.PoolReference{Name: "hosts"},
		}}
		_, err := c.Windows.WindowsV1alpha1().WindowsInstances(c.ns).Create(context.Background(), instance, metav1.CreateOptions{})
		if err != nil && !strings.Contains(err.Error(), "already exists") {
			b.Fatal(err)
		}
	}
	waitFor(b, c.System, c.ns, v1alpha1.ConditionReady, len(c.hosts))
	waitFor(b, c.System, c.ns, v1alpha1.ConditionUpToDate, len(c.hosts))
	return time.Since(began)
}

// received is what all hosts have been sent, in bytes.
func (c *configured) received() (n int64) {
	for _, host := range c.hosts {
		n += host.Received()
	}
	return n
}

// list returns all instances.
func (c *configured) list(b *testing.B) []v1alpha1.WindowsInstance {
	b.Helper()
	list, err := c.Windows.WindowsV1alpha1().WindowsInstances(c.ns).List(context.Background(), metav1.ListOptions{})
	if err != nil {
		b.Fatal(err)
	}
	return list.Items
}

// change changes the template of the pool, waits until all hosts are as it says, and
// reports what that took.
func (c *configured) change(b *testing.B, name, patch string) {
	b.Helper()
	operations := map[string]string{}
	for _, instance := range c.list(b) {
		operations[instance.Name] = instance.Status.DesiredRevision
	}
	sent, began := c.received(), time.Now()
	if _, err := c.Windows.WindowsV1alpha1().WindowsNodePools(c.ns).Patch(context.Background(), "hosts", types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
		b.Fatal(err)
	}
	drains := 0
	for deadline := time.Now().Add(5 * time.Minute); ; {
		done := 0
		drains = 0
		for _, instance := range c.list(b) {
			if instance.Status.DesiredRevision != operations[instance.Name] && instance.Status.CurrentRevision == instance.Status.DesiredRevision &&
				meta.IsStatusConditionTrue(instance.Status.Conditions, v1alpha1.ConditionReady) {
				done++
			}
			if o := instance.Status.Operation; o != nil && (o.Impact == v1alpha1.ImpactDrain || o.Impact == v1alpha1.ImpactReboot) {
				drains++
			}
		}
		if done == len(c.hosts) {
			break
		}
		if time.Now().After(deadline) {
			b.Fatalf("%d of %d hosts are as the pool says", done, len(c.hosts))
		}
		time.Sleep(50 * time.Millisecond)
	}
	b.ReportMetric(time.Since(began).Seconds(), "s-change-"+name)
	b.ReportMetric(float64(c.received()-sent)/float64(len(c.hosts))/1024, "KiB/host-change-"+name)
	b.ReportMetric(float64(drains), "drains-change-"+name)
}

// label changes a label of the pool and waits until all Nodes have it.
func (c *configured) label(b *testing.B) {
	b.Helper()
	sent, began := c.received(), time.Now()
	patch := []byte(`{"spec":{"template":{"nodeLabels":{"bench":"` + c.ns + `"}}}}`)
	if _, err := c.Windows.WindowsV1alpha1().WindowsNodePools(c.ns).Patch(context.Background(), "hosts", types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		b.Fatal(err)
	}
	for deadline := time.Now().Add(5 * time.Minute); ; {
		nodes, err := c.Kube.CoreV1().Nodes().List(context.Background(), metav1.ListOptions{LabelSelector: "bench=" + c.ns})
		if err != nil {
			b.Fatal(err)
		}
		if len(nodes.Items) == len(c.hosts) {
			break
		}
		if time.Now().After(deadline) {
			b.Fatalf("%d of %d Nodes have the label", len(nodes.Items), len(c.hosts))
		}
		time.Sleep(50 * time.Millisecond)
	}
	b.ReportMetric(time.Since(began).Seconds(), "s-change-label")
	b.ReportMetric(float64(c.received()-sent)/float64(len(c.hosts))/1024, "KiB/host-change-label")
}

// nothing asks for a reconfigure of a host on which nothing is to be changed.
func (c *configured) nothing(b *testing.B) {
	b.Helper()
	var name string
	for name = range c.hosts {
		break
	}
	instances := c.Windows.WindowsV1alpha1().WindowsInstances(c.ns)
	began := time.Now()
	if _, err := instances.Reconfigure(context.Background(), name, &v1alpha1.WindowsInstanceReconfigure{}, metav1.CreateOptions{}); err != nil {
		b.Fatal(err)
	}
	for deadline := time.Now().Add(5 * time.Minute); ; {
		instance, err := instances.Get(context.Background(), name, metav1.GetOptions{})
		if err != nil {
			b.Fatal(err)
		}
		if o := instance.Status.Operation; o.Type == v1alpha1.OperationReconfigure && !o.Active() {
			if o.Phase != v1alpha1.OperationSucceeded || o.Impact != v1alpha1.ImpactNone {
				b.Fatalf("nothing was to be done, and it ended %s with impact %s: %s", o.Phase, o.Impact, o.Message)
			}
			break
		}
		if time.Now().After(deadline) {
			b.Fatal("it does not end")
		}
		time.Sleep(20 * time.Millisecond)
	}
	b.ReportMetric(milliseconds(time.Since(began)), "ms-nothing-to-do")
}
