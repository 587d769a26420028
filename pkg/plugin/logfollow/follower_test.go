// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package logfollow

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
	"github.com/openshift/windows-instance-api/pkg/agent/logs"
	"github.com/openshift/windows-instance-api/test/output"
)

// engine answers requests with what runs on hosts, and breaks streams off.
type engine struct {
	root string

	mu sync.Mutex
	// breaks says after how many bytes the next streams break off; negative for not at
	// all. When it is used up no stream breaks off.
	breaks []int
	asked  []url.Values
}

func (e *engine) LogRoot() string { return e.root }
func (*engine) LowerPriority()    {}
func (*engine) Now() time.Time    { return time.Now().UTC() }
func (*engine) BootTimes(context.Context) ([]time.Time, error) {
	return []time.Time{time.Unix(0, 0)}, nil
}
func (*engine) EventLog() (logs.EventLog, error) { return nil, logs.ErrNoEventLog }

// write appends to a log.
func (e *engine) write(t *testing.T, name, text string) {
	t.Helper()
	path := filepath.Join(e.root, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString(text); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

// request is a request of the API as the agent gets it.
func request(t *testing.T, q url.Values) api.LogRequest {
	t.Helper()
	number := func(name string) *int64 {
		if !q.Has(name) {
			return nil
		}
		n, err := strconv.ParseInt(q.Get(name), 10, 64)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		return &n
	}
	r := api.LogRequest{
		Queries: q["query"], Pattern: q.Get("pattern"), CaseSensitive: true, Follow: q.Get("follow") == "true",
		TailLines: number("tailLines"), LimitBytes: number("limitBytes"), SinceSeconds: number("sinceSeconds"),
		Timestamps: q.Get("timestamps") == "true", Output: q.Get("output"), Cursor: q.Get("cursor"), EmitCursor: true,
	}
	if until := q.Get("untilTime"); until != "" {
		at, err := time.Parse(time.RFC3339, until)
		if err != nil {
			t.Errorf("untilTime: %v", err)
		}
		r.UntilTime = &at
	}
	return r
}

var errBroken = errors.New("broken off")

// open makes a request.
func (e *engine) open(t *testing.T, ctx context.Context, q url.Values) (io.ReadCloser, error) {
	t.Helper()
	line, err := json.Marshal(request(t, q))
	if err != nil {
		return nil, err
	}
	e.mu.Lock()
	e.asked = append(e.asked, q)
	after := -1
	if len(e.breaks) > 0 {
		after, e.breaks = e.breaks[0], e.breaks[1:]
	}
	e.mu.Unlock()
	ctx, cancel := context.WithCancel(ctx)
	stdin, stop := io.Pipe()
	stdout, to := io.Pipe()
	go func() { stop.Write(append(line, '\n')) }()
	go func() { to.CloseWithError(logs.Serve(ctx, e, stdin, to)) }()
	in := bufio.NewReader(stdout)
	s := &stream{Reader: in, end: func() { cancel(); stop.Close(); stdout.Close() }, left: after, breaks: after >= 0}
	first, err := in.ReadBytes('\n')
	if err != nil {
		s.Close()
		return nil, err
	}
	var header api.LogHeader
	if err := json.Unmarshal(first, &header); err != nil || header.Error != nil {
		s.Close()
		return nil, errors.Join(err, header.Error)
	}
	return s, nil
}

type stream struct {
	io.Reader
	end    func()
	left   int
	breaks bool
}

func (s *stream) Read(p []byte) (int, error) {
	if !s.breaks {
		return s.Reader.Read(p)
	}
	if s.left == 0 {
		return 0, errBroken
	}
	n, err := s.Reader.Read(p[:min(len(p), s.left)])
	s.left -= n
	return n, err
}

func (s *stream) Close() error { s.end(); return nil }

// follow follows until stop is called; stop returns what Run did.
func (e *engine) follow(t *testing.T, q url.Values, chunk int64) (out *output.Buffer, stop func() error) {
	t.Helper()
	out = &output.Buffer{}
	ctx, cancel := context.WithCancel(t.Context())
	f := &Follower{
		Open:  func(ctx context.Context, q url.Values) (io.ReadCloser, error) { return e.open(t, ctx, q) },
		Query: q, Out: out, Retry: func(error, time.Duration) bool { return true },
		Notice: func(string) {}, firstWait: time.Millisecond, maxWait: time.Millisecond, chunk: chunk,
	}
	done := make(chan error, 1)
	go func() { done <- f.Run(ctx) }()
	stop = sync.OnceValue(func() error { cancel(); return <-done })
	t.Cleanup(func() { stop() })
	return out, stop
}

// waitFor polls until the output has a text.
func waitFor(t *testing.T, out fmt.Stringer, text string) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !strings.Contains(out.String(), text); <-time.After(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%q does not come; so far\n%s", text, out.String())
		}
	}
}

