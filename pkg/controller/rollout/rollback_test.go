// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package rollout

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/client-go/tools/record"
	clocktesting "k8s.io/utils/clock/testing"
	"pgregory.net/rapid"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/controller/internal/apply"
	"github.com/openshift/windows-instance-api/pkg/controller/internal/message"
	"github.com/openshift/windows-instance-api/pkg/controller/internal/object"
	"github.com/openshift/windows-instance-api/pkg/desired/document"
	"github.com/openshift/windows-instance-api/pkg/desired/revision"
	"github.com/openshift/windows-instance-api/pkg/generated/applyconfiguration"
)

// rollbackStart is when the tests of this file begin.
var rollbackStart = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// hadRevision is a host of a pool that works with a revision.
func hadRevision(name, had string) *v1alpha1.WindowsInstance {
	return edited(ready(name), func(i *v1alpha1.WindowsInstance) {
		i.Status.PoolRevision, i.Status.Node = had, &v1alpha1.NodeReference{Name: name}
		i.Status.Conditions = append(i.Status.Conditions, metav1.Condition{Type: v1alpha1.ConditionNodeReady, Status: metav1.ConditionTrue})
	})
}

// breaksAt has an update of a host fail after it has changed it.
func breaksAt(at time.Time) change {
	return func(i *v1alpha1.WindowsInstance) {
		op := reconfigured(v1alpha1.OperationFailed, v1alpha1.ImpactRestart)
		op.RequestedAt, op.FinishedAt, op.Revision = metav1.NewTime(at), &metav1.Time{Time: at}, i.Status.DesiredRevision
		i.Status.Operation = &op
	}
}

// goesDown has an update of a host succeed, and its Node go down.
func goesDown(at time.Time) change {
	return func(i *v1alpha1.WindowsInstance) {
		op := reconfigured(v1alpha1.OperationSucceeded, v1alpha1.ImpactRestart)
		op.RequestedAt, op.FinishedAt, op.Revision = metav1.NewTime(at), &metav1.Time{Time: at}, i.Status.DesiredRevision
		i.Status.Operation = &op
		nodeDownSince(at)(i)
	}
}

// nodeDownSince has the Node of a host be not ready.
func nodeDownSince(at time.Time) change {
	return func(i *v1alpha1.WindowsInstance) {
		for n := range i.Status.Conditions {
			if c := &i.Status.Conditions[n]; c.Type == v1alpha1.ConditionNodeReady {
				c.Status, c.Reason, c.LastTransitionTime = metav1.ConditionFalse, v1alpha1.ReasonNodeNotReady, metav1.NewTime(at)
			}
		}
	}
}

// flaps has an update of a host succeed, and its Node go down and come back at these times.
func flaps(at time.Time, after ...time.Duration) change {
	return func(i *v1alpha1.WindowsInstance) {
		op := reconfigured(v1alpha1.OperationSucceeded, v1alpha1.ImpactRestart)
		op.RequestedAt, op.FinishedAt, op.Revision = metav1.NewTime(at), &metav1.Time{Time: at}, i.Status.DesiredRevision
		i.Status.Operation = &op
		for _, d := range after {
			i.Status.NodeNotReadyTimes = append(i.Status.NodeNotReadyTimes, metav1.NewTime(at.Add(d)))
		}
	}
}

// desiresAnother has something else be desired of a host than it was configured with.
func desiresAnother(i *v1alpha1.WindowsInstance) { i.Status.DesiredRevision = "r3" }

// desiresOf says of which revision of the pool what is desired of a host is.
func desiresOf(revision string) change {
	return func(i *v1alpha1.WindowsInstance) { i.Status.DesiredPoolRevision = revision }
}

// was records which revision of the pool the last operation was to give the host.
func was(revision string) change {
	return func(i *v1alpha1.WindowsInstance) { i.Status.Operation.PoolRevision = revision }
}

// isRebooted has somebody reboot a host now.
func isRebooted(i *v1alpha1.WindowsInstance) {
	i.Status.History = []v1alpha1.Operation{*i.Status.Operation}
	i.Status.Operation = &v1alpha1.Operation{Type: v1alpha1.OperationReboot, Phase: v1alpha1.OperationRunning, RequestedAt: metav1.NewTime(rollbackStart)}
}

// triedInVain has the host configured again, which failed.
func triedInVain(changed bool) func(*v1alpha1.WindowsInstance) {
	return func(i *v1alpha1.WindowsInstance) {
		op := *i.Status.Operation
		op.Phase, op.HostChanged, op.Steps, op.Impact = v1alpha1.OperationFailed, changed, nil, v1alpha1.ImpactNone
		op.HostUntouched = !changed
		i.Status.History = append([]v1alpha1.Operation{*i.Status.Operation}, i.Status.History...)
		i.Status.Operation = &op
	}
}

// leaves has an instance be deleted.
func leaves(i *v1alpha1.WindowsInstance) { i.DeletionTimestamp = &metav1.Time{Time: rollbackStart} }

// represents has an instance come, and represent a host that another one represented before.
func represents(former string, since time.Time) change {
	return func(i *v1alpha1.WindowsInstance) {
		i.CreationTimestamp, i.Annotations = metav1.NewTime(since), map[string]string{v1alpha1.FormerInstanceAnnotation: former}
	}
}

