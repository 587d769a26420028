// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

// Command program is the agent on a host that is not Windows, for test tiers; see package
// agenthost. The path of its executable, as it reports it, is in $AGENTHOST_EXECUTABLE.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/openshift/windows-instance-api/pkg/agent"
	"github.com/openshift/windows-instance-api/pkg/agent/api"
	"github.com/openshift/windows-instance-api/test/agenthost"
)

// graceOnSignal is as in the real agent: it can be stuck in a write to a caller that no longer
// reads.
const graceOnSignal = 2 * time.Second

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, func() {
		time.AfterFunc(graceOnSignal, func() { os.Exit(api.ExitFailed) })
	})
	host := agenthost.NewHost(agenthost.Options{Executable: os.Getenv("AGENTHOST_EXECUTABLE")})
	code := agent.Main(ctx, host, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}
