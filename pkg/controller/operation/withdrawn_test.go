// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package operation

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/openshift/windows-instance-api/pkg/agent/api/config"
	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
)

func becauseOf(cause v1alpha1.OperationCause) change {
	return func(i *v1alpha1.WindowsInstance) { i.Status.Operation.Cause = cause }
}

// remediated is pool p, which has its hosts repaired.
func remediated() *v1alpha1.WindowsNodePool {
	pool := &v1alpha1.WindowsNodePool{ObjectMeta: metav1.ObjectMeta{Namespace: testNamespace, Name: "p"}}
	pool.Spec.Remediation = &v1alpha1.PoolRemediation{}
	return pool
}

// setReady has the Node be ready or not.
func (f *fixture) setReady(ready corev1.ConditionStatus) {
	node := f.node()
	node.Status.Conditions[0].Status = ready
	if _, err := f.kube.CoreV1().Nodes().UpdateStatus(f.t.Context(), node, metav1.UpdateOptions{}); err != nil {
		f.t.Error(err)
	}
}

// cordon has the Node be cordoned, by an operation if there is one.
func (f *fixture) cordon(by string) {
	f.t.Helper()
	node := f.node()
	node.Spec.Unschedulable = true
	if by != "" {
		node.Annotations = map[string]string{v1alpha1.CordonedByAnnotation: by}
	}
	if _, err := f.kube.CoreV1().Nodes().Update(f.t.Context(), node, metav1.UpdateOptions{}); err != nil {
		f.t.Fatal(err)
	}
}

// TestWithdrawn: what a pool asked for and does not ask for any more is not begun.
func TestWithdrawn(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		cause v1alpha1.OperationCause
		edit  func(*v1alpha1.WindowsNodePool)
		want  string
	}{
		{"the restart", v1alpha1.CauseRestartRequested, func(p *v1alpha1.WindowsNodePool) { p.Spec.Restarts.After = nil }, "Not begun, because spec.restarts.after of pool p does not ask for it any more."},
		{"it was restarted meanwhile", v1alpha1.CauseRestartRequested, func(p *v1alpha1.WindowsNodePool) {
			p.Spec.Restarts.After = &metav1.Time{Time: time.Now().Add(-time.Hour)}
		}, "Not begun, because spec.restarts.after"},
		{"it is put off", v1alpha1.CauseRestartRequested, func(p *v1alpha1.WindowsNodePool) {
			p.Spec.Restarts.After = &metav1.Time{Time: time.Now().Add(time.Hour)}
		}, "Not begun, because spec.restarts.after"},
		{"what Windows waits for", v1alpha1.CauseRestartPending, func(*v1alpha1.WindowsNodePool) {}, "Not begun, because spec.restarts.policy of pool p"},
		{"the repair", v1alpha1.CauseNodeNotReady, func(p *v1alpha1.WindowsNodePool) { p.Spec.Remediation = nil }, "Not begun, because spec.remediation of pool p"},
		{"all of it", v1alpha1.CauseNodeNotReady, func(p *v1alpha1.WindowsNodePool) { p.Spec.Paused = true }, "Not begun, because spec.paused of pool p is true."},
	} {
		inBubble(t, tt.name, func(t *testing.T) {
			pool := remediated()
			tt.edit(pool)
			restarted := func(i *v1alpha1.WindowsInstance) {
				i.Status.RestartedAt = &metav1.Time{Time: time.Now().Add(-time.Minute)}
			}
			f := newFixture(t, newInstance(byController(rebootOperation(v1alpha1.RebootGraceful)), inPool("p"), becauseOf(tt.cause), restarted), pool)
			f.configure()
			op := f.finish()
			if op.Phase != v1alpha1.OperationCanceled || !strings.HasPrefix(op.Message, tt.want) || len(op.Steps) > 0 {
				t.Errorf("it is %s: %s: %v", op.Phase, op.Message, states(op))
			}
			if f.drain.runs > 0 || f.host.restarts() > 0 {
				t.Errorf("%d drains, %d restarts", f.drain.runs, f.host.restarts())
			}
		})
	}
}

