// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package operation

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
	"github.com/openshift/windows-instance-api/pkg/agent/api/config"
	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/drain"
)

func newPool(change func(*v1alpha1.WindowsNodePool)) *v1alpha1.WindowsNodePool {
	pool := &v1alpha1.WindowsNodePool{ObjectMeta: metav1.ObjectMeta{Namespace: testNamespace, Name: "pool"}}
	change(pool)
	return pool
}

// TestDrainThatIsRun: Nodes are drained as who asked for it said, or else as their pool says, and the
// time counts from the begin of the step.
func TestDrainThatIsRun(t *testing.T) {
	t.Parallel()
	asked := &v1alpha1.DrainOptions{Force: true, PodSelector: "a=b", TimeoutSeconds: new(int64(100))}
	patient := newPool(func(p *v1alpha1.WindowsNodePool) {
		p.Spec.UpdateStrategy.Drain = v1alpha1.PoolDrainOptions{GracePeriodSeconds: new(int64(7)), TimeoutSeconds: new(int64(300))}
	})
	for _, tt := range []struct {
		name      string
		operation v1alpha1.Operation
		step      string
		change    change
		want      drain.Options
		// wantTimeout is after the begin of the step. 0: there is none.
		wantTimeout time.Duration
	}{
		{"a drain", v1alpha1.Operation{Type: v1alpha1.OperationDrain, Drain: asked}, v1alpha1.StepEvict, nil, drain.Options{IgnoreDaemonSets: true, Force: true, PodSelector: "a=b"}, 100 * time.Second},
		{
			"a drain without an end", v1alpha1.Operation{Type: v1alpha1.OperationDrain, Drain: &v1alpha1.DrainOptions{TimeoutSeconds: new(int64(0))}}, v1alpha1.StepEvict, nil,
			drain.Options{IgnoreDaemonSets: true}, 0,
		},
		{
			"a configuration", reconfigureOperation(), v1alpha1.StepDrain, nil,
			drain.Options{IgnoreDaemonSets: true, DeleteEmptyDirData: true, Force: true, GracePeriodSeconds: new(int64(7)), FieldPath: "pool pool, spec.updateStrategy.drain."}, 5 * time.Minute,
		},
		{
			"a removal", removeOperation(), v1alpha1.StepDrain, isBeingDeleted,
			drain.Options{IgnoreDaemonSets: true, DeleteEmptyDirData: true, Force: true, GracePeriodSeconds: new(int64(7)), FieldPath: "pool pool, spec.updateStrategy.drain."}, 5 * time.Minute,
		},
	} {
		inBubble(t, tt.name, func(t *testing.T) {
			changes := []change{inPool("pool"), configuredBefore}
			if tt.change != nil {
				changes = append(changes, tt.change)
			}
			f := newFixture(t, newInstance(tt.operation, changes...), patient.DeepCopy())
			f.configure()
			f.host.impact = config.ImpactDrain
			op := f.finish()
			want := tt.want
			if tt.wantTimeout > 0 {
				want.Deadline = op.FindStep(tt.step).StartedAt.Add(tt.wantTimeout)
			}
			got := f.drain.options
			if !got.Deadline.Equal(want.Deadline) {
				t.Errorf("until %s, want %s", got.Deadline, want.Deadline)
			}
			want.NodeUID = "uid-of-node"
			got.Deadline, want.Deadline, got.Extend, got.Dead, got.Unreachable = time.Time{}, time.Time{}, nil, nil, nil
			if fmt.Sprint(grace(got)) != fmt.Sprint(grace(want)) {
				t.Errorf("got %+v, want %+v", got, want)
			}
		})
	}
}

// grace has the grace period as a value, for comparison.
func grace(o drain.Options) (drain.Options, string) {
	text := "none"
	if o.GracePeriodSeconds != nil {
		text = fmt.Sprint(*o.GracePeriodSeconds)
	}
	o.GracePeriodSeconds = nil
	return o, text
}

