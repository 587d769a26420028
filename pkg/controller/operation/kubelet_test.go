// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package operation

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kruntime "k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
	"github.com/openshift/windows-instance-api/pkg/agent/api/config"
	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
)

// TestKubeletWatch: what counts is that reports come, and not what their times are.
func TestKubeletWatch(t *testing.T) {
	now := time.Date(2026, 3, 14, 15, 9, 26, 535e6, time.UTC)
	const (
		ready    = corev1.ConditionTrue
		notReady = corev1.ConditionFalse
		since    = "Its kubelet has not reported since the last change"
		restart  = "Its kubelet has not reported since the restart"
		silent   = "Its kubelet has not reported for 25s"
	)
	type look struct {
		after     time.Duration
		status    corev1.ConditionStatus
		heartbeat time.Time
		report    string
		want      string
	}
	old := now.Add(-time.Minute)
	boot := now.Add(-10 * time.Second)
	for _, tt := range []struct {
		name  string
		watch kubeletWatch
		looks []look
	}{
		{"the kubelet that was there before", kubeletWatch{newest: "1"}, []look{{0, ready, old, "1", since}, {time.Minute, ready, old, "1", since}}},
		{"it reports", kubeletWatch{newest: "1"}, []look{{0, ready, old, "1", since}, {3 * time.Second, ready, old, "2", ""}}},
		{"it reports with a clock that is behind", kubeletWatch{newest: "2"}, []look{{0, ready, old, "2", since}, {3 * time.Second, ready, old, "1", ""}}},
		{"it reports that it is not ready", kubeletWatch{newest: "1"}, []look{{0, notReady, now, "2", "Ready is False: why"}}},
		{"it is said to be silent", kubeletWatch{newest: "1"}, []look{{0, corev1.ConditionUnknown, now, "1", "Ready is Unknown: why"}}},
		{"it becomes silent", kubeletWatch{newest: "1"}, []look{{0, ready, old, "2", ""}, {24 * time.Second, ready, old, "2", ""}, {25 * time.Second, ready, old, "2", silent}, {30 * time.Second, ready, old, "3", ""}}},
		{"restarted, and ready as before", kubeletWatch{newest: "1", boot: boot, heartbeat: old}, []look{{0, ready, old, "2", restart}}},
		{"restarted, and it has said so", kubeletWatch{newest: "1", boot: boot, heartbeat: old}, []look{{0, ready, boot.Add(time.Second), "2", ""}}},
		{"restarted, and it said so before the first look", kubeletWatch{newest: "1", boot: boot, heartbeat: boot.Add(time.Second)}, []look{{0, ready, boot.Add(time.Second), "2", ""}}},
		{"restarted, and its clock was set back", kubeletWatch{newest: "1", boot: boot, heartbeat: old}, []look{{0, ready, old.Add(-time.Hour), "2", ""}}},
		{"restarted, in the second of the boot", kubeletWatch{newest: "1", boot: boot, heartbeat: boot.Truncate(time.Second)}, []look{{0, ready, boot.Truncate(time.Second), "2", ""}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for n, l := range tt.looks {
				node := &corev1.Node{Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: l.status, Message: "why", LastHeartbeatTime: metav1.NewTime(l.heartbeat)}}}}
				if got := tt.watch.observe(now.Add(l.after), node, l.report); got != l.want || (l.want == "") == tt.watch.since.IsZero() {
					t.Errorf("look %d: got %q, want %q; ready since %s", n, got, l.want, tt.watch.since)
				}
			}
		})
	}
	w := kubeletWatch{}
	if got := w.observe(now, nil, ""); got != "The Node does not exist any more" {
		t.Errorf("a Node that is gone: %q", got)
	}
	if got := w.observe(now, &corev1.Node{}, ""); got != "It has no condition Ready" {
		t.Errorf("no condition: %q", got)
	}
}

