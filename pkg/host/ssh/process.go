// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package ssh

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/crypto/ssh"
)

var (
	errDeadline = os.ErrDeadlineExceeded
	errNoStatus = errors.New("the host ended the session without an exit status")
	errNoExec   = errors.New("the host's login shell cannot be started, or commands are not allowed")
)

// closedError is what readers and writers get after our side closed the stream.
func (s *stream) closedError() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cause
}

// Process is a command that runs on a host. Its methods may be called concurrently.
type Process struct {
	// Stdin is the command's standard input; closing it ends the input. A write blocks
	// while the command does not read.
	Stdin io.WriteCloser
	// Stdout is the command's standard output. What is not read holds the command back, and
	// nothing else on the connection. It can be read to its end after Wait. The end of
	// the data does not prove that the command succeeded: only Wait does.
	Stdout io.Reader

	s *stream
}

// Start runs a command line with the login shell of the host, whatever that is; quoting
// is the caller's business. It uses one session until the command has ended. The end of
// ctx ends the command: it is sent SIGTERM where the server can do that, its standard input and output are
// closed, and Stdin, Stdout and Wait return at once.
func (p *Pool) Start(ctx context.Context, t Target, commandLine string) (*Process, error) {
	s, err := p.openStream(ctx, t, sessionChannel)
	if err != nil {
		return nil, err
	}
	s.closeWith(ctx)
	if err := s.run(ctx, commandLine); err != nil {
		s.close(&Error{Layer: LayerSession, Reason: ReasonSessionClosed, Address: t.hostPort()})
		return nil, err
	}
	return &Process{Stdin: s.stdin, Stdout: s.stdout, s: s}, nil
}

// run asks the server to run a command line with the login shell, or the login shell itself if
// it is empty, and waits for its answer or the end of ctx.
func (s *stream) run(ctx context.Context, commandLine string) error {
	s.mu.Lock()
	s.running = true
	s.mu.Unlock()
	var ok bool
	var err error
	if commandLine == "" {
		ok, err = s.request(ctx, "shell", nil)
	} else {
		ok, err = s.request(ctx, "exec", ssh.Marshal(struct{ Command string }{commandLine}))
	}
	if err == nil && !ok {
		err = &Error{Layer: LayerShell, Reason: ReasonSessionRefused, Address: s.conn.address, Err: errNoExec}
	}
	return err
}

// Stderr returns the last 8 KiB of what the command wrote to its standard error so far, which is
// read all the time, so a command never waits for it.
func (p *Process) Stderr() string {
	return p.s.stderr.String()
}

// Wait waits until the command has ended, or its context, or Close was called. It returns nil if the
// command ended with status zero, an *ExitError if it ended with another, and an *Error
// if its end is not known. It may be called more than once. A command that writes more
// than the connection buffers does not end before its Stdout is read.
func (p *Process) Wait() error { return p.s.wait() }

// wait waits for the end of a command and says how it ended.
func (s *stream) wait() error {
	select {
	case <-s.ended:
		<-s.drained
	case <-s.closing:
	}
	s.mu.Lock()
	status := s.status
	s.mu.Unlock()
	switch {
	case status == nil:
		return s.endError()
	case status.code == 0 && status.signal == "":
		return nil
	default:
		return &ExitError{Code: status.code, Signal: status.signal, Stderr: s.stderr.String()}
	}
}

// Close ends the command if it still runs, as the end of its context would, and does not
// wait for it. It may be called more than once. The error is always nil.
func (p *Process) Close() error {
	p.s.close(&Error{Layer: LayerSession, Reason: ReasonSessionClosed, Address: p.s.conn.address})
	return nil
}

// stdinGrace is how long Run waits for the last read of its stdin after the command has ended.
const stdinGrace = 100 * time.Millisecond

// Run runs a command line as Start does, copies stdin to it and its standard output to
// stdout, and waits for its end. A nil stdin is empty, a nil stdout is discarded. If stdin
// or stdout fails, so does Run, and the command is ended without being told that its input was complete.
//
// A Read of stdin cannot be interrupted. Should one still block when the command has ended, Run returns
// nevertheless, and the reader is in use until that Read returns.
func (p *Pool) Run(ctx context.Context, t Target, commandLine string, stdin io.Reader, stdout io.Writer) error {
	proc, err := p.Start(ctx, t, commandLine)
	if err != nil {
		return err
	}
	defer func() { _ = proc.Close() }()

	copied := make(chan error, 1)
	if stdin == nil {
		copied <- nil
		_ = proc.Stdin.Close() // if it fails, Wait says why
	} else {
		go func() { copied <- proc.feed(stdin) }()
	}
	if stdout == nil {
		stdout = io.Discard
	}
	out := &errorWriter{w: stdout}
	_, _ = io.Copy(out, proc.Stdout) // errors of Stdout are those of Wait
	if out.err != nil {
		_ = proc.Close()
	}
	err = proc.Wait()
	_ = proc.Close() // ends a Write of feed

	if out.err != nil {
		return fmt.Errorf("passing on the output of the command: %w", out.err)
	}
	timer := time.NewTimer(stdinGrace)
	defer timer.Stop()
	select {
	case failed := <-copied:
		if failed != nil {
			return failed
		}
	case <-timer.C:
	}
	return err
}

// feed copies r to standard input. Only errors of r matter: a command may end without
// reading its input, and its status says whether that was right.
func (p *Process) feed(r io.Reader) error {
	in := &errorReader{r: r}
	_, _ = io.Copy(p.Stdin, in)
	if in.err != nil {
		_ = p.Close()
		return fmt.Errorf("reading the input of the command: %w", in.err)
	}
	_ = p.Stdin.Close()
	return nil
}

// errorReader remembers the error of its reader, to tell it from one of the writer in io.Copy.
type errorReader struct {
	r   io.Reader
	err error
}

func (e *errorReader) Read(p []byte) (int, error) {
	n, err := e.r.Read(p)
	if err != nil && err != io.EOF {
		e.err = err
	}
	return n, err
}

// errorWriter remembers the error of its writer.
type errorWriter struct {
	w   io.Writer
	err error
}

func (e *errorWriter) Write(p []byte) (int, error) {
	n, err := e.w.Write(p)
	if err == nil && n < len(p) {
		err = io.ErrShortWrite
	}
	if err != nil {
		e.err = err
	}
	return n, err
}
