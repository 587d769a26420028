// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package node

import (
	"context"

	"k8s.io/client-go/tools/record"
)

// Options configure the controller.
type Options struct {
	// Version is the release that hosts are configured by, as in the name of the
	// ConfigMap windows-services-<version>. Required.
	Version string
	// Namespace is that of the operator. What instances of other namespaces claim of their hosts does not make a Node theirs, as with
	// certificates. Required.
	Namespace string
	// WMCOEnded says whether it is known that WMCO, which labels the Node that it upgrades, does not run. It is asked about Nodes
	// that have the label. Required.
	WMCOEnded func(ctx context.Context) (bool, error)
	// Recorder takes the events. Required.
	Recorder record.EventRecorder
}
