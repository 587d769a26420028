// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package logfollow

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"net/url"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// Query parameters of the subresource log that a follower sets or has to understand.
const (
	paramQuery        = "query"
	paramFollow       = "follow"
	paramCursor       = "cursor"
	paramTailLines    = "tailLines"
	paramSinceTime    = "sinceTime"
	paramSinceSeconds = "sinceSeconds"
	paramUntilTime    = "untilTime"
	paramLimitBytes   = "limitBytes"
	paramBoot         = "boot"
	paramTimestamps   = "timestamps"
	paramOutput       = "output"
)

const (
	// anchorBytes is how much one request may deliver, which is how much is read
	// again at most after it broke off.
	anchorBytes = 16 << 20
	// longAgo ends a follow after one read of a log: no line is that old.
	longAgo = "1970-01-01T00:00:00Z"

	// longEnough is how long a stream must have been open without a line for the log to
	// have had none that is wanted. One that broke off earlier is as good as none.
	longEnough = 2 * time.Second

	defaultFirstWait = 200 * time.Millisecond
	defaultMaxWait   = 5 * time.Second
)

// Follower follows a log. Its fields must not be changed while [Follower.Run] runs.
type Follower struct {
	// Open makes one request with the given query parameters. It returns once the
	// log was found, or with the refusal. Required.
	Open func(ctx context.Context, query url.Values) (io.ReadCloser, error)
	// Query is the request of the user: parameters of the subresource log without
	// follow and cursor.
	Query url.Values
	// Out gets whole lines. Required.
	Out io.Writer
	// Retry says whether an error of Open may pass by itself. since is for how long
	// there has been no stream. It is not called for the first request, whose errors are
	// those of the user. Required.
	Retry func(err error, since time.Duration) bool
	// Notice gets a sentence when the stream broke off and when it continues. Required.
	Notice func(text string)
	// GiveUpAfter is for how long a stream that broke off is requested again. 0: without
	// end.
	GiveUpAfter time.Duration

	// firstWait and maxWait bound the time between two tries; 0 means the default.
	firstWait, maxWait time.Duration
	// chunk is how much one request may deliver; 0 means anchorBytes.
	chunk int64
}

// Run follows until ctx ends, the log does (with untilTime or limitBytes), or an error
// does not pass. It returns nil when the log ended and the error of ctx when that did.
func (f *Follower) Run(ctx context.Context) error {
	s := newState(f)
	var (
		lost      time.Time // when the stream broke off; zero while there is one
		opened    bool
		firstWait = cmp.Or(f.firstWait, defaultFirstWait)
		delay     = firstWait
		problem   error
	)
	for {
		requested := time.Now()
		query, limit := s.next(requested)
		body, err := f.Open(ctx, query)
		if err == nil {
			accepted := time.Now()
			if opened = true; !lost.IsZero() {
				f.Notice("the log continues")
			}
			lost, problem = time.Time{}, nil
			var end ending
			end, err = s.read(body, limit)
			body.Close()
			if end.lines > 0 {
				delay = firstWait
			}
			if err := s.out.Flush(); err != nil {
				return fmt.Errorf("writing the log: %w", err)
			}
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if end.cursor != "" {
				begins := s.anchor == nil
				if s.advance(end, limit) {
					return s.out.Flush()
				}
				// One that ends at once with nothing is not requested again in a loop.
				if begins || end.lines > 0 || end.stopping {
					continue
				}
			} else {
				s.broken(requested, time.Since(accepted))
				lost = time.Now()
				f.Notice(fmt.Sprintf("the connection was lost (%v); trying again", err))
			}
		} else {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if lost.IsZero() {
				lost = requested
			}
			if !opened || !f.Retry(err, time.Since(lost)) {
				return err
			}
			problem = err
		}
		if problem != nil && f.GiveUpAfter > 0 && time.Since(lost) > f.GiveUpAfter {
			return fmt.Errorf("the log could not be continued for %s: %w", f.GiveUpAfter, problem)
		}
		// Many readers of a server that was restarted do not come back at the same moment.
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(wait.Jitter(delay, 0.5)):
		}
		delay = min(2*delay, cmp.Or(f.maxWait, defaultMaxWait))
	}
}

// next returns the parameters of the next request, and after how many bytes it ends;
// 0 when it does not.
func (s *state) next(now time.Time) (query url.Values, limit int64) {
	query = maps.Clone(s.follower.Query)
	query.Set(paramFollow, "true")
	if s.anchor != nil {
		for _, begin := range []string{paramTailLines, paramSinceTime, paramSinceSeconds, paramBoot} {
			query.Del(begin)
		}
		query.Set(paramCursor, s.anchor.cursor)
		limit = s.chunk
		if s.limit != nil {
			limit = min(limit, *s.limit)
		}
		query.Set(paramLimitBytes, strconv.FormatInt(limit, 10))
		return query, limit
	}
	if query.Get(paramTailLines) == "0" {
		// Nothing that exists already: the anchor is the present end.
		for _, begin := range []string{paramTailLines, paramSinceTime, paramSinceSeconds, paramLimitBytes, paramBoot} {
			query.Del(begin)
		}
		query.Set(paramUntilTime, longAgo)
		return query, 0
	}
	if s.waited {
		// When the first request was answered there was nothing that is wanted,
		// so everything that there is now has come since.
		query.Del(paramTailLines)
		if seconds, err := strconv.ParseInt(query.Get(paramSinceSeconds), 10, 64); err == nil {
			seconds += int64(now.Sub(s.begun)/time.Second) + 1
			query.Set(paramSinceSeconds, strconv.FormatInt(seconds, 10))
		}
	}
	query.Set(paramLimitBytes, "1")
	return query, 1
}
