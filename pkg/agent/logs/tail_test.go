// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package logs

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
)

// naiveTail is what TailLines means.
func naiveTail(text string, n int) string {
	var all []string
	for line := range strings.Lines(text) {
		all = append(all, strings.TrimSuffix(line, "\n")+"\n")
	}
	return strings.Join(all[max(0, len(all)-n):], "")
}

// randomText has lines of all lengths around the sizes of blocks.
func randomText(rnd *rand.Rand) string {
	var b strings.Builder
	for range rnd.IntN(40) {
		n := rnd.IntN(50)
		if rnd.IntN(10) == 0 {
			n = tailBlock/2 + rnd.IntN(tailBlock)
		}
		b.WriteString(strings.Repeat(string(rune('a'+rnd.IntN(26))), n))
		b.WriteByte('\n')
	}
	if rnd.IntN(2) == 0 {
		b.WriteString("no end")
	}
	return b.String()
}

func TestTailAgainstOracle(t *testing.T) {
	h := newTestHost(t)
	for seed := range uint64(60) {
		rnd := rand.New(rand.NewPCG(seed, 4))
		text := randomText(rnd)
		e := encoding(rnd.IntN(3))
		h.write(t, "x.log", encode(e, text, e != utf8Text || rnd.IntN(2) == 0))
		for range 6 {
			n := rnd.IntN(45)
			want := naiveTail(text, n)
			for _, req := range []api.LogRequest{{}, {Pattern: "(?s).*"}, {Timestamps: true}} {
				req.Queries, req.TailLines = []string{"x"}, ptr(int64(n))
				if got := h.read(t, req); got != want {
					t.Errorf("seed %d, encoding %d, %+v:", seed, e, req)
					compareLogs(t, want, got)
				}
			}
		}
	}
}

func TestTailOverGenerations(t *testing.T) {
	h := newTestHost(t)
	var all string
	for i := range 5 {
		text := ""
		for j := range 5 {
			text += fmt.Sprintf("file %d line %d\n", i, j)
		}
		all += text
		name := fmt.Sprintf("x-2026030%d-000000.log", i+1)
		switch {
		case i == 4:
			name = "x.log"
		case i%2 == 0:
			name += ".gz"
		}
		h.write(t, name, text)
	}
	for n := range 30 {
		if got, want := h.read(t, api.LogRequest{Queries: []string{"x"}, TailLines: ptr(int64(n))}), naiveTail(all, n); got != want {
			t.Errorf("tail %d: got %q, want %q", n, got, want)
		}
		got := h.read(t, api.LogRequest{Queries: []string{"x"}, TailLines: ptr(int64(n)), Output: api.LogOutputJSON})
		if c := strings.Count(got, "\n"); c != min(n, 25) {
			t.Errorf("tail %d of JSON: got %d records", n, c)
		}
	}
}

// TestTailReadsBackwards gives a file with a hole of 4 TiB before its last lines,
// which no reader from the beginning would get through.
func TestTailReadsBackwards(t *testing.T) {
	h := newTestHost(t)
	const start = 4 << 40
	path := filepath.Join(h.root, "x.log")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	text := "\nI0305 10:00:00.000000 one\ncontinued\nI0305 10:00:01.000000 two\n"
	if _, err := f.WriteString("head of the file\n"); err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt([]byte(text), start); err != nil {
		t.Skipf("the file system has no files of 4 TiB: %v", err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name string
		req  api.LogRequest
		want string
	}{
		{name: "text", req: api.LogRequest{}, want: "continued\nI0305 10:00:01.000000 two\n"},
		{name: "timestamps", req: api.LogRequest{Timestamps: true}, want: "2026-03-05T10:00:00Z continued\n2026-03-05T10:00:01Z I0305 10:00:01.000000 two\n"},
		{
			name: "JSON", req: api.LogRequest{Output: api.LogOutputJSON},
			want: `{"time":"2026-03-05T10:00:00Z","source":"x","message":"I0305 10:00:00.000000 one\ncontinued"}` + "\n" +
				`{"time":"2026-03-05T10:00:01Z","source":"x","message":"I0305 10:00:01.000000 two"}` + "\n",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.req.Queries, tt.req.TailLines = []string{"x"}, ptr(int64(2))
			if got := h.read(t, tt.req); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}