// TestPodsThatWereDrained: what the drain leaves behind is in the message of its step.
func TestPodsThatWereDrained(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		last drain.Progress
		want string
	}{
		{drain.Progress{Total: 3, Gone: 3}, "Pods that left: 3."},
		{drain.Progress{Total: 3, Gone: 2, Abandoned: 1}, "Pods that left: 3. 1 pod took too long to be deleted and was not waited for."},
		{drain.Progress{Total: 3, Gone: 1, Abandoned: 2}, "Pods that left: 3. 2 pods took too long to be deleted and were not waited for."},
		{drain.Progress{Total: 1, Gone: 1, Staying: []string{"a/b", "a/c"}}, "Pods that left: 1. Pods that came later and tolerate the cordon: 2."},
	} {
		inBubble(t, tt.want, func(t *testing.T) {
			f := newFixture(t, newInstance(drainOperation()))
			f.drain.reports = []drain.Progress{{Total: tt.last.Total}, tt.last}
			if got := f.finish().FindStep(v1alpha1.StepEvict).Message; got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

// TestDrainThatIsTakenOver: pods that left before are counted, and those of an earlier step are not.
func TestDrainThatIsTakenOver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, newInstance(drainOperation(), takenOverAt(v1alpha1.StepEvict, ""), func(i *v1alpha1.WindowsInstance) {
			i.Status.Operation.Progress = &v1alpha1.OperationProgress{Done: 4, Total: 6, Unit: "pods"}
		}))
		f.drain.reports = []drain.Progress{{Total: 2}, {Total: 2, Gone: 2}}
		op := f.finish()
		if got := op.FindStep(v1alpha1.StepEvict).Message; got != "Pods that left: 6." || !strings.HasSuffix(op.Message, "its pods have left: 6.") {
			t.Errorf("got %q and %q", got, op.Message)
		}
	})
}

// TestNotBegun: what cannot or must not be done says so before anything is touched.
func TestNotBegun(t *testing.T) {
	t.Parallel()
	pausedPool := newPool(func(p *v1alpha1.WindowsNodePool) { p.Spec.Paused = true })
	otherNode := func(i *v1alpha1.WindowsInstance) { i.Status.Node.UID = "another" }
	for _, tt := range []struct {
		name      string
		operation v1alpha1.Operation
		change    change
		others    []client.Object
		want      string
	}{
		{"a type of a later version", v1alpha1.Operation{Type: "Defragment"}, nil, nil, "This version of the controller does not know operations of type Defragment."},
		{"a mode of a later version", rebootOperation("Softly"), nil, nil, "This version of the controller does not know operations of type Reboot."},
		{"its pool is paused", rebootOperation(v1alpha1.RebootForce), inPool("pool"), []client.Object{pausedPool}, "so the controller does nothing on the host. Set it to false, and ask again."},
		{"another Node has its name", drainOperation(), otherNode, nil, "The host has no Node: "},
		{"another Node has its name, uncordon", v1alpha1.Operation{Type: v1alpha1.OperationUncordon}, otherNode, nil, "The host has no Node: "},
	} {
		inBubble(t, tt.name, func(t *testing.T) {
			changes := []change{}
			if tt.change != nil {
				changes = append(changes, tt.change)
			}
			f := newFixture(t, newInstance(tt.operation, changes...), tt.others...)
			op := f.finish()
			if op.Phase != v1alpha1.OperationFailed || !strings.Contains(op.Message, tt.want) || len(f.host.asked) > 0 || f.requests("patch Node") > 0 {
				t.Errorf("it is %s, asked %v: %s", op.Phase, f.host.asked, op.Message)
			}
		})
	}
	inBubble(t, "a step of a later version", func(t *testing.T) {
		f := newFixture(t, newInstance(rebootOperation(v1alpha1.RebootForce), takenOverAt(v1alpha1.StepConnect, ""), func(i *v1alpha1.WindowsInstance) {
			i.Status.Operation.Steps[0].Name = "Defragment"
		}))
		if op := f.finish(); op.Phase != v1alpha1.OperationFailed || !strings.Contains(op.Message, "does not know the step Defragment") {
			t.Errorf("it is %s: %s", op.Phase, op.Message)
		}
	})
}

