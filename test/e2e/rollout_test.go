// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

//go:build linux

package e2e

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/wmco"
	"github.com/openshift/windows-instance-api/test/standin"
	"github.com/openshift/windows-instance-api/test/winhost"
)

// TestRollout: Windows is restarted on all hosts of a pool, once on each and one after the other, also when the
// controller is killed meanwhile; a template that breaks a host goes back; a host whose kubelet hangs is repaired; and
// controllers that elect a leader, and lose it, update no two hosts at the same time.
func TestRollout(t *testing.T) {
	t.Parallel()
	s := newSite(t, standin.PayloadOptions{Bytes: 1 << 20})
	namespace := s.namespace(t, "rollout")
	pools := s.Windows.WindowsV1alpha1().WindowsNodePools(namespace)
	pool := &v1alpha1.WindowsNodePool{ObjectMeta: metav1.ObjectMeta{Name: "fleet"}, Spec: v1alpha1.WindowsNodePoolSpec{Source: v1alpha1.PoolSource{Instances: &v1alpha1.InstancesSource{}}}}
	pool.Spec.UpdateStrategy.RollingUpdate.SettleSeconds = new(int32(1))
	if _, err := pools.Create(t.Context(), pool, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	hosts := make([]*siteHost, 3)
	for n := range hosts {
		hosts[n] = s.newHost(t, namespace, fmt.Sprintf("rollout-%d", n), winhost.Options{})
		hosts[n].declare(t, func(spec *v1alpha1.WindowsInstanceSpec) { spec.PoolRef = &v1alpha1.PoolReference{Name: "fleet"} })
	}
	for _, h := range hosts {
		h.waitReady(t)
	}
	// Hosts that were set up were restarted for that.
	restarts := make([]int, len(hosts))
	for n, h := range hosts {
		restarts[n] = h.host.Restarts()
	}
	mustHaveRestarted := func(what string) {
		t.Helper()
		for n, h := range hosts {
			if got := h.host.Restarts(); got != restarts[n]+1 {
				t.Errorf("%s: %s was restarted %d times, want once", what, h.name, got-restarts[n])
			}
			restarts[n] = h.host.Restarts()
			i := h.waitReady(t)
			if op := i.Status.Operation; op.Type != v1alpha1.OperationReboot || op.Cause != v1alpha1.CauseRestartRequested || !op.ByController() || op.Phase != v1alpha1.OperationSucceeded {
				t.Errorf("%s: %s has %+v", what, h.name, op)
			}
			if h.node(t, h.name).Spec.Unschedulable {
				t.Errorf("%s: %s is still cordoned", what, h.name)
			}
		}
	}
	run := func(args ...string) string {
		t.Helper()
		stdout, stderr, code := plugin(t, s.System, append([]string{"rollout", "-n", namespace}, args...)...)
		if code != 0 {
			t.Fatalf("%v: code %d\n%s%s", args, code, stdout, stderr)
		}
		return stdout + stderr
	}

	mostCordoned := s.watchCordoned(t, "rollout-")
	if got := run("restart", "fleet"); got != "windowsnodepool/fleet restarted\n" {
		t.Errorf("it says %q", got)
	}
	got := run("status", "fleet")
	for _, want := range []string{"rollout-1: reboot running: [Restart running]", "is out of service (it is being restarted)", "windowsnodepool/fleet: all 3 hosts are up to date"} {
		if !strings.Contains(got, want) {
			t.Errorf("it does not say %q:\n%s", want, got)
		}
	}
	mustHaveRestarted("restart")

	t.Run("killed", func(t *testing.T) {
		run("restart", "fleet")
		for range hosts {
			eventually(t, "a host is being restarted", func() error {
				for n, h := range hosts {
					if op := h.get(t).Status.Operation; op.Active() && h.host.Restarts() > restarts[n] {
						return nil
					}
				}
				done := 0
				for n, h := range hosts {
					if h.host.Restarts() > restarts[n] {
						done++
					}
				}
				if done == len(hosts) {
					return nil
				}
				return errors.New("none is")
			})
			s.killController(t)
		}
		run("status", "fleet")
		mustHaveRestarted("killed")
	})
	if most := mostCordoned(); most != 1 {
		t.Errorf("%d Nodes were cordoned at the same time, want 1", most)
	}

	t.Run("undo", func(t *testing.T) {
		labeled := func(want string) {
			t.Helper()
			for _, h := range hosts {
				eventually(t, h.name+" has the label", func() error {
					if got := h.node(t, h.name).Labels["rack"]; got != want {
						return fmt.Errorf("it has %q, want %q", got, want)
					}
					return nil
				})
			}
		}
		patch := []byte(`{"spec":{"template":{"nodeLabels":{"rack":"7"}}}}`)
		if _, err := pools.Patch(t.Context(), "fleet", types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
		labeled("7")
		var history string
		eventually(t, "the revision is kept, and all hosts work with it", func() error {
			found, err := pools.Get(t.Context(), "fleet", metav1.GetOptions{})
			if err != nil {
				return err
			}
			if history = run("history", "fleet"); !strings.Contains(history, "\n2 ") || len(found.Status.WorkedRevisions) != 2 {
				return errors.New(history)
			}
			return nil
		})
		if got := run("undo", "fleet", "--dry-run=server"); got != "windowsnodepool/fleet goes back to revision 1 (server dry run)\n" {
			t.Errorf("it says %q", got)
		}
		if got := run("undo", "fleet", "--reason=a test"); !strings.HasPrefix(got, "windowsnodepool/fleet goes back to revision 1\nPinned to revision 1 (") || !strings.Contains(got, ": a test.\n") {
			t.Errorf("it says %q", got)
		}
		s.killController(t)
		labeled("")
		if got := run("status", "fleet"); !strings.Contains(got, "all 3 hosts have gone back. Pinned to revision 1 (") {
			t.Errorf("it says %q", got)
		}
		pinned, err := pools.Get(t.Context(), "fleet", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		undone := pinned.Status.UpdateRevision
		for _, h := range hosts {
			h.wait(t, "it works with the earlier revision", func(i *v1alpha1.WindowsInstance) error {
				if i.Status.PoolRevision != pinned.Status.RolledBack.To || i.Status.PreviousPoolRevision != "" { // the programs are the same
					return fmt.Errorf("revision %s, before %s", i.Status.PoolRevision, i.Status.PreviousPoolRevision)
				}
				return nil
			})
		}
		revisions := s.Kube.AppsV1().ControllerRevisions(namespace)
		if err := revisions.Delete(t.Context(), pinned.Status.RolledBack.To, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the revision that the hosts have is made again", func() error {
			kept, err := revisions.Get(t.Context(), pinned.Status.RolledBack.To, metav1.GetOptions{})
			if err == nil && kept.Revision != 1 {
				return fmt.Errorf("it has the number %d", kept.Revision)
			}
			return err
		})
		for _, h := range hosts {
			h.wait(t, "it has what it is to have", func(i *v1alpha1.WindowsInstance) error {
				if c := meta.FindStatusCondition(i.Status.Conditions, v1alpha1.ConditionUpToDate); c == nil || c.Status != metav1.ConditionTrue {
					return fmt.Errorf("%+v", c)
				}
				return nil
			})
		}
		forged := []byte(`{"spec":{"updateStrategy":{"rollingUpdate":{"undo":{"revision":"` + undone + `","to":"fleet-` + strings.Repeat("0", 32) + `"}}}}}`)
		if _, err := pools.Patch(t.Context(), "fleet", types.MergePatchType, forged, metav1.PatchOptions{}); !apierrors.IsInvalid(err) {
			t.Errorf("a revision that did not work: %v", err)
		}
		if got := run("resume", "fleet"); got != "windowsnodepool/fleet resumed\nHosts get revision "+undone+" again, which kubernetes-admin had undone.\n" {
			t.Errorf("it says %q", got)
		}
		labeled("7")
		eventually(t, "all hosts have again what was undone", func() error {
			found, err := pools.Get(t.Context(), "fleet", metav1.GetOptions{})
			if err != nil {
				return err
			}
			if s := found.Status; s.UpdateRevision != undone || s.CurrentRevision != undone || s.RolledBack != nil || len(s.WorkedRevisions) != 2 {
				return fmt.Errorf("status %+v", s)
			}
			return nil
		})
		found, err := pools.Get(t.Context(), "fleet", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if err := revisions.Delete(t.Context(), found.Status.UpdateRevision, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the revision is made again", func() error {
			_, err := revisions.Get(t.Context(), found.Status.UpdateRevision, metav1.GetOptions{})
			return err
		})
	})

	t.Run("rollback", func(t *testing.T) {
		starts := make([]int32, len(hosts))
		for n, h := range hosts {
			starts[n] = h.kubelets.Load()
			setFault(t, h.host, winhost.Fault{FailStart: wmco.KubeletService}) // with the new template; nothing else restarts it
		}
		patch := []byte(`{"spec":{"updateStrategy":{"rollingUpdate":{"onFailure":"Rollback"}},"template":{"kubelet":{"maxPods":13}}}}`)
		if _, err := pools.Patch(t.Context(), "fleet", types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
		var back *v1alpha1.PoolRollback
		eventually(t, "it is rolled back", func() error {
			found, err := pools.Get(t.Context(), "fleet", metav1.GetOptions{})
			if err != nil {
				return err
			}
			if back = found.Status.RolledBack; back == nil {
				return fmt.Errorf("blocked by %q", found.Status.BlockedBy)
			}
			return nil
		})
		s.Controller.Kill9()
		for _, h := range hosts {
			setFault(t, h.host, winhost.Fault{})
		}
		if err := s.Controller.Restart(t.Context()); err != nil {
			t.Fatal(err)
		}
		for n, h := range hosts {
			broke := slices.Contains(back.Instances, h.name)
			h.wait(t, "it works with what it had", func(i *v1alpha1.WindowsInstance) error {
				if op := i.Status.Operation; op.Active() || op.Phase != v1alpha1.OperationSucceeded || i.Status.PoolRevision != back.To || i.Status.CurrentRevision != i.Status.DesiredRevision ||
					!meta.IsStatusConditionTrue(i.Status.Conditions, v1alpha1.ConditionReady) || h.node(t, h.name).Spec.Unschedulable {
					return fmt.Errorf("revision %s, want %s\n%s\n%s", i.Status.PoolRevision, back.To, describeConditions(i), describeOperation(i))
				}
				return nil
			})
			if tried := h.kubelets.Load() != starts[n]; tried != broke {
				t.Errorf("%s: it was tried: %v, and broken: %v", h.name, tried, broke)
			}
		}
		if len(back.Instances) != 1 {
			t.Errorf("it broke %v", back.Instances)
		}
		stdout, stderr, code := plugin(t, s.System, "rollout", "-n", namespace, "status", "fleet")
		if code == 0 || !strings.Contains(stdout+stderr, "kubectl windows rollout resume fleet") || !strings.Contains(stdout+stderr, back.Instances[0]+": rolled back") {
			t.Errorf("code %d\n%s%s", code, stdout, stderr)
		}
		if got := run("history", "fleet"); !strings.Contains(got, "the present one, rolled back") {
			t.Error(got)
		}
		if got := run("resume", "fleet"); got != "windowsnodepool/fleet resumed\nHosts get revision "+back.Revision+" again, which was rolled back because it broke hosts.\n" {
			t.Errorf("it says %q", got)
		}
		for _, h := range hosts {
			h.wait(t, "it has what was rolled back", func(i *v1alpha1.WindowsInstance) error {
				if i.Status.PoolRevision != back.Revision {
					return fmt.Errorf("revision %s, want %s\n%s", i.Status.PoolRevision, back.Revision, describeOperation(i))
				}
				return nil
			})
		}
		eventually(t, "the rollback is over", func() error {
			found, err := pools.Get(t.Context(), "fleet", metav1.GetOptions{})
			if err != nil {
				return err
			}
			if found.Status.RolledBack != nil || found.Status.CurrentRevision != back.Revision || found.Status.UpdatedReplicas != int32(len(hosts)) {
				return fmt.Errorf("status %+v", found.Status)
			}
			return nil
		})
	})

	t.Run("remediation", func(t *testing.T) {
		patch := []byte(`{"spec":{"remediation":{"afterSeconds":60}}}`)
		if _, err := pools.Patch(t.Context(), "fleet", types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
		sick := hosts[1]
		kubelets := sick.kubelets.Load()
		sick.hangKubelet()
		var repair *v1alpha1.Operation
		sick.wait(t, "its repair is recorded", func(i *v1alpha1.WindowsInstance) error {
			if i.Status.Operation.Cause != v1alpha1.CauseNodeNotReady {
				return fmt.Errorf("%s\n%s", describeConditions(i), describeOperation(i))
			}
			repair = i.Status.Operation
			return nil
		})
		// A controller that is killed when it has just recorded it may not have told it.
		eventually(t, "there is an event", func() error {
			events, err := s.Kube.CoreV1().Events(namespace).List(t.Context(), metav1.ListOptions{FieldSelector: "reason=Remediating,involvedObject.kind=WindowsInstance,involvedObject.name=" + sick.name})
			if err == nil && (len(events.Items) != 1 || events.Items[0].Type != corev1.EventTypeWarning) {
				err = fmt.Errorf("events %+v", events.Items)
			}
			return err
		})
		s.killController(t)
		recorded := repair.ID
		sick.wait(t, "it is repaired", func(i *v1alpha1.WindowsInstance) error {
			if repair = i.Status.Operation; repair.Cause != v1alpha1.CauseNodeNotReady || repair.Active() {
				return fmt.Errorf("%s\n%s", describeConditions(i), describeOperation(i))
			}
			return nil
		})
		// Once more if the controller was killed while the services were being restarted.
		if n := sick.kubelets.Load() - kubelets; repair.ID != recorded || repair.Type != v1alpha1.OperationRestartServices || repair.Phase != v1alpha1.OperationSucceeded || n < 1 || n > 2 {
			t.Errorf("the kubelet was started %d times; it has %+v", n, repair)
		}
		sick.waitReady(t)
		if got := sick.host.Restarts(); got != restarts[1] {
			t.Errorf("Windows was restarted %d times", got-restarts[1])
		}
	})

	t.Run("leader lost", func(t *testing.T) {
		rolloutWithLostLeaders(t, &fleet{site: s, namespace: namespace, name: "fleet", hosts: hosts})
	})
}

// rolloutWithLostLeaders updates a pool, of which one host may be out of service, with controllers that elect a leader. The first one is stopped right
// after it has let a host be changed, until another one leads, and then goes on: there are two that decide. The next one is killed right after a decision.
// Whoever leads then goes on, and no two hosts are out of service at any moment.
func rolloutWithLostLeaders(t *testing.T, f *fleet) {
	path, args := commandOf(t, f.Controller)
	f.Controller.Kill9()
	first := f.candidate(t, path, args, 1)
	leader := f.waitLeader(t, "")
	second := f.candidate(t, path, args, 2)
	f.watchBounds(t, map[string]int{"rollout": 1}, 1)

	had := f.ids(t)
	seen := had.Clone()
	f.patch(t, `{"spec":{"remediation":null}}`) // a busy machine may be a reason for that
	f.want(t, "leaders")
	f.waitDecision(t, seen)
	if err := first.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	leader = f.waitLeader(t, leader)
	if err := first.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	select {
	case <-first.Done():
	case <-time.After(patience):
		t.Errorf("the first one goes on:\n%s", first.LogTail())
	case <-t.Context().Done():
	}
	third := f.candidate(t, path, args, 3)
	if !f.waitDecision(t, seen) {
		t.Error("all were updated before the second one was killed")
	}
	second.Kill9()
	f.waitLeader(t, leader)
	f.waitUpdated(t)
	if n := f.ids(t).Difference(had).Len(); n != len(f.hosts) {
		t.Errorf("there were %d operations for %d hosts", n, len(f.hosts))
	}
	for _, h := range f.hosts {
		if op := h.get(t).Status.Operation; had.Has(op.ID) || op.Type != v1alpha1.OperationReconfigure || op.Phase != v1alpha1.OperationSucceeded {
			t.Errorf("%s: the last operation is %s %s: %s", h.name, op.Type, op.Phase, op.Message)
		}
	}
	if err := errors.Join(third.Stop(), f.Controller.Restart(t.Context())); err != nil {
		t.Error(err)
	}
}

// watchCordoned watches Nodes whose name has a prefix, of which none is cordoned. The function that it returns says how many were cordoned
// at the same time at most.
func (s *site) watchCordoned(t *testing.T, prefix string) func() int {
	t.Helper()
	nodes := s.Kube.CoreV1().Nodes()
	before, err := nodes.List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var most atomic.Int64
	cordoned := map[string]bool{}
	watchFrom(t, before.ResourceVersion, nodes.Watch, func(event watch.Event) (goesOn bool) {
		node, ok := event.Object.(*corev1.Node)
		if !ok || !strings.HasPrefix(node.Name, prefix) {
			return true
		}
		if delete(cordoned, node.Name); node.Spec.Unschedulable {
			cordoned[node.Name] = true
		}
		most.Store(max(most.Load(), int64(len(cordoned))))
		return true
	})
	return func() int { return int(most.Load()) }
}