// TestRollbackLooksAgain: what went down a moment ago is looked at when that is long enough, whether a revision is rolled back already or not.
func TestRollbackLooksAgain(t *testing.T) {
	down := edited(hadRevision("a", "p-2"), goesDown(rollbackStart.Add(-time.Minute)))
	later := edited(hadRevision("b", "p-2"), goesDown(rollbackStart))
	for name, known := range map[string]*v1alpha1.PoolRollback{
		"nothing is":    nil,
		"another broke": {Revision: "p-2", To: "p-1", Time: metav1.NewTime(rollbackStart), Instances: []string{"c"}, Message: "m"},
	} {
		pool := &v1alpha1.WindowsNodePool{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p"}}
		pool.Spec.UpdateStrategy.RollingUpdate.OnFailure, pool.Status.RolledBack = v1alpha1.FailureRollback, known
		if _, again := rollback(pool, []*v1alpha1.WindowsInstance{later, down}, "p-2", "p-1", rollbackStart); again != downFor-time.Minute {
			t.Errorf("%s: again after %v", name, again)
		}
		flapping := edited(hadRevision("d", "p-2"), flaps(rollbackStart.Add(-20*time.Minute), time.Minute, 4*time.Minute, 20*time.Minute))
		if back, again := rollback(pool, []*v1alpha1.WindowsInstance{flapping}, "p-2", "p-1", rollbackStart); again != togetherFor || back != nil && slices.Contains(back.Instances, "d") {
			t.Errorf("%s, and a Node went down for the third time: again after %v, %+v", name, again, back)
		}
	}
}

// TestRollback: what broke hosts is rolled back if the pool asks for it and there is something to go back to, once, and
// again only after somebody has resumed it.
func TestRollback(t *testing.T) {
	longAgo := rollbackStart.Add(-downFor)
	withOther := func(at time.Time) []*v1alpha1.WindowsInstance {
		return []*v1alpha1.WindowsInstance{edited(hadRevision("a", "p-2"), goesDown(longAgo)), edited(hadRevision("b", "p-1"), goesDown(at))}
	}
	resumed := func(p *v1alpha1.WindowsNodePool) {
		p.Spec.UpdateStrategy.RollingUpdate.ResumedAt = new(metav1.NewTime(rollbackStart))
	}
	asks := func(p *v1alpha1.WindowsNodePool) {
		p.Spec.UpdateStrategy.RollingUpdate.OnFailure = v1alpha1.FailureRollback
	}
	earlier := rollbackStart.Add(-time.Hour)
	outages := []time.Duration{time.Minute, 4 * time.Minute, 20 * time.Minute}
	known := &v1alpha1.PoolRollback{Revision: "p-2", To: "p-1", Time: metav1.NewTime(earlier), Instances: []string{"a"}, Message: "m"}
	for _, tt := range []struct {
		name  string
		pool  []func(*v1alpha1.WindowsNodePool)
		hosts []*v1alpha1.WindowsInstance
		to    string
		// want are the hosts that go back. Nil: nothing is rolled back.
		want []string
		at   time.Time
	}{
		{"an update fails", []func(*v1alpha1.WindowsNodePool){asks}, []*v1alpha1.WindowsInstance{edited(hadRevision("a", "p-1"), breaksAt(rollbackStart)), hadRevision("b", "p-1")}, "p-1", []string{"a"}, rollbackStart},
		{"a Node goes down", []func(*v1alpha1.WindowsNodePool){asks}, []*v1alpha1.WindowsInstance{edited(hadRevision("a", "p-2"), goesDown(longAgo))}, "p-1", []string{"a"}, rollbackStart},
		{"a Node goes down, and another input of the cluster is desired since", []func(*v1alpha1.WindowsNodePool){asks}, []*v1alpha1.WindowsInstance{edited(edited(hadRevision("a", "p-2"), goesDown(longAgo)), desiresAnother)}, "p-1", []string{"a"}, rollbackStart},
		{"a Node goes down, and another revision is desired since", []func(*v1alpha1.WindowsNodePool){asks}, []*v1alpha1.WindowsInstance{edited(edited(hadRevision("a", "p-1"), goesDown(longAgo)), desiresAnother)}, "p-1", nil, rollbackStart},
		{"a Node goes down, and something is being done about it", []func(*v1alpha1.WindowsNodePool){asks}, []*v1alpha1.WindowsInstance{edited(edited(hadRevision("a", "p-2"), goesDown(longAgo)), isRebooted)}, "p-1", nil, rollbackStart},
		{"a Node is down for a moment", []func(*v1alpha1.WindowsNodePool){asks}, []*v1alpha1.WindowsInstance{edited(hadRevision("a", "p-2"), goesDown(longAgo.Add(time.Second)))}, "p-1", nil, rollbackStart},
		{"a Node goes down again and again", []func(*v1alpha1.WindowsNodePool){asks}, []*v1alpha1.WindowsInstance{edited(hadRevision("a", "p-2"), flaps(earlier, time.Minute, 4*time.Minute, 20*time.Minute))}, "p-1", []string{"a"}, rollbackStart},
		{"a Node goes down again and again, and another input of the cluster is desired since", []func(*v1alpha1.WindowsNodePool){asks}, []*v1alpha1.WindowsInstance{edited(edited(hadRevision("a", "p-2"), flaps(earlier, time.Minute, 4*time.Minute, 20*time.Minute)), desiresAnother)}, "p-1", []string{"a"}, rollbackStart},
		{"a Node goes down again and again, and an attempt since could not reach the host", []func(*v1alpha1.WindowsNodePool){asks}, []*v1alpha1.WindowsInstance{edited(edited(hadRevision("a", "p-2"), flaps(earlier, time.Minute, 4*time.Minute, 20*time.Minute)), triedInVain(false))}, "p-1", []string{"a"}, rollbackStart},
		{"a Node goes down again and again, and an attempt since has changed the host", []func(*v1alpha1.WindowsNodePool){asks}, []*v1alpha1.WindowsInstance{edited(edited(hadRevision("a", "p-2"), flaps(earlier, time.Minute, 4*time.Minute, 20*time.Minute)), triedInVain(true))}, "p-1", nil, rollbackStart},
		{"a Node goes down twice", []func(*v1alpha1.WindowsNodePool){asks}, []*v1alpha1.WindowsInstance{edited(hadRevision("a", "p-2"), flaps(earlier, -time.Minute, time.Minute, 4*time.Minute, 2*time.Hour))}, "p-1", nil, rollbackStart},
		{"others go down again and again as well", []func(*v1alpha1.WindowsNodePool){asks}, []*v1alpha1.WindowsInstance{
			edited(hadRevision("a", "p-2"), flaps(earlier, time.Minute, 4*time.Minute, 20*time.Minute)), edited(hadRevision("b", "p-1"), flaps(earlier, 19*time.Minute)),
		}, "p-1", nil, rollbackStart},
		{"all Nodes go down again and again, and come back", []func(*v1alpha1.WindowsNodePool){asks}, []*v1alpha1.WindowsInstance{
			edited(hadRevision("a", "p-2"), flaps(earlier, outages...)), edited(hadRevision("b", "p-2"), flaps(earlier, outages...)), edited(hadRevision("c", "p-2"), flaps(earlier, outages...)),
		}, "p-1", nil, rollbackStart},
		{"all Nodes go down again and again, which is noticed one after the other", []func(*v1alpha1.WindowsNodePool){asks}, []*v1alpha1.WindowsInstance{
			edited(hadRevision("a", "p-2"), flaps(earlier, outages...)), edited(hadRevision("b", "p-2"), flaps(earlier.Add(-30*time.Second), outages...)), edited(hadRevision("c", "p-2"), flaps(earlier.Add(30*time.Second), outages...)),
		}, "p-1", nil, rollbackStart},
		{"all Nodes go down again and again, some while their host is being changed", []func(*v1alpha1.WindowsNodePool){asks}, []*v1alpha1.WindowsInstance{
			edited(hadRevision("a", "p-2"), flaps(earlier, outages...)), edited(hadRevision("b", "p-2"), flaps(earlier, outages...)), edited(hadRevision("c", "p-2"), flaps(earlier, outages...)),
			edited(edited(hadRevision("d", "p-2"), flaps(earlier.Add(5*time.Minute), 15*time.Minute)), func(i *v1alpha1.WindowsInstance) { i.Status.Operation.RequestedAt = metav1.NewTime(earlier) }),
			edited(hadRevision("e", "p-2"), func(i *v1alpha1.WindowsInstance) { i.Status.Node = nil }),
			edited(hadRevision("f", "p-2"), nodeDownSince(earlier.Add(-time.Hour))),
		}, "p-1", nil, rollbackStart},
		{"Nodes go down again and again, and one does not", []func(*v1alpha1.WindowsNodePool){asks}, []*v1alpha1.WindowsInstance{
			edited(hadRevision("a", "p-2"), flaps(earlier, outages...)), edited(hadRevision("b", "p-2"), flaps(earlier, outages...)), edited(hadRevision("c", "p-2"), flaps(earlier, outages...)),
			edited(hadRevision("d", "p-2"), flaps(earlier.Add(-time.Hour))),
		}, "p-1", []string{"a", "b", "c"}, rollbackStart},
		{"Nodes go down again and again, and one does not, whose host waits to be changed", []func(*v1alpha1.WindowsNodePool){asks}, []*v1alpha1.WindowsInstance{
			edited(hadRevision("a", "p-2"), flaps(earlier, outages...)), edited(hadRevision("b", "p-2"), flaps(earlier, outages...)), edited(hadRevision("c", "p-2"), flaps(earlier, outages...)),
			edited(edited(hadRevision("d", "p-2"), flaps(earlier)), func(i *v1alpha1.WindowsInstance) {
				i.Status.Operation.Phase, i.Status.Operation.FinishedAt = v1alpha1.OperationPending, nil
			}),
		}, "p-1", []string{"a", "b", "c"}, rollbackStart},
		{"a Node goes down again and again, once together with all others", []func(*v1alpha1.WindowsNodePool){asks}, []*v1alpha1.WindowsInstance{
			edited(hadRevision("a", "p-2"), flaps(earlier, append(slices.Clone(outages), 30*time.Minute)...)), edited(hadRevision("b", "p-2"), flaps(earlier, outages[0])), edited(hadRevision("c", "p-2"), flaps(earlier, outages[0], 50*time.Minute)),
		}, "p-1", []string{"a"}, rollbackStart},
		{"a Node has just gone down for the third time, and of the others it may not be known yet", []func(*v1alpha1.WindowsNodePool){asks}, []*v1alpha1.WindowsInstance{
			edited(hadRevision("a", "p-2"), flaps(earlier, time.Minute, 4*time.Minute, time.Hour-30*time.Second)), hadRevision("b", "p-2"), hadRevision("c", "p-2"),
		}, "p-1", nil, rollbackStart},
		{"a Node has gone down for the third time a minute ago", []func(*v1alpha1.WindowsNodePool){asks}, []*v1alpha1.WindowsInstance{
			edited(hadRevision("a", "p-2"), flaps(earlier, time.Minute, 4*time.Minute, 59*time.Minute)), hadRevision("b", "p-2"), hadRevision("c", "p-2"),
		}, "p-1", []string{"a"}, rollbackStart},
		{"both Nodes of a pool go down again and again", []func(*v1alpha1.WindowsNodePool){asks}, []*v1alpha1.WindowsInstance{
			edited(hadRevision("a", "p-2"), flaps(earlier, outages...)), edited(hadRevision("b", "p-2"), flaps(earlier, outages...)),
		}, "p-1", []string{"a", "b"}, rollbackStart},
		{"it went down again and again with what it had before", []func(*v1alpha1.WindowsNodePool){asks}, []*v1alpha1.WindowsInstance{edited(hadRevision("a", "p-1"), flaps(earlier, time.Minute, 4*time.Minute, 20*time.Minute))}, "p-1", nil, rollbackStart},
		{"one that was being changed goes down again and again", []func(*v1alpha1.WindowsNodePool){func(p *v1alpha1.WindowsNodePool) { p.Status.RolledBack = known }}, []*v1alpha1.WindowsInstance{hadRevision("a", "p-1"), edited(hadRevision("b", "p-2"), flaps(earlier.Add(-time.Second), time.Minute, 4*time.Minute, 20*time.Minute))}, "p-1", []string{"a", "b"}, earlier},
		{"a network that all hosts have goes down", []func(*v1alpha1.WindowsNodePool){asks}, withOther(longAgo.Add(time.Minute)), "p-1", nil, rollbackStart},
		{"a network that all hosts have goes down while the last one is being changed", []func(*v1alpha1.WindowsNodePool){asks}, []*v1alpha1.WindowsInstance{
			edited(hadRevision("a", "p-2"), goesDown(longAgo)), edited(edited(hadRevision("b", "p-1"), goesDown(longAgo.Add(time.Second))), isRebooted),
		}, "p-1", nil, rollbackStart},
		{"another one was broken on its way to it", []func(*v1alpha1.WindowsNodePool){asks, func(p *v1alpha1.WindowsNodePool) { p.Spec.UpdateStrategy.RollingUpdate.MaxFailures = new(int32(1)) }}, []*v1alpha1.WindowsInstance{
			edited(hadRevision("a", "p-2"), goesDown(longAgo)), edited(edited(hadRevision("b", "p-1"), breaksAt(rollbackStart)), nodeDownSince(longAgo)),
		}, "p-1", []string{"a", "b"}, rollbackStart},
		{"another one is being changed, and works", []func(*v1alpha1.WindowsNodePool){asks}, []*v1alpha1.WindowsInstance{
			edited(hadRevision("a", "p-2"), goesDown(longAgo)), edited(edited(hadRevision("b", "p-1"), flaps(earlier)), isRebooted),
		}, "p-1", []string{"a"}, rollbackStart},
		{"an update fails that was recorded for a revision before", []func(*v1alpha1.WindowsNodePool){asks}, []*v1alpha1.WindowsInstance{edited(edited(hadRevision("a", "p-0"), breaksAt(rollbackStart)), desiresOf("p-1"))}, "p-1", nil, rollbackStart},
		{"an update fails that was recorded for this one", []func(*v1alpha1.WindowsNodePool){asks}, []*v1alpha1.WindowsInstance{edited(edited(hadRevision("a", "p-0"), breaksAt(rollbackStart)), desiresOf("p-2"))}, "p-1", []string{"a"}, rollbackStart},
		{"an update fails that has recorded that it was for a revision before", []func(*v1alpha1.WindowsNodePool){asks}, []*v1alpha1.WindowsInstance{edited(edited(edited(hadRevision("a", "p-0"), breaksAt(rollbackStart)), desiresOf("p-2")), was("p-1"))}, "p-1", nil, rollbackStart},
		{"two updates fail, and another input of the cluster was changed between them", []func(*v1alpha1.WindowsNodePool){asks, func(p *v1alpha1.WindowsNodePool) { p.Spec.UpdateStrategy.RollingUpdate.MaxFailures = new(int32(1)) }}, []*v1alpha1.WindowsInstance{
			edited(edited(edited(hadRevision("a", "p-1"), breaksAt(earlier)), was("p-2")), desiresAnother), edited(edited(hadRevision("b", "p-1"), breaksAt(rollbackStart)), was("p-2")),
		}, "p-1", []string{"a", "b"}, rollbackStart},
		{"another host went down long before", []func(*v1alpha1.WindowsNodePool){asks}, withOther(longAgo.Add(-time.Hour)), "p-1", []string{"a"}, rollbackStart},
		{"what was resumed had broken one before", []func(*v1alpha1.WindowsNodePool){asks, resumed}, []*v1alpha1.WindowsInstance{edited(hadRevision("a", "p-1"), breaksAt(rollbackStart))}, "p-1", nil, rollbackStart},
		{"it is broken by what was desired before", []func(*v1alpha1.WindowsNodePool){asks}, []*v1alpha1.WindowsInstance{edited(edited(hadRevision("a", "p-1"), breaksAt(rollbackStart)), desiresAnother)}, "p-1", nil, rollbackStart},
		{"nobody asks for it", nil, []*v1alpha1.WindowsInstance{edited(hadRevision("a", "p-1"), breaksAt(rollbackStart))}, "p-1", nil, rollbackStart},
		{"there is nothing to go back to", []func(*v1alpha1.WindowsNodePool){asks}, []*v1alpha1.WindowsInstance{edited(hadRevision("a", "p-1"), breaksAt(rollbackStart))}, "", nil, rollbackStart},
		{"it worked with it, and something else broke it", []func(*v1alpha1.WindowsNodePool){asks}, []*v1alpha1.WindowsInstance{edited(hadRevision("a", "p-2"), breaksAt(rollbackStart))}, "p-1", nil, rollbackStart},
		{"it may break one", []func(*v1alpha1.WindowsNodePool){asks, func(p *v1alpha1.WindowsNodePool) { p.Spec.UpdateStrategy.RollingUpdate.MaxFailures = new(int32(1)) }}, []*v1alpha1.WindowsInstance{edited(hadRevision("a", "p-1"), breaksAt(rollbackStart))}, "p-1", nil, rollbackStart},
		{"it is rolled back already", []func(*v1alpha1.WindowsNodePool){asks, func(p *v1alpha1.WindowsNodePool) { p.Status.RolledBack = known }}, []*v1alpha1.WindowsInstance{hadRevision("a", "p-1"), hadRevision("b", "p-1")}, "", []string{"a"}, earlier},
		{"one was being changed", []func(*v1alpha1.WindowsNodePool){func(p *v1alpha1.WindowsNodePool) { p.Status.RolledBack = known }}, []*v1alpha1.WindowsInstance{hadRevision("a", "p-1"), edited(hadRevision("b", "p-2"), goesDown(earlier.Add(-time.Second)))}, "p-1", []string{"a", "b"}, earlier},
		{"one was being changed, and another input of the cluster is desired since", []func(*v1alpha1.WindowsNodePool){func(p *v1alpha1.WindowsNodePool) { p.Status.RolledBack = known }}, []*v1alpha1.WindowsInstance{hadRevision("a", "p-1"), edited(edited(hadRevision("b", "p-2"), goesDown(earlier.Add(-time.Second))), desiresAnother)}, "p-1", []string{"a", "b"}, earlier},
		{"one was being changed, and somebody tried again in vain", []func(*v1alpha1.WindowsNodePool){func(p *v1alpha1.WindowsNodePool) { p.Status.RolledBack = known }}, []*v1alpha1.WindowsInstance{hadRevision("a", "p-1"), edited(edited(edited(hadRevision("b", "p-2"), goesDown(earlier.Add(-time.Second))), triedAgain), breaksAt(rollbackStart))}, "p-1", []string{"a", "b"}, earlier},
		{"one that was being changed is down for a moment", []func(*v1alpha1.WindowsNodePool){func(p *v1alpha1.WindowsNodePool) { p.Status.RolledBack = known }}, []*v1alpha1.WindowsInstance{edited(edited(hadRevision("b", "p-2"), goesDown(earlier.Add(-time.Second))), nodeDownSince(rollbackStart))}, "p-1", []string{"a"}, earlier},
		{"one was changed in the second of the rollback, or gone back", []func(*v1alpha1.WindowsNodePool){func(p *v1alpha1.WindowsNodePool) { p.Status.RolledBack = known }}, []*v1alpha1.WindowsInstance{hadRevision("a", "p-1"), edited(hadRevision("b", "p-2"), goesDown(earlier))}, "p-1", []string{"a"}, earlier},
		{"one was broken since by something else", []func(*v1alpha1.WindowsNodePool){asks, func(p *v1alpha1.WindowsNodePool) { p.Status.RolledBack = known }}, []*v1alpha1.WindowsInstance{edited(hadRevision("b", "p-1"), breaksAt(rollbackStart))}, "p-1", []string{"a"}, earlier},
		{"the entry of one was renamed since", []func(*v1alpha1.WindowsNodePool){func(p *v1alpha1.WindowsNodePool) { p.Status.RolledBack = known }}, []*v1alpha1.WindowsInstance{
			edited(hadRevision("a", "p-1"), leaves), edited(hadRevision("b", "p-1"), represents("a", rollbackStart)),
		}, "p-1", []string{"b"}, earlier},
		{"the entry of one was renamed long before, and another one had its name", []func(*v1alpha1.WindowsNodePool){func(p *v1alpha1.WindowsNodePool) { p.Status.RolledBack = known }}, []*v1alpha1.WindowsInstance{
			edited(hadRevision("b", "p-2"), represents("a", earlier.Add(-time.Hour))),
		}, "p-1", []string{"a"}, earlier},
		{"the entry of another one was renamed since, and its name is of another host", []func(*v1alpha1.WindowsNodePool){func(p *v1alpha1.WindowsNodePool) { p.Status.RolledBack = known }}, []*v1alpha1.WindowsInstance{
			hadRevision("a", "p-1"), edited(hadRevision("b", "p-2"), represents("a", rollbackStart)),
		}, "p-1", []string{"a"}, earlier},
		{"somebody has resumed it", []func(*v1alpha1.WindowsNodePool){asks, func(p *v1alpha1.WindowsNodePool) {
			p.Status.RolledBack, p.Spec.UpdateStrategy.RollingUpdate.ResumedAt = known, new(metav1.NewTime(earlier))
		}}, []*v1alpha1.WindowsInstance{hadRevision("a", "p-1")}, "p-1", nil, earlier},
		{"it breaks hosts again", []func(*v1alpha1.WindowsNodePool){asks, func(p *v1alpha1.WindowsNodePool) {
			p.Status.RolledBack, p.Spec.UpdateStrategy.RollingUpdate.ResumedAt = known, new(metav1.NewTime(rollbackStart))
		}}, []*v1alpha1.WindowsInstance{edited(hadRevision("a", "p-1"), breaksAt(rollbackStart.Add(time.Millisecond)))}, "p-1", []string{"a"}, rollbackStart.Add(time.Second)},
		{"it has another revision", []func(*v1alpha1.WindowsNodePool){asks, func(p *v1alpha1.WindowsNodePool) {
			old := *known
			old.Revision = "p-0"
			p.Status.RolledBack = &old
		}}, []*v1alpha1.WindowsInstance{hadRevision("a", "p-1")}, "p-1", nil, earlier},
	} {
		t.Run(tt.name, func(t *testing.T) {
			pool := &v1alpha1.WindowsNodePool{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p"}}
			for _, edit := range tt.pool {
				edit(pool)
			}
			got, _ := rollback(pool, tt.hosts, "p-2", tt.to, rollbackStart)
			if (got == nil) != (tt.want == nil) {
				t.Fatalf("got %+v", got)
			}
			if got == nil {
				return
			}
			if got.Revision != "p-2" || got.To != "p-1" || !slices.Equal(got.Instances, tt.want) || !got.Time.Time.Equal(tt.at) || got.Message == "" {
				t.Errorf("got %+v", got)
			}
			pool.Status.RolledBack = got
			if pool.RolledBack("p-2") == nil {
				t.Errorf("%s does not hold", got.Time)
			}
		})
	}
}

// TestDecideRolledBack: hosts that a rollback takes back are next, outside of the window too, and the others of their pool are
// left as they are, with the reason.
func TestDecideRolledBack(t *testing.T) {
	pool := poolKey{"ns", "p"}
	of := func(name string, edit func(*host)) host {
		h := host{key: types.NamespacedName{Namespace: "ns", Name: name}, pool: pool, node: true, ready: true}
		edit(&h)
		return h
	}
	d := decide(state{
		now: rollbackStart, disruptions: 1,
		pools: map[poolKey]policy{pool: policyOf(&v1alpha1.WindowsNodePool{Spec: v1alpha1.WindowsNodePoolSpec{UpdateStrategy: v1alpha1.PoolUpdateStrategy{
			Window: &v1alpha1.MaintenanceWindow{Schedule: "0 2 * * *", DurationSeconds: 3600},
		}}}, 3)},
		hosts: []host{
			of("a", func(h *host) { h.heldBack = true }),
			of("b", func(h *host) { h.heldBack, h.update, h.impact = true, true, v1alpha1.ImpactDrain }),
			of("c", func(h *host) { h.heldBack, h.update, h.impact = true, true, v1alpha1.ImpactNone }),
			of("d", func(h *host) {
				h.heldBack, h.rollsBack, h.update, h.impact, h.ready = true, true, true, v1alpha1.ImpactDrain, false
			}),
			of("e", func(h *host) { h.updated = true }),
		},
	})
	var started []string
	for _, g := range d.start {
		started = append(started, g.key.Name)
	}
	slices.Sort(started)
	if !slices.Equal(started, []string{"c", "d"}) {
		t.Errorf("started are %v", started)
	}
	for _, name := range []string{"a", "b"} {
		if why := d.waits[types.NamespacedName{Namespace: "ns", Name: name}]; why.kind != waitsForResume || !strings.Contains(why.describe(pool), "kubectl windows rollout resume p -n ns") {
			t.Errorf("%s waits for %q", name, why.describe(pool))
		}
	}
	if held := sumUp(d.waits); len(d.waits) != 2 || held.moves || !held.stays {
		t.Errorf("got %+v", d.waits)
	}
}

// TestScheduleAfterARollback: a host that a rollback names goes back at once, and gets what is desired after that as its pool says. So does one
// that was kept from the revision, unless what is desired of it may be that one.
func TestScheduleAfterARollback(t *testing.T) {
	rolledBack := testNow.Add(-72 * time.Hour)
	since := func(requested time.Duration, phase v1alpha1.OperationPhase) change {
		return func(i *v1alpha1.WindowsInstance) {
			op := reconfigured(phase, v1alpha1.ImpactDrain)
			op.RequestedAt, op.FinishedAt, op.Revision = metav1.NewTime(rolledBack.Add(requested)), &metav1.Time{Time: rolledBack.Add(requested)}, i.Status.CurrentRevision
			i.Status.Operation = &op
		}
	}
	restartedOften := func(i *v1alpha1.WindowsInstance) {
		i.Status.Operation = &v1alpha1.Operation{Type: v1alpha1.OperationReboot, Phase: v1alpha1.OperationSucceeded}
		i.Status.History = slices.Repeat([]v1alpha1.Operation{*i.Status.Operation}, v1alpha1.MaxHistory)
	}
	isRepaired := func(i *v1alpha1.WindowsInstance) {
		i.Status.History = []v1alpha1.Operation{*i.Status.Operation}
		i.Status.Operation = &v1alpha1.Operation{Type: v1alpha1.OperationRestartServices, Cause: v1alpha1.CauseNodeNotReady, Phase: v1alpha1.OperationRunning, RequestedAt: metav1.NewTime(testNow.Add(-time.Minute))}
	}
	failedOften := func(i *v1alpha1.WindowsInstance) {
		since(time.Hour, v1alpha1.OperationFailed)(i)
		i.Status.History = slices.Repeat([]v1alpha1.Operation{*i.Status.Operation}, v1alpha1.MaxHistory)
		i.Status.Operation.Phase = v1alpha1.OperationRunning
	}
	// retried is a host that the revision broke, and that was configured again from before the rollback until after it.
	retried := func(gives string) change {
		return func(i *v1alpha1.WindowsInstance) {
			since(-10*time.Minute, v1alpha1.OperationFailed)(i)
			i.Status.Operation.Revision = "r2"
			i.Status.History = []v1alpha1.Operation{*i.Status.Operation}
			since(-time.Minute, v1alpha1.OperationSucceeded)(i)
			i.Status.Operation.Revision, i.Status.Operation.FinishedAt = gives, &metav1.Time{Time: rolledBack.Add(10 * time.Minute)}
		}
	}
	// endsLater is a host that was being configured when the revision was rolled back.
	endsLater := func(i *v1alpha1.WindowsInstance) {
		since(-time.Minute, v1alpha1.OperationSucceeded)(i)
		i.Status.Operation.FinishedAt = &metav1.Time{Time: rolledBack.Add(10 * time.Minute)}
	}
	// thenRestartedOften has so much be done to it that the history has only the configuration that succeeded last.
	thenRestartedOften := func(i *v1alpha1.WindowsInstance) {
		for range 2 * v1alpha1.MaxHistory {
			if err := i.Status.Record(&v1alpha1.Operation{Type: v1alpha1.OperationReboot, Phase: v1alpha1.OperationSucceeded}); err != nil {
				t.Fatal(err)
			}
		}
	}
	podsStayed := func(i *v1alpha1.WindowsInstance) {
		since(time.Hour, v1alpha1.OperationFailed)(i)
		i.Status.Operation.HostChanged = false
		i.Status.History = slices.Repeat([]v1alpha1.Operation{*i.Status.Operation}, v1alpha1.MaxHistory)
		for n := range i.Status.History {
			i.Status.History[n].Steps = nil
		}
	}
	isUnreachable := func(i *v1alpha1.WindowsInstance) {
		for _, c := range []struct {
			kind   string
			status metav1.ConditionStatus
		}{{v1alpha1.ConditionConfigured, metav1.ConditionTrue}, {v1alpha1.ConditionReachable, metav1.ConditionFalse}, {v1alpha1.ConditionPreflightPassed, metav1.ConditionUnknown}} {
			condition(c.kind, c.status, "Test", -time.Hour)(i)
		}
	}
	isPaused := func(i *v1alpha1.WindowsInstance) {
		condition(v1alpha1.ConditionConfigured, metav1.ConditionTrue, "Test", -time.Hour)(i)
		i.Spec.Paused = true
	}
	const named, kept = "named", "kept"
	for _, tt := range []struct {
		name, host string
		edit       []change
		of         string   // the revision of the pool that is desired
		window     string   // when the pool may be disturbed. Empty: at any time
		waits      waitKind // empty: it is updated
	}{
		{name: "it goes back", host: named, edit: []change{since(-time.Hour, v1alpha1.OperationFailed)}, of: "p-1", window: "0 14 * * *"},
		{name: "it goes back, and nobody knows what is desired of it", host: named, edit: []change{since(-time.Hour, v1alpha1.OperationSucceeded)}, window: "0 14 * * *"},
		{name: "it is to go back, and the revision is desired of it still", host: named, edit: []change{since(-time.Hour, v1alpha1.OperationSucceeded)}, of: "p-2", waits: waitsForResume},
		{name: "it is broken, and the revision is desired of it still", host: named, edit: []change{since(-time.Hour, v1alpha1.OperationFailed)}, of: "p-2", window: "0 14 * * *"},
		{name: "it has worked with the revision for a while", host: named, edit: []change{since(-time.Hour, v1alpha1.OperationSucceeded)}, of: "p-1", window: "0 14 * * *"},
		{name: "it has gone back", host: named, edit: []change{since(time.Hour, v1alpha1.OperationSucceeded)}, of: "p-1", window: "0 14 * * *", waits: waitsForWindow},
		{name: "it has gone back, and that was asked for in the same second", host: named, edit: []change{since(0, v1alpha1.OperationSucceeded)}, of: "p-1", window: "0 14 * * *", waits: waitsForWindow},
		{name: "it has gone back, and the window is open", host: named, edit: []change{since(time.Hour, v1alpha1.OperationSucceeded)}, of: "p-1", window: "30 11 * * *"},
		{name: "it could not go back", host: named, edit: []change{since(time.Hour, v1alpha1.OperationFailed)}, of: "p-1", window: "0 14 * * *"},
		{name: "it has gone back by what was asked for before", host: named, edit: []change{retried("r1")}, of: "p-1", window: "0 14 * * *", waits: waitsForWindow},
		{name: "it has gone back so, and so much was done since that it is not known how it was before", host: named, edit: []change{retried("r1"), thenRestartedOften}, of: "p-1", window: "0 14 * * *", waits: waitsForWindow},
		{name: "what was asked for before has given it the revision once more", host: named, edit: []change{retried("r2")}, of: "p-1", window: "0 14 * * *"},
		{name: "what was asked for before has given it the revision, and broke it later", host: named, edit: []change{endsLater}, of: "p-1", window: "0 14 * * *"},
		{name: "it could not be drained to go back so often that nothing else is known of it", host: named, edit: []change{podsStayed}, of: "p-1", window: "0 14 * * *"},
		{name: "it goes back when what is done to it has ended", host: named, edit: []change{since(-time.Hour, v1alpha1.OperationSucceeded), nodeDownSince(testNow.Add(-5 * time.Minute)), isRepaired}, of: "p-1"},
		{name: "it has gone back, and went down", host: named, edit: []change{since(71*time.Hour+50*time.Minute, v1alpha1.OperationSucceeded), nodeDownSince(testNow.Add(-5 * time.Minute))}, of: "p-1", window: "0 14 * * *"},
		{name: "it has failed to go back so often that nothing else is known of it, and is tried again", host: named, edit: []change{failedOften}, of: "p-1"},
		{name: "it has gone back, and went down a moment ago", host: named, edit: []change{since(71*time.Hour+50*time.Minute, v1alpha1.OperationSucceeded), nodeDownSince(testNow.Add(-time.Minute))}, of: "p-1", window: "0 14 * * *", waits: waitsForBroken},
		{name: "it has gone back, went down, and is repaired", host: named, edit: []change{since(71*time.Hour+50*time.Minute, v1alpha1.OperationSucceeded), nodeDownSince(testNow.Add(-5 * time.Minute)), isRepaired}, of: "p-1"},
		{name: "it has gone back, went down, and cannot be logged in to", host: named, edit: []change{since(71*time.Hour+50*time.Minute, v1alpha1.OperationSucceeded), nodeDownSince(testNow.Add(-5 * time.Minute)), isUnreachable}, of: "p-1", waits: waitsForRepair},
		{name: "it could not go back, and cannot be logged in to", host: named, edit: []change{since(-time.Hour, v1alpha1.OperationSucceeded), isUnreachable}, of: "p-1", waits: waitsForLogin},
		{name: "so much was done since that nothing is known of it, and it is ready", host: named, edit: []change{restartedOften}, of: "p-1", window: "0 14 * * *", waits: waitsForWindow},
		{name: "so much was done since that nothing is known of it, and it is down", host: named, edit: []change{restartedOften, nodeDownSince(testNow.Add(-5 * time.Minute))}, of: "p-1", window: "0 14 * * *"},
		{name: "it is kept, and an input of the cluster has changed", host: kept, of: "p-1"},
		{name: "it is kept, and an input of the cluster has changed outside of the window", host: kept, of: "p-1", window: "0 14 * * *", waits: waitsForWindow},
		{name: "it is kept, an input of the cluster has changed, and it cannot be logged in to", host: kept, edit: []change{isUnreachable}, of: "p-1", waits: waitsForLogin},
		{name: "it is kept, an input of the cluster has changed, and it is paused", host: kept, edit: []change{isPaused}, of: "p-1", waits: waitsForUnpause},
		{name: "it is kept and paused, and the revision is desired of it still", host: kept, edit: []change{isPaused}, of: "p-2", waits: waitsForResume},
		{name: "it is kept, and the revision is desired of it still", host: kept, of: "p-2", waits: waitsForResume},
		{name: "it is kept, and nobody knows what is desired of it", host: kept, waits: waitsForResume},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				pool := &v1alpha1.WindowsNodePool{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", UID: "uid"}}
				if tt.window != "" {
					pool.Spec.UpdateStrategy.Window = &v1alpha1.MaintenanceWindow{Schedule: tt.window, DurationSeconds: 3600}
				}
				pool.Status.CurrentRevision, pool.Status.UpdateRevision = "p-1", "p-2"
				pool.Status.RolledBack = &v1alpha1.PoolRollback{Revision: "p-2", To: "p-1", Time: metav1.NewTime(rolledBack), Instances: []string{named}, Message: "m"}
				i := hadRevision(tt.host, "p-1")
				for _, edit := range tt.edit {
					edit(i)
				}
				desiresAnother(i)
				i.Status.DesiredPoolRevision = tt.of
				objects := []client.Object{pool, i}
				if _, down := nodeDownAt(i); down {
					objects = append(objects, newNode(tt.host, "", corev1.ConditionFalse))
				}
				f := newScheduled(t, map[string]v1alpha1.ChangeImpact{tt.host: v1alpha1.ImpactDrain}, objects...)
				f.clock = clocktesting.NewFakePassiveClock(testNow)
				update := f.options.Update
				f.options.Update = func(i *v1alpha1.WindowsInstance, pool *v1alpha1.WindowsNodePool, now time.Time) (time.Time, bool) { // as the controller of instances says it
					if i.Spec.Paused || noLogin(&i.Status) != nil {
						return time.Time{}, false
					}
					return update(i, pool, now)
				}
				f.pass()
				f.pass()
				if why := f.last.waits[client.ObjectKeyFromObject(i)]; why.kind != tt.waits || f.operation(tt.host).Active() != (tt.waits == "") {
					t.Errorf("it has %+v and waits for %q, want %q", f.operation(tt.host), why.kind, tt.waits)
				}
			})
		})
	}
}

