// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package configmap

import (
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"
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
	// MaxRemovals is how many hosts may be removed within RemovalWindow before somebody
	// confirms it: a number, or a percentage of the hosts of the pool that allows at least
	// one. Required.
	MaxRemovals intstr.IntOrString
	// RemovalWindow is the time that MaxRemovals is about. Required.
	RemovalWindow time.Duration
	// RemoveWithoutConfirmation removes all hosts that have no entry at once, as the Windows
	// Machine Config Operator does. Default: ask first when they are more than MaxRemovals.
	RemoveWithoutConfirmation bool
}

// Defaults of [Options].
const (
	DefaultMaxRemovals   = "10%"
	DefaultRemovalWindow = time.Hour
)
