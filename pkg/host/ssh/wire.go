// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package ssh

import (
	"bytes"
	"errors"
	"net"
	"sync"
	"sync/atomic"
)

// greetingLimit is how much of what a server says first is kept to explain a failed handshake.
const greetingLimit = 512

// identificationPrefix begins the line by which an SSH server makes itself known.
const identificationPrefix = "SSH-"

// wire is the TCP connection under an SSH connection. It remembers what the SSH
// library does not report: which error ended the connection, what a server sent that is
// not SSH, and whether anything was received lately.
type wire struct {
	net.Conn

	// received is told of all that comes, and may wait.
	received func(bytes int)

	// reads grows with each Read that returned data.
	reads atomic.Uint64

	// held says that received waits: what the server sends meanwhile is not heard.
	held atomic.Bool

	// under is the connection to the bastion that this one goes through. Nil: through none.
	under *wire

	// identified is set after the server's identification line, and keeps mu off the
	// path of bulk data.
	identified atomic.Bool

	mu       sync.Mutex
	greeting []byte // the first greetingLimit bytes
	line     []byte // the beginning of the current line
	failure  error
}

// wireOn is the wire on a connection. What comes through a bastion is received, and held back, at the connection to the bastion.
func (p *Pool) wireOn(raw net.Conn) *wire {
	if through, ok := raw.(*tunnel); ok {
		return &wire{Conn: raw, received: func(int) {}, under: through.hop.wire}
	}
	return &wire{Conn: raw, received: p.opts.Received}
}

// waits says whether nothing is heard because received waits.
func (w *wire) waits() bool { return w.held.Load() || w.under != nil && w.under.waits() }

func (w *wire) Read(b []byte) (int, error) {
	n, err := w.Conn.Read(b)
	if n > 0 {
		w.held.Store(true)
		w.received(n)
		w.held.Store(false)
		w.reads.Add(1)
		if !w.identified.Load() {
			w.record(b[:n])
		}
	}
	if err != nil {
		w.fail(err)
	}
	return n, err
}

func (w *wire) Write(b []byte) (int, error) {
	n, err := w.Conn.Write(b)
	if err != nil {
		w.fail(err)
	}
	return n, err
}

// record looks for the identification line. Servers may send other lines before it
// (RFC 4253, section 4.2).
func (w *wire) record(b []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.greeting = append(w.greeting, b[:min(len(b), greetingLimit-len(w.greeting))]...)
	for _, c := range b {
		if c != '\n' {
			if len(w.line) < len(identificationPrefix) {
				w.line = append(w.line, c)
			}
			continue
		}
		if string(w.line) == identificationPrefix {
			w.identified.Store(true)
			return
		}
		w.line = w.line[:0]
	}
}

// fail keeps the first error. Closing our end is not one: it follows a failure that the
// SSH library found, and must not hide it.
func (w *wire) fail(err error) {
	if errors.Is(err, net.ErrClosed) {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.failure == nil {
		w.failure = err
	}
}

// err is the error of the network that ended the connection, or nil.
func (w *wire) err() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.failure
}

// said returns what the server said first.
func (w *wire) said() []byte {
	w.mu.Lock()
	defer w.mu.Unlock()
	return bytes.Clone(w.greeting)
}
