// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

// kubectl-windows is the plugin that kubectl runs for `kubectl windows` and oc for
// `oc windows`.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/go-logr/logr"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	// Logins through cloud providers and OpenID Connect, as kubectl has them.
	_ "k8s.io/client-go/plugin/pkg/client/auth"
	"k8s.io/klog/v2"

	"github.com/openshift/windows-instance-api/pkg/plugin"
)

func main() { os.Exit(run()) }

func run() int {
	// That watches end, and that a terminal changes its size while a session ends, is no business
	// of users, unless they ask for it with -v.
	klog.SetLoggerWithOptions(logr.Discard(), klog.ContextualLogger(true))
	ctx, end := context.WithCancelCause(context.Background())
	defer end(nil)
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		received := <-signals
		signal.Stop(signals) // the second signal ends the process
		if received == syscall.SIGTERM {
			end(&plugin.ExitError{Code: plugin.ExitTerminated})
		}
		end(nil)
	}()
	return plugin.Run(ctx, genericiooptions.IOStreams{In: os.Stdin, Out: os.Stdout, ErrOut: os.Stderr}, plugin.Arguments(os.Args))
}
