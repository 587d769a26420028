// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package stream

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/streaming/pkg/httpstream"
)

// spdyExec is a client that speaks v4.channel.k8s.io over SPDY: a stream for each of
// the standard streams, for errors, and for the sizes of a terminal.
type spdyExec struct {
	conn    *spdyConn
	options ExecOptions
	linger  time.Duration

	errors   httpstream.Stream
	in       httpstream.Stream
	out, err httpstream.Stream
	resizes  httpstream.Stream
	box      latestSize
	stop     chan struct{}
	ended    sync.Once
	wait     sync.WaitGroup
}

func upgradeSPDYExec(w http.ResponseWriter, r *http.Request, o ExecOptions, c Config) (execClient, error) {
	e := &spdyExec{options: o, linger: c.Linger, box: newLatestSize(), stop: make(chan struct{})}
	slots := e.slots()
	expected := len(slots)
	created := make(chan newStream, expected)
	var mu sync.Mutex // guards slots, whose keys are removed as they are taken
	conn, err := upgradeSPDY(w, r, c, func(stream httpstream.Stream, replySent <-chan struct{}) error {
		mu.Lock()
		defer mu.Unlock()
		slot, ok := slots[streamType(stream)]
		if !ok {
			return fmt.Errorf("a stream of the type %q was not requested, or exists already", streamType(stream))
		}
		delete(slots, streamType(stream))
		*slot = stream
		created <- newStream{stream, replySent}
		return nil
	}, execSPDYProtocol)
	if err != nil {
		return nil, err
	}
	e.conn = conn
	if err := e.awaitStreams(r, created, expected, c.StreamCreationTimeout); err != nil {
		conn.abort()
		return nil, err
	}
	e.wait.Go(func() {
		conn.keepAlive(c.KeepAlive, e.stop, func() httpstream.Stream { return e.errors })
	})
	if e.resizes != nil {
		e.wait.Go(e.readResizes)
	}
	return e, nil
}

// slots are where the streams go that the options request, by type.
func (e *spdyExec) slots() map[string]*httpstream.Stream {
	slots := map[string]*httpstream.Stream{corev1.StreamTypeError: &e.errors}
	if e.options.Stdin {
		slots[corev1.StreamTypeStdin] = &e.in
	}
	if e.options.Stdout {
		slots[corev1.StreamTypeStdout] = &e.out
	}
	if e.options.Stderr {
		slots[corev1.StreamTypeStderr] = &e.err
	}
	if e.options.TTY {
		slots[corev1.StreamTypeResize] = &e.resizes
	}
	return slots
}

func (e *spdyExec) awaitStreams(r *http.Request, created <-chan newStream, expected int, timeout time.Duration) error {
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	for range expected {
		select {
		case stream := <-created:
			if err := e.conn.answered(stream); err != nil {
				return err
			}
		case <-e.conn.over():
			return errClientGone
		case <-r.Context().Done():
			return r.Context().Err()
		case <-timer.C:
			return fmt.Errorf("the client has not created all streams within %s", timeout)
		}
	}
	return nil
}

func (e *spdyExec) readResizes() {
	decoder := json.NewDecoder(e.resizes)
	for {
		var size terminalSize
		if err := decoder.Decode(&size); err != nil {
			// What is no size ends this, as with the other servers; the rest must still be
			// read, or the connection's reader waits for it.
			_, _ = io.Copy(io.Discard, e.resizes)
			return
		}
		e.box.put(size)
	}
}

func (e *spdyExec) stdin() io.Reader {
	if e.in == nil {
		return nil
	}
	return spdyInput{e.in, e.conn}
}

// spdyInput distinguishes the end of the input from the end of the stream or the connection.
type spdyInput struct {
	httpstream.Stream
	conn *spdyConn
}

// resetDelay is how long it may take after the end of a stream until it is known
// that this was a reset, the first sign of a client that ends. spdystream reports
// both as io.EOF and only afterwards marks the stream.
const resetDelay = 20 * time.Millisecond

// finisher is the part of spdystream's streams that reports whether they are done:
// closed by us, or reset by the client.
type finisher interface{ IsFinished() bool }

// Read implements [io.Reader].
func (i spdyInput) Read(p []byte) (int, error) {
	n, err := i.Stream.Read(p)
	if !errors.Is(err, io.EOF) {
		return n, err
	}
	if waitFor(i.conn.over(), resetDelay) || i.conn.isClosing() {
		return n, errClientGone
	}
	if stream, ok := i.Stream.(finisher); ok && stream.IsFinished() {
		return n, errClientGone
	}
	return n, err
}

func (e *spdyExec) stdout() io.Writer { return e.writer(e.out) }
func (e *spdyExec) stderr() io.Writer { return e.writer(e.err) }

func (e *spdyExec) writer(stream httpstream.Stream) io.Writer {
	if stream == nil {
		return nil
	}
	return spdyOutput{stream, e.conn.client}
}

// spdyOutput notes that the client has something to take.
type spdyOutput struct {
	io.Writer
	client *clientConn
}

// Write implements [io.Writer].
func (o spdyOutput) Write(p []byte) (int, error) {
	o.client.owed.Store(true)
	return o.Writer.Write(p)
}

func (e *spdyExec) sizes() <-chan terminalSize { return e.box }
func (e *spdyExec) gone() <-chan bool          { return e.conn.over() }
func (e *spdyExec) hurry()                     { e.conn.client.hurry(e.linger) }

func (e *spdyExec) finish(status []byte) {
	e.hurry()
	_, err := e.errors.Write(status)
	for _, stream := range []httpstream.Stream{e.out, e.err, e.errors} {
		if stream != nil && err == nil {
			err = stream.Close()
		}
	}
	e.end(e.conn.finish)
}

func (e *spdyExec) abort() { e.end(e.conn.abort) }

func (e *spdyExec) end(how func()) {
	e.ended.Do(func() {
		close(e.stop)
		how()
	})
	e.wait.Wait()
}