// TestKubeletWatchOutage: while the API server is away no kubelet can report, and right after that it may have been taken for lost. The Node has been ready
// since it was before.
func TestKubeletWatchOutage(t *testing.T) {
	began := time.Date(2026, 3, 14, 15, 9, 26, 535e6, time.UTC)
	type look struct {
		after  time.Duration
		status corev1.ConditionStatus
		report string
		want   string
		ready  bool // since the beginning
	}
	const silent, unknown, awaited = "Its kubelet has not reported for 25s", "Ready is Unknown: why", "Its kubelet has not reported since the API server was away"
	for _, tt := range []struct {
		name  string
		looks []look
	}{
		{"it reports after that", []look{{70 * time.Second, corev1.ConditionTrue, "1", awaited, true}, {80 * time.Second, corev1.ConditionTrue, "2", "", true}, {104 * time.Second, corev1.ConditionTrue, "2", "", true}}},
		{"it has reported before the first look", []look{{70 * time.Second, corev1.ConditionTrue, "2", "", true}}},
		{"it does not report after that", []look{{70 * time.Second, corev1.ConditionTrue, "1", awaited, true}, {94 * time.Second, corev1.ConditionTrue, "1", awaited, true}, {95 * time.Second, corev1.ConditionTrue, "1", silent, false}}},
		{"it is taken for lost for a moment", []look{{70 * time.Second, corev1.ConditionUnknown, "1", unknown, true}, {80 * time.Second, corev1.ConditionTrue, "2", "", true}}},
		{"it is lost", []look{{70 * time.Second, corev1.ConditionUnknown, "1", unknown, true}, {90 * time.Second, corev1.ConditionUnknown, "1", unknown, true}, {110 * time.Second, corev1.ConditionUnknown, "1", unknown, true},
			{131 * time.Second, corev1.ConditionUnknown, "1", unknown, false}, {140 * time.Second, corev1.ConditionTrue, "2", "", false}}},
		{"it says that it is not ready", []look{{70 * time.Second, corev1.ConditionFalse, "2", "Ready is False: why", false}}},
		{"it is lost without an outage", []look{{20 * time.Second, corev1.ConditionUnknown, "1", unknown, false}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := kubeletWatch{newest: "0"}
			for n, l := range append([]look{{0, corev1.ConditionTrue, "1", "", true}}, tt.looks...) {
				node := &corev1.Node{Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: l.status, Message: "why", LastHeartbeatTime: metav1.NewTime(began)}}}}
				if got := w.observe(began.Add(l.after), node, l.report); got != l.want || w.since.Equal(began) != l.ready {
					t.Errorf("look %d: got %q, want %q; ready since %s", n, got, l.want, w.since)
				}
			}
		})
	}
}

// TestSuccessIsWhatTheKubeletSays: a change has succeeded when the kubelet has reported after it
// and its Node has stayed ready for a while.
func TestSuccessIsWhatTheKubeletSays(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name      string
		operation v1alpha1.Operation
		impact    config.Impact
		// then is what becomes of the kubelet when it is watched.
		then func(*fixture)
		// silent kubelets do not report after what is done right before that.
		silent bool
		// steady Nodes are not watched.
		steady bool
		want   string
	}{
		{"it reports and stays ready", reconfigureOperation(), config.ImpactDrain, nil, false, false, ""},
		{"nothing is to be done", reconfigureOperation(), "", nil, true, true, ""},
		{"it does not report any more", reconfigureOperation(), config.ImpactRestart, nil, true, true, "Its kubelet has not reported since the last change"},
		{"it does not report after a restart", rebootOperation(v1alpha1.RebootGraceful), "", nil, true, true, "Its kubelet has not reported since the last change"},
		{"the change concerns no pod", reconfigureOperation(), config.ImpactNone, nil, false, true, ""},
		{"it is ready for a moment", reconfigureOperation(), config.ImpactRestart, (*fixture).notReadyWhileWatched, false, false, "Node win-1 became ready and did not stay so for 30s: Ready is False: no network"},
		{"it is ready for a moment after a restart", rebootOperation(v1alpha1.RebootForce), "", (*fixture).notReadyWhileWatched, false, false, "Node win-1 became ready and did not stay so for 30s: Ready is False: no network"},
	} {
		inBubble(t, tt.name, func(t *testing.T) {
			f := newFixture(t, newInstance(tt.operation))
			f.configure()
			f.settle = DefaultSettle
			if f.host.impact = tt.impact; tt.impact == "" {
				f.host.is, f.host.recorded = "new", "new"
			}
			watched := false
			f.onWrite = func(after bool, i *v1alpha1.WindowsInstance) error {
				op := i.Status.Operation
				if before := running(op); tt.silent && after && (before == v1alpha1.StepConnect && op.Type == v1alpha1.OperationReconfigure || before == v1alpha1.StepMetadataRoute) {
					f.silent.Store(true)
				}
				if step := op.FindStep(v1alpha1.StepNodeReady); after && step != nil && step.State == v1alpha1.StepRunning {
					if strings.HasPrefix(op.Message, "Watching for 30s whether Node win-1 stays ready.") {
						watched = true
					} else if tt.then == nil {
						return nil
					}
					if tt.then != nil {
						tt.then(f)
					}
				}
				return nil
			}
			op := f.finish()
			if watched == tt.steady {
				t.Errorf("it was watched: %v", watched)
			}
			if tt.want == "" && op.Phase != v1alpha1.OperationSucceeded || tt.want != "" && (op.Phase != v1alpha1.OperationFailed || !strings.Contains(op.Message, tt.want)) {
				t.Errorf("it is %s: %s", op.Phase, op.Message)
			}
			if tt.want != "" && tt.operation.Reboot == nil && !f.node().Spec.Unschedulable {
				t.Error("pods may come to the host")
			}
		})
	}
}

