// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package stream

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// Conn is a connection to a port of the host. Close ends a Read and a Write that wait, and
// may be called more than once. [net.TCPConn] is one.
type Conn interface {
	io.ReadWriteCloser
	// CloseWrite signals the end of the data to the host. Read continues.
	CloseWrite() error
}

// DialFunc connects to a port of the host. An error is sent to the client as it is.
type DialFunc func(ctx context.Context, port int) (Conn, error)

// ServePortForward upgrades the request and connects the client with each of the ports, by
// what dial returns. The first port has the channels 0, for data, and 1, for an error, the
// second one 2 and 3. The first message on each is the port.
//
// It returns, with no goroutine left, when all connections are over, the client is gone,
// r.Context() is done, the server drains, or nothing was sent for the idle timeout. What
// dial opened is closed by then.
func ServePortForward(w http.ResponseWriter, r *http.Request, c Config, ports []int32, dial DialFunc) Result {
	if err := CheckPortForward(r, ports); err != nil {
		return notUpgraded(w, err)
	}
	c = c.withDefaults()
	client, err := upgradeChannels(w, r, c, forwardProtocols)
	if err != nil {
		return Result{End: EndNotUpgraded, Err: err}
	}
	f := &forwarder{client: client, dial: dial}
	f.config, f.started = c, time.Now()
	return f.serve(r.Context(), ports)
}

// forwarder is the port forward of one client.
type forwarder struct {
	activity
	client *channels
	dial   DialFunc
}

func (f *forwarder) serve(ctx context.Context, ports []int32) Result {
	// They end by what the client is told, also when ctx does.
	connections, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cancel(nil)
	forwards := make([]forward, len(ports))
	for i, port := range ports {
		channel := byte(2 * i)
		forwards[i] = forward{f, int(port), f.client.input(channel), output{f.client, channel}, output{f.client, channel + 1}}
	}
	f.client.start(f.config.KeepAlive)
	for _, forward := range forwards {
		number := binary.LittleEndian.AppendUint16(nil, uint16(forward.port))
		for _, to := range []output{forward.to, forward.failure} {
			// An error says that the client is gone, which the reader finds out.
			_, _ = to.write(to.channel, number)
		}
	}
	var running sync.WaitGroup
	failures := make([]error, len(forwards))
	for i, forward := range forwards {
		running.Go(func() { failures[i] = forward.run(connections) })
	}
	ended, over := make(chan Result, 1), make(chan struct{})
	go func() {
		defer close(over)
		running.Wait()
		ended <- forwarded(failures)
	}()

	result := f.wait(ctx, ended, f.client)
	if result.End == EndClientGone {
		f.client.abort()
		// With v4, closing the connection is how a client ends: what it has sent before is
		// delivered.
		waitFor(over, f.config.Linger)
	} else {
		f.client.hurry()
	}
	cancel(f.reason(result))
	<-over
	f.client.finish()
	result.Received, result.Sent = f.received.Load(), f.sent.Load()
	return result
}

// forwarded is how a port forward ended all of whose connections are over.
func forwarded(failures []error) Result {
	err := errors.Join(failures...)
	switch {
	case errors.Is(err, errClientGone):
		return Result{End: EndClientGone}
	case err != nil:
		return Result{End: EndFailed, Err: err}
	default:
		return Result{End: EndClosed}
	}
}

// reason is what the client is told about the end on each connection that is open.
func (f *forwarder) reason(r Result) error {
	switch r.End {
	case EndDrained:
		return errors.New(drainMessage)
	case EndIdle:
		return fmt.Errorf("the port forward is over because nothing was sent for %s", f.config.IdleTimeout)
	case EndFailed, EndRevoked, EndUnavailable:
		return r.Err
	default:
		return errors.New("the port forward is over")
	}
}

// forward is one connection to a port.
type forward struct {
	*forwarder
	port    int
	from    *input
	to      output
	failure output
}

// run serves the connection until both of its sides have ended, and tells the client what
// went wrong, if anything did.
func (f *forward) run(ctx context.Context) error {
	err := f.connect(ctx)
	// Whatever still comes is not needed.
	_ = f.from.Close() // always nil
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		err = fmt.Errorf("forwarding to port %d: %w", f.port, err)
		// An error says that the client is gone.
		_, _ = io.WriteString(f.failure, err.Error())
		f.to.close()
	}
	f.failure.close()
	return err
}

// connect copies until both directions have ended, or one has broken.
func (f *forward) connect(parent context.Context) error {
	ctx, cancel := context.WithCancel(parent)
	defer cancel()
	f.touch()
	host, err := f.dial(ctx, f.port)
	if err != nil {
		return err
	}
	// When the port forward ends, so does this, whatever it waits for.
	stop := context.AfterFunc(ctx, func() { _ = host.Close() })
	defer stop()
	defer func() { _ = host.Close() }()
	var sides sync.WaitGroup
	gone := false
	sides.Go(func() {
		if gone = !f.send(ctx, host); gone {
			cancel()
		}
	})
	readErr, writeErr := f.copy(f.to, host, &f.sent)
	if writeErr != nil {
		// The client is gone, and send ends with what it has left behind. A host may take that
		// only when it has got rid of what it sends.
		_, readErr = io.Copy(io.Discard, host)
	}
	switch {
	case readErr != nil, writeErr == nil && !f.client.closing:
		// The host is broken, or the client cannot be told that the host has no more to send,
		// and is told that the connection is over.
		cancel()
		_ = f.from.Close() // always nil
	case writeErr == nil:
		f.to.close()
	}
	sides.Wait()
	if gone || writeErr != nil {
		return errClientGone
	}
	return readErr
}

// send copies from the client to the host, and passes on its end. It reports whether the
// client is still there.
func (f *forward) send(ctx context.Context, host Conn) bool {
	readErr, writeErr := f.copy(host, f.from, &f.received)
	if readErr != nil {
		// To the host this must not look like the end of what it gets.
		return ctx.Err() != nil
	}
	if writeErr != nil {
		// The host accepts no more, but what it has sent may still be on its way. The rest of
		// the input is discarded.
		_ = f.from.Close() // always nil
	}
	// An error says that the host has closed the connection.
	_ = host.CloseWrite()
	return true
}

// copy copies until from ends. The errors are those of reading and of writing.
func (f *forwarder) copy(to io.Writer, from io.Reader, count *atomic.Int64) (readErr, writeErr error) {
	var through buffer
	for {
		data, err := through.read(from)
		if len(data) > 0 {
			f.touch()
			if _, err := to.Write(data); err != nil {
				return nil, err
			}
			count.Add(int64(len(data)))
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
