// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package rollout

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/desired/document"
	"github.com/openshift/windows-instance-api/pkg/desired/revision"
)

// TestScheduleGoingBack: what the status of a pool says of a revision that was undone, or rolled back, is what its hosts are drained by. Those
// for which somebody has asked for it, and those that the revision broke, also without having asked, do not wait for canaries, nor for somebody who
// asks for the update of each host.
func TestScheduleGoingBack(t *testing.T) {
	ofPool := &v1alpha1.WindowsNodePool{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", UID: "uid", Generation: 2}}
	ofPool.Spec.UpdateStrategy.RollingUpdate.MaxUnavailable = new(intstr.FromString("100%"))
	named := func(template string) string {
		ofPool.Spec.Template.NodeLabels = map[string]string{"template": template}
		name, err := revision.NameOf(ofPool, document.Payload{})
		if err != nil {
			t.Fatal(err)
		}
		return name
	}
	before, now := named("before"), named("now")
	ofPool.Status.ObservedGeneration, ofPool.Status.UpdateRevision, ofPool.Status.CurrentRevision = 2, now, before
	undone := &v1alpha1.PoolRollback{Revision: now, To: before, RequestedBy: "alice", Time: *at(-time.Minute)}
	keeping := undone.DeepCopy()
	keeping.WithoutPrograms = []string{"b"}
	broken := undone.DeepCopy()
	broken.Instances = []string{"a"}
	rolledBack := &v1alpha1.PoolRollback{Revision: now, To: before, Instances: []string{"a"}, Time: *at(-time.Minute)}
	// goesBack is a host that got the revision with success, and is to get back another one.
	goesBack := func(i *v1alpha1.WindowsInstance) {
		op := reconfigured(v1alpha1.OperationSucceeded, v1alpha1.ImpactDrain)
		op.Revision, op.RequestedAt, op.StartedAt, op.FinishedAt = i.Status.CurrentRevision, *at(-30 * time.Minute), at(-30*time.Minute), at(-20*time.Minute)
		i.Status.PoolRevision, i.Status.DesiredRevision, i.Status.Operation = now, "r1", &op
		condition(v1alpha1.ConditionUpToDate, metav1.ConditionFalse, v1alpha1.ReasonRevisionOutdated, -time.Minute)(i)
	}
	isDown := func(i *v1alpha1.WindowsInstance) {
		goesBack(i)
		condition(v1alpha1.ConditionNodeReady, metav1.ConditionFalse, v1alpha1.ReasonNodeNotReady, -10*time.Minute)(i)
	}
	stays := func(i *v1alpha1.WindowsInstance) {
		goesBack(i)
		i.Status.DesiredRevision = i.Status.CurrentRevision
		condition(v1alpha1.ConditionUpToDate, metav1.ConditionTrue, v1alpha1.ReasonRevisionCurrent, -time.Minute)(i)
	}
	stayed := func(i *v1alpha1.WindowsInstance) {
		goesBack(i)
		i.Status.PoolRevision = before
	}
	comes := func(i *v1alpha1.WindowsInstance) {
		goesBack(i)
		i.Status.PoolRevision = "other-123"
	}
	isBroken := func(i *v1alpha1.WindowsInstance) {
		stays(i)
		i.Status.Operation.Phase = v1alpha1.OperationFailed
	}
	canary := func(u *v1alpha1.PoolUpdateStrategy) { u.RollingUpdate.Canary = new(intstr.FromInt32(1)) }
	onRequest := func(u *v1alpha1.PoolUpdateStrategy) { u.Type = v1alpha1.OnRequest }
	closed := func(u *v1alpha1.PoolUpdateStrategy) {
		u.Window = &v1alpha1.MaintenanceWindow{Schedule: "0 14 * * *", DurationSeconds: 3600}
	}
	for _, tt := range []struct {
		name     string
		strategy func(*v1alpha1.PoolUpdateStrategy)
		back     *v1alpha1.PoolRollback
		hosts    map[string]func(*v1alpha1.WindowsInstance)
		want     string // those that are drained
		waits    map[string]string
	}{
		{name: "nothing is undone, and the canaries have another revision", strategy: canary, hosts: map[string]func(*v1alpha1.WindowsInstance){"a": stayed, "b": stayed, "c": stayed}, want: "a", waits: map[string]string{"b": "1 host of pool p was updated first", "c": "1 host of pool p was updated first"}},
		{name: "all go back that somebody wants to", strategy: canary, back: undone, hosts: map[string]func(*v1alpha1.WindowsInstance){"a": goesBack, "b": goesBack, "c": goesBack}, want: "a b c"},
		{name: "though hosts are updated on request", strategy: onRequest, back: undone, hosts: map[string]func(*v1alpha1.WindowsInstance){"a": goesBack, "b": goesBack, "c": goesBack}, want: "a b c"},
		{name: "so does one that was about to by itself when somebody wanted it", strategy: onRequest, back: broken, hosts: map[string]func(*v1alpha1.WindowsInstance){"a": stayed, "b": stayed}, want: "a", waits: map[string]string{"b": "Pool p is updated when somebody asks for it"}},
		{name: "in the window", strategy: closed, back: undone, hosts: map[string]func(*v1alpha1.WindowsInstance){"a": goesBack}, waits: map[string]string{"a": "The window of pool p opens at"}},
		{name: "but those that cannot, which are broken and keep no others", strategy: canary, back: keeping, hosts: map[string]func(*v1alpha1.WindowsInstance){"a": goesBack, "b": isBroken, "c": goesBack}, want: "a c", waits: map[string]string{"b": ""}},
		{name: "nor does one that cannot get the revision which was undone, as it comes from another pool", strategy: func(*v1alpha1.PoolUpdateStrategy) {}, back: keeping, hosts: map[string]func(*v1alpha1.WindowsInstance){"a": goesBack, "b": comes}, want: "a", waits: map[string]string{"b": "the host keeps the one it worked with last"}},
		{name: "another one that is broken does", strategy: canary, back: undone, hosts: map[string]func(*v1alpha1.WindowsInstance){"a": goesBack, "b": isBroken, "c": goesBack}, waits: map[string]string{"a": "changed host b and failed", "b": "An update or a restart broke it", "c": "changed host b and failed"}},
		{name: "one that went down with it goes back by itself", strategy: canary, back: rolledBack, hosts: map[string]func(*v1alpha1.WindowsInstance){"a": isDown, "b": stays, "c": stayed}, want: "a", waits: map[string]string{"c": "kubectl windows rollout resume p -n ns"}},
		{name: "though hosts are updated on request, outside of the window", strategy: func(u *v1alpha1.PoolUpdateStrategy) {
			onRequest(u)
			closed(u)
		}, back: rolledBack, hosts: map[string]func(*v1alpha1.WindowsInstance){"a": isDown, "b": stays, "c": stayed}, want: "a", waits: map[string]string{"c": "kubectl windows rollout resume p -n ns"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				pool := ofPool.DeepCopy()
				pool.Status.RolledBack = tt.back
				tt.strategy(&pool.Spec.UpdateStrategy)
				says, objects := map[string]v1alpha1.ChangeImpact{}, []client.Object{pool}
				for name, edit := range tt.hosts {
					i := works(edit)
					i.Name, i.Status.Node.Name, says[name] = name, name, v1alpha1.ImpactDrain
					ready := corev1.ConditionTrue
					if nodeReady := i.Status.Conditions[2]; nodeReady.Status != metav1.ConditionTrue {
						ready = corev1.ConditionFalse
					}
					objects = append(objects, i, newNode(name, "", ready))
				}
				f := newScheduled(t, says, objects...)
				f.options.Disruptions, f.clock = len(tt.hosts), clocktesting.NewFakePassiveClock(testNow)
				f.pass()
				f.pass()
				var started []string
				for _, name := range []string{"a", "b", "c"} {
					if tt.hosts[name] != nil && f.operation(name).Active() {
						started = append(started, name)
					}
				}
				if got := strings.Join(started, " "); got != tt.want {
					t.Errorf("%q are drained, want %q: %+v", got, tt.want, f.last.waits)
				}
				for key, why := range f.last.waits {
					if want, waits := tt.waits[key.Name]; !waits || !strings.Contains(why.describe(poolKey{"ns", "p"}), want) {
						t.Errorf("%s waits for %q, want %q", key.Name, why.describe(poolKey{"ns", "p"}), want)
					}
				}
				for name := range tt.waits {
					if f.operation(name).Active() {
						t.Errorf("%s does not wait", name)
					}
				}
			})
		})
	}
}

