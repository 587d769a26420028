// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package stream

import (
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/gorilla/websocket"
	"k8s.io/streaming/pkg/httpstream"
	"k8s.io/streaming/pkg/httpstream/spdy"
)

// tunnel is a WebSocket that carries a stream of bytes in binary messages.
type tunnel struct {
	net.Conn // of the client
	ws       *websocket.Conn
	message  io.Reader // the one being read
	closing  sync.Once
}

// goodbyeTimeout is how long closing a tunnel may take: it is one frame of 4 bytes.
const goodbyeTimeout = time.Second

// Read implements [net.Conn]. Only one goroutine may call it.
func (t *tunnel) Read(p []byte) (int, error) {
	for {
		if t.message == nil {
			kind, message, err := t.ws.NextReader()
			if websocket.IsCloseError(err, websocket.CloseNormalClosure) {
				return 0, io.EOF
			}
			if err != nil {
				return 0, err
			}
			if kind != websocket.BinaryMessage {
				return 0, errors.New("the client has sent text through the tunnel")
			}
			t.message = message
		}
		n, err := t.message.Read(p)
		if errors.Is(err, io.EOF) {
			t.message, err = nil, nil
		}
		if n > 0 || err != nil {
			return n, err
		}
	}
}

// Write implements [net.Conn]. Only one goroutine at a time may call it.
func (t *tunnel) Write(p []byte) (int, error) {
	if err := t.ws.WriteMessage(websocket.BinaryMessage, p); err != nil {
		return 0, err
	}
	return len(p), nil
}

// Close implements [net.Conn]. It closes the WebSocket in good order.
func (t *tunnel) Close() error {
	t.closing.Do(func() {
		// A client that cannot be told finds out anyhow.
		_ = t.ws.WriteControl(websocket.CloseMessage, websocket.FormatCloseMessage(websocket.CloseNormalClosure, ""), time.Now().Add(goodbyeTimeout))
	})
	return t.Conn.Close()
}

// upgradeTunnel speaks SPDY with the client over a WebSocket. The returned function
// waits until the pings of the WebSocket have ended, which closing it makes them.
func upgradeTunnel(w http.ResponseWriter, r *http.Request, c Config, handler httpstream.NewStreamHandler) (*spdyConn, func(), error) {
	ws, client, err := upgradeWebSocket(w, r, c, forwardWebSocketProtocols)
	if err != nil {
		return nil, nil, err
	}
	s := &spdyConn{net: &tunnel{Conn: client, ws: ws}, client: client, linger: c.Linger, streams: map[httpstream.Stream]struct{}{}}
	pinger := newPinger(ws, func() {
		_ = client.Close()
		s.resetAll() // or SPDY waits until somebody has taken what a stream got
	})
	s.Connection, err = spdy.NewServerConnectionWithPings(s.net, s.accept(handler), c.KeepAlive)
	if err != nil {
		_ = client.Close()
		return nil, nil, err
	}
	var pings sync.WaitGroup
	stop := make(chan struct{})
	pings.Go(func() { pinger.run(c.KeepAlive, func() bool { return false }, stop) })
	return s, func() {
		close(stop)
		pings.Wait()
	}, nil
}