// TestErrorsOfTheServer: what passes is waited for, and what the API server says clearly is not.
func TestErrorsOfTheServer(t *testing.T) {
	nodes, instance := corev1.Resource("nodes"), schema.GroupKind{Kind: "WindowsInstance"}
	for _, tt := range []struct {
		name        string
		err         error
		over, final bool
	}{
		{"it is over", errOver, true, true},
		{"invalid", apierrors.NewInvalid(instance, "a", nil), true, true},
		{"a bad request", apierrors.NewBadRequest("no"), true, true},
		{"not found", apierrors.NewNotFound(nodes, "a"), false, true},
		{"the API is not served", apierrors.NewGenericServerResponse(404, "GET", nodes, "a", "404 page not found", 0, true), false, false},
		{"forbidden", apierrors.NewForbidden(nodes, "a", errors.New("no")), false, true},
		{"a conflict", apierrors.NewConflict(nodes, "a", errors.New("no")), false, false},
		{"final, whatever it is", fmt.Errorf("draining: %w", finalError{errors.New("no")}), false, true},
		{"away", errors.New("connection refused"), false, false},
	} {
		if over, final := isOver(tt.err), isFinal(tt.err); over != tt.over || final != tt.final {
			t.Errorf("%s: over %v, final %v", tt.name, over, final)
		}
	}
}

// TestAsk: a host is asked again while it cannot be reached and there is time, and each question ends.
func TestAsk(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		err  error
		time time.Duration // 0: it is over at once
		want int
	}{
		{"it answers", nil, time.Minute, 1},
		{"it says no", errNoLogin, time.Minute, 1},
		{"it is away", errRefusedPort, 10 * time.Second, 4},
		{"it is away, and there is no time", errRefusedPort, 0, 1},
	} {
		inBubble(t, tt.name, func(t *testing.T) {
			f := newFixture(t, newInstance(drainOperation()))
			asked, until := 0, time.Time{}
			if tt.time > 0 {
				until = time.Now().Add(tt.time)
			}
			_, err := ask(t.Context(), f.clock, until, time.Minute, func(ctx context.Context) (int, error) {
				asked++
				if left, ok := ctx.Deadline(); !ok || time.Until(left) != time.Minute {
					t.Errorf("the question has until %s", left)
				}
				return 0, tt.err
			})
			if !errors.Is(err, tt.err) || asked != tt.want {
				t.Errorf("got %v after %d questions", err, asked)
			}
		})
	}
	inBubble(t, "it was canceled", func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(errCanceled)
		if _, err := ask(ctx, newFixture(t, newInstance(drainOperation())).clock, time.Time{}, time.Minute, func(context.Context) (int, error) { return 1, nil }); !errors.Is(err, errCanceled) {
			t.Errorf("got %v", err)
		}
	})
}

// TestWaitUntil: who could not look for a while gets time for another look, and a deadline is one.
func TestWaitUntil(t *testing.T) {
	t.Parallel()
	for outage, want := range map[time.Duration]time.Duration{
		0: 10 * time.Minute, 20 * time.Second: 10 * time.Minute, 70 * time.Second: 10*time.Minute + 70*time.Second, time.Hour: time.Hour + fullAttempt,
	} {
		inBubble(t, outage.String(), func(t *testing.T) {
			f := newFixture(t, newInstance(rebootOperation(v1alpha1.RebootForce)))
			e := f.running(v1alpha1.StepBoot)
			began, away := time.Now(), outage
			err := e.waitUntil(t.Context(), began.Add(10*time.Minute), "Waiting.", func(context.Context) (string, error) {
				<-time.After(away)
				away = 0
				return "it is away", nil
			})
			if took := time.Since(began); err == nil || err.Error() != "it is away" || took < want || took > want+pollInterval {
				t.Errorf("got %v after %s, want %s", err, took, want)
			}
			if got := f.get().Status.Operation.Message; got != "Waiting. It is away." {
				t.Errorf("it says %q", got)
			}
		})
	}
}

