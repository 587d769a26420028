// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package instance

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
)

// TestEvaluateUnconfirmed: a host that was configured before its instance or its pool was made is left as it is while it has something else
// than is desired, until somebody decides. Others are not held up.
func TestEvaluateUnconfirmed(t *testing.T) {
	node := newNode("win-1", "10.1.42.1", corev1.ConditionTrue)
	since := metav1.NewTime(testNow.Add(-time.Minute))
	pool := func(edit ...func(*v1alpha1.WindowsNodePool)) *v1alpha1.WindowsNodePool {
		p := &v1alpha1.WindowsNodePool{ObjectMeta: metav1.ObjectMeta{Namespace: testNamespace, Name: "p", UID: "p-now"}}
		for _, e := range edit {
			e(p)
		}
		return p
	}
	resumed := func(after time.Duration) func(*v1alpha1.WindowsNodePool) {
		return func(p *v1alpha1.WindowsNodePool) {
			p.Spec.UpdateStrategy.RollingUpdate.ResumedAt = new(metav1.NewTime(since.Add(after)))
		}
	}
	// fresh was just made, waiting is known to wait, and worked is one that we have configured.
	fresh := func() *v1alpha1.WindowsInstance { return known(t) }
	waiting := func() *v1alpha1.WindowsInstance {
		i := inspected(t)
		i.Status.CurrentRevision, i.Status.UnconfirmedSince = revision1, &since
		meta.SetStatusCondition(&i.Status.Conditions, metav1.Condition{Type: v1alpha1.ConditionConfigured, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonConfigured})
		return i
	}
	worked := func() *v1alpha1.WindowsInstance {
		i := reconfigured(t, revision1, v1alpha1.OperationSucceeded)
		i.Status.Operation.HostChanged = true
		i.Status.Pool = &v1alpha1.KnownPool{Name: "p", UID: "p-now"}
		return i
	}
	after := func(i *v1alpha1.WindowsInstance, o v1alpha1.Operation) *v1alpha1.WindowsInstance {
		o.ID, o.RequestedBy = "op-9", "alice"
		if o.Type == "" {
			o.Type = v1alpha1.OperationReconfigure
		}
		o.FinishedAt = new(metav1.NewTime(testNow.Add(-10 * time.Second)))
		i.Status.Operation = &o
		return i
	}
	edited := func(i *v1alpha1.WindowsInstance, edit func(*v1alpha1.WindowsInstanceStatus)) *v1alpha1.WindowsInstance {
		edit(&i.Status)
		return i
	}
	const held, due, current = v1alpha1.ReasonConfirmationNeeded, v1alpha1.ReasonRevisionOutdated, v1alpha1.ReasonRevisionCurrent
	for _, tt := range []struct {
		name string
		of   *v1alpha1.WindowsInstance
		s    snapshot
		// without: it names no pool.
		without bool
		// wants is what is desired. Empty: revision2.
		wants string
		// waits: it waits for a confirmation. want is the reason of UpToDate.
		waits bool
		want  string
	}{
		{name: "found with another revision", of: fresh(), s: snapshot{node: node, pool: pool()}, waits: true, want: held},
		{name: "found while a revision of its pool is rolled back", of: fresh(), s: snapshot{node: node, pool: pool(func(p *v1alpha1.WindowsNodePool) {
			p.Status.UpdateRevision, p.Status.RolledBack = "p-2", &v1alpha1.PoolRollback{Revision: "p-2", To: "p-1"}
		})}, waits: true, want: held},
		{name: "found, and in no pool", of: fresh(), s: snapshot{node: node}, without: true, waits: true, want: held},
		{name: "found with the same revision", of: fresh(), s: snapshot{node: node, pool: pool()}, wants: revision1, want: current},
		{name: "found with the same revision, and other taints", of: fresh(), s: snapshot{node: node, pool: pool(), nodeDiffers: true}, wants: revision1, waits: true, want: held},
		{name: "found before its pool was made", of: fresh(), s: snapshot{node: node}, wants: revision1, waits: true, want: current},
		{name: "found before the inputs of the cluster were read", of: fresh(), s: snapshot{node: node, pool: pool(), inputs: errors.New("no ConfigMap")}, wants: "-", waits: true, want: v1alpha1.ReasonInputsMissing},
		{name: "found, and no Node", of: fresh(), s: snapshot{pool: pool()}, waits: true, want: due},
		{name: "found where it was only watched before", of: edited(fresh(), func(s *v1alpha1.WindowsInstanceStatus) {
			s.CurrentRevision = testRevision
			s.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionConfigured, Status: metav1.ConditionUnknown, Reason: v1alpha1.ReasonNotManaged}}
		}), s: snapshot{node: node, pool: pool()}, waits: true, want: held},
		{name: "what was lost is restored", of: waiting(), s: snapshot{node: node, pool: pool()}, wants: revision1, want: current},
		{name: "the labels are not restored", of: waiting(), s: snapshot{node: node, pool: pool(), nodeDiffers: true}, wants: revision1, waits: true, want: held},
		{name: "the pool is resumed", of: waiting(), s: snapshot{node: node, pool: pool(resumed(0))}, want: due},
		{name: "the pool was resumed before", of: waiting(), s: snapshot{node: node, pool: pool(resumed(-time.Second))}, waits: true, want: held},
		{name: "somebody has it configured", of: after(waiting(), v1alpha1.Operation{Phase: v1alpha1.OperationSucceeded, Origin: v1alpha1.OriginUser}), s: snapshot{node: node, pool: pool()}, want: due},
		{name: "somebody has tried that, and the host is half way", of: after(waiting(), v1alpha1.Operation{Phase: v1alpha1.OperationFailed, HostChanged: true, Origin: v1alpha1.OriginUser}), s: snapshot{node: node, pool: pool()}, want: due},
		{name: "somebody has tried that, and it was not changed", of: after(waiting(), v1alpha1.Operation{Phase: v1alpha1.OperationFailed, Origin: v1alpha1.OriginUser}), s: snapshot{node: node, pool: pool()}, waits: true, want: held},
		{name: "somebody had it configured before", of: edited(after(waiting(), v1alpha1.Operation{Phase: v1alpha1.OperationSucceeded, Origin: v1alpha1.OriginUser}), func(s *v1alpha1.WindowsInstanceStatus) {
			s.Operation.FinishedAt = new(metav1.NewTime(since.Add(-time.Minute)))
		}), s: snapshot{node: node, pool: pool()}, waits: true, want: held},
		{name: "somebody has it configured now", of: edited(after(waiting(), v1alpha1.Operation{Phase: v1alpha1.OperationRunning, Origin: v1alpha1.OriginUser}), func(s *v1alpha1.WindowsInstanceStatus) { s.Operation.FinishedAt = nil }), s: snapshot{node: node, pool: pool()}, waits: true, want: due},
		{name: "somebody has restarted it", of: after(waiting(), v1alpha1.Operation{Type: v1alpha1.OperationReboot, Phase: v1alpha1.OperationSucceeded, Origin: v1alpha1.OriginUser}), s: snapshot{node: node, pool: pool()}, waits: true, want: held},
		{name: "the controller had it join again, and the Node has other taints", of: after(waiting(), v1alpha1.Operation{Phase: v1alpha1.OperationSucceeded, HostChanged: true, Origin: v1alpha1.OriginController}), s: snapshot{node: node, pool: pool(), nodeDiffers: true}, wants: revision1, waits: true, want: held},

		{name: "an update of a host with a history", of: worked(), s: snapshot{node: node, pool: pool()}, want: due},
		{name: "the first release that knows its pool", of: edited(worked(), func(s *v1alpha1.WindowsInstanceStatus) { s.Pool = nil }), s: snapshot{node: node, pool: pool()}, want: due},
		{name: "no history, of an earlier release", of: edited(waiting(), func(s *v1alpha1.WindowsInstanceStatus) { s.UnconfirmedSince = nil }), s: snapshot{node: node, pool: pool()}, want: due},
		{name: "its pool is made again with something else", of: edited(worked(), func(s *v1alpha1.WindowsInstanceStatus) { s.Pool.UID = "p-before" }), s: snapshot{node: node, pool: pool()}, waits: true, want: held},
		{name: "its pool is made again as it was", of: edited(worked(), func(s *v1alpha1.WindowsInstanceStatus) { s.Pool.UID = "p-before" }), s: snapshot{node: node, pool: pool()}, wants: revision1, want: current},
		{name: "it goes to another pool", of: edited(worked(), func(s *v1alpha1.WindowsInstanceStatus) { s.Pool = &v1alpha1.KnownPool{Name: "q", UID: "q"} }), s: snapshot{node: node, pool: pool()}, want: due},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := tt.s
			s.instance, s.managed, s.now, s.revision = tt.of, true, testNow, revision2
			switch tt.wants {
			case "":
			case "-":
				s.revision = ""
			default:
				s.revision = tt.wants
			}
			s.observation = setUpWith(revision1, "")
			if !tt.without {
				tt.of.Spec.PoolRef = &v1alpha1.PoolReference{Name: "p"}
			}
			got := evaluate(s)
			c := meta.FindStatusCondition(got.Conditions, v1alpha1.ConditionUpToDate)
			if (got.UnconfirmedSince != nil) != tt.waits || c.Reason != tt.want {
				t.Errorf("it waits since %v; %s: %s", got.UnconfirmedSince, c.Reason, c.Message)
			}
			if s.pool != nil && (got.Pool == nil || got.Pool.UID != s.pool.UID) {
				t.Errorf("its pool is %v", got.Pool)
			}
			if c.Reason == held {
				if !strings.Contains(c.Message, "kubectl windows reconfigure win-1 -n "+testNamespace) || strings.Contains(c.Message, "kubectl windows rollout resume p -n "+testNamespace) == (tt.without || s.pool.RolledBack("p-2") != nil) {
					t.Errorf("it does not say what to do: %s", c.Message)
				}
				if !meta.IsStatusConditionTrue(got.Conditions, v1alpha1.ConditionReady) {
					t.Error("it does not count as ready")
				}
			}
			s.instance = tt.of.DeepCopy()
			s.instance.Status = got
			if again := evaluate(s); len(again.Conditions) != len(got.Conditions) || (again.UnconfirmedSince == nil) != (got.UnconfirmedSince == nil) || again.UnconfirmedSince != nil && !again.UnconfirmedSince.Equal(got.UnconfirmedSince) {
				t.Errorf("the next time it waits since %v", again.UnconfirmedSince)
			}
		})
	}
}

