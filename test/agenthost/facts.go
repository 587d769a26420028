// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package agenthost

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/openshift/windows-instance-api/pkg/agent"
	"github.com/openshift/windows-instance-api/pkg/agent/api"
	"github.com/openshift/windows-instance-api/pkg/agent/facts"
)

// certificateFiles are where a kubelet keeps its certificates.
var certificateFiles = []string{"/var/lib/kubelet/pki/*-current.pem", "/var/lib/kubelet/pki/*.crt"}

// Details implements [agent.Host].
func (h *Host) Details(_ context.Context, f *api.Facts) {
	facts.Certificates(f, certificateFiles)
}

// Facts collects what tests need of a host that cannot be a node: its system, its name, and
// when it was started.
func (h *Host) Facts(ctx context.Context) *api.Facts {
	f := &api.Facts{Time: facts.Time(h.Now()), CPUs: runtime.NumCPU()}
	f.System.OS, f.System.Architecture = runtime.GOOS, runtime.GOARCH
	agent.Collect(f, "name", &f.Name.FQDN, os.Hostname)
	f.Name.Hostname, _, _ = strings.Cut(f.Name.FQDN, ".")
	agent.Collect(f, "boot", &f.Boot, func() (api.BootFacts, error) { return h.Boot(ctx) })
	return f
}

func uptime() (time.Duration, error) {
	b, err := os.ReadFile("/proc/uptime")
	if err != nil {
		return 0, fmt.Errorf("reading the uptime: %w", err)
	}
	first, _, _ := strings.Cut(string(b), " ")
	seconds, err := strconv.ParseFloat(first, 64)
	if err != nil {
		return 0, fmt.Errorf("reading the uptime: %w", err)
	}
	return time.Duration(seconds * float64(time.Second)), nil
}
