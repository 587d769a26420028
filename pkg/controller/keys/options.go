// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package keys

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
)

// Options configure the controller.
type Options struct {
	// Cluster is the Secret with the cluster-wide key. Required.
	Cluster types.NamespacedName
	// ProbeTimeout is the most that a probe of a host takes, which may give it a key. Required.
	ProbeTimeout time.Duration
	// Current is told which keys Secrets have. Required.
	Current *Current
	// Recorder takes the events. Required.
	Recorder record.EventRecorder
	// Registerer takes the metrics. Default: there are none.
	Registerer prometheus.Registerer
}
