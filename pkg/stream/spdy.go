// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package stream

import (
	"errors"
	"net"
	"net/http"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/streaming/pkg/httpstream"
	"k8s.io/streaming/pkg/httpstream/spdy"
)

// spdyConn is a SPDY connection with every stream that the client has made on it,
// so that all of them can be ended: spdystream alone waits for ever for streams that
// were never accepted.
type spdyConn struct {
	httpstream.Connection
	net    net.Conn    // what SPDY is spoken over: client, or a tunnel over it
	client *clientConn // the connection of the client
	linger time.Duration

	mu      sync.Mutex // guards what follows
	streams map[httpstream.Stream]struct{}
	closing bool
}

// errClosing refuses streams that come too late.
var errClosing = errors.New("the session is over")

// accept returns a handler that keeps track of streams and hands on those that the
// next one takes, which must not block.
func (s *spdyConn) accept(next httpstream.NewStreamHandler) httpstream.NewStreamHandler {
	return func(stream httpstream.Stream, replySent <-chan struct{}) error {
		s.mu.Lock()
		if s.closing {
			s.mu.Unlock()
			return errClosing
		}
		s.streams[stream] = struct{}{}
		s.mu.Unlock()
		if err := next(stream, replySent); err != nil {
			s.forget(stream)
			return err
		}
		return nil
	}
}

// forget drops streams that are over.
func (s *spdyConn) forget(streams ...httpstream.Stream) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, stream := range streams {
		delete(s.streams, stream)
	}
}

// upgradeSPDY upgrades the request to SPDY with one of the protocols. The handler
// gets every stream that the client creates.
func upgradeSPDY(w http.ResponseWriter, r *http.Request, c Config, handler httpstream.NewStreamHandler, protocol string) (*spdyConn, error) {
	if _, err := httpstream.Handshake(r, w, []string{protocol}); err != nil {
		return nil, err // Handshake has answered
	}
	h := &hijacker{ResponseWriter: w, silence: c.silence()}
	s := &spdyConn{linger: c.Linger, streams: map[httpstream.Stream]struct{}{}}
	conn := spdy.NewResponseUpgraderWithPings(c.KeepAlive).UpgradeResponse(h, r, s.accept(handler))
	if conn == nil {
		if h.conn != nil {
			_ = h.conn.Close()
		}
		return nil, errors.New("the connection could not be upgraded to SPDY") // UpgradeResponse has answered
	}
	s.Connection, s.net, s.client = conn, h.conn, h.conn
	return s, nil
}

// over is closed when the connection is.
func (s *spdyConn) over() <-chan bool { return s.CloseChan() }

// keepAlive writes nothing to a stream of the client every now and then, in a frame of its own.
// This finds out that the client is gone even while a host does not take its input, when the
// end of the connection cannot be read because of what is in front of it. Pings do not help
// there: the next one waits for the answer to the last. stream returns nil if none can be
// written to.
func (s *spdyConn) keepAlive(every time.Duration, stop <-chan struct{}, stream func() httpstream.Stream) {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		select {
		case <-stop:
			return
		case <-s.over():
			return
		case <-ticker.C:
			to := stream()
			if to == nil {
				continue
			}
			if _, err := to.Write([]byte{}); err != nil {
				_ = s.client.Close()
				s.resetAll() // or the connection's reader may wait for one of them
				return
			}
		}
	}
}

// finish closes the connection in good order, waits for the linger time
// until the client has closed it, and closes it.
func (s *spdyConn) finish() {
	s.client.hurry(s.linger)
	s.resetAll()
	if err := s.Connection.Close(); err == nil {
		waitFor(s.CloseChan(), s.linger)
	}
	_ = s.net.Close() // in good order, if it is a tunnel
	s.abort()
}

// abort closes the connection and waits until nothing more is read from it.
func (s *spdyConn) abort() {
	// The error says that it was closed already.
	_ = s.client.Close()
	s.resetAll()
	// With the connection gone an error is certain, and the shutdown runs anyhow.
	_ = s.Connection.Close()
	waitFor(s.CloseChan(), s.linger)
}

// resetAll unblocks everything that waits for a stream, in this package and in spdystream.
func (s *spdyConn) resetAll() {
	s.mu.Lock()
	s.closing = true
	streams := s.streams
	s.streams = map[httpstream.Stream]struct{}{}
	s.mu.Unlock()
	var unstick sync.WaitGroup
	for stream := range streams {
		// An error says that the client is gone.
		_ = stream.Reset()
		// In spdystream, a reset by the client of a stream to which no reply could be sent
		// waits for a receiver of the reply, which does not exist on this side.
		// From now on the stream is not found any more, so that only one that came before
		// the Reset can wait.
		if waiter, ok := stream.(interface {
			WaitTimeout(timeout time.Duration) error
		}); ok {
			unstick.Go(func() { _ = waiter.WaitTimeout(resetDelay) })
		}
	}
	unstick.Wait()
}

// reply sends the reply to a new stream if that was not done, and says whether the
// client has got one. Without it a write to the stream would wait for ever.
func reply(stream httpstream.Stream) bool {
	replier, ok := stream.(interface {
		SendReply(headers http.Header, fin bool) error
	})
	return !ok || replier.SendReply(http.Header{}, false) == nil
}

// isClosing says whether the streams end because of us.
func (s *spdyConn) isClosing() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closing
}

// streamType returns the kind of a stream, one of corev1.StreamType*.
func streamType(stream httpstream.Stream) string { return stream.Headers().Get(corev1.StreamType) }

// newStream is a stream that the client has created.
type newStream struct {
	httpstream.Stream
	replySent <-chan struct{}
}

// answered waits until the client may be written to on a stream.
func (s *spdyConn) answered(stream newStream) error {
	select {
	case <-stream.replySent:
	case <-s.CloseChan():
		return errClientGone
	}
	// The channel is also closed when the reply could not be sent.
	if !reply(stream.Stream) {
		return errClientGone
	}
	return nil
}

// waitFor waits for a channel to be closed, at most that long, and says whether it is.
func waitFor(closed <-chan bool, atMost time.Duration) bool {
	timer := time.NewTimer(atMost)
	defer timer.Stop()
	select {
	case <-closed:
		return true
	case <-timer.C:
		return false
	}
}