// stamped is the n-th line of a log as klog writes it.
func stamped(n int) string {
	return fmt.Sprintf("I0305 %02d:%02d:%02d.%06d    1234 main.go:1] line %d end", 10+n/3600, n/60%60, n%60, n, n)
}

func plain(n int) string { return fmt.Sprintf("line %d end", n) }

func TestFollowThroughBreaks(t *testing.T) {
	t.Parallel()
	const before, after = 40, 200
	all := func(from int, line func(int) string) []string {
		var lines []string
		for n := from; n < before+after; n++ {
			lines = append(lines, line(n))
		}
		return lines
	}
	for _, tc := range []struct {
		name  string
		query string
		line  func(int) string
		chunk int64
		// clean takes off what differs from run to run.
		clean func(string) string
		want  []string
	}{
		{name: "from the beginning", query: "query=kubelet", line: plain, want: all(0, plain)},
		{name: "from the last lines", query: "query=kubelet&tailLines=5", line: plain, want: all(before-5, plain)},
		{name: "from the present", query: "query=kubelet&tailLines=0", line: plain, want: all(before, plain)},
		{name: "in small pieces", query: "query=kubelet&tailLines=5", line: plain, chunk: 37, want: all(before-5, plain)},
		{name: "stamped", query: "query=kubelet&timestamps=true", line: plain, clean: func(s string) string {
			if stamp, rest, ok := strings.Cut(s, " "); ok && !strings.HasPrefix(stamp, "line") {
				return rest
			}
			return s
		}, want: all(0, plain)},
		{name: "with a pattern", query: "query=kubelet&tailLines=3&pattern=0+end", line: stamped, want: slices.DeleteFunc(all(before-30, stamped), func(s string) bool {
			return !strings.Contains(s, "0 end")
		})},
		{name: "as JSON", query: "query=kubelet&tailLines=5&output=json", line: stamped, chunk: 5000, clean: func(s string) string {
			var r record
			if err := json.Unmarshal([]byte(s), &r); err != nil {
				return s
			}
			return r.Message
		}, want: all(before-5, stamped)},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			e := &engine{root: t.TempDir()}
			for range 60 {
				e.breaks = append(e.breaks, rand.IntN(700)-100)
			}
			for n := range before {
				e.write(t, "kubelet/kubelet.log", tc.line(n)+"\n")
			}
			q, err := url.ParseQuery(tc.query)
			if err != nil {
				t.Fatal(err)
			}
			out, stop := e.follow(t, q, tc.chunk)
			switch {
			case strings.Contains(tc.query, "tailLines=0"):
				// It begins when the host has looked.
				e.waitForAnchor(t)
			case strings.Contains(tc.query, "pattern"):
				waitFor(t, out, "line 30 end")
			default:
				waitFor(t, out, "line 39 end")
			}
			for n := before; n < before+after; n++ {
				// A line may be read when half of it is written.
				half := rand.IntN(len(tc.line(n)))
				e.write(t, "kubelet/kubelet.log", tc.line(n)[:half])
				e.write(t, "kubelet/kubelet.log", tc.line(n)[half:]+"\n")
				if n%10 == 0 {
					waitFor(t, out, fmt.Sprintf("line %d end", n))
				}
			}
			waitFor(t, out, "line 230 end")
			if !strings.Contains(tc.query, "pattern") {
				waitFor(t, out, fmt.Sprintf("line %d end", before+after-1))
			}
			if err := stop(); !errors.Is(err, context.Canceled) {
				t.Errorf("Run: %v", err)
			}
			got := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
			if tc.clean != nil {
				for i := range got {
					got[i] = tc.clean(got[i])
				}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("lines (-want +got):\n%s", diff)
			}
			if len(e.breaks) == 60 {
				t.Error("nothing broke off")
			}
		})
	}
}

