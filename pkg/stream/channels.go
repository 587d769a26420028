// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package stream

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gorilla/websocket"
	"k8s.io/apimachinery/pkg/util/remotecommand"
)

// maxMessageSize is that of the other Kubernetes servers. Messages are not kept, but handed
// on in chunks, so that a large one costs no more memory than a small one.
const maxMessageSize = 32 << 20

// errTooLarge ends a connection whose client sends messages without an end.
var errTooLarge = fmt.Errorf("the client sent a message of more than %d MiB: it has to send several smaller ones", maxMessageSize>>20)

// channels is the connection of a client that speaks v5.channel.k8s.io or
// v4.channel.k8s.io over a WebSocket: the first byte of each message is its channel. One
// goroutine reads, and waits for whoever takes what it has read: nothing is queued.
type channels struct {
	conn    *websocket.Conn
	net     *clientConn
	backlog *Backlog
	linger  time.Duration
	// closing says that both sides can end a channel, as v5 can.
	closing bool

	writing sync.Mutex

	inputs map[byte]*input
	// other takes what comes on the other channels. Nil: it is skipped.
	other   func(channel byte, message io.Reader)
	stalled atomic.Bool   // nobody takes what has come
	failed  chan error    // takes what the client did wrong
	over    chan struct{} // closed when the reader has ended
	stop    chan struct{}
	ended   sync.Once
	wait    sync.WaitGroup
}

// input is what comes on a channel: io.EOF when the client has ended it, errClientGone when
// the connection is over.
type input struct {
	*io.PipeReader
	to *io.PipeWriter
}

// upgradeChannels upgrades a request to the first of the protocols that its client offers.
func upgradeChannels(w http.ResponseWriter, r *http.Request, c Config, protocols []string) (*channels, error) {
	conn, client, err := upgradeWebSocket(w, r, c, choose(r, protocols))
	if err != nil {
		return nil, err
	}
	return &channels{
		conn: conn, net: client, backlog: c.Backlog, linger: c.Linger,
		closing: conn.Subprotocol() == remotecommand.StreamProtocolV5Name,
		inputs:  map[byte]*input{},
		failed:  make(chan error, 1),
		over:    make(chan struct{}), stop: make(chan struct{}),
	}, nil
}

// input makes a channel one that the client may send on. It must not be called after start.
func (c *channels) input(channel byte) *input {
	reader, writer := io.Pipe()
	in := &input{reader, writer}
	c.inputs[channel] = in
	return in
}

// start begins to read, and to ping.
func (c *channels) start(every time.Duration) {
	pinger := newPinger(c.conn, func() {
		// The reader waits for the client, or here for whoever does not take its input.
		_ = c.net.Close()
		c.endInputs()
	})
	c.wait.Go(func() { pinger.run(every, c.stalled.Load, c.stop) })
	c.wait.Go(c.read)
}

// endInputs makes the reader discard what still comes.
func (c *channels) endInputs() {
	for _, in := range c.inputs {
		_ = in.CloseWithError(errClientGone) // always nil
	}
}

// read takes messages apart until the connection is over.
func (c *channels) read() {
	defer func() {
		close(c.over)
		for _, in := range c.inputs {
			// Not io.EOF, which would be the end of the input and not of the client.
			_ = in.to.CloseWithError(errClientGone) // always nil
		}
	}()
	var received buffer
	for {
		_, message, err := c.conn.NextReader()
		if err != nil {
			return
		}
		err = c.receive(&bounded{message, maxMessageSize}, &received)
		if errors.Is(err, errTooLarge) {
			c.failed <- err
			// The client learns why, and is read until it has closed the connection.
			_, _ = io.Copy(io.Discard, c.conn.NetConn())
			return
		}
		if err != nil {
			return
		}
	}
}

