// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package operation

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/clock"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
	"github.com/openshift/windows-instance-api/pkg/agent/api/config"
	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/drain"
)

// Operations go on when hosts can be connected to, and not before: that is no failure of a host.
func TestOperationsWaitUntilHostsCanBeReached(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, newInstance(drainOperation()))
		known := make(chan struct{})
		f.ready = func(ctx context.Context) error {
			select {
			case <-known:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		r, stop := f.process()
		f.reconcile(r)
		synctest.Wait()
		if op := f.get().Status.Operation; op.Phase != v1alpha1.OperationPending {
			t.Errorf("it is %s", op.Phase)
		}
		stop()
		r, stop = f.process()
		defer stop()
		f.reconcile(r)
		close(known)
		if op := f.waitForEnd(); op.Phase != v1alpha1.OperationSucceeded {
			t.Errorf("it is %s: %s", op.Phase, op.Message)
		}
	})
}

// TestDeadline: time goes by while nobody works, and then there is enough for one attempt.
func TestDeadline(t *testing.T) {
	began := time.Date(2026, 3, 14, 15, 9, 26, 0, time.UTC)
	for _, tt := range []struct {
		name    string
		resumed time.Duration // after began. -1: not at all.
		before  bool          // it was begun by another execution
		timeout time.Duration
		want    time.Duration
		lost    []time.Duration // after began: from and until
	}{
		{"it worked all the time", -1, false, time.Hour, time.Hour, nil},
		{"taken over early", time.Minute, true, time.Hour, time.Hour, nil},
		{"taken over at the end", 59 * time.Minute, true, time.Hour, 61 * time.Minute, nil},
		{"taken over long after", 5 * time.Hour, true, time.Hour, 5*time.Hour + 2*time.Minute, nil},
		{"begun in the future, by a clock that was wrong", -5 * time.Hour, true, time.Hour, -4 * time.Hour, nil},
		{"begun long after it was taken over", -5 * time.Hour, false, time.Hour, time.Hour, nil},
		{"the time is short", 5 * time.Hour, true, time.Second, 5*time.Hour + time.Second, nil},
		{"its record was away", -1, false, time.Hour, 75 * time.Minute, []time.Duration{-20 * time.Minute, -10 * time.Minute, -2 * time.Minute, 10 * time.Minute, 20 * time.Minute, 25 * time.Minute}},
		{"taken over, and its record was away", time.Minute, true, time.Hour, 65 * time.Minute, []time.Duration{20 * time.Minute, 25 * time.Minute}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			e := &execution{}
			if tt.resumed != -1 {
				e.resumed = began.Add(tt.resumed)
			}
			if tt.before {
				e.found = newSteps([]string{v1alpha1.StepBoot})
				begin(&e.found[0], began)
			}
			for l := tt.lost; len(l) > 0; l = l[2:] {
				e.lost = append(e.lost, span{began.Add(l[0]), began.Add(l[1])})
			}
			if got := e.deadline(began, tt.timeout).Sub(began); got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}

// TestStepAfterATakeover: a step that begins long after another process took the operation over has all of its time.
func TestStepAfterATakeover(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, newInstance(rebootOperation(v1alpha1.RebootGraceful), begunAt(v1alpha1.StepCordon), func(i *v1alpha1.WindowsInstance) { i.Status.Operation.BootID = "" }))
		f.drain.meanwhile = func() {
			time.Sleep(v1alpha1.DefaultRebootTimeoutSeconds*time.Second + 10*time.Minute) //nolint:forbidigo // the time of the bubble
		}
		f.host.down = 3
		if op := f.finish(); op.Phase != v1alpha1.OperationSucceeded || f.host.restarts() != 1 {
			t.Errorf("it is %s, restarted %d times: %s", op.Phase, f.host.restarts(), op.Message)
		}
	})
}

// TestRestartThatIsRecordedLate: a host has all of its time to restart, however long the boot to end could not be recorded.
func TestRestartThatIsRecordedLate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, newInstance(rebootOperation(v1alpha1.RebootGraceful)))
		var since time.Time
		f.onWrite = func(after bool, i *v1alpha1.WindowsInstance) error {
			if after || i.Status.Operation.BootID == "" {
				return nil
			}
			if since.IsZero() {
				since = time.Now()
			}
			if time.Since(since) < v1alpha1.DefaultRebootTimeoutSeconds*time.Second+10*time.Minute {
				return apierrors.NewServiceUnavailable("windows-apiserver is away")
			}
			return nil
		}
		f.host.down = 3
		if op := f.finish(); since.IsZero() || op.Phase != v1alpha1.OperationSucceeded || f.host.restarts() != 1 {
			t.Errorf("it is %s, restarted %d times: %s", op.Phase, f.host.restarts(), op.Message)
		}
	})
}

