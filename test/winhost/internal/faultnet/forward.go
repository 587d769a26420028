// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package faultnet

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"syscall"
)

// Forward carries a connection on to a server at another address and returns when it has
// ended. A connection that the server resets is reset for the client, too.
func Forward(ctx context.Context, client net.Conn, address string) {
	var d net.Dialer
	server, err := d.DialContext(ctx, "tcp", address)
	if err != nil {
		reset(client)
		return
	}
	end := func() {
		_ = server.Close()
		_ = client.Close()
	}
	stop := context.AfterFunc(ctx, end)
	defer stop()
	var wg sync.WaitGroup
	wg.Go(func() {
		defer end()
		_, _ = io.Copy(server, client)
	})
	wg.Go(func() {
		defer end()
		if _, err := io.Copy(client, server); errors.Is(err, syscall.ECONNRESET) {
			reset(client)
		}
	})
	wg.Wait()
}

func reset(c net.Conn) {
	if r, ok := c.(interface{ Reset() }); ok {
		r.Reset()
		return
	}
	_ = c.Close()
}
