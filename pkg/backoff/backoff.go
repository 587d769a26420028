// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

// Package backoff says how long to wait after failures that were counted. It is for
// deciders, which neither wait nor remember a timer; who waits uses package wait. It must
// not import another package of this module.
package backoff

import (
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// After returns the pause after that many failures in a row: Duration of b after the first
// one, and from then on Factor times as long each time, at most Cap. Steps of b do not
// matter.
func After(b wait.Backoff, failures int) time.Duration {
	b.Steps = failures - 1
	for b.Steps > 0 { // it is 0 once the longest pause is reached
		b.Step()
	}
	return b.Duration
}
