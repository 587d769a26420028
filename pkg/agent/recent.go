// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package agent

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
	"github.com/openshift/windows-instance-api/pkg/agent/logs"
)

// Limits of recent errors.
const (
	// maxRecentErrors is how many are reported, of all sources together.
	maxRecentErrors = 20
	// recentWindow is how far back.
	recentWindow = 24 * time.Hour
	// recentLines is how many lines of each log are inspected, from its end.
	recentLines = 5000
	// recentTimeout bounds each source: a slow disk must not cost the rest of the answer.
	recentTimeout = 5 * time.Second
	// recentTotal bounds all sources together: on a host that hangs each of them may.
	recentTotal = 10 * time.Second
	// maxErrorMessage is how many bytes of a message are reported.
	maxErrorMessage = 2 << 10
)

// recentServices are the services whose logs are inspected, and recentChannels the channels
// of the event log.
var (
	recentServices = []string{"kubelet", "containerd", "kube-proxy"}
	recentChannels = []string{"System", "Application"}
)

// errorLine matches how the programs of a node mark errors: klog by the first letter,
// containerd by level=error or, in JSON, "level":"error".
var errorLine = regexp.MustCompile(`^[EF]\d{4} |\blevel="?(?:error|fatal|panic)\b|"level":"(?:error|fatal|panic)"`)

// collectRecentErrors adds the newest errors to the facts.
func collectRecentErrors(ctx context.Context, host Host, f *api.Facts) {
	ctx, cancel := context.WithTimeoutCause(ctx, recentTotal, fmt.Errorf("not all logs were read within %s", recentTotal))
	defer cancel()
	since := host.Now().Add(-recentWindow)
	var found []api.LoggedError
	source := func(area string, read func(context.Context) ([]api.LoggedError, error)) {
		f.Collect("recentErrors/"+area, func() error {
			ctx, cancel := context.WithTimeoutCause(ctx, recentTimeout, fmt.Errorf("the log was not read to its end within %s", recentTimeout))
			defer cancel()
			list, err := read(ctx)
			found = append(found, list...)
			if err != nil && ctx.Err() != nil {
				return context.Cause(ctx)
			}
			return err
		})
	}
	for _, name := range recentServices {
		source(name, func(ctx context.Context) ([]api.LoggedError, error) { return serviceErrors(ctx, host, name, since) })
	}
	if events, err := host.EventLog(); err == nil {
		for _, channel := range recentChannels {
			source(channel, func(ctx context.Context) ([]api.LoggedError, error) { return eventErrors(ctx, events, channel, since) })
		}
	} else if !errors.Is(err, logs.ErrNoEventLog) {
		f.AddError("recentErrors/eventlog", err)
	}
	// Stable: the order within a source is more exact than equal times.
	slices.SortStableFunc(found, func(a, b api.LoggedError) int { return b.Time.Compare(a.Time) })
	f.RecentErrors = found[:min(len(found), maxRecentErrors)]
}

// serviceErrors reads the end of the log of a service. One that has none is no error: most
// hosts lack some of the services.
func serviceErrors(ctx context.Context, host Host, name string, since time.Time) ([]api.LoggedError, error) {
	lines := int64(recentLines)
	request, err := json.Marshal(api.LogRequest{Queries: []string{name}, TailLines: &lines, Output: api.LogOutputJSON})
	if err != nil {
		return nil, err
	}
	answer, w := io.Pipe()
	defer answer.Close() //nolint:errcheck // always nil; it ends the reading if we end first
	go func() { w.CloseWithError(logs.Serve(ctx, host, bytes.NewReader(request), w)) }()
	records := json.NewDecoder(bufio.NewReader(answer))
	var header api.LogHeader
	if err := records.Decode(&header); err != nil {
		return nil, fmt.Errorf("reading the log: %w", err)
	}
	if e := header.Error; e != nil {
		if e.Reason == api.LogNotFound {
			return nil, nil
		}
		return nil, e
	}
	var found []api.LoggedError
	for {
		var record struct {
			Time    time.Time `json:"time"`
			Message string    `json:"message"`
		}
		err := records.Decode(&record)
		if errors.Is(err, io.EOF) {
			// The newest first, as among equals the last one was logged last.
			slices.Reverse(found)
			return found, nil
		}
		if err != nil {
			return found, fmt.Errorf("reading the log: %w", err)
		}
		if record.Time.IsZero() || record.Time.Before(since) || !errorLine.MatchString(record.Message) {
			continue
		}
		if len(found) == maxRecentErrors {
			found = slices.Delete(found, 0, 1)
		}
		found = append(found, api.LoggedError{Time: record.Time, Source: name, Message: shorten(record.Message)})
	}
}

// eventErrors reads a channel of the event log backwards.
func eventErrors(ctx context.Context, events logs.EventLog, channel string, since time.Time) ([]api.LoggedError, error) {
	r, err := events.Query(ctx, logs.EventQuery{Channel: channel, Since: since, ErrorsOnly: true, NewestFirst: true})
	if errors.Is(err, logs.ErrNoSuchChannel) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer r.Close() //nolint:errcheck // only read
	var found []api.LoggedError
	for len(found) < maxRecentErrors {
		e, err := r.Next(ctx)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return found, err
		}
		found = append(found, api.LoggedError{Time: e.Time, Source: channel + "/" + e.Provider, Message: shorten(e.Message)})
	}
	return found, nil
}

// shorten trims a message, and cuts it without cutting a character.
func shorten(s string) string {
	s = strings.TrimSpace(strings.ReplaceAll(s, "\r\n", "\n"))
	if len(s) <= maxErrorMessage {
		return s
	}
	return strings.ToValidUTF8(s[:maxErrorMessage-len("…")], "") + "…"
}
