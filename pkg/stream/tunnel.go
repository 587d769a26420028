// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package stream

import (
	"net/http"
	"sync"

	"github.com/go-logr/logr"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/streaming/pkg/httpstream"
	"k8s.io/streaming/pkg/httpstream/spdy"
)

// upgradeTunnel upgrades the connection to SPDY over a WebSocket. The returned function
// waits until the pings of the WebSocket have ended, which closing it makes them.
func upgradeTunnel(w http.ResponseWriter, r *http.Request, c Config, handler httpstream.NewStreamHandler) (*spdyConn, func(), error) {
	ws, client, err := upgradeWebSocket(w, r, c, forwardWebSocketProtocols)
	if err != nil {
		return nil, nil, err
	}
	// It would log what is forwarded.
	tunnel := portforward.NewTunnelingConnectionWithLogger(logr.Discard(), ws)
	s := &spdyConn{net: tunnel, client: client, linger: c.Linger, streams: map[httpstream.Stream]struct{}{}}
	pinger := newPinger(ws, func() {
		_ = client.Close()
		s.resetAll() // or SPDY waits until what a stream got is read
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
