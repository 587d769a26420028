// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package csr

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/record"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
)

// Options configure the controller.
type Options struct {
	// Kube approves requests. Required.
	Kube kubernetes.Interface
	// Recorder takes the events. Required.
	Recorder record.EventRecorder
	// Bootstrappers returns the users that the host of an instance may ask for its first
	// client certificate as: those whose credentials it was given and that are still
	// valid. It is asked only about requests of such users that are about the instance.
	// Nil: there are none, and no host joins.
	Bootstrappers func(ctx context.Context, instance *v1alpha1.WindowsInstance) ([]string, error)
	// Registerer takes the metrics. Nil: there are none.
	Registerer prometheus.Registerer
}
