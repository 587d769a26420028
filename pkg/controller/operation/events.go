// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package operation

import (
	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/controller/internal/message"
)

// eventEvictionBlocked is the reason of the event about a pod that may not leave. Those
// about an operation as a whole are its type and what happened to it: DrainStarted,
// DrainSucceeded, RebootFailed and so on; those about its steps are in stepReasons.
const eventEvictionBlocked = "EvictionBlocked"

// stepReasons are the reasons of the events about the ends of steps that people notice.
var stepReasons = map[string]string{
	v1alpha1.StepCordon:      "Cordoned",
	v1alpha1.StepEvict:       "Drained",
	v1alpha1.StepDrain:       "Drained",
	v1alpha1.StepApply:       "HostConfigured",
	v1alpha1.StepRestart:     "HostRestarting",
	v1alpha1.StepBoot:        "HostRestarted",
	v1alpha1.StepJoin:        "Joined",
	v1alpha1.StepUncordon:    "Uncordoned",
	v1alpha1.StepAdopt:       "Adopted",
	v1alpha1.StepReleaseNode: "Released",
	v1alpha1.StepCleanup:     "HostCleaned",
}

// event sends an event about the instance.
func (e *execution) event(eventType, reason, note string) {
	e.Recorder.Event(e.instance, eventType, reason, message.EventNote(note))
}
