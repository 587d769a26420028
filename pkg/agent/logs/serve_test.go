// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package logs

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
)

// The log of a kubelet through a rotation, with a stack trace and a line before
// any time.
const (
	kubeletOld = "I0305 09:00:00.000000 old one\n" +
		"I0305 09:30:00.000000 old two\n"
	kubeletLog = "Log file created\n" +
		"I0305 10:00:00.000000 alpha\n" +
		"E0305 10:00:01.000000 panic: beta\n" +
		"goroutine 1:\n" +
		"\tmain.go:1\n" +
		"I0305 10:00:02.000000 Gamma\n"
	proxyLog = "I0305 10:00:00.500000 proxy one\n" +
		"I0305 10:00:01.000000 proxy two\n" +
		"I0305 10:00:05.000000 proxy three\n"
)

func newKubeletHost(t *testing.T) *testHost {
	t.Helper()
	h := newTestHost(t)
	h.write(t, "kubelet/kubelet-20260305-093000.log", kubeletOld)
	h.touch(t, "kubelet/kubelet-20260305-093000.log", day(9, 30, 0))
	h.write(t, "kubelet/kubelet.log", kubeletLog)
	h.touch(t, "kubelet/kubelet.log", day(10, 0, 2))
	h.write(t, "kube-proxy/kube-proxy.log", proxyLog)
	h.boots = []time.Time{day(10, 0, 1), day(9, 15, 0), day(8, 0, 0)}
	return h
}

func lines(l ...string) string { return strings.Join(l, "\n") + "\n" }

