// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

// Package engine makes a host what a document says, keeps it so, and takes everything
// away again. It knows order, crashes and ownership; what it does to a host, it does
// through a [System].
//
// The difference between a document and a host is a [api.Plan], a pure function of what is
// desired, what is there, and the inventory: the file on the host that says what is ours
// and what was there before. [Engine.Apply] carries a plan out, [Engine.Cleanup] takes
// away what the inventory has, [Engine.Run] repairs what others changed.
//
// # Crashes
//
// There is no list of steps that would have to be replayed. Each step is one call that
// happens or does not, and the next plan finds what is missing. The inventory is the
// journal: what a step makes ours, and what it replaces, is written and flushed before
// the step. So after a crash at any point the inventory knows all that may be ours, and
// what to put back; what it names and was never made is passed over.
//
// The package imports the standard library and package config only.
package engine
