// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

// Package ssh keeps SSH connections to hosts and runs commands, SFTP and
// port forwards over them. It is the only package that dials a host.
//
// A connection is made when it is first needed, verified against the pinned
// host keys of its [Target], shared by everybody who means the same target, and
// closed when it has been idle. One connection carries many sessions, because a
// handshake costs tens of milliseconds and a session one round trip.
//
// What it promises:
//
//   - Nothing is sent to a host, not even a user name, before its host key was
//     compared with a pinned one. There is no option that skips this.
//   - A host may be reached through a [Bastion], to which the same applies. What the bastion is told is an
//     address that was resolved, and allowed, here. One that refuses the login is tried by one host for all, see [Refusals].
//   - Every failure is an [*Error] that says at which [Layer] it happened and
//     gives a [Reason] fit for a status condition; a command that ran and failed
//     is an [*ExitError] instead.
//   - A context ends what was started with it and nothing else: other sessions
//     of the same connection continue, and so does a dial that others wait for.
//   - No lock is held while anything is read from or written to the network, so a
//     host that hangs does not delay callers that wait for another host.
//   - Every goroutine belongs to a connection or to the pool, and [Pool.Close]
//     waits for all of them.
//
// It is one package because limits, dials, connections and channels share one lock and one
// account of what is in use: in parts, each would have to show its state to the others.
//
// The package knows nothing of Windows, of Kubernetes or of our own types, and
// must not import any of them.
package ssh
