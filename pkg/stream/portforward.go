// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package stream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/streaming/pkg/httpstream"
	"k8s.io/streaming/pkg/httpstream/wsstream"
)

// resetCheck is how often a connection whose client has ended its side is checked
// for a reset, which spdystream does not report by itself.
const resetCheck = time.Second

// Conn is a connection to a port of the host. Close ends a Read and a Write that wait, and
// may be called more than once. [net.TCPConn] is one.
type Conn interface {
	io.ReadWriteCloser
	// CloseWrite signals the end of the data to the host. Read continues.
	CloseWrite() error
}

// DialFunc connects to a port of the host. An error is sent to the client as it is.
type DialFunc func(ctx context.Context, port int) (Conn, error)

// ServePortForward upgrades the request and forwards every connection that the client
// opens to what dial returns. It returns, with no goroutine left, when the client is
// gone, r.Context() is done, the server drains, or nothing was sent for the idle
// timeout. What dial opened is closed by then.
func ServePortForward(w http.ResponseWriter, r *http.Request, c Config, dial DialFunc) Result {
	c = c.withDefaults()
	f := &forwarder{dial: dial, pairs: map[string]*streamPair{}, open: map[*streamPair]struct{}{}, ready: make(chan struct{})}
	f.config, f.started = c, time.Now()
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	f.ctx = ctx
	conn, stopPings, err := f.upgrade(w, r)
	if err != nil {
		return Result{End: EndNotUpgraded, Err: err}
	}
	f.conn = conn
	close(f.ready)

	var alive sync.WaitGroup
	alive.Go(func() { conn.keepAlive(c.KeepAlive, ctx.Done(), f.anyErrors) })
	result := f.wait(r.Context(), nil, conn.over())
	if result.End == EndClientGone {
		cancel()
		conn.abort()
	} else {
		conn.client.hurry(c.Linger)
		f.notifyClient(result)
		cancel()
		conn.finish()
	}
	stopPings()
	f.stopPairing()
	f.forwards.Wait()
	alive.Wait()
	result.Received, result.Sent = f.received.Load(), f.sent.Load()
	result.Connections = int(f.connections.Load())
	return result
}

// forwarder is one port forward: many connections over one of the client.
type forwarder struct {
	//nolint:containedctx // streams are made by the client, in callbacks without a context
	ctx   context.Context
	dial  DialFunc
	ready chan struct{} // closed when conn is set
	conn  *spdyConn
	activity
	connections atomic.Int64

	mu       sync.Mutex // guards what follows
	pairs    map[string]*streamPair
	open     map[*streamPair]struct{}
	stopped  bool
	forwards sync.WaitGroup
}

// streamPair is a connection: a stream for what is sent and one for an error.
type streamPair struct {
	id           string
	port         int
	data, errors newStream
	timer        *time.Timer
	answered     atomic.Bool // both streams may be written to
}

// complete reports whether both streams exist.
func (p *streamPair) complete() bool { return p.data.Stream != nil && p.errors.Stream != nil }

// upgrade upgrades the connection to SPDY, over a WebSocket if the client requests that. The
// returned function waits until the WebSocket's pings have ended.
func (f *forwarder) upgrade(w http.ResponseWriter, r *http.Request) (*spdyConn, func(), error) {
	if err := CheckPortForward(r); err != nil {
		return nil, nil, refuse(w, http.StatusBadRequest, metav1.StatusReasonBadRequest, err.Error())
	}
	if wsstream.IsWebSocketRequest(r) {
		return upgradeTunnel(w, r, f.config, f.accept)
	}
	conn, err := upgradeSPDY(w, r, f.config, f.accept, forwardSPDYProtocol)
	return conn, func() {}, err
}

// answered are the connections on whose error stream may be written.
func (f *forwarder) answered() []*streamPair {
	f.mu.Lock()
	defer f.mu.Unlock()
	var pairs []*streamPair
	for pair := range f.open {
		if pair.answered.Load() {
			pairs = append(pairs, pair)
		}
	}
	return pairs
}

