// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package rollout

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
)

// TestOneThatCannotBeWritten: nothing can be written about one host, which keeps neither a host of another namespace nor, for long, a
// slot. It gets its own once that is over. Where nobody knows whether it was written, it has the slot for a minute.
func TestOneThatCannotBeWritten(t *testing.T) {
	denied := apierrors.NewForbidden(v1alpha1.Resource("windowsinstances"), "a", errors.New("admission webhook denied it"))
	for _, tt := range []struct {
		name    string
		fails   error
		slots   int
		unclear bool
	}{
		{"a webhook, one slot", denied, 1, false},
		{"a webhook, two slots", denied, 2, false},
		{"too long an object", apierrors.NewInvalid(v1alpha1.Kind("WindowsInstance"), "a", nil), 1, false},
		{"no answer, one slot", errors.New("read tcp 10.128.0.5:45321->10.0.0.1:443: connection reset"), 1, true},
		{"no answer, two slots", apierrors.NewInternalError(errors.New("etcdserver: request timed out")), 2, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				other := needsUpdate("b")
				other.Namespace = "other"
				f := newScheduled(t, map[string]v1alpha1.ChangeImpact{"a": v1alpha1.ImpactDrain, "b": v1alpha1.ImpactDrain}, needsUpdate("a"), other)
				now := clocktesting.NewFakePassiveClock(time.Now())
				f.clock, f.Disruptions = now, tt.slots
				f.failing = map[string]error{"a": tt.fails}
				f.pass()
				if _, err := f.Reconcile(t.Context(), reconcile.Request{}); err == nil || !errors.Is(err, tt.fails) {
					t.Fatalf("got %v", err)
				}
				if op := f.operationIn("other", "b"); (op != nil) != (tt.slots == 2) {
					t.Fatalf("b has %+v in the same pass", op)
				}
				result := f.pass()
				if got := f.blockedBy(poolKey{"ns", "p"}).text; !tt.unclear && (!strings.HasPrefix(got, "a: Nothing can be written into its status: "+tt.fails.Error()) || result.RequeueAfter == 0) {
					t.Errorf("blocked by %q, again after %s", got, result.RequeueAfter)
				}
				if op := f.operationIn("other", "b"); (op != nil) != (tt.slots == 2 || !tt.unclear) {
					t.Fatalf("b has %+v in the next pass", op)
				}
				if tt.unclear && (result.RequeueAfter == 0 || result.RequeueAfter > unclearFor) {
					t.Errorf("the next pass is after %s", result.RequeueAfter)
				}
				now.SetTime(now.Now().Add(unclearFor))
				if _, err := f.Reconcile(t.Context(), reconcile.Request{}); err != nil && tt.unclear {
					t.Fatalf("it is tried again too soon: %v", err)
				}
				if op := f.operationIn("other", "b"); op == nil {
					t.Fatal("b waits for good")
				}
				f.failing = nil
				f.Disruptions = 2
				now.SetTime(now.Now().Add(refusedBackoff.Cap))
				f.pass()
				if f.pass(); f.operation("a") == nil || len(f.refused) > 0 {
					t.Errorf("a has no operation: %s; %v", f.blockedBy(poolKey{"ns", "p"}).text, f.refused)
				}
			})
		})
	}
}

// TestRefusedIsGone: what was refused of an instance that is gone is forgotten.
func TestRefusedIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := needsUpdate("a")
		f := newScheduled(t, map[string]v1alpha1.ChangeImpact{"a": v1alpha1.ImpactDrain}, a)
		f.failing = map[string]error{"a": apierrors.NewBadRequest("no")}
		f.pass()
		if _, err := f.Reconcile(t.Context(), reconcile.Request{}); err == nil || len(f.refused) != 1 {
			t.Fatalf("got %v", err)
		}
		if err := f.client.Delete(t.Context(), a); err != nil {
			t.Fatal(err)
		}
		if f.pass(); len(f.refused) > 0 {
			t.Errorf("got %v", f.refused)
		}
	})
}

// TestWrittenAfterAll: what had no answer was written all the same. The host is not kept from what is next, and nothing else is said of it.
func TestWrittenAfterAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newScheduled(t, map[string]v1alpha1.ChangeImpact{"a": v1alpha1.ImpactDrain}, needsUpdate("a"))
		f.clock = clocktesting.NewFakePassiveClock(time.Now())
		f.pass()
		f.late = errors.New("read tcp 10.128.0.5:45321->10.0.0.1:443: connection reset")
		if _, err := f.Reconcile(t.Context(), reconcile.Request{}); !errors.Is(err, f.late) || len(f.refused) != 1 {
			t.Fatalf("got %v", err)
		}
		f.late = nil
		if f.pass(); len(f.refused) > 0 || f.operation("a") == nil || f.blockedBy(poolKey{"ns", "p"}).text != "" {
			t.Errorf("got %v, and the pool says %q", f.refused, f.blockedBy(poolKey{"ns", "p"}).text)
		}
	})
}
