// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package logs

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"
	"time"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
)

// opener opens the sources of a plan.
type opener struct {
	host Host
	plan *plan
	root logRoot
	stop stopSignal
	// searchUntil ends the search for the last events: servers wait for a header for half a minute.
	searchUntil time.Time
	// exactTail says, once everything is open, that the sources begin at the
	// first of the lines that are wanted, so that none have to be held back.
	exactTail bool
}

// openAll opens every source. The caller closes those that were opened, also after an error.
func (o *opener) openAll(ctx context.Context) ([]source, *api.LogError) {
	var sources []source
	o.searchUntil = time.Now().Add(tailPatience)
	for i := range o.plan.queries {
		s, err := o.open(ctx, i)
		if err != nil {
			err.Field = fmt.Sprintf("queries[%d]", i)
			return sources, err
		}
		if o.plan.filter.timed() || o.plan.filter.pattern != nil {
			s = &filtered{source: s, filter: o.plan.filter, stop: o.stop}
		}
		sources = append(sources, s)
	}
	return sources, nil
}

func (o *opener) open(ctx context.Context, i int) (source, *api.LogError) {
	q := o.plan.queries[i]
	var from *resume
	if o.plan.resumes != nil {
		from = &o.plan.resumes[i]
		if (from.File != nil && q.kind == channelQuery) || (from.Event != nil && q.kind == fileQuery) {
			return nil, badRequest("", "the cursor belongs to another kind of source")
		}
	}
	switch q.kind {
	case channelQuery:
		return o.openChannel(ctx, q, q.name, "", from)
	case fileQuery:
		return o.openFile(q.name, from)
	}
	return o.openService(ctx, q, from)
}

// openService finds the log of a service by its name.
func (o *opener) openService(ctx context.Context, q query, from *resume) (source, *api.LogError) {
	if from != nil && from.Event != nil {
		return o.openChannel(ctx, q, applicationChannel, q.name, from)
	}
	files, known := serviceFiles(q.name)
	for _, name := range files {
		s := newSeries(o.root, name)
		list, err := s.list()
		if err != nil {
			return nil, fileError(name, err)
		}
		if len(list) > 0 {
			return o.startFile(s, false, from)
		}
		// Something of that name that is no log file, or cannot be read, is
		// reported, except for a directory: <root>/kubelet is one.
		if _, err := s.present(); err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, errIsDirectory) {
			return nil, fileError(name, err)
		}
	}
	log, lerr := o.host.EventLog()
	if lerr == nil {
		has, err := log.HasProvider(ctx, q.name)
		if err != nil {
			return nil, eventError(applicationChannel, err)
		}
		if has {
			return o.openChannel(ctx, q, applicationChannel, q.name, from)
		}
	}
	if known && o.plan.Follow {
		return o.startFile(newSeries(o.root, files[0]), false, from)
	}
	tried := "the files " + strings.Join(files, ", ")
	if len(files) == 0 {
		tried = "no file can have that name"
	}
	if lerr == nil {
		tried += " and the event log provider " + q.name
	}
	return nil, &api.LogError{Code: 404, Reason: api.LogNotFound, Message: fmt.Sprintf(
		"no log of %q was found (looked for %s, below %s); a request without a query lists all logs", q.name, tried, o.root.dir)}
}

// applicationChannel is the event channel that services without log files write to.
const applicationChannel = "Application"

func (o *opener) openChannel(ctx context.Context, q query, channel, provider string, from *resume) (source, *api.LogError) {
	log, err := o.host.EventLog()
	if err != nil {
		return nil, noEventLog(err)
	}
	if o.plan.Previous {
		return nil, badRequest("", "the log of %q is in the event log, which has no previous file", q.name)
	}
	s := &eventSource{
		log: log, stop: o.stop, searchUntil: o.searchUntil, budget: maxTailBytes / int64(len(o.plan.queries)),
		selection: EventQuery{Channel: channel, Provider: provider, Follow: o.plan.Follow},
	}
	err = s.open(ctx, o.plan.filter, o.plan.TailLines, from)
	if err != nil {
		return nil, eventError(channel, err)
	}
	return s, nil
}

