// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package logs

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
)

const analytic = "Microsoft-Windows-Hyper-V-Compute/Analytic"

// newDirectHost has the events of a channel in an analytic one, too.
func newDirectHost(t *testing.T) (*testHost, *fakeEventLog) {
	t.Helper()
	h, log := newEventHost(t)
	log.channels[analytic] = log.channels["Application"]
	log.direct = map[string]bool{analytic: false}
	return h, log
}

// anonymous takes from a log the name of the channel that it was read from.
var anonymous = strings.NewReplacer("Application", "CHANNEL", analytic, "CHANNEL")

// TestDirectChannel: what Windows reads in one order only is read like every other channel.
func TestDirectChannel(t *testing.T) {
	for _, tt := range []struct {
		name string
		req  api.LogRequest
	}{
		{"everything", api.LogRequest{}},
		{"tail", api.LogRequest{TailLines: ptr(int64(3))}},
		{"more than there are", api.LogRequest{TailLines: ptr(int64(100))}},
		{"records", api.LogRequest{TailLines: ptr(int64(3)), Output: api.LogOutputJSON}},
		{"tail none", api.LogRequest{TailLines: ptr(int64(0))}},
		{"tail after the pattern", api.LogRequest{Pattern: "vmtools", TailLines: ptr(int64(1))}},
		{"tail of what nothing matches", api.LogRequest{Pattern: "nope", TailLines: ptr(int64(1))}},
		{"tail of a window", api.LogRequest{UntilTime: ptr(day(10, 0, 2)), TailLines: ptr(int64(2))}},
		{"cursor", api.LogRequest{TailLines: ptr(int64(1)), EmitCursor: true}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h, log := newDirectHost(t)
			read := func(channel string) string {
				tt.req.Queries = []string{"eventlog/" + channel}
				first := h.read(t, tt.req)
				if !tt.req.EmitCursor {
					return anonymous.Replace(first)
				}
				text, cursor := splitCursor(t, first)
				log.add(channel, "x", 15, day(10, 0, 4), "while away")
				next := h.read(t, api.LogRequest{Queries: tt.req.Queries, Cursor: cursor})
				log.clear(channel, 4)
				return text + next + h.read(t, api.LogRequest{Queries: tt.req.Queries, Cursor: cursor})
			}
			want, got := read("Application"), read(analytic)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("log (-of an ordinary channel +got):\n%s", diff)
			}
		})
	}
}

// TestDirectChannelIsBounded: of a channel that is read to its end no more is kept than of others.
func TestDirectChannelIsBounded(t *testing.T) {
	for _, tt := range []struct {
		name         string
		events, tail int64
	}{
		{"less than is wanted", 40, api.MaxLogTailLines},
		{"as many as are wanted", 40, 20},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h, log := newDirectHost(t)
			large := strings.Repeat("x", 1<<20)
			log.clear("Application", 4)
			for i := range tt.events {
				log.add("Application", "x", uint64(i+1), day(10, 0, 0), fmt.Sprintf("event %d %s", i, large))
			}
			log.channels[analytic] = log.channels["Application"]
			read := func(channel string) string {
				text := h.read(t, api.LogRequest{Queries: []string{"eventlog/" + channel}, TailLines: &tt.tail})
				return anonymous.Replace(strings.ReplaceAll(text, large, "LARGE"))
			}
			if diff := cmp.Diff(read("Application"), read(analytic)); diff != "" {
				t.Errorf("log (-of an ordinary channel +got):\n%s", diff)
			}
		})
	}
}

// TestDirectChannelRefused: what Windows does not do is said with what to do.
func TestDirectChannelRefused(t *testing.T) {
	h, log := newDirectHost(t)
	queries := []string{"eventlog/" + analytic}
	if e := h.refused(t, api.LogRequest{Queries: queries, Follow: true}); e.Code != 400 || !strings.Contains(e.Message, "read it without following it") {
		t.Errorf("followed: got %+v", e)
	}
	log.direct[analytic] = true
	for _, tail := range []*int64{nil, ptr(int64(1))} {
		e := h.refused(t, api.LogRequest{Queries: queries, TailLines: tail})
		if e.Code != 400 || !strings.Contains(e.Message, `wevtutil.exe sl "`+analytic+`" /e:false`) {
			t.Errorf("enabled: got %+v", e)
		}
	}
}
