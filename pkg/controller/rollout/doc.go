// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

// Package rollout sums up the instances of each WindowsNodePool in its status. How
// many hosts the source of a pool asks for, and the condition SourceSynced, come
// from the controller of the source; for a pool of instances made by hand there is
// no such controller, and both come from here.
package rollout
