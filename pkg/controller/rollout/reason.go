// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package rollout

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
)

// maxNamed bounds how many hosts a message names.
const maxNamed = 5

// reason is why a host waits. The kind is empty if it does not.
type reason struct {
	kind waitKind
	// most is the bound that it is about.
	most int
	// hosts are those that it waits for.
	hosts []*host
	// at is when the wait is over. Zero: not known.
	at time.Time
	// text is what a program or a host said of it.
	text string
	// failed is why the last attempt failed of what comes at a time. Empty: it did not.
	failed string
	// removal: the host waits to be removed.
	removal bool
	// stuck: what is usually over soon has lasted for a while.
	stuck bool
	// back: what would end the wait would also roll out again what was rolled back.
	back bool
	// upkeep: the host has what its pool rolls out, and waits for what [upkeep] says.
	upkeep bool
}

// upkeep says whether an operation of a cause gives a host nothing that its pool rolls out, but updates of Windows, or what Windows or its Node
// asks for.
func upkeep(cause v1alpha1.OperationCause) bool {
	switch cause {
	case v1alpha1.CauseWindowsUpdates, v1alpha1.CauseRestartPending, v1alpha1.CauseRestartAnnotated, v1alpha1.CauseVersionChanged:
		return true
	}
	return false
}

// alike is what two reasons have in common that are the same but for the hosts that are waited for.
type alike struct {
	kind                 waitKind
	most                 int
	at                   int64
	text, failed         string
	removal, stuck, back bool
}

// alike is the part of a reason that finds those that may be the same.
func (r reason) alike() alike {
	return alike{kind: r.kind, most: r.most, at: r.at.UnixNano(), text: r.text, failed: r.failed, removal: r.removal, stuck: r.stuck, back: r.back}
}

// holdup is what keeps the hosts of a pool from being updated, restarted or repaired.
type holdup struct {
	// text says it, for people. Empty: nothing does.
	text string
	// moves: some wait only for other hosts, so that it goes on by itself. stays: some wait for something else.
	// Removals are neither.
	moves, stays bool
	// kind is what all of the latter wait for, beside those of [asides]. Empty: not for the same.
	kind waitKind
	// upkeep: what the latter wait for is no part of a rollout.
	upkeep bool
	// settles: what the pool has was changed a moment ago, so that its hosts may not know of it.
	settles bool
	// updates: some wait because updates of Windows could not be installed on others.
	updates bool
}

// sumUp is what hosts wait for, without the words.
func sumUp(waits map[types.NamespacedName]reason) holdup {
	sum := holdup{upkeep: true}
	kinds := sets.New[waitKind]()
	for _, why := range waits {
		sum.updates = sum.updates || why.kind == waitsForFailedUpdates
		switch {
		case why.removal:
		case why.lasts():
			sum.stays, sum.upkeep = true, sum.upkeep && why.upkeep
			kinds.Insert(why.kind)
		default:
			sum.moves = true
		}
	}
	sum.upkeep = sum.upkeep && sum.stays
	if kinds.Has(waitsForBroken) { // which is those
		kinds.Delete(waitsForRepair)
	}
	for _, aside := range asides {
		if len(kinds) > 1 {
			kinds.Delete(aside)
		}
	}
	if len(kinds) == 1 {
		sum.kind, _ = kinds.PopAny()
	}
	return sum
}

// lasts says whether nobody knows when the wait is over. A host waits as well for hosts of its pool that are out of service without
// anybody doing anything to them: a Node that somebody has cordoned stays so. One that went down after its update may be ready again soon.
func (r reason) lasts() bool {
	if r.kind == waitsForBroken {
		steady := 0
		for _, h := range r.hosts {
			if !h.justWentDown {
				steady++
			}
		}
		return steady > r.most
	}
	return r.stuck || r.kind.lasts() || r.kind == waitsForPool && !slices.ContainsFunc(r.hosts, (*host).inHand)
}
