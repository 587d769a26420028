// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package rollout

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
)

// TestNoRepairAfterAnOutage: while the API server was away, the process went on with what its cache had. What that says right after it is not
// what hosts are repaired by.
func TestNoRepairAfterAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pool := &v1alpha1.WindowsNodePool{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p"}}
		pool.Spec.Remediation = &v1alpha1.PoolRemediation{}
		f := newScheduled(t, nil, pool, works(condition(v1alpha1.ConditionNodeReady, metav1.ConditionFalse, v1alpha1.ReasonNodeNotReady, -time.Hour)))
		now := clocktesting.NewFakePassiveClock(testNow)
		f.clock = now
		var away error
		f.options.Leads = func(context.Context) (bool, error) { return true, away }
		pass := func(after time.Duration, repaired bool) {
			t.Helper()
			now.SetTime(testNow.Add(after))
			if f.pass(); (f.operation("a") != nil) != repaired {
				t.Errorf("after %s it has %+v", after, f.operation("a"))
			}
		}
		pass(0, false)
		away = errors.New("no route to host")
		pass(maxPause/2, false)
		pass(maxPause, false)
		pass(3*maxPause/2, false)
		away = nil
		pass(3*maxPause/2+time.Minute, false)
		pass(2*maxPause, false)
		pass(5*maxPause/2, true)
	})
}
