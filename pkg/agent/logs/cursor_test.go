// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package logs

import (
	"encoding/base64"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
)

// TestResumeAfterLimit reads a log in pieces of random sizes, each going on where
// the one before was cut. The pieces must make up the log, whatever is done to it.
func TestResumeAfterLimit(t *testing.T) {
	h := newKubeletHost(t)
	h.write(t, "crlf.log", "one\r\ntwo žluť\r\nthree\r\n")
	h.write(t, "wide.log", encode(utf16LE, "one\r\ntwo 😀\r\nthree", true))
	h.write(t, "broken.log", "a\xffb\nž")
	tests := []struct {
		name string
		req  api.LogRequest
	}{
		{name: "plain", req: api.LogRequest{Queries: []string{"kubelet"}}},
		{name: "filtered", req: api.LogRequest{Queries: []string{"kubelet"}, Pattern: "a"}},
		{name: "timestamps", req: api.LogRequest{Queries: []string{"kubelet"}, Timestamps: true}},
		{name: "merged", req: api.LogRequest{Queries: []string{"kubelet", "kube-proxy"}}},
		{name: "CRLF", req: api.LogRequest{Queries: []string{"crlf"}}},
		{name: "UTF-16", req: api.LogRequest{Queries: []string{"wide"}}},
		{name: "invalid", req: api.LogRequest{Queries: []string{"broken"}}},
		{name: "invalid, by line", req: api.LogRequest{Queries: []string{"broken"}, UntilTime: ptr(day(23, 0, 0))}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			whole := h.read(t, tt.req)
			for seed := range uint64(30) {
				rnd := rand.New(rand.NewPCG(seed, 3))
				req := tt.req
				req.EmitCursor = true
				var got strings.Builder
				for got.Len() < len(whole) {
					limit := 1 + rnd.Int64N(40)
					req.LimitBytes = &limit
					text, next := splitCursor(t, h.read(t, req))
					if int64(len(text)) == limit+1 {
						// The newline before the cursor is not of the log.
						text = text[:limit]
					}
					if int64(len(text)) > limit || text == "" {
						t.Fatalf("a piece of %d bytes, want at most %d: %q", len(text), limit, text)
					}
					got.WriteString(text)
					req.Cursor = next
				}
				compareLogs(t, whole, got.String())
			}
		})
	}
}

func TestResumeOfPartialLine(t *testing.T) {
	h := newTestHost(t)
	h.write(t, "x.log", "one\ntw")
	req := api.LogRequest{Queries: []string{"x"}, EmitCursor: true}
	first, cursor := splitCursor(t, h.read(t, req))
	h.write(t, "x.log", "one\ntwo\nthree\n")
	req.Cursor = cursor
	second, _ := splitCursor(t, h.read(t, req))
	if first != "one\ntw\n" || second != "o\nthree\n" {
		t.Errorf("got %q and %q", first, second)
	}
}

func TestGap(t *testing.T) {
	tests := []struct {
		name   string
		change func(t *testing.T, h *testHost)
		want   string
	}{
		{
			name: "deleted, and what came after is there",
			change: func(t *testing.T, h *testHost) {
				rename(t, h, "x.log", "x-20260305-110000.log")
				h.write(t, "x.log", "new one\n")
				if err := os.Remove(filepath.Join(h.root, "x-20260305-110000.log")); err != nil {
					t.Fatal(err)
				}
			},
			want: "# gap: x: the file that was being read is gone; continuing with the oldest one after it\nnew one\n",
		},
		{
			name: "older ones are not read again",
			change: func(t *testing.T, h *testHost) {
				h.write(t, "x-20260305-090000.log", "old\n")
				h.touch(t, "x-20260305-090000.log", day(9, 0, 0))
				rename(t, h, "x.log", "gone")
				h.write(t, "x-20260305-130000.log", "between\n")
				h.touch(t, "x-20260305-130000.log", day(13, 0, 0))
				h.write(t, "x.log", "new one\n")
				h.touch(t, "x.log", day(14, 0, 0))
			},
			want: "# gap: x: the file that was being read is gone; continuing with the oldest one after it\nbetween\nnew one\n",
		},
		{
			name: "truncated",
			change: func(t *testing.T, h *testHost) {
				if err := os.WriteFile(filepath.Join(h.root, "x.log"), []byte("fresh\n"), 0o600); err != nil {
					t.Fatal(err)
				}
			},
			want: "# gap: x: the file that was being read was truncated; continuing with its new content\nfresh\n",
		},
		{
			name:   "renamed",
			change: func(t *testing.T, h *testHost) { rename(t, h, "x.log", "x.log.1"); h.write(t, "x.log", "new one\n") },
			want:   "new one\n",
		},
		{
			name: "compressed",
			change: func(t *testing.T, h *testHost) {
				h.write(t, "x.log.1.gz", "one\ntwo\nthree\n")
				h.write(t, "y", "new one\n")
				rename(t, h, "y", "x.log")
			},
			want: "three\nnew one\n",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h := newTestHost(t)
			h.write(t, "x.log", "one\ntwo\n")
			req := api.LogRequest{Queries: []string{"x"}, EmitCursor: true}
			_, cursor := splitCursor(t, h.read(t, req))
			tt.change(t, h)
			req.Cursor = cursor
			got, _ := splitCursor(t, h.read(t, req))
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("log (-want +got):\n%s", diff)
			}
		})
	}
}

