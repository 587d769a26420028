// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

//go:build windows

// Command agent is windows-node-agent, the program that runs on a host and answers
// requests of the API server and the controller over SSH. See package agent.
package main

import (
	"context"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"
	"time"

	"github.com/openshift/windows-instance-api/pkg/agent"
	"github.com/openshift/windows-instance-api/pkg/agent/api"
	"github.com/openshift/windows-instance-api/pkg/agent/windows"
)

// graceOnSignal is how long the program may continue after a signal. It can be stuck
// in a write to a caller that no longer reads.
const graceOnSignal = 2 * time.Second

// memoryLimit is what the garbage collector keeps the program below, in bytes. What is kept of logs
// is less by itself; many such programs may run on a host, whose memory is for pods.
const memoryLimit = 128 << 20

func main() {
	debug.SetMemoryLimit(memoryLimit)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, func() {
		time.AfterFunc(graceOnSignal, func() { os.Exit(api.ExitFailed) })
	})
	host := windows.New()
	code := agent.Main(ctx, host, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}
