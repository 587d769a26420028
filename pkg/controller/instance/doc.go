// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

// Package instance reconciles WindowsInstance objects: it finds out, step by
// step, whether a host can be reached, trusted, logged in to and used as a node,
// and keeps what it found in the status of the object.
//
// A host is inspected by a probe (probe.go), a chain of steps that each go one
// layer further: Resolve, Admit, HostKey, Login, Key, Facts. Probes do all I/O with
// hosts and run outside of the workers of the controller, in the lanes of the
// prober (prober.go), so that hosts that hang delay nobody else. A probe that
// ends wakes the reconciler, which holds no I/O with hosts at all.
//
// What is decided is decided by pure functions: [evaluate] turns what is known
// into a status, [trust] judges a host key, [newReport] judges the facts of a
// host, [classify] turns an error into a condition, [next] says when to look
// again, and [transitions] says what is worth an event.
//
//   - A pass is in reconciler.go, which setup.go adds to a manager with the options of options.go. tracker.go has what the process remembers of each
//     host, and observation.go what a probe saw.
//   - The status is in evaluate.go; of the conditions trust.go has HostKeyTrusted, confirmation.go and elsewhere.go what was configured by whom, configured.go Configured and
//     UpToDate, certificate.go and rotation.go what a host has of certificates and keys, worked.go with which revision it works.
//   - Which machine it is: identity.go, hostname.go, represented.go (which of several instances has it), foreign.go and metbywmco.go (what others have of it), system.go
//     (what it says of itself).
//   - classify.go, schedule.go and events.go have the last three of these functions. Metrics are in metrics.go (probes), and, counted by collector.go when they are asked for,
//     in phases.go, notready.go, operations.go and updates.go.
//
// The one rule that the order of things must keep: a host key that is seen for
// the first time is in the stored status before anything is authenticated or run.
// A probe therefore ends once it has read the key of a host that has no trusted
// key; the next probe begins from the object that the successful write of the
// status returned.
//
// It is one package because a status has one writer: what probes find out, when the next one
// is due and what it means for the conditions are read and written together.
//
// The package talks to hosts through its interface [Hosts] (hosts.go) only. It must not
// import the packages that serve the API, nor open connections of its own.
package instance