func TestFilters(t *testing.T) {
	const (
		created = "Log file created"
		alpha   = "I0305 10:00:00.000000 alpha"
		beta    = "E0305 10:00:01.000000 panic: beta"
		trace1  = "goroutine 1:"
		trace2  = "\tmain.go:1"
		gamma   = "I0305 10:00:02.000000 Gamma"
		old1    = "I0305 09:00:00.000000 old one"
		old2    = "I0305 09:30:00.000000 old two"
	)
	tests := []struct {
		name string
		req  api.LogRequest
		want string
	}{
		{name: "all", req: api.LogRequest{}, want: kubeletLog},
		{name: "since is inclusive", req: api.LogRequest{SinceTime: ptr(day(10, 0, 1))}, want: lines(beta, trace1, trace2, gamma)},
		{name: "until is inclusive", req: api.LogRequest{UntilTime: ptr(day(10, 0, 1))}, want: lines(created, alpha, beta, trace1, trace2)},
		{name: "both", req: api.LogRequest{SinceTime: ptr(day(10, 0, 1)), UntilTime: ptr(day(10, 0, 1))}, want: lines(beta, trace1, trace2)},
		{name: "since reaches into rotated files", req: api.LogRequest{SinceTime: ptr(day(9, 30, 0))}, want: old2 + "\n" + kubeletLog},
		{name: "since before everything", req: api.LogRequest{SinceTime: ptr(day(1, 0, 0))}, want: kubeletOld + kubeletLog},
		{name: "since after everything", req: api.LogRequest{SinceTime: ptr(day(11, 0, 0))}, want: ""},
		{name: "sinceSeconds by the host's clock", req: api.LogRequest{SinceSeconds: ptr(int64(7198))}, want: lines(gamma)},
		{name: "endless sinceSeconds", req: api.LogRequest{SinceSeconds: ptr(int64(1) << 62)}, want: kubeletOld + kubeletLog},
		{name: "this boot", req: api.LogRequest{Boot: ptr(0)}, want: lines(beta, trace1, trace2, gamma)},
		{name: "the boot before", req: api.LogRequest{Boot: ptr(-1)}, want: lines(old2, created, alpha)},
		{name: "the boot before that", req: api.LogRequest{Boot: ptr(-2)}, want: lines(old1)},
		{name: "boot and since", req: api.LogRequest{Boot: ptr(-1), SinceTime: ptr(day(10, 0, 0))}, want: lines(created, alpha)},
		{name: "pattern takes whole records", req: api.LogRequest{Pattern: "main.go", CaseSensitive: true}, want: lines(beta, trace1, trace2)},
		{name: "pattern in the first line", req: api.LogRequest{Pattern: "panic", CaseSensitive: true}, want: lines(beta, trace1, trace2)},
		{name: "pattern begins at a line's beginning", req: api.LogRequest{Pattern: "^goroutine", CaseSensitive: true}, want: lines(beta, trace1, trace2)},
		{name: "case matters", req: api.LogRequest{Pattern: "gamma", CaseSensitive: true}, want: ""},
		{name: "case does not matter", req: api.LogRequest{Pattern: "gamma"}, want: lines(gamma)},
		{name: "pattern with flags of its own", req: api.LogRequest{Pattern: "(?i)GAMMA$", CaseSensitive: true}, want: lines(gamma)},
		{name: "alternatives keep the flags", req: api.LogRequest{Pattern: "ALPHA|gamma"}, want: lines(alpha, gamma)},
		{name: "tail", req: api.LogRequest{TailLines: ptr(int64(2))}, want: lines(trace2, gamma)},
		{name: "tail none", req: api.LogRequest{TailLines: ptr(int64(0))}, want: ""},
		{name: "tail reaches into rotated files", req: api.LogRequest{TailLines: ptr(int64(7))}, want: old2 + "\n" + kubeletLog},
		{name: "tail of more than there is", req: api.LogRequest{TailLines: ptr(int64(1000))}, want: kubeletOld + kubeletLog},
		{name: "tail comes after the pattern", req: api.LogRequest{Pattern: "0305", TailLines: ptr(int64(1))}, want: lines(gamma)},
		{name: "tail comes after the window", req: api.LogRequest{UntilTime: ptr(day(10, 0, 0)), TailLines: ptr(int64(1))}, want: lines(alpha)},
		{name: "limit comes last", req: api.LogRequest{TailLines: ptr(int64(2)), LimitBytes: ptr(int64(13))}, want: trace2 + "\nI0"},
		{name: "limit in the middle of a line", req: api.LogRequest{LimitBytes: ptr(int64(5))}, want: "Log f"},
		{name: "limit at the end of a line", req: api.LogRequest{LimitBytes: ptr(int64(17))}, want: lines(created)},
		{name: "limit beyond the end", req: api.LogRequest{LimitBytes: ptr(int64(1 << 40))}, want: kubeletLog},
		{name: "limit with a filter", req: api.LogRequest{Pattern: "a", LimitBytes: ptr(int64(5))}, want: "Log f"},
		{name: "previous", req: api.LogRequest{Previous: true}, want: kubeletOld},
		{name: "previous, filtered", req: api.LogRequest{Previous: true, Pattern: "two", TailLines: ptr(int64(5))}, want: lines(old2)},
		{name: "previous of the file", req: api.LogRequest{Queries: []string{`kubelet\kubelet.log`}, Previous: true}, want: kubeletOld},
		{name: "a file has no history", req: api.LogRequest{Queries: []string{"kubelet/kubelet.log"}, SinceTime: ptr(day(9, 0, 0))}, want: kubeletLog},
		{name: "tail of a file has no history", req: api.LogRequest{Queries: []string{"kubelet/kubelet.log"}, TailLines: ptr(int64(1000))}, want: kubeletLog},
		{name: "a rotated file by name", req: api.LogRequest{Queries: []string{"kubelet/kubelet-20260305-093000.log"}}, want: kubeletOld},
		{
			name: "timestamps", req: api.LogRequest{Timestamps: true},
			want: lines(created, "2026-03-05T10:00:00Z "+alpha, "2026-03-05T10:00:01Z "+beta,
				"2026-03-05T10:00:01Z "+trace1, "2026-03-05T10:00:01Z "+trace2, "2026-03-05T10:00:02Z "+gamma),
		},
		{
			name: "timestamps of a tail look back for their record", req: api.LogRequest{Timestamps: true, TailLines: ptr(int64(2))},
			want: lines("2026-03-05T10:00:01Z "+trace2, "2026-03-05T10:00:02Z "+gamma),
		},
		{
			name: "JSON", req: api.LogRequest{Output: api.LogOutputJSON, SinceTime: ptr(day(10, 0, 0))},
			want: lines(`{"source":"kubelet","message":"Log file created"}`,
				`{"time":"2026-03-05T10:00:00Z","source":"kubelet","message":"I0305 10:00:00.000000 alpha"}`,
				`{"time":"2026-03-05T10:00:01Z","source":"kubelet","message":"E0305 10:00:01.000000 panic: beta\ngoroutine 1:\n\tmain.go:1"}`,
				`{"time":"2026-03-05T10:00:02Z","source":"kubelet","message":"I0305 10:00:02.000000 Gamma"}`),
		},
		{
			name: "JSON counts records", req: api.LogRequest{Output: api.LogOutputJSON, TailLines: ptr(int64(2))},
			want: lines(`{"time":"2026-03-05T10:00:01Z","source":"kubelet","message":"E0305 10:00:01.000000 panic: beta\ngoroutine 1:\n\tmain.go:1"}`,
				`{"time":"2026-03-05T10:00:02Z","source":"kubelet","message":"I0305 10:00:02.000000 Gamma"}`),
		},
		{
			name: "JSON is not cut", req: api.LogRequest{Output: api.LogOutputJSON, LimitBytes: ptr(int64(100))},
			want: lines(`{"source":"kubelet","message":"Log file created"}`),
		},
		{
			name: "merged by time, records in one piece", req: api.LogRequest{Queries: []string{"kube-proxy", "kubelet"}},
			want: lines("[kubelet] "+created, "[kubelet] "+alpha, "[kube-proxy] I0305 10:00:00.500000 proxy one",
				"[kube-proxy] I0305 10:00:01.000000 proxy two",
				"[kubelet] "+beta, "[kubelet] "+trace1, "[kubelet] "+trace2, "[kubelet] "+gamma,
				"[kube-proxy] I0305 10:00:05.000000 proxy three"),
		},
		{
			name: "tail of a merge", req: api.LogRequest{Queries: []string{"kubelet", "kube-proxy"}, TailLines: ptr(int64(2))},
			want: lines("[kubelet] "+gamma, "[kube-proxy] I0305 10:00:05.000000 proxy three"),
		},
		{
			name: "the same twice is once", req: api.LogRequest{Queries: []string{"kubelet", "kubelet"}, TailLines: ptr(int64(1))},
			want: lines(gamma),
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h := newKubeletHost(t)
			if tt.req.Queries == nil {
				tt.req.Queries = []string{"kubelet"}
			}
			if diff := cmp.Diff(tt.want, h.read(t, tt.req)); diff != "" {
				t.Errorf("log (-want +got):\n%s", diff)
			}
		})
	}
}

