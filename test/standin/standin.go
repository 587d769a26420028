// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

// Package standin makes hosts of the tier in-process fit to be nodes: the services that a
// host is configured with get programs that do what those of Windows do, as far as others
// than the host can see it. Tests, benchmarks and the demo import it.
package standin

import (
	"context"

	"github.com/openshift/windows-instance-api/pkg/wmco"
	"github.com/openshift/windows-instance-api/test/kubelet"
	"github.com/openshift/windows-instance-api/test/winhost"
)

// Services are the programs of the services of a node, for
// [winhost.InProcessOptions.Services]. What is not among them does nothing that is seen
// from elsewhere.
func Services() map[string]winhost.ServiceFunc {
	return map[string]winhost.ServiceFunc{wmco.KubeletService: runKubelet, wmco.CloudNodeManagerService: runNodeManager}
}

// runKubelet is the kubelet of a host.
func runKubelet(ctx context.Context, s winhost.ServiceStart) error {
	return kubelet.Join(ctx, kubelet.JoinOptions{
		Drive: s.Drive, CommandLine: s.CommandLine, Hostname: s.Hostname, Address: s.Address, BootID: s.Boot, OSVersion: s.OSVersion,
		Logf: func(format string, args ...any) {
			s.Logf("%s: kubelet: "+format, append([]any{s.Hostname}, args...)...)
		},
	})
}
