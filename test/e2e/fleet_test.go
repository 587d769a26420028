// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

//go:build linux

package e2e

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	toolswatch "k8s.io/client-go/tools/watch"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/wmco"
	"github.com/openshift/windows-instance-api/test/standin"
	"github.com/openshift/windows-instance-api/test/winhost"
)

const (
	// fleetAtOnce is --max-disruptive-operations, and fleetOfPool maxUnavailable of each of two pools.
	fleetAtOnce, fleetOfPool = 4, 3
	// fleetCanaries are how many hosts of the first pool are updated first.
	fleetCanaries = 2
)

// hostsVariable is the variable that says how many hosts the tests of fleets have.
const hostsVariable = "E2E_HOSTS"

// fleetSize is how many hosts TestFleet has: 24, or what the variable says. With 50 it took 18 minutes beside other tests.
func fleetSize(t *testing.T) int {
	t.Helper()
	text := os.Getenv(hostsVariable)
	if text == "" {
		return 24
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 12 {
		t.Fatalf("%s=%q is no number from 12 on", hostsVariable, text)
	}
	return n
}

// fleet is a pool of TestFleet, and its hosts.
type fleet struct {
	*site
	namespace, name string
	hosts           []*siteHost
}

// TestFleet updates two pools under one bound of the cluster: canaries first, paused in the middle, with a host that is
// removed meanwhile, stopped by a host that the update breaks, and then taken back because of one. The controller is killed at the canaries, at each
// decision about a host of the second pool, when it has stopped, when the bound of the cluster is reached, and when it goes back. At no event of their
// Nodes are more out of service than the pools and the cluster allow, and as many are once.
func TestFleet(t *testing.T) {
	t.Parallel()
	// Less often than in other systems of tests: each probe of all of them takes from what the test waits for.
	s := newSite(t, standin.PayloadOptions{Bytes: 1 << 20}, fmt.Sprintf("--max-disruptive-operations=%d", fleetAtOnce), "--recheck-interval=15s")
	// The second one is smaller: its hosts take longer, because the controller is killed at each decision about them.
	size := fleetSize(t)
	first, second := s.newFleet(t, "fleet-a", size-size/3), s.newFleet(t, "fleet-b", size/3)
	for _, h := range slices.Concat(first.hosts, second.hosts) {
		h.waitReady(t)
	}
	away := s.watchBounds(t, map[string]int{first.name: fleetOfPool, second.name: fleetOfPool}, fleetAtOnce)

	first.patch(t, fmt.Sprintf(`{"spec":{"updateStrategy":{"rollingUpdate":{"canary":%d}}}}`, fleetCanaries))
	first.want(t, "1")
	canaries := func(n int32) func(p *v1alpha1.WindowsNodePool) error {
		return func(p *v1alpha1.WindowsNodePool) error {
			if p.Status.UpdatedReplicas != n || !strings.Contains(p.Status.BlockedBy, "raise or remove spec.updateStrategy.rollingUpdate.canary") {
				return fmt.Errorf("%d are updated; blocked by %q", p.Status.UpdatedReplicas, p.Status.BlockedBy)
			}
			return nil
		}
	}
	first.wait(t, "the canaries are updated", canaries(fleetCanaries))
	s.killController(t)
	first.patch(t, fmt.Sprintf(`{"spec":{"updateStrategy":{"rollingUpdate":{"canary":%d}}}}`, fleetCanaries+1))
	first.wait(t, "one canary more is updated", canaries(fleetCanaries+1))

	first.patch(t, `{"spec":{"updateStrategy":{"rollingUpdate":{"canary":null}}}}`)
	first.wait(t, "more than the canaries are updated", func(p *v1alpha1.WindowsNodePool) error {
		if p.Status.UpdatedReplicas <= fleetCanaries+1 {
			return fmt.Errorf("%d are", p.Status.UpdatedReplicas)
		}
		return nil
	})
	first.patch(t, `{"spec":{"paused":true}}`)
	first.wait(t, "nothing goes on", func(p *v1alpha1.WindowsNodePool) error {
		if c := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionUpdating); c.Status != metav1.ConditionFalse || c.Reason != v1alpha1.ReasonPaused {
			return fmt.Errorf("%+v", c)
		}
		return nil
	})
	paused := first.operations(t)

	// The other pool gets what the first one does not use, although the controller is killed at each decision, until there is none left.
	second.want(t, "1")
	leaving := second.hosts[len(second.hosts)-1]
	seen := sets.New[string]()
	for second.waitDecision(t, seen) {
		if seen.Len() == 2 {
			leaving.remove(t)
		}
		s.killController(t)
	}
	if seen.Len() < len(second.hosts)-1 {
		t.Errorf("the controller was killed at %d decisions about %d hosts", seen.Len(), len(second.hosts))
	}
	// Not how many are updated: what the last operations have done is seen by the next probes.
	if diff := cmp.Diff(paused, first.operations(t)); diff != "" {
		t.Errorf("hosts of a paused pool are changed (-before +now):\n%s", diff)
	}
	first.patch(t, `{"spec":{"paused":false}}`)
	leaving.waitGone(t)
	second.hosts = second.hosts[:len(second.hosts)-1]
	first.waitUpdated(t)
	second.waitUpdated(t)

	broken := first.hosts[0]
	setFault(t, broken.host, winhost.Fault{FailStart: "kubelet"})
	had := first.operations(t)
	first.want(t, "2")
	first.wait(t, "it stops", func(p *v1alpha1.WindowsNodePool) error {
		c := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionUpdating)
		if c.Reason != v1alpha1.ReasonHostsBroken || !strings.Contains(p.Status.BlockedBy, "changed host "+broken.name+" and failed") {
			return fmt.Errorf("%+v; blocked by %q", c, p.Status.BlockedBy)
		}
		return nil
	})
	first.mustHaveStopped(t, broken, had)
	// The next process updates hosts of the other pool, and lets no more of this one have what broke a host of it. No pod of the other pool may leave, so
	// that its hosts are out of service until they may.
	second.keepPods(t, second.hosts)
	stays, before := first.operations(t), second.operations(t)
	s.killController(t)
	second.want(t, "2")
	second.wait(t, "a host is next", func(*v1alpha1.WindowsNodePool) error {
		if maps.Equal(before, second.operations(t)) {
			return errors.New("none is")
		}
		return nil
	})
	now := first.operations(t)
	delete(stays, broken.name) // it is tried again
	delete(now, broken.name)
	if diff := cmp.Diff(stays, now); diff != "" {
		t.Errorf("hosts of a pool that has stopped are changed (-before +now):\n%s", diff)
	}
	// As many hosts of the other pool as may be out of service are, and one of this pool, from which no pod may leave either: that is as many as may be
	// of the cluster, which is what the next one of this pool waits for, also when the controller is killed.
	first.keepPods(t, first.hosts[1:])
	setFault(t, broken.host, winhost.Fault{})
	first.want(t, "3")
	broken.waitReady(t)
	full := func() {
		t.Helper()
		eventually(t, "the bound of the cluster is reached", func() error {
			if n, of := away(first.name), away(second.name); n != fleetAtOnce-fleetOfPool || of != fleetOfPool {
				return fmt.Errorf("%d and %d hosts are out of service", n, of)
			}
			return mustHave(first.get(t).Status.BlockedBy, fmt.Sprintf("; at most %d of all pools may be at a time (--max-disruptive-operations).", fleetAtOnce))
		})
	}
	full()
	inFirst, inSecond := first.operations(t), second.operations(t)
	s.killController(t)
	full()
	if diff := cmp.Diff(inFirst, first.operations(t)) + cmp.Diff(inSecond, second.operations(t)); diff != "" {
		t.Errorf("the next controller changes others than the former one (-before +now):\n%s", diff)
	}
	first.letPodsGo(t)
	second.letPodsGo(t)
	first.waitUpdated(t)
	second.waitUpdated(t)

	// From now on a host that a template breaks gets back what worked.
	first.patch(t, `{"spec":{"updateStrategy":{"rollingUpdate":{"onFailure":"Rollback"}}}}`)
	setFault(t, broken.host, winhost.Fault{FailStart: wmco.KubeletService})
	first.want(t, "4")
	back := first.wait(t, "it goes back", func(p *v1alpha1.WindowsNodePool) error {
		if p.Status.RolledBack == nil {
			return fmt.Errorf("blocked by %q", p.Status.BlockedBy)
		}
		return nil
	}).Status.RolledBack
	if !slices.Equal(back.Instances, []string{broken.name}) {
		t.Errorf("it goes back because of %v, want %s alone", back.Instances, broken.name)
	}
	s.killController(t)
	setFault(t, broken.host, winhost.Fault{})
	kept := 0
	for _, h := range first.hosts {
		i := h.wait(t, "it works, and the broken one with what it had", func(i *v1alpha1.WindowsInstance) error {
			if i.Status.Operation.Active() || i.Status.CurrentRevision != i.Status.DesiredRevision || h == broken && i.Status.PoolRevision != back.To ||
				!meta.IsStatusConditionTrue(i.Status.Conditions, v1alpha1.ConditionReady) || h.node(t, h.name).Spec.Unschedulable {
				return fmt.Errorf("revision %s, not %s\n%s\n%s", i.Status.PoolRevision, back.Revision, describeConditions(i), describeOperation(i))
			}
			return nil
		})
		switch i.Status.PoolRevision {
		case back.To:
			kept++
		case back.Revision: // it got that while the first one broke, and works with it
		default:
			t.Errorf("%s has revision %s, want %s or %s", h.name, i.Status.PoolRevision, back.To, back.Revision)
		}
	}
	if kept < 2 {
		t.Error("all hosts but the broken one have what broke it")
	}
}

