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

// told is an event about an operation as WMCO makes it, on another object than the instance.
type told struct {
	object            *corev1.ObjectReference
	eventType, reason string
}

// concerned are the objects besides the instance that an operation is told on: the Machine or the ConfigMap that the instance comes from,
// and its Node as long as there is one.
func concerned(i *v1alpha1.WindowsInstance, op *v1alpha1.Operation) []*corev1.ObjectReference {
	var objects []*corev1.ObjectReference
	if machine := machineReference(i); machine != nil {
		objects = append(objects, &corev1.ObjectReference{APIVersion: machine.APIVersion, Kind: machine.Kind, Namespace: i.Namespace, Name: machine.Name, UID: machine.UID})
	}
	if name := configMapOf(i); name != "" {
		objects = append(objects, &corev1.ObjectReference{APIVersion: "v1", Kind: "ConfigMap", Namespace: i.Namespace, Name: name}) // nor has that of WMCO a UID
	}
	deletion := op.FindStep(v1alpha1.StepDeleteNode)
	if node := op.Node; node != nil && (deletion == nil || !deletion.Ended()) {
		objects = append(objects, &corev1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: node.Name, UID: node.UID})
	}
	return objects
}

// tell returns the events that WMCO would make about the end of an operation, so that what watches for their reasons goes on to
// see them. A host that was as it should be is not worth one. One that was adopted was set up as one that was configured was.
func tell(i *v1alpha1.WindowsInstance, op *v1alpha1.Operation) []told {
	machine := machineReference(i) != nil
	sets := op.Type == v1alpha1.OperationReconfigure || op.Type == v1alpha1.OperationAdopt
	eventType, reason := corev1.EventTypeNormal, ""
	switch {
	case sets && op.Phase == v1alpha1.OperationSucceeded && op.MayHaveChangedHost():
		reason = wmco.InstanceSetup
		if machine {
			reason = wmco.MachineSetup
		}
	case sets && op.Phase == v1alpha1.OperationFailed:
		eventType, reason = corev1.EventTypeWarning, wmco.InstanceSetupFailure
		if machine {
			reason = wmco.MachineSetupFailure
		}
	case op.Type == v1alpha1.OperationRemove && op.Phase == v1alpha1.OperationSucceeded && !machine:
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

// announce sends an event about the instance, also on the objects that it concerns.
func (e *execution) announce(eventType, reason, note string) {
	e.event(eventType, reason, note)
	for _, object := range concerned(e.instance, e.operation()) {
		e.tellOther(told{object, eventType, reason}, note)
	}
}

// tellOther sends an event on another object than the instance, which it names.
func (e *execution) tellOther(t told, note string) {
	e.Recorder.Event(t.object, t.eventType, t.reason, message.EventNote("WindowsInstance "+e.instance.Namespace+"/"+e.instance.Name+": "+note))
}
