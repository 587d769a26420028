// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package logs

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
	"github.com/openshift/windows-instance-api/pkg/agent/api/config"
)

// Serve answers one request: it reads the request from stdin and writes the header
// and the log to stdout.
//
// A request that is refused is answered, by a header with an [api.LogError], and is no
// error of Serve. Its error means that the answer is missing or incomplete. When
// ctx ends, Serve returns promptly unless it is blocked in a write.
//
// During a log that is followed or attended a goroutine reads stdin. It ends with stdin, which
// may be after Serve has returned.
func Serve(ctx context.Context, host Host, stdin io.Reader, stdout io.Writer) error {
	in := bufio.NewReaderSize(stdin, api.MaxLogRequestBytes+1)
	req, refused := readRequest(in)
	var p *plan
	if refused == nil && req.Attended && !req.Follow { // what is followed reads it anyway
		var cancel context.CancelFunc
		ctx, cancel = context.WithCancel(ctx)
		defer cancel()
		go func() {
			// However it ends, nobody reads any more.
			_, _ = io.Copy(io.Discard, in)
			cancel()
		}()
	}
	if refused == nil {
		p, refused = newPlan(ctx, req, host)
	}
	if refused != nil {
		return writeHeader(stdout, refused)
	}
	if len(p.queries) == 0 {
		ix, err := newIndex(ctx, host)
		if err != nil {
			return err
		}
		if err := writeHeader(stdout, nil); err != nil {
			return err
		}
		return ix.write(stdout, p.json)
	}
	opener := &opener{host: host, plan: p, root: logRoot{host.LogRoot()}}
	if p.Follow {
		opener.stop = watchStop(in)
	}
	sources, refused := opener.openAll(ctx)
	defer func() {
		for _, s := range sources {
			s.close()
		}
	}()
	if refused != nil {
		return writeHeader(stdout, refused)
	}
	if err := writeHeader(stdout, nil); err != nil {
		return err
	}
	if p.filter.pattern != nil {
		// A search may take long, and a host has pods. Other logs are wanted most of all on a host whose
		// processors are all busy.
		host.LowerPriority()
	}
	s := &stream{sources: sources, out: newOutput(stdout, p, opener.exactTail), plan: p, now: host.Now, stop: opener.stop}
	if err := s.run(ctx); err != nil {
		// What was read in good order is worth having.
		return errors.Join(err, s.out.flush())
	}
	if p.EmitCursor {
		if err := s.out.trailer(s.cursor()); err != nil {
			return err
		}
	}
	return s.out.flush()
}

// readRequest reads the first line.
func readRequest(in *bufio.Reader) (*api.LogRequest, *api.LogError) {
	line, err := in.ReadSlice('\n')
	switch {
	case len(line) > api.MaxLogRequestBytes:
		return nil, badRequest("", "the request has more than %d bytes", api.MaxLogRequestBytes)
	case err != nil && (len(line) == 0 || !errors.Is(err, io.EOF)):
		return nil, badRequest("", "the request is missing on standard input: %v", err)
	}
	req := &api.LogRequest{}
	if err := config.DecodeStrict(line, req); err != nil {
		return nil, badRequest("", "the request is not valid: %v", err)
	}
	return req, nil
}

func writeHeader(w io.Writer, refused *api.LogError) error {
	header := api.LogHeader{Protocol: api.ProtocolVersion, Error: refused}
	if err := json.NewEncoder(w).Encode(header); err != nil {
		return fmt.Errorf("writing the header: %w", err)
	}
	return nil
}

// watchStop returns a channel that is closed at a line [api.StopLine] or the end of in.
func watchStop(in *bufio.Reader) <-chan struct{} {
	stop := make(chan struct{})
	go func() {
		defer close(stop)
		for {
			line, err := in.ReadSlice('\n')
			if string(bytes.TrimSpace(line)) == api.StopLine || err != nil && !errors.Is(err, bufio.ErrBufferFull) {
				return
			}
		}
	}()
	return stop
}

func newOutput(w io.Writer, p *plan, exactTail bool) *output {
	o := &output{
		plan: p, w: bufio.NewWriterSize(w, outputBuffer), limit: math.MaxInt64,
		skip: make([]int64, len(p.queries)), undelivered: make(map[int]place),
	}
	if p.LimitBytes != nil {
		o.limit = *p.LimitBytes
	}
	for i, r := range p.resumes {
		o.skip[i] = r.Skip
	}
	if p.TailLines != nil && !exactTail {
		o.tail = &tailBuffer{max: *p.TailLines}
	}
	return o
}