// begunAt has an operation be interrupted in a step, a day ago.
func begunAt(running string) change {
	return func(i *v1alpha1.WindowsInstance) {
		yesterday := new(metav1.NewTime(time.Now().Add(-24 * time.Hour)))
		op := i.Status.Operation
		op.Phase, op.StartedAt, op.Steps = v1alpha1.OperationRunning, yesterday, newSteps(plan(op, true))
		op.Node, op.BootID = &v1alpha1.OperationNode{Name: testNode, UID: "uid-of-node"}, "boot-0"
		for n := range op.Steps {
			op.Steps[n].StartedAt, op.Steps[n].State = yesterday, v1alpha1.StepSucceeded
			if op.Steps[n].Name == running {
				op.Steps[n].State = v1alpha1.StepRunning
				break
			}
		}
	}
}

// TestTakenOverLongAfter: what happened while no controller ran counts as success.
func TestTakenOverLongAfter(t *testing.T) {
	t.Parallel()
	for _, running := range []string{v1alpha1.StepDrain, v1alpha1.StepBoot, v1alpha1.StepNodeReady} {
		inBubble(t, running, func(t *testing.T) {
			f := newFixture(t, newInstance(rebootOperation(v1alpha1.RebootGraceful), begunAt(running)))
			left := 3
			f.host.fail["BootID"] = func() error {
				if left--; left >= 0 {
					return errRefusedPort
				}
				return nil
			}
			if op := f.finish(); op.Phase != v1alpha1.OperationSucceeded {
				t.Errorf("it is %s: %s", op.Phase, op.Message)
			}
			if running == v1alpha1.StepDrain && !f.drain.options.Deadline.After(time.Now()) {
				t.Errorf("the drain had until %s", f.drain.options.Deadline)
			}
		})
	}
}

// TestDrainAfterAnOutage: an API server that was away for all of the time of a drain leaves
// time for one more attempt, and not for ever.
func TestDrainAfterAnOutage(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := clock.RealClock{}
		o := drain.Options{Deadline: c.Now().Add(-time.Hour)}
		away := errors.New("connection refused")
		var deadlines []time.Time
		if err := retryDrain(t.Context(), c, o, func(o drain.Options) error {
			if deadlines = append(deadlines, o.Deadline); len(deadlines) == 1 {
				return away
			}
			return nil
		}); err != nil || len(deadlines) != 2 || !deadlines[1].After(c.Now()) {
			t.Errorf("got %v after attempts until %v", err, deadlines)
		}
		err := retryDrain(t.Context(), c, o, func(drain.Options) error { return away })
		if !errors.Is(err, away) {
			t.Errorf("an outage that goes on: got %v", err)
		}
	})
}

// TestJoinWithoutAnAPI: a host that becomes a Node while our API cannot record that gets the time that the API was away.
func TestJoinWithoutAnAPI(t *testing.T) {
	t.Parallel()
	for outage, want := range map[time.Duration]v1alpha1.OperationPhase{12 * time.Minute: v1alpha1.OperationSucceeded, 0: v1alpha1.OperationFailed} {
		inBubble(t, outage.String(), func(t *testing.T) {
			f := newFixture(t, newInstance(reconfigureOperation(), withoutNode))
			f.configure()
			f.host.impact, f.host.is = config.ImpactRestart, ""
			f.registers()
			var mu sync.Mutex
			var back time.Time // guarded by mu. Zero: it is there
			away := func() error {
				mu.Lock()
				defer mu.Unlock()
				if time.Now().Before(back) {
					return apierrors.NewServiceUnavailable("it is away")
				}
				return nil
			}
			f.onRead = away
			f.onWrite = func(after bool, i *v1alpha1.WindowsInstance) error {
				mu.Lock()
				step := i.Status.Operation.FindStep(v1alpha1.StepJoin)
				begins := after && back.IsZero() && step != nil && step.State == v1alpha1.StepRunning
				if begins {
					back = time.Now().Add(outage)
				}
				mu.Unlock()
				if begins {
					time.AfterFunc(12*time.Minute+time.Minute, func() {
						f.edit(func(i *v1alpha1.WindowsInstance) {
							i.Status.Node = &v1alpha1.NodeReference{Name: testNode, UID: "uid-of-node"}
						})
					})
				}
				if !after {
					return away()
				}
				return nil
			}
			f.host.onApplied = func(string) {
				f.host.certificate = &api.KubeletCertificate{}
				_, _ = f.kube.CoreV1().Nodes().Create(context.Background(), readyNode("uid-of-node"), metav1.CreateOptions{})
			}
			if op := f.finish(); op.Phase != want {
				t.Errorf("it is %s, want %s: %s", op.Phase, want, op.Message)
			}
		})
	}
}

