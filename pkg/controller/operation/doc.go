// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

// Package operation carries out what somebody asked to be done with a host: drain,
// uncordon, reboot, reconfigure. The API server has recorded it in status.operation of
// the WindowsInstance; this package does it, writes down how far it is, and goes on
// where another process, or an earlier run of this one, was interrupted.
//
// What makes that safe:
//
//   - Each operation is a list of steps (plan.go) whose states are in status.operation.
//     A step that was begun is begun again after an interruption, so each of them is
//     written such that doing it twice is doing it once. What a step must know again
//     is recorded before it acts: how the Node was, and which boot of the host shall end.
//   - Every write carries the resource version of what it is based on, and first looks
//     whether status.operation is still the same operation (record.go). The reconciler
//     of package instance writes the same status; neither undoes the other's writes.
//   - The host restarts only if it still is in the boot that was recorded. An answer
//     that was lost is asked for again without a second restart.
//   - Only the leader works, and its context ends before another one begins.
//
// The reconciler (reconciler.go) reads the cache and starts executions; the runner
// (runner.go) owns their goroutines, at most one for each instance; an execution
// (execution.go) walks through the steps (node.go, reboot.go, reconfigure.go).
//
// An instance that is paused, or whose pool is, is left alone: an operation on it fails
// at once and says so. One that is being carried out when the pause begins is completed,
// because a host that is half way is worse than either end; it can be canceled.
//
// Hosts are reached through the interface [Hosts] only. The package must not import
// another controller nor the packages that serve the API.
package operation
