// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package logs

import (
	"bytes"
	"math"
	"strconv"
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
		t, _, ok := calendarTime(line, c.loc)
		return t, ok
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
	const layout = "I0102 15:04:05.000000"
	if len(line) < len(layout) || line[5] != ' ' || line[8] != ':' || line[11] != ':' || line[14] != '.' {
		return time.Time{}, false
	}
	month, ok1 := digits(line[1:3])
	day, ok2 := digits(line[3:5])
	hour, ok3 := digits(line[6:8])
	minute, ok4 := digits(line[9:11])
	second, ok5 := digits(line[12:14])
	micro, ok6 := digits(line[15:21])
	if !ok1 || !ok2 || !ok3 || !ok4 || !ok5 || !ok6 {
		return time.Time{}, false
	}
	// Eight years are enough to find the last leap year for a 29 February, even
	// around 2100.
	for year := c.year; year > c.year-9; year-- {
		t, ok := validDate(year, month, day, hour, minute, second, micro*1000, c.loc)
		if ok && !t.After(c.latest) {
			return t, true
		}
	}
	return time.Time{}, false
}

// calendarTime reads a date and time in the order year to second at the start of
// b, and says how many bytes it took. Without a zone, loc is meant.
func calendarTime(b []byte, loc *time.Location) (t time.Time, n int, ok bool) {
	const layout = "2006-01-02T15:04:05"
	if len(b) < len(layout) {
		return t, 0, false
	}
	sep := b[4]
	if (sep != '-' && sep != '/') || b[7] != sep || b[13] != ':' || b[16] != ':' {
		return t, 0, false
	}
	if b[10] != 'T' && b[10] != ' ' && b[10] != 't' {
		return t, 0, false
	}
	year, ok1 := digits(b[0:4])
	month, ok2 := digits(b[5:7])
	day, ok3 := digits(b[8:10])
	hour, ok4 := digits(b[11:13])
	minute, ok5 := digits(b[14:16])
	second, ok6 := digits(b[17:19])
	if !ok1 || !ok2 || !ok3 || !ok4 || !ok5 || !ok6 {
		return t, 0, false
	}
	n = len(layout)
	nanos := 0
	if n+1 < len(b) && (b[n] == '.' || b[n] == ',') && isDigit(b[n+1]) {
		n++
		for scale := 100_000_000; n < len(b) && isDigit(b[n]); n++ {
			nanos += int(b[n]-'0') * scale
			scale /= 10
		}
	}
	if zone, zn, found := zoneOffset(b[n:]); found {
		loc = zone
		n += zn
	}
	t, ok = validDate(year, month, day, hour, minute, second, nanos, loc)
	return t, n, ok
}

// zoneOffset reads Z, +01:00 or +0100 at the start of b.
func zoneOffset(b []byte) (loc *time.Location, n int, ok bool) {
	if len(b) == 0 {
		return nil, 0, false
	}
	if b[0] == 'Z' || b[0] == 'z' {
		return time.UTC, 1, true
	}
	if (b[0] != '+' && b[0] != '-') || len(b) < 5 {
		return nil, 0, false
	}
	n = 5
	rest := b[3:5]
	if b[3] == ':' {
		if len(b) < 6 {
			return nil, 0, false
		}
		n, rest = 6, b[4:6]
	}
	hours, ok1 := digits(b[1:3])
	minutes, ok2 := digits(rest)
	if !ok1 || !ok2 || hours > 23 || minutes > 59 {
		return nil, 0, false
	}
	seconds := hours*3600 + minutes*60
	if b[0] == '-' {
		seconds = -seconds
	}
	if seconds == 0 {
		return time.UTC, n, true
	}
	return time.FixedZone("", seconds), n, true
}

// hasTimestamp says whether a line begins with a complete RFC 3339 time.
func hasTimestamp(line []byte) bool {
	const layout = "2006-01-02T15:04:05Z"
	if len(line) < len(layout) || line[4] != '-' || line[10] != 'T' {
		return false
	}
	_, n, ok := calendarTime(line, time.UTC)
	if !ok {
		return false
	}
	last := line[n-1]
	zoned := last == 'Z' || (n >= 6 && (line[n-6] == '+' || line[n-6] == '-') && line[n-3] == ':' && n > len(layout))
	return zoned && (n == len(line) || line[n] == ' ' || line[n] == '\t')
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
	if t, _, ok := calendarTime(v, loc); ok {
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
// Which of them is told from the magnitude, for every time from 2001 to 2286.
func epochTime(s string) (time.Time, bool) {
	// Integers and decimal fractions are read exactly: a float64 has not
	// enough digits for the microseconds of today.
	whole, frac := s, ""
	for i := range len(s) {
		if s[i] == '.' {
			whole, frac = s[:i], s[i+1:]
			break
		}
	}
	n, err := strconv.ParseInt(whole, 10, 64)
	if err == nil && n >= 1e9 && allDigits(frac) {
		switch {
		case n < 1e10:
			nanos := 0
			for i, scale := 0, 100_000_000; i < len(frac) && scale > 0; i, scale = i+1, scale/10 {
				nanos += int(frac[i]-'0') * scale
			}
			return time.Unix(n, int64(nanos)).UTC(), true
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
	sec, fraction := math.Modf(f)
	return time.Unix(int64(sec), int64(fraction*1e9)).UTC(), true
}

// validDate is time.Date without its normalization: 30 February is no date.
func validDate(year, month, day, hour, minute, second, nanos int, loc *time.Location) (time.Time, bool) {
	if month < 1 || month > 12 || day < 1 || day > 31 || hour > 23 || minute > 59 || second > 60 {
		return time.Time{}, false
	}
	t := time.Date(year, time.Month(month), day, hour, minute, second, nanos, loc)
	if day > 28 && time.Date(year, time.Month(month), day, 12, 0, 0, 0, time.UTC).Day() != day {
		return time.Time{}, false
	}
	return t, true
}

func digits(b []byte) (int, bool) {
	n := 0
	for _, c := range b {
		if !isDigit(c) {
			return 0, false
		}
		n = n*10 + int(c-'0')
	}
	return n, true
}

func isDigit(b byte) bool { return b >= '0' && b <= '9' }

func allDigits(s string) bool {
	for i := range len(s) {
		if !isDigit(s[i]) {
			return false
		}
	}
	return true
}
