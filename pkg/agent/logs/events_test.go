// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package logs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
)

// fakeEventLog keeps channels in memory.
type fakeEventLog struct {
	mu        sync.Mutex
	channels  map[string][]Event
	providers []string
	fail      error
	// direct are the analytic and debug channels; true: it is enabled.
	direct map[string]bool
}

func (l *fakeEventLog) add(channel, provider string, id uint64, when time.Time, message string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.channels[channel] = append(l.channels[channel], Event{
		RecordID: id, Time: when, Channel: channel, Provider: provider, EventID: 7, Level: "Error", Message: message,
	})
}

// clear empties a channel, or only its first n events.
func (l *fakeEventLog) clear(channel string, n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.channels[channel] = l.channels[channel][n:]
}

func (l *fakeEventLog) Channels(context.Context) ([]EventChannel, error) {
	if l.fail != nil {
		return nil, l.fail
	}
	var list []EventChannel
	for name := range l.channels {
		list = append(list, EventChannel{Name: name, Size: 1, Modified: day(1, 0, 0)})
	}
	return list, nil
}

func (l *fakeEventLog) HasProvider(_ context.Context, name string) (bool, error) {
	return slices.Contains(l.providers, name), nil
}

func (l *fakeEventLog) Query(_ context.Context, q EventQuery) (EventReader, error) {
	if l.fail != nil {
		return nil, l.fail
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, ok := l.channels[q.Channel]; !ok {
		return nil, fmt.Errorf("fake: %w", ErrNoSuchChannel)
	}
	if enabled, direct := l.direct[q.Channel]; direct && (q.NewestFirst || q.Follow) {
		return nil, fmt.Errorf("fake: %w", ErrDirectChannel)
	} else if enabled {
		return nil, fmt.Errorf("fake: %w", ErrChannelEnabled)
	}
	return &fakeEventReader{log: l, q: q}, nil
}

type fakeEventReader struct {
	log  *fakeEventLog
	q    EventQuery
	seen map[uint64]bool
}

func (r *fakeEventReader) Close() error { return nil }

func (r *fakeEventReader) Next(ctx context.Context) (*Event, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	r.log.mu.Lock()
	defer r.log.mu.Unlock()
	events := slices.Clone(r.log.channels[r.q.Channel])
	if r.q.NewestFirst {
		slices.Reverse(events)
	}
	f := filter{since: r.q.Since, until: r.q.Until}
	for _, e := range events {
		if e.RecordID <= r.q.AfterRecord || r.seen[e.RecordID] || !f.inWindow(e.Time) ||
			r.q.Provider != "" && r.q.Provider != e.Provider {
			continue
		}
		if r.seen == nil {
			r.seen = make(map[uint64]bool)
		}
		r.seen[e.RecordID] = true
		return &e, nil
	}
	return nil, io.EOF
}

const hyperV = "Microsoft-Windows-Hyper-V-Compute/Operational"

func newEventHost(t *testing.T) (*testHost, *fakeEventLog) {
	t.Helper()
	log := &fakeEventLog{channels: map[string][]Event{"Application": nil, hyperV: nil, "Empty": nil}, providers: []string{"vmtools"}}
	for i := range uint64(4) {
		provider := "vmtools"
		if i%2 == 1 {
			provider = "other"
		}
		log.add("Application", provider, 11+i, day(10, 0, int(i)), fmt.Sprintf("event %d\r\n  detail %d\r\n", i, i))
	}
	log.add(hyperV, "Microsoft-Windows-Hyper-V-Compute", 5, day(10, 0, 1), "created <container> & more")
	h := newTestHost(t)
	h.events = log
	return h, log
}

func TestEvents(t *testing.T) {
	line := func(i int, provider string) string {
		return fmt.Sprintf("2026-03-05T10:00:0%dZ Error %s[7]: event %d\n  detail %d\n", i, provider, i, i)
	}
	tests := []struct {
		name string
		req  api.LogRequest
		want string
	}{
		{name: "channel", req: api.LogRequest{Queries: []string{"eventlog/Application"}}, want: line(0, "vmtools") + line(1, "other") + line(2, "vmtools") + line(3, "other")},
		{name: "provider as a service", req: api.LogRequest{Queries: []string{"vmtools"}}, want: line(0, "vmtools") + line(2, "vmtools")},
		{name: "empty channel", req: api.LogRequest{Queries: []string{"eventlog/Empty"}}, want: ""},
		{name: "since", req: api.LogRequest{Queries: []string{"eventlog/Application"}, SinceTime: ptr(day(10, 0, 2))}, want: line(2, "vmtools") + line(3, "other")},
		{name: "until", req: api.LogRequest{Queries: []string{"eventlog/Application"}, UntilTime: ptr(day(10, 0, 0))}, want: line(0, "vmtools")},
		{name: "pattern in a later line", req: api.LogRequest{Queries: []string{"eventlog/Application"}, Pattern: "detail 1"}, want: line(1, "other")},
		{name: "tail counts lines", req: api.LogRequest{Queries: []string{"eventlog/Application"}, TailLines: ptr(int64(3))}, want: "  detail 2\n" + line(3, "other")},
		{name: "tail after the pattern", req: api.LogRequest{Queries: []string{"eventlog/Application"}, Pattern: "vmtools", TailLines: ptr(int64(2))}, want: line(2, "vmtools")},
		{name: "tail none", req: api.LogRequest{Queries: []string{"eventlog/Application"}, TailLines: ptr(int64(0))}, want: ""},
		{
			name: "JSON", req: api.LogRequest{Queries: []string{"eventlog/" + hyperV}, Output: api.LogOutputJSON},
			want: `{"time":"2026-03-05T10:00:01Z","source":"eventlog/` + hyperV + `","message":"created <container> & more","level":"Error","eventID":7,"provider":"Microsoft-Windows-Hyper-V-Compute","recordID":5,"channel":"` + hyperV + `"}` + "\n",
		},
		{
			name: "merged", req: api.LogRequest{Queries: []string{"eventlog/" + hyperV, "vmtools"}, TailLines: ptr(int64(3))},
			want: "[eventlog/" + hyperV + "] 2026-03-05T10:00:01Z Error Microsoft-Windows-Hyper-V-Compute[7]: created <container> & more\n" +
				"[vmtools] 2026-03-05T10:00:02Z Error vmtools[7]: event 2\n[vmtools]   detail 2\n",
		},
		{name: "timestamps are there already", req: api.LogRequest{Queries: []string{"eventlog/" + hyperV}, Timestamps: true}, want: "2026-03-05T10:00:01Z Error Microsoft-Windows-Hyper-V-Compute[7]: created <container> & more\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h, _ := newEventHost(t)
			if diff := cmp.Diff(tt.want, h.read(t, tt.req)); diff != "" {
				t.Errorf("log (-want +got):\n%s", diff)
			}
		})
	}
}

