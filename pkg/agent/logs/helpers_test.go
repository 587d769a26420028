// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package logs

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
)

// testHost is a host whose log directory, clock and event log a test sets.
type testHost struct {
	root   string
	now    time.Time
	boots  []time.Time
	noBoot error
	events EventLog
}

func newTestHost(t *testing.T) *testHost {
	t.Helper()
	return &testHost{root: t.TempDir(), now: day(12, 0, 0)}
}

func (h *testHost) LogRoot() string { return h.root }
func (*testHost) LowerPriority()    {}

func (h *testHost) Now() time.Time {
	if h.now.IsZero() {
		return time.Now().UTC()
	}
	return h.now
}

func (h *testHost) BootTimes(context.Context) ([]time.Time, error) { return h.boots, h.noBoot }

func (h *testHost) EventLog() (EventLog, error) {
	if h.events == nil {
		return nil, ErrNoEventLog
	}
	return h.events, nil
}

// day is a time of the day on which most tests take place.
func day(hour, minute, second int) time.Time {
	return time.Date(2026, 3, 5, hour, minute, second, 0, time.UTC)
}

// write makes a file below the log root, written at noon of that day.
func (h *testHost) write(t *testing.T, name, text string) {
	t.Helper()
	path := filepath.Join(h.root, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if strings.HasSuffix(name, ".gz") {
		text = gzipped(t, text)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	h.touch(t, name, day(12, 0, 0))
}

func (h *testHost) touch(t *testing.T, name string, when time.Time) {
	t.Helper()
	if err := os.Chtimes(filepath.Join(h.root, filepath.FromSlash(name)), when, when); err != nil {
		t.Fatal(err)
	}
}

func gzipped(t *testing.T, text string) string {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := z.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// ask serves one request that does not follow, as servers make it, and takes the answer apart.
func (h *testHost) ask(t *testing.T, req api.LogRequest) (api.LogHeader, string) {
	t.Helper()
	req.Attended = !req.Follow
	line, err := json.Marshal(req)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	open, caller := io.Pipe()
	defer caller.Close()
	if err := Serve(t.Context(), h, io.MultiReader(bytes.NewReader(append(line, '\n')), open), &out); err != nil {
		t.Fatalf("Serve(%s): %v", line, err)
	}
	return splitAnswer(t, out.String())
}

// read is ask for a request that has to succeed.
func (h *testHost) read(t *testing.T, req api.LogRequest) string {
	t.Helper()
	header, body := h.ask(t, req)
	if header.Error != nil {
		t.Fatalf("refused: %+v", header.Error)
	}
	return body
}

// refused is ask for a request that has to be refused.
func (h *testHost) refused(t *testing.T, req api.LogRequest) *api.LogError {
	t.Helper()
	header, body := h.ask(t, req)
	if header.Error == nil {
		t.Fatalf("not refused, got %q", body)
	}
	if body != "" {
		t.Errorf("after a refusal came %q", body)
	}
	return header.Error
}

func splitAnswer(t *testing.T, answer string) (api.LogHeader, string) {
	t.Helper()
	first, body, ok := strings.Cut(answer, "\n")
	var header api.LogHeader
	if err := json.Unmarshal([]byte(first), &header); err != nil || !ok {
		t.Fatalf("first line %q is no header: %v", first, err)
	}
	if header.Protocol != api.ProtocolVersion {
		t.Errorf("protocol %d, want %d", header.Protocol, api.ProtocolVersion)
	}
	return header, body
}

// splitCursor takes the cursor from the end of a text answer.
func splitCursor(t *testing.T, body string) (text, cursor string) {
	t.Helper()
	body, ok := strings.CutSuffix(body, "\n")
	i := strings.LastIndexByte(body, '\n') + 1
	cursor, found := strings.CutPrefix(body[i:], "# cursor: ")
	if !ok || !found {
		t.Fatalf("no cursor at the end of %q", body)
	}
	return body[:i], cursor
}

func ptr[T any](v T) *T { return &v }
