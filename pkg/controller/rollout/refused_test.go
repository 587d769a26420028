// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package rollout

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
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
		{"a webhook that is away, one slot", apierrors.NewInternalError(errors.New(`failed calling webhook "policy.example.com": failed to call webhook: context deadline exceeded`)), 1, false},
		{"a webhook that denies with 500, one slot", deniedWith(http.StatusInternalServerError), 1, false},
		{"a webhook that denies with 503, two slots", deniedWith(http.StatusServiceUnavailable), 2, false},
		{"a webhook is only named, one slot", apierrors.NewInternalError(errors.New(`etcdserver: request timed out, failed calling webhook "policy.example.com"`)), 1, true},
		{"a webhook has another complaint, one slot", &apierrors.StatusError{ErrStatus: metav1.Status{Code: http.StatusInternalServerError, Message: `admission webhook "policy.example.com" is slow`}}, 1, true},
		{"no answer, one slot", errors.New("read tcp 10.128.0.5:45321->10.0.0.1:443: connection reset"), 1, true},
		{"no answer, two slots", apierrors.NewInternalError(errors.New("etcdserver: request timed out")), 2, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				other := needsUpdate("b")
				other.Namespace = "other"
				f := newScheduled(t, map[string]v1alpha1.ChangeImpact{"a": v1alpha1.ImpactDrain, "b": v1alpha1.ImpactDrain}, needsUpdate("a"), other)
				now := clocktesting.NewFakePassiveClock(time.Now())
				f.clock, f.options.Disruptions = now, tt.slots
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
				f.options.Disruptions = 2
				now.SetTime(now.Now().Add(refusedBackoff.Cap))
				f.pass()
				if f.pass(); f.operation("a") == nil || len(f.refused) > 0 {
					t.Errorf("a has no operation: %s; %v", f.blockedBy(poolKey{"ns", "p"}).text, f.refused)
				}
			})
		})
	}
}

// deniedWith is how an API server says that a webhook denies a write and gives a code for that.
func deniedWith(code int32) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: code, Message: `admission webhook "policy.example.com" denied the request: database is away`}}
}

// TestSeveralThatCannotBeWritten: however many hosts a webhook that does not work keeps from being written, one that can be written gets the only slot at once.
func TestSeveralThatCannotBeWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		last := needsUpdate("z")
		last.Namespace = "other"
		hosts, failing, impacts := []client.Object{last}, map[string]error{}, map[string]v1alpha1.ChangeImpact{"z": v1alpha1.ImpactDrain}
		for _, name := range []string{"a", "b", "c", "d", "e", "f"} {
			hosts, impacts[name] = append(hosts, needsUpdate(name)), v1alpha1.ImpactDrain
			failing[name] = apierrors.NewInternalError(errors.New(`failed calling webhook "policy.example.com": EOF`))
		}
		f := newScheduled(t, impacts, hosts...)
		f.clock, f.options.Disruptions, f.failing = clocktesting.NewFakePassiveClock(time.Now()), 1, failing
		f.pass()
		for range len(failing) + 1 {
			_, _ = f.Reconcile(t.Context(), reconcile.Request{}) // says that one cannot be written
		}
		if f.operationIn("other", "z") == nil {
			t.Errorf("z waits: %s", f.blockedBy(poolKey{"other", "p"}).text)
		}
	})
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
