// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

//go:build linux

package bench

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"testing"

	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/transport/spdy"
	"k8s.io/streaming/pkg/httpstream"

	"github.com/openshift/windows-instance-api/test/system"
)

const (
	// forwardSize is what is sent through one connection.
	forwardSize = 128 << 20
	// forwardRounds is how often each way sends it in each direction.
	forwardRounds = 3
	// manyForwards are open at once, and each sends manySize in each direction.
	manyForwards = 100
	manySize     = 1 << 20
)

// order is what a client of the bulk server begins with.
type order struct {
	// Send is how many bytes the client will send, Take how many it then wants.
	Send, Take uint64
}

// startBulkServer starts a server that takes what is sent to it and sends what is
// asked for, and returns its port.
func startBulkServer(b *testing.B) int {
	b.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	over := make(chan struct{})
	go func() {
		defer close(over)
		serveConnections(ctx, listener, func(conn net.Conn) {
			var o order
			if binary.Read(conn, binary.BigEndian, &o) != nil {
				return // somebody who looked whether there is a server
			}
			if _, err := io.CopyN(io.Discard, conn, int64(o.Send)); err != nil {
				return // the client misses the answer
			}
			// A byte more says that everything has come.
			out := bufio.NewWriterSize(conn, 64<<10)
			_, _ = io.CopyN(out, zeros{}, int64(o.Take)+1)
			_ = out.Flush()
		})
	}()
	b.Cleanup(func() {
		cancel()
		_ = listener.Close()
		<-over
	})
	return listener.Addr().(*net.TCPAddr).Port
}

// zeros is an endless reader.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }

// trade sends and takes over a connection, and closes it.
func trade(conn io.ReadWriteCloser, o order) error {
	err := binary.Write(conn, binary.BigEndian, o)
	if err == nil {
		_, err = io.CopyN(onlyWriter{conn}, zeros{}, int64(o.Send))
	}
	if err == nil {
		var n int64
		n, err = io.Copy(io.Discard, conn)
		if err == nil && n != int64(o.Take)+1 {
			err = fmt.Errorf("got %d of %d bytes", n, o.Take+1)
		}
	}
	return errors.Join(err, conn.Close())
}

// onlyWriter hides what else a writer can do, so that all ways are written to alike.
type onlyWriter struct{ io.Writer }

// tradeAt connects to a local port first.
func tradeAt(address string, o order) error {
	conn, err := net.Dial("tcp", address)
	if err != nil {
		return err
	}
	return trade(conn, o)
}

// forwardPort forwards a local port through kube-apiserver and windows-apiserver until
// stop is called, which waits for its end.
func forwardPort(s *system.System, transport, namespace, name string, port int) (address string, stop func() error, err error) {
	u, err := url.Parse(s.URL() + subresourcePath(namespace, name, "portforward"))
	if err != nil {
		return "", nil, err
	}
	config := s.AdminConfig()
	var dialer httpstream.Dialer
	if transport == "SPDY" {
		roundTripper, upgrader, err := spdy.RoundTripperFor(config)
		if err != nil {
			return "", nil, err
		}
		dialer = spdy.NewDialerForStreaming(upgrader, &http.Client{Transport: roundTripper}, http.MethodPost, u)
	} else if dialer, err = portforward.NewSPDYOverWebsocketDialerForStreaming(u, config); err != nil {
		return "", nil, err
	}
	stopping, ready, ended := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	forwarder, err := portforward.NewForStreaming(dialer, []string{fmt.Sprintf("0:%d", port)}, stopping, ready, io.Discard, io.Discard)
	if err != nil {
		return "", nil, err
	}
	go func() { ended <- forwarder.ForwardPorts() }()
	select {
	case <-ready:
	case err := <-ended:
		return "", nil, fmt.Errorf("forwarding: %w", err)
	}
	stop = func() error {
		close(stopping)
		return <-ended
	}
	ports, err := forwarder.GetPorts()
	if err != nil {
		return "", nil, errors.Join(err, stop())
	}
	return fmt.Sprintf("127.0.0.1:%d", ports[0].Local), stop, nil
}

// startForward is forwardPort until the end of the benchmark.
func startForward(b *testing.B, s *system.System, transport, namespace, name string, port int) string {
	b.Helper()
	address, stop, err := forwardPort(s, transport, namespace, name, port)
	if err != nil {
		b.Fatalf("%s: %v", transport, err)
	}
	b.Cleanup(func() {
		if err := stop(); err != nil {
			b.Errorf("%s: %v", transport, err)
		}
	})
	return address
}

// BenchmarkForward sends 128 MiB through a forwarded port in each direction, and 1 MiB
// in each through 100 that are open at once: with the pool alone, with ssh -L, and
// through kube-apiserver and windows-apiserver with the client of kubectl, which has a
// port forward of its own for each of the 100. The ratios are of throughput: above 1
// we are faster than ssh.
func BenchmarkForward(b *testing.B) {
	port := startBulkServer(b)
	s, signer, key := startSystem(b, system.Options{WithoutController: true, APIServerArgs: []string{
		fmt.Sprintf("--port-forward-ports=%d", port), "--max-sessions-per-host=500", "--max-sessions-per-user=500",
	}})
	ns := namespace(b, s, "bench")
	host := startSSHD(b, signer, key)
	host.createInstance(b, s, ns, "w")
	pool := newPool(b)
	local := host.forward(b, port)
	onPool := func(o order) error {
		conn, err := pool.Dial(b.Context(), host.target(), uint16(port))
		if err != nil {
			return err
		}
		return trade(conn, o)
	}

	b.Run("one", func(b *testing.B) {
		addresses := map[string]string{"ssh": local}
		for _, transport := range transports {
			addresses[transport] = startForward(b, s, transport, ns, "w", port)
		}
		ways := func(o order) map[string]func() error {
			all := map[string]func() error{"pool": func() error { return onPool(o) }}
			for name, address := range addresses {
				all[name] = func() error { return tradeAt(address, o) }
			}
			return all
		}
		newContest().round(b, ways(order{Send: 1, Take: 1})) // connects
		ups, downs := newContest(), newContest()
		b.SetBytes(forwardSize)
		for b.Loop() {
			for range forwardRounds {
				ups.round(b, ways(order{Send: forwardSize}))
				downs.round(b, ways(order{Take: forwardSize}))
			}
		}
		reportThroughput(b, ups, "up", forwardSize)
		reportThroughput(b, downs, "down", forwardSize)
	})

	b.Run("100", func(b *testing.B) {
		each := func(do func(i int) error) func() error {
			return func() error {
				var all errgroup.Group
				for i := range manyForwards {
					all.Go(func() error { return do(i) })
				}
				return all.Wait()
			}
		}
		o := order{Send: manySize, Take: manySize}
		ways := map[string]func() error{
			"pool": each(func(int) error { return onPool(o) }),
			"ssh":  each(func(int) error { return tradeAt(local, o) }),
		}
		for _, transport := range transports {
			addresses := make([]string, manyForwards)
			for i := range addresses {
				addresses[i] = startForward(b, s, transport, ns, "w", port)
			}
			ways[transport] = each(func(i int) error { return tradeAt(addresses[i], o) })
		}
		newContest().round(b, ways)
		c := newContest()
		for b.Loop() {
			for range forwardRounds {
				c.round(b, ways)
			}
		}
		reportThroughput(b, c, "both", manyForwards*2*manySize)
	})
}
