// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package stream

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gorilla/websocket"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/remotecommand"
)

// Bounds of what a WebSocket client may send.
const (
	// maxMessageSize is that of the other Kubernetes servers. Messages are streamed,
	// so that it costs no memory.
	maxMessageSize = 32 << 20
	// maxResizeSize is plenty for {"Width":65535,"Height":65535}.
	maxResizeSize = 1 << 10
)

// upgradeWebSocket upgrades a request that passed checkWebSocket with the protocols.
func upgradeWebSocket(w http.ResponseWriter, r *http.Request, c Config, protocols []string) (*websocket.Conn, *clientConn, error) {
	h := &hijacker{ResponseWriter: w, silence: c.silence()}
	upgrader := websocket.Upgrader{
		HandshakeTimeout: c.StreamCreationTimeout,
		Subprotocols:     protocols,
		// Who may do this is decided by credentials that browsers do not send by
		// themselves, so that it does not matter which page opens the connection.
		CheckOrigin: func(*http.Request) bool { return true },
		Error: func(w http.ResponseWriter, _ *http.Request, code int, reason error) {
			_ = refuse(w, code, metav1.StatusReasonBadRequest, reason.Error())
		},
	}
	conn, err := upgrader.Upgrade(h, r, nil)
	if err != nil {
		return nil, nil, err
	}
	conn.SetReadLimit(maxMessageSize)
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

// webSocketExec is a client that speaks v5.channel.k8s.io or v4.channel.k8s.io:
// the first byte of every message is the channel.
type webSocketExec struct {
	conn      *websocket.Conn
	net       *clientConn
	options   ExecOptions
	linger    time.Duration
	halfClose bool // v5: a client can end its input

	writing sync.Mutex
	in      *io.PipeReader
	toIn    *io.PipeWriter
	stalled atomic.Bool // the command does not take its input
	box     latestSize
	over    chan bool // closed when the reader has ended
	stop    chan struct{}
	ended   sync.Once
	wait    sync.WaitGroup
}

func upgradeWebSocketExec(w http.ResponseWriter, r *http.Request, o ExecOptions, c Config) (execClient, error) {
	conn, client, err := upgradeWebSocket(w, r, c, execWebSocketProtocols)
	if err != nil {
		return nil, err
	}
	e := &webSocketExec{
		conn: conn, net: client, options: o, linger: c.Linger,
		halfClose: conn.Subprotocol() == remotecommand.StreamProtocolV5Name,
		box:       newLatestSize(),
		over:      make(chan bool), stop: make(chan struct{}),
	}
	e.in, e.toIn = io.Pipe()
	pinger := newPinger(conn, func() {
		// The reader waits for the client or, if the command does not take its input, here.
		_ = client.Close()
		_ = e.in.CloseWithError(errClientGone) // always nil
	})
	e.wait.Go(func() { pinger.run(c.KeepAlive, e.stalled.Load, e.stop) })
	e.wait.Go(e.read)
	// An empty message on the first channel signals the client that it is connected.
	// Should it fail, the reader finds out.
	_, _ = (&channelWriter{e, e.firstChannel()}).Write(nil)
	return e, nil
}

func (e *webSocketExec) firstChannel() byte {
	switch {
	case e.options.Stdout:
		return remotecommand.StreamStdOut
	case e.options.Stderr:
		return remotecommand.StreamStdErr
	default:
		return remotecommand.StreamErr
	}
}

// read takes messages apart until the connection is over.
func (e *webSocketExec) read() {
	defer close(e.over)
	// Not io.EOF, which would be the end of the input and not of the client.
	defer e.toIn.CloseWithError(errClientGone)
	buffer := make([]byte, chunkSize)
	for {
		_, message, err := e.conn.NextReader()
		if err != nil {
			return
		}
		var head [2]byte
		if _, err := io.ReadFull(message, head[:1]); err != nil {
			if errors.Is(err, io.EOF) {
				continue // an empty message
			}
			return
		}
		switch channel := head[0]; {
		case channel == remotecommand.StreamClose && e.halfClose:
			if _, err := io.ReadFull(message, head[1:]); err != nil {
				return
			}
			if head[1] == remotecommand.StreamStdIn {
				_ = e.toIn.Close() // always nil
			}
		case channel == remotecommand.StreamStdIn && e.options.Stdin:
			if err := e.readStdin(message, buffer); err != nil {
				return
			}
		case channel == remotecommand.StreamResize && e.options.TTY:
			e.readResize(message)
		}
		// What is left of the message, and channels that were not requested, are skipped
		// by the next NextReader.
	}
}

func (e *webSocketExec) readStdin(message io.Reader, buffer []byte) error {
	for {
		n, err := message.Read(buffer)
		if n > 0 {
			e.stalled.Store(true)
			// An error says that it is not needed any more.
			_, _ = e.toIn.Write(buffer[:n])
			e.stalled.Store(false)
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// readResize takes the last size in a message. What is no size is ignored, as the
// other servers do.
func (e *webSocketExec) readResize(message io.Reader) {
	decoder := json.NewDecoder(io.LimitReader(message, maxResizeSize))
	for {
		var size terminalSize
		if err := decoder.Decode(&size); err != nil {
			return
		}
		e.box.put(size)
	}
}

func (e *webSocketExec) stdin() io.Reader {
	if !e.options.Stdin {
		return nil
	}
	return e.in
}

func (e *webSocketExec) stdout() io.Writer {
	return e.writer(e.options.Stdout, remotecommand.StreamStdOut)
}

func (e *webSocketExec) stderr() io.Writer {
	return e.writer(e.options.Stderr, remotecommand.StreamStdErr)
}

func (e *webSocketExec) writer(wanted bool, channel byte) io.Writer {
	if !wanted {
		return nil
	}
	return &channelWriter{e, channel}
}

func (e *webSocketExec) sizes() <-chan terminalSize { return e.box }
func (e *webSocketExec) gone() <-chan bool          { return e.over }
func (e *webSocketExec) hurry()                     { e.net.hurry(e.linger) }

func (e *webSocketExec) finish(status []byte) {
	e.hurry()
	// The reader continues until the client has closed the connection: closing it with
	// something unread may make the client lose what it was sent last.
	_ = e.in.CloseWithError(errClientGone) // always nil
	if _, err := (&channelWriter{e, remotecommand.StreamErr}).Write(status); err == nil {
		err = e.conn.WriteControl(websocket.CloseMessage, websocket.FormatCloseMessage(websocket.CloseNormalClosure, ""), time.Time{})
		if err == nil {
			waitFor(e.over, e.linger)
		}
	}
	e.abort()
}

func (e *webSocketExec) abort() {
	e.ended.Do(func() {
		close(e.stop)
		_ = e.in.CloseWithError(errClientGone) // always nil
		// The error says that it was closed already.
		_ = e.conn.NetConn().Close()
	})
	e.wait.Wait()
}

// channelWriter sends messages on one channel.
type channelWriter struct {
	*webSocketExec
	channel byte
}

// Write implements [io.Writer]. One call is one message.
func (w *channelWriter) Write(p []byte) (int, error) {
	w.writing.Lock()
	defer w.writing.Unlock()
	message, err := w.conn.NextWriter(websocket.BinaryMessage)
	if err != nil {
		return 0, err
	}
	if len(p) > 0 {
		w.net.owed.Store(true)
	}
	// Both are copied into the write buffer, which is larger than a chunk, so that the
	// message goes out as one frame and one write.
	if _, err := message.Write([]byte{w.channel}); err != nil {
		return 0, err
	}
	n, err := message.Write(p)
	if err != nil {
		return n, err
	}
	return n, message.Close()
}
