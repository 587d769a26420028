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
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/openshift/windows-instance-api/pkg/plugin/portforward"
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

// startForward forwards a local port through kube-apiserver and windows-apiserver until the
// end of the benchmark, with the client of the plugin.
func startForward(b *testing.B, s *system.System, namespace, name string, port int) string {
	b.Helper()
	config := s.AdminConfig()
	u := fmt.Sprintf("%s%s?ports=%d", s.URL(), subresourcePath(namespace, name, "portforward"), port)
	dial := func(ctx context.Context, _ uint16) (*portforward.Conn, error) {
		return portforward.Dial(ctx, config, u)
	}
	forwarder, err := portforward.Listen(b.Context(), []string{"127.0.0.1"}, []portforward.Port{{Remote: uint16(port)}}, dial, io.Discard, b.Output())
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- forwarder.Serve(ctx) }()
	b.Cleanup(func() {
		cancel()
		<-ended
	})
	return fmt.Sprintf("127.0.0.1:%d", forwarder.Ports()[0].Local)
}

// BenchmarkForward sends 128 MiB through a forwarded port in each direction, and 1 MiB
// in each through 100 that are open at once: with the pool alone, with ssh -L, and
// through kube-apiserver and windows-apiserver with the client of the plugin. The ratios are of throughput: above 1
// we are faster than ssh. With them goes the processor time of both servers for each GiB.
func BenchmarkForward(b *testing.B) {
	port := startBulkServer(b)
	s, signer, key := startSystem(b, system.Options{WithoutController: true, APIServerArgs: []string{
		fmt.Sprintf("--port-forward-ports=%d", port), "--max-sessions-per-host=500", "--max-sessions-per-user=500", "--max-sessions-per-user-and-host=500",
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
		addresses := map[string]string{"ssh": local, webSocket: startForward(b, s, ns, "w", port)}
		ways := func(o order) map[string]func() error {
			all := map[string]func() error{"pool": func() error { return onPool(o) }}
			for name, address := range addresses {
				all[name] = func() error { return tradeAt(address, o) }
			}
			return all
		}
		newContest().round(b, ways(order{Send: 1, Take: 1})) // connects
		ups, downs := newContest(), newContest()
		servers := map[string]int{"kube-apiserver": s.APIServer.PID(), "windows-apiserver": s.Server.PID()}
		used := map[string]float64{} // processor time, of one way only
		charge := func(direction string, sign float64) {
			for name, pid := range servers {
				used[name+"-"+direction] += sign * cpuSeconds(b, pid)
			}
		}
		b.SetBytes(forwardSize)
		rounds := 0
		for b.Loop() {
			for range forwardRounds {
				rounds++
				charge("up", -1)
				ups.round(b, ways(order{Send: forwardSize}))
				charge("up", 1)
				charge("down", -1)
				downs.round(b, ways(order{Take: forwardSize}))
				charge("down", 1)
			}
		}
		reportThroughput(b, ups, "up", forwardSize)
		reportThroughput(b, downs, "down", forwardSize)
		for name, seconds := range used {
			b.ReportMetric(seconds/float64(rounds)/forwardSize*(1<<30), "cpu-s/GiB-"+name)
		}
	})

	b.Run("100", func(b *testing.B) {
		each := func(do func() error) func() error {
			return func() error {
				var all errgroup.Group
				for range manyForwards {
					all.Go(do)
				}
				return all.Wait()
			}
		}
		o := order{Send: manySize, Take: manySize}
		forwarded := startForward(b, s, ns, "w", port)
		ways := map[string]func() error{
			"pool":    each(func() error { return onPool(o) }),
			"ssh":     each(func() error { return tradeAt(local, o) }),
			webSocket: each(func() error { return tradeAt(forwarded, o) }),
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
