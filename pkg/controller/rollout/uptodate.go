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

// conditionKind is what the condition UpToDate of the instance of a host tells that waits. In a pool with a window also the turn of a host comes in that only.
func (p *pass) conditionKind(key types.NamespacedName, why reason) waitKind {
	switch {
	case waitKinds[why.kind].upToDate != "":
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
	if told := waitKinds[kind].upToDate; told != "" {
		text = fmt.Sprintf(told, in.String(), i.Name, i.Namespace)
	}
	return text, known
}

// UpdateBlockedByChanged has the instances of which [Scheduler.UpdateBlockedBy] says something else.
func (s *Scheduler) UpdateBlockedByChanged() <-chan event.GenericEvent { return s.blockedByChanged }

// notifyChanged has instances looked at that wait for something else than before.
func (s *Scheduler) notifyChanged(ctx context.Context, before, now map[types.NamespacedName]waitKind) {
	for key, kind := range now {
		if before[key] != kind && kind != waitsForPlan {
			s.notifyInstance(ctx, key)
		}
	}
	for key := range before {
		if _, ok := now[key]; !ok {
			s.notifyInstance(ctx, key)
		}
	}
}