// TestCanaryAfterARollback: hosts that work with the revision that was rolled back have tried nothing of what those get that were kept from it.
func TestCanaryAfterARollback(t *testing.T) {
	canary := strategy(func(s *v1alpha1.PoolUpdateStrategy) { s.RollingUpdate.Canary = new(intstr.FromInt32(1)) })
	isKept := func(h *host) { h.heldBack, h.hasOwn = true, true }
	got := decide(state{
		now: testNow, disruptions: 2, pools: map[poolKey]policy{{"ns", "p"}: policyOf(canary, 3)},
		hosts: []host{outdated("a", "", isUpToDate, func(h *host) { h.hasNewest = true }), outdated("b", v1alpha1.ImpactRestart, isKept), outdated("c", v1alpha1.ImpactRestart, isKept)},
	})
	if why := got.waits[types.NamespacedName{Namespace: "ns", Name: "c"}]; names(got.start) != "b" || why.kind != waitsForCanary {
		t.Errorf("started are %s, and c waits for %q", names(got.start), why.kind)
	}
}

// simulatedRollback is a pool whose revisions break hosts.
type simulatedRollback struct {
	pool  *v1alpha1.WindowsNodePool
	hosts []*v1alpha1.WindowsInstance
	now   time.Time
	// bad are revisions that break hosts, tries how often each was rolled back, and chances how often somebody wanted it.
	bad            map[string]bool
	tries, chances map[string]int
}

