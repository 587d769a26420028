// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

// Package engine brings a host to its desired configuration, keeps it there, and removes
// everything again. It knows order, crashes and ownership; it inspects and changes a host
// through a [System].
//
// The difference between a document and a host is an [api.Plan], a pure function of the desired
// configuration, the observed state, and the inventory: the file on the host that records what
// is ours and what existed before. [Engine.Apply] runs a plan, [Engine.Cleanup] removes what is
// in the inventory, [Engine.Run] repairs what others changed.
//
// # Crashes
//
// There is no list of steps that would have to be replayed. Each step is one call that
// happens or does not, and the next plan finds what is missing. The inventory is the
// journal: what a step makes ours, and what it replaces, is written and flushed before
// the step. So after a crash at any point the inventory names everything that may be ours, and
// what to restore; entries whose step never ran are skipped.
//
// It is one package because planning, execution, repair and cleanup share the inventory and the
// observed state, and none of them is used without the others.
//
// The package imports the standard library, package api with its sub-packages, and kubeletconfig only.
package engine
