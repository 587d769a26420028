// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package rollout

import (
	"slices"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/controller/internal/object"
)

// editSpec changes the spec of an instance. The controller of instances sees it at once, or after the scheduler has.
func (c *cluster) editSpec(m *member, change func(*v1alpha1.WindowsInstanceSpec)) {
	c.edit(m, func(i *v1alpha1.WindowsInstance) {
		change(&i.Spec)
		i.Generation++
	})
	if c.draw("first", 2) == 0 {
		c.pass()
	}
	c.edit(m, func(i *v1alpha1.WindowsInstance) { i.Status.ObservedGeneration = i.Generation })
}

// pause has somebody pause an instance, or lift that.
func (c *cluster) pause(m *member) {
	if m.instance != nil {
		c.editSpec(m, func(spec *v1alpha1.WindowsInstanceSpec) { spec.Paused = !spec.Paused })
	}
}

// paused says whether nothing is to be begun on a host, because of its instance or its pool.
func (c *cluster) paused(m *member) bool { return object.PausedBy(m.instance, c.poolOf(m)) != "" }

// goOver has an instance go over to another pool of its namespace, if there is one, with what is done to it, and what has become of it.
func (c *cluster) goOver(m *member) {
	from, others := m.in, []*simulatedPool(nil)
	for _, p := range c.pools {
		if p != from && p.object.Namespace == m.key.Namespace {
			others = append(others, p)
		}
	}
	if len(others) == 0 || m.instance == nil || !m.instance.DeletionTimestamp.IsZero() {
		return
	}
	to := pick(c, "to", others...)
	c.gather(from)
	from.size, from.away = from.size-number(m.counted.there), from.away-number(m.counted.away)
	m.counted.there, m.counted.away = false, false
	from.members = slices.DeleteFunc(from.members, func(o *member) bool { return o == m })
	to.members, m.in = append(to.members, m), to
	c.cost(m)
	c.editSpec(m, func(spec *v1alpha1.WindowsInstanceSpec) { spec.PoolRef.Name = to.object.Name })
	c.desire(m)
}

// withdrawn says whether an operation of the controller is not begun: nothing may be done to the host, or its pool or its Node
// does not ask for it any more.
func (c *cluster) withdrawn(m *member, op *v1alpha1.Operation) bool {
	switch {
	case op.Type == v1alpha1.OperationUncordon:
		return false
	case c.paused(m):
		return true
	case op.Cause == v1alpha1.CauseRestartRequested:
		after := c.poolOf(m).Spec.Restarts.After
		return after == nil || !m.booted.Before(after.Time)
	case op.Cause == v1alpha1.CauseRestartAnnotated:
		return !object.AsksForRestart(m.node)
	case op.Cause == v1alpha1.CauseVersionChanged:
		return !object.AsksForConfiguration(m.node)
	}
	return false
}

// giveUp ends an operation that has done nothing yet. What a person has asked for fails.
func (c *cluster) giveUp(m *member, op *v1alpha1.Operation) {
	phase := v1alpha1.OperationCanceled
	if !op.ByController() {
		phase = v1alpha1.OperationFailed
	}
	c.conclude(m, phase)
}