// newest is the revision of the pool.
func (s *simulatedRollback) newest(t *rapid.T) string {
	name, err := revision.NameOf(s.pool, document.Payload{})
	if err != nil {
		t.Fatal(err)
	}
	return name
}

// reconcile does what the controller of pools does.
func (s *simulatedRollback) reconcile(t *rapid.T) {
	newest, status := s.newest(t), &s.pool.Status
	before := s.pool.RolledBack(newest)
	for _, i := range s.hosts { // which the controller of instances has done by then
		i.Status.DesiredRevision = s.desired(i, newest)
	}
	worked := s.pool.Status.Worked()
	back, _ := rollback(s.pool, s.hosts, newest, status.CurrentRevision, s.now)
	if undo := s.pool.Undo(newest); undo != nil {
		back = &v1alpha1.PoolRollback{Revision: newest, To: undo.To, RequestedBy: undo.RequestedBy, Time: *undo.RequestedAt}
		status.CurrentRevision, status.WorkedRevisions = undo.To, nowWorked(worked, newest, true)
	}
	status.UpdateRevision, status.RolledBack = newest, back
	for _, i := range s.hosts { // which the controller of instances does then
		if back != nil && i.Status.PoolRevision == newest && back.Broke(i.Name) {
			i.Status.PoolRevision = back.To
		}
	}
	if back != nil && !back.ByPerson() && (before == nil || before.ByPerson()) {
		if s.tries[newest]++; s.tries[newest] > s.chances[newest] {
			t.Fatalf("%s was rolled back %d times, and wanted %d times", newest, s.tries[newest], s.chances[newest])
		}
	}
	if !back.ByPerson() && !slices.ContainsFunc(s.hosts, func(i *v1alpha1.WindowsInstance) bool {
		return i.Status.PoolRevision != newest || newHost(i).broken != nil
	}) {
		status.CurrentRevision, status.WorkedRevisions = newest, nowWorked(worked, newest, false)
	}
}

