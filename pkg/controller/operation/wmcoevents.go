// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package operation

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/controller/internal/origin"
	"github.com/openshift/windows-instance-api/pkg/wmco"
)

// told is an event about an operation as WMCO makes it, on another object than the instance.
type told struct {
	object            *corev1.ObjectReference
	eventType, reason string
}

// concerned are the objects besides the instance that an operation is told on: the Machine or the ConfigMap that the instance comes from,
// and its Node as long as there is one.
func concerned(i *v1alpha1.WindowsInstance, op *v1alpha1.Operation) []*corev1.ObjectReference {
	objects := origin.Objects(i)
	deletion := op.FindStep(v1alpha1.StepDeleteNode)
	if node := op.Node; node != nil && (deletion == nil || !deletion.Ended()) {
		objects = append(objects, &corev1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: node.Name, UID: node.UID})
	}
	return objects
}

// tell returns the events that WMCO would make about the end of an operation, so that what watches for their reasons goes on to
// see them. A host that was as it should be is not worth one. One that was adopted was set up as one that was configured was.
func tell(i *v1alpha1.WindowsInstance, op *v1alpha1.Operation) []told {
	sets := op.Type == v1alpha1.OperationReconfigure || op.Type == v1alpha1.OperationAdopt
	eventType, reason := corev1.EventTypeNormal, ""
	switch {
	case sets && op.Phase == v1alpha1.OperationSucceeded && op.MayHaveChangedHost():
		reason = origin.Setup(i)
	case sets && op.Phase == v1alpha1.OperationFailed:
		eventType, reason = corev1.EventTypeWarning, origin.SetupFailure(i)
	case op.Type == v1alpha1.OperationRemove && op.Phase == v1alpha1.OperationSucceeded && origin.Machine(i) == nil:
		reason = wmco.InstanceTeardown
	default:
		return nil
	}
	var events []told
	for _, object := range concerned(i, op) {
		events = append(events, told{object, eventType, reason})
	}
	return events
}

// announce sends an event about the instance, also on the objects that it concerns.
func (e *execution) announce(eventType, reason, note string) {
	e.event(eventType, reason, note)
	for _, object := range concerned(e.instance, e.operation()) {
		e.tellOther(told{object, eventType, reason}, note)
	}
}

// tellOther sends an event on another object than the instance, which it names.
func (e *execution) tellOther(t told, note string) {
	e.Recorder.Event(t.object, t.eventType, t.reason, origin.Note(e.instance, note))
}
