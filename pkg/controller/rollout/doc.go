// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

// Package rollout is the policy of pools: which of their hosts are updated, restarted or repaired
// next, which wait, and why; and the status that sums a pool up.
//
//   - decide (decide.go) is a function of the pools, their hosts and the time, and does nothing. The
//     [Scheduler] reads what it decides by, and records the operations of the hosts that are next;
//     package operation runs them. What is known of one host is in host.go, slot.go, broken.go, restart.go and remedy.go; what
//     is counted during a pass in pass.go; which host is next in queue.go; what keeps the others
//     in blocked.go; the kinds of what hosts wait for in reason.go. What people read of that is in reasontext.go (of one host),
//     waitgroups.go (status.blockedBy of a pool), uptodate.go and updating.go (the conditions UpToDate and Updating).
//   - The reconciler sums up the instances of each WindowsNodePool in its status. How many
//     hosts the source of a pool asks for, and the condition SourceSynced, come from the
//     controller of the source; for a pool of instances made by hand there is no such
//     controller, and both come from here.
//
// It is one package because one pass decides about the hosts of all pools: they share the slots and what
// is known of each host, and a status says of its pool what that pass has found.
//
// The package must not import another controller.
package rollout
