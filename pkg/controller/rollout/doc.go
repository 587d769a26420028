// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

// Package rollout is the policy of pools: which of their hosts may be disrupted by a new
// configuration, which wait, and why; and the status that sums a pool up.
//
//   - [Slots] limit how many hosts are disrupted at the same time (slots.go). A host of a
//     pool of which a configuration broke another one gets none, until that is repaired
//     (halt.go). Both decide by instances that callers pass, and do nothing: package
//     operation uses them, and does what they allow.
//   - The reconciler sums up the instances of each WindowsNodePool in its status. How many
//     hosts the source of a pool asks for, and the condition SourceSynced, come from the
//     controller of the source; for a pool of instances made by hand there is no such
//     controller, and both come from here.
//
// The package must not import another controller.
package rollout