// TestWaitUntilSlowHost: a host that takes long to answer whenever it is asked is not waited for without end.
func TestWaitUntilSlowHost(t *testing.T) {
	t.Parallel()
	inBubble(t, "slow", func(t *testing.T) {
		f := newFixture(t, newInstance(rebootOperation(v1alpha1.RebootForce)))
		e := f.running(v1alpha1.StepBoot)
		began := time.Now()
		err := e.waitUntil(t.Context(), began.Add(10*time.Minute), "Waiting.", func(context.Context) (string, error) {
			<-time.After(45 * time.Second)
			return "it is slow", nil
		})
		if took := time.Since(began); err == nil || took < 10*time.Minute+fullAttempt || took > 11*time.Minute+fullAttempt {
			t.Errorf("got %v after %s", err, took)
		}
	})
}

// TestAfterTheRestart: who cancels a configuration is not told of a restart that is over.
func TestAfterTheRestart(t *testing.T) {
	t.Parallel()
	for step, asked := range map[string]bool{v1alpha1.StepBoot: true, v1alpha1.StepFinish: false} {
		inBubble(t, step, func(t *testing.T) {
			f := newFixture(t, newInstance(reconfigureOperation(), takenOverAt(step, v1alpha1.ImpactReboot), func(i *v1alpha1.WindowsInstance) {
				op := i.Status.Operation
				op.BootID, op.CancelRequestedBy, op.CancelRequestedAt = "boot-0", "bob", new(metav1.Now())
			}))
			f.configure()
			op := f.finish()
			if op.Phase != v1alpha1.OperationCanceled || strings.Contains(op.Message, "It was asked to restart.") != asked || !strings.Contains(op.Message, "half way") || op.BootID != "boot-0" {
				t.Errorf("it is %s, boot ID %q: %s", op.Phase, op.BootID, op.Message)
			}
		})
	}
}

// TestFailuresSayWhatIsLeft: each kind of operation tells what its failure leaves, and no other.
func TestFailuresSayWhatIsLeft(t *testing.T) {
	t.Parallel()
	step := func() *api.Result {
		return &api.Result{Outcome: api.OutcomeFailed, Reason: api.ReasonStep, Error: "why"}
	}
	for _, tt := range []struct {
		name      string
		operation v1alpha1.Operation
		set       func(*fixture)
		want      string
	}{
		{"a drain", drainOperation(), func(f *fixture) { f.drain.err = &drain.TimeoutError{Total: 1, Pods: []string{"a/b"}} }, " Node win-1 stays cordoned: drain again, or uncordon it."},
		{"a reboot", rebootOperation(v1alpha1.RebootGraceful), func(f *fixture) { f.failWith("BootID", errNoLogin) }, " The host was not restarted. Node win-1 stays cordoned: repair what is wrong, then reboot again or uncordon it."},
		{"a removal", removeOperation(), func(f *fixture) { f.host.result = step }, ": why. Node win-1 stays cordoned because its host is being removed."},
		{"a configuration", reconfigureOperation(), func(f *fixture) { f.host.result = step }, ": why. Node win-1 stays cordoned until the host is reconfigured with success."},
		{"a configuration of a Node that others cordoned", reconfigureOperation(), func(f *fixture) { f.host.result = step; f.cordonByHand() }, ": why. Node win-1 stays cordoned, as it was before."},
		{"a configuration whose Node is gone", reconfigureOperation(), func(f *fixture) {
			f.host.fail["Apply"] = func() error {
				node := f.node()
				node.UID = "another"
				f.updateNode(node)
				return nil
			}
			f.host.result = step
		}, ": why."},
	} {
		inBubble(t, tt.name, func(t *testing.T) {
			changes := []change{configuredBefore}
			if tt.operation.Type == v1alpha1.OperationRemove {
				changes = append(changes, isBeingDeleted)
			}
			f := newFixture(t, newInstance(tt.operation, changes...))
			f.configure()
			f.host.impact = config.ImpactRestart
			tt.set(f)
			if op := f.finish(); op.Phase != v1alpha1.OperationFailed || !strings.HasSuffix(op.Message, tt.want) || strings.Contains(op.Message, "was not restarted") != (tt.name == "a reboot") {
				t.Errorf("it is %s: %s", op.Phase, op.Message)
			}
		})
	}
}
