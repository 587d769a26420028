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
	"slices"
	"syscall"

	configv1 "github.com/openshift/api/config/v1"

	"github.com/openshift/windows-instance-api/test/openshift"
)

func main() {
	hosts := flag.Int("hosts", 6, "how many hosts there are")
	platform := flag.String("openshift", "", "the platform of OpenShift in place of a cluster of kubeadm")
	flag.Parse()
	if flag.NArg() > 0 || *hosts < minHosts || *platform != "" && !slices.Contains(openshift.Platforms, configv1.PlatformType(*platform)) {
		fmt.Fprintf(os.Stderr, "usage: demo [-hosts N] [-openshift PLATFORM], with N at least %d and one of the platforms %v\n", minHosts, openshift.Platforms)
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, *hosts, configv1.PlatformType(*platform))
	stop()
	if err != nil && !errors.Is(err, context.Canceled) {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}
