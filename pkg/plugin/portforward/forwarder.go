// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package portforward

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// Port is a port of a host and the local one that leads to it.
type Port struct {
	Local, Remote uint16
}

// ParsePorts reads arguments such as 8080:80, :80, which takes any free local port, and 80.
func ParsePorts(arguments []string) ([]Port, error) {
	ports := make([]Port, len(arguments))
	for i, argument := range arguments {
		local, remote, found := strings.Cut(argument, ":")
		if !found {
			remote = local
		} else if local == "" {
			local = "0"
		}
		l, err := strconv.ParseUint(local, 10, 16)
		if err == nil {
			var r uint64
			r, err = strconv.ParseUint(remote, 10, 16)
			ports[i] = Port{uint16(l), uint16(r)}
		}
		if err != nil || ports[i].Remote == 0 {
			return nil, fmt.Errorf("%q is no port: want REMOTE, LOCAL:REMOTE or :REMOTE with numbers from 1 to 65535", argument)
		}
	}
	return ports, nil
}

// Forwarder listens on local ports. Its functions may be called concurrently.
type Forwarder struct {
	dial  func(ctx context.Context, port uint16) (*Conn, error)
	ports []Port
	open  []listener

	printing    sync.Mutex
	out, errOut io.Writer
}

// listener is one that leads to a port of the host.
type listener struct {
	net.Listener
	remote uint16
}

// Listen listens on the addresses, each an IP address or localhost, which is 127.0.0.1 and
// ::1, where there are such. The forwarder must be served or closed.
func Listen(ctx context.Context, addresses []string, ports []Port, dial func(ctx context.Context, port uint16) (*Conn, error), out, errOut io.Writer) (*Forwarder, error) {
	if len(addresses) == 0 {
		return nil, errors.New("name at least one address to listen on")
	}
	f := &Forwarder{dial: dial, ports: slices.Clone(ports), out: out, errOut: errOut}
	for i := range f.ports {
		for _, address := range addresses {
			if err := f.listen(ctx, address, &f.ports[i]); err != nil {
				f.Close()
				return nil, err
			}
		}
	}
	return f, nil
}

func (f *Forwarder) listen(ctx context.Context, address string, port *Port) error {
	if address != "localhost" {
		if _, err := netip.ParseAddr(address); err != nil {
			return fmt.Errorf("listening: %q is neither an IP address nor localhost", address)
		}
		return f.listenOn(ctx, address, port)
	}
	var failures []error
	for _, ip := range []string{"127.0.0.1", "::1"} {
		if err := f.listenOn(ctx, ip, port); err != nil {
			failures = append(failures, err)
		}
	}
	if len(failures) < 2 {
		return nil // hosts without IPv6 are usual
	}
	return errors.Join(failures...)
}

func (f *Forwarder) listenOn(ctx context.Context, address string, port *Port) error {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", net.JoinHostPort(address, strconv.Itoa(int(port.Local))))
	if err != nil {
		return err // has the address
	}
	if tcp, ok := l.Addr().(*net.TCPAddr); ok {
		port.Local = uint16(tcp.Port) // the same on each address
	}
	f.open = append(f.open, listener{l, port.Remote})
	f.print(f.out, "Forwarding from %s -> %d\n", l.Addr(), port.Remote)
	return nil
}

// Ports are those that are forwarded, with the local ones that were free.
func (f *Forwarder) Ports() []Port { return slices.Clone(f.ports) }

// Close stops to listen.
func (f *Forwarder) Close() {
	for _, l := range f.open {
		_ = l.Close() // at the end it is closed one way or another
	}
}

// Serve forwards connections until ctx is done. One that fails is reported, and
// the others continue.
func (f *Forwarder) Serve(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stop := context.AfterFunc(ctx, f.Close)
	defer stop()
	var all sync.WaitGroup
	failed := make(chan error, len(f.open))
	for _, l := range f.open {
		all.Go(func() {
			failed <- f.accept(ctx, l, &all)
			cancel()
		})
	}
	all.Wait()
	return <-failed
}

