// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package logs

import (
	"context"
	"fmt"
	"reflect"
	"regexp"
	"time"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
)

// plan is a checked request.
type plan struct {
	*api.LogRequest
	queries []query
	filter  filter
	json    bool
	// resumes, when not nil, has one element per query.
	resumes []resume
	grain   grain
}

// newPlan validates a request and computes what depends on the host's clock.
func newPlan(ctx context.Context, req *api.LogRequest, host Host) (*plan, *api.LogError) {
	p := &plan{LogRequest: req, json: req.Output == api.LogOutputJSON}
	if !p.json && req.Output != "" && req.Output != api.LogOutputText {
		return nil, badRequest("output", "must be %q or %q", api.LogOutputText, api.LogOutputJSON)
	}
	if err := p.parseQueries(req); err != nil {
		return nil, err
	}
	if err := checkCombinations(req); err != nil {
		return nil, err
	}
	if err := p.compilePattern(req); err != nil {
		return nil, err
	}
	if err := p.setWindow(ctx, req, host); err != nil {
		return nil, err
	}
	if req.Cursor != "" {
		var err *api.LogError
		if p.resumes, err = decodeCursor(req.Cursor, p.queries); err != nil {
			return nil, err
		}
	}
	p.grain = p.chooseGrain()
	return p, nil
}

func (p *plan) parseQueries(req *api.LogRequest) *api.LogError {
	if len(req.Queries) > api.MaxLogQueries {
		return badRequest("queries", "at most %d sources can be merged, got %d", api.MaxLogQueries, len(req.Queries))
	}
	seen := make(map[query]bool, len(req.Queries))
	for i, text := range req.Queries {
		q, err := parseQuery(text)
		if err != nil {
			err.Field = fmt.Sprintf("queries[%d]", i)
			return err
		}
		if q.kind == channelQuery && req.Previous {
			return badRequest("previous", "an event log channel has no previous file")
		}
		// The same source twice would only repeat each line.
		key := q
		key.text = ""
		if !seen[key] {
			seen[key] = true
			p.queries = append(p.queries, q)
		}
	}
	return nil
}

// checkCombinations refuses values and combinations that have no meaning.
func checkCombinations(req *api.LogRequest) *api.LogError {
	switch {
	case req.SinceTime != nil && req.SinceSeconds != nil:
		return badRequest("sinceSeconds", "cannot be combined with sinceTime")
	case req.SinceSeconds != nil && *req.SinceSeconds < 1:
		return badRequest("sinceSeconds", "must be greater than 0")
	case req.SinceTime != nil && req.UntilTime != nil && req.UntilTime.Before(*req.SinceTime):
		return badRequest("untilTime", "must not be before sinceTime")
	case req.TailLines != nil && *req.TailLines < 0:
		return badRequest("tailLines", "must not be negative")
	case req.TailLines != nil && *req.TailLines > api.MaxLogTailLines:
		return badRequest("tailLines", "must be at most %d", api.MaxLogTailLines)
	case req.LimitBytes != nil && *req.LimitBytes < 1:
		return badRequest("limitBytes", "must be greater than 0")
	case req.Boot != nil && *req.Boot > 0:
		return badRequest("boot", "must be 0 for the present boot, or negative for an earlier one")
	case req.Follow && req.Previous:
		return badRequest("previous", "a previous log has ended and cannot be followed")
	case req.Follow && req.Boot != nil && *req.Boot < 0:
		return badRequest("boot", "an earlier boot has ended and cannot be followed")
	}
	if req.Cursor != "" {
		for _, field := range []struct {
			name string
			set  bool
		}{
			{"sinceTime", req.SinceTime != nil}, {"sinceSeconds", req.SinceSeconds != nil},
			{"tailLines", req.TailLines != nil}, {"boot", req.Boot != nil}, {"previous", req.Previous},
		} {
			if field.set {
				return badRequest("cursor", "says where to begin and cannot be combined with %s", field.name)
			}
		}
	}
	if len(req.Queries) == 0 {
		// The default of CaseSensitive is no choice of the user, nor is Attended, so they do not count.
		index := api.LogRequest{Queries: req.Queries, Output: req.Output, CaseSensitive: req.CaseSensitive, Attended: req.Attended}
		if !reflect.DeepEqual(*req, index) {
			return badRequest("queries", "options need at least one query; without any, the index is returned")
		}
	}
	return nil
}

func (p *plan) compilePattern(req *api.LogRequest) *api.LogError {
	if req.Pattern == "" {
		return nil
	}
	if len(req.Pattern) > api.MaxLogPatternBytes {
		return badRequest("pattern", "may have at most %d bytes", api.MaxLogPatternBytes)
	}
	// Checked on its own first: the error must show what the user wrote.
	instructions, err := api.CheckLogPattern(req.Pattern)
	if err != nil {
		return badRequest("pattern", "%v", err)
	}
	// ^ and $ mean lines, of which a record may have several.
	flags := "(?m)"
	if !req.CaseSensitive {
		flags = "(?mi)"
	}
	re, err := regexp.Compile(flags + req.Pattern)
	if err != nil {
		return badRequest("pattern", "%v", err)
	}
	p.filter.pattern = &pattern{re, instructions}
	return nil
}

func (p *plan) setWindow(ctx context.Context, req *api.LogRequest, host Host) *api.LogError {
	f := &p.filter
	if req.SinceTime != nil {
		f.since = *req.SinceTime
	}
	if req.SinceSeconds != nil {
		f.since = host.Now().Add(-time.Duration(min(*req.SinceSeconds, maxSeconds)) * time.Second)
	}
	if req.UntilTime != nil {
		f.until = *req.UntilTime
	}
	if req.Boot == nil {
		return nil
	}
	boots, err := host.BootTimes(ctx)
	if err != nil {
		return badRequest("boot", "the boot times of this host are not known: %v", err)
	}
	back := -*req.Boot
	if back >= len(boots) {
		return badRequest("boot", "the host knows of %d boots only, the oldest is %d", len(boots), 1-len(boots))
	}
	if f.since.Before(boots[back]) {
		f.since = boots[back]
	}
	if back > 0 {
		if end := boots[back-1]; f.until.IsZero() || end.Before(f.until) {
			// The bounds are inclusive and the next boot is not a part of this one.
			f.until = end.Add(-time.Nanosecond)
		}
	}
	return nil
}

// maxSeconds keeps a duration from overflowing: a hundred years.
const maxSeconds = 100 * 366 * 24 * 3600

func (p *plan) chooseGrain() grain {
	switch {
	case len(p.queries) > 1 || p.json || p.filter.pattern != nil:
		return byRecord
	case p.filter.timed() || p.Timestamps:
		return byLine
	}
	return byBlock
}