// receive takes one message to its end.
func (c *channels) receive(message io.Reader, through *buffer) error {
	var head [2]byte
	if _, err := io.ReadFull(message, head[:1]); err != nil {
		if errors.Is(err, io.EOF) {
			return nil // an empty message
		}
		return err
	}
	in := c.inputs[head[0]]
	switch {
	case head[0] == remotecommand.StreamClose && c.closing:
		if _, err := io.ReadFull(message, head[1:]); err != nil {
			return err
		}
		if in := c.inputs[head[1]]; in != nil {
			_ = in.to.Close() // always nil
		}
	case in != nil:
		if err := c.hand(in, message, through); err != nil {
			return err
		}
	case c.other != nil:
		c.other(head[0], message)
	}
	_, err := io.Copy(io.Discard, message)
	return err
}

// hand hands a message on as it comes.
func (c *channels) hand(in *input, message io.Reader, through *buffer) error {
	for {
		data, err := through.read(whole{message})
		if len(data) > 0 {
			c.stalled.Store(true)
			// An error says that it is not needed any more.
			_, _ = in.to.Write(data)
			c.stalled.Store(false)
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// whole is a message that is read in as few parts as possible, though it comes in many: each becomes a packet of SSH.
type whole struct{ io.Reader }

// Read implements [io.Reader].
func (w whole) Read(p []byte) (int, error) {
	n, err := io.ReadFull(w.Reader, p)
	if errors.Is(err, io.ErrUnexpectedEOF) {
		err = io.EOF
	}
	return n, err
}

// bounded is a message that fails when it is too large.
type bounded struct {
	io.Reader
	left int
}

// Read implements [io.Reader].
func (b *bounded) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	if b.left -= n; b.left < 0 {
		return 0, errTooLarge
	}
	return n, err
}

// write sends one message.
func (c *channels) write(channel byte, p []byte) (int, error) {
	c.writing.Lock()
	defer c.writing.Unlock()
	message, err := c.conn.NextWriter(websocket.BinaryMessage)
	if err != nil {
		return 0, err
	}
	// Both are copied into the write buffer, which is larger than a chunk, so that the
	// message goes out as one frame and one write.
	if _, err := message.Write([]byte{channel}); err != nil {
		return 0, err
	}
	n, err := message.Write(p)
	if err != nil {
		return n, err
	}
	return n, message.Close()
}

// output sends data on a channel.
type output struct {
	*channels
	channel byte
}

// Write implements [io.Writer]. One call is one message.
func (o output) Write(p []byte) (int, error) {
	o.net.owed.Store(true)
	o.backlog.Begin()
	defer o.backlog.End()
	return o.write(o.channel, p)
}

// close tells the client that no more comes on the channel, if its protocol can say that.
func (o output) close() {
	if o.closing {
		// An error says that the client is gone, which the reader finds out.
		_, _ = o.write(remotecommand.StreamClose, []byte{o.channel})
	}
}

// hurry lets writes end within the linger time from now on.
func (c *channels) hurry() { c.net.hurry(c.linger) }

// finish closes the connection in good order, within the linger time, and waits for its
// goroutines. It is a normal end also of a session that failed: with another code clients do
// not look at what they were told about it.
func (c *channels) finish() {
	c.hurry()
	// The reader continues until the client has closed the connection: closing it with
	// something unread may make the client lose what it was sent last.
	c.endInputs()
	if err := c.conn.WriteControl(websocket.CloseMessage, websocket.FormatCloseMessage(websocket.CloseNormalClosure, ""), time.Time{}); err == nil {
		waitFor(c.over, c.linger)
	}
	c.abort()
}

// abort closes the connection at once and waits for its goroutines.
func (c *channels) abort() {
	c.ended.Do(func() {
		close(c.stop)
		c.endInputs()
		// The error says that it was closed already.
		_ = c.conn.NetConn().Close()
	})
	c.wait.Wait()
}

// waitFor waits for a channel to be closed, at most that long.
func waitFor(closed <-chan struct{}, atMost time.Duration) {
	timer := time.NewTimer(atMost)
	defer timer.Stop()
	select {
	case <-closed:
	case <-timer.C:
	}
}
