// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package node

import (
	"k8s.io/client-go/tools/record"
)

// Options configure the controller.
type Options struct {
	// Version is the release that hosts are configured by, as in the name of the
	// ConfigMap windows-services-<version>. Required.
	Version string
	// Recorder takes the events. Required.
	Recorder record.EventRecorder
}
