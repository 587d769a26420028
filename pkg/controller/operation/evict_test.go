// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package operation

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"

	"github.com/openshift/windows-instance-api/pkg/agent/api/config"
	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/drain"
)

// TestDrainOfAnotherNode: a drain that was interrupted goes on with the Node that it has cordoned. One that has got its name since is
// another one, whose pods stay.
func TestDrainOfAnotherNode(t *testing.T) {
	t.Parallel()
	for uid, want := range map[types.UID]v1alpha1.OperationPhase{"uid-of-node": v1alpha1.OperationSucceeded, "uid-of-the-former": v1alpha1.OperationFailed} {
		inBubble(t, string(uid), func(t *testing.T) {
			f := newFixture(t, newInstance(drainOperation(), func(i *v1alpha1.WindowsInstance) {
				op := i.Status.Operation
				op.Phase, op.StartedAt, op.Steps = v1alpha1.OperationRunning, new(metav1.Now()), newSteps(plan(op, true))
				op.Steps[0].State, op.Steps[0].StartedAt = v1alpha1.StepSucceeded, new(metav1.Now())
				op.Steps[1].State, op.Steps[1].StartedAt = v1alpha1.StepRunning, new(metav1.Now())
				op.Node = &v1alpha1.OperationNode{Name: testNode, UID: uid}
			}))
			if want == v1alpha1.OperationFailed {
				f.drain.err = fmt.Errorf("the pods of Node %s stay: %w", testNode, drain.ErrNodeReplaced)
			}
			op := f.finish()
			if op.Phase != want || f.drain.runs != 1 || f.drain.options.NodeUID != uid {
				t.Errorf("it is %s, and Node %s was drained %d times: %s", op.Phase, f.drain.options.NodeUID, f.drain.runs, op.Message)
			}
			if want == v1alpha1.OperationFailed && !strings.Contains(op.Message, "another has its name") {
				t.Errorf("it says %q", op.Message)
			}
		})
	}
}

// TestDrainAfterTrouble: a drain begins again after the API server was in trouble, also while its first report is written. Under the race
// detector it reads nothing that the write changes.
func TestDrainAfterTrouble(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, newInstance(reconfigureOperation()))
		f.configure()
		f.host.impact = config.ImpactDrain
		f.drain.err, f.drain.reports = apierrors.NewServiceUnavailable("etcd has no leader"), []drain.Progress{{Total: 1}, {Total: 1, Gone: 1}}
		f.drain.meanwhile = func() {
			f.drain.mu.Lock()
			defer f.drain.mu.Unlock()
			f.drain.err = nil // the next time
		}
		op := f.finish()
		if op.Phase != v1alpha1.OperationSucceeded || f.drain.ran() != 2 || f.drain.options.Extend == nil {
			t.Errorf("it is %s after %d drains, the last one with %+v: %s", op.Phase, f.drain.ran(), f.drain.options, op.Message)
		}
	})
}

// TestDrainWhoseBeginIsRecordedLate: a step begins when that is recorded, however long windows-apiserver was away. Its record says when it was to begin.
func TestDrainWhoseBeginIsRecordedLate(t *testing.T) {
	t.Parallel()
	const timeout, outage = 2 * time.Minute, 5 * time.Minute
	synctest.Test(t, func(t *testing.T) {
		op := drainOperation()
		op.Drain.TimeoutSeconds = new(int64(timeout / time.Second))
		f := newFixture(t, newInstance(op))
		var since time.Time
		f.onWrite = func(after bool, i *v1alpha1.WindowsInstance) error {
			if step := i.Status.Operation.FindStep(v1alpha1.StepEvict); after || step == nil || step.State != v1alpha1.StepRunning {
				return nil
			}
			if since.IsZero() {
				since = time.Now()
			}
			if time.Since(since) < outage {
				return apierrors.NewServiceUnavailable("windows-apiserver is away")
			}
			return nil
		}
		var left time.Duration
		f.drain.meanwhile = func() { left = time.Until(f.drain.options.Deadline) }
		if op := f.finish(); since.IsZero() || op.Phase != v1alpha1.OperationSucceeded || left <= timeout-time.Second || left > timeout {
			t.Errorf("it is %s, and the drain had %s: %s", op.Phase, left, op.Message)
		}
	})
}

