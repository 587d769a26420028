// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

//go:build linux

package e2e

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/test/winhost"
)

const (
	scaleHosts  = 200
	scaleHang   = 10
	scaleRefuse = 10
	// scalePool is the pool of all of them.
	scalePool = "fleet"
	// shortestRecheck is the shortest time between two looks at a host with which all
	// is well: the interval of the flags in TestMain, less a fifth.
	shortestRecheck = 24 * time.Second
	// maxControllerMiB bounds the memory of the controller with all hosts, more than
	// twice what it needs: it is there to see a leak, not to measure.
	maxControllerMiB = 400
)

// TestScale looks after many hosts, some of which hang or refuse for as long as the
// test takes. It is not parallel: what it counts is its own.
func TestScale(t *testing.T) {
	ns := newNamespace(t)
	fleet, err := winhost.NewFleet(t.Context(), winhost.FleetOptions{
		Count: scaleHosts, BadHang: scaleHang, BadRefuse: scaleRefuse, NamePrefix: "fleet",
		Customize: func(_ int, o *winhost.Options) { o.AuthorizedKeys = append(o.AuthorizedKeys, hostSigner.PublicKey()) },
	})
	if err != nil {
		t.Fatalf("starting the hosts: %v", err)
	}
	t.Cleanup(func() {
		if err := fleet.Close(); err != nil {
			t.Errorf("closing the hosts: %v", err)
		}
	})
	// Bad hosts come first, so that who goes through them in order meets those before any other.
	createFleet(t, ns, fleet.Bad())
	createFleet(t, ns, fleet.Healthy())

	eventually(t, "all good hosts are logged in to and looked at, and none of the bad ones", func() error {
		for _, host := range fleet.Hosts {
			// One connection to ask for the key, one to log in, each closed or kept. A host that is busy learns of an end late.
			if n := host.Connections(); n > 2 {
				return fmt.Errorf("%d connections are open to %s", n, host.Name())
			}
		}
		return checkFleet(list(t, ns), preflightPassed, fleet.Healthy())
	})
	if err := checkFleet(list(t, ns), preflightPassed, fleet.Bad()[:1]); err == nil {
		t.Fatal("a host that hangs is said to be well")
	}
	hang, refuse := fleet.Bad()[:scaleHang], fleet.Bad()[scaleHang:]
	eventually(t, "the bad hosts are told apart", func() error {
		all := list(t, ns)
		return errors.Join(
			checkFleet(all, reachable(v1alpha1.ReasonHandshakeTimedOut), hang),
			checkFleet(all, reachable(v1alpha1.ReasonConnectionRefused), refuse))
	})
	eventually(t, "the pool sums up", func() error {
		pool, err := sys.Windows.WindowsV1alpha1().WindowsNodePools(ns).Get(t.Context(), scalePool, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if s := pool.Status; s.Replicas != scaleHosts || s.DesiredReplicas != scaleHosts || s.UpdatedReplicas != scaleHosts-scaleHang-scaleRefuse {
			return fmt.Errorf("its status is %+v", s)
		}
		return nil
	})

	t.Run("an unchanged world is not written", func(t *testing.T) { unchangedWorld(t, ns, fleet) })
	t.Run("memory is bounded", func(t *testing.T) {
		if got := residentMiB(t, sys.Controller.PID()); got > maxControllerMiB {
			t.Errorf("the controller takes %d MiB, want at most %d", got, maxControllerMiB)
		}
	})
	t.Run("bad hosts recover", func(t *testing.T) {
		for _, host := range fleet.Bad() {
			setFault(t, host, winhost.Fault{})
		}
		eventually(t, "all hosts are well", func() error {
			return checkFleet(list(t, ns), preflightPassed, fleet.Hosts)
		})
	})
}

// unchangedWorld watches until the controller has looked at every good host anew, and
// checks that not one object was written, and that no host was bothered more often
// than it should be.
func unchangedWorld(t *testing.T, namespace string, fleet *winhost.Fleet) {
	client := sys.Windows.WindowsV1alpha1()
	began := time.Now()
	commands := map[string]int{}
	for _, host := range fleet.Healthy() {
		commands[host.Name()] = len(host.Commands())
	}
	before, err := client.WindowsInstances(namespace).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	poolBefore, err := client.WindowsNodePools(namespace).Get(t.Context(), scalePool, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	changes, err := client.WindowsInstances(namespace).Watch(t.Context(), metav1.ListOptions{ResourceVersion: before.ResourceVersion})
	if err != nil {
		t.Fatal(err)
	}
	defer changes.Stop()

	eventually(t, "every good host is looked at again", func() error {
		select {
		case event, open := <-changes.ResultChan():
			if !open {
				t.Fatal("the watch ended")
			}
			if event.Type != watch.Bookmark {
				t.Errorf("nothing changed, and yet the watch has %s %+v", event.Type, event.Object)
			}
		default:
		}
		for _, host := range fleet.Healthy() {
			if len(host.Commands()) == commands[host.Name()] {
				return fmt.Errorf("%s was not", host.Name())
			}
		}
		return nil
	})
	looks := 1 + int(time.Since(began)/shortestRecheck)
	for _, host := range fleet.Healthy() {
		if got := len(host.Commands()) - commands[host.Name()]; got > looks {
			t.Errorf("%d commands were run on %s, want at most %d: %q", got, host.Name(), looks, host.Commands()[commands[host.Name()]:])
		}
		if got := host.Connections(); got != 1 {
			t.Errorf("%d connections are open to %s, want one that is used again", got, host.Name())
		}
	}
	for name, version := range versions(list(t, namespace)) {
		if was := versions(before.Items)[name]; was != version {
			t.Errorf("instance %s was written: resource version %s became %s", name, was, version)
		}
	}
	poolAfter, err := client.WindowsNodePools(namespace).Get(t.Context(), scalePool, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if poolBefore.ResourceVersion != poolAfter.ResourceVersion {
		t.Errorf("the pool was written: its status was %+v and is %+v", poolBefore.Status, poolAfter.Status)
	}
}

// createFleet makes an instance for each host, called like it.
func createFleet(t *testing.T, namespace string, hosts []winhost.Host) {
	t.Helper()
	pools := sys.Windows.WindowsV1alpha1().WindowsNodePools(namespace)
	if _, err := pools.Get(t.Context(), scalePool, metav1.GetOptions{}); err != nil {
		pool := &v1alpha1.WindowsNodePool{ObjectMeta: metav1.ObjectMeta{Name: scalePool}}
		pool.Spec.Source.Instances = &v1alpha1.InstancesSource{}
		if _, err := pools.Create(t.Context(), pool, metav1.CreateOptions{}); err != nil {
			t.Fatalf("creating the pool: %v", err)
		}
	}
	g, ctx := errgroup.WithContext(t.Context())
	g.SetLimit(8)
	for _, host := range hosts {
		g.Go(func() error {
			instance := &v1alpha1.WindowsInstance{
				ObjectMeta: metav1.ObjectMeta{Name: host.Name()},
				Spec: v1alpha1.WindowsInstanceSpec{
					Address: host.Address(), Port: int32(host.Port()), Username: host.User(),
					PoolRef: &v1alpha1.PoolReference{Name: scalePool},
				},
			}
			_, err := sys.Windows.WindowsV1alpha1().WindowsInstances(namespace).Create(ctx, instance, metav1.CreateOptions{})
			return err
		})
	}
	if err := g.Wait(); err != nil {
		t.Fatalf("creating the instances: %v", err)
	}
}

func list(t *testing.T, namespace string) []v1alpha1.WindowsInstance {
	t.Helper()
	instances, err := sys.Windows.WindowsV1alpha1().WindowsInstances(namespace).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatalf("listing instances: %v", err)
	}
	return instances.Items
}

// checkFleet says whether the instances of all hosts have a verdict.
func checkFleet(instances []v1alpha1.WindowsInstance, want verdict, hosts []winhost.Host) error {
	byName := map[string]*v1alpha1.WindowsInstance{}
	for i := range instances {
		byName[instances[i].Name] = &instances[i]
	}
	missing, last := 0, error(nil)
	for _, host := range hosts {
		instance, ok := byName[host.Name()]
		if !ok {
			return fmt.Errorf("there is no instance %s", host.Name())
		}
		if err := want.among(instance.Status.Conditions); err != nil {
			missing, last = missing+1, err
		}
	}
	if missing > 0 {
		return fmt.Errorf("%d of %d hosts are not there yet, for example: %w", missing, len(hosts), last)
	}
	return nil
}

func versions(instances []v1alpha1.WindowsInstance) map[string]string {
	out := map[string]string{}
	for i := range instances {
		out[instances[i].Name] = instances[i].ResourceVersion
	}
	return out
}

// peakMemory matches the most memory that a process ever had, see proc_pid_status(5).
var peakMemory = regexp.MustCompile(`(?m)^VmHWM:\s+(\d+) kB$`)

func residentMiB(t *testing.T, pid int) int {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	found := peakMemory.FindSubmatch(status)
	if found == nil {
		t.Fatalf("the kernel does not say how much memory process %d takes:\n%s", pid, status)
	}
	kib, err := strconv.Atoi(string(found[1]))
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("the controller took at most %d MiB", kib>>10)
	return kib >> 10
}
