// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package rollout

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/openshift/windows-instance-api/pkg/blockedby"
	"github.com/openshift/windows-instance-api/pkg/controller/internal/message"
	"github.com/openshift/windows-instance-api/pkg/words"
)

// maxListed is how long the names of the hosts may be, in bytes, that wait for what most of a pool wait for: whoever follows some dozens wants to
// know of each. What is said of the others, and what to do, has to fit into the status as well.
const maxListed = 1024

const (
	// maxBlockedBy is how long status.blockedBy of a pool may be, in bytes.
	maxBlockedBy = 4096
	// maxQuoted is how much of what hosts and servers say is repeated in it of each.
	maxQuoted = 512
)

// waitGroup are hosts of a pool that wait for the same.
type waitGroup struct {
	reason
	names []string
}

// describeWaits says what the hosts of a pool wait for, the most common first, as far as status.blockedBy has room for it.
func describeWaits(in poolKey, waits map[types.NamespacedName]reason) string {
	groups := groupWaits(waits)
	slices.SortStableFunc(groups, func(a, b *waitGroup) int { return cmp.Compare(len(b.names), len(a.names)) })
	var text strings.Builder
	for i, g := range groups {
		most := maxNamed
		if i == 0 {
			most = max(most, fitting(g.names, maxListed))
		} else {
			text.WriteString("\n")
		}
		g.text = message.Shorten(words.OneLine(g.text), maxQuoted) // a host may say several lines
		line, rest := lineOf(g.names, most, g.describe(in)), describeOthers(in, groups[i+1:])
		if text.Len()+len(line)+len(rest) > maxBlockedBy {
			text.WriteString(strings.TrimPrefix(describeOthers(in, groups[i:]), "\n"))
			break
		}
		text.WriteString(line)
	}
	return message.Shorten(text.String(), maxBlockedBy)
}

// lineOf is what hosts wait for, of which at most so many are named.
func lineOf(names []string, most int, why string) string {
	most = min(most, len(names))
	return blockedby.Line{Names: names[:most], More: len(names) - most, Why: why}.String()
}

// groupWaits are the hosts that wait for the same, and their names, in the order of the first of these.
func groupWaits(waits map[types.NamespacedName]reason) (groups []*waitGroup) {
	found := map[alike][]*waitGroup{} // thousands may wait for a time of their own each, so that not all are compared
	for _, key := range slices.SortedFunc(maps.Keys(waits), func(a, b types.NamespacedName) int { return strings.Compare(a.Name, b.Name) }) {
		why := waits[key]
		part := why.alike()
		same := found[part]
		at := slices.IndexFunc(same, func(g *waitGroup) bool { return slices.Equal(g.hosts, why.hosts) })
		if at < 0 {
			at = len(same)
			same = append(same, &waitGroup{reason: why})
			found[part] = same
			groups = append(groups, same[at])
		}
		same[at].names = append(same[at].names, key.Name)
	}
	return groups
}

// describeOthers names hosts for whose reasons there is no room, in a line of its own. Empty: there are none.
func describeOthers(in poolKey, groups []*waitGroup) string {
	var names []string
	for _, g := range groups {
		names = append(names, g.names...)
	}
	if len(names) == 0 {
		return ""
	}
	return "\n" + lineOf(names, maxNamed, "Each waits for something else, or for another time. Find out what was tried: kubectl windows describe NAME -n "+in.namespace)
}

// fitting is how many of the names can be listed in as many bytes.
func fitting(names []string, limit int) int {
	for i, name := range names {
		if limit -= len(name) + len(", "); limit < 0 {
			return i
		}
	}
	return len(names)
}
