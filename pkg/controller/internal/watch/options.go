// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package watch

import (
	"time"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

const (
	// retrySoonest is how long after the first failure of a pass it is made again, as usual.
	retrySoonest = 5 * time.Millisecond
	// retryLatest is the longest pause between passes that fail. Nothing tells a controller that an API server is back, which has the objects as they
	// were: with the usual pauses, of up to 16 minutes, it would sleep on for as long as that was away.
	retryLatest = 30 * time.Second
)

// Options are those of a controller with so many workers.
func Options(workers int) controller.Options {
	return controller.Options{MaxConcurrentReconciles: workers, RateLimiter: workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](retrySoonest, retryLatest)}
}
