// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package windows

import (
	"context"
	"errors"
	"io"
	"testing"
	"time"
)

// TestNextEvents: an answer of the event log ends the events only where there are no more. A query that takes its time is waited for
// as long as somebody waits.
func TestNextEvents(t *testing.T) {
	errOther := errors.New("access denied")
	type answer struct {
		n   int
		err error
	}
	late, stale, none := answer{err: errEventsLate}, answer{err: errEventsStale}, answer{err: errNoMoreEvents}
	for _, tt := range []struct {
		name     string
		follow   bool
		answers  []answer
		reopen   error
		leaves   int // after so many answers nobody waits any more
		want     int
		wantErr  error
		reopened int
	}{
		{name: "events", answers: []answer{{n: 30}}, want: 30},
		{name: "the end", answers: []answer{none}, wantErr: io.EOF},
		{name: "a long search", answers: []answer{late, late, late, {n: 2}}, want: 2},
		{name: "a long search in vain", answers: []answer{late, none}, wantErr: io.EOF},
		{name: "a long search, and nobody waits", answers: []answer{late, late}, leaves: 2, wantErr: context.Canceled},
		{name: "none yet", follow: true, answers: []answer{none}, wantErr: io.EOF},
		{name: "none in time", follow: true, answers: []answer{late}, wantErr: io.EOF},
		{name: "cleared", answers: []answer{stale, {n: 1}}, want: 1, reopened: 1},
		{name: "cleared all the time", answers: []answer{stale, stale, stale, stale}, wantErr: errEventsStale, reopened: maxReopened},
		{name: "cleared and gone", answers: []answer{stale}, reopen: errOther, wantErr: errOther, reopened: 1},
		{name: "cleared while followed", follow: true, answers: []answer{stale, none}, wantErr: io.EOF, reopened: 1},
		{name: "failed", answers: []answer{{err: errOther}}, wantErr: errOther},
	} {
		t.Run(tt.name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			asked, reopened := 0, 0
			n, err := nextEvents(ctx, tt.follow, func(patience time.Duration) (int, error) {
				if (patience == 0) != tt.follow {
					t.Errorf("the event log has %s", patience)
				}
				a := tt.answers[asked]
				if asked++; asked == tt.leaves {
					cancel()
				}
				return a.n, a.err
			}, func() error { reopened++; return tt.reopen })
			if n != tt.want || !errors.Is(err, tt.wantErr) || asked != len(tt.answers) || reopened != tt.reopened {
				t.Errorf("got %d, %v after %d answers and %d times opened again; want %d, %v after %d and %d", n, err, asked, reopened, tt.want, tt.wantErr, len(tt.answers), tt.reopened)
			}
		})
	}
}

// TestStillThere: a query does not go on in a channel that was cleared as if that had nothing new.
func TestStillThere(t *testing.T) {
	errOther := errors.New("access denied")
	for _, tt := range []struct {
		name          string
		after, newest uint64
		err, want     error
	}{
		{"nothing was read", 0, 0, errOther, nil},
		{"some events were overwritten", 10, 20, nil, nil},
		{"all was read", 10, 10, nil, nil},
		{"cleared", 10, 2, nil, errEventsStale},
		{"cleared and empty", 10, 0, nil, errEventsStale},
		{"not known", 10, 0, errOther, errOther},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := stillThere(tt.after, func() (uint64, error) { return tt.newest, tt.err }); !errors.Is(got, tt.want) {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}

// TestSizeOfBatches: a batch of the largest events is no larger than what Windows Server 2019 and 2022 can return.
func TestSizeOfBatches(t *testing.T) {
	const largestEvent, largestBatch = 64 << 10, 2 << 20
	if size := eventBatch * largestEvent; size > largestBatch {
		t.Errorf("a batch may have %d bytes", size)
	}
}
