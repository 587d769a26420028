// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package rollout

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
)

// inCondition says whether the condition UpToDate of an instance tells that kind of wait. All others are over when it is the turn of the host, or their conditions
// say it anyway. None is about certain hosts or times: each is written once, however many hosts come before, or how often a window opens.
func (k waitKind) inCondition() bool {
	switch k {
	case waitsForRequest, waitsForWindow, waitsForCanary, waitsForBroken, waitsForFailed, waitsForResume:
		return true
	}
	return false
}

// conditionKind is what the condition UpToDate of the instance of a host tells that waits. In a pool with a window also the turn of a host comes in that only.
func (p *pass) conditionKind(key types.NamespacedName, why reason) waitKind {
	switch {
	case why.kind.inCondition():
		return why.kind
	case why.kind == waitsForPlan && (why.text == "" || why.text == desiredChanges): // what else it waits for is not known before
		return why.kind
	case why.kind == waitsForPlan: // it cannot say it, so that nothing else is known to keep it
		return ""
	case !why.kind.lasts() && p.policy(p.poolOf[key]).window != nil:
		return waitsForWindow
	}
	return ""
}

// UpdateBlockedBy says what keeps the host of an instance from being updated, for its condition. Empty: nothing does, or it waits for its turn. It
// reports false before the first pass, and before the host has said what its update costs.
func (s *Scheduler) UpdateBlockedBy(i *v1alpha1.WindowsInstance) (text string, known bool) {
	key := types.NamespacedName{Namespace: i.Namespace, Name: i.Name}
	s.mu.Lock()
	kind, in, known := s.last.inConditions[key], s.last.poolOf[key], s.last.inConditions != nil
	s.mu.Unlock()
	if kind == waitsForPlan {
		return "", false
	}
	pool := in.String()
	switch kind {
	case waitsForRequest:
		text = fmt.Sprintf("It is updated when somebody asks for it (spec.updateStrategy.type of %s): kubectl windows reconfigure %s -n %s", pool, i.Name, i.Namespace)
	case waitsForWindow:
		text = fmt.Sprintf("It is updated when it gets a disruption slot in the window of %s (spec.updateStrategy.window).", pool)
	case waitsForCanary:
		text = fmt.Sprintf("As many hosts of %s as spec.updateStrategy.rollingUpdate.canary says are updated first. It follows when that is raised or removed.", pool)
	case waitsForBroken:
		text = fmt.Sprintf("It is not updated while hosts of %s are broken by an update or a restart.", pool)
	case waitsForFailed:
		text = fmt.Sprintf("It is not updated because the update failed on others of %s.", pool)
	case waitsForResume:
		text = fmt.Sprintf("It is not updated because the revision of %s was rolled back (status.rolledBack).", pool)
	}
	return text, known
}

// UpdateBlockedByChanged has the instances of which [Scheduler.UpdateBlockedBy] says something else.
func (s *Scheduler) UpdateBlockedByChanged() <-chan event.GenericEvent { return s.blockedByChanged }

// notifyChanged has instances looked at that wait for something else than before.
func (s *Scheduler) notifyChanged(ctx context.Context, before, now map[types.NamespacedName]waitKind) {
	for key, kind := range now {
		if before[key] != kind && kind != waitsForPlan {
			s.notify(ctx, key)
		}
	}
	for key := range before {
		if _, ok := now[key]; !ok {
			s.notify(ctx, key)
		}
	}
}
