// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package logfollow

import (
	"bytes"
	"encoding/json"
	"hash/maphash"
	"slices"
	"strings"
	"time"
)

// maxUnknown is how many unknown lines may come in a row. After them the delivered lines
// are forgotten.
const maxUnknown = 1000

// delivered knows which lines were delivered since the anchor, and recognizes them
// when they come again.
//
// The lines of one source come again in the same order, but those of several may be
// merged in another one, as a follow delivers what it has at the moment; so each
// source is remembered by itself. Lines that are not known may come between known ones:
// a filter sees a record as a whole when it is read again, and only the part that had
// been written when it was followed.
type delivered struct {
	seed       maphash.Seed
	labels     []string
	timestamps bool
	sources    map[string]*sequence
}

// sequence are the lines of one source.
type sequence struct {
	lines []uint64
	// at is up to where they have come again. At the end nothing comes again.
	at      int
	unknown int
}

func newDelivered(queries []string, timestamps bool) delivered {
	d := delivered{seed: maphash.MakeSeed(), timestamps: timestamps, sources: make(map[string]*sequence)}
	if len(queries) > 1 {
		d.labels = queries
	}
	return d
}

// forget is for a new anchor.
func (d *delivered) forget() { clear(d.sources) }

// replay is for when everything comes again.
func (d *delivered) replay() {
	for _, s := range d.sources {
		s.at, s.unknown = 0, 0
	}
}

// fresh says whether a line is new, and remembers it. gap says that the server misses
// something before it.
func (d *delivered) fresh(line []byte, gap bool) bool {
	source, text := d.split(line)
	return d.source(source).fresh(maphash.Bytes(d.seed, text), gap)
}

func (d *delivered) source(name string) *sequence {
	s := d.sources[name]
	if s == nil {
		s = &sequence{}
		d.sources[name] = s
	}
	return s
}

// split takes off a line what need not be the same when it comes again, and says of
// which source it is.
func (d *delivered) split(line []byte) (source string, text []byte) {
	text = line
	for _, label := range d.labels {
		if rest, ok := bytes.CutPrefix(line, []byte("["+label+"] ")); ok {
			source, text = label, rest
			break
		}
	}
	if d.timestamps {
		// A line without a time of its own is stamped with that of its arrival.
		if stamp, rest, ok := bytes.Cut(text, []byte(" ")); ok {
			if _, err := time.Parse(time.RFC3339Nano, string(stamp)); err == nil {
				text = rest
			}
		}
	}
	return source, text
}

func (s *sequence) fresh(line uint64, gap bool) bool {
	if s.at < len(s.lines) {
		if i := slices.Index(s.lines[s.at:], line); i >= 0 {
			s.at += i + 1
			s.unknown = 0
			return false
		}
		if s.unknown++; gap || s.unknown > maxUnknown {
			s.lines, s.at = nil, 0
		}
	}
	s.lines = slices.Insert(s.lines, s.at, line)
	s.at++
	return true
}

// record is a line of a log as JSON. The order is that of the server.
type record struct {
	Time     string  `json:"time,omitempty"`
	Source   string  `json:"source"`
	Message  string  `json:"message"`
	Level    *string `json:"level,omitempty"`
	EventID  *uint64 `json:"eventID,omitempty"`
	Provider *string `json:"provider,omitempty"`
	RecordID *uint64 `json:"recordID,omitempty"`
	Channel  *string `json:"channel,omitempty"`
}

// freshRecord returns the new part of a record, or nil. The lines of a file that is
// being written come one by one, and as one record when they are read again.
func (d *delivered) freshRecord(text []byte, gap bool) []byte {
	var r record
	if err := json.Unmarshal(text, &r); err != nil || r.RecordID != nil {
		// Events have a number, and come as a whole.
		if d.source(r.Source).fresh(maphash.Bytes(d.seed, text), gap) {
			return text
		}
		return nil
	}
	lines := strings.Split(r.Message, "\n")
	known := 0
	for i, line := range lines {
		// The rest of a record whose beginning is known is new when one of its lines is.
		if d.source(r.Source).fresh(maphash.String(d.seed, line), gap) {
			for _, rest := range lines[i+1:] {
				d.source(r.Source).fresh(maphash.String(d.seed, rest), false)
			}
			break
		}
		known++
	}
	switch known {
	case 0:
		return text
	case len(lines):
		return nil
	}
	r.Message = strings.Join(lines[known:], "\n")
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(r); err != nil {
		return text
	}
	return out.Bytes()
}
