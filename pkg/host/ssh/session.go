// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package ssh

import (
	"bytes"
	"cmp"
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

// PTY requests a terminal on the host (RFC 4254, section 6.2).
type PTY struct {
	// Term is the type of the caller's terminal, as in the environment variable TERM. Default xterm-256color.
	Term string
	// Columns and Rows are its size in characters. Zero means 80 and 24: a host may take
	// a terminal without an extent for a mistake.
	Columns, Rows uint16
}

// Session is a command, or a login shell, that a user of a terminal may interact with.
// Its methods, and its readers and writer, may be used concurrently.
type Session struct {
	*Process

	mu sync.Mutex
	// size is what was not sent to the host yet; resizing is set while it is being sent.
	size     *windowSize
	resizing bool
}

// windowSize is the payload of window-change (RFC 4254, section 6.7). The extent in pixels is
// zero: unknown.
type windowSize struct {
	Columns, Rows, Width, Height uint32
}

// StartSession runs a command line with the login shell of the host, or the login shell
// itself if it is empty, on a terminal, or on none if pty is nil. It differs from Start in that it can have a terminal and that standard
// error is read by the caller, every byte of it, and is not part of an *ExitError. It uses one session until
// the command has ended. The end of ctx ends it as Close does, and the error of Wait says which of them it was.
func (p *Pool) StartSession(ctx context.Context, t Target, commandLine string, pty *PTY) (*Session, error) {
	channel := sessionChannel
	channel.stderrApart = pty == nil
	process, err := p.start(ctx, t, channel, commandLine, pty)
	if err != nil {
		return nil, err
	}
	return &Session{Process: process}, nil
}

// Stderr is the standard error, under the same conditions as Stdout; with a terminal it has no
// data. It shares the flow control window of its channel, 2 MiB, with Stdout: what is not read of one
// holds back both, so a caller has to drain both at the same time.
func (s *Session) Stderr() io.Reader {
	if s.terminal() {
		return bytes.NewReader(nil)
	}
	return s.s.stderrApart
}

// terminal reports whether the session has one. What is written to it comes as standard output.
func (s *Session) terminal() bool { return s.s.stderrApart == nil }

// payload is that of pty-req.
func (p *PTY) payload() []byte {
	size := sizeOf(p.Columns, p.Rows)
	return ssh.Marshal(struct {
		Term                         string
		Columns, Rows, Width, Height uint32
		Modes                        string
	}{cmp.Or(p.Term, defaultTerm), size.Columns, size.Rows, size.Width, size.Height, terminalModes})
}

func sizeOf(columns, rows uint16) windowSize {
	return windowSize{Columns: cmp.Or(uint32(columns), defaultColumns), Rows: cmp.Or(uint32(rows), defaultRows)}
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

// Resize sends the new size of the caller's terminal to the host; zero means 80 columns, or 24 rows. It does
// not wait for the network; of several sizes that come faster than they can be sent only the
// last one is. A session that has ended needs no size, which is no error.
func (s *Session) Resize(columns, rows uint16) error {
	if !s.terminal() {
		return &Error{Layer: LayerSession, Reason: ReasonSessionRefused, Address: s.s.conn.address, Err: errWithoutPTY}
	}
	size := sizeOf(columns, rows)
	s.mu.Lock()
	s.size = &size
	start := !s.resizing
	s.resizing = true
	s.mu.Unlock()
	if start {
		s.s.conn.spawn(s.sendSizes) // false means that the connection is over
	}
	return nil
}

// sendSizes sends sizes until there is none left. It ends with the connection, on which alone a send may wait.
func (s *Session) sendSizes() {
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
