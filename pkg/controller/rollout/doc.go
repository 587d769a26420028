// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

// Package rollout is the policy of pools: which of their hosts are updated, restarted or repaired
// next, which wait, and why; which revision of its pool they get; and the status of the pool. It has two controllers,
// which setup.go adds to a manager with the options of options.go. Both use times.go.
//
// The [Scheduler] decides about the hosts of all pools in one pass, and records the operations of the hosts that are next, or admits those that
// wait. Package operation runs them. decide (decide.go) is a function of the pools, their hosts and the time, and does nothing.
//
//   - A pass: scheduler.go reads the cache, writes, and publishes what hosts wait for; pace.go spaces passes; calm.go says
//     since when Nodes are known well enough for repairs; asker.go asks hosts what their update costs; record.go records
//     operations; refused.go remembers those that could not be written; metrics.go counts.
//   - What is known of one host: host.go, and by its Node node.go; slot.go (the slot that its operation has), broken.go, canary.go
//     (whether it has the newest revision), outgrown.go (its update costs more than it said), unfit.go (nothing can be recorded for it).
//   - What is outstanding for one host, beside its update: restart.go, annotated.go (its Node asks for it), updates.go (of Windows),
//     remedy.go (its Node is not ready), cordoned.go (its Node is to be uncordoned).
//   - What a pool says about updates is in policy.go; what is counted during a pass in pass.go; which host is next in queue.go; what keeps
//     the others in blocked.go; what they wait for in reason.go, and its kinds in waitkinds.go. What people read of that is in reasontext.go (of
//     one host), waitgroups.go (status.blockedBy of a pool) and uptodate.go (the condition UpToDate of a host).
//
// The [Reconciler] decides about one pool: which revision its hosts get, and what its status says.
//
//   - A pass is in reconciler.go. gather.go gathers the changes of hosts that ask for one.
//   - revisions.go creates and deletes the ControllerRevisions of the pool, deletedrevisions.go restores those that somebody has deleted.
//   - rollback.go decides whether the newest revision is rolled back, because it broke hosts. undo.go answers a person who has asked for it to be undone.
//   - The status is in status.go, some of its conditions in updating.go (Updating), degraded.go (Degraded) and credentials.go (which hosts
//     have the key of their Secret). How many hosts the source of a pool asks for, and the condition
//     SourceSynced, come from the controller of the source; for a pool of instances made by hand there is no such
//     controller, and both come from here.
//
// It is one package because one pass decides about the hosts of all pools: they share the slots and what
// is known of each host, and a status says of its pool what that pass has found.
//
// The package must not import another controller.
package rollout