// TestScheduleWhatWaitsWithAnotherRevision: an operation gives what is desired when it comes to that, so that what was recorded before somebody has
// undone a revision takes its host back, and waits for nobody to ask for it.
func TestScheduleWhatWaitsWithAnotherRevision(t *testing.T) {
	undone := &v1alpha1.PoolRollback{Revision: "p-2", To: "p-1", RequestedBy: "alice"}
	for _, tt := range []struct {
		name, gives, desired string
		back                 *v1alpha1.PoolRollback
		want                 v1alpha1.ChangeImpact
	}{
		{"it was recorded with what takes the host back", "r1", "r1", undone, v1alpha1.ImpactDrain},
		{"it was recorded with what was undone", "r2", "r1", undone, v1alpha1.ImpactDrain},
		{"the cluster has changed since it was recorded", "r1", "r3", undone, v1alpha1.ImpactDrain},
		{"nobody has undone it", "r1", "r1", nil, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				pool := &v1alpha1.WindowsNodePool{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", UID: "uid"}}
				pool.Spec.UpdateStrategy.Type = v1alpha1.OnRequest
				pool.Status.UpdateRevision, pool.Status.CurrentRevision, pool.Status.RolledBack = "p-2", "p-1", tt.back
				waits := works(func(i *v1alpha1.WindowsInstance) {
					op := reconfigured(v1alpha1.OperationRunning, v1alpha1.ImpactDrain)
					op.Revision, op.AdmittedImpact, op.HostChanged, op.Origin = tt.gives, "", false, v1alpha1.OriginController
					op.Steps = []v1alpha1.OperationStep{{Name: v1alpha1.StepWaitForSlot, State: v1alpha1.StepRunning}}
					i.Status.PoolRevision, i.Status.DesiredRevision, i.Status.Operation = "p-2", tt.desired, &op
				})
				f := newScheduled(t, nil, pool, waits, newNode("a", "", corev1.ConditionTrue))
				f.clock = clocktesting.NewFakePassiveClock(testNow)
				f.pass()
				if got := f.operation("a").AdmittedImpact; got != tt.want {
					t.Errorf("admitted is %q, want %q: %+v", got, tt.want, f.last.waits)
				}
			})
		})
	}
}

