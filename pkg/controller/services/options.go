// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package services

import (
	"context"

	"k8s.io/client-go/tools/record"

	"github.com/openshift/windows-instance-api/pkg/desired/document"
)

// Source knows what is to be published.
type Source interface {
	// Published returns the services of hosts as the cluster asks for them now. The
	// error says what of the cluster is missing.
	Published(ctx context.Context) (*document.PublishedServices, error)
}

// Options configure the controller.
type Options struct {
	// Source of what is published. Required.
	Source Source
	// Namespace of the operator. Required.
	Namespace string
	// Version to publish under: [Version] of the release. Required.
	Version string
	// Recorder takes the events. Required.
	Recorder record.EventRecorder
}