// TestReportOfAKubeletThatWasStarted: a report counts that the kubelet which was restarted has made before anybody looked.
func TestReportOfAKubeletThatWasStarted(t *testing.T) {
	t.Parallel()
	began := time.Date(2026, 3, 14, 15, 9, 26, 535e6, time.UTC)
	at := func(seconds float64) time.Time { return began.Add(time.Duration(seconds * float64(time.Second))) }
	kubelet := func(started *time.Time) []api.Service {
		return []api.Service{{Name: "containerd", StartedAt: new(at(1))}, {Name: "Kubelet", StartedAt: started}}
	}
	for _, tt := range []struct {
		name      string
		services  []api.Service
		renewed   time.Time
		heartbeat time.Time
		now       time.Time
		want      bool
	}{
		{"it reports as soon as it runs", kubelet(new(at(3))), at(3.1), at(3.2), at(5), true},
		{"a heartbeat has whole seconds", kubelet(new(at(3))), at(3.1), at(3.2).Truncate(time.Second), at(5), true},
		{"the one before has reported", kubelet(new(at(3))), at(2.9), at(3.2), at(5), false},
		{"the one before has said that the Node is ready", kubelet(new(at(3))), at(3.1), at(1), at(5), false},
		{"it was not restarted", kubelet(new(at(-100))), at(3.1), at(3.2), at(5), false},
		{"it has renewed no Lease", kubelet(new(at(3))), time.Time{}, at(3.2), at(5), false},
		{"nobody knows since when it runs", kubelet(nil), at(3.1), at(3.2), at(5), false},
		{"there is none", kubelet(nil)[:1], at(3.1), at(3.2), at(5), false},
		{"it has not reported for a while", kubelet(new(at(3))), at(3.1), at(3.2), at(16), false},
		{"the clock was set back", kubelet(new(at(3))), at(3.1), at(3.2), at(1), false},
		{"the clock was set back after a Lease", kubelet(new(at(3))), at(3600), at(3.2), at(5), false},
		{"the clock was set back after a heartbeat", kubelet(new(at(3))), at(3.1), at(3600), at(5), false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			node := readyNode("uid")
			node.Status.Conditions[0].LastHeartbeatTime = metav1.NewTime(tt.heartbeat)
			r := kubeletReport{node: node, renewed: tt.renewed}
			now := &api.Facts{Time: api.TimeFacts{Now: tt.now}, Services: tt.services}
			age, got := r.ofKubeletStartedWithin(tt.now.Sub(began), now)
			if got != tt.want || got && age != tt.now.Sub(tt.renewed) {
				t.Errorf("got %t, %s old, want %t", got, age, tt.want)
			}
		})
	}
}

