// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package portforward

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	gorilla "github.com/gorilla/websocket"
	"k8s.io/apimachinery/pkg/util/remotecommand"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/transport/websocket"
	"k8s.io/streaming/pkg/httpstream"
)

// The channels of the one port.
const (
	dataChannel  = 0
	errorChannel = 1
)

const (
	// chunkSize is how much is copied at a time, and the largest message that is sent: with what the WebSocket
	// protocol puts around it, it fills two TLS records and begins no third one.
	chunkSize = 32<<10 - 16
	// maxErrorSize is how much of what the server says about an error is kept.
	maxErrorSize = 4 << 10
	// portSize is that of the first message on each channel, the port.
	portSize = 2
	// silence is how long the server may send nothing. It pings more often.
	silence = time.Minute
	// dialTimeout is how long the server gets to answer. The connection on the host is made
	// afterwards.
	dialTimeout = 30 * time.Second
)

// errMalformed says that the server does not speak the protocol.
var errMalformed = errors.New("what the server sent is not of the protocol " + remotecommand.StreamProtocolV5Name)

// Conn is a connection to a port of a host. One goroutine may read and wait, and another one
// write, at a time.
type Conn struct {
	ws      *gorilla.Conn
	message io.Reader // what is left of a message with data; nil: none
	began   [2]bool   // by channel: the port has come
	failure []byte    // what the server says
	ended   bool      // the host sends no more
	writing sync.Mutex
	pongs   chan string
	closed  chan struct{}
	once    sync.Once
	ponging sync.WaitGroup
}

// Dial connects to the port of a host that the URL of the subresource portforward names. An
// error that the server has answered with is an APIStatus of apimachinery.
func Dial(ctx context.Context, config *rest.Config, url string) (*Conn, error) {
	transport, holder, err := websocket.RoundTripperFor(config)
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	// The WebSocket library heeds a deadline, and not that the context is canceled.
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, fmt.Errorf("making a request: %w", err)
	}
	ws, err := websocket.Negotiate(transport, holder, request, remotecommand.StreamProtocolV5Name)
	if upgrade, ok := errors.AsType[*httpstream.UpgradeFailureError](err); ok {
		return nil, upgrade.Cause
	}
	if err != nil {
		return nil, err
	}
	return newConn(ws), nil
}

func newConn(ws *gorilla.Conn) *Conn {
	c := &Conn{ws: ws, pongs: make(chan string, 1), closed: make(chan struct{})}
	ws.SetPingHandler(func(payload string) error {
		select {
		case c.pongs <- payload:
		default: // the answer to an earlier one is as good
		}
		return c.listen()
	})
	c.ponging.Go(c.pong)
	return c
}

// pong answers pings. It waits as long as the server takes, because a write that times out
// breaks the connection.
func (c *Conn) pong() {
	for {
		select {
		case <-c.closed:
			return
		case payload := <-c.pongs:
			if err := c.ws.WriteControl(gorilla.PongMessage, []byte(payload), time.Time{}); err != nil {
				return // whoever reads finds out
			}
		}
	}
}

// listen gives the server time to send something.
func (c *Conn) listen() error { return c.ws.SetReadDeadline(time.Now().Add(silence)) }

// Read reads what the host sends, until its end, [io.EOF].
func (c *Conn) Read(p []byte) (int, error) {
	for !c.ended {
		if c.message == nil {
			if err := c.next(); err != nil {
				return 0, err
			}
			continue
		}
		// Much time may have passed since the last read: whoever takes the data may be slow.
		if err := c.listen(); err != nil {
			return 0, err
		}
		n, err := c.message.Read(p)
		if err != nil {
			c.message = nil
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return n, c.over(err)
		}
		if n > 0 {
			return n, nil
		}
	}
	return 0, io.EOF
}

// Wait waits until the connection is over after [io.EOF], which it is when both sides have
// ended. Its error is what went wrong.
func (c *Conn) Wait() error {
	for {
		if err := c.next(); err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		c.message = nil // nothing comes any more that matters
	}
}

// next takes the next message: data, which it leaves to Read, an end, or an error. It returns
// io.EOF when the connection was closed in good order.
func (c *Conn) next() error {
	if err := c.listen(); err != nil {
		return err
	}
	_, message, err := c.ws.NextReader()
	if err != nil {
		return c.over(err)
	}
	var head [1]byte
	if _, err := io.ReadFull(message, head[:]); err != nil {
		if errors.Is(err, io.EOF) {
			return nil // an empty message
		}
		return c.over(err)
	}
	switch channel := head[0]; channel {
	case remotecommand.StreamClose:
		return c.end(message)
	case dataChannel, errorChannel:
		if !c.began[channel] {
			c.began[channel] = true
			if _, err := io.CopyN(io.Discard, message, portSize); err != nil {
				return errMalformed
			}
			return nil
		}
		if channel == dataChannel {
			c.message = message
			return nil
		}
		return c.fail(message)
	}
	return nil
}

// end takes the end of a channel.
func (c *Conn) end(message io.Reader) error {
	var channel [1]byte
	if _, err := io.ReadFull(message, channel[:]); err != nil {
		return errMalformed
	}
	if len(c.failure) > 0 {
		return errors.New(string(c.failure))
	}
	c.ended = c.ended || channel[0] == dataChannel
	return nil
}

// fail keeps what the server says about an error.
func (c *Conn) fail(message io.Reader) error {
	text, err := io.ReadAll(io.LimitReader(message, int64(maxErrorSize-len(c.failure))))
	c.failure = append(c.failure, text...)
	return err
}

// over says how the connection ended.
func (c *Conn) over(err error) error {
	switch {
	case len(c.failure) > 0:
		return errors.New(string(c.failure))
	case c.ended && gorilla.IsCloseError(err, gorilla.CloseNormalClosure):
		return io.EOF
	}
	return fmt.Errorf("the connection was lost: %w", err)
}

// Write sends data to the host.
func (c *Conn) Write(p []byte) (int, error) {
	sent := 0
	for sent < len(p) {
		chunk := p[sent:min(len(p), sent+chunkSize)]
		if err := c.send(dataChannel, chunk); err != nil {
			return sent, err
		}
		sent += len(chunk)
	}
	return sent, nil
}

// CloseWrite tells the host that no more comes. Read continues.
func (c *Conn) CloseWrite() error { return c.send(remotecommand.StreamClose, []byte{dataChannel}) }

func (c *Conn) send(channel byte, p []byte) error {
	c.writing.Lock()
	defer c.writing.Unlock()
	message, err := c.ws.NextWriter(gorilla.BinaryMessage)
	if err != nil {
		return err
	}
	// Both are copied into the write buffer, which is larger than a chunk.
	if _, err := message.Write([]byte{channel}); err != nil {
		return err
	}
	if _, err := message.Write(p); err != nil {
		return err
	}
	return message.Close()
}

// Close ends the connection at once, and a Read and a Write that wait. It may be called more
// than once.
func (c *Conn) Close() error {
	var err error
	c.once.Do(func() {
		close(c.closed)
		err = c.ws.Close()
	})
	c.ponging.Wait()
	return err
}

// isClosed says whether it was closed on this side.
func (c *Conn) isClosed() bool {
	select {
	case <-c.closed:
		return true
	default:
		return false
	}
}