// desired is what a host is to have.
func (s *simulatedRollback) desired(i *v1alpha1.WindowsInstance, newest string) string {
	if back := revision.BackTo(i, s.pool, newest); back != "" {
		return back
	}
	return newest
}

// configure gives a host what it is to have.
func (s *simulatedRollback) configure(t *rapid.T, i *v1alpha1.WindowsInstance) {
	newest := s.newest(t)
	if _, down := nodeDownAt(i); down { // nobody changes a host that has what it is to have, at once
		s.now = s.now.Add(downFor)
		s.reconcile(t)
	}
	gets := s.desired(i, newest)
	if s.pool.RolledBack(newest) != nil && gets == newest && i.Status.PoolRevision != newest {
		t.Fatalf("%s gets %s, which was rolled back", i.Name, newest)
	}
	s.now = s.now.Add(time.Minute)
	i.Status.DesiredRevision = gets
	if i.Status.Operation != nil {
		triedAgain(i)
		i.Status.History = i.Status.History[:min(len(i.Status.History), v1alpha1.MaxHistory)]
	}
	switch broken := s.bad[gets]; {
	case broken && rapid.Bool().Draw(t, "fails"):
		breaksAt(s.now)(i)
	case broken:
		i.Status.PoolRevision = gets // it was ready for a moment
		goesDown(s.now)(i)
	default:
		history := i.Status.History
		i.Status = hadRevision(i.Name, gets).Status
		i.Status.CurrentRevision, i.Status.DesiredRevision, i.Status.History = gets, gets, history
		flaps(s.now)(i) // at no time: it works
	}
}

