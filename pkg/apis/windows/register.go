// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package windows

import (
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupName is the API group.
const GroupName = "windows.openshift.io"

// SchemeGroupVersion is the group with the internal version.
var SchemeGroupVersion = schema.GroupVersion{Group: GroupName, Version: runtime.APIVersionInternal}

var (
	// SchemeBuilder collects the functions that add the internal types to a scheme.
	SchemeBuilder = runtime.NewSchemeBuilder(addKnownTypes)
	// AddToScheme adds the internal types to a scheme.
	AddToScheme = SchemeBuilder.AddToScheme
)

// Kind takes an unqualified kind and returns it qualified with this group.
func Kind(kind string) schema.GroupKind { return SchemeGroupVersion.WithKind(kind).GroupKind() }

// Resource takes an unqualified resource and returns it qualified with this group.
func Resource(resource string) schema.GroupResource {
	return SchemeGroupVersion.WithResource(resource).GroupResource()
}

func addKnownTypes(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(SchemeGroupVersion,
		&WindowsInstance{},
		&WindowsInstanceList{},
		&WindowsInstanceLogOptions{},
		&WindowsInstanceCancel{},
		&WindowsInstanceCheck{},
		&WindowsInstanceDrain{},
		&WindowsInstanceExecOptions{},
		&WindowsInstanceInspection{},
		&WindowsInstancePortForwardOptions{},
		&WindowsInstanceReboot{},
		&WindowsInstanceAdopt{},
		&WindowsInstanceReconfigure{},
		&WindowsInstanceRelease{},
		&WindowsInstanceUncordon{},
		&WindowsNodePool{},
		&WindowsNodePoolList{},
	)
	return nil
}
