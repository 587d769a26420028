// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package backoff

import (
	"math"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

func TestAfter(t *testing.T) {
	doubling := wait.Backoff{Duration: time.Second, Factor: 2, Cap: 10 * time.Second}
	tests := []struct {
		name     string
		failures int
		want     time.Duration
	}{
		{"none", 0, time.Second},
		{"one", 1, time.Second},
		{"two", 2, 2 * time.Second},
		{"four", 4, 8 * time.Second},
		{"five", 5, 10 * time.Second},
		{"more than time has seconds", math.MaxInt, 10 * time.Second},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := After(doubling, tt.failures); got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}
