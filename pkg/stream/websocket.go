// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package stream

import (
	"net/http"
	"time"

	"github.com/gorilla/websocket"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// handshakeTimeout is how long a client gets to take the answer to its upgrade.
const handshakeTimeout = 30 * time.Second

// upgradeWebSocket upgrades a request that passed the check of its subresource, and that
// is to speak the protocol.
func upgradeWebSocket(w http.ResponseWriter, r *http.Request, c Config, protocol string) (*websocket.Conn, *clientConn, error) {
	h := &hijacker{ResponseWriter: w, silence: c.silence()}
	upgrader := websocket.Upgrader{
		HandshakeTimeout: handshakeTimeout,
		WriteBufferSize:  writeBufferSize,
		WriteBufferPool:  &writeBuffers,
		Subprotocols:     []string{protocol},
		// Who may do this is decided by credentials that browsers do not send by
		// themselves, so that it does not matter which page opens the connection.
		CheckOrigin: func(*http.Request) bool { return true },
		Error: func(w http.ResponseWriter, _ *http.Request, code int, reason error) {
			// An error says that it has no answer, which Upgrade reports as well.
			_ = answer(w, metav1.Status{Status: metav1.StatusFailure, Code: int32(code), Reason: metav1.StatusReasonBadRequest, Message: reason.Error()})
		},
	}
	conn, err := upgrader.Upgrade(h, r, nil)
	if err != nil {
		return nil, nil, err
	}
	return conn, h.conn, nil
}

// pinger keeps a WebSocket connection alive. All its writes wait as long as the
// client takes, because gorilla breaks a connection over a write that timed out.
type pinger struct {
	conn   *websocket.Conn
	broken func()      // called when the client is found to be gone
	pongs  chan string // payloads of pings to answer
}

func newPinger(conn *websocket.Conn, broken func()) *pinger {
	p := &pinger{conn: conn, broken: broken, pongs: make(chan string, 1)}
	conn.SetPingHandler(func(payload string) error {
		select {
		case p.pongs <- payload:
		default: // the answer to an earlier one is as good
		}
		return nil
	})
	return p
}

// run pings until stop is closed or the connection is broken. stalled says that
// nobody reads what the client sends, its pings included: then it gets pongs without
// having sent pings, which RFC 6455 allows as a heartbeat.
func (p *pinger) run(every time.Duration, stalled func() bool, stop <-chan struct{}) {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		var err error
		select {
		case <-stop:
			return
		case payload := <-p.pongs:
			err = p.conn.WriteControl(websocket.PongMessage, []byte(payload), time.Time{})
		case <-ticker.C:
			err = p.conn.WriteControl(websocket.PingMessage, nil, time.Time{})
			if err == nil && stalled() {
				err = p.conn.WriteControl(websocket.PongMessage, nil, time.Time{})
			}
		}
		if err != nil {
			p.broken()
			return
		}
	}
}
