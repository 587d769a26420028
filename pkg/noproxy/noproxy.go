// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

// Package noproxy keeps what our servers ask of their own cluster away from the proxy that their environment names. Where a
// cluster has a proxy, its administrators, or the Operator Lifecycle Manager, give that to every pod, and what is
// reached without it is not always complete. Hosts are reached by SSH, which takes no proxy from the environment.
package noproxy

import (
	"cmp"
	"os"
	"strings"
)

// Variables of the environment.
const (
	// server has the address of the API server of the cluster that a pod runs in.
	server = "KUBERNETES_SERVICE_HOST"
	// names lists what is reached without a proxy. That in lower case counts where this one is empty.
	names = "NO_PROXY"
)

// Exempt adds the API server and the Services of the cluster that this process runs in to what it reaches without a
// proxy. Outside of a cluster, the environment stays what somebody wants it to be. To be called before the first request: what
// the environment says is read once.
func Exempt() {
	host := os.Getenv(server)
	if host == "" {
		return
	}
	list := []string{host, ".svc", ".cluster.local"}
	if before := cmp.Or(os.Getenv(names), os.Getenv(strings.ToLower(names))); before != "" {
		list = append([]string{before}, list...)
	}
	_ = os.Setenv(names, strings.Join(list, ",")) // fails for other names only
}