func (o *opener) openFile(name string, from *resume) (source, *api.LogError) {
	s := newSeries(o.root, name)
	_, err := s.present()
	if err == nil {
		return o.startFile(s, true, from)
	}
	if from != nil && errors.Is(err, fs.ErrNotExist) {
		// Rotated away and not begun again yet: the cursor may find it.
		if list, lerr := s.list(); lerr == nil && len(list) > 0 {
			return o.startFile(s, true, from)
		}
	}
	return nil, fileError(name, err)
}

// fileError explains why a file is not served.
func fileError(name string, err error) *api.LogError {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return &api.LogError{Code: 404, Reason: api.LogNotFound, Message: fmt.Sprintf("there is no file %s in the log directory; a request without a query lists all logs", name)}
	case errors.Is(err, errIsDirectory):
		return badRequest("", "%s is a directory; a request without a query lists the files", name)
	case errors.Is(err, errNotRegular):
		return &api.LogError{Code: 403, Reason: api.LogForbidden, Message: name + " is not a regular file"}
	case errors.Is(err, errOutsideRoot), errors.Is(err, errLinkLoop):
		return &api.LogError{Code: 403, Reason: api.LogForbidden, Message: fmt.Sprintf("%s: %v", name, err)}
	case errors.Is(err, fs.ErrPermission):
		return &api.LogError{Code: 403, Reason: api.LogForbidden, Message: fmt.Sprintf("the agent's account may not read %s", name)}
	case errors.Is(err, errUnstable):
		return &api.LogError{Code: 503, Reason: api.LogServiceUnavailable, Message: fmt.Sprintf("%s: %v; try again", name, err)}
	}
	return &api.LogError{Code: 500, Reason: api.LogInternalError, Message: fmt.Sprintf("opening %s: %v", name, err)}
}

func noEventLog(err error) *api.LogError {
	e := &api.LogError{Code: 503, Reason: api.LogServiceUnavailable, Message: fmt.Sprintf("the event log is not available on this host: %v", err)}
	if errors.Is(err, ErrNoEventLog) {
		e.Code, e.Reason = 501, api.LogNotImplemented
	}
	return e
}

func eventError(channel string, err error) *api.LogError {
	switch {
	case errors.Is(err, ErrNoSuchChannel):
		return &api.LogError{Code: 404, Reason: api.LogNotFound, Message: fmt.Sprintf("there is no event log channel %q; a request without a query lists all logs", channel)}
	case errors.Is(err, ErrDirectChannel):
		return badRequest("", "the event log channel %q is an analytic or debug channel, and Windows lets nobody follow those; read it without following it", channel)
	case errors.Is(err, ErrChannelEnabled):
		return badRequest("", "the event log channel %q is an analytic or debug channel, and Windows lets nobody read those while they are enabled; disable it first: wevtutil.exe sl %q /e:false", channel, channel)
	case errors.Is(err, errStopped):
		return &api.LogError{Code: 503, Reason: api.LogServiceUnavailable, Message: "the request was ended before the event log was open"}
	case errors.Is(err, fs.ErrPermission):
		return &api.LogError{Code: 403, Reason: api.LogForbidden, Message: fmt.Sprintf("the agent's account may not read the event log channel %q", channel)}
	}
	return noEventLog(err)
}

// startFile opens a log at the place where the request wants it to begin. exact is
// for a file that was requested by its path: no rotated files are read before it.
func (o *opener) startFile(s series, exact bool, from *resume) (source, *api.LogError) {
	src := &fileSource{
		grain: o.plan.grain, now: o.host.Now,
		chain: chain{series: s, follow: o.plan.Follow, resumable: o.plan.EmitCursor},
	}
	if exact && strings.HasSuffix(s.base, ".gz") {
		if o.plan.Follow {
			return nil, badRequest("", "%s is compressed and does not grow; it cannot be followed", s.base)
		}
		src.chain.pinned = true
	}
	err := o.begin(src, exact, from)
	for try := 0; errors.Is(err, errUnstable) && try < beginTries; try++ {
		src.missing = ""
		err = o.begin(src, exact, from)
	}
	if err != nil {
		src.close()
		if refused, ok := errors.AsType[*api.LogError](err); ok {
			return nil, refused
		}
		return nil, fileError(path.Join(s.dir, s.base), err)
	}
	src.lookBack()
	return src, nil
}

// beginTries is how often opening is tried again when files are renamed between listing
// and opening them.
const beginTries = 10

