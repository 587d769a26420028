// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

//go:build linux

package main

import (
	"context"
	"io"
	"slices"
	"time"

	"github.com/openshift/windows-instance-api/pkg/agent/logs"
)

// eventLog is the System channel of a host that has had a bad night. Nothing is added.
type eventLog []*logs.Event

var _ logs.EventLog = eventLog(nil)

const systemChannel = "System"

func newEventLog(now time.Time) eventLog {
	var l eventLog
	for i, e := range []struct {
		before   time.Duration
		provider string
		id       uint32
		level    string
		message  string
	}{
		{8 * time.Hour, "Microsoft-Windows-Kernel-General", 12, "Information", "The operating system started."},
		{7 * time.Hour, "Service Control Manager", 7036, "Information", "The OpenSSH SSH Server service entered the running state."},
		{2 * time.Hour, "Service Control Manager", 7031, "Error", "The kubelet service terminated unexpectedly.  It has done this 1 time(s)."},
		{time.Hour, "disk", 153, "Warning", "The IO operation at logical block address 0x4a2e10 for Disk 0 was retried."},
		{10 * time.Minute, "Service Control Manager", 7036, "Information", "The containerd service entered the running state."},
	} {
		l = append(l, &logs.Event{
			RecordID: uint64(i + 1), Time: now.Add(-e.before), Channel: systemChannel,
			Provider: e.provider, EventID: e.id, Level: e.level, Message: e.message,
		})
	}
	return l
}

// Channels implements [logs.EventLog].
func (l eventLog) Channels(context.Context) ([]logs.EventChannel, error) {
	return []logs.EventChannel{{Name: systemChannel, Size: 1 << 20, Modified: l[len(l)-1].Time}}, nil
}

// HasProvider implements [logs.EventLog].
func (l eventLog) HasProvider(context.Context, string) (bool, error) { return false, nil }

// Query implements [logs.EventLog].
func (l eventLog) Query(_ context.Context, q logs.EventQuery) (logs.EventReader, error) {
	if q.Channel != systemChannel {
		return nil, logs.ErrNoSuchChannel
	}
	chosen := slices.DeleteFunc(slices.Clone(l), func(e *logs.Event) bool {
		return q.Provider != "" && e.Provider != q.Provider || e.RecordID <= q.AfterRecord ||
			e.Time.Before(q.Since) || !q.Until.IsZero() && e.Time.After(q.Until) ||
			q.ErrorsOnly && e.Level != "Error" && e.Level != "Critical"
	})
	if q.NewestFirst {
		slices.Reverse(chosen)
	}
	return (*eventReader)(&chosen), nil
}

type eventReader eventLog

// Next implements [logs.EventReader].
func (r *eventReader) Next(context.Context) (*logs.Event, error) {
	if len(*r) == 0 {
		return nil, io.EOF
	}
	e := (*r)[0]
	*r = (*r)[1:]
	return e, nil
}

// Close implements [logs.EventReader].
func (r *eventReader) Close() error { return nil }
