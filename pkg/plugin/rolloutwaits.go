// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package plugin

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/words"
)

// maxWaiting is how many of the hosts that wait for the same are named in a line.
const maxWaiting = 5

// waitsForRemoval begins what a host waits for that is to be removed, as the controller says it.
const waitsForRemoval = "Waits for a slot to be removed: "

// waitGroup are hosts of a pool that wait for the same: a line of its status.blockedBy.
type waitGroup struct {
	names []string
	// more is how many hosts there are besides, which are not named.
	more int
	why  string
}

// notNamed matches how [words.Enumerate] counts those that it does not name.
var notNamed = regexp.MustCompile(` and (\d+) more$`)

// waitGroups are what the hosts of a pool wait for, by its status.blockedBy. A line that begins with none of them is a reason without hosts.
func waitGroups(blockedBy string, hosts []*v1alpha1.WindowsInstance) []waitGroup {
	known := map[string]bool{}
	for _, host := range hosts {
		known[host.Name] = true
	}
	var groups []waitGroup
	for line := range strings.Lines(blockedBy) {
		line = strings.TrimRight(line, "\n")
		head, why, _ := strings.Cut(line, ": ")
		g := waitGroup{why: why}
		if found := notNamed.FindStringSubmatch(head); found != nil {
			g.more, _ = strconv.Atoi(found[1]) // digits
			head = strings.TrimSuffix(head, found[0])
		}
		g.names = strings.Split(head, ", ")
		if !slices.ContainsFunc(g.names, func(name string) bool { return known[name] }) {
			g = waitGroup{why: line}
		}
		groups = append(groups, g)
	}
	return groups
}

// whyWaits is what each host waits for. One that is not named, and that something is outstanding on, waits for what others do that are not named
// either, if that is one thing. Removals wait for a slot of their own kind, and the other hosts for none of it.
func whyWaits(pool *v1alpha1.WindowsNodePool, hosts []*v1alpha1.WindowsInstance) map[string]string {
	groups, why := waitGroups(pool.Status.BlockedBy, hosts), map[string]string{}
	others := map[bool][]string{} // by whether they are to be removed
	for _, g := range groups {
		for _, name := range g.names {
			why[name] = g.why
		}
		if g.more > 0 {
			removal := strings.HasPrefix(g.why, waitsForRemoval)
			others[removal] = append(others[removal], g.why)
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
	if len(g.names) == 0 {
		return g.why
	}
	named := g.names[:min(len(g.names), maxWaiting)]
	names := strings.Join(named, ", ")
	if more := g.more + len(g.names) - len(named); more > 0 {
		names = fmt.Sprintf("%s and %d more", names, more)
	}
	return names + ": " + g.why
}

// kind is the reason without what changes with each step of a rollout: which hosts are in the way.
func (g waitGroup) kind() string {
	if _, bound, ok := bounded(g.why); ok {
		return bound
	}
	return g.why
}

// bounded returns the parts of a reason that is about a bound: what is in the way, and the bound. ok: it is.
func bounded(why string) (inTheWay, bound string, ok bool) {
	inTheWay, bound, ok = strings.Cut(words.FirstSentence(why), "; ")
	return inTheWay, bound, ok && strings.Contains(bound, "at most ")
}

// waitText is what a host waits for, in short. The bound is first, as lines end with the terminal.
func waitText(why string) string {
	text, bound, ok := bounded(why)
	if !ok {
		return "waits: " + words.OneLine(words.FirstSentence(why))
	}
	for _, begin := range []string{"Waits for a slot: ", waitsForRemoval} {
		text = strings.TrimPrefix(text, begin)
	}
	bound, _, _ = strings.Cut(bound, " (") // the flag, or the field
	return fmt.Sprintf("waits (%s): %s", bound, words.OneLine(text))
}