func rename(t *testing.T, h *testHost, from, to string) {
	t.Helper()
	if err := os.Rename(filepath.Join(h.root, from), filepath.Join(h.root, to)); err != nil {
		t.Fatal(err)
	}
}

func TestGapInJSON(t *testing.T) {
	h := newTestHost(t)
	h.write(t, "x.log", "one\n")
	req := api.LogRequest{Queries: []string{"x"}, EmitCursor: true, Output: api.LogOutputJSON}
	body := h.read(t, req)
	_, after, ok := strings.Cut(body, `{"cursor":"`)
	if !ok {
		t.Fatalf("no cursor in %q", body)
	}
	req.Cursor, _, _ = strings.Cut(after, `"`)
	if err := os.Remove(filepath.Join(h.root, "x.log")); err != nil {
		t.Fatal(err)
	}
	h.write(t, "x.log", "another beginning\n")
	if got := h.read(t, req); !strings.HasPrefix(got, `{"gap":"`) || !strings.Contains(got, `"message":"another beginning"`) {
		t.Errorf("got %q", got)
	}
}

// FuzzCursor proves that no cursor makes the agent fail, or read anything but the
// log that is asked for.
func FuzzCursor(f *testing.F) {
	h := &testHost{root: f.TempDir(), now: time.Date(2026, 3, 5, 12, 0, 0, 0, time.UTC)}
	for name, text := range map[string]string{"x.log": "one\ntwo\n", "x.log.1": "zero\n", "secret": "secret\n"} {
		if err := os.WriteFile(filepath.Join(h.root, name), []byte(text), 0o600); err != nil {
			f.Fatal(err)
		}
	}
	g, err := newSeries(logRoot{h.root}, "x.log").present()
	if err != nil {
		f.Fatal(err)
	}
	for _, s := range []string{
		`{"v":1,"s":[{"q":"x"}]}`,
		`{"v":1,"s":[{"q":"x","f":{"i":"` + g.id.String() + `","o":4}}]}`,
		`{"v":1,"s":[{"q":"x","f":{"i":"` + g.id.String() + `","o":4,"n":4,"h":"1"},"k":2}]}`,
		`{"v":1,"s":[{"q":"x","f":{"i":"../secret","o":9223372036854775807,"m":-1}}]}`,
		`{"v":1,"s":[{"q":"x","e":{"r":"18446744073709551615"}}]}`,
		`{"v":2}`, `{`, ``,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, document []byte) {
		text := base64.RawURLEncoding.EncodeToString(document)
		if text == "" {
			return
		}
		header, body := h.ask(t, api.LogRequest{Queries: []string{"x"}, Cursor: text})
		if header.Error != nil {
			if c := header.Error.Code; c != 400 && c != 501 {
				t.Errorf("%s: code %d", document, c)
			}
			return
		}
		for line := range strings.Lines(body) {
			line = strings.TrimSuffix(line, "\n")
			known := strings.HasPrefix(line, "# gap: ")
			for _, l := range []string{"zero", "one", "two"} {
				known = known || strings.HasSuffix(l, line)
			}
			if !known {
				t.Errorf("%s made it print %q", document, line)
			}
		}
	})
}

func TestCursorRoundTrip(t *testing.T) {
	queries := []query{{text: "a"}, {text: "eventlog/System"}, {text: "b/c.log"}}
	want := []resume{
		{Query: "a", File: &fileMark{ID: "1-2", Offset: 3, HeadLen: 4, Head: 1<<64 - 1, Modified: 6}, Skip: 7},
		{Query: "eventlog/System", Event: &eventMark{RecordID: 1<<64 - 1}},
		{Query: "b/c.log"},
	}
	text := cursor{Version: cursorVersion, Sources: want}.encode()
	got, refused := decodeCursor(text, queries)
	if refused != nil {
		t.Fatal(refused)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("cursor (-want +got):\n%s", diff)
	}
	for i := range text {
		// No matter which character is damaged, nothing panics.
		damaged := text[:i] + string(rune('A'+i%26)) + text[i+1:]
		_, _ = decodeCursor(damaged, queries)
	}
	if _, refused := decodeCursor(strings.Repeat("A", api.MaxLogCursorBytes+1), queries); refused == nil {
		t.Error("an endless cursor is accepted")
	}
	if _, refused := decodeCursor(text+"A", queries); refused == nil {
		t.Error("a cursor with something after its end is accepted")
	}
}