// TestPausedBeforeItBegins: a configuration that the controller recorded fails no host which is paused before it begins; what a person asked for
// says that it does nothing.
func TestPausedBeforeItBegins(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		op   v1alpha1.Operation
		edit change
		want v1alpha1.OperationPhase
	}{
		{"the first one", byController(reconfigureOperation()), withoutNode, v1alpha1.OperationCanceled},
		{"an update", byController(reconfigureOperation()), func(*v1alpha1.WindowsInstance) {}, v1alpha1.OperationCanceled},
		{"a removal", byController(removeOperation()), isBeingDeleted, v1alpha1.OperationCanceled},
		{"what a person asked for", reconfigureOperation(), func(*v1alpha1.WindowsInstance) {}, v1alpha1.OperationFailed},
	} {
		inBubble(t, tt.name, func(t *testing.T) {
			pool := remediated()
			pool.Spec.Paused = true
			f := newFixture(t, newInstance(tt.op, inPool("p"), tt.edit), pool)
			f.configure()
			op := f.finish()
			if op.Phase != tt.want || op.Withdrawn() != (tt.want == v1alpha1.OperationCanceled) || !strings.Contains(op.Message, "spec.paused of pool p is true") {
				t.Errorf("it is %s: %s", op.Phase, op.Message)
			}
			if f.host.count("Apply")+f.host.count("Cleanup") > 0 {
				t.Error("the host was changed")
			}
		})
	}
}

// TestTooLate: what was recorded in the window of its pool is not begun after that, also by another process, unless the host is disturbed
// by now.
func TestTooLate(t *testing.T) {
	t.Parallel()
	const closed = "Not begun, because the window of pool p (spec.updateStrategy.window) has closed since. It is recorded again when its pool allows that."
	restart := byController(rebootOperation(v1alpha1.RebootGraceful))
	restart.Cause = v1alpha1.CauseRestartRequested
	update := byController(reconfigureOperation())
	update.AdmittedImpact = v1alpha1.ImpactDrain
	costless := update
	costless.AdmittedImpact = v1alpha1.ImpactNone
	repair := restart
	repair.Cause = v1alpha1.CauseNodeNotReady
	byUser := update
	byUser.Origin = v1alpha1.OriginUser
	waits := func(i *v1alpha1.WindowsInstance) {
		op := i.Status.Operation
		op.Impact = op.AdmittedImpact
	}
	for _, tt := range []struct {
		name string
		op   v1alpha1.Operation
		// recorded and opens are how long ago it was recorded and the window opened last, for an hour.
		recorded, opens time.Duration
		edit            []change
		late            bool
	}{
		{name: "a restart", op: restart, recorded: 4 * time.Hour, opens: 4*time.Hour + time.Minute, late: true},
		{name: "a restart, in the next window", op: restart, recorded: 24 * time.Hour, opens: time.Minute},
		{name: "an update", op: update, recorded: 4 * time.Hour, opens: 4*time.Hour + time.Minute, late: true},
		{name: "one that costs nothing", op: costless, recorded: 4 * time.Hour, opens: 4*time.Hour + time.Minute},
		{name: "one of a broken host", op: update, recorded: 2 * time.Hour, opens: 4 * time.Hour},
		{name: "one that somebody asked for", op: byUser, recorded: 4 * time.Hour, opens: 4*time.Hour + time.Minute},
		{name: "a repair", op: repair, recorded: 4 * time.Hour, opens: 4*time.Hour + time.Minute},
		{name: "it was interrupted before it disturbed anything", op: update, recorded: 4 * time.Hour, opens: 4*time.Hour + time.Minute, edit: []change{begunAt(v1alpha1.StepPlan)}, late: true},
		{name: "it was admitted in the window", op: update, recorded: 12 * time.Hour, opens: 4*time.Hour + time.Minute, edit: []change{begunAt(v1alpha1.StepWaitForSlot), waits}, late: true},
		{name: "it was interrupted after that", op: restart, recorded: 4 * time.Hour, opens: 4*time.Hour + time.Minute, edit: []change{begunAt(v1alpha1.StepDrain)}},
	} {
		inBubble(t, tt.name, func(t *testing.T) {
			now := time.Now().UTC()
			pool := remediated()
			pool.Spec.Restarts.After = &metav1.Time{Time: now}
			opened := now.Add(-tt.opens)
			pool.Spec.UpdateStrategy.Window = &v1alpha1.MaintenanceWindow{Schedule: fmt.Sprintf("%d %d * * *", opened.Minute(), opened.Hour()), DurationSeconds: 3600}
			op := tt.op
			f := newFixture(t, newInstance(op, append([]change{inPool("p"), func(i *v1alpha1.WindowsInstance) {
				i.Status.Operation.RequestedAt = metav1.NewTime(now.Add(-tt.recorded))
				i.Status.Operation.Revision = "new"
			}}, tt.edit...)...), pool)
			f.configure()
			f.setReady(corev1.ConditionTrue)
			got := f.finish()
			if late := strings.HasPrefix(got.Message, closed); late != tt.late || late != (got.Phase == v1alpha1.OperationCanceled) || late && (!got.Withdrawn() || f.drain.runs > 0 || f.host.restarts() > 0 || f.host.count("Apply") > 0) {
				t.Errorf("it is %s: %s: %v", got.Phase, got.Message, states(got))
			}
		})
	}
}

