// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package rollout

import (
	"testing"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
)

// TestPolicyOf: percentages of hosts that may be out of service, or unwell, are rounded down, and allow at least one; those of hosts that are
// updated first are rounded up. Where none may be unwell, nothing is repaired, as a MachineHealthCheck has it.
func TestPolicyOf(t *testing.T) {
	for _, tt := range []struct {
		share                                                    string
		size                                                     int
		maxUnavailable, canary, maxUnhealthy, percent, inCluster int
	}{
		{share: "10%", size: 15, maxUnavailable: 1, canary: 2, maxUnhealthy: 1, percent: 10, inCluster: 1},
		{share: "10%", size: 20, maxUnavailable: 2, canary: 2, maxUnhealthy: 2, percent: 10, inCluster: 1},
		{share: "10%", size: 29, maxUnavailable: 2, canary: 3, maxUnhealthy: 2, percent: 10, inCluster: 1},
		{share: "10%", size: 3, maxUnavailable: 1, canary: 1, maxUnhealthy: 1, percent: 10, inCluster: 1},
		{share: "10%", size: 0, maxUnavailable: 1, canary: 0, maxUnhealthy: 1, percent: 10, inCluster: 1},
		{share: "0%", size: 15, maxUnavailable: 1, canary: 0, maxUnhealthy: 0, percent: 0, inCluster: 1},
		{share: "100%", size: 15, maxUnavailable: 15, canary: 15, maxUnhealthy: 15, percent: 100, inCluster: 1},
		{share: "3", size: 15, maxUnavailable: 3, canary: 3, maxUnhealthy: 3, percent: 40, inCluster: 3},
		{share: "0", size: 15, maxUnavailable: 1, canary: 0, maxUnhealthy: 0, percent: 40, inCluster: 0},
		{share: "20", size: 15, maxUnavailable: 20, canary: 20, maxUnhealthy: 20, percent: 40, inCluster: 20},
	} {
		pool := &v1alpha1.WindowsNodePool{}
		pool.Spec.UpdateStrategy.RollingUpdate.MaxUnavailable, pool.Spec.UpdateStrategy.RollingUpdate.Canary = new(intstr.Parse(tt.share)), new(intstr.Parse(tt.share))
		pool.Spec.Remediation = &v1alpha1.PoolRemediation{MaxUnhealthy: new(intstr.Parse(tt.share))}
		got := policyOf(pool, tt.size)
		if got.maxUnavailable != tt.maxUnavailable || got.canary != tt.canary || got.maxUnhealthy != tt.maxUnhealthy || got.maxUnhealthyPercent != tt.percent || got.maxUnhealthyAnyway != tt.inCluster {
			t.Errorf("%s of %d hosts: %+v, want %+v", tt.share, tt.size, got, tt)
		}
	}
	some := &v1alpha1.WindowsNodePool{}
	some.Spec.UpdateStrategy.RollingUpdate.MaxUnavailable, some.Spec.UpdateStrategy.RollingUpdate.Canary = new(intstr.FromString("25%")), new(intstr.FromString("25%"))
	some.Spec.Remediation = &v1alpha1.PoolRemediation{MaxUnhealthy: new(intstr.FromString("25%"))}
	if got := policyAmong(some, 20, 8); got.maxUnavailable != 2 || got.maxUnhealthy != 2 || got.canary != 5 {
		t.Errorf("of 20 hosts that are to be there 8 are nodes: %+v", got)
	}
	if got := policyOf(nil, 0); got.onRequest || got.maxUnavailable != 1 || got.canary >= 0 || got.maxFailures != 0 || got.window != nil {
		t.Errorf("hosts in no pool: %+v", got)
	}
	pool := &v1alpha1.WindowsNodePool{}
	pool.Spec.Remediation = &v1alpha1.PoolRemediation{}
	if got := policyOf(pool, 9); got.maxUnhealthy != 3 || got.maxUnhealthyPercent != 40 {
		t.Errorf("by default: %+v", got)
	}
}
