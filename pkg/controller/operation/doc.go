// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

// Package operation runs the operations of hosts: Drain, Uncordon, Reboot, which may also install
// updates of Windows, Reconfigure, Adopt, Release, RestartServices and Remove. The API server, for people,
// or package lifecycle or rollout has recorded it in status.operation of the WindowsInstance; this
// package does it, writes down how far it is, and goes on where another process, or an earlier
// run of this one, was interrupted.
//
// What makes that safe:
//
//   - Each operation is a list of steps (plan.go) whose states are in status.operation.
//     A step that was begun is begun again after an interruption, so each of them is
//     written such that doing it twice is doing it once. What a step must know again
//     is recorded before it acts: how the Node was, and which boot of the host is to end.
//   - Every write carries the resource version of what it is based on, and first looks
//     whether status.operation is still the same operation (record.go). The reconciler
//     of package instance writes the same status; neither undoes the other's writes.
//   - The host restarts only if it still is in the boot that was recorded. An answer
//     that was lost is asked for again without a second restart.
//   - What has to be done to a host in order to configure it is not remembered: the host
//     is asked for the difference again, which is empty for what is done. Only one process
//     at a time can change a host, as its agent has a lock for that.
//   - Only the leader works, and its context ends before another one begins.
//
// A configuration takes no more than it costs: a Node is cordoned and drained only if
// pods have to leave for what is planned, Windows is restarted only if it says so, and a
// host is out of service for it only as long as it has a disruption slot, see [Policy]. One
// that ends without success after the host has reported a change that disturbs pods leaves
// the Node cordoned, and the next one that succeeds uncordons it. A Node that people have cordoned
// stays so. Which hosts get a slot, and that what breaks one host must not reach the next,
// is the policy of package rollout, which this one does not know.
//
// Where what is:
//
//   - The reconciler (reconciler.go, which setup.go adds to a manager with the options of options.go) reads the cache and starts executions; the runner
//     (runner.go) owns their goroutines, at most one for each instance; an execution (execution.go) walks through the steps of plan.go.
//   - What an execution records: record.go, message.go (texts that are too long), follow.go (how often it tells of progress), events.go and metrics.go,
//     and wmcoevents.go (the events of WMCO).
//   - How it begins and ends: withdrawn.go (what is not begun, as nobody wants it any more), resume.go (what another process had begun), wait.go (waits, and what is tried
//     again), aftermath.go (what an operation leaves that ends), describe.go (what it says then).
//   - Steps of several types: waitforslot.go, node.go (Cordon, Uncordon), evict.go and volumes.go (Drain), reboot.go (Restart, Boot, Services), annotated.go (Nodes that ask for
//     a restart), kubelet.go (NodeReady), reconfigure.go (Facts, Preflight, Agent, Verify).
//   - Steps of one type: updates.go, restartservices.go, configure.go, join.go and rejoin.go, adopt.go, release.go, wmcoinputs.go and hostkeys.go (what WMCO needs
//     of a host that is released), remove.go.
//   - What configuring and removing have in common, an agent that is followed while it changes its host, is in apply.go. reach.go asks whether the host reaches the API
//     server, and kubeletadmission.go which pods a kubelet that is restarted would reject.
//   - Hosts are reached through hosts.go; contact.go says of which layer an error is. preview.go says what an update costs before there is an operation.
//
// An instance that is paused, or whose pool is, is left alone: an operation on its host that somebody asked for fails at once and says so, and
// one that the controller recorded by itself is canceled, and recorded again after the pause; also one that only waits for its slot when the pause begins. Drains and uncordons touch the Node only, and are run.
// One that has begun to disturb its host by then is completed, because a host that is half way is worse than either end; it can be canceled. Once an
// instance is being deleted its host is removed and nothing else: every other operation
// ends as if it had been canceled.
//
// It is one package because all steps share one record, one clock and one way to end: the
// parts of a reboot, a configuration and a removal are the same steps in another order.
//
// Hosts are reached through the interface [Hosts] only, and their desired configuration is
// known to a [Configuration]. The package must not import
// another controller nor the packages that serve the API.
package operation