// accept accepts connections until listening ends.
func (f *Forwarder) accept(ctx context.Context, l listener, all *sync.WaitGroup) error {
	for {
		conn, err := l.Accept()
		if ctx.Err() != nil {
			if err == nil {
				_ = conn.Close() // nothing was promised
			}
			return ctx.Err()
		}
		if err != nil {
			return fmt.Errorf("listening on %s: %w", l.Addr(), err)
		}
		f.print(f.out, "Handling connection for %d\n", l.remote)
		all.Go(func() {
			if err := f.forward(ctx, conn, l.remote); err != nil && ctx.Err() == nil {
				f.print(f.errOut, "A connection to port %d failed: %v\n", l.remote, err)
			}
		})
	}
}

// print writes a line. What cannot be written is not missed.
func (f *Forwarder) print(to io.Writer, format string, args ...any) {
	f.printing.Lock()
	defer f.printing.Unlock()
	_, _ = fmt.Fprintf(to, format, args...)
}

// forward serves one connection until both of its sides have ended, or one has broken.
func (f *Forwarder) forward(ctx context.Context, local net.Conn, port uint16) error {
	defer func() { _ = local.Close() }()
	remote, err := f.dialUntil(ctx, port)
	if err != nil {
		abort(local)
		return err
	}
	defer func() { _ = remote.Close() }()
	stop := context.AfterFunc(ctx, func() {
		_ = remote.Close()
		_ = local.Close()
	})
	defer stop()
	var sides sync.WaitGroup
	defer sides.Wait()
	sides.Go(func() {
		// Why something cannot be sent is found out by whoever reads.
		if readErr, sendErr := copyChunks(remote, local); readErr != nil {
			_ = remote.Close() // the program here has broken off, which is no end
		} else if sendErr == nil {
			_ = remote.CloseWrite()
		}
	})
	return receive(local, remote)
}

// dialUntil dials, and does not wait for the end of that when ctx is done: not everything in it
// can be broken off.
func (f *Forwarder) dialUntil(ctx context.Context, port uint16) (*Conn, error) {
	type result struct {
		conn *Conn
		err  error
	}
	dialed := make(chan result)
	go func() {
		conn, err := f.dial(ctx, port)
		select {
		case dialed <- result{conn, err}:
		case <-ctx.Done():
			if err == nil {
				_ = conn.Close() // nobody has sent anything
			}
		}
	}()
	select {
	case r := <-dialed:
		return r.conn, r.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// receive copies from the host, and passes on its end.
func receive(local net.Conn, remote *Conn) error {
	buffer := make([]byte, chunkSize)
	for {
		n, err := remote.Read(buffer)
		if n > 0 {
			if _, err := local.Write(buffer[:n]); err != nil {
				_ = remote.Close() // the program here wants no more, which is its right
				return broken(local, remote, err)
			}
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return broken(local, remote, err)
		}
	}
	closeWrite(local)
	if err := remote.Wait(); err != nil {
		return broken(local, remote, err)
	}
	return nil
}

// broken breaks off the connection to the program here, too, and returns what is to be
// reported: nothing, if it was the program that did.
func broken(local net.Conn, remote *Conn, err error) error {
	if remote.isClosed() {
		err = nil
	}
	abort(local)
	return err
}

// copyChunks copies until from ends.
func copyChunks(to io.Writer, from io.Reader) (readErr, writeErr error) {
	buffer := make([]byte, chunkSize)
	for {
		n, err := from.Read(buffer)
		if n > 0 {
			if _, err := to.Write(buffer[:n]); err != nil {
				return nil, err
			}
		}
		if errors.Is(err, io.EOF) {
			return nil, nil
		}
		if err != nil {
			return err, nil
		}
	}
}

// abort closes a connection so that the program at its other end does not take what it has
// got for everything.
func abort(conn net.Conn) {
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // without it, it is closed in good order
	}
	_ = conn.Close() // nobody has anything else to do with it
}

// closeWrite passes on the end of what the host sends.
func closeWrite(conn net.Conn) {
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.CloseWrite() // an error says that it is closed already
	}
}
