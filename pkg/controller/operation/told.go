// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package operation

import (
	"strings"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/controller/internal/message"
	"github.com/openshift/windows-instance-api/pkg/wmco"
)

// told is an event about the end of an operation on another object than the instance, as WMCO makes it.
type told struct {
	object            *corev1.ObjectReference
	eventType, reason string
}

// eventReleased is the reason of the events about a host that was given back to WMCO.
const eventReleased = "Released"

// released are the events about a host that was given back, on its instance and on its Node. WMCO makes none then.
func released(i *v1alpha1.WindowsInstance, op *v1alpha1.Operation) []told {
	events := []told{{&corev1.ObjectReference{
		APIVersion: v1alpha1.SchemeGroupVersion.String(), Kind: "WindowsInstance", Namespace: i.Namespace, Name: i.Name, UID: i.UID,
	}, corev1.EventTypeNormal, eventReleased}}
	if node := op.Node; node != nil {
		events = append(events, told{&corev1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: node.Name, UID: node.UID}, corev1.EventTypeNormal, eventReleased})
	}
	return events
}

// tell returns the events that WMCO would make about the end of an operation, so that what watches for their reasons goes on to
// see them: on the Machine or the ConfigMap that an instance comes from, and on its Node. A host that was as it should be is not
// worth one.
func tell(i *v1alpha1.WindowsInstance, op *v1alpha1.Operation) []told {
	machine := machineReference(i)
	eventType, reason := corev1.EventTypeNormal, ""
	switch {
	case op.Type == v1alpha1.OperationReconfigure && op.Phase == v1alpha1.OperationSucceeded && op.MayHaveChangedHost():
		reason = wmco.InstanceSetup
		if machine != nil {
			reason = wmco.MachineSetup
		}
	case op.Type == v1alpha1.OperationReconfigure && op.Phase == v1alpha1.OperationFailed:
		eventType, reason = corev1.EventTypeWarning, wmco.InstanceSetupFailure
		if machine != nil {
			reason = wmco.MachineSetupFailure
		}
	case op.Type == v1alpha1.OperationRemove && op.Phase == v1alpha1.OperationSucceeded && machine == nil:
		reason = wmco.InstanceTeardown
	case op.Type == v1alpha1.OperationRelease && op.Phase == v1alpha1.OperationSucceeded:
		return released(i, op)
	default:
		return nil
	}
	var objects []*corev1.ObjectReference
	if machine != nil {
		objects = append(objects, &corev1.ObjectReference{APIVersion: machine.APIVersion, Kind: machine.Kind, Namespace: i.Namespace, Name: machine.Name, UID: machine.UID})
	}
	if name := configMapOf(i); name != "" {
		objects = append(objects, &corev1.ObjectReference{APIVersion: "v1", Kind: "ConfigMap", Namespace: i.Namespace, Name: name}) // nor has that of WMCO a UID
	}
	if node := op.Node; node != nil && op.Type != v1alpha1.OperationRemove {
		objects = append(objects, &corev1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: node.Name, UID: node.UID})
	}
	events := make([]told, len(objects))
	for n, object := range objects {
		events[n] = told{object, eventType, reason}
	}
	return events
}

// machineReference is the Machine that an instance comes from, nil if it comes from none.
func machineReference(i *v1alpha1.WindowsInstance) *metav1.OwnerReference {
	machine := metav1.GetControllerOfNoCopy(i)
	if machine == nil || machine.Kind != "Machine" || machine.APIVersion != machinev1beta1.SchemeGroupVersion.String() {
		return nil
	}
	return machine
}

// configMapOf is the ConfigMap that an instance comes from, in its namespace: whoever may write the annotation must not
// have events made elsewhere. Empty: none.
func configMapOf(i *v1alpha1.WindowsInstance) string {
	source, _, found := strings.Cut(i.Annotations[v1alpha1.SourceAnnotation], ", entry ")
	name, ours := strings.CutPrefix(source, "ConfigMap "+i.Namespace+"/")
	if !found || !ours {
		return ""
	}
	return name
}

// tellOthers makes the events of [tell].
func (e *execution) tellOthers() {
	op := e.operation()
	for _, t := range tell(e.instance, op) {
		e.Recorder.Event(t.object, t.eventType, t.reason, message.EventNote("WindowsInstance "+e.instance.Namespace+"/"+e.instance.Name+": "+op.Message))
	}
}