// TestKubeletReportsWhileTheHostIsChanged: a kubelet that was restarted, and has reported before anybody looks, need not
// report once more, which takes it ten seconds; after a restart of Windows its clock may be another one.
func TestKubeletReportsWhileTheHostIsChanged(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		// started is when the kubelet was, from the begin of the operation on. Its report is a second later.
		started time.Duration
		impact  config.Impact
		reboots int
		want    v1alpha1.OperationPhase
	}{
		{"it was restarted", time.Second, config.ImpactRestart, 0, v1alpha1.OperationSucceeded},
		{"it was not restarted", -time.Hour, config.ImpactRestart, 0, v1alpha1.OperationFailed},
		{"Windows was restarted", time.Second, config.ImpactReboot, 1, v1alpha1.OperationFailed},
	} {
		inBubble(t, tt.name, func(t *testing.T) {
			f := newFixture(t, newInstance(reconfigureOperation()))
			f.configure()
			f.host.impact, f.host.needsReboot, f.host.slow = tt.impact, tt.reboots, 10*time.Second
			started := time.Now().Add(tt.started)
			report := started.Add(time.Second)
			f.reports(report)
			f.kube.PrependReactor("get", "leases", func(clienttesting.Action) (bool, kruntime.Object, error) {
				return true, &coordinationv1.Lease{Spec: coordinationv1.LeaseSpec{RenewTime: new(metav1.NewMicroTime(report))}}, nil
			})
			f.host.services = []api.Service{{Name: "kubelet", StartType: "Automatic", State: "Running", StartedAt: &started}}
			began := time.Now()
			op := f.finish()
			if op.Phase != tt.want || tt.want == v1alpha1.OperationFailed && !strings.Contains(op.Message, "Its kubelet has not reported since") {
				t.Errorf("it is %s after %s: %s", op.Phase, time.Since(began), op.Message)
			}
		})
	}
}

// notReadyWhileWatched has the Node not ready as soon as somebody watches whether it stays so.
func (f *fixture) notReadyWhileWatched() {
	if !strings.HasPrefix(f.get().Status.Operation.Message, "Watching") {
		return
	}
	node := f.node()
	node.Status.Conditions[0].Status, node.Status.Conditions[0].Message = corev1.ConditionFalse, "no network"
	if _, err := f.kube.CoreV1().Nodes().UpdateStatus(f.t.Context(), node, metav1.UpdateOptions{}); err != nil {
		f.t.Error(err)
	}
}

// reports has the kubelet say when it last looked, also while the cluster is asked for something else.
func (f *fixture) reports(heartbeat time.Time) {
	f.editNode(func(node *corev1.Node) { node.Status.Conditions[0].LastHeartbeatTime = metav1.NewTime(heartbeat) })
}

// TestReadyAsBeforeTheRestart: that the Lease of a Node is renewed does not say that its pods run.
func TestReadyAsBeforeTheRestart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, newInstance(rebootOperation(v1alpha1.RebootForce)))
		f.reports(time.Now().Add(-time.Minute))
		op := f.finish()
		if want := "Its kubelet has not reported since the restart"; op.Phase != v1alpha1.OperationFailed || !strings.Contains(op.Message, want) {
			t.Errorf("it is %s: %s", op.Phase, op.Message)
		}
	})
}

// TestNodesThatAreWaitedFor: what a Node lacks is read from the cache, and the API server is asked for it when the cache says that it
// lacks nothing. So the many hosts of an update do not ask for their Nodes every few seconds.
func TestNodesThatAreWaitedFor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, newInstance(reconfigureOperation()))
		f.configure()
		f.host.impact, f.settle = config.ImpactRestart, 2*time.Minute
		before, reads, changed := 0, 0, time.Time{}
		f.kube.PrependReactor("get", "nodes", func(clienttesting.Action) (bool, kruntime.Object, error) {
			reads++
			return false, nil, nil
		})
		f.onWrite = func(after bool, i *v1alpha1.WindowsInstance) error {
			if after && before == 0 && strings.HasPrefix(i.Status.Operation.Message, "Watching for 2m0s") {
				before = reads
				changed = time.Now()
			}
			return nil
		}
		op := f.finish()
		step := op.FindStep(v1alpha1.StepNodeReady)
		if op.Phase != v1alpha1.OperationSucceeded || changed.IsZero() || step.FinishedAt.Sub(changed) < 110*time.Second {
			t.Errorf("it is %s, and watched from %s to %s: %s", op.Phase, changed, step.FinishedAt, op.Message)
		}
		if during := reads - before; during > 6 {
			t.Errorf("the Node was read %d times while it was watched and after it", during)
		}
	})
}

