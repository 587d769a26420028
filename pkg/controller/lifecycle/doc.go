// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

// Package lifecycle decides when a host is configured, configured again, and cleaned. It
// does none of that itself: it records operations in the status of WindowsInstances,
// which package operation runs, and holds the finalizer that keeps the object of
// a deleted instance until its host is clean, from before our agent is put there. A host whose
// instance was renamed is handed over to the new one (handover.go).
//
// All that it decides by is in the objects, above all in the status that package
// instance keeps: which revision the host has and which it is to have, whether it is fit
// to be a node, and how the operations before ended. It remembers nothing, so that it
// goes on after a restart where it was. The decision is a pure function (decide.go for a
// host that stays, removal.go for one that goes); the reconciler (reconciler.go) reads
// the cache, asks it, and writes. Every write carries the resource version of what the
// decision was based on, so that it fails rather than act on what is not so any more.
//
// Hosts do not wait for each other to be configured: how many are worked on at the same time is
// limited where operations run. They do to be removed (turn.go): a few at a time, and above a limit
// somebody has to confirm it.
//
// The package must not import another controller, nor anything that reaches hosts.
package lifecycle
