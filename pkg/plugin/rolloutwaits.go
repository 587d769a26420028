// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package plugin

import (
	"fmt"
	"slices"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/blockedby"
	"github.com/openshift/windows-instance-api/pkg/words"
)

// maxWaiting is how many of the hosts that wait for the same are named in a line.
const maxWaiting = 5

// waitGroups are what the hosts of a pool wait for, by its status.blockedBy. A line that begins with none of them is a reason without hosts.
func waitGroups(blockedBy string, hosts []*v1alpha1.WindowsInstance) []waitGroup {
	known := map[string]bool{}
	for _, host := range hosts {
		known[host.Name] = true
	}
	var groups []waitGroup
	for _, line := range blockedby.Parse(blockedBy) {
		if !slices.ContainsFunc(line.Names, func(name string) bool { return known[name] }) {
			line = blockedby.Line{Why: line.String()}
		}
		groups = append(groups, waitGroup{line})
	}
	return groups
}

// waitGroup are hosts of a pool that wait for the same.
type waitGroup struct{ blockedby.Line }

// whyWaits is what each host waits for. One that is not named, and that something is outstanding on, waits for what others do that are not named
// either, if that is one thing. Removals wait for a slot of their own kind, and the other hosts for none of it.
func whyWaits(pool *v1alpha1.WindowsNodePool, hosts []*v1alpha1.WindowsInstance) map[string]string {
	groups, why := waitGroups(pool.Status.BlockedBy, hosts), map[string]string{}
	others := map[bool][]string{} // by whether they are to be removed
	for _, g := range groups {
		for _, name := range g.Names {
			why[name] = g.Why
		}
		if g.More > 0 {
			slot, _ := blockedby.ParseSlot(g.Why)
			others[slot.Removal] = append(others[slot.Removal], g.Why)
		}
	}
	for _, host := range hosts {
		of := others[!host.DeletionTimestamp.IsZero()]
		if _, named := why[host.Name]; !named && len(of) == 1 && stateOf(host, pool, "").outstanding {
			why[host.Name] = of[0]
		}
	}
	return why
}

// String is a line for people who follow it.
func (g waitGroup) String() string {
	if len(g.Names) == 0 {
		return g.Why
	}
	named := g.Names[:min(len(g.Names), maxWaiting)]
	return blockedby.Line{Names: named, More: g.More + len(g.Names) - len(named), Why: g.Why}.String()
}

// kind is the reason without what changes with each step of a rollout: which hosts are in the way.
func (g waitGroup) kind() string {
	if slot, ok := blockedby.ParseSlot(g.Why); ok {
		slot.InTheWay = ""
		return slot.String()
	}
	return g.Why
}

// waitText is what a host waits for, in short. The bound is first, as lines end with the terminal.
func waitText(why string) string {
	if slot, ok := blockedby.ParseSlot(why); ok {
		return fmt.Sprintf("waits (%s): %s", slot.Bound, words.OneLine(slot.InTheWay))
	}
	return "waits: " + words.OneLine(words.FirstSentence(why))
}
