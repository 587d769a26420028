// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package plugin

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"text/tabwriter"

	"golang.org/x/sync/errgroup"

	"github.com/openshift/windows-instance-api/pkg/words"
)

// each calls do for every target, at most s.parallel at a time, with an env whose streams are
// for that target: of several, each line has the name before it. It continues when one
// fails, and then returns an [ExitError] with the code that all failures have in common. With s.goOn it
// begins no other after a failure, and the error ends with what goOn says about those that are left.
func (e *env) each(ctx context.Context, targets []target, s *selection, do func(ctx context.Context, e *env, t target) error) error {
	if len(targets) == 1 {
		return do(ctx, e, targets[0])
	}
	var (
		group  errgroup.Group
		writes sync.Mutex // whole lines of one target at a time
		errs   = make([]error, len(targets))
		begun  = make([]bool, len(targets))
		failed atomic.Bool
	)
	group.SetLimit(max(s.parallel, 1))
	for i, t := range targets {
		group.Go(func() error {
			if errs[i] = ctx.Err(); errs[i] != nil {
				return nil //nolint:nilerr // errs has it
			}
			if begun[i] = s.goOn == nil || !failed.Load(); !begun[i] {
				return nil
			}
			prefix := "[" + label(t, targets) + "] "
			own := *e
			out := &prefixWriter{to: e.Out, prefix: prefix, mu: &writes}
			errOut := &prefixWriter{to: e.ErrOut, prefix: prefix, mu: &writes}
			own.Out, own.ErrOut, own.In, own.live, own.labeled = out, errOut, nil, false, true
			err := do(ctx, &own, t)
			if message := messageOf(err); message != "" && ctx.Err() == nil {
				own.note("%s", message)
			}
			out.finish()
			errOut.finish()
			errs[i] = err
			if err != nil && (s.passesOver == nil || !s.passesOver(err)) {
				failed.Store(true)
			}
			return nil
		})
	}
	_ = group.Wait() // errs has them, all of them
	var left []target
	for i, t := range targets {
		if !begun[i] {
			left = append(left, t)
		}
	}
	notBegun := ""
	if s.goOn != nil && len(left) > 0 {
		notBegun = fmt.Sprintf("%s; to go on with the rest: %s", words.Count(len(left), "host"), s.goOn(left))
	}
	if ctx.Err() != nil {
		if notBegun != "" {
			e.note("not begun: %s", notBegun)
		}
		return ctx.Err()
	}
	err := e.sumUp(errs)
	if exit, ok := errors.AsType[*ExitError](err); ok && notBegun != "" {
		exit.Err = fmt.Errorf("%w; not begun after that: %s", exit.Err, notBegun)
	}
	return err
}

// eachSelected does something for every host that is named or selected.
func (e *env) eachSelected(ctx context.Context, args []string, s *selection, do func(ctx context.Context, e *env, c *client, t target) error) error {
	c, err := e.client()
	if err != nil {
		return err
	}
	targets, err := c.targets(ctx, args, s)
	if err != nil {
		return err
	}
	if s.confirm != nil {
		if err := s.confirm(ctx, targets); err != nil {
			return err
		}
	}
	return e.each(ctx, targets, s, func(ctx context.Context, e *env, t target) error { return do(ctx, e, c, t) })
}

// messageOf is what is to be said of an error that ends the work on one of several hosts.
func messageOf(err error) string {
	exit, ok := err.(*ExitError) //nolint:errorlint // an ExitError within another error is said with it
	switch {
	case err == nil || ok && exit.Err == nil:
		return ""
	case ok:
		err = exit.Err
	}
	return explain(err)
}

// sumUp makes one error of those of several hosts.
func (e *env) sumUp(errs []error) error {
	failed, code := 0, ExitOK
	for _, err := range errs {
		if err == nil {
			continue
		}
		switch c := exitCode(err); {
		case failed == 0:
			code = c
		case code != c:
			code = ExitFailure
		}
		failed++
	}
	if failed == 0 {
		return nil
	}
	return &ExitError{Code: code, Err: fmt.Errorf("%d of %d hosts did not succeed", failed, len(errs))}
}

// maxPrefixed is how long a line may be until it is written in parts. Each host has at most so
// much in memory; lines of logs are shorter.
const maxPrefixed = 1 << 20

// prefixWriter puts a prefix before each line, and writes only whole lines, or parts of
// [maxPrefixed] bytes as if they were lines.
type prefixWriter struct {
	to     io.Writer
	prefix string
	line   []byte
	mu     *sync.Mutex // of all writers to the same terminal
}

// Write implements [io.Writer].
func (w *prefixWriter) Write(p []byte) (int, error) {
	w.line = append(w.line, p...)
	if len(w.line) > maxPrefixed && bytes.LastIndexByte(w.line, '\n') < 0 {
		w.line = append(w.line, '\n')
	}
	end := bytes.LastIndexByte(w.line, '\n') + 1
	if end == 0 {
		return len(p), nil
	}
	var out bytes.Buffer
	for line := range bytes.Lines(w.line[:end]) {
		out.WriteString(w.prefix)
		out.Write(line)
	}
	w.line = append(w.line[:0], w.line[end:]...)
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, err := w.to.Write(out.Bytes()); err != nil {
		return 0, err
	}
	return len(p), nil
}

// finish writes what is left of a line without an end.
func (w *prefixWriter) finish() {
	if len(w.line) > 0 {
		_, _ = w.Write([]byte{'\n'}) // whoever wrote the rest has seen the error
	}
}

// formatTable aligns rows of cells. The first row are the names of the columns.
func formatTable(rows [][]string, noHeaders bool) string {
	if noHeaders {
		rows = rows[1:]
	}
	return columns(rows)
}

// columns aligns rows of cells.
func columns(rows [][]string) string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 8, 3, ' ', 0)
	for _, row := range rows {
		fmt.Fprintln(w, strings.Join(row, "\t")) //nolint:errcheck // a Builder does not fail
	}
	w.Flush() //nolint:errcheck // as above
	// Empty last cells leave spaces.
	var trimmed strings.Builder
	for line := range strings.Lines(b.String()) {
		trimmed.WriteString(strings.TrimRight(line, " \n") + "\n")
	}
	return trimmed.String()
}
