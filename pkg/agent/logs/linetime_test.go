// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package logs

import (
	"testing"
	"time"
)

func TestLineTime(t *testing.T) {
	berlin := time.FixedZone("CET", 3600)
	utc := newTimeContext(time.UTC, time.Date(2026, 3, 5, 12, 0, 0, 0, time.UTC))
	newYear := newTimeContext(time.UTC, time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC))
	local := newTimeContext(berlin, time.Date(2026, 3, 5, 12, 0, 0, 0, time.UTC))
	at := func(nanos int) time.Time { return time.Date(2026, 1, 2, 15, 4, 5, nanos, time.UTC) }
	tests := []struct {
		name string
		line string
		c    timeContext
		want time.Time // zero: none
	}{
		{name: "klog", line: "I0102 15:04:05.123456    1234 server.go:1] Started", c: utc, want: at(123456000)},
		{name: "klog in the host's zone", line: "E0102 16:04:05.000000 x", c: local, want: at(0)},
		{name: "klog of last year", line: "W1231 23:59:59.999999 x", c: newYear, want: time.Date(2025, 12, 31, 23, 59, 59, 999999000, time.UTC)},
		{name: "klog of this year in the same file", line: "W0101 00:00:00.000000 x", c: newYear, want: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)},
		{name: "klog a few hours ahead of the file", line: "I0305 18:00:00.000000 x", c: utc, want: time.Date(2026, 3, 5, 18, 0, 0, 0, time.UTC)},
		{name: "klog of 29 February is of a leap year", line: "I0229 00:00:00.000000 x", c: utc, want: time.Date(2024, 2, 29, 0, 0, 0, 0, time.UTC)},
		{name: "klog of no month", line: "I1302 15:04:05.123456 x", c: utc},
		{name: "klog of no day", line: "I0230 15:04:05.123456 x", c: utc},
		{name: "klog cut short", line: "I0102 15:04:05.12345", c: utc},
		{name: "word that begins like klog", line: "Initializing at 15:04:05", c: utc},
		{name: "RFC 3339", line: "2026-01-02T15:04:05Z x", c: utc, want: at(0)},
		{name: "RFC 3339 alone", line: "2026-01-02T15:04:05Z", c: utc, want: at(0)},
		{name: "RFC 3339 with nanoseconds and zone", line: "2026-01-02T16:04:05.123456789+01:00 stdout F x", c: utc, want: at(123456789)},
		{name: "zone to the west", line: "2026-01-02T09:34:05-05:30 x", c: utc, want: at(0)},
		{name: "zone without colon", line: "2026-01-02T16:04:05+0100 x", c: utc, want: at(0)},
		{name: "no zone is the host's", line: "2026-01-02T16:04:05 x", c: local, want: at(0)},
		{name: "more digits than nanoseconds", line: "2026-01-02T15:04:05.1234567899Z x", c: utc, want: at(123456789)},
		{name: "space and comma", line: "2026-01-02 15:04:05,250 INFO x", c: utc, want: at(250000000)},
		{name: "comma before a word", line: "2026-01-02 16:04:05,zookeeper x", c: local, want: at(0)},
		{name: "comma before a negative number", line: "2026-01-02 16:04:05,-1234,x", c: local, want: at(0)},
		{name: "space and dot", line: "2026-01-02 15:04:05.250 INFO x", c: utc, want: at(250000000)},
		{name: "slashes", line: "2026/01/02 15:04:05 x", c: utc, want: at(0)},
		{name: "mixed separators", line: "2026-01/02 15:04:05 x", c: utc},
		{name: "no such day", line: "2026-02-29 15:04:05 x", c: utc},
		{name: "no such hour", line: "2026-01-02 25:04:05 x", c: utc},
		{name: "leap second", line: "2016-12-31T23:59:60Z x", c: utc, want: time.Date(2017, 1, 1, 0, 0, 0, 0, time.UTC)},
		{name: "logfmt", line: `time="2026-01-02T15:04:05Z" level=info msg=x`, c: utc, want: at(0)},
		{name: "logfmt unquoted, not first", line: `level=info ts=2026-01-02T15:04:05.5Z msg=x`, c: utc, want: at(500000000)},
		{name: "logfmt epoch", line: `ts=1767366245.5 msg=x`, c: utc, want: at(500000000)},
		{name: "logfmt key within a word", line: `uptime=1767366245 msg=x`, c: utc},
		{name: "duration is no epoch", line: `time=12.5 msg=x`, c: utc},
		{name: "JSON time", line: `{"level":"info","time":"2026-01-02T15:04:05Z","msg":"x"}`, c: utc, want: at(0)},
		{name: "JSON with spaces", line: `{ "time" : "2026-01-02T15:04:05Z" }`, c: utc, want: at(0)},
		{name: "JSON epoch float", line: `{"level":"info","ts":1767366245.123456,"msg":"x"}`, c: utc, want: at(123456000)},
		{name: "JSON epoch in exponent", line: `{"ts":1.767366245e+09}`, c: utc, want: at(0)},
		{name: "JSON epoch milliseconds", line: `{"ts":1767366245123}`, c: utc, want: at(123000000)},
		{name: "JSON epoch microseconds", line: `{"ts":1767366245123456}`, c: utc, want: at(123456000)},
		{name: "JSON epoch nanoseconds", line: `{"ts":1767366245123456789}`, c: utc, want: at(123456789)},
		{name: "JSON @timestamp", line: `{"@timestamp":"2026-01-02T15:04:05Z"}`, c: utc, want: at(0)},
		{name: "JSON time of the message", line: `{"msg":"time is up","time":"2026-01-02T15:04:05Z"}`, c: utc, want: at(0)},
		{name: "JSON without", line: `{"msg":"x"}`, c: utc},
		{name: "indented", line: "\t2026-01-02T15:04:05Z in a stack trace", c: utc},
		{name: "plain", line: "goroutine 1 [running]:", c: utc},
		{name: "number", line: "42 items", c: utc},
		{name: "empty", line: "", c: utc},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, ok := lineTime([]byte(tt.line), tt.c)
			if ok == tt.want.IsZero() || ok && !got.Equal(tt.want) {
				t.Errorf("lineTime(%q) = %v, %v, want %v", tt.line, got.UTC(), ok, tt.want)
			}
		})
	}
}