// TestWindowClosesMeanwhile: what was admitted in the window of its pool does not begin to disturb the host after that, for example because
// it took long to send its files. Those stay. What was not recorded in a window waits for none.
func TestWindowClosesMeanwhile(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		impact config.Impact
		// opened is how long ago the window opened, for an hour, and sending how long it takes to send the files.
		opened, sending time.Duration
		late            bool
	}{
		{"a drain", config.ImpactDrain, 55 * time.Minute, 40 * time.Minute, true},
		{"a restart of services", config.ImpactRestart, 55 * time.Minute, 40 * time.Minute, true},
		{"a drain in time", config.ImpactDrain, 15 * time.Minute, 40 * time.Minute, false},
		{"it turns out to disturb no pod", config.ImpactNone, 55 * time.Minute, 40 * time.Minute, false},
		{"a broken host, outside of the window", config.ImpactDrain, 4 * time.Hour, 40 * time.Minute, false},
	} {
		inBubble(t, tt.name, func(t *testing.T) {
			now := time.Now().UTC()
			opened := now.Add(-tt.opened)
			pool := remediated()
			pool.Spec.UpdateStrategy.Window = &v1alpha1.MaintenanceWindow{Schedule: fmt.Sprintf("%d %d * * *", opened.Minute(), opened.Hour()), DurationSeconds: 3600}
			update := byController(reconfigureOperation())
			update.AdmittedImpact = v1alpha1.ImpactDrain
			f := newFixture(t, newInstance(update, inPool("p"), func(i *v1alpha1.WindowsInstance) {
				i.Status.Operation.RequestedAt = metav1.NewTime(now)
			}), pool)
			f.configure()
			f.host.impact, f.host.needsFiles = tt.impact, true
			f.host.fail["Deliver"] = func() error {
				f.host.mu.Unlock()
				defer f.host.mu.Lock()
				<-time.After(tt.sending)
				return nil
			}
			op := f.finish()
			if late := op.Withdrawn() && strings.HasPrefix(op.Message, "Not begun, because the window of pool p"); late != tt.late || late == (op.Phase == v1alpha1.OperationSucceeded) {
				t.Errorf("it is %s: %s: %v", op.Phase, op.Message, states(op))
			}
			if tt.late && (f.drain.runs > 0 || f.host.count("Apply") > 0 || op.HostChanged || f.node().Spec.Unschedulable || len(f.node().Annotations) > 0) {
				t.Errorf("%d drains, %d changes, cordoned %v", f.drain.runs, f.host.count("Apply"), f.node().Spec.Unschedulable)
			}
			if f.host.needsFiles {
				t.Error("the files are not on the host")
			}
		})
	}
}

// TestTooLateForTheFormer: a process that does not lead any more leaves the record alone, which its successor may have begun in time.
func TestTooLateForTheFormer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		now := time.Now().UTC()
		pool := remediated()
		opened := now.Add(-4*time.Hour - time.Minute)
		pool.Spec.UpdateStrategy.Window = &v1alpha1.MaintenanceWindow{Schedule: fmt.Sprintf("%d %d * * *", opened.Minute(), opened.Hour()), DurationSeconds: 3600}
		update := byController(reconfigureOperation())
		update.AdmittedImpact = v1alpha1.ImpactDrain
		f := newFixture(t, newInstance(update, inPool("p"), func(i *v1alpha1.WindowsInstance) {
			i.Status.Operation.RequestedAt = metav1.NewTime(now.Add(-4 * time.Hour))
		}, begunAt(v1alpha1.StepPlan)), pool)
		f.configure()
		r, stop := f.process()
		defer stop()
		var asked atomic.Bool
		r.Leads = func(context.Context) (bool, error) {
			asked.Store(true)
			return false, nil
		}
		f.reconcile(r)
		f.eventually("it to end", func() bool {
			running, waiting := r.runner.load()
			return running+waiting == 0
		})
		if op := f.get().Status.Operation; !asked.Load() || !op.Active() {
			t.Errorf("it asked who leads: %v; it is %s: %s", asked.Load(), op.Phase, op.Message)
		}
	})
}

