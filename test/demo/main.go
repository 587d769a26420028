// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

//go:build linux

// demo starts the whole system on loopback with stand-ins for Windows hosts, says
// what to try, and stays until it is interrupted. Then it stops and removes
// everything it started.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	hosts := flag.Int("hosts", 6, "how many hosts there are")
	flag.Parse()
	if flag.NArg() > 0 || *hosts < minHosts {
		fmt.Fprintf(os.Stderr, "usage: demo [-hosts N], with N at least %d\n", minHosts)
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, *hosts)
	stop()
	if err != nil && !errors.Is(err, context.Canceled) {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}