// anyErrors is an error stream that may be written to, nil if there is none.
func (f *forwarder) anyErrors() httpstream.Stream {
	if pairs := f.answered(); len(pairs) > 0 {
		return pairs[0].errors
	}
	return nil
}

// notifyClient sends the client the reason for the end on every open connection.
func (f *forwarder) notifyClient(r Result) {
	message := "the port forward is over"
	switch r.End {
	case EndDrained:
		message = drainMessage
	case EndIdle:
		message = fmt.Sprintf("the port forward is over because nothing was sent for %s", f.config.IdleTimeout)
	}
	for _, pair := range f.answered() {
		pair.fail(message)
	}
}

// fail sends the message on the error stream, which must have been answered. A client
// that does not receive it is gone.
func (p *streamPair) fail(message string) {
	if _, err := p.errors.Write([]byte(message)); err == nil {
		_ = p.errors.Close()
	}
}

// accept takes a stream of the client, and starts forwarding with the second of a pair.
func (f *forwarder) accept(stream httpstream.Stream, replySent <-chan struct{}) error {
	port, err := strconv.ParseUint(stream.Headers().Get(corev1.PortHeader), 10, 16)
	if err != nil || port == 0 {
		return fmt.Errorf("the header %s is %q, which is not a port", corev1.PortHeader, stream.Headers().Get(corev1.PortHeader))
	}
	id := stream.Headers().Get(corev1.PortForwardRequestIDHeader)
	if id == "" {
		return fmt.Errorf("the header %s is missing", corev1.PortForwardRequestIDHeader)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.stopped {
		return errClosing
	}
	pair, ok := f.pairs[id]
	if !ok {
		if len(f.pairs)+len(f.open) >= f.config.MaxForwards+maxRefusals {
			return fmt.Errorf("%d connections are open", len(f.open))
		}
		pair = &streamPair{id: id, port: int(port)}
	}
	switch kind := streamType(stream); {
	case kind == corev1.StreamTypeError && pair.errors.Stream == nil:
		pair.errors = newStream{stream, replySent}
	case kind == corev1.StreamTypeData && pair.data.Stream == nil:
		pair.data, pair.port = newStream{stream, replySent}, int(port)
	default:
		return fmt.Errorf("a stream of the type %q is not part of a connection, or exists already", kind)
	}
	if !pair.complete() {
		f.pairs[id] = pair
		pair.timer = time.AfterFunc(f.config.StreamCreationTimeout, func() { f.expire(pair) })
		return nil
	}
	delete(f.pairs, id)
	pair.timer.Stop()
	full := len(f.open) >= f.config.MaxForwards
	f.open[pair] = struct{}{}
	f.forwards.Go(func() { f.forward(pair, full) })
	return nil
}

// maxRefusals is how many connections beyond the limit get an error; the streams of
// even more are reset.
const maxRefusals = 64

// expire drops a stream whose other one did not come.
func (f *forwarder) expire(pair *streamPair) {
	f.mu.Lock()
	if f.pairs[pair.id] != pair || f.stopped {
		f.mu.Unlock()
		return
	}
	delete(f.pairs, pair.id)
	f.forwards.Add(1)
	f.mu.Unlock()
	defer f.forwards.Done()
	<-f.ready
	if pair.errors.Stream != nil && f.conn.answered(pair.errors) == nil {
		pair.fail(fmt.Sprintf("a connection needs a data and an error stream, of which only one came within %s", f.config.StreamCreationTimeout))
	}
	f.end(pair)
}

// stopPairing makes sure that nothing is started any more.
func (f *forwarder) stopPairing() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.stopped = true
	for _, pair := range f.pairs {
		pair.timer.Stop()
	}
}

