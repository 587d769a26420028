// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package stream

import (
	"cmp"
	"io"
	"time"
)

// Session is a command that already runs. ServeExec owns it from the call on.
type Session interface {
	// Stdin is the standard input of the command. Closing it is its end of file.
	Stdin() io.WriteCloser
	// Stdout and Stderr are read until io.EOF. With a terminal, Stderr has nothing.
	Stdout() io.Reader
	Stderr() io.Reader
	// Resize sets the size of the terminal. It may be called at any time.
	Resize(columns, rows uint16) error
	// Wait returns when the command has ended: with its exit code, or with an error
	// when it is not known how it ended. An error that is an APIStatus of apimachinery
	// is passed on to the client as it is.
	Wait() (exitCode int, err error)
	// Close ends the command if it still runs. Reads, writes and Wait return soon
	// afterwards. It may be called more than once, at any time.
	Close() error
}

// Recorder sees a session as its user does, and what its user leaves out. No method may keep p.
// Calls do not overlap. An error ends the session before p is sent.
type Recorder interface {
	// Output is what the command writes, standard output and standard error in the order in which
	// they come, whether the client has asked for it or not.
	Output(p []byte) error
	// Input is what the client sends without a terminal, which would show it.
	Input(p []byte) error
	// Resize is a new size of the terminal.
	Resize(columns, rows uint16) error
}

// ExecOptions say what a client wants to run on a host, and which streams of it.
type ExecOptions struct {
	// Command is the program and its arguments, which it gets as they are. Empty: the
	// login shell of the host, interactively.
	Command []string
	// Stdin sends what the client types. Without it the command reads end of file,
	// except on a terminal, which has no keyboard then.
	Stdin bool
	// Stdout and Stderr are what comes back; what is not requested is discarded.
	// With TTY there is no Stderr.
	Stdout, Stderr bool
	// TTY requests a terminal, which the client may resize.
	TTY bool
}

// Defaults of [Config].
const (
	// DefaultIdleTimeout is that of the kubelet, --streaming-connection-idle-timeout.
	DefaultIdleTimeout = 4 * time.Hour
	// DefaultKeepAlive is well below the idle timeouts of common load balancers, and
	// below the 61 s after which client-go gives up a WebSocket without a pong.
	DefaultKeepAlive = 10 * time.Second
	// DefaultLinger is how long a client gets to take what was sent to it last.
	DefaultLinger = 5 * time.Second
)

// Config is how streams are served. The zero value has the defaults and no drain.
type Config struct {
	// IdleTimeout ends a session over which nothing was sent in either direction for
	// that long. 0: DefaultIdleTimeout.
	IdleTimeout time.Duration
	// KeepAlive is the time between two pings, which keep quiet connections open in
	// load balancers and find clients that vanished. A client that sends nothing for
	// six times as long, not even the answer to a ping, is gone. 0: DefaultKeepAlive.
	KeepAlive time.Duration
	// Linger is how long a client gets at the end of a session to take the rest and
	// to close the connection. 0: DefaultLinger.
	Linger time.Duration
	// Drain, once closed, ends sessions because the server stops. Nil: never.
	Drain <-chan struct{}
	// Revoked takes why a session must not go on any more, an APIStatus of apimachinery: ServiceUnavailable
	// if that says nothing about its user. Nil: never.
	Revoked <-chan error
	// Backlog is told what the client takes. Nil: nobody wants to know.
	Backlog *Backlog
	// Recorder sees the output of an exec session. Nil: there is none.
	Recorder Recorder
}

func (c Config) withDefaults() Config {
	c.IdleTimeout = cmp.Or(c.IdleTimeout, DefaultIdleTimeout)
	c.KeepAlive = cmp.Or(c.KeepAlive, DefaultKeepAlive)
	c.Linger = cmp.Or(c.Linger, DefaultLinger)
	c.Backlog = cmp.Or(c.Backlog, &Backlog{})
	return c
}

// silence is how long a client may send nothing at all.
func (c Config) silence() time.Duration { return 6 * c.KeepAlive }

// End says why a session is over.
type End string

// The ends of a session.
const (
	// EndNotUpgraded: the request was no upgrade that this server understands; the
	// client has got an HTTP error.
	EndNotUpgraded End = "NotUpgraded"
	// EndExited: the command has ended; see Result.ExitCode.
	EndExited End = "Exited"
	// EndClosed: all connections of a port forward are over.
	EndClosed End = "Closed"
	// EndClientGone: the client has closed the connection, or vanished.
	EndClientGone End = "ClientGone"
	// EndDrained: the server stops.
	EndDrained End = "Drained"
	// EndIdle: nothing was sent for the idle timeout.
	EndIdle End = "Idle"
	// EndRevoked: it would be refused by now; see Result.Err.
	EndRevoked End = "Revoked"
	// EndUnavailable: the server could not go on with it, for want of memory, or because nobody says
	// any more whether it is allowed; see Result.Err.
	EndUnavailable End = "Unavailable"
	// EndCanceled: the context of the request is done.
	EndCanceled End = "Canceled"
	// EndFailed: the session broke; see Result.Err.
	EndFailed End = "Failed"
	// EndRecordingFailed: the recorder returned Result.Err.
	EndRecordingFailed End = "RecordingFailed"
)

// Result is what became of a request.
type Result struct {
	End End
	// ExitCode is that of the command, if End is EndExited.
	ExitCode int
	// Received and Sent are the bytes of payload from and to the client.
	Received, Sent int64
	// Err is what went wrong, if anything did on our side.
	Err error
}
