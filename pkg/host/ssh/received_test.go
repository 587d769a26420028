// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package ssh

import (
	"io"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// heldBack is what Options.Received is told, which waits once there was more than a limit.
type heldBack struct {
	limit, received atomic.Int64
	more            chan struct{} // of the bubble
}

func (h *heldBack) take(n int) {
	if h.received.Add(int64(n)) > h.limit.Load() {
		<-h.more
	}
}

// TestReceivedHoldsBack: nothing more is received from a host while the account of what was received waits, however
// large the windows of its channels are, and everything is afterwards.
func TestReceivedHoldsBack(t *testing.T) {
	const limit = 256 << 10
	var h heldBack
	h.limit.Store(limit)
	inBubble(t, Options{Received: h.take}, func(t *testing.T, p *Pool, s *peer, _ *conn) {
		h.more = make(chan struct{})
		near, far := openTo(t, p, s)
		const sent = 1 << 20 // fits the window
		go func() {
			_, _ = far.Write(make([]byte, sent))
			_ = far.CloseWrite()
		}()
		synctest.Wait()
		if got := h.received.Load(); got < limit || got > limit+64<<10 {
			t.Errorf("%d bytes were received, and the limit is %d", got, limit)
		}
		time.Sleep(3 * time.Minute) //nolint:forbidigo // the time of the bubble: that it is not heard is not its silence
		close(h.more)
		if n, err := io.Copy(io.Discard, near.stdout); n != sent || err != nil {
			t.Errorf("%d bytes were read: %v", n, err)
		}
	})
}

// TestClosedStreamHoldsNothing: what nobody has read of a stream is gone with it, also while the host cannot be heard: this is what
// streams are ended for when memory is short.
func TestClosedStreamHoldsNothing(t *testing.T) {
	var h heldBack
	h.limit.Store(1 << 40)
	inBubble(t, Options{Received: h.take, MaxSessionsPerConn: 16}, func(t *testing.T, p *Pool, s *peer, _ *conn) {
		h.more = make(chan struct{})
		const streams, window = 8, 2 << 20
		before := liveHeap()
		var open []*stream
		for i := range streams {
			near, far := openTo(t, p, s)
			if i%2 == 0 { // the others were never read
				go func() { _, _ = near.stdout.Read(make([]byte, 1)) }()
			}
			go func() { _, _ = far.Write(make([]byte, window)) }()
			open = append(open, near)
		}
		synctest.Wait()
		if held := liveHeap() - before; held < streams*window/2 {
			t.Fatalf("only %d bytes are held, so that this shows nothing", held)
		}
		h.limit.Store(0) // from now on nothing is received
		for _, near := range open {
			near.closeByCaller()
		}
		synctest.Wait()
		if held := liveHeap() - before; held > streams*window/8 {
			t.Errorf("%d bytes are still held", held)
		}
		runtime.KeepAlive(open)
		close(h.more)
	})
}

// liveHeap is what is not garbage.
func liveHeap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
