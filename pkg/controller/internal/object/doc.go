// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

// Package object reads and deletes single objects of the cluster in the way that all
// controllers do, and says which errors pass by themselves. It imports nothing of this
// project but the API.
package object