// waitForAnchor waits until the first request was answered.
func (e *engine) waitForAnchor(t *testing.T) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); ; <-time.After(time.Millisecond) {
		e.mu.Lock()
		done := slices.ContainsFunc(e.asked, func(q url.Values) bool { return q.Has("cursor") })
		e.mu.Unlock()
		if done {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("no request has a cursor")
		}
	}
}

// The lines of two logs are merged in another order when they are read again.
func TestFollowSeveralThroughBreaks(t *testing.T) {
	t.Parallel()
	const n = 150
	e := &engine{root: t.TempDir()}
	for range 40 {
		e.breaks = append(e.breaks, rand.IntN(900))
	}
	e.write(t, "kubelet/kubelet.log", stamped(0)+"\n")
	e.write(t, "containerd/containerd.log", stamped(0)+"\n")
	out, stop := e.follow(t, url.Values{"query": {"kubelet", "containerd"}}, 4000)
	waitFor(t, out, "line 0 end")
	for i := 1; i < n; i++ {
		e.write(t, "kubelet/kubelet.log", stamped(i)+"\n"+"\tcontinued "+strconv.Itoa(i)+"\n")
		if i%10 == 0 {
			waitFor(t, out, fmt.Sprintf("continued %d\n", i))
		}
		e.write(t, "containerd/containerd.log", stamped(i)+"\n")
	}
	waitFor(t, out, fmt.Sprintf("continued %d\n", n-1))
	waitFor(t, out, "[containerd] "+stamped(n-1))
	if err := stop(); !errors.Is(err, context.Canceled) {
		t.Errorf("Run: %v", err)
	}
	got := map[string][]string{}
	for line := range strings.Lines(out.String()) {
		source, text, _ := strings.Cut(line, "] ")
		got[source] = append(got[source], strings.TrimSuffix(text, "\n"))
	}
	want := map[string][]string{"[kubelet": {stamped(0)}, "[containerd": {stamped(0)}}
	for i := 1; i < n; i++ {
		want["[kubelet"] = append(want["[kubelet"], stamped(i), "\tcontinued "+strconv.Itoa(i))
		want["[containerd"] = append(want["[containerd"], stamped(i))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("lines (-want +got):\n%s", diff)
	}
}

func TestFollowEnds(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, query string
		want        string
	}{
		{"when the time is over", "query=kubelet&untilTime=2000-01-01T00:00:00Z", ""},
		{"when there were enough bytes", "query=kubelet&limitBytes=23", "line 0 end\nline 1 end\nl"},
		{"when there were enough bytes in pieces", "query=kubelet&limitBytes=25&tailLines=3", "line 7 end\nline 8 end\nlin"},
		{"when there were enough bytes at the end of a line", "query=kubelet&limitBytes=22", "line 0 end\nline 1 end\n"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			e := &engine{root: t.TempDir(), breaks: []int{-1, 12, 13}}
			for n := range 10 {
				e.write(t, "kubelet/kubelet.log", plain(n)+"\n")
			}
			q, err := url.ParseQuery(tc.query)
			if err != nil {
				t.Fatal(err)
			}
			var out bytes.Buffer
			f := &Follower{
				Open:  func(ctx context.Context, q url.Values) (io.ReadCloser, error) { return e.open(t, ctx, q) },
				Query: q, Out: &out, Retry: func(error, time.Duration) bool { return false },
				Notice: func(string) {}, firstWait: time.Millisecond, chunk: 15,
			}
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			if err := f.Run(ctx); err != nil {
				t.Errorf("Run: %v", err)
			}
			if diff := cmp.Diff(tc.want, out.String()); diff != "" {
				t.Errorf("output (-want +got):\n%s", diff)
			}
		})
	}
}
