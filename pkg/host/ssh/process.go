// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package ssh

import (
	"context"
	"errors"
	"fmt"
	"io"

	"golang.org/x/crypto/ssh"
)

var (
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
type Process struct{ s *stream }

// Stdin is the command's standard input; closing it ends the input. A write blocks
// while the command does not read.
func (p *Process) Stdin() io.WriteCloser { return p.s.stdin }

// Stdout is the command's standard output, and with a terminal everything that appears on
// it. What is not read holds the command back, and nothing else on the connection. It can be
// read to its end after Wait. The end of the data does not prove that the command succeeded:
// only Wait does.
func (p *Process) Stdout() io.Reader { return p.s.stdout }

// Start runs a command line with the login shell of the host, whatever that is; quoting
// is the caller's business. It uses one session until the command has ended. The end of
// ctx ends the command: it is sent SIGTERM where the server can do that, its standard input and output are
// closed, and Stdin, Stdout and Wait return at once.
func (p *Pool) Start(ctx context.Context, t Target, commandLine string) (*Process, error) {
	return p.start(ctx, t, sessionChannel, commandLine, nil)
}

// StartLasting is Start for a command that is to get to its end although its caller leaves: the end of ctx and Close end the
// session only, and send no signal, on which OpenSSH for Windows would terminate the command in the middle of what it does. A command for which
// nobody should wait any more is ended as by Start: when hung says so of the cause of the end of ctx. It is asked with nil while ctx has not ended.
func (p *Pool) StartLasting(ctx context.Context, t Target, commandLine string, hung func(cause error) bool) (*Process, error) {
	channel := sessionChannel
	channel.ends = hung
	return p.start(ctx, t, channel, commandLine, nil)
}

// start opens a channel and runs a command on it.
func (p *Pool) start(ctx context.Context, t Target, spec channelSpec, commandLine string, pty *PTY) (*Process, error) {
	s, err := p.openStream(ctx, t, spec)
	if err != nil {
		return nil, err
	}
	if err := s.run(ctx, commandLine, pty); err != nil {
		s.closeByCaller()
		return nil, err
	}
	return &Process{s}, nil
}

// run requests the terminal, if there is to be one, and then a command line with the login
// shell, or the login shell itself if it is empty. ctx stays in force for as long as the
// command runs, so the host's answers need a limit of their own.
func (s *stream) run(ctx context.Context, commandLine string, pty *PTY) error {
	ctx, cancel := context.WithTimeout(ctx, s.conn.pool.opts.HandshakeTimeout)
	defer cancel()
	if pty != nil {
		if err := s.request(ctx, "pty-req", pty.payload(), LayerShell, errNoPTY); err != nil {
			return err
		}
	}
	s.mu.Lock()
	s.running = true
	s.mu.Unlock()
	if commandLine == "" {
		return s.request(ctx, "shell", nil, LayerShell, errNoExec)
	}
	return s.request(ctx, "exec", ssh.Marshal(struct{ Command string }{commandLine}), LayerShell, errNoExec)
}

// Wait waits until the command has ended, or its context, or Close was called. It returns nil if the
// command ended with status zero, an *ExitError if it ended with another, and an *Error
// if its end is not known. It may be called more than once. A command that writes more
// than the connection buffers does not end before its output is read.
func (p *Process) Wait() error {
	s := p.s
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
// wait for it: a terminal hangs up, which ends everything on it, and without one standard input
// and output are closed. SIGTERM is sent where the server can do that; OpenSSH cannot for
// root. It may be called more than once. The error is always nil.
func (p *Process) Close() error {
	p.s.closeByCaller()
	return nil
}

// Run runs a command line as Start does, with the given standard input, copies its standard
// output to stdout, and waits for its end. A nil stdout is discarded. If stdout fails, so does
// Run, and the command is ended.
func (p *Pool) Run(ctx context.Context, t Target, commandLine string, stdin []byte, stdout io.Writer) error {
	proc, err := p.Start(ctx, t, commandLine)
	if err != nil {
		return err
	}
	defer func() { _ = proc.Close() }() // also ends the write to standard input

	go func() {
		// A command may end without reading its input, and its status says whether that was right.
		if _, err := proc.Stdin().Write(stdin); err == nil {
			_ = proc.Stdin().Close()
		}
	}()
	if stdout == nil {
		stdout = io.Discard
	}
	_, err = io.Copy(stdout, proc.Stdout())
	if _, ofConnection := AsError(err); err != nil && !ofConnection {
		return fmt.Errorf("passing on the output of the command: %w", err)
	}
	return proc.Wait()
}
