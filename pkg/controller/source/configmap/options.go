// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package configmap

import (
	"k8s.io/client-go/tools/record"
)

// Options configure the controller.
type Options struct {
	// Recorder takes the events. Required by [SetupWithManager].
	Recorder record.EventRecorder
	// Namespace of the ConfigMap, and of what is made from it. Required.
	Namespace string
	// Name of the ConfigMap. Required.
	Name string
	// RemoveWithoutConfirmation removes all hosts at once when the ConfigMap is
	// deleted or emptied, as the Windows Machine Config Operator does. Default: ask first.
	RemoveWithoutConfirmation bool
}