// TestScheduleByTheSizeOfThePool: a percentage of hosts that may be out of service is one of those that are nodes. A pool that is scaled up does not
// drain all that it has because others are to come, and one that is scaled down goes by those that are still there.
func TestScheduleByTheSizeOfThePool(t *testing.T) {
	for name, tt := range map[string]struct {
		desired int32
		want    string
	}{
		"most are still to come":     {4, "a"},
		"all have":                   {2, "a"},
		"there are more than before": {1, "a"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				pool := &v1alpha1.WindowsNodePool{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p"}}
				pool.Spec.UpdateStrategy.RollingUpdate.MaxUnavailable, pool.Status.DesiredReplicas = new(intstr.FromString("50%")), tt.desired
				f := newScheduled(t, map[string]v1alpha1.ChangeImpact{"a": v1alpha1.ImpactDrain, "b": v1alpha1.ImpactDrain}, pool, needsUpdate("a"), needsUpdate("b"))
				f.options.Disruptions = 2
				f.pass()
				f.pass()
				var started []string
				for _, name := range []string{"a", "b"} {
					if f.operation(name).Active() {
						started = append(started, name)
					}
				}
				if got := strings.Join(started, " "); got != tt.want {
					t.Errorf("%q are drained, want %q", got, tt.want)
				}
			})
		})
	}
}

// TestScheduleAfterAPause: a process that made no pass for a while, as its machine was suspended, repairs nothing at once, as one that has just
// begun: what the Nodes say may be as old as the pause. One that works all the time does.
func TestScheduleAfterAPause(t *testing.T) {
	for name, tt := range map[string]struct {
		pause time.Duration
		want  bool
	}{
		"it works all the time": {maxPause, true},
		"it was suspended":      {time.Hour, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				pool := &v1alpha1.WindowsNodePool{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p"}}
				pool.Spec.Remediation = &v1alpha1.PoolRemediation{MaxUnhealthy: new(intstr.FromString("100%"))}
				began := testNow.Add(-10 * time.Hour)
				down := works(condition(v1alpha1.ConditionNodeReady, metav1.ConditionFalse, v1alpha1.ReasonNodeNotReady, began.Add(maxPause-10*time.Minute+tt.pause/2).Sub(testNow)))
				f := newScheduled(t, nil, pool, down)
				now := clocktesting.NewFakePassiveClock(began)
				f.clock = now
				f.pass()
				now.SetTime(began.Add(maxPause - time.Second))
				f.pass()
				now.SetTime(now.Now().Add(tt.pause))
				f.pass()
				if op := f.operation("a"); (op != nil) != tt.want {
					t.Fatalf("after %s it has %+v", tt.pause, op)
				}
				now.SetTime(now.Now().Add(maxPause))
				if f.pass(); f.operation("a") == nil {
					t.Error("it is not repaired later either")
				}
			})
		})
	}
}