// TestCacheThatIsBehind: a cache that says of a Node what was true, or what it was before that, is neither a success nor a failure, and no report of the kubelet.
func TestCacheThatIsBehind(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		set    func(cached, live *corev1.Node)
		silent bool
		want   string
	}{
		{"it is not ready any more", func(_, live *corev1.Node) {
			live.Status.Conditions[0].Status, live.Status.Conditions[0].Message = corev1.ConditionFalse, "no network"
		}, false, "Ready is False: no network"},
		{"it is ready by now", func(cached, _ *corev1.Node) { cached.Status.Conditions[0].Status = corev1.ConditionFalse }, false, ""},
		{"the kubelet is silent", func(cached, _ *corev1.Node) {
			cached.Status.Conditions[0].LastHeartbeatTime = metav1.NewTime(cached.Status.Conditions[0].LastHeartbeatTime.Add(-time.Minute))
		}, true, "Its kubelet has not reported since the last change"},
	} {
		inBubble(t, tt.name, func(t *testing.T) {
			f := newFixture(t, newInstance(reconfigureOperation()))
			f.configure()
			f.host.impact = config.ImpactRestart
			f.silent.Store(tt.silent)
			live := f.node()
			f.editNode(func(cached *corev1.Node) { tt.set(cached, live) })
			f.kube.PrependReactor("get", "nodes", func(clienttesting.Action) (bool, kruntime.Object, error) { return true, live.DeepCopy(), nil })
			op := f.finish()
			if tt.want == "" && op.Phase != v1alpha1.OperationSucceeded || tt.want != "" && (op.Phase != v1alpha1.OperationFailed || !strings.Contains(op.Message, tt.want)) {
				t.Errorf("it is %s: %s", op.Phase, op.Message)
			}
		})
	}
}

// TestKubeletWithoutALease: what it says in its Node is enough.
func TestKubeletWithoutALease(t *testing.T) {
	t.Parallel()
	for name, lease := range map[string]*coordinationv1.Lease{"there is none": nil, "it was never renewed": {}} {
		inBubble(t, name, func(t *testing.T) {
			f := newFixture(t, newInstance(rebootOperation(v1alpha1.RebootForce)))
			asked := 0
			f.kube.PrependReactor("get", "leases", func(clienttesting.Action) (bool, kruntime.Object, error) {
				if asked++; asked > 1 {
					f.reports(time.Now().Add(time.Hour))
				}
				if lease == nil {
					return true, nil, apierrors.NewNotFound(coordinationv1.Resource("leases"), testNode)
				}
				return true, lease, nil
			})
			if op := f.finish(); op.Phase != v1alpha1.OperationSucceeded {
				t.Errorf("it is %s: %s", op.Phase, op.Message)
			}
		})
	}
}

// TestServiceStopsWhileItIsWatched: a Node looks ready for a while after a service of it has stopped, so
// that the time for which it has to stay so begins again.
func TestServiceStopsWhileItIsWatched(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, newInstance(reconfigureOperation()))
		f.configure()
		f.host.impact, f.settle = config.ImpactRestart, DefaultSettle
		var began, stopped time.Time
		f.onWrite = func(after bool, i *v1alpha1.WindowsInstance) error {
			if after && began.IsZero() && strings.HasPrefix(i.Status.Operation.Message, "Watching for 30s") {
				began = time.Now()
			}
			return nil
		}
		f.host.fail["Facts"] = func() error {
			f.host.services = nil
			if since := time.Since(began); !began.IsZero() && since > 10*time.Second && since < 40*time.Second {
				f.host.services = []api.Service{{Name: "containerd", StartType: "Automatic", State: "Stopped"}}
				stopped = time.Now()
			}
			return nil
		}
		op := f.finish()
		if ended := op.FindStep(v1alpha1.StepNodeReady).FinishedAt; op.Phase != v1alpha1.OperationSucceeded || stopped.IsZero() || ended.Time.Before(stopped.Add(DefaultSettle)) {
			t.Errorf("it is %s, a service did not run at %s, and it was watched until %s: %s", op.Phase, stopped, ended, op.Message)
		}
	})
}

