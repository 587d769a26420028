// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package logs

import (
	"bytes"
	"math"
	"strconv"
	"strings"
	"time"
)

// timeContext completes the times that log lines leave incomplete.
type timeContext struct {
	// loc is the zone of times that name none.
	loc *time.Location
	// latest is what no line can be younger than, and year is its year in loc.
	// They give klog's times their year.
	latest time.Time
	year   int
}

// newTimeContext is for lines that were written at modified at the latest, which is
// commonly when their file was.
func newTimeContext(loc *time.Location, modified time.Time) timeContext {
	// A day of grace covers clocks that were set back and zones that changed.
	latest := modified.Add(24 * time.Hour)
	return timeContext{loc: loc, latest: latest, year: latest.In(loc).Year()}
}

// maxTimeSearch is how far into a line a time="…" or "ts":… is looked for.
// Those keys come first in what the usual encoders write, but not always first
// of all (zap puts the level before).
const maxTimeSearch = 256

// lineTime finds the time that a line begins with or names as its own. It knows
//
//	klog      I0102 15:04:05.000000
//	RFC 3339  2006-01-02T15:04:05.000Z, with or without fraction and zone
//	common    2006-01-02 15:04:05,000 and 2006/01/02 15:04:05
//	logfmt    time="2006-01-02T15:04:05Z" and ts=…, at the start or after a space
//	JSON      {"time":"…"}, {"ts":1136214245.123}, {"timestamp":…}, {"@timestamp":…}
//
// A line for which it says false is a continuation of the record before.
func lineTime(line []byte, c timeContext) (time.Time, bool) {
	if len(line) == 0 {
		return time.Time{}, false
	}
	switch b := line[0]; {
	case b >= '0' && b <= '9':
		return calendarTime(line, c.loc)
	case b == 'I' || b == 'W' || b == 'E' || b == 'F':
		if t, ok := klogTime(line, c); ok {
			return t, true
		}
	case b == ' ' || b == '\t':
		// Indented lines are continuations: stack traces, wrapped JSON.
		return time.Time{}, false
	}
	if len(line) > maxTimeSearch {
		line = line[:maxTimeSearch]
	}
	if line[0] == '{' {
		return jsonTime(line, c.loc)
	}
	return logfmtTime(line, c.loc)
}

// klogTime reads the header of klog: severity, month, day, time of day with
// microseconds; no year and no zone.
func klogTime(line []byte, c timeContext) (time.Time, bool) {
	if !hasShape(line[1:], "0102 15:04:05.000000") {
		return time.Time{}, false
	}
	// Eight years are enough to find the last leap year for a 29 February, even
	// around 2100.
	for year := c.year; year > c.year-9; year-- {
		t, ok := date(year, line[1:3], line[3:5], line[6:14], line[15:21], c.loc)
		if ok && !t.After(c.latest) {
			return t, true
		}
	}
	return time.Time{}, false
}

// calendarTime reads a date and time in the order year to second at the start of
// b. Without a zone, loc is meant.
func calendarTime(b []byte, loc *time.Location) (time.Time, bool) {
	if len(b) < len("2006-01-02T15:04:05") || b[4] != '-' && b[4] != '/' || b[7] != b[4] ||
		!hasShape(b, "2006") || !hasShape(b[5:], "01") || !hasShape(b[8:], "02") ||
		!hasShape(b[11:], "15:04:05") || bytes.IndexByte([]byte("Tt "), b[10]) < 0 {
		return time.Time{}, false
	}
	rest := b[19:]
	var fraction []byte
	if len(rest) > 1 && (rest[0] == '.' || rest[0] == ',') {
		if fraction = leadingDigits(rest[1:]); len(fraction) > 0 {
			rest = rest[1+len(fraction):]
		}
	}
	if zone, ok := zoneOffset(rest); ok {
		loc = zone
	}
	return date(number(b[:4]), b[5:7], b[8:10], b[11:19], fraction, loc)
}

// zoneOffset reads Z, +01:00 or +0100 at the start of b.
func zoneOffset(b []byte) (*time.Location, bool) {
	var minutes int
	switch {
	case len(b) == 0:
		return nil, false
	case b[0] == 'Z' || b[0] == 'z':
		return time.UTC, true
	case b[0] != '+' && b[0] != '-':
		return nil, false
	case hasShape(b[1:], "07:00"):
		minutes = number(b[4:6])
	case hasShape(b[1:], "0700"):
		minutes = number(b[3:5])
	default:
		return nil, false
	}
	hours := number(b[1:3])
	if hours > 23 || minutes > 59 {
		return nil, false
	}
	seconds := hours*3600 + minutes*60
	if b[0] == '-' {
		seconds = -seconds
	}
	return time.FixedZone("", seconds), true
}

