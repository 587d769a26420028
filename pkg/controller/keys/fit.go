// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package keys

import (
	"slices"

	"github.com/openshift/windows-instance-api/pkg/host"
)

// maxSecretBytes is how much the Secret of a namespace takes. Kubernetes refuses one of more than 1 MiB.
const maxSecretBytes = 1<<20 - 16<<10

// entry is what is kept of one Secret.
type entry struct {
	name string
	// before is what the kept Secret has of it, and after what it is to have. Empty: nothing.
	before, after []byte
	// inUse: there are instances with the Secret.
	inUse bool
}

// fit returns what is kept of the Secrets, by name and within a number of bytes, and the names of those of which that is not what it
// should be. What is kept already stays before anything is added; then come the Secrets that are in use, by name.
func fit(entries []entry, room int) (data map[string][]byte, refused []string) {
	data = map[string][]byte{}
	var larger []entry
	for _, e := range entries {
		text := e.after
		if len(e.after) > len(e.before) {
			text = e.before
			larger = append(larger, e)
		}
		if len(text) > 0 {
			data[e.name] = text
			room -= len(text)
		}
	}
	slices.SortStableFunc(larger, func(a, b entry) int { return rank(a) - rank(b) })
	for _, e := range larger {
		more := len(e.after) - len(e.before)
		if len(e.after) > host.MaxKeptBytes || more > room {
			refused = append(refused, e.name)
			continue
		}
		data[e.name] = e.after
		room -= more
	}
	return data, refused
}

// rank is in which order there is room for more of a Secret.
func rank(e entry) int {
	switch {
	case e.inUse && len(e.before) > 0:
		return 0
	case e.inUse:
		return 1
	}
	return 2
}