// TestRepairIsNotNeeded: a host whose Node is ready again is left as it is, also when that is so after its pods have left.
func TestRepairIsNotNeeded(t *testing.T) {
	t.Parallel()
	inBubble(t, "before it begins", func(t *testing.T) {
		repair := byController(v1alpha1.Operation{Type: v1alpha1.OperationRestartServices, Cause: v1alpha1.CauseNodeNotReady})
		f := newFixture(t, newInstance(repair, inPool("p")), remediated())
		f.configure()
		op := f.finish()
		if op.Phase != v1alpha1.OperationSucceeded || op.Message != "Node win-1 is ready again, so the host was left as it is." || f.host.count("RestartServices") > 0 {
			t.Errorf("it is %s: %s", op.Phase, op.Message)
		}
	})
	inBubble(t, "after the drain", func(t *testing.T) {
		f := newFixture(t, newInstance(byController(rebootOperation(v1alpha1.RebootGraceful)), inPool("p"), becauseOf(v1alpha1.CauseNodeNotReady)), remediated())
		f.configure()
		f.setReady(corev1.ConditionFalse)
		f.drain.meanwhile = func() { f.setReady(corev1.ConditionTrue) }
		op := f.finish()
		if op.Phase != v1alpha1.OperationSucceeded || f.host.restarts() > 0 || f.drain.runs != 1 || f.node().Spec.Unschedulable {
			t.Errorf("it is %s: %s: %v; %d restarts, %d drains", op.Phase, op.Message, states(op), f.host.restarts(), f.drain.runs)
		}
	})
}

// TestRestartThatIsNotSent: a Node that was cordoned for a restart which did not begin goes on as it did, when nobody
// asked for it. One whose host was asked to restart stays cordoned until it is ready, see [TestNodeThatCameBack].
func TestRestartThatIsNotSent(t *testing.T) {
	t.Parallel()
	for _, cause := range []v1alpha1.OperationCause{v1alpha1.CauseRestartRequested, ""} {
		inBubble(t, "because of "+string(cause), func(t *testing.T) {
			pool := remediated()
			pool.Spec.Restarts.After = &metav1.Time{Time: time.Now()}
			f := newFixture(t, newInstance(byController(rebootOperation(v1alpha1.RebootGraceful)), inPool("p"), becauseOf(cause)), pool)
			f.configure()
			f.drain.err = errors.New("pods do not leave")
			op := f.finish()
			if op.Phase != v1alpha1.OperationFailed || f.host.restarts() > 0 {
				t.Fatalf("it is %s: %s", op.Phase, op.Message)
			}
			if cordoned := f.node().Spec.Unschedulable; cordoned != (cause == "") {
				t.Errorf("cordoned: %t, and %s", cordoned, op.Message)
			}
		})
	}
}

// TestNodeThatCameBack: the controller lifts the cordon of a restart that it began, and no other.
func TestNodeThatCameBack(t *testing.T) {
	t.Parallel()
	for by, stays := range map[string]bool{"op-0 Reboot (asked for by windows-controller)": false, "": true, "drain-1 (asked for by alice)": true} {
		inBubble(t, "cordoned by "+by, func(t *testing.T) {
			f := newFixture(t, newInstance(byController(v1alpha1.Operation{Type: v1alpha1.OperationUncordon, Cause: v1alpha1.CauseCameBack})))
			f.cordon(by)
			op := f.finish()
			if op.Phase != v1alpha1.OperationSucceeded || f.node().Spec.Unschedulable != stays {
				t.Errorf("it is %s: %s", op.Phase, op.Message)
			}
		})
	}
}
