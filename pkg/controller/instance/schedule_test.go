// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package instance

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
)

func TestNext(t *testing.T) {
	at := testNow.Add(-time.Second)
	for _, test := range []struct {
		name    string
		history history
		want    time.Time
	}{
		{"never seen: now", history{}, testNow},
		{"host key recorded: now", history{outcome: outcomeRecorded, at: at}, testNow},
		{"healthy, earliest", history{outcome: outcomeHealthy, at: at}, at.Add(4 * time.Minute)},
		{"healthy, middle", history{outcome: outcomeHealthy, at: at, jitter: 0.5}, at.Add(5 * time.Minute)},
		{"healthy, latest", history{outcome: outcomeHealthy, at: at, jitter: 1}, at.Add(6 * time.Minute)},
		{"somebody has to act", history{outcome: outcomeAttention, at: at, jitter: 0.5}, at.Add(time.Minute)},
		{"failed once", history{outcome: outcomeFailed, failures: 1, at: at, jitter: 0.5}, at.Add(5 * time.Second)},
		{"failed once, earliest", history{outcome: outcomeFailed, failures: 1, at: at}, at.Add(4 * time.Second)},
		{"failed twice", history{outcome: outcomeFailed, failures: 2, at: at, jitter: 0.5}, at.Add(8500 * time.Millisecond)},
		{"failed three times", history{outcome: outcomeFailed, failures: 3, at: at, jitter: 0.5}, at.Add(14450 * time.Millisecond)},
		{"failed often", history{outcome: outcomeFailed, failures: 9, at: at, jitter: 0.5}, at.Add(time.Minute)},
		{"failed more often than the exponent can hold", history{outcome: outcomeFailed, failures: 1 << 40, at: at, jitter: 0.5}, at.Add(time.Minute)},
		{"known from before, first", history{outcome: outcomeRestored, at: at}, at},
		{"known from before, halfway", history{outcome: outcomeRestored, at: at, jitter: 0.5}, at.Add(150 * time.Second)},
		{"known from before as failing, halfway", history{outcome: outcomeRestored, at: at, spread: time.Minute, jitter: 0.5}, at.Add(30 * time.Second)},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := next(test.history, 5*time.Minute, testNow).Round(time.Microsecond); !got.Equal(test.want) {
				t.Errorf("got %s, want %s", got.Sub(testNow), test.want.Sub(testNow))
			}
		})
	}
}

// TestRecheckOf: what probes cost does not grow with the fleet above what is in the flag's text.
func TestRecheckOf(t *testing.T) {
	for hosts, want := range map[int]time.Duration{0: 5 * time.Minute, 3000: 5 * time.Minute, 6000: 10 * time.Minute, 10000: 1000 * time.Second, 60000: 30 * time.Minute} {
		if got := recheckOf(5*time.Minute, hosts); got != want {
			t.Errorf("%d hosts are probed every %s each, want %s", hosts, got, want)
		}
	}
}

func TestHistoryAfter(t *testing.T) {
	failed := history{outcome: outcomeFailed, failures: 3, hung: true}
	for _, test := range []struct {
		name         string
		before       history
		outcome      outcome
		hung         bool
		wantFailures int
		wantHung     bool
	}{
		{"a failure after a success", history{outcome: outcomeHealthy}, outcomeFailed, false, 1, false},
		{"another failure", failed, outcomeFailed, true, 4, true},
		{"a failure that does not hang leaves the slow lane", failed, outcomeFailed, false, 4, false},
		{"success starts over", failed, outcomeHealthy, false, 0, false},
		{"a recorded host key starts over", failed, outcomeRecorded, false, 0, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := test.before.after(test.outcome, test.hung, testNow, 0.25)
			want := history{outcome: test.outcome, at: testNow, failures: test.wantFailures, hung: test.wantHung, jitter: 0.25}
			if got != want {
				t.Errorf("got %+v, want %+v", got, want)
			}
		})
	}
}

func TestRestore(t *testing.T) {
	with := func(conditions ...metav1.Condition) *v1alpha1.WindowsInstance {
		instance := newInstance("win-1", "10.1.42.1")
		instance.Status.ObservedGeneration = 1
		instance.Status.Conditions = conditions
		return instance
	}
	resolved := metav1.Condition{Type: v1alpha1.ConditionResolved, Status: metav1.ConditionTrue}
	fit := metav1.Condition{Type: v1alpha1.ConditionPreflightPassed, Status: metav1.ConditionTrue}
	silent := metav1.Condition{Type: v1alpha1.ConditionReachable, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonConnectionTimedOut}
	trusted := metav1.Condition{Type: v1alpha1.ConditionHostKeyTrusted, Status: metav1.ConditionTrue}
	notTried := metav1.Condition{Type: v1alpha1.ConditionAuthenticated, Status: metav1.ConditionUnknown, Reason: v1alpha1.ReasonNotTried}
	refused := metav1.Condition{Type: v1alpha1.ConditionAuthenticated, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonCredentialsRefused}
	changed := with(resolved, fit)
	changed.Generation = 2

	for _, test := range []struct {
		name     string
		instance *v1alpha1.WindowsInstance
		want     history
	}{
		{"never seen", newInstance("win-1", "10.1.42.1"), history{}},
		{"registered and not tried", with(metav1.Condition{Type: v1alpha1.ConditionResolved, Status: metav1.ConditionUnknown}), history{}},
		{"the spec was changed while nobody looked", changed, history{}},
		{"about to be logged in to", with(resolved, trusted, notTried), history{}},
		{"not let in", with(resolved, trusted, refused), history{outcome: outcomeRestored, at: testNow, spread: time.Minute, jitter: 0.5}},
		{"well", with(resolved, fit), history{outcome: outcomeRestored, at: testNow, jitter: 0.5}},
		{"not well", with(resolved), history{outcome: outcomeRestored, at: testNow, spread: time.Minute, jitter: 0.5}},
		{"silent while logged in to", with(resolved, metav1.Condition{Type: v1alpha1.ConditionAuthenticated, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonAuthenticationTimedOut}),
			history{outcome: outcomeRestored, at: testNow, spread: time.Minute, hung: true, jitter: 0.5}},
		{"silent", with(resolved, silent), history{outcome: outcomeRestored, at: testNow, spread: time.Minute, hung: true, jitter: 0.5}},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := restore(test.instance, 5*time.Minute, testNow, 0.5); got != test.want {
				t.Errorf("got %+v, want %+v", got, test.want)
			}
		})
	}
}
