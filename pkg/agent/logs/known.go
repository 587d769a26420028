// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package logs

import (
	"strings"
)

// knownGenerations identifies files that were read already, in every way in which they
// can be recognized later: they may be renamed, compressed, or deleted and have
// their identity used again.
type knownGenerations struct {
	keys map[generationKey]bool
	// stems are the names of those with a time in it, which they keep.
	stems map[string]bool
	// heads are checksums of what they begin with.
	heads map[uint64]bool
}

// generationKey identifies a file that is not written to any more, also among later ones
// that have the same ID.
type generationKey struct {
	id    fileID
	size  int64
	mtime int64
}

func (g generation) key() generationKey {
	return generationKey{g.id, g.size, g.mtime.UnixNano()}
}

func newKnownGenerations(s series, list []generation) knownGenerations {
	k := knownGenerations{
		keys:  make(map[generationKey]bool, len(list)),
		stems: make(map[string]bool),
		heads: make(map[uint64]bool),
	}
	for _, g := range list {
		k.keys[g.key()] = true
		if !g.stamp.IsZero() {
			k.stems[strings.TrimSuffix(g.name, ".gz")] = true
		}
		if seg, err := s.openListed(g); err == nil {
			if len(seg.head) > 0 {
				k.heads[headSum(seg.head)] = true
			}
			seg.close()
		}
	}
	return k
}

// has recognizes a file without opening it.
func (k knownGenerations) has(g generation) bool {
	return k.keys[g.key()] || !g.stamp.IsZero() && k.stems[strings.TrimSuffix(g.name, ".gz")]
}

// hasText recognizes a compressed file by its content.
func (k knownGenerations) hasText(s series, g generation) bool {
	if !g.gzip {
		return false
	}
	seg, err := s.openListed(g)
	if err != nil {
		return false
	}
	defer seg.close()
	return k.heads[headSum(seg.head)]
}
