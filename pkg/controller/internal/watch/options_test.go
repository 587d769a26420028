// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package watch

import (
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// TestOptions: however long an API server was away, it is asked within half a minute after it is back.
func TestOptions(t *testing.T) {
	o, request := Options(3), reconcile.Request{}
	if o.MaxConcurrentReconciles != 3 {
		t.Errorf("there are %d workers", o.MaxConcurrentReconciles)
	}
	if first := o.RateLimiter.When(request); first > time.Second {
		t.Errorf("the first failure is followed by a pause of %s", first)
	}
	for range 100 {
		if pause := o.RateLimiter.When(request); pause > 30*time.Second {
			t.Fatalf("a pause lasts %s", pause)
		}
	}
}
