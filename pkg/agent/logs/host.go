// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package logs

import (
	"context"
	"errors"
	"time"
)

// Host is what the log engine needs of the operating system. Implementations
// must be safe for concurrent use.
type Host interface {
	// LogRoot is the directory whose files may be read: C:\var\log
	// on Windows. It need not exist yet.
	LogRoot() string

	// Now is the clock of the host. Its location is the host's time zone, in
	// which log lines without a zone are read.
	Now() time.Time

	// BootTimes are the starts of the host that are known, newest first; the
	// first one is the present boot. An error means that not even that one is
	// known. Fewer boots than there were is not an error.
	BootTimes(ctx context.Context) ([]time.Time, error)

	// EventLog gives access to the event log. The error says in one sentence
	// why there is none; it wraps [ErrNoEventLog] when the operating system
	// has no such thing.
	EventLog() (EventLog, error)

	// LowerPriority has this process wait for a processor, as long as it lives, while programs of
	// ordinary priority need one.
	LowerPriority()
}

// ErrNoEventLog says that the operating system has no event log.
var ErrNoEventLog = errors.New("this operating system has no event log")

// ErrNoSuchChannel is wrapped by [EventLog.Query] for a channel that does not exist.
var ErrNoSuchChannel = errors.New("no such event log channel")

// ErrDirectChannel is wrapped by [EventLog.Query] for a channel of the type Analytic or Debug, which
// Windows lets nobody read newest first, or follow.
var ErrDirectChannel = errors.New("the event log channel is an analytic or debug channel")

// ErrChannelEnabled is wrapped by [EventLog.Query] and [EventReader.Next] for such a channel that
// events are being written to, which Windows lets nobody read meanwhile.
var ErrChannelEnabled = errors.New("the analytic or debug channel is enabled")

// EventLog reads the channels of the Windows event log.
type EventLog interface {
	// Channels lists the channels, sorted by name.
	Channels(ctx context.Context) ([]EventChannel, error)
	// HasProvider says whether a provider of that name is registered with the
	// Application channel.
	HasProvider(ctx context.Context, name string) (bool, error)
	// Query opens a reader. The caller closes it.
	Query(ctx context.Context, q EventQuery) (EventReader, error)
}

// EventChannel describes one channel for the index.
type EventChannel struct {
	Name string
	// Size is the size of the channel's file in bytes, Modified when it was
	// last written; zero when unknown.
	Size     int64
	Modified time.Time
}

// EventQuery selects events of one channel.
type EventQuery struct {
	Channel string
	// Provider, when set, leaves only the events of that provider.
	Provider string
	// AfterRecord, when not zero, leaves only the events that were written
	// after the one with that record ID.
	AfterRecord uint64
	// Since and Until are inclusive bounds of the time; zero means none.
	Since, Until time.Time
	// ErrorsOnly leaves only events of the levels Critical and Error.
	ErrorsOnly bool
	// NewestFirst turns the order round. It cannot be combined with Follow.
	NewestFirst bool
	// Follow keeps the reader usable after io.EOF: a later Next returns what
	// has been written since.
	Follow bool
}

// EventReader yields events in the order of the query.
type EventReader interface {
	// Next returns the next event, or io.EOF when there is none, or none yet
	// when the query follows. It does not wait for one.
	Next(ctx context.Context) (*Event, error)
	Close() error
}

// Event is one event, rendered. As JSON it is a part of a record, which has its time and message.
type Event struct {
	// Level is the English word: Critical, Error, Warning, Information, Verbose.
	Level    string `json:"level"`
	EventID  uint32 `json:"eventID"`
	Provider string `json:"provider"`
	RecordID uint64 `json:"recordID"`
	Channel  string `json:"channel"`

	Time time.Time `json:"-"`
	// Message may have several lines.
	Message string `json:"-"`
}
