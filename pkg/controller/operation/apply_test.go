// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package operation

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/openshift/windows-instance-api/pkg/agent/api/config"
	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/controller/internal/leading"
)

// TestWhoDoesNotLeadChangesNothing: a process that was stopped for a while and goes on does
// nothing to a host that another one works on by now, and leaves the record to that.
func TestWhoDoesNotLeadChangesNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, newInstance(reconfigureOperation()))
		f.configure()
		r, _ := f.process()
		asked := make(chan struct{}, 100)
		r.Leads = func(context.Context) (bool, error) {
			asked <- struct{}{}
			return false, nil
		}
		f.reconcile(r)
		<-asked
		f.eventually("it to end", func() bool {
			running, waiting := r.runner.load()
			return running+waiting == 0
		})
		if wasApplied(f) {
			t.Error("the host was changed")
		}
		if op := f.get().Status.Operation; !op.Active() {
			t.Errorf("the operation of the other process is %s: %s", op.Phase, op.Message)
		}
	})
}

// TestWhoLeadsAgainGoesOn: what says who leads was wrong for a moment. The operation goes on in the same process, and can be canceled.
func TestWhoLeadsAgainGoesOn(t *testing.T) {
	t.Parallel()
	for _, canceled := range []bool{false, true} {
		inBubble(t, fmt.Sprintf("canceled: %v", canceled), func(t *testing.T) {
			f := newFixture(t, newInstance(reconfigureOperation()))
			f.configure()
			f.wakes = true
			r, _ := f.process()
			var asked atomic.Int32
			r.Leads = func(context.Context) (bool, error) { return asked.Add(1) > 3, nil }
			began := time.Now()
			f.reconcile(r)
			f.eventually("it to be asked", func() bool { return asked.Load() == 1 })
			if canceled {
				f.edit(func(i *v1alpha1.WindowsInstance) {
					i.Status.Operation.CancelRequestedBy, i.Status.Operation.CancelRequestedAt = "bob", new(metav1.Now())
				})
			}
			want := v1alpha1.OperationSucceeded
			if canceled {
				want = v1alpha1.OperationCanceled
			}
			if op := f.waitForEnd(); op.Phase != want {
				t.Errorf("the operation is %s: %s", op.Phase, op.Message)
			}
			if took := time.Since(began); took < 3*leading.AgainAfter {
				t.Errorf("it was asked who leads all the time: after %s it has ended", took)
			}
		})
	}
}

// TestDeletedLeaseEndsNoOperation: somebody deletes the Lease of the controllers, and the
// elector makes it again. Until then nobody knows who leads.
func TestDeletedLeaseEndsNoOperation(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, newInstance(reconfigureOperation()))
		f.configure()
		r, _ := f.process()
		var asked atomic.Int32
		r.Leads = func(context.Context) (bool, error) {
			if asked.Add(1) < 4 {
				return false, apierrors.NewNotFound(schema.GroupResource{Group: "coordination.k8s.io", Resource: "leases"}, "windows-controller")
			}
			return true, nil
		}
		f.reconcile(r)
		if op := f.waitForEnd(); op.Phase != v1alpha1.OperationSucceeded {
			t.Errorf("the operation is %s: %s", op.Phase, op.Message)
		}
	})
}

// TestWhoNoLongerLeadsLeavesTheRecord: a process that was stopped in the middle of a step and
// goes on must not write over what its successor has recorded, whatever became of the step.
func TestWhoNoLongerLeadsLeavesTheRecord(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		err  error
	}{
		{"the step succeeds", nil},
		{"the step fails", errNoLogin},
	} {
		inBubble(t, tt.name, func(t *testing.T) {
			f := newFixture(t, newInstance(reconfigureOperation()))
			f.configure()
			r, _ := f.process()
			var taken atomic.Bool
			r.Leads = func(context.Context) (bool, error) { return !taken.Load(), nil }
			const message = "The successor works on it."
			f.host.fail = map[string]func() error{"Login": func() error {
				if taken.CompareAndSwap(false, true) {
					f.edit(func(i *v1alpha1.WindowsInstance) { i.Status.Operation.Message = message })
				}
				return tt.err
			}}
			f.reconcile(r)
			f.eventually("it to end", func() bool {
				running, waiting := r.runner.load()
				return taken.Load() && running+waiting == 0
			})
			if op := f.get().Status.Operation; !op.Active() || op.Message != message {
				t.Errorf("the operation of the successor is %s: %s", op.Phase, op.Message)
			}
		})
	}
}

// TestFilesThatTrickle: a host to which files are sent for hours keeps its slot as long as no hosts of other pools wait for that, and for
// an hour otherwise. It was not disturbed by then.
func TestFilesThatTrickle(t *testing.T) {
	t.Parallel()
	for name, contested := range map[string]bool{"nobody waits": false, "others wait": true} {
		inBubble(t, name, func(t *testing.T) {
			f := newFixture(t, newInstance(reconfigureOperation(), inPool("pool")))
			f.configure()
			f.host.impact, f.host.needsFiles, f.host.trickles = config.ImpactDrain, true, 150
			r, _ := f.process()
			f.policy.contested.Store(contested)
			began := time.Now()
			f.reconcile(r)
			op := f.waitForEnd()
			if !contested {
				if op.Phase != v1alpha1.OperationSucceeded || time.Since(began) < 150*time.Minute {
					t.Errorf("it is %s after %s: %s", op.Phase, time.Since(began), op.Message)
				}
				return
			}
			if op.Phase != v1alpha1.OperationFailed || !strings.HasPrefix(op.Message, "Hosts of other pools wait for the slot of this one") || !strings.HasSuffix(op.Message, "The host was not changed.") {
				t.Errorf("it is %s: %s", op.Phase, op.Message)
			}
			if took := time.Since(began); took < contestedDrain || took > contestedDrain+5*time.Minute || f.node().Spec.Unschedulable || f.drain.runs > 0 {
				t.Errorf("it ended after %s; cordoned: %t", took, f.node().Spec.Unschedulable)
			}
		})
	}
}
