// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package rollout

import (
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/maintenance"
	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
)

// policy is what a pool says about updates, in numbers of its hosts.
type policy struct {
	onRequest      bool
	maxUnavailable int
	// canary is how many hosts are updated first. Negative: all.
	canary      int
	maxFailures int
	// maxUnhealthy is how many Nodes of the pool may be not ready while hosts are repaired, maxUnhealthyPercent how many of a hundred
	// of the cluster, and maxUnhealthyAnyway how many of a small one.
	maxUnhealthy, maxUnhealthyPercent, maxUnhealthyAnyway int
	// removed is when the removal of a host was begun last, as far as the pool remembers it. Those hosts are not there any more
	// to say it. Zero: none was.
	removed time.Time
	// machines: the hosts are those of Machines, which a MachineHealthCheck replaces.
	machines bool
	// back: a revision of the pool was rolled back or undone, which to resume would roll out again.
	back bool
	// window is when hosts may be disturbed. Nil: at any time.
	window *maintenance.Window
	// unreadable is why the window cannot be read, which the API server refuses. Nil: it can, or there is none.
	unreadable error
}

// policyOf is the policy of a pool that should have so many hosts. That of hosts in no pool, nil, is the
// default.
func policyOf(pool *v1alpha1.WindowsNodePool, size int) policy { return policyAmong(pool, size, size) }

// policyAmong is that of a pool of whose hosts only so many are nodes, or were. How many of these may be out of service is a share of them: those that
// are still to come serve no pods, and a pool that has just been scaled up would lose all that it has at once.
func policyAmong(pool *v1alpha1.WindowsNodePool, size, nodes int) policy {
	strategy := v1alpha1.PoolUpdateStrategy{}
	if pool != nil {
		strategy = *pool.Spec.UpdateStrategy.DeepCopy()
	}
	v1alpha1.SetDefaults_PoolUpdateStrategy(&strategy)
	p := policy{
		onRequest:      strategy.Type == v1alpha1.OnRequest,
		maxUnavailable: max(1, scaled(strategy.RollingUpdate.MaxUnavailable, nodes, false)),
		canary:         -1,
		maxFailures:    int(*strategy.RollingUpdate.MaxFailures),
	}
	if pool != nil {
		p.machines = pool.Spec.Source.MachineSet != nil
		p.back = pool.RolledBack(pool.Status.UpdateRevision) != nil
		for _, record := range pool.Status.RecentRemovals {
			p.removed = later(p.removed, record.Time.Time)
		}
	}
	if pool != nil && pool.Spec.Remediation != nil {
		remediation := *pool.Spec.Remediation.DeepCopy()
		v1alpha1.SetDefaults_PoolRemediation(&remediation)
		p.maxUnhealthyPercent, p.maxUnhealthyAnyway = scaled(remediation.MaxUnhealthy, 100, false), 1
		if p.maxUnhealthyPercent > 0 { // else somebody wants nothing repaired, as it means to a MachineHealthCheck
			p.maxUnhealthy = max(1, scaled(remediation.MaxUnhealthy, nodes, false))
		}
		if remediation.MaxUnhealthy.Type == intstr.Int { // which says nothing about the cluster
			p.maxUnhealthyPercent, p.maxUnhealthyAnyway = unhealthyPercent(), p.maxUnhealthy
		}
	}
	if strategy.RollingUpdate.Canary != nil {
		p.canary = scaled(strategy.RollingUpdate.Canary, size, true)
	}
	if w := strategy.Window; w != nil {
		p.window, p.unreadable = maintenance.Parse(w.Schedule, time.Duration(w.DurationSeconds)*time.Second, w.TimeZone)
	}
	return p
}

// unhealthyPercent is how many of a hundred Nodes of the cluster may be not ready by default.
func unhealthyPercent() int {
	defaults := v1alpha1.PoolRemediation{}
	v1alpha1.SetDefaults_PoolRemediation(&defaults)
	return scaled(defaults.MaxUnhealthy, 100, false)
}

// scaled is a number of hosts, or a percentage of them. What is neither, which the API server refuses, is none.
func scaled(n *intstr.IntOrString, of int, roundUp bool) int {
	scaled, err := intstr.GetScaledValueFromIntOrPercent(n, of, roundUp)
	if err != nil {
		return 0
	}
	return scaled
}
