// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package rollout

import (
	"testing"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
)

// TestConfirmedRemovalCountsOnce: a host whose removal was confirmed is one of those that are out of service, whether it worked before or was down.
func TestConfirmedRemovalCountsOnce(t *testing.T) {
	for _, tt := range []struct {
		name           string
		maxUnavailable int32
		edit           func(*host)
		want           string
	}{
		{"it worked, and nothing else may be out of service", 1, isUpToDate, ""},
		{"it worked", 2, isUpToDate, "a"},
		{"it was down, and nothing else may be out of service", 1, isDown, ""},
		{"it was down", 2, isDown, "a"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			hosts := []host{outdated("a", v1alpha1.ImpactDrain), toRemove("b", isConfirmed, tt.edit)}
			pool := strategy(func(s *v1alpha1.PoolUpdateStrategy) {
				s.RollingUpdate.MaxUnavailable = new(intstr.FromInt32(tt.maxUnavailable))
			})
			got := decide(state{hosts: hosts, pools: map[poolKey]policy{{"ns", "p"}: policyOf(pool, 2)}, disruptions: 5, now: testNow})
			if names(got.start) != tt.want || names(got.admit) != "b" {
				t.Errorf("%q begin, and %q go, want %q and b: %+v", names(got.start), names(got.admit), tt.want, got.waits)
			}
		})
	}
}