func TestHasTimestamp(t *testing.T) {
	tests := []struct {
		name string
		line string
		want bool
	}{
		{name: "UTC", line: "2026-01-02T15:04:05Z x", want: true},
		{name: "fraction and zone", line: "2026-01-02T15:04:05.5+01:00 x", want: true},
		{name: "alone", line: "2026-01-02T15:04:05Z", want: true},
		{name: "no zone", line: "2026-01-02T15:04:05.123456 x"},
		{name: "space", line: "2026-01-02 15:04:05Z x"},
		{name: "part of a word", line: "2026-01-02T15:04:05Zulu"},
		{name: "klog", line: "I0102 15:04:05.123456 x"},
		{name: "empty"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := hasTimestamp([]byte(tt.line)); got != tt.want {
				t.Errorf("hasTimestamp(%q) = %v, want %v", tt.line, got, tt.want)
			}
		})
	}
}

func FuzzLineTime(f *testing.F) {
	for _, s := range []string{
		"I0102 15:04:05.123456 x", "I0229 15:04:05.123456 x", "2026-01-02T15:04:05.5+01:00", "2026/01/02 15:04:05,1",
		`time="2026-01-02T15:04:05Z"`, "ts=1767366245.5", `{"ts":1e9}`, `{"time":`, "ts=", "9999-12-31T23:59:59-23:59",
	} {
		f.Add([]byte(s))
	}
	c := newTimeContext(time.FixedZone("x", -5*3600), time.Date(2026, 3, 5, 12, 0, 0, 0, time.UTC))
	f.Fuzz(func(t *testing.T, line []byte) {
		got, ok := lineTime(line, c)
		if !ok {
			return
		}
		if len(line) > 0 && (line[0] == ' ' || line[0] == '\t') {
			t.Errorf("%q is indented and got the time %v", line, got)
		}
		// Every time that is found can be printed and read again.
		again, err := time.Parse(time.RFC3339Nano, got.UTC().Format(time.RFC3339Nano))
		if y := got.UTC().Year(); err != nil && y >= 0 && y <= 9999 || err == nil && !again.Equal(got) {
			t.Errorf("%q: %v does not survive printing: %v, %v", line, got, again, err)
		}
		hasTimestamp(line)
	})
}
