// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package v1alpha1

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestFailedRestart: what has failed counts until the next attempt ends in another way, and only for what is wanted now.
func TestFailedRestart(t *testing.T) {
	at := func(minute int) metav1.Time {
		return metav1.NewTime(time.Unix(0, 0).Add(time.Duration(minute) * time.Minute))
	}
	op := func(id string, cause OperationCause, phase OperationPhase, steps ...OperationStep) Operation {
		return Operation{ID: id, Type: OperationReboot, Cause: cause, Phase: phase, RequestedAt: at(5), Steps: steps}
	}
	failed := OperationFailed
	installing := OperationStep{Name: StepInstallUpdates, State: StepFailed}
	draining := OperationStep{Name: StepDrain, State: StepFailed}
	said := &WindowsUpdatesStatus{Pending: 1, Failed: []FailedUpdate{{Name: "KB1"}}}
	asked := func(minute int) *WindowsNodePool {
		pool := &WindowsNodePool{}
		after := at(minute)
		pool.Spec.Restarts.After = &after
		return pool
	}
	withdrawn := op("w", CauseWindowsUpdates, OperationCanceled)
	for _, tt := range []struct {
		name    string
		cause   OperationCause
		pool    *WindowsNodePool
		updates *WindowsUpdatesStatus
		newest  Operation
		before  []Operation
		want    string
	}{
		{name: "nothing is wanted", newest: op("a", "", failed)},
		{name: "it failed", cause: CauseRestartPending, newest: op("a", CauseRestartPending, failed), want: "a"},
		{name: "it is tried again", cause: CauseRestartPending, newest: op("b", CauseRestartPending, OperationRunning), before: []Operation{op("a", CauseRestartPending, failed)}, want: "a"},
		{name: "it succeeded since", cause: CauseRestartPending, newest: op("b", CauseRestartPending, OperationSucceeded), before: []Operation{op("a", CauseRestartPending, failed)}},
		{name: "an attempt gave way since", cause: CauseWindowsUpdates, newest: withdrawn, before: []Operation{op("a", CauseWindowsUpdates, failed)}, want: "a"},
		{name: "for something else", cause: CauseRestartPending, newest: op("a", CauseWindowsUpdates, failed)},
		{name: "as the pool asks", cause: CauseRestartRequested, pool: asked(4), newest: op("a", CauseRestartRequested, failed), want: "a"},
		{name: "as it has asked before", cause: CauseRestartRequested, pool: asked(6), newest: op("a", CauseRestartRequested, failed)},
		{name: "as the Node of a host in no pool asks", cause: CauseRestartAnnotated, newest: op("a", CauseRestartAnnotated, failed), want: "a"},
		{name: "the host says which updates failed", cause: CauseWindowsUpdates, updates: said, newest: op("a", CauseWindowsUpdates, failed, installing)},
		{name: "it was not drained for others", cause: CauseWindowsUpdates, updates: said, newest: op("a", CauseWindowsUpdates, failed, draining), want: "a"},
		{name: "nobody knows how far it came", cause: CauseWindowsUpdates, updates: said, newest: op("a", CauseWindowsUpdates, failed)},
		{name: "the host says nothing of them", cause: CauseWindowsUpdates, updates: &WindowsUpdatesStatus{Pending: 1}, newest: op("a", CauseWindowsUpdates, failed, installing), want: "a"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := WindowsInstanceStatus{Operation: &tt.newest, History: tt.before, WindowsUpdates: tt.updates}
			got := ""
			if op := s.FailedRestart(tt.cause, tt.pool); op != nil {
				got = op.ID
			}
			if got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}
