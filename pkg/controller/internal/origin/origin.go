// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

// Package origin says which objects an instance comes from, and by which reasons of events the Windows Machine Config Operator (WMCO)
// tells on them how its host is set up. What watches for these events goes on to see them. It reads objects and writes none, and
// knows nothing of why something is told.
package origin

import (
	"strings"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/controller/internal/message"
	"github.com/openshift/windows-instance-api/pkg/wmco"
)

// Objects are the Machine or the ConfigMap that an instance comes from. Empty: it comes from neither.
func Objects(i *v1alpha1.WindowsInstance) []*corev1.ObjectReference {
	var objects []*corev1.ObjectReference
	if machine := Machine(i); machine != nil {
		objects = append(objects, &corev1.ObjectReference{APIVersion: machine.APIVersion, Kind: machine.Kind, Namespace: i.Namespace, Name: machine.Name, UID: machine.UID})
	}
	if name := configMap(i); name != "" {
		objects = append(objects, &corev1.ObjectReference{APIVersion: "v1", Kind: "ConfigMap", Namespace: i.Namespace, Name: name}) // nor has that of WMCO a UID
	}
	return objects
}

// Machine is the Machine that an instance comes from, nil if it comes from none.
func Machine(i *v1alpha1.WindowsInstance) *metav1.OwnerReference {
	machine := metav1.GetControllerOfNoCopy(i)
	if machine == nil || machine.Kind != "Machine" || machine.APIVersion != machinev1beta1.SchemeGroupVersion.String() {
		return nil
	}
	return machine
}

// configMap is the ConfigMap that an instance comes from, in its namespace: whoever may write the annotation must not
// have events made elsewhere. Empty: none.
func configMap(i *v1alpha1.WindowsInstance) string {
	source, _, found := strings.Cut(i.Annotations[v1alpha1.SourceAnnotation], ", entry ")
	name, ours := strings.CutPrefix(source, "ConfigMap "+i.Namespace+"/")
	if !found || !ours {
		return ""
	}
	return name
}

// Setup is WMCO's reason for an event that the host of an instance was set up.
func Setup(i *v1alpha1.WindowsInstance) string {
	if Machine(i) != nil {
		return wmco.MachineSetup
	}
	return wmco.InstanceSetup
}

// SetupFailure is WMCO's reason for an event that the host of an instance could not be set up.
func SetupFailure(i *v1alpha1.WindowsInstance) string {
	if Machine(i) != nil {
		return wmco.MachineSetupFailure
	}
	return wmco.InstanceSetupFailure
}

// Note is what an event on another object than the instance says, with the instance that it is about.
func Note(i *v1alpha1.WindowsInstance, note string) string {
	return message.EventNote("WindowsInstance " + i.Namespace + "/" + i.Name + ": " + note)
}
