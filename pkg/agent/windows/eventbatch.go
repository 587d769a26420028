// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package windows

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"
)

const (
	// eventBatch is how many events are requested at a time. Before Windows 11, and so on Windows Server 2019 and 2022, a batch that
	// has more than 2 MB of events fails with error 1734 (the array bounds are invalid), and skips them. An event has up to 64 KiB.
	eventBatch = 30
	// eventPatience is how long the service may search for the next event of a query before it is asked again. In between it is
	// noticed that nobody waits for the answer any more.
	eventPatience = 500 * time.Millisecond
	// maxReopened is how often a query is opened again without a single event in between.
	maxReopened = 3
)

// What the event log answers in place of events.
var (
	// errNoMoreEvents: there are no more, or none yet.
	errNoMoreEvents = errors.New("there are no more events")
	// errEventsLate: it has found none in the time that it had.
	errEventsLate = errors.New("no event was found in time")
	// errEventsStale: the channel was cleared, or has overwritten what the query found.
	errEventsStale = errors.New("the event log channel was cleared or has overwritten events while it was read; repeat the request")
)

// stillThere says whether a query that is opened again behind a record can go on there. Clearing a channel starts its numbers again, so that
// what is in it would be taken for what was read already. newest returns the ID of its newest record, 0 if it has none.
func stillThere(after uint64, newest func() (uint64, error)) error {
	if after == 0 {
		return nil
	}
	id, err := newest()
	if err == nil && id < after {
		return errEventsStale
	}
	return err
}

// nextEvents gets the next events of a query, or of a subscription if follow is set, and returns their number. next asks the event
// log for them, and reopen opens the query again behind what was read of it. io.EOF means that there are no more, or none yet.
func nextEvents(ctx context.Context, follow bool, next func(patience time.Duration) (int, error), reopen func() error) (int, error) {
	// A subscription has its events at hand, and a query may have to search a gigabyte for the next one.
	patience := eventPatience
	if follow {
		patience = 0
	}
	for reopened := 0; ; {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		n, err := next(patience)
		switch {
		case err == nil && n > 0:
			return n, nil
		case err == nil, errors.Is(err, errNoMoreEvents), follow && errors.Is(err, errEventsLate):
			return 0, io.EOF
		case errors.Is(err, errEventsLate):
		case errors.Is(err, errEventsStale) && reopened < maxReopened:
			reopened++
			if err := reopen(); err != nil {
				return 0, fmt.Errorf("opening the event log channel again: %w", err)
			}
		default:
			return 0, err
		}
	}
}