// begin opens the first file of a log.
func (o *opener) begin(src *fileSource, exact bool, from *resume) error {
	c := &src.chain
	all, err := c.series.list()
	if err != nil {
		return err
	}
	if len(all) == 0 {
		if o.plan.Follow && !exact {
			// A well-known service that has not logged yet.
			return nil
		}
		return fs.ErrNotExist
	}
	if o.plan.Previous {
		return beginPrevious(c, all)
	}
	last := len(all) - 1
	if !o.plan.Follow {
		c.stop = &all[last]
	}
	if from != nil {
		return resumeFile(src, all, from.File)
	}
	first := 0
	if exact {
		if !all[last].current {
			return fs.ErrNotExist
		}
		first = last
	}
	f := o.plan.filter
	switch {
	case o.plan.TailLines != nil && !f.timed() && f.pattern == nil:
		return o.beginTail(src, all, first)
	case !f.since.IsZero():
		at := last
		for at > first && !all[at-1].mtime.Before(f.since) {
			at--
		}
		return c.beginAt(all, at)
	}
	return c.beginAt(all, last)
}

// beginPrevious reads what was rotated away last, and nothing else.
func beginPrevious(c *chain, all []generation) error {
	for i := len(all) - 1; i >= 0; i-- {
		if g := all[i]; !g.current && g.size > 0 {
			c.pinned, c.stop = true, &all[i]
			return c.beginAt(all, i)
		}
	}
	return &api.LogError{Code: 404, Reason: api.LogNotFound, Message: fmt.Sprintf(
		"%s has no previous file: it was not rotated yet, or what was rotated is deleted", c.series.base)}
}

// beginTail begins so many lines before the end, in a rotated file if need be.
func (o *opener) beginTail(src *fileSource, all []generation, first int) error {
	c, last := &src.chain, len(all)-1
	want := *o.plan.TailLines
	exact := true
	for i := last; ; i-- {
		seg, err := c.series.openListed(all[i])
		if err != nil {
			return err
		}
		off, found, err := o.tailOf(src, seg, all[i].size, want, i == last)
		if err != nil {
			seg.close()
			return err
		}
		if found >= want || i == first {
			exact = exact && (!seg.gen.gzip || found <= want)
			c.begin(seg, off, all[:i])
			break
		}
		want -= found
		seg.close()
	}
	o.exactTail = exact && !o.plan.json && len(o.plan.queries) == 1
	return nil
}

// tailOf finds the last lines, or records, of one file.
func (o *opener) tailOf(src *fileSource, seg *segment, size, want int64, youngest bool) (off, found int64, err error) {
	if seg.gen.gzip {
		found, err = countLines(seg)
		return 0, found, err
	}
	if o.plan.Follow && youngest {
		// A line that is being written will come as a whole.
		if size, err = lastLineEnd(seg, size); err != nil {
			return 0, 0, err
		}
	}
	if o.plan.json && want > 0 {
		return lastRecords(seg, size, want, newTimeContext(src.now().Location(), seg.gen.mtime))
	}
	return lastLines(seg, size, want)
}

// resumeFile continues where a cursor says, in whatever file that is by now.
func resumeFile(src *fileSource, all []generation, m *fileMark) error {
	c := &src.chain
	if m == nil {
		// The log did not exist then, so all of it is new.
		return c.beginAt(all, 0)
	}
	gap := "the file that was being read is gone; continuing with the oldest one after it"
	for i, g := range all {
		if g.id.String() != m.ID {
			continue
		}
		seg, err := c.series.openListed(g)
		if err != nil {
			return err
		}
		if seg.matches(*m) {
			c.begin(seg, m.Offset, all[:i])
			return nil
		}
		seg.close()
		gap = "the file that was being read was truncated; continuing with its new content"
	}
	// It may be compressed, or copied before it was truncated.
	for i := len(all) - 1; i >= 0 && m.HeadLen > 0; i-- {
		if all[i].mtime.UnixNano() < m.Modified {
			continue
		}
		seg, err := c.series.openListed(all[i])
		if err != nil {
			return err
		}
		if seg.matches(*m) {
			c.begin(seg, m.Offset, all[:i])
			return nil
		}
		seg.close()
	}
	src.missing = gap
	for i, g := range all {
		if g.size > 0 && g.mtime.UnixNano() >= m.Modified {
			return c.beginAt(all, i)
		}
	}
	return c.beginAt(all, len(all)-1)
}
