// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package logs

import (
	"context"
	"io"
	"runtime"
	"strings"
	"testing"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
)

// TestTailOfShortLines: what lists need for short lines counts, not the text alone.
func TestTailOfShortLines(t *testing.T) {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	tail := &tailBuffer{max: api.MaxLogTailLines}
	for range 600_000 {
		tail.push(0, place{}, []byte("\n"))
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if got := int64(after.HeapAlloc) - int64(before.HeapAlloc); got > maxTailBytes {
		t.Errorf("%d lines are kept in %d bytes, want at most %d", len(tail.lines), got, maxTailBytes)
	}
	if len(tail.lines) < 100_000 {
		t.Errorf("only %d lines are kept", len(tail.lines))
	}
	// A long line leaves no large buffer for the short ones after it.
	tail = &tailBuffer{max: 100}
	for i := range int64(10_000) {
		text := "short\n"
		if i%100 == 0 {
			text = strings.Repeat("x", maxLine)
		}
		tail.push(0, place{}, []byte(text))
	}
	if len(tail.lines) != 100 || tail.short != nil {
		t.Errorf("%d lines of 100 are kept", len(tail.lines))
	}
}

// TestTailSaysWhatIsLeftOut: the last lines come, and a notice that there are not as many as
// were requested.
func TestTailSaysWhatIsLeftOut(t *testing.T) {
	const lines = 40_000
	h := newTestHost(t)
	h.write(t, "x.log", strings.Repeat(strings.Repeat("x", 1<<10)+"\n", lines-1)+"the last\n")
	h.write(t, "y.log", "of y\n")
	h.touch(t, "y.log", day(12, 0, 1))
	req := api.LogRequest{Queries: []string{"x"}, Pattern: ".", TailLines: ptr(int64(lines))}
	got := h.read(t, req)
	if first, rest, _ := strings.Cut(got, "\n"); !strings.HasPrefix(first, "# gap: x: older lines are left out") || strings.Contains(rest, "#") {
		t.Errorf("the first line is %q", first)
	}
	if !strings.HasSuffix(got, "xxx\nthe last\n") {
		t.Errorf("it ends with %q", got[max(0, len(got)-40):])
	}
	if n := strings.Count(got, "\n"); n < lines/2 {
		t.Errorf("only %d lines came", n)
	}
	req.TailLines = ptr(int64(10_000))
	if got := h.read(t, req); strings.Count(got, "\n") != 10_000 || strings.Contains(got, "#") {
		t.Errorf("%d lines came, want 10000 and no notice", strings.Count(got, "\n"))
	}
	// It is the source with the old lines that misses some.
	req.Queries, req.TailLines, req.Output = []string{"y", "x"}, ptr(int64(lines)), api.LogOutputJSON
	if got, _, _ := strings.Cut(h.read(t, req), "\n"); !strings.HasPrefix(got, `{"gap":"older lines`) || !strings.Contains(got, `"source":"x"`) {
		t.Errorf("JSON begins with %q", got)
	}
}

// endlessEvents is an event log whose channels have more events than anybody can read.
type endlessEvents struct {
	fakeEventLog
	message string
	// read is called with the number of events that were read.
	read func(n int)
}

func (l *endlessEvents) Query(context.Context, EventQuery) (EventReader, error) {
	return &endlessReader{log: l}, nil
}

type endlessReader struct {
	log *endlessEvents
	n   int
}

func (r *endlessReader) Next(context.Context) (*Event, error) {
	if r.n++; r.log.read != nil {
		r.log.read(r.n)
	}
	return &Event{RecordID: 1<<40 - uint64(r.n), Time: day(10, 0, 0), Provider: "x", Level: "Error", Message: r.log.message}, nil
}

func (r *endlessReader) Close() error { return nil }

// TestTailOfEvents: the last events of a large channel have a bound, and what is left out is said.
func TestTailOfEvents(t *testing.T) {
	h := newTestHost(t)
	most := 0
	log := &endlessEvents{message: strings.Repeat("x", 64<<10), read: func(n int) { most = max(most, n) }}
	h.events = log
	got := h.read(t, api.LogRequest{Queries: []string{"eventlog/Security"}, TailLines: ptr(int64(api.MaxLogTailLines)), Output: api.LogOutputJSON})
	if first, _, _ := strings.Cut(got, "\n"); !strings.HasPrefix(first, `{"gap":"older lines are left out`) {
		t.Errorf("the first line is %.200q", first)
	}
	if events := strings.Count(got, `"message"`); events < 100 || most > maxTailBytes/len(log.message)+1 {
		t.Errorf("%d events were read for %d that came", most, events)
	}
	// Two channels share what one of them may have.
	alone := most
	most = 0
	h.read(t, api.LogRequest{Queries: []string{"eventlog/Security", "eventlog/System"}, TailLines: ptr(int64(api.MaxLogTailLines))})
	if most > alone/2+1 {
		t.Errorf("%d events of each of two channels were read, and %d of one", most, alone)
	}
}

// TestTailOfEventsStops: a search for events that are not there ends when nobody waits for it.
func TestTailOfEventsStops(t *testing.T) {
	h := newTestHost(t)
	searching := make(chan struct{})
	h.events = &endlessEvents{message: "x", read: func(n int) {
		if n == 1000 {
			close(searching)
		}
	}}
	a := startFollow(t, h, api.LogRequest{Queries: []string{"eventlog/Security"}, TailLines: ptr(int64(10)), Pattern: "nope"})
	<-searching
	if _, err := io.WriteString(a.stdin, api.StopLine+"\n"); err != nil {
		t.Fatal(err)
	}
	if err := a.wait(); err != nil {
		t.Fatal(err)
	}
	header, body := splitAnswer(t, a.String())
	if header.Error == nil || header.Error.Code != 503 || !strings.Contains(header.Error.Message, "ended before the event log was open") || body != "" {
		t.Errorf("got %+v and %q", header.Error, body)
	}
}

// costly is a pattern that takes minutes to find that it does not match a long line.
const costly = "(?:.?){1000}(?:.?){1000}(?:.?){1000}Z"

// TestLongMatchStops: a search in a long line ends when nobody waits for it, and is done again
// by who continues.
func TestLongMatchStops(t *testing.T) {
	h := newTestHost(t)
	long := strings.Repeat("x", maxLine-1)
	h.write(t, "x.log", "Z\n"+long+"\nafter\n")
	req := api.LogRequest{Queries: []string{"x"}, Pattern: costly, EmitCursor: true, CaseSensitive: true}
	text, cursor := splitCursor(t, startFollow(t, h, req).stop())
	if text != "Z\n" {
		t.Errorf("got %.200q", text)
	}
	if got := h.read(t, api.LogRequest{Queries: []string{"x"}, Cursor: cursor}); got != long+"\nafter\n" {
		t.Errorf("after the cursor came %d bytes, want %d", len(got), len(long)+7)
	}
}

// TestLongMatch: whether a search can be ended makes no difference to what it finds.
func TestLongMatch(t *testing.T) {
	text := strings.Repeat("x \xff\u00e4\n", 1<<10) + "end"
	for expression, want := range map[string]bool{"(?m)^end$": true, "end": true, "(?i)END": true, `\xff`: false, "\\x{FFFD}\u00e4": true, "nope": false, `^x`: true, `(?m)^\w+$`: true} {
		h := newTestHost(t)
		p, refused := newPlan(t.Context(), &api.LogRequest{Queries: []string{"x"}, Pattern: expression, CaseSensitive: true}, h)
		if refused != nil {
			t.Fatal(refused)
		}
		p.filter.pattern.instructions = stepsAtOnce // so that it can be ended
		looked := 0
		got, unknown := p.filter.pattern.match([]byte(text), func() bool { looked++; return false })
		if got != want || unknown || got != p.filter.pattern.re.MatchString(text) {
			t.Errorf("%s: got %v, %v, want %v", expression, got, unknown, want)
		}
		if _, unknown = p.filter.pattern.match([]byte(text), func() bool { return true }); !unknown && looked > 0 {
			t.Errorf("%s: it did not end", expression)
		}
	}
}
