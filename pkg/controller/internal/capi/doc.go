// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

// Package capi has of Cluster API what the controllers use: its kinds, as far as they read them, and the Machines of the cluster that they
// are in. The types are ours, because those of its own module would bring a large part of its dependencies with them.
//
// It knows nothing of what follows from a Machine: that is package source/clusterapi for instances, and csr/identity for Nodes.
package capi