func TestEventRefusals(t *testing.T) {
	h, log := newEventHost(t)
	if e := h.refused(t, api.LogRequest{Queries: []string{"eventlog/Nope"}}); e.Code != 404 {
		t.Errorf("unknown channel: got %+v", e)
	}
	if e := h.refused(t, api.LogRequest{Queries: []string{"vmtools"}, Previous: true}); e.Code != 400 {
		t.Errorf("previous of a provider: got %+v", e)
	}
	if e := h.refused(t, api.LogRequest{Queries: []string{"nope"}}); e.Code != 404 || !strings.Contains(e.Message, "event log provider") {
		t.Errorf("unknown provider: got %+v", e)
	}
	log.fail = errors.New("the service is not running")
	if e := h.refused(t, api.LogRequest{Queries: []string{"eventlog/Application"}}); e.Code != 503 || !strings.Contains(e.Message, "not available on this host: the service is not running") {
		t.Errorf("service not running: got %+v", e)
	}
	if got := h.read(t, api.LogRequest{}); !strings.Contains(got, "# the event log is not available") {
		t.Errorf("index: got %q", got)
	}
	log.fail = fs.ErrPermission
	if e := h.refused(t, api.LogRequest{Queries: []string{"eventlog/Security"}}); e.Code != 403 {
		t.Errorf("permission: got %+v", e)
	}
}

func TestEventIndex(t *testing.T) {
	h, _ := newEventHost(t)
	if got := h.read(t, api.LogRequest{}); !strings.Contains(got, "eventlog/"+hyperV+" ") {
		t.Errorf("the index lacks the channel:\n%s", got)
	}
}