// TestReadNode: the Node is compared for hosts that may wait for a confirmation, and for no others.
func TestReadNode(t *testing.T) {
	unknown := errors.New("the API does not answer")
	for name, tt := range map[string]struct {
		status  v1alpha1.WindowsInstanceStatus
		settled bool
		err     error
		differs bool
	}{
		"not known yet":           {differs: true},
		"not known yet, the same": {settled: true},
		"it waits":                {status: v1alpha1.WindowsInstanceStatus{CurrentRevision: revision1, UnconfirmedSince: new(metav1.NewTime(testNow))}, differs: true},
		"its pool was made again": {status: v1alpha1.WindowsInstanceStatus{CurrentRevision: revision1, Pool: &v1alpha1.KnownPool{Name: "p", UID: "before"}}, differs: true},
		"any other host":          {status: v1alpha1.WindowsInstanceStatus{CurrentRevision: revision1, Pool: &v1alpha1.KnownPool{Name: "p", UID: "now"}}, err: nil},
		"it cannot be read":       {err: unknown, differs: true},
	} {
		t.Run(name, func(t *testing.T) {
			r := &Reconciler{Options: Options{Desired: &scriptedDesired{}, NodeSettled: func(context.Context, *v1alpha1.WindowsInstance, *v1alpha1.WindowsNodePool, *corev1.Node) (bool, error) {
				return tt.settled, tt.err
			}}}
			instance := newInstance("win-1", "10.1.42.1")
			instance.Status = tt.status
			s := &snapshot{instance: instance, node: newNode("win-1", "10.1.42.1", corev1.ConditionTrue), pool: &v1alpha1.WindowsNodePool{ObjectMeta: metav1.ObjectMeta{Name: "p", UID: "now"}}}
			if err := r.readNode(t.Context(), s); !errors.Is(err, tt.err) || s.nodeDiffers != tt.differs {
				t.Errorf("it differs: %v, %v", s.nodeDiffers, err)
			}
		})
	}
}

// TestUnconfirmedByAClockThatWasAhead: who confirms what hosts are to have is heard, although they wait since a time that is still to come.
func TestUnconfirmedByAClockThatWasAhead(t *testing.T) {
	i := inspected(t)
	i.Status.CurrentRevision, i.Status.UnconfirmedSince = revision1, new(metav1.NewTime(testNow.Add(time.Hour)))
	pool := &v1alpha1.WindowsNodePool{ObjectMeta: metav1.ObjectMeta{Namespace: testNamespace, Name: "p", UID: "p-now"}}
	i.Spec.PoolRef, i.Status.Pool = &v1alpha1.PoolReference{Name: "p"}, &v1alpha1.KnownPool{Name: "p", UID: "p-now"}
	e := &evaluation{snapshot: snapshot{instance: i, pool: pool, managed: true, now: testNow}, status: i.Status}
	e.confirmation()
	if since := e.status.UnconfirmedSince; since == nil || !since.Time.Equal(testNow) {
		t.Errorf("it waits since %v, want %s", since, testNow)
	}
}
