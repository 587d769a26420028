// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package userdata

import (
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/record"
)

// Options configure the controller.
type Options struct {
	// Credentials is the Secret with the key of the operator. Required.
	Credentials types.NamespacedName
	// Metadata watches objects without what is in them. Required.
	Metadata metadata.Interface
	// Recorder takes the events. Required.
	Recorder record.EventRecorder
}
