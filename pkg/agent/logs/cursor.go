// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package logs

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"hash/fnv"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
	"github.com/openshift/windows-instance-api/pkg/agent/api/config"
)

// cursorVersion is the version of the cursor's format. A cursor lives for seconds
// to hours, and older ones are refused.
const cursorVersion = 1

// cursor is where a request ended, per source. It comes back from a client and
// is not to be trusted: it holds positions and nothing that names a file.
type cursor struct {
	Version int      `json:"v"`
	Sources []resume `json:"s"`
}

// resume is where one source continues. With neither File nor Event the source
// did not exist yet, and is read from its beginning.
type resume struct {
	Query string     `json:"q"`
	File  *fileMark  `json:"f,omitempty"`
	Event *eventMark `json:"e,omitempty"`
	// Skip is how many bytes of what comes next were delivered already, when
	// a limit cut a line.
	Skip int64 `json:"k,omitempty"`
}

// fileMark is a position in a file, and what identifies that file.
type fileMark struct {
	ID     string `json:"i"`
	Offset int64  `json:"o"`
	// Head is a checksum of the first HeadLen bytes: identities of deleted
	// files are used again on some file systems, and a copy of the file has
	// another identity.
	HeadLen int    `json:"n,omitempty"`
	Head    uint64 `json:"h,omitempty,string"`
	// Modified is when the file had last been written, in nanoseconds since
	// 1970. What is older cannot have come after it.
	Modified int64 `json:"m,omitempty"`
}

// eventMark is a position in an event channel.
type eventMark struct {
	RecordID uint64 `json:"r,string"`
}

func headSum(b []byte) uint64 {
	if len(b) == 0 {
		return 0
	}
	h := fnv.New64a()
	h.Write(b)
	return h.Sum64()
}

func (c cursor) encode() string {
	b, _ := json.Marshal(c) // it has nothing that cannot be encoded
	return base64.RawURLEncoding.EncodeToString(b)
}

// decodeCursor reads a cursor that belongs to the given queries. It returns their
// positions in the order of the queries.
func decodeCursor(text string, queries []query) ([]resume, *api.LogError) {
	refuse := func(format string, args ...any) ([]resume, *api.LogError) {
		return nil, badRequest("cursor", format, args...)
	}
	if len(text) > api.MaxLogCursorBytes {
		return refuse("a cursor has at most %d bytes", api.MaxLogCursorBytes)
	}
	b, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil {
		return refuse("not a cursor: %v", err)
	}
	var c cursor
	if err := config.DecodeStrict(b, &c); err != nil {
		return refuse("not a cursor: %v", err)
	}
	if c.Version != cursorVersion {
		return refuse("the cursor is of version %d, this agent reads version %d: start again without it", c.Version, cursorVersion)
	}
	if len(c.Sources) != len(queries) {
		return refuse("the cursor belongs to a request with other queries")
	}
	for i, r := range c.Sources {
		if r.Query != queries[i].text {
			return refuse("the cursor belongs to a request with other queries")
		}
		if err := r.check(); err != nil {
			return refuse("not a cursor: %v", err)
		}
	}
	return c.Sources, nil
}

func (r resume) check() error {
	switch {
	case r.File != nil && r.Event != nil:
		return errors.New("two kinds of positions for one source")
	case r.Skip < 0:
		return errors.New("negative length")
	}
	if f := r.File; f != nil {
		if f.Offset < 0 || f.HeadLen < 0 || f.HeadLen > headBytes {
			return errors.New("impossible position")
		}
	}
	return nil
}
