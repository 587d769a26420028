// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

// Package workpool does work about objects in goroutines that it owns: at most one piece
// of work for each object, and a limited number at the same time. Reconcilers, which must
// not wait for hosts, have a pool wait for them.
//
// The package knows nothing of what the work is, and must not import another package of
// this module.
package workpool
