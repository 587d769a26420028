// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

// Package install adds every version of the windows.openshift.io API to a scheme.
package install

import (
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"

	"github.com/openshift/windows-instance-api/pkg/apis/windows"
	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
)

// Install adds the internal and the served types to scheme, v1alpha1 preferred.
func Install(scheme *runtime.Scheme) {
	utilruntime.Must(windows.AddToScheme(scheme))
	utilruntime.Must(v1alpha1.AddToScheme(scheme))
	utilruntime.Must(scheme.SetVersionPriority(v1alpha1.SchemeGroupVersion))
}