// hasTimestamp says whether a line begins with a complete RFC 3339 time.
func hasTimestamp(line []byte) bool {
	if !hasShape(line, "2006") {
		return false
	}
	if i := bytes.IndexAny(line, " \t"); i >= 0 {
		line = line[:i]
	}
	_, err := time.Parse(time.RFC3339, string(line))
	return err == nil
}

func jsonTime(line []byte, loc *time.Location) (time.Time, bool) {
	for _, key := range [...]string{`"time"`, `"ts"`, `"timestamp"`, `"@timestamp"`} {
		i := bytes.Index(line, []byte(key))
		if i < 0 {
			continue
		}
		v := bytes.TrimLeft(line[i+len(key):], " \t")
		if len(v) == 0 || v[0] != ':' {
			continue
		}
		if t, ok := valueTime(bytes.TrimLeft(v[1:], " \t"), loc); ok {
			return t, true
		}
	}
	return time.Time{}, false
}

func logfmtTime(line []byte, loc *time.Location) (time.Time, bool) {
	for _, key := range [...]string{"time=", "ts=", "timestamp="} {
		for from := 0; ; {
			i := bytes.Index(line[from:], []byte(key))
			if i < 0 {
				break
			}
			i += from
			from = i + len(key)
			if i > 0 && line[i-1] != ' ' {
				continue
			}
			if t, ok := valueTime(line[from:], loc); ok {
				return t, true
			}
		}
	}
	return time.Time{}, false
}

// valueTime reads a time as the value of a key: quoted or not, calendar or epoch.
func valueTime(v []byte, loc *time.Location) (time.Time, bool) {
	if len(v) > 0 && v[0] == '"' {
		v = v[1:]
	}
	if t, ok := calendarTime(v, loc); ok {
		return t, true
	}
	n := 0
	for n < len(v) && (isDigit(v[n]) || v[n] == '.' || v[n] == 'e' || v[n] == 'E' || v[n] == '+') {
		n++
	}
	// Ten digits and more: seconds since 2001. Shorter numbers are durations.
	if n < 10 || !isDigit(v[0]) || !isDigit(v[1]) && v[1] != '.' {
		return time.Time{}, false
	}
	return epochTime(string(v[:n]))
}

// epochTime reads seconds, milliseconds, microseconds or nanoseconds since 1970.
// The magnitude decides which, for every time from 2001 to 2286.
func epochTime(s string) (time.Time, bool) {
	// Integers and decimal fractions are read exactly: a float64 has not
	// enough digits for the microseconds of today.
	whole, fraction, _ := strings.Cut(s, ".")
	n, err := strconv.ParseInt(whole, 10, 64)
	if err == nil && n >= 1e9 && len(leadingDigits([]byte(fraction))) == len(fraction) {
		switch {
		case n < 1e10:
			return time.Unix(n, int64(nanoseconds([]byte(fraction)))).UTC(), true
		case n < 1e13:
			return time.UnixMilli(n).UTC(), true
		case n < 1e16:
			return time.UnixMicro(n).UTC(), true
		default:
			return time.Unix(n/1e9, n%1e9).UTC(), true
		}
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil || f < 1e9 || f >= 1e10 {
		return time.Time{}, false
	}
	sec, rest := math.Modf(f)
	return time.Unix(int64(sec), int64(rest*1e9)).UTC(), true
}

// date is time.Date of numbers in text, without its normalization: 30 February is no date.
// clock is like 15:04:05.
func date(year int, monthText, dayText, clock, fraction []byte, loc *time.Location) (time.Time, bool) {
	month, day := time.Month(number(monthText)), number(dayText)
	hour, minute, second := number(clock[:2]), number(clock[3:5]), number(clock[6:])
	if month < 1 || month > 12 || day < 1 || hour > 23 || minute > 59 || second > 60 ||
		day > 28 && time.Date(year, month, day, 12, 0, 0, 0, time.UTC).Day() != day {
		return time.Time{}, false
	}
	return time.Date(year, month, day, hour, minute, second, nanoseconds(fraction), loc), true
}

// hasShape says whether b begins like shape, with any digit in place of each of its digits.
func hasShape(b []byte, shape string) bool {
	if len(b) < len(shape) {
		return false
	}
	for i, want := range []byte(shape) {
		if isDigit(want) && !isDigit(b[i]) || !isDigit(want) && b[i] != want {
			return false
		}
	}
	return true
}

// number is the value of digits.
func number(digits []byte) int {
	n := 0
	for _, c := range digits {
		n = n*10 + int(c-'0')
	}
	return n
}

// nanoseconds is the value of the digits of a fraction of a second.
func nanoseconds(fraction []byte) int {
	n, scale := 0, 100_000_000
	for _, c := range fraction {
		n += int(c-'0') * scale
		scale /= 10
	}
	return n
}

func leadingDigits(b []byte) []byte {
	n := 0
	for n < len(b) && isDigit(b[n]) {
		n++
	}
	return b[:n]
}

func isDigit(b byte) bool { return b >= '0' && b <= '9' }
