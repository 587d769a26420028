// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package logs

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
)

// BenchmarkServe reads a file of 64 MiB in the ways that differ in cost: passed on
// by block, with CRLF or UTF-16 to be changed, and with every line looked at.
func BenchmarkServe(b *testing.B) {
	const size = 64 << 20
	h := &testHost{root: b.TempDir(), now: day(12, 0, 0)}
	var text strings.Builder
	for i := 0; text.Len() < size; i++ {
		fmt.Fprintf(&text, "I0305 10:%02d:%02d.%06d    1234 kubelet.go:%d] \"SyncLoop (PLEG): event for pod\" pod=\"default/web-%d\" event={\"ID\":\"8a3f\"}\n",
			i/60%60, i%60, i%1_000_000, i%3000, i%100)
	}
	files := map[string]string{
		"plain.log": text.String(),
		"crlf.log":  strings.ReplaceAll(text.String(), "\n", "\r\n"),
		"wide.log":  encode(utf16LE, text.String(), true),
	}
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(h.root, name), []byte(content), 0o600); err != nil {
			b.Fatal(err)
		}
	}
	for _, bb := range []struct {
		name string
		req  api.LogRequest
	}{
		{"plain", api.LogRequest{Queries: []string{"plain"}}},
		{"CRLF", api.LogRequest{Queries: []string{"crlf"}}},
		{"UTF-16", api.LogRequest{Queries: []string{"wide"}}},
		{"since", api.LogRequest{Queries: []string{"plain"}, SinceTime: ptr(day(10, 30, 0))}},
		{"pattern", api.LogRequest{Queries: []string{"plain"}, Pattern: "no such pod", CaseSensitive: true}},
		{"timestamps", api.LogRequest{Queries: []string{"plain"}, Timestamps: true}},
		{"JSON", api.LogRequest{Queries: []string{"plain"}, Output: api.LogOutputJSON}},
		{"tail", api.LogRequest{Queries: []string{"plain"}, TailLines: ptr(int64(1000))}},
	} {
		b.Run(bb.name, func(b *testing.B) {
			line, err := json.Marshal(bb.req)
			if err != nil {
				b.Fatal(err)
			}
			b.SetBytes(int64(len(files[bb.req.Queries[0]+".log"])))
			b.ReportAllocs()
			for b.Loop() {
				if err := Serve(b.Context(), h, bytes.NewReader(line), io.Discard); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkQuietPoll is what a follow costs each time that it finds nothing new.
func BenchmarkQuietPoll(b *testing.B) {
	h := &testHost{root: b.TempDir(), now: time.Time{}}
	if err := os.WriteFile(filepath.Join(h.root, "x.log"), []byte("one\n"), 0o600); err != nil {
		b.Fatal(err)
	}
	o := &opener{host: h, plan: &plan{LogRequest: &api.LogRequest{Follow: true}}, root: logRoot{h.root}}
	src, refused := o.openService(b.Context(), query{text: "x", name: "x"}, nil)
	if refused != nil {
		b.Fatal(refused)
	}
	defer src.close()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := src.next(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}