// TestSettleThatOthersWaitFor: a pool may have its Nodes watched for long, but not while hosts of other pools wait for the slot.
func TestSettleThatOthersWaitFor(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		contested bool
		want      time.Duration
	}{"nobody waits": {false, 30 * time.Minute}, "others wait": {true, contestedSettle}} {
		inBubble(t, name, func(t *testing.T) {
			pool := &v1alpha1.WindowsNodePool{ObjectMeta: metav1.ObjectMeta{Namespace: testNamespace, Name: "p"}}
			pool.Spec.UpdateStrategy.RollingUpdate.SettleSeconds = new(int32(1800))
			f := newFixture(t, newInstance(reconfigureOperation(), inPool("p")), pool)
			f.configure()
			f.host.impact = config.ImpactRestart
			r, _ := f.process()
			f.policy.contested.Store(tt.contested)
			f.reconcile(r)
			op := f.waitForEnd()
			step := op.FindStep(v1alpha1.StepNodeReady)
			if took := step.FinishedAt.Sub(step.StartedAt.Time); op.Phase != v1alpha1.OperationSucceeded || took < tt.want || took > tt.want+5*time.Minute {
				t.Errorf("it is %s after %s: %s", op.Phase, took, op.Message)
			}
			if told := strings.Contains(step.Message, "It was watched for 10m0s in place of 30m0s"); told != tt.contested {
				t.Errorf("the step says %q", step.Message)
			}
		})
	}
}

// TestSettleOfThePool: for how long a Node is watched is what its pool says, also when that is less than the flag says, or nothing.
func TestSettleOfThePool(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		seconds *int32
		want    string
	}{"as the flag": {nil, "30s"}, "less": {new(int32(5)), "5s"}, "more": {new(int32(90)), "1m30s"}, "not at all": {new(int32(0)), ""}} {
		inBubble(t, name, func(t *testing.T) {
			pool := &v1alpha1.WindowsNodePool{ObjectMeta: metav1.ObjectMeta{Namespace: testNamespace, Name: "p"}}
			pool.Spec.UpdateStrategy.RollingUpdate.SettleSeconds = tt.seconds
			f := newFixture(t, newInstance(reconfigureOperation(), inPool("p")), pool)
			f.configure()
			f.host.impact, f.settle = config.ImpactRestart, DefaultSettle
			watched := ""
			f.onWrite = func(_ bool, i *v1alpha1.WindowsInstance) error {
				if rest, ok := strings.CutPrefix(i.Status.Operation.Message, "Watching for "); ok && watched == "" {
					watched, _, _ = strings.Cut(rest, " ")
				}
				return nil
			}
			if op := f.finish(); op.Phase != v1alpha1.OperationSucceeded || watched != tt.want {
				t.Errorf("it is %s, and the Node was watched for %q, want %q: %s", op.Phase, watched, tt.want, op.Message)
			}
		})
	}
}

// TestNodeIsDeletedMeanwhile: a kubelet that runs does not register its Node again when somebody deletes it, so that
// nothing is gained by waiting until the time is over.
func TestNodeIsDeletedMeanwhile(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		pool := &v1alpha1.WindowsNodePool{ObjectMeta: metav1.ObjectMeta{Namespace: testNamespace, Name: "p"}}
		pool.Spec.UpdateStrategy.RollingUpdate.SettleSeconds = new(int32(600))
		f := newFixture(t, newInstance(reconfigureOperation(), func(i *v1alpha1.WindowsInstance) { i.Spec.PoolRef = &v1alpha1.PoolReference{Name: "p"} }), pool)
		f.configure()
		f.host.impact = config.ImpactRestart
		r, _ := f.process()
		f.reconcile(r)
		f.eventually("its Node to be watched", func() bool {
			return strings.HasPrefix(f.get().Status.Operation.Message, "Watching for 10m0s")
		})
		if err := f.kube.CoreV1().Nodes().Delete(t.Context(), testNode, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		deleted := time.Now()
		op := f.waitForEnd()
		if op.Phase != v1alpha1.OperationFailed || !strings.Contains(op.Message, "the Node was deleted meanwhile") || op.FinishedAt.Sub(deleted) > registration+time.Minute {
			t.Errorf("it is %s after %s: %s", op.Phase, op.FinishedAt.Sub(deleted), op.Message)
		}
	})
}