// end resets the streams of a connection and forgets them.
func (f *forwarder) end(pair *streamPair) {
	for _, stream := range []httpstream.Stream{pair.data.Stream, pair.errors.Stream} {
		if stream != nil {
			// An error says that the client is gone.
			_ = stream.Reset()
			f.conn.RemoveStreams(stream)
			if pair.answered.Load() {
				f.conn.forget(stream) // else resetAll has more to do
			}
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.open, pair)
}

// forward serves one connection until both of its sides have ended.
func (f *forwarder) forward(pair *streamPair, refused bool) {
	select {
	case <-f.ready:
	case <-f.ctx.Done(): // the upgrade has failed
		return
	}
	defer f.end(pair)
	for _, stream := range []newStream{pair.errors, pair.data} {
		if err := f.conn.answered(stream); err != nil {
			return
		}
	}
	pair.answered.Store(true)
	f.connections.Add(1)
	f.touch()
	if refused {
		pair.fail(fmt.Sprintf("%d connections are open over this port forward, which is the limit", f.config.MaxForwards))
		return
	}
	ctx, cancel := context.WithCancel(f.ctx)
	defer cancel()
	host, err := f.dial(ctx, pair.port)
	if err != nil {
		pair.fail(fmt.Sprintf("forwarding to port %d: %v", pair.port, err))
		return
	}
	// When the port forward ends, so does this, whatever it waits for.
	stop := context.AfterFunc(ctx, func() { _ = host.Close() })
	defer stop()
	defer func() { _ = host.Close() }()
	if err := f.copyBoth(cancel, pair.data.Stream, host); err != nil && f.ctx.Err() == nil {
		pair.fail(fmt.Sprintf("forwarding to port %d: %v", pair.port, err))
		return
	}
	// An empty error stream is how the client knows that nothing went wrong.
	_ = pair.errors.Close()
}

// copyBoth copies until both directions have ended, or one has broken. Each passes
// its end on.
func (f *forwarder) copyBoth(cancel context.CancelFunc, client httpstream.Stream, host Conn) error {
	var sides sync.WaitGroup
	fromHost := make(chan struct{})
	var hostErr error
	sides.Go(func() {
		defer close(fromHost)
		var sendErr error
		hostErr, sendErr = f.copy(spdyOutput{client, f.conn.client}, host, &f.sent)
		if hostErr == nil && sendErr == nil {
			// An error says that the client is gone.
			_ = client.Close()
			return
		}
		cancel()
		// The client may wait for the rest of what was cut off.
		_ = client.Reset()
	})
	goneErr, deliverErr := f.copy(host, spdyInput{client, f.conn}, &f.received)
	switch {
	case goneErr != nil:
		// To the host this must not look like the end of what it gets.
		cancel()
	case deliverErr == nil:
		f.clientEnded(cancel, client, host, fromHost)
	default:
		// The host accepts no more, but what it has sent may still be on its way; the rest
		// of the input must be read, or the client's other connections stand still.
		_, _ = io.Copy(io.Discard, client)
		f.clientEnded(cancel, client, host, fromHost)
	}
	sides.Wait()
	return hostErr
}

// clientEnded passes on that the client sends no more, and waits for the host to end
// too. If the client has not only ended its side but reset the stream, nothing receives
// what the host still sends.
func (f *forwarder) clientEnded(cancel context.CancelFunc, client httpstream.Stream, host Conn, fromHost <-chan struct{}) {
	// An error says that the host has closed the connection.
	_ = host.CloseWrite()
	finished, ok := client.(finisher)
	if !ok {
		<-fromHost
		return
	}
	ticker := time.NewTicker(resetCheck)
	defer ticker.Stop()
	for {
		select {
		case <-fromHost:
			return
		case <-ticker.C:
			// Also true once the other direction has ended and closed the stream.
			if finished.IsFinished() {
				cancel()
				return
			}
		}
	}
}

// copy copies until from ends. The errors are those of reading and of writing.
func (f *forwarder) copy(to io.Writer, from io.Reader, count *atomic.Int64) (readErr, writeErr error) {
	buffer := make([]byte, chunkSize)
	for {
		n, err := from.Read(buffer)
		if n > 0 {
			f.touch()
			if _, err := to.Write(buffer[:n]); err != nil {
				return nil, err
			}
			count.Add(int64(n))
			f.touch()
		}
		if errors.Is(err, io.EOF) {
			return nil, nil
		}
		if err != nil {
			return err, nil
		}
	}
}