func TestEventFollowAndCursor(t *testing.T) {
	h, log := newEventHost(t)
	const channel = "eventlog/Application"
	a := startFollow(t, h, api.LogRequest{Queries: []string{channel}, TailLines: ptr(int64(1)), EmitCursor: true})
	a.waitFor("detail 3\n")
	log.add("Application", "x", 15, day(10, 0, 4), "while following")
	a.waitFor("while following\n")
	text, cursor := splitCursor(t, a.stop())
	if want := "  detail 3\n2026-03-05T10:00:04Z Error x[7]: while following\n"; text != want {
		t.Errorf("got %q, want %q", text, want)
	}

	log.add("Application", "x", 16, day(10, 0, 5), "while away")
	next := func() string {
		t.Helper()
		text, c := splitCursor(t, h.read(t, api.LogRequest{Queries: []string{channel}, Cursor: cursor, EmitCursor: true}))
		cursor = c
		return text
	}
	if got, want := next(), "2026-03-05T10:00:05Z Error x[7]: while away\n"; got != want {
		t.Errorf("after the cursor: got %q, want %q", got, want)
	}
	if got := next(); got != "" {
		t.Errorf("after the end: got %q", got)
	}
	log.add("Application", "x", 17, day(10, 0, 6), "overwritten")
	log.add("Application", "x", 18, day(10, 0, 7), "left")
	log.clear("Application", 7)
	if got := next(); !strings.HasPrefix(got, "# gap: "+channel+": the records 17 to 17") || !strings.HasSuffix(got, "left\n") {
		t.Errorf("overwritten: got %q", got)
	}
	log.clear("Application", 1)
	log.add("Application", "x", 1, day(10, 0, 8), "after clearing")
	if got := next(); !strings.HasPrefix(got, "# gap: "+channel+": the event log channel was cleared") || !strings.HasSuffix(got, "after clearing\n") {
		t.Errorf("cleared: got %q", got)
	}
}

// TestEventCursorKeepsFilter proves that a cursor does not bring back what the
// window of the first request had left out.
func TestEventCursorKeepsFilter(t *testing.T) {
	h, _ := newEventHost(t)
	for name, req := range map[string]api.LogRequest{
		"since after everything": {SinceTime: ptr(day(11, 0, 0))},
		"no tail":                {TailLines: ptr(int64(0))},
		"limit in the first":     {SinceTime: ptr(day(10, 0, 3)), LimitBytes: ptr(int64(5))},
	} {
		req.Queries, req.EmitCursor = []string{"eventlog/Application"}, true
		_, cursor := splitCursor(t, h.read(t, req))
		got := h.read(t, api.LogRequest{Queries: req.Queries, Cursor: cursor})
		if strings.Contains(got, "event 0") || strings.Contains(got, "event 2") {
			t.Errorf("%s: got %q", name, got)
		}
	}
}

// TestEventTailTakesTooLong: what was found of the last events in the time that a server waits for is shown, and that there is more.
func TestEventTailTakesTooLong(t *testing.T) {
	for _, tt := range []struct {
		name    string
		queries []string
		want    []string // parts, in this order
	}{
		{"one channel", []string{"eventlog/Application"}, []string{"# gap: eventlog/Application: " + tooLate, "event 2\n", "event 3\n"}},
		{"one that has time and one that has none left", []string{"eventlog/" + hyperV, "eventlog/Application"}, []string{"created <container>", "# gap: eventlog/Application: " + tooLate}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h, log := newEventHost(t)
				h.events = slowEvents{log}
				began := time.Now()
				got := h.read(t, api.LogRequest{Queries: tt.queries, TailLines: ptr(int64(100)), Timestamps: true})
				if took := time.Since(began); took > 25*time.Second {
					t.Errorf("it took %s", took)
				}
				for _, part := range tt.want {
					if !strings.Contains(got, part) {
						t.Errorf("got %q, which lacks %q", got, part)
					}
				}
				if strings.Contains(got, "event 0\n") {
					t.Errorf("it has all:\n%s", got)
				}
			})
		})
	}
}

// slowEvents is an event log that needs a while for each event but the newest.
type slowEvents struct{ EventLog }

func (l slowEvents) Query(ctx context.Context, q EventQuery) (EventReader, error) {
	r, err := l.EventLog.Query(ctx, q)
	return &slowReader{EventReader: r}, err
}

type slowReader struct {
	EventReader
	read int
}

func (r *slowReader) Next(ctx context.Context) (*Event, error) {
	if r.read++; r.read > 1 {
		select {
		case <-time.After(9 * time.Second):
		case <-ctx.Done():
		}
	}
	return r.EventReader.Next(ctx)
}