// TestSimulationOfRollbacks: whatever revisions break hosts, no host gets one again that was rolled back before somebody
// resumes it, nothing is rolled back twice, and in the end all hosts work, or the pool says why not.
func TestSimulationOfRollbacks(t *testing.T) { rapid.Check(t, simulateRollbacks) }

// FuzzSimulationOfRollbacks is TestSimulationOfRollbacks for as long as somebody wants.
func FuzzSimulationOfRollbacks(f *testing.F) { fuzzSimulation(f, simulateRollbacks) }

// simulateRollbacks lets anything happen to a pool whose revisions break hosts, and then has its hosts configured.
func simulateRollbacks(t *rapid.T) {
	s := &simulatedRollback{
		pool: &v1alpha1.WindowsNodePool{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", UID: "1"}}, now: rollbackStart,
		bad: map[string]bool{}, tries: map[string]int{}, chances: map[string]int{},
	}
	s.pool.Spec.UpdateStrategy.RollingUpdate.OnFailure = v1alpha1.FailureRollback
	for n := range rapid.IntRange(1, 6).Draw(t, "hosts") {
		i := hadRevision(fmt.Sprintf("win-%d", n), s.newest(t))
		i.Status.CurrentRevision, i.Status.DesiredRevision = i.Status.PoolRevision, i.Status.PoolRevision
		s.hosts = append(s.hosts, i)
	}
	t.Repeat(map[string]func(*rapid.T){
		"": s.reconcile,
		"the template changes": func(t *rapid.T) {
			before := s.newest(t)
			s.pool.Spec.Template.NodeLabels = map[string]string{"rack": fmt.Sprint(rapid.IntRange(0, 9).Draw(t, "rack"))}
			newest := s.newest(t)
			if newest != before {
				s.chances[newest]++
			}
			if len(s.bad) == 0 || rapid.Bool().Draw(t, "bad") {
				if !slices.ContainsFunc(s.hosts, func(i *v1alpha1.WindowsInstance) bool { return i.Status.PoolRevision == newest }) && s.pool.Status.CurrentRevision != newest {
					s.bad[newest] = true
				}
			}
		},
		"a host is configured": func(t *rapid.T) { s.configure(t, rapid.SampledFrom(s.hosts).Draw(t, "host")) },
		"somebody undoes it": func(t *rapid.T) {
			newest := s.newest(t)
			earlier := slices.DeleteFunc(slices.Clone(s.pool.Status.Worked()), func(name string) bool { return name == newest })
			if len(earlier) == 0 {
				return
			}
			s.now = s.now.Add(time.Second)
			undo := &v1alpha1.PoolUndo{Revision: newest, To: rapid.SampledFrom(earlier).Draw(t, "to"), RequestedBy: "alice", RequestedAt: new(metav1.NewTime(s.now))}
			s.pool.Spec.UpdateStrategy.RollingUpdate.Undo = undo
			s.reconcile(t)
			for _, i := range s.hosts {
				if gets := s.desired(i, newest); gets != undo.To {
					t.Fatalf("%s gets %s, and everything goes back to %s", i.Name, gets, undo.To)
				}
			}
		},
		"somebody resumes": func(t *rapid.T) {
			if newest := s.newest(t); s.pool.RolledBack(newest) != nil {
				s.now = s.now.Add(time.Second)
				s.chances[newest]++
				s.pool.Spec.UpdateStrategy.RollingUpdate.ResumedAt, s.pool.Spec.UpdateStrategy.RollingUpdate.Undo = new(metav1.NewTime(s.now)), nil
			}
		},
	})
	settle := func(i *v1alpha1.WindowsInstance) {
		s.configure(t, i)
		s.reconcile(t)
		s.now = s.now.Add(downFor)
		s.reconcile(t)
	}
	for range 3 {
		for _, i := range s.hosts {
			settle(i)
		}
	}
	// What becomes of one may have another go back, at most each of them once.
	lacks := func(i *v1alpha1.WindowsInstance) bool { return i.Status.Operation.Revision != i.Status.DesiredRevision }
	for range s.hosts {
		if n := slices.IndexFunc(s.hosts, lacks); n >= 0 {
			settle(s.hosts[n])
		}
	}
	newest := s.newest(t)
	if undo := s.pool.Undo(newest); undo != nil && !s.bad[undo.To] && slices.ContainsFunc(s.hosts, func(i *v1alpha1.WindowsInstance) bool { return i.Status.PoolRevision != undo.To }) {
		t.Fatalf("not all are back to %s", undo.To)
	}
	for _, i := range s.hosts {
		switch h := newHost(i); {
		case h.broken != nil && s.pool.RolledBack(newest) == nil && s.pool.Status.CurrentRevision != newest:
			t.Fatalf("%s is broken, and nothing is rolled back: %+v", i.Name, s.pool.Status)
		case h.broken != nil && s.pool.RolledBack(newest) != nil && !s.bad[i.Status.DesiredRevision]:
			t.Fatalf("%s is broken with %s", i.Name, i.Status.DesiredRevision)
		}
	}
}

// rollbackPool is a pool that asks for rollbacks, with its hosts and what the controller of pools does.
type rollbackPool struct {
	*testing.T
	*Reconciler
	events *record.FakeRecorder
	time   time.Time
}

func newRollbackPool(t *testing.T, hosts ...string) *rollbackPool {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(v1alpha1.AddToScheme(scheme), appsv1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	pool := &v1alpha1.WindowsNodePool{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", UID: "uid", Generation: 1},
		Spec:       v1alpha1.WindowsNodePoolSpec{Source: v1alpha1.PoolSource{Instances: &v1alpha1.InstancesSource{}}},
	}
	pool.Spec.UpdateStrategy.RollingUpdate.OnFailure = v1alpha1.FailureRollback
	objects := []client.Object{pool}
	for _, name := range hosts {
		objects = append(objects, hadRevision(name, ""))
	}
	c := fake.NewClientBuilder().
		WithScheme(scheme).
		WithIndex(&v1alpha1.WindowsInstance{}, object.PoolIndex, object.IndexPool).
		WithIndex(&appsv1.ControllerRevision{}, metav1.ObjectNameField, byName).
		WithTypeConverters(applyconfiguration.NewTypeConverter(scheme), managedfields.NewDeducedTypeConverter()).
		WithStatusSubresource(&v1alpha1.WindowsNodePool{}, &v1alpha1.WindowsInstance{}).
		WithReturnManagedFields().
		WithObjects(objects...).
		Build()
	f := &rollbackPool{T: t, time: rollbackStart, events: record.NewFakeRecorder(10)}
	f.Reconciler = &Reconciler{
		client: c, applier: &apply.Applier{Client: c, Live: c, FieldManager: fieldManager}, recorder: f.events, reporter: message.NewReporter(f.events, scheme),
		now: func() time.Time { return f.time }, blockedBy: func(poolKey) holdup { return holdup{} }, seen: map[types.NamespacedName]revisionSeen{},
	}
	return f
}

// pass has the controller see the pool, until it has settled.
func (f *rollbackPool) pass() *v1alpha1.WindowsNodePool {
	f.Helper()
	key, got := types.NamespacedName{Namespace: "ns", Name: "p"}, &v1alpha1.WindowsNodePool{}
	for range 2 {
		if _, err := f.Reconcile(f.Context(), ctrl.Request{NamespacedName: key}); err != nil {
			f.Fatal(err)
		}
		f.time = f.time.Add(settleTime)
	}
	if err := f.client.Get(f.Context(), key, got); err != nil {
		f.Fatal(err)
	}
	return got
}

// host is a host of the pool, changed if there is something to change.
func (f *rollbackPool) host(name string, changes ...change) *v1alpha1.WindowsInstance {
	f.Helper()
	i := &v1alpha1.WindowsInstance{}
	if err := f.client.Get(f.Context(), client.ObjectKey{Namespace: "ns", Name: name}, i); err != nil {
		f.Fatal(err)
	}
	for _, do := range changes {
		do(i)
	}
	if len(changes) > 0 {
		if err := f.client.Status().Update(f.Context(), i); err != nil {
			f.Fatal(err)
		}
	}
	return i
}

// want changes the template, and with it what is desired of the hosts.
func (f *rollbackPool) want(maxPods int32) {
	f.Helper()
	pool := f.pass()
	pool.Spec.Template.Kubelet = &v1alpha1.KubeletTemplate{MaxPods: &maxPods}
	if err := f.client.Update(f.Context(), pool); err != nil {
		f.Fatal(err)
	}
	for _, name := range []string{"a", "b", "c"} {
		f.host(name, func(i *v1alpha1.WindowsInstance) { i.Status.DesiredRevision = fmt.Sprint("r-", maxPods) })
	}
}

// breaks has the newest revision break a host.
func (f *rollbackPool) breaks(name string) {
	f.Helper()
	f.host(name, breaksAt(f.time))
}

// TestTwoBadUpdatesInARow: whichever hosts two bad updates break, whether the first of them were back by then or not, all go back to, or
// stay with, what all of them worked with last, and that is what they keep the programs of.
func TestTwoBadUpdatesInARow(t *testing.T) {
	for _, tt := range []struct {
		name string
		// recovers: the host of the first one is back before the second one comes, and wasReady: that had it, and its Node was ready.
		recovers, wasReady bool
		second             string
	}{
		{"one host after the other", true, false, "b"},
		{"the same host twice", true, false, "a"},
		{"before the first one is back", false, false, "b"},
		{"the same one before it is back", false, false, "a"},
		{"the same one, which was ready for a moment", false, true, "a"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := newRollbackPool(t, "a", "b", "c")
			workWith(t, f.client, f.pass().Status.UpdateRevision, "a", "b", "c")
			worked := f.pass().Status.CurrentRevision
			mustGoBack := func(broken string) {
				t.Helper()
				pool := f.pass()
				back := pool.Status.RolledBack
				if worked == "" || back == nil || back.To != worked || back.Revision != pool.Status.UpdateRevision || !slices.Contains(back.Instances, broken) || pool.Status.CurrentRevision != worked {
					t.Fatalf("%s worked, and %s is broken: %+v", worked, broken, pool.Status)
				}
				for _, name := range []string{"a", "b", "c"} {
					i := f.host(name)
					if to := revision.BackTo(i, pool, back.Revision); to != worked {
						t.Errorf("%s is to have %q, want %s", name, to, worked)
					}
					if keeps := revision.WouldGoBackTo(i, pool, back.Revision); keeps != worked {
						t.Errorf("%s keeps the programs of %q, want %s", name, keeps, worked)
					}
				}
			}
			f.want(13)
			first := f.pass().Status.UpdateRevision
			if tt.wasReady {
				f.host("a", func(i *v1alpha1.WindowsInstance) { i.Status.PoolRevision = first }, goesDown(f.time))
				f.time = f.time.Add(downFor)
				// The controller of instances takes it from the rollback, see TestEvaluatePoolRevision.
				f.host("a", func(i *v1alpha1.WindowsInstance) { i.Status.PoolRevision = f.pass().Status.RolledBack.To })
			} else {
				f.breaks("a")
			}
			mustGoBack("a")
			if tt.recovers {
				f.host("a", func(i *v1alpha1.WindowsInstance) {
					i.Status = hadRevision("a", worked).Status
				})
				f.pass()
			}
			f.want(14)
			f.pass()
			f.breaks(tt.second)
			mustGoBack(tt.second)
		})
	}
}

// TestAllWorkWith: hosts work with a revision once none of them has gone down within an hour after it.
func TestAllWorkWith(t *testing.T) {
	at := rollbackStart.Add(-20 * time.Minute)
	for _, tt := range []struct {
		name  string
		hosts []*v1alpha1.WindowsInstance
		want  bool
		again time.Duration
	}{
		{"they do", []*v1alpha1.WindowsInstance{hadRevision("a", "p-2"), edited(hadRevision("b", "p-2"), flaps(at))}, true, 0},
		{"one has another one", []*v1alpha1.WindowsInstance{hadRevision("a", "p-2"), hadRevision("b", "p-1")}, false, 0},
		{"one is broken", []*v1alpha1.WindowsInstance{edited(hadRevision("a", "p-2"), breaksAt(at))}, false, 0},
		{"one has gone down", []*v1alpha1.WindowsInstance{hadRevision("a", "p-2"), edited(hadRevision("b", "p-2"), flaps(at, time.Minute))}, false, 40 * time.Minute},
		{"one has gone down long ago", []*v1alpha1.WindowsInstance{edited(hadRevision("b", "p-2"), flaps(at.Add(-time.Hour), time.Minute))}, true, 0},
		{"one has gone down before", []*v1alpha1.WindowsInstance{edited(hadRevision("b", "p-2"), flaps(at, -time.Minute))}, true, 0},
		{"one is paused", []*v1alpha1.WindowsInstance{hadRevision("a", "p-2"), edited(lacks("b"), paused)}, true, 0},
		{"all others are paused", []*v1alpha1.WindowsInstance{edited(lacks("a"), paused), edited(lacks("b"), paused)}, false, 0},
		{"one is paused that it broke", []*v1alpha1.WindowsInstance{hadRevision("a", "p-2"), edited(edited(lacks("b"), breaksAt(at)), paused)}, false, 0},
		{"one is paused that got it, and did not work with it yet", []*v1alpha1.WindowsInstance{hadRevision("a", "p-2"), edited(edited(lacks("b"), flaps(at)), paused)}, false, 0},
		{"one never became a Node", []*v1alpha1.WindowsInstance{hadRevision("a", "p-2"), ready("b")}, true, 0},
		{"the only one never did", []*v1alpha1.WindowsInstance{ready("b")}, false, 0},
		{"one is off for long", []*v1alpha1.WindowsInstance{hadRevision("a", "p-2"), edited(lacks("b"), isOff(time.Hour))}, true, 0},
		{"most are off for long", []*v1alpha1.WindowsInstance{hadRevision("a", "p-2"), edited(lacks("b"), isOff(time.Hour)), edited(lacks("c"), isOff(time.Hour))}, false, 0},
		{"all are, those that work with it as well", []*v1alpha1.WindowsInstance{edited(hadRevision("a", "p-2"), isOff(time.Hour)), edited(lacks("b"), isOff(time.Hour))}, false, 0},
		{"one is off for a moment", []*v1alpha1.WindowsInstance{hadRevision("a", "p-2"), edited(lacks("b"), isOff(20*time.Minute))}, false, 40 * time.Minute},
		{"one is off since it got it", []*v1alpha1.WindowsInstance{hadRevision("a", "p-2"), edited(edited(lacks("b"), flaps(at.Add(-2*time.Hour))), isOff(time.Hour))}, false, 0},
		{"one waits for its turn", []*v1alpha1.WindowsInstance{hadRevision("a", "p-2"), lacks("b")}, false, 0},
	} {
		if got, again := allWorkWith(&v1alpha1.WindowsNodePool{}, tt.hosts, "p-2", rollbackStart); got != tt.want || again != tt.again {
			t.Errorf("%s: %v, again after %s", tt.name, got, again)
		}
	}
	canary := strategy(func(s *v1alpha1.PoolUpdateStrategy) { s.RollingUpdate.Canary = new(intstr.FromInt32(1)) })
	if got, _ := allWorkWith(canary, []*v1alpha1.WindowsInstance{hadRevision("a", "p-2"), edited(lacks("b"), paused)}, "p-2", rollbackStart); got {
		t.Error("the canary works, and the host that waits for somebody counts as if it did")
	}
}

// lacks is a host that works with the revision before.
func lacks(name string) *v1alpha1.WindowsInstance {
	return edited(hadRevision(name, "p-1"), func(i *v1alpha1.WindowsInstance) { i.Status.DesiredRevision = "r2" })
}

func paused(i *v1alpha1.WindowsInstance) { i.Spec.Paused = true }

// isOff has a host not be reached for some time.
func isOff(long time.Duration) change {
	return func(i *v1alpha1.WindowsInstance) {
		since := metav1.NewTime(rollbackStart.Add(-long))
		i.Status.Conditions = append(i.Status.Conditions, metav1.Condition{Type: v1alpha1.ConditionReachable, Status: metav1.ConditionFalse, LastTransitionTime: since})
		nodeDownSince(since.Time)(i)
	}
}

// TestWorksWithoutOneThatIsOff: a revision that all hosts work with but one that is off for long is one to go back to, although the pool is not updated.
func TestWorksWithoutOneThatIsOff(t *testing.T) {
	f := newRollbackPool(t, "a", "b", "c")
	before := f.pass().Status.UpdateRevision
	workWith(t, f.client, before, "a", "b", "c")
	f.pass()
	f.want(13)
	f.host("c", isOff(2*time.Hour))
	now := f.pass().Status.UpdateRevision
	workWith(t, f.client, now, "a", "b")
	for _, name := range []string{"a", "b"} {
		f.host(name, func(i *v1alpha1.WindowsInstance) { i.Status.CurrentRevision = i.Status.DesiredRevision })
	}
	got := f.pass().Status
	if now == before || got.CurrentRevision != now || !slices.Equal(got.WorkedRevisions, []string{before, now}) || meta.IsStatusConditionTrue(got.Conditions, v1alpha1.ConditionUpdated) {
		t.Errorf("%s, then %s: %+v", before, now, got)
	}
}

// TestReconcileRollsBack: what all hosts worked with is what broken ones go back to, as long as it is kept, and an event says
// so once.
func TestReconcileRollsBack(t *testing.T) {
	f := newRollbackPool(t, "a", "b")
	r, c, recorder, pass := f.Reconciler, f.client, f.events, f.pass
	workWith(t, c, pass().Status.UpdateRevision, "a", "b")
	worked := pass().Status.CurrentRevision
	changed := pass()
	changed.Spec.Template.Kubelet = &v1alpha1.KubeletTemplate{MaxPods: new(int32(13))}
	if err := c.Update(t.Context(), changed); err != nil {
		t.Fatal(err)
	}
	broken := &v1alpha1.WindowsInstance{}
	if err := c.Get(t.Context(), client.ObjectKey{Namespace: "ns", Name: "a"}, broken); err != nil {
		t.Fatal(err)
	}
	broken.Status.DesiredRevision = "r2"
	breaksAt(f.time)(broken)
	if err := c.Status().Update(t.Context(), broken); err != nil {
		t.Fatal(err)
	}
	got := pass()
	back := got.Status.RolledBack
	if worked == "" || back == nil || back.To != worked || back.Revision != got.Status.UpdateRevision || !slices.Equal(back.Instances, []string{"a"}) {
		t.Fatalf("%s worked; status %+v", worked, got.Status)
	}
	pass()
	if event := <-recorder.Events; !strings.Contains(event, "RolledBack Revision "+back.Revision+" broke a: operation op-failed changed host a and failed.") || len(recorder.Events) > 0 {
		t.Errorf("event %q, and %d more", event, len(recorder.Events))
	}
	for _, tt := range []struct {
		name string
		edit func(*appsv1.ControllerRevision)
	}{
		{"changed by hand", func(o *appsv1.ControllerRevision) {
			o.Data.Raw = []byte(`{"spec":{"template":{"nodeLabels":{"rack":"7"}}}}`)
		}},
		{"of nobody", func(o *appsv1.ControllerRevision) { o.OwnerReferences = nil }},
	} {
		kept := &appsv1.ControllerRevision{}
		if err := c.Get(t.Context(), client.ObjectKey{Namespace: "ns", Name: worked}, kept); err != nil {
			t.Fatal(err)
		}
		if to, lost, err := r.goesBackTo(t.Context(), got, back.Revision); err != nil || to != worked || lost != "" {
			t.Fatalf("it goes back to %q: %v", to, err)
		}
		forged := kept.DeepCopy()
		tt.edit(forged)
		if err := c.Update(t.Context(), forged); err != nil {
			t.Fatal(err)
		}
		if to, lost, err := r.goesBackTo(t.Context(), got, back.Revision); err != nil || to != "" || lost != worked {
			t.Errorf("%s: it goes back to %q, %q is lost: %v", tt.name, to, lost, err)
		}
		kept.ResourceVersion = ""
		if err := errors.Join(c.Delete(t.Context(), forged), c.Create(t.Context(), kept)); err != nil {
			t.Fatal(err)
		}
	}
}

// TestLabelLostWithoutAController: what hosts go back to is found, and gets its label again, although nobody has seen that somebody removed it.
func TestLabelLostWithoutAController(t *testing.T) {
	k := newKeeper(t)
	worked, newest := k.keep("1"), k.keep("2").Name
	k.pool.Status.CurrentRevision, k.pool.Spec.UpdateStrategy.RollingUpdate.OnFailure = worked.Name, v1alpha1.FailureRollback
	worked.Labels = nil
	if err := k.c.Update(t.Context(), worked); err != nil {
		t.Fatal(err)
	}
	k.client = interceptor.NewClient(k.c.(client.WithWatch), interceptor.Funcs{ //nolint:forcetypeassert // the fake one is
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			if err := c.Get(ctx, key, o, opts...); err != nil {
				return err
			}
			if o.GetLabels()[v1alpha1.PoolLabel] == "" { // the cache does not have it
				return apierrors.NewNotFound(appsv1.Resource("controllerrevisions"), key.Name)
			}
			return nil
		},
	})
	for pass, want := range []string{"", worked.Name} {
		if to, lost, err := k.goesBackTo(t.Context(), k.pool, newest); err != nil || to != want || lost != "" {
			t.Errorf("in pass %d it goes back to %q, %q is lost: %v", pass, to, lost, err)
		}
	}
}

// TestReconcileWaitsForANode: what its update is not blamed for yet is looked at again by then.
func TestReconcileWaitsForANode(t *testing.T) {
	f := newRollbackPool(t, "a")
	f.host("a", goesDown(rollbackStart.Add(settleTime)))
	for _, want := range []time.Duration{settleTime, awayPatience, 0} {
		result, err := f.Reconcile(t.Context(), ctrl.Request{NamespacedName: types.NamespacedName{Namespace: "ns", Name: "p"}})
		if err != nil || result.RequeueAfter != want {
			t.Errorf("at %s again after %s, want %s: %v", f.time, result.RequeueAfter, want, err)
		}
		f.time = f.time.Add(want)
	}
}