// killController kills the controller, and starts another one.
func (s *site) killController(t *testing.T) {
	t.Helper()
	s.Controller.Kill9()
	if err := s.Controller.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// newFleet makes a pool with hosts.
func (s *site) newFleet(t *testing.T, name string, size int) *fleet {
	t.Helper()
	f := &fleet{site: s, namespace: s.namespace(t, name), name: name}
	pool := &v1alpha1.WindowsNodePool{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.WindowsNodePoolSpec{Source: v1alpha1.PoolSource{Instances: &v1alpha1.InstancesSource{}}}}
	pool.Spec.UpdateStrategy.RollingUpdate.SettleSeconds = new(int32(1))
	pool.Spec.UpdateStrategy.RollingUpdate.MaxUnavailable = new(intstr.FromInt32(fleetOfPool))
	if _, err := s.Windows.WindowsV1alpha1().WindowsNodePools(f.namespace).Create(t.Context(), pool, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	for n := range size {
		h := s.newHost(t, f.namespace, fmt.Sprintf("%s-%d", name, n), winhost.Options{})
		h.declare(t, func(spec *v1alpha1.WindowsInstanceSpec) { spec.PoolRef = &v1alpha1.PoolReference{Name: name} })
		f.hosts = append(f.hosts, h)
	}
	return f
}

func (f *fleet) get(t *testing.T) *v1alpha1.WindowsNodePool {
	t.Helper()
	pool, err := f.Windows.WindowsV1alpha1().WindowsNodePools(f.namespace).Get(t.Context(), f.name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return pool
}

// operations are those that the hosts had last.
func (f *fleet) operations(t *testing.T) map[string]string {
	t.Helper()
	list, err := f.instances(f.namespace).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	last := map[string]string{}
	for i := range list.Items {
		if op := list.Items[i].Status.Operation; op != nil {
			last[list.Items[i].Name] = nameOf(op)
		}
	}
	return last
}

// ids are those of all operations that the hosts have had, as far as they are remembered.
func (f *fleet) ids(t *testing.T) sets.Set[string] {
	t.Helper()
	list, err := f.instances(f.namespace).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	ids := sets.New[string]()
	for i := range list.Items {
		for _, op := range list.Items[i].Status.Operations() {
			ids.Insert(op.ID)
		}
	}
	return ids
}

// nameOf tells an operation from others.
func nameOf(op *v1alpha1.Operation) string { return fmt.Sprintf("%s %s", op.Type, op.ID) }

func (f *fleet) patch(t *testing.T, patch string) {
	t.Helper()
	if _, err := f.Windows.WindowsV1alpha1().WindowsNodePools(f.namespace).Patch(t.Context(), f.name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
}

// want gives the pool another configuration, for which its hosts are drained.
func (f *fleet) want(t *testing.T, version string) {
	t.Helper()
	f.patch(t, fmt.Sprintf(`{"spec":{"template":{"containerd":{"sandboxImage":"registry.example.com/pause:%s"}}}}`, version))
}

// wait follows the pool until it is as it should be.
func (f *fleet) wait(t *testing.T, what string, condition func(*v1alpha1.WindowsNodePool) error) *v1alpha1.WindowsNodePool {
	t.Helper()
	var found *v1alpha1.WindowsNodePool
	eventually(t, f.name+": "+what, func() error {
		found = f.get(t)
		return condition(found)
	})
	return found
}

// budget is the PodDisruptionBudget that keeps the pods of a fleet.
const budget = "kept"

// keepPods has a pod on each of these hosts, which nobody may evict.
func (f *fleet) keepPods(t *testing.T, hosts []*siteHost) {
	t.Helper()
	budgets := f.Kube.PolicyV1().PodDisruptionBudgets(f.namespace)
	if _, err := budgets.Create(t.Context(), &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Name: budget},
		Spec:       policyv1.PodDisruptionBudgetSpec{MinAvailable: new(intstr.FromInt(len(hosts))), Selector: &metav1.LabelSelector{}},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, h := range hosts {
		runPodToEvict(t, h)
	}
	eventually(t, "the budget counts the pods", func() error { // one that does not run may always be evicted
		found, err := budgets.Get(t.Context(), budget, metav1.GetOptions{})
		if err == nil && int(found.Status.CurrentHealthy) != len(hosts) {
			err = fmt.Errorf("it counts %d", found.Status.CurrentHealthy)
		}
		return err
	})
}

// letPodsGo has the pods be evicted that were kept.
func (f *fleet) letPodsGo(t *testing.T) {
	t.Helper()
	if err := f.Kube.PolicyV1().PodDisruptionBudgets(f.namespace).Delete(t.Context(), budget, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
}

// mustHaveStopped fails the test if a host was let have what broke one after that had happened, or if more were being changed then than may be. had are
// the operations that the hosts had had before.
func (f *fleet) mustHaveStopped(t *testing.T, broken *siteHost, had map[string]string) {
	t.Helper()
	var at metav1.Time
	for _, op := range broken.get(t).Status.Operations() { // the newest first; it is tried again
		if op.Phase == v1alpha1.OperationFailed {
			at = *op.FinishedAt
		}
	}
	if at.IsZero() {
		t.Fatalf("no operation has failed on %s", broken.name)
	}
	var list *v1alpha1.WindowsInstanceList
	eventually(t, "the others are done", func() (err error) {
		if list, err = f.instances(f.namespace).List(t.Context(), metav1.ListOptions{}); err != nil {
			return err
		}
		for i := range list.Items {
			if list.Items[i].Name != broken.name && list.Items[i].Status.Operation.Active() {
				return errors.New(describeOperation(&list.Items[i]))
			}
		}
		return nil
	})
	beside := 0
	for i := range list.Items {
		name, op := list.Items[i].Name, list.Items[i].Status.Operation
		switch {
		case name == broken.name || had[name] == nameOf(op):
		case op.RequestedAt.After(at.Add(time.Second)): // a pass that had begun before may have recorded it a moment later
			t.Errorf("%s was let have at %s what had broken %s at %s", name, op.RequestedAt, broken.name, at)
		case op.FinishedAt.After(at.Time):
			beside++
		}
	}
	if beside >= fleetOfPool {
		t.Errorf("%d hosts were being changed when that broke %s, of %d that may be out of service with it", beside, broken.name, fleetOfPool)
	}
}

// waitUpdated waits until all hosts have what the pool wants, and none is cordoned.
func (f *fleet) waitUpdated(t *testing.T) {
	t.Helper()
	// A pool of many takes longer than what is waited for elsewhere, a host does not.
	for _, h := range f.hosts {
		h.waitReady(t)
	}
	f.wait(t, "all are updated", func(p *v1alpha1.WindowsNodePool) error {
		if int(p.Status.UpdatedReplicas) != len(f.hosts) {
			return fmt.Errorf("%d are updated; blocked by %q", p.Status.UpdatedReplicas, p.Status.BlockedBy)
		}
		return f.isUpdated(p)
	})
}

// isUpdated returns nil if all hosts that stay have what the pool wants, and none waits for anything.
func (f *fleet) isUpdated(p *v1alpha1.WindowsNodePool) error {
	if p.Status.ObservedGeneration != p.Generation || !meta.IsStatusConditionTrue(p.Status.Conditions, v1alpha1.ConditionUpdated) || p.Status.BlockedBy != "" {
		return fmt.Errorf("%d are updated; blocked by %q", p.Status.UpdatedReplicas, p.Status.BlockedBy)
	}
	return nil
}

// waitDecision waits until the controller has let a host be changed that it had not before. It reports false if all are updated and there is none.
func (f *fleet) waitDecision(t *testing.T, seen sets.Set[string]) (decided bool) {
	t.Helper()
	eventually(t, f.name+": a host is next", func() error {
		updated := f.isUpdated(f.get(t)) // read first: no decision follows that is not in the list
		list, err := f.instances(f.namespace).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			return err
		}
		for i := range list.Items {
			if op := list.Items[i].Status.Operation; op != nil && op.AdmittedImpact == v1alpha1.ImpactDrain && !seen.Has(op.ID) {
				seen.Insert(op.ID)
				decided = true
				return nil
			}
		}
		return updated
	})
	return decided
}

// watchBounds fails the test if at any event of the Nodes whose names begin with that of a pool more are out of service than
// the pool, or all together, may have. The function that it returns says how many of a pool are.
func (s *site) watchBounds(t *testing.T, bounds map[string]int, all int) (of func(pool string) int) {
	t.Helper()
	nodes := s.Kube.CoreV1().Nodes()
	now, err := nodes.List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	away, why := map[string]sets.Set[string]{}, map[string]string{}
	for pool := range bounds {
		away[pool] = sets.New[string]()
	}
	var mu sync.Mutex // guards away
	see := func(node *corev1.Node, deleted bool) {
		mu.Lock()
		defer mu.Unlock()
		for pool, most := range bounds {
			if !strings.HasPrefix(node.Name, pool+"-") {
				continue
			}
			away[pool].Delete(node.Name)
			if !deleted && (node.Spec.Unschedulable || !nodeIsReady(node)) {
				away[pool].Insert(node.Name)
				why[node.Name] = fmt.Sprintf("cordoned: %v, ready: %v", node.Spec.Unschedulable, nodeIsReady(node))
			}
			if len(away[pool]) > most {
				t.Errorf("%d Nodes of %s are out of service, of %d that may be: %v\n%v", len(away[pool]), pool, most, sets.List(away[pool]), why)
			}
		}
		if total := union(away); len(total) > all {
			t.Errorf("%d Nodes are out of service, of %d that may be: %v\n%v", len(total), all, sets.List(total), why)
		}
	}
	for i := range now.Items {
		see(&now.Items[i], false)
	}
	watchFrom(t, now.ResourceVersion, nodes.Watch, func(event watch.Event) (goesOn bool) {
		if node, ok := event.Object.(*corev1.Node); ok {
			see(node, event.Type == watch.Deleted)
		}
		return true
	})
	return func(pool string) int {
		mu.Lock()
		defer mu.Unlock()
		return away[pool].Len()
	}
}

// watchFrom watches until the test ends, or see says that it has seen enough, from a version on that was read: a watch that begins
// without one may begin with what was before that. The test fails if not all was seen. see is called for one event at a time.
func watchFrom(t *testing.T, version string, watches func(context.Context, metav1.ListOptions) (watch.Interface, error), see func(watch.Event) (goesOn bool)) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	w, err := toolswatch.NewRetryWatcherWithContext(ctx, version, &cache.ListWatch{WatchFuncWithContext: watches}) // kube-apiserver may end watches
	if err != nil {
		cancel()
		t.Fatal(err)
	}
	var ended sync.WaitGroup
	t.Cleanup(func() {
		cancel()
		ended.Wait()
	})
	ended.Go(func() {
		for event := range w.ResultChan() {
			if ctx.Err() != nil {
				return
			}
			if event.Type == watch.Error {
				t.Errorf("not all was seen: %v", event.Object)
				return
			}
			if !see(event) {
				return
			}
		}
		if ctx.Err() == nil {
			t.Error("the watch ended, so that not all was seen")
		}
	})
}

func union(of map[string]sets.Set[string]) sets.Set[string] {
	all := sets.New[string]()
	for _, names := range of {
		all = all.Union(names)
	}
	return all
}
