// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

// Package drain takes a Node out of service and back in: [Cordon] and [Restore] mark
// it, [Drainer.Run] has its pods leave.
//
// Which pods leave is decided by the filters of k8s.io/kubectl/pkg/drain, so that a
// drain means what kubectl drain means. How they are asked to leave is not: a Node is
// followed with one watch instead of a request per pod and second, an eviction that a
// PodDisruptionBudget refuses is repeated every five seconds and no faster, and what is
// going on is reported while it happens.
//
// The decisions (tracker.go, objection.go, refusal.go) are pure; drain.go has the I/O.
// The package imports Kubernetes' client libraries and, of this project, the API, which
// says what a blocked pod is.
package drain