// TestDrainAsksAboutTheNode: the cache may be behind, and what a kubelet is taken for cannot be taken back: its pods are killed, or not waited
// for. Only what the API server says, too, holds, for a while. A Node that was found lost a moment ago may have a kubelet that is well, and only could
// not say so while there was no API server: its pods are not killed.
func TestDrainAsksAboutTheNode(t *testing.T) {
	t.Parallel()
	lost, foundLost := lostFor(time.Hour), lostFor(10*time.Second)
	for _, tt := range []struct {
		name         string
		cached, live func(*corev1.Node) // nil: it is well
		fails        error
		// dead and unreachable is what it is taken for.
		dead, unreachable bool
		reads             int32
	}{
		{name: "it is well", live: lost},
		{name: "it is lost", cached: lost, live: lost, dead: true, unreachable: true, reads: 1},
		{name: "it was found lost a minute ago", cached: lostFor(61 * time.Second), live: lostFor(61 * time.Second), dead: true, unreachable: true, reads: 1},
		{name: "it was found lost just now", cached: foundLost, live: foundLost, dead: true, reads: 1},
		{name: "it was found lost, by a clock that is ahead", cached: lostFor(-20 * time.Second), live: lostFor(-20 * time.Second), dead: true, reads: 1},
		{name: "it was lost, came back, and was found lost just now", cached: lost, live: foundLost, dead: true, reads: 1},
		{name: "its kubelet is back, and the taint is still there", cached: isTainted, live: isTainted},
		{name: "it was lost", cached: lost, reads: 1},
		{name: "the API server does not answer", cached: lost, fails: apierrors.NewServiceUnavailable("etcd has no leader"), reads: 1},
	} {
		inBubble(t, tt.name, func(t *testing.T) {
			f := newFixture(t, newInstance(drainOperation()))
			var drains atomic.Bool
			var reads atomic.Int32
			f.kube.PrependReactor("get", "nodes", func(clienttesting.Action) (bool, kruntime.Object, error) {
				if !drains.Load() {
					return false, nil, nil
				}
				reads.Add(1)
				node := readyNode("uid-of-node")
				if tt.live != nil {
					tt.live(node)
				}
				return true, node, tt.fails
			})
			f.drain.err = &drain.TimeoutError{}
			f.drain.meanwhile = func() {
				if tt.cached != nil {
					f.editNode(tt.cached)
				}
				drains.Store(true)
				defer drains.Store(false)
				o := f.drain.options
				for n := range int32(2) {
					for range 10 {
						if dead, unreachable := o.Dead(), o.Unreachable(); dead != tt.dead || unreachable != tt.unreachable {
							t.Errorf("dead %t, unreachable %t, want %t, %t", dead, unreachable, tt.dead, tt.unreachable)
						}
					}
					if got, want := reads.Load(), tt.reads*(n+1); got != want {
						t.Errorf("the Node was read %d times, want %d", got, want)
					}
					time.Sleep(confirmedFor) //nolint:forbidigo // the time of the bubble
				}
			}
			if op := f.finish(); op.Phase != v1alpha1.OperationFailed || f.drain.runs != 1 {
				t.Fatalf("it is %s, drained %d times: %s", op.Phase, f.drain.runs, op.Message)
			}
		})
	}
}

// TestDrainAsksAgain: a Node that stays lost is unreachable from when it has been so for a minute, also if nothing happens to it then.
func TestDrainAsksAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, newInstance(drainOperation()))
		f.drain.err = &drain.TimeoutError{}
		f.drain.meanwhile = func() {
			f.editNode(lostFor(0))
			for waited := range 90 {
				if got, want := f.drain.options.Unreachable(), waited >= 60; got != want {
					t.Errorf("after %d s: unreachable %t", waited, got)
				}
				time.Sleep(time.Second) //nolint:forbidigo // the time of the bubble
			}
		}
		if op := f.finish(); op.Phase != v1alpha1.OperationFailed || f.drain.runs != 1 {
			t.Fatalf("it is %s, drained %d times: %s", op.Phase, f.drain.runs, op.Message)
		}
	})
}

// lostFor has the cluster have found out so long ago that it has lost a Node.
func lostFor(d time.Duration) func(*corev1.Node) {
	return func(node *corev1.Node) {
		isTainted(node)
		ready := &node.Status.Conditions[0]
		ready.Status, ready.LastTransitionTime = corev1.ConditionUnknown, metav1.NewTime(time.Now().Add(-d))
	}
}

func isTainted(node *corev1.Node) {
	node.Spec.Taints = []corev1.Taint{{Key: corev1.TaintNodeUnreachable, Effect: corev1.TaintEffectNoExecute}}
}
