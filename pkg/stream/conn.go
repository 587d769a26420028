// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package stream

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// errClientGone says that the connection of the client is over.
var errClientGone = errors.New("the client has closed the connection")

// Sizes of buffers.
const (
	// chunkSize is how much is copied at a time: with what the WebSocket protocol puts around it, it fills two
	// TLS records and begins no third one. SSH sends it in one packet.
	chunkSize = 32<<10 - 16
	// readBufferSize is that of a TLS record.
	readBufferSize = 16 << 10
	// writeBufferSize holds a chunk with what the WebSocket protocol puts around it.
	writeBufferSize = chunkSize + 1<<10
)

// clientConn is the connection of a client after the upgrade. It finds out that
// the client vanished, which TCP alone may never do behind proxies.
type clientConn struct {
	net.Conn
	rest    *bufio.Reader // what the HTTP server has read ahead
	silence time.Duration
	// owed is set while the client may have data of ours to receive, and cleared by
	// anything it sends. As long as it is set silence means nothing: a client whose
	// user has paused the output does not get to our pings.
	owed atomic.Bool

	mu      sync.Mutex
	hurried bool
}

// Read implements [net.Conn]. It fails when the client is silent for too long. The
// clock does not run while nobody reads, which is when the other side is slow.
func (c *clientConn) Read(p []byte) (int, error) {
	if c.rest.Buffered() > 0 {
		return c.rest.Read(p)
	}
	for {
		if err := c.SetReadDeadline(time.Now().Add(c.silence)); err != nil {
			return 0, err
		}
		n, err := c.Conn.Read(p)
		if n > 0 {
			c.owed.Store(false)
			return n, err
		}
		var timeout net.Error
		if errors.As(err, &timeout) && timeout.Timeout() {
			if c.owed.Load() {
				continue
			}
			return 0, fmt.Errorf("nothing was received for %s: %w", c.silence, err)
		}
		return n, err
	}
}

// hurry gives everything that is still to be written that much time together.
func (c *clientConn) hurry(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.hurried {
		return
	}
	c.hurried = true
	// An error says that the connection is closed, and then no write waits.
	_ = c.Conn.SetWriteDeadline(time.Now().Add(d))
}

// SetWriteDeadline implements [net.Conn]. It does nothing after hurry, because
// WebSocket connections set it again with every message.
func (c *clientConn) SetWriteDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.hurried {
		return nil
	}
	return c.Conn.SetWriteDeadline(t)
}

// hijacker is a ResponseWriter whose hijacked connection is a clientConn, so that
// the libraries which do the upgrade use that one.
type hijacker struct {
	http.ResponseWriter
	silence time.Duration
	conn    *clientConn // nil until hijacked
}

// Hijack implements [http.Hijacker].
func (h *hijacker) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, rw, err := http.NewResponseController(h.ResponseWriter).Hijack()
	if err != nil {
		return nil, nil, err
	}
	h.conn = &clientConn{Conn: conn, rest: rw.Reader, silence: h.silence}
	// The server may have left deadlines behind; those of before the upgrade are over.
	if err := conn.SetDeadline(time.Time{}); err != nil {
		_ = conn.Close()
		return nil, nil, fmt.Errorf("clearing the deadlines of the connection: %w", err)
	}
	return h.conn, bufio.NewReadWriter(bufio.NewReaderSize(h.conn, readBufferSize), rw.Writer), nil
}

// notUpgraded answers a request that is not upgraded.
func notUpgraded(w http.ResponseWriter, err *apierrors.StatusError) Result {
	if err := answer(w, err.ErrStatus); err != nil {
		return Result{End: EndNotUpgraded, Err: err}
	}
	return Result{End: EndNotUpgraded, Err: err}
}

func answer(w http.ResponseWriter, status metav1.Status) error {
	status.TypeMeta = metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}
	body, err := json.Marshal(status)
	if err != nil {
		return fmt.Errorf("encoding a Status: %w", err)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(int(status.Code))
	// Whoever does not read the answer does not miss it.
	_, _ = w.Write(body)
	return nil
}
