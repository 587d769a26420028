// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package configmap

import (
	"context"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/controller/internal/confirm"
	"github.com/openshift/windows-instance-api/pkg/controller/internal/object"
	"github.com/openshift/windows-instance-api/pkg/controller/internal/ration"
)

// laterInterval is when to look again whether further removals can begin.
const laterInterval = time.Minute

// ration decides which of the removals begin now.
func (r *Reconciler) ration(ctx context.Context, pool *v1alpha1.WindowsNodePool, p *plan) (ration.Removals, error) {
	hold := len(p.unready) > 0
	if r.unguarded && !hold {
		return ration.Removals{Now: p.remove}, nil
	}
	recent, since := pool.Status.RecentRemovals, waitingSince(pool)
	if len(p.remove) > 0 {
		// A cache may not have the latest record yet.
		current, err := object.Get(ctx, r.applier.Live, r.configMap, &v1alpha1.WindowsNodePool{})
		if err != nil {
			return ration.Removals{}, err
		}
		if current != nil {
			recent, since = current.Status.RecentRemovals, waitingSince(current)
		}
	}
	recent = slices.DeleteFunc(slices.Clone(recent), func(record v1alpha1.PoolRemoval) bool { return slices.Contains(p.stayed, record.Name) })
	now := r.now()
	d := r.limit.Decide(ration.Request{Ours: p.ours, Remove: p.remove, Leaving: p.leaving, Unreached: p.unreached, Since: since, Hold: hold}, recent, now)
	d.Held = d.Held || r.unguarded && len(d.Waiting) > 0
	d.Record(now, false, d.Now...)
	if confirm.Covers(pool, d.Waiting) {
		d.Record(now, true, d.Waiting...) // those wait for no other host
		d.Now, d.Waiting = append(d.Now, d.Waiting...), nil
	}
	return d, nil
}

// waitingSince returns since when removals wait for a confirmation: setStatus has the condition begin
// again when they do. Zero: none does.
func waitingSince(pool *v1alpha1.WindowsNodePool) time.Time {
	c := meta.FindStatusCondition(pool.Status.Conditions, v1alpha1.ConditionSourceSynced)
	if c == nil || c.Reason != v1alpha1.ReasonConfirmationNeeded {
		return time.Time{}
	}
	return c.LastTransitionTime.Time
}

// namesOf are the names of instances, in their order.
func namesOf(instances []*v1alpha1.WindowsInstance) []string {
	out := make([]string, len(instances))
	for i, instance := range instances {
		out[i] = instance.Name
	}
	return out
}