// TestDrainWhoseEndIsInAnOutage: pods that left while the API server was away, from before the deadline of their drain until after it, have left.
func TestDrainWhoseEndIsInAnOutage(t *testing.T) {
	t.Parallel()
	for _, timeout := range []time.Duration{10 * time.Minute, 2 * time.Minute} {
		inBubble(t, timeout.String(), func(t *testing.T) {
			began, pods := time.Now(), corev1.SchemeGroupVersion.WithResource("pods")
			kube := fake.NewClientset(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "uid-of-web"}, Spec: corev1.PodSpec{NodeName: testNode}})
			kube.PrependReactor("list", "pods", func(clienttesting.Action) (bool, kruntime.Object, error) {
				at := time.Since(began)
				return at >= timeout-time.Minute && at < timeout+70*time.Second, nil, apierrors.NewServiceUnavailable("etcd has no leader")
			})
			kube.PrependWatchReactor("pods", func(clienttesting.Action) (bool, watch.Interface, error) { return true, watch.NewFake(), nil })
			kube.PrependReactor("delete", "pods", func(clienttesting.Action) (bool, kruntime.Object, error) { return true, nil, nil }) // it takes its time
			time.AfterFunc(timeout-time.Second, func() {
				if err := kube.Tracker().Delete(pods, "shop", "web"); err != nil {
					t.Error(err)
				}
			})
			var last drain.Progress
			o := drain.Options{Deadline: began.Add(timeout), Force: true, DisableEviction: true, IgnoreDaemonSets: true}
			err := retryDrain(t.Context(), clock.RealClock{}, o, func(o drain.Options) error {
				return drain.New(kube).Run(t.Context(), testNode, o, func(p drain.Progress) { last = p })
			})
			if took := time.Since(began); err != nil || last.Left() != 0 || took < timeout+70*time.Second || took > timeout+fullAttempt {
				t.Errorf("got %v and %+v after %s", err, last, took)
			}
		})
	}
}

// TestRecordThatIsRefused: an operation whose record cannot be written is taken up again when it
// can, and can be canceled.
func TestRecordThatIsRefused(t *testing.T) {
	t.Parallel()
	for _, canceled := range []bool{false, true} {
		inBubble(t, map[bool]string{false: "it is written later", true: "it is canceled"}[canceled], func(t *testing.T) {
			f := newFixture(t, newInstance(rebootOperation(v1alpha1.RebootForce)))
			var refused atomic.Int32
			var ends []time.Time // that were refused
			f.onWrite = func(after bool, i *v1alpha1.WindowsInstance) error {
				op := i.Status.Operation
				if after || !canceled && refused.Load() > 2 || op.Phase == v1alpha1.OperationCanceled && len(ends) == 3 {
					return nil
				}
				if op.Phase == v1alpha1.OperationCanceled {
					ends = append(ends, time.Now())
				}
				refused.Add(1)
				return apierrors.NewInvalid(schema.GroupKind{Kind: "WindowsInstance"}, i.Name, nil)
			}
			r, stop := f.process()
			f.reconcile(r)
			f.eventually("the record to be refused", func() bool { return refused.Load() > 1 })
			want := v1alpha1.OperationSucceeded
			if canceled {
				want = v1alpha1.OperationCanceled
				f.edit(func(i *v1alpha1.WindowsInstance) {
					i.Status.Operation.CancelRequestedBy, i.Status.Operation.CancelRequestedAt = "bob", new(metav1.Now())
				})
				f.reconcile(r)
			}
			if op := f.waitForEnd(); op.Phase != want || canceled && !strings.Contains(op.Message, "Nothing was changed") {
				t.Errorf("it is %s: %s", op.Phase, op.Message)
			}
			stop()
			for n := 1; n < len(ends); n++ { // it is not tried as fast as that is possible
				if pause := ends[n].Sub(ends[n-1]); pause < rerunBackoff.Duration {
					t.Errorf("tried again after %s", pause)
				}
			}
		})
	}
}

// TestSleepUnless: a cancellation is not slept through, and neither is the end of the process.
func TestSleepUnless(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		closed := make(chan struct{})
		close(closed)
		if !sleepUnless(t.Context(), clock.RealClock{}, 100*time.Hour, closed) {
			t.Error("it was closed")
		}
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		if sleepUnless(ended, clock.RealClock{}, 100*time.Hour, nil) {
			t.Error("it was not closed")
		}
	})
}