func TestFiltersOfUntimedFile(t *testing.T) {
	h := newTestHost(t)
	h.write(t, "setup.log", "one\ntwo\nthree\n")
	h.touch(t, "setup.log", day(11, 0, 0))
	tests := []struct {
		name string
		req  api.LogRequest
		want string
	}{
		{name: "each line is a record", req: api.LogRequest{Pattern: "two"}, want: "two\n"},
		{name: "as old as the file", req: api.LogRequest{SinceTime: ptr(day(11, 0, 0))}, want: "one\ntwo\nthree\n"},
		{name: "older than asked for", req: api.LogRequest{SinceTime: ptr(day(11, 0, 1))}, want: ""},
		{name: "no time is invented", req: api.LogRequest{Timestamps: true, TailLines: ptr(int64(1))}, want: "three\n"},
		{name: "JSON counts lines", req: api.LogRequest{Output: api.LogOutputJSON, TailLines: ptr(int64(1))}, want: `{"source":"setup.log","message":"three"}` + "\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.req.Queries = []string{"setup.log"}
			if diff := cmp.Diff(tt.want, h.read(t, tt.req)); diff != "" {
				t.Errorf("log (-want +got):\n%s", diff)
			}
		})
	}
}

func TestServices(t *testing.T) {
	const klogFile = "wicd/windows-instance-config-daemon.exe.HOST.user.log.INFO.20260305-1%d0000.17"
	tests := []struct {
		name  string
		files []string
		query string
		want  string // the file that is found
	}{
		{name: "kubelet", query: "kubelet", files: []string{"kubelet/kubelet.log", "kubelet.log"}, want: "kubelet/kubelet.log"},
		{name: "hybrid overlay has another directory", query: "hybrid-overlay-node", files: []string{"hybrid-overlay/hybrid-overlay.log"}, want: "hybrid-overlay/hybrid-overlay.log"},
		{name: "alias", query: "hybrid-overlay", files: []string{"hybrid-overlay/hybrid-overlay.log"}, want: "hybrid-overlay/hybrid-overlay.log"},
		{name: "agent", query: "agent", files: []string{"windows-node-agent/apply.log"}, want: "windows-node-agent/apply.log"},
		{name: "what operations did", query: "operation", files: []string{"windows-node-agent/apply.log"}, want: "windows-node-agent/apply.log"},
		{name: "klog's newest file without its link", query: "wicd", files: []string{fmt.Sprintf(klogFile, 1), fmt.Sprintf(klogFile, 0)}, want: fmt.Sprintf(klogFile, 1)},
		{name: "fallback to the name", query: "foo", files: []string{"foo", "foo.log"}, want: "foo"},
		{name: "fallback to .log", query: "foo", files: []string{"foo.log", "foo/foo.log"}, want: "foo.log"},
		{name: "fallback to the directory", query: "foo", files: []string{"foo/foo.log"}, want: "foo/foo.log"},
		{name: "file in the root by its name", query: "setup.log", files: []string{"setup.log"}, want: "setup.log"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h := newTestHost(t)
			for _, f := range tt.files {
				h.write(t, f, f+"\n")
			}
			if got := h.read(t, api.LogRequest{Queries: []string{tt.query}}); got != tt.want+"\n" {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestPrevious(t *testing.T) {
	tests := []struct {
		name  string
		files map[string]string
		want  string
	}{
		{name: "kube-log-runner", files: map[string]string{"x.log": "3", "x-20260305-100000.log": "1", "x-20260305-110000.log": "2"}, want: "2\n"},
		{name: "lumberjack, compressed", files: map[string]string{"x.log": "3", "x-2026-03-05T10-00-00.000.log.gz": "1", "x-2026-03-05T11-00-00.000.log.gz": "2"}, want: "2\n"},
		{name: "logrotate", files: map[string]string{"x.log": "3", "x.log.1": "2", "x.log.2.gz": "1"}, want: "2\n"},
		{name: "container", files: map[string]string{"x.log": "3", "x.log.20260305-100000.gz": "1", "x.log.20260305-110000": "2"}, want: "2\n"},
		{name: "empty ones tell nothing", files: map[string]string{"x.log": "3", "x.log.1": "", "x.log.2": "2"}, want: "2\n"},
		{name: "the present one is missing", files: map[string]string{"x.log.1": "2"}, want: "2\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h := newTestHost(t)
			for name, text := range tt.files {
				h.write(t, name, text)
			}
			if got := h.read(t, api.LogRequest{Queries: []string{"x"}, Previous: true}); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestCompressedFile(t *testing.T) {
	h := newTestHost(t)
	h.write(t, "a/x.log.1.gz", "one\ntwo\nthree\n")
	if got, want := h.read(t, api.LogRequest{Queries: []string{"a/x.log.1.gz"}, TailLines: ptr(int64(2))}), "two\nthree\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if e := h.refused(t, api.LogRequest{Queries: []string{"a/x.log.1.gz"}, Follow: true}); e.Code != 400 {
		t.Errorf("follow: got %+v, want code 400", e)
	}
}

func TestRefusals(t *testing.T) {
	many := make([]string, api.MaxLogQueries+1)
	for i := range many {
		many[i] = fmt.Sprint("s", i)
	}
	kubelet := []string{"kubelet"}
	cursorOf := func(sources ...resume) string {
		return cursor{Version: cursorVersion, Sources: sources}.encode()
	}
	tests := []struct {
		name  string
		req   api.LogRequest
		code  int
		field string
		text  string // part of the message
	}{
		{name: "unknown service", req: api.LogRequest{Queries: []string{"nope"}}, code: 404, field: "queries[0]", text: "nope/nope.log"},
		{name: "well-known service without a log", req: api.LogRequest{Queries: []string{"containerd"}}, code: 404, field: "queries[0]", text: "containerd/containerd.log"},
		{name: "unknown service is not waited for", req: api.LogRequest{Queries: []string{"nope"}, Follow: true}, code: 404, field: "queries[0]"},
		{name: "missing file", req: api.LogRequest{Queries: []string{"kubelet", "a/b.log"}}, code: 404, field: "queries[1]", text: "a/b.log"},
		{name: "empty query", req: api.LogRequest{Queries: []string{""}}, code: 400, field: "queries[0]"},
		{name: "service name with a space", req: api.LogRequest{Queries: []string{"a b"}}, code: 400, field: "queries[0]"},
		{name: "service name with a quote", req: api.LogRequest{Queries: []string{"a'b"}}, code: 400, field: "queries[0]"},
		{name: "service name too long", req: api.LogRequest{Queries: []string{strings.Repeat("x", 257)}}, code: 400, field: "queries[0]"},
		{name: "parent directory as a service", req: api.LogRequest{Queries: []string{".."}}, code: 404, field: "queries[0]"},
		{name: "device as a service", req: api.LogRequest{Queries: []string{"NUL"}}, code: 404, field: "queries[0]"},
		{name: "too many", req: api.LogRequest{Queries: many}, code: 400, field: "queries"},
		{name: "no event log", req: api.LogRequest{Queries: []string{"eventlog/System"}}, code: 501, field: "queries[0]", text: "not available"},
		{name: "no channel name", req: api.LogRequest{Queries: []string{"eventlog/"}}, code: 400, field: "queries[0]"},
		{name: "channel as a path", req: api.LogRequest{Queries: []string{`eventlog/C:\x`}}, code: 400, field: "queries[0]"},
		{name: "bad pattern", req: api.LogRequest{Queries: kubelet, Pattern: "("}, code: 400, field: "pattern", text: "missing closing )"},
		{name: "pattern of another dialect", req: api.LogRequest{Queries: kubelet, Pattern: "(?=x)"}, code: 400, field: "pattern"},
		{name: "long pattern", req: api.LogRequest{Queries: kubelet, Pattern: strings.Repeat("x", api.MaxLogPatternBytes+1)}, code: 400, field: "pattern"},
		{name: "costly pattern", req: api.LogRequest{Queries: kubelet, Pattern: strings.Repeat("(?:.?){1000}", 340)}, code: 400, field: "pattern", text: "too costly"},
		{name: "tail of everything", req: api.LogRequest{Queries: kubelet, TailLines: ptr(int64(api.MaxLogTailLines + 1))}, code: 400, field: "tailLines", text: "1000000"},
		{name: "until before since", req: api.LogRequest{Queries: kubelet, SinceTime: ptr(day(2, 0, 0)), UntilTime: ptr(day(1, 0, 0))}, code: 400, field: "untilTime"},
		{name: "two lower bounds", req: api.LogRequest{Queries: kubelet, SinceTime: ptr(day(2, 0, 0)), SinceSeconds: ptr(int64(1))}, code: 400, field: "sinceSeconds"},
		{name: "sinceSeconds zero", req: api.LogRequest{Queries: kubelet, SinceSeconds: ptr(int64(0))}, code: 400, field: "sinceSeconds"},
		{name: "negative tail", req: api.LogRequest{Queries: kubelet, TailLines: ptr(int64(-1))}, code: 400, field: "tailLines"},
		{name: "no bytes", req: api.LogRequest{Queries: kubelet, LimitBytes: ptr(int64(0))}, code: 400, field: "limitBytes"},
		{name: "future boot", req: api.LogRequest{Queries: kubelet, Boot: ptr(1)}, code: 400, field: "boot"},
		{name: "boot before memory", req: api.LogRequest{Queries: kubelet, Boot: ptr(-3)}, code: 400, field: "boot", text: "3 boots"},
		{name: "following an old boot", req: api.LogRequest{Queries: kubelet, Boot: ptr(-1), Follow: true}, code: 400, field: "boot"},
		{name: "following a previous file", req: api.LogRequest{Queries: kubelet, Previous: true, Follow: true}, code: 400, field: "previous"},
		{name: "no previous file", req: api.LogRequest{Queries: []string{"kube-proxy"}, Previous: true}, code: 404, field: "queries[0]", text: "not rotated"},
		{name: "previous of a channel", req: api.LogRequest{Queries: []string{"eventlog/System"}, Previous: true}, code: 400, field: "previous"},
		{name: "unknown output", req: api.LogRequest{Queries: kubelet, Output: "yaml"}, code: 400, field: "output"},
		{name: "options without a query", req: api.LogRequest{Pattern: "x"}, code: 400, field: "queries"},
		{name: "follow without a query", req: api.LogRequest{Follow: true}, code: 400, field: "queries"},
		{name: "cursor is garbage", req: api.LogRequest{Queries: kubelet, Cursor: "garbage!"}, code: 400, field: "cursor"},
		{name: "cursor is another JSON", req: api.LogRequest{Queries: kubelet, Cursor: "e30"}, code: 400, field: "cursor"},
		{name: "cursor of another query", req: api.LogRequest{Queries: kubelet, Cursor: cursorOf(resume{Query: "other"})}, code: 400, field: "cursor"},
		{name: "cursor of more queries", req: api.LogRequest{Queries: kubelet, Cursor: cursorOf(resume{Query: "kubelet"}, resume{Query: "x"})}, code: 400, field: "cursor"},
		{name: "cursor at a negative place", req: api.LogRequest{Queries: kubelet, Cursor: cursorOf(resume{Query: "kubelet", File: &fileMark{Offset: -1}})}, code: 400, field: "cursor"},
		{name: "cursor and tail", req: api.LogRequest{Queries: kubelet, Cursor: cursorOf(resume{Query: "kubelet"}), TailLines: ptr(int64(1))}, code: 400, field: "cursor", text: "tailLines"},
		{name: "cursor of a channel for a file", req: api.LogRequest{Queries: []string{"kubelet/kubelet.log"}, Cursor: cursorOf(resume{Query: "kubelet/kubelet.log", Event: &eventMark{}})}, code: 400, field: "queries[0]"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			e := newKubeletHost(t).refused(t, tt.req)
			if e.Code != tt.code || e.Field != tt.field || !strings.Contains(e.Message, tt.text) || e.Reason == "" {
				t.Errorf("got %+v, want code %d, field %q and %q in the message", e, tt.code, tt.field, tt.text)
			}
		})
	}
}

func TestUnknownBoots(t *testing.T) {
	h := newKubeletHost(t)
	h.noBoot = errors.New("the uptime is a secret")
	e := h.refused(t, api.LogRequest{Queries: []string{"kubelet"}, Boot: ptr(0)})
	if e.Code != 400 || e.Field != "boot" || !strings.Contains(e.Message, "secret") {
		t.Errorf("got %+v", e)
	}
}

func TestBadRequests(t *testing.T) {
	tests := []struct {
		name  string
		stdin string
	}{
		{name: "nothing", stdin: ""},
		{name: "empty line", stdin: "\n"},
		{name: "no JSON", stdin: "kubelet\n"},
		{name: "unknown field", stdin: `{"queries":["kubelet"],"grep":"x"}` + "\n"},
		{name: "wrong type", stdin: `{"queries":"kubelet"}` + "\n"},
		{name: "two documents", stdin: `{} {}` + "\n"},
		{name: "too long", stdin: `{"pattern":"` + strings.Repeat("x", api.MaxLogRequestBytes) + `"}` + "\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var out bytes.Buffer
			if err := Serve(t.Context(), newTestHost(t), strings.NewReader(tt.stdin), &out); err != nil {
				t.Fatal(err)
			}
			header, body := splitAnswer(t, out.String())
			if header.Error == nil || header.Error.Code != 400 || body != "" {
				t.Errorf("got %+v and %q, want code 400", header.Error, body)
			}
		})
	}
}

func TestIndex(t *testing.T) {
	h := newKubeletHost(t)
	h.write(t, "my setup.log", "x\n")
	h.write(t, "pods/ns_pod/c/0.log", "x\n")
	var index Index
	if err := json.Unmarshal([]byte(h.read(t, api.LogRequest{Output: api.LogOutputJSON})), &index); err != nil {
		t.Fatal(err)
	}
	got := make(map[string]IndexEntry)
	for _, e := range index.Entries {
		got[e.Name] = e
	}
	want := map[string]IndexEntry{
		"kubelet":             {Name: "kubelet", Kind: KindService, Path: "kubelet/kubelet.log", Size: int64(len(kubeletLog)), Modified: ptr(day(10, 0, 2))},
		"containerd":          {Name: "containerd", Kind: KindService},
		"kubelet/kubelet.log": {Name: "kubelet/kubelet.log", Kind: KindFile, Size: int64(len(kubeletLog)), Modified: ptr(day(10, 0, 2))},
		"./my setup.log":      {Name: "./my setup.log", Kind: KindFile, Size: 2, Modified: ptr(day(12, 0, 0))},
		"pods/ns_pod/c/0.log": {Name: "pods/ns_pod/c/0.log", Kind: KindFile, Size: 2, Modified: ptr(day(12, 0, 0))},
	}
	for name, entry := range want {
		if diff := cmp.Diff(entry, got[name]); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	for _, s := range wellKnownServices() {
		if got[s.name].Kind != KindService {
			t.Errorf("the index lacks %s", s.name)
		}
	}
	// Every name in the index is a query that works.
	for name, e := range got {
		if e.Kind == KindFile {
			h.read(t, api.LogRequest{Queries: []string{name}})
		}
	}
	table := h.read(t, api.LogRequest{})
	for _, want := range []string{"NAME ", "kubelet/kubelet.log   ", "2026-03-05T10:00:02Z"} {
		if !strings.Contains(table, want) {
			t.Errorf("the table lacks %q:\n%s", want, table)
		}
	}
}

func TestIndexOfNothing(t *testing.T) {
	h := newTestHost(t)
	h.root += "/missing"
	if got := h.read(t, api.LogRequest{}); !strings.Contains(got, "kubelet") {
		t.Errorf("got %q, want the well-known services", got)
	}
}

func TestFollowFromTheTail(t *testing.T) {
	h := newKubeletHost(t)
	w := newScriptedWriter(t, nil, h.root)
	w.append("one\ntwo\nhalf")
	tests := []struct {
		name string
		req  api.LogRequest
		want string
	}{
		{name: "all", req: api.LogRequest{}, want: "one\ntwo\nhalf line\nnew\n"},
		{name: "last line", req: api.LogRequest{TailLines: ptr(int64(1))}, want: "two\nhalf line\nnew\n"},
		{name: "only new lines", req: api.LogRequest{TailLines: ptr(int64(0))}, want: "half line\nnew\n"},
		{name: "pattern", req: api.LogRequest{Pattern: "one|new"}, want: "one\nnew\n"},
		{name: "limit", req: api.LogRequest{LimitBytes: ptr(int64(10))}, want: "one\ntwo\nha"},
	}
	var answers []*followAnswer
	for _, tt := range tests {
		tt.req.Queries = []string{"x"}
		a := startFollow(t, h, tt.req)
		a.waitFor("\n") // the header: the place is found
		answers = append(answers, a)
	}
	// What is there has been delivered before what is new.
	answers[0].waitFor("two\n")
	answers[1].waitFor("two\n")
	w.append(" line\n")
	w.append("new\n")
	for i, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			a := answers[i]
			if tt.req.LimitBytes != nil {
				if err := a.wait(); err != nil {
					t.Fatal(err)
				}
			} else {
				a.waitFor("new\n")
				a.stop()
			}
			if _, got := splitAnswer(t, a.String()); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestFollowWaitsForService(t *testing.T) {
	h := &testHost{root: t.TempDir() + "/not/there/yet"}
	a := startFollow(t, h, api.LogRequest{Queries: []string{"kubelet"}, EmitCursor: true})
	a.waitFor("\n")
	h.write(t, "kubelet/kubelet.log", "first\n")
	a.waitFor("first\n")
	text, cursor := splitCursor(t, a.stop())
	if text != "first\n" {
		t.Errorf("got %q", text)
	}
	if got, _ := splitCursor(t, h.read(t, api.LogRequest{Queries: []string{"kubelet"}, Cursor: cursor, EmitCursor: true})); got != "" {
		t.Errorf("after the cursor came %q", got)
	}
}

func TestFollowMerges(t *testing.T) {
	h := newKubeletHost(t)
	a := startFollow(t, h, api.LogRequest{Queries: []string{"kubelet", "kube-proxy"}, Output: api.LogOutputJSON, EmitCursor: true, TailLines: ptr(int64(1))})
	a.waitFor("proxy three")
	h.write(t, "kubelet/kubelet.log", kubeletLog+"I0305 10:00:07.000000 new\n")
	a.waitFor("new")
	body := a.stop()
	if strings.Contains(body, "Gamma") || !strings.Contains(body, `{"cursor":"`) {
		t.Errorf("got %q", body)
	}
}

func TestFollowUntil(t *testing.T) {
	h := newKubeletHost(t)
	a := startFollow(t, h, api.LogRequest{Queries: []string{"kubelet"}, UntilTime: ptr(day(10, 0, 0)), TailLines: ptr(int64(1))})
	if err := a.wait(); err != nil {
		t.Fatal(err)
	}
	if _, got := splitAnswer(t, a.String()); got != "I0305 10:00:00.000000 alpha\n" {
		t.Errorf("got %q", got)
	}
}

func TestFollowEnds(t *testing.T) {
	tests := []struct {
		name string
		end  func(*followAnswer)
		want error
	}{
		{name: "stop", end: func(a *followAnswer) { a.stdin.Write([]byte("stop\n")) }},
		{name: "stop among other lines", end: func(a *followAnswer) { a.stdin.Write([]byte("go on\r\nstop\r\n")) }},
		{name: "end of standard input", end: func(a *followAnswer) { a.stdin.Close() }},
		{name: "context", end: func(a *followAnswer) { a.cancel() }, want: context.Canceled},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			a := startFollow(t, newKubeletHost(t), api.LogRequest{Queries: []string{"kubelet"}})
			a.waitFor("Gamma\n")
			tt.end(a)
			if err := a.wait(); !errors.Is(err, tt.want) {
				t.Errorf("got %v, want %v", err, tt.want)
			}
		})
	}
}

// brokenPipe takes some bytes and then fails.
type brokenPipe struct{ left int }

func (p *brokenPipe) Write(b []byte) (int, error) {
	if p.left -= len(b); p.left < 0 {
		return 0, io.ErrClosedPipe
	}
	return len(b), nil
}

func TestBrokenPipe(t *testing.T) {
	h := newKubeletHost(t)
	for _, left := range []int{0, 30} {
		err := Serve(t.Context(), h, strings.NewReader(`{"queries":["kubelet"],"follow":true}`+"\n"), &brokenPipe{left})
		if !errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("after %d bytes: got %v, want a closed pipe", left, err)
		}
	}
}

func TestCanceledRead(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := Serve(ctx, newKubeletHost(t), strings.NewReader(`{"queries":["kubelet"]}`+"\n"), io.Discard)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want %v", err, context.Canceled)
	}
}

// searchedEvents are events that are searched until nobody wants them any more.
type searchedEvents struct {
	EventLog // nil: nothing but Query is expected to be called

	searched chan struct{}
}

func (e searchedEvents) Query(ctx context.Context, _ EventQuery) (EventReader, error) {
	close(e.searched)
	<-ctx.Done()
	return nil, ctx.Err()
}

// A search that finds nothing writes nothing: that its caller is gone is noticed all the same.
func TestAttendedLogEndsWithItsCaller(t *testing.T) {
	h := newTestHost(t)
	events := searchedEvents{searched: make(chan struct{})}
	h.events = events
	stdin, caller := io.Pipe()
	done := make(chan error, 1)
	go func() { done <- Serve(t.Context(), h, stdin, io.Discard) }()
	if _, err := io.WriteString(caller, `{"queries":["eventlog/System"],"attended":true}`+"\n"); err != nil {
		t.Fatal(err)
	}
	<-events.searched
	select {
	case err := <-done:
		t.Fatalf("it ended with %v while its caller was there", err)
	default:
	}
	_ = caller.Close()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// TestReleasedBeginning: earlier releases gave the beginning of a log back to the file system. It
// has gigabytes of zeros since then, which nobody wants to have.
func TestReleasedBeginning(t *testing.T) {
	const released = 64<<20 + 4096 + 17
	want := strings.Repeat("I0305 12:00:00.000000 a line of the text\n", 3000)
	h := newTestHost(t)
	h.write(t, "x.log", "")
	path := filepath.Join(h.root, "x.log")
	if err := os.Truncate(path, released); err != nil {
		t.Skipf("the file system has no holes: %v", err)
	}
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteString(want); err != nil {
		t.Fatal(err)
	}
	for name, req := range map[string]api.LogRequest{
		"all":     {},
		"tail":    {TailLines: ptr(int64(3000))},
		"more":    {TailLines: ptr(int64(5000))},
		"pattern": {Pattern: "text"},
		"since":   {SinceTime: ptr(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))},
	} {
		t.Run(name, func(t *testing.T) {
			req.Queries = []string{"x"}
			if got := h.read(t, req); got != want {
				t.Errorf("got %d bytes, want %d", len(got), len(want))
			}
		})
	}
	t.Run("follow", func(t *testing.T) {
		a := startFollow(t, h, api.LogRequest{Queries: []string{"x"}})
		a.waitFor(want)
		if _, err := f.WriteString("more\n"); err != nil {
			t.Fatal(err)
		}
		a.waitFor("more\n")
		if got := a.stop(); got != want+"more\n" {
			t.Errorf("got %d bytes, want %d", len(got), len(want)+len("more\n"))
		}
	})
}
