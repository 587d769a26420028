// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package ssh

import (
	"bytes"
	"context"
	"errors"
	"io"
	"sync"

	"golang.org/x/crypto/ssh"
)

var (
	errNoPTY      = errors.New("the host gives out no terminal")
	errWithoutPTY = errors.New("the session has no terminal")
)

// What a terminal is taken for when the caller does not say.
const (
	defaultTerm    = "xterm-256color"
	defaultColumns = 80
	defaultRows    = 24
)

// PTY asks for a terminal on the host (RFC 4254, section 6.2).
type PTY struct {
	// Term is the type of the caller's terminal, as in the environment variable TERM. Default xterm-256color.
	Term string
	// Columns and Rows are its size in characters. Zero means 80 and 24: a host may take
	// a terminal without an extent for a mistake.
	Columns, Rows uint16
}

// Session is a command, or a login shell, that runs on a host while somebody talks to it.
// Its methods, and its readers and writer, may be used concurrently.
type Session struct {
	s *stream

	mu sync.Mutex
	// size is what the host was not told yet; resizing is set while somebody tells it.
	size     *windowSize
	resizing bool
	terminal bool
	// stderr is the standard error; with a terminal it has no data.
	stderr io.Reader
}

// windowSize is the payload of window-change (RFC 4254, section 6.7). The extent in pixels is
// zero: unknown.
type windowSize struct {
	Columns, Rows, Width, Height uint32
}

// StartSession runs a command line with the login shell of the host, or the login shell
// itself if it is empty, on a terminal, or on none if pty is nil. It differs from Start in that it can have a terminal and that standard
// error is read by the caller, every byte of it. It uses one session until
// the command has ended. The end of ctx ends it as Close does, but the error of Wait tells which of them it was.
func (p *Pool) StartSession(ctx context.Context, t Target, commandLine string, pty *PTY) (*Session, error) {
	channel := sessionChannel
	channel.stderrApart = pty == nil
	s, err := p.openStream(ctx, t, channel)
	if err != nil {
		return nil, err
	}
	s.closeWith(ctx)
	if err := s.begin(ctx, commandLine, pty); err != nil {
		s.close(&Error{Layer: LayerSession, Reason: ReasonSessionClosed, Address: t.hostPort()})
		return nil, err
	}
	session := &Session{s: s, terminal: pty != nil, stderr: bytes.NewReader(nil)}
	if s.stderrApart != nil {
		session.stderr = s.stderrApart
	}
	return session, nil
}

// Stdin is the standard input; closing it ends the input. A write blocks while the
// command does not read.
func (s *Session) Stdin() io.WriteCloser { return s.s.stdin }

// Stdout is the standard output, and with a terminal everything that appears on it. What is not
// read holds the command back, and nothing else on the connection. It can be read to
// its end after Wait. The end of the data does not prove that the command
// succeeded: only Wait does.
func (s *Session) Stdout() io.Reader { return s.s.stdout }

// Stderr is the standard error, under the same conditions; with a terminal it has no
// data. It shares the flow control window of its channel, 2 MiB, with Stdout: what is not read of one
// holds back both, so a caller has to drain both at the same time.
func (s *Session) Stderr() io.Reader { return s.stderr }

// begin asks for the terminal and starts the command. ctx stays in force for
// as long as the command runs, so the host's answers need a limit of their own.
func (s *stream) begin(ctx context.Context, commandLine string, pty *PTY) error {
	ctx, cancel := context.WithTimeout(ctx, s.conn.pool.opts.HandshakeTimeout)
	defer cancel()
	if pty != nil {
		ok, err := s.request(ctx, "pty-req", pty.payload())
		if err != nil {
			return err
		}
		if !ok {
			return &Error{Layer: LayerShell, Reason: ReasonSessionRefused, Address: s.conn.address, Err: errNoPTY}
		}
	}
	return s.run(ctx, commandLine)
}

// payload is that of pty-req.
func (p *PTY) payload() []byte {
	term := p.Term
	if term == "" {
		term = defaultTerm
	}
	size := sizeOf(p.Columns, p.Rows)
	return ssh.Marshal(struct {
		Term                         string
		Columns, Rows, Width, Height uint32
		Modes                        string
	}{term, size.Columns, size.Rows, size.Width, size.Height, terminalModes})
}

func sizeOf(columns, rows uint16) windowSize {
	if columns == 0 {
		columns = defaultColumns
	}
	if rows == 0 {
		rows = defaultRows
	}
	return windowSize{Columns: uint32(columns), Rows: uint32(rows)}
}

// terminalModes are encoded as in RFC 4254, section 8: opcode and value, and a zero at the end. Only what a
// fresh terminal may lack is set: erasing a character that has several bytes (IUTF8, RFC 8160),
// echo, and a speed that no program takes for a slow line.
var terminalModes = string([]byte{
	42, 0, 0, 0, 1, // IUTF8
	53, 0, 0, 0, 1, // ECHO
	128, 0, 0, 0x96, 0, // TTY_OP_ISPEED 38400
	129, 0, 0, 0x96, 0, // TTY_OP_OSPEED 38400
	0, // TTY_OP_END
})

// Resize tells the host that the caller's terminal has another size; zero means 80 columns, or 24 rows. It does
// not wait for the network; of several sizes that come faster than they can be sent only the
// last one is. A session that has ended needs no size, which is no error.
func (s *Session) Resize(columns, rows uint16) error {
	if !s.terminal {
		return &Error{Layer: LayerSession, Reason: ReasonSessionRefused, Address: s.s.conn.address, Err: errWithoutPTY}
	}
	size := sizeOf(columns, rows)
	s.mu.Lock()
	s.size = &size
	start := !s.resizing
	s.resizing = true
	s.mu.Unlock()
	if start {
		s.s.conn.spawn(s.tellSize) // false means that the connection is over
	}
	return nil
}

// tellSize sends sizes until there is none left. It ends with the connection, on which alone a send may wait.
func (s *Session) tellSize() {
	for {
		s.mu.Lock()
		size := s.size
		s.size = nil
		s.resizing = size != nil
		s.mu.Unlock()
		if size == nil {
			return
		}
		// An error means that the session is over.
		_, _ = s.s.ch.SendRequest("window-change", false, ssh.Marshal(*size))
	}
}

// Wait waits until the command has ended, or its context, or Close was called. It returns
// nil if the command ended with status zero, an *ExitError, without standard error, if it ended
// with another, and an *Error if its end is not known. It may be called more than once. A command that
// writes more than the connection buffers does not end before Stdout and Stderr are read.
func (s *Session) Wait() error { return s.s.wait() }

// Close ends the command if it still runs and does not wait for it: a terminal hangs up, which ends everything on
// it, and without one standard input and output are closed. SIGTERM is sent where the server can do that;
// OpenSSH cannot for root. It may be called more than once. The error is always nil.
func (s *Session) Close() error {
	s.s.close(&Error{Layer: LayerSession, Reason: ReasonSessionClosed, Address: s.s.conn.address})
	return nil
}
