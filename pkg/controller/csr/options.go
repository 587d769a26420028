// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package csr

import (
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/record"
)

// Options configure the controller.
type Options struct {
	// Kube approves requests. Required.
	Kube kubernetes.Interface
	// Namespace is that of the operator: what an instance there calls its host counts against those of
	// other namespaces.
	Namespace string
	// Recorder takes the events. Required.
	Recorder record.EventRecorder
	// Registerer takes the metrics. Nil: there are none.
	Registerer prometheus.Registerer
}
