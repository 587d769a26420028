// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package agent

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
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
	"github.com/openshift/windows-instance-api/pkg/agent/logs"
)

// errorEvents is an event log of errors, the newest first in each channel.
type errorEvents map[string][]logs.Event

func (errorEvents) Channels(context.Context) ([]logs.EventChannel, error) { return nil, nil }
func (errorEvents) HasProvider(context.Context, string) (bool, error)     { return false, nil }
func (l errorEvents) Query(_ context.Context, q logs.EventQuery) (logs.EventReader, error) {
	events, ok := l[q.Channel]
	switch {
	case !q.ErrorsOnly || !q.NewestFirst || q.Since.IsZero():
		return nil, fmt.Errorf("query %+v reads more than the newest errors", q)
	case !ok:
		return nil, logs.ErrNoSuchChannel
	}
	return &eventList{events}, nil
}

type eventList struct{ left []logs.Event }

func (l *eventList) Close() error { return nil }

func (l *eventList) Next(context.Context) (*logs.Event, error) {
	if len(l.left) == 0 {
		return nil, io.EOF
	}
	e := l.left[0]
	l.left = l.left[1:]
	if e.Message == "" {
		return nil, errors.New("the event is damaged")
	}
	return &e, nil
}

// inspect runs the sub-command; it is noon on 5 March on the host.
func inspect(t *testing.T, h *fakeHost) *api.Facts {
	t.Helper()
	var stdout, stderr bytes.Buffer
	if code := Main(t.Context(), h, []string{api.CommandInspect}, strings.NewReader(""), &stdout, &stderr); code != api.ExitOK {
		t.Fatalf("got code %d and %q", code, stderr.String())
	}
	var f api.Facts
	if err := json.Unmarshal(stdout.Bytes(), &f); err != nil {
		t.Fatal(err)
	}
	return &f
}

func writeLog(t *testing.T, h *fakeHost, name, content string) {
	t.Helper()
	file := filepath.Join(h.root, name)
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	// Its lines have no year: it is that of the file.
	written := h.Now()
	if err := os.Chtimes(file, written, written); err != nil {
		t.Fatal(err)
	}
}

func recent(f *api.Facts) []string {
	var out []string
	for _, e := range f.RecentErrors {
		out = append(out, e.Time.Format("02T15:04")+" "+e.Source+": "+e.Message)
	}
	return out
}

func TestInspectFindsRecentErrors(t *testing.T) {
	h := newFakeHost(t)
	at := func(hour, minute int) time.Time { return time.Date(2026, 3, 5, hour, minute, 0, 0, time.UTC) }
	writeLog(t, h, "kubelet/kubelet.log", "E0304 11:00:00.000000    7 a.go:1] too old\n"+
		"I0305 10:00:00.000000    7 a.go:1] Error is only a word here\n"+
		"E0305 10:01:00.000000    7 a.go:1] first\n\tat some stack\n"+
		"W0305 10:02:00.000000    7 a.go:1] a warning\n"+
		"F0305 10:03:00.000000    7 a.go:1] the end\n")
	writeLog(t, h, "containerd/containerd.log", `time="2026-03-05T10:02:00.5Z" level=error msg="no image"`+"\n"+`time="2026-03-05T10:02:00.6Z" level=info msg="level of error"`+"\n")
	writeLog(t, h, "kube-proxy/kube-proxy.log", `{"ts":"2026-03-05T09:59:00Z","level":"error","msg":"no network"}`+"\n")
	h.events = errorEvents{"System": {
		{Time: at(11, 0), Provider: "disk", Message: "bad block\r\n"},
		{Time: at(9, 0), Provider: "Service Control Manager", Message: "a service ended"},
		{},
	}}

	f := inspect(t, h)
	want := []string{
		"05T11:00 System/disk: bad block",
		"05T10:03 kubelet: F0305 10:03:00.000000    7 a.go:1] the end",
		`05T10:02 containerd: time="2026-03-05T10:02:00.5Z" level=error msg="no image"`,
		"05T10:01 kubelet: E0305 10:01:00.000000    7 a.go:1] first\n\tat some stack",
		`05T09:59 kube-proxy: {"ts":"2026-03-05T09:59:00Z","level":"error","msg":"no network"}`,
		"05T09:00 System/Service Control Manager: a service ended",
	}
	if diff := cmp.Diff(want, recent(f)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]api.FactError{{Area: "recentErrors/System", Message: "the event is damaged"}}, f.Errors); diff != "" {
		t.Errorf("errors (-want +got):\n%s", diff)
	}
	if len(f.Certificates) != 1 || f.Agent.Protocol != api.ProtocolVersion {
		t.Errorf("the answer lacks details or the agent: %+v", f)
	}
}

// TestInspectOfAHostThatHangs: sources that hang together cost no more than a single one may cost with all others: whoever asked
// waits for half a minute.
func TestInspectOfAHostThatHangs(t *testing.T) {
	defer func(channels []string) { recentChannels = channels }(recentChannels)
	recentChannels = []string{"A", "B", "C", "D", "E", "F"}
	synctest.Test(t, func(t *testing.T) {
		h := newFakeHost(t)
		h.events = hangingEvents{}
		began := time.Now()
		f := inspect(t, h)
		if took := time.Since(began); took != recentTotal {
			t.Errorf("it took %s", took)
		}
		if len(f.Errors) != len(recentChannels) || f.Errors[0].Message != "the log was not read to its end within 5s" || f.Errors[5].Message != "not all logs were read within 10s" {
			t.Errorf("got %+v", f.Errors)
		}
	})
}

// hangingEvents is an event log that does not answer.
type hangingEvents struct{ errorEvents }

func (hangingEvents) Query(ctx context.Context, _ logs.EventQuery) (logs.EventReader, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// TestInspectIsBounded: a log full of errors does not fill the answer.
func TestInspectIsBounded(t *testing.T) {
	h := newFakeHost(t)
	var b strings.Builder
	for i := range 2 * recentLines {
		length := 1
		if i >= 2*recentLines-2*maxRecentErrors {
			length = maxErrorMessage
		}
		fmt.Fprintf(&b, "E0305 10:%02d:%02d.%06d    7 a.go:1] number %d %s\n", i/60%60, i%60, i, i, strings.Repeat("ä", length))
	}
	writeLog(t, h, "kubelet.log", b.String())
	h.eventsErr = errors.New("the event log service does not run")
	f := inspect(t, h)
	if len(f.RecentErrors) != maxRecentErrors {
		t.Errorf("got %d errors", len(f.RecentErrors))
	}
	for _, e := range f.RecentErrors {
		if len(e.Message) > maxErrorMessage || !strings.HasSuffix(e.Message, "ä…") {
			t.Errorf("got %d bytes that end in %q", len(e.Message), e.Message[len(e.Message)-8:])
		}
	}
	if diff := cmp.Diff([]api.FactError{{Area: "recentErrors/eventlog", Message: "the event log service does not run"}}, f.Errors); diff != "" {
		t.Errorf("errors (-want +got):\n%s", diff)
	}
	// The others have no use for it, and pay nothing.
	var stdout, stderr bytes.Buffer
	if code := Main(t.Context(), h, []string{api.CommandFacts}, strings.NewReader(""), &stdout, &stderr); code != api.ExitOK || strings.Contains(stdout.String(), "recentErrors") || strings.Contains(stdout.String(), "certificates") {
		t.Errorf("facts: code %d, %s", code, stdout.String())
	}
}
