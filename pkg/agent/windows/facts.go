// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package windows

import (
	"slices"
	"strings"
	"time"

	"github.com/openshift/windows-instance-api/pkg/agent/api"

	"github.com/openshift/windows-instance-api/pkg/agent"
)

var _ agent.Host = (*Host)(nil)

// timeFacts reads the clock.
func (h *Host) timeFacts() api.TimeFacts {
	now := h.Now()
	zone, offset := now.Zone()
	return api.TimeFacts{Now: now, Zone: zone, OffsetSeconds: offset}
}

// isProxyVariable says whether an environment variable configures a proxy.
func isProxyVariable(name string) bool {
	return slices.Contains([]string{"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY"}, strings.ToUpper(name))
}

// withoutUserinfo takes user name and password out of a proxy's address. It does
// not parse: whatever stands before the last @ of the authority is replaced, so
// that an address which no parser would accept gives nothing away either.
func withoutUserinfo(address string) string {
	start := 0
	if i := strings.Index(address, "://"); i >= 0 {
		start = i + len("://")
	}
	at := strings.LastIndexByte(address, '@')
	if at < start {
		return address
	}
	return address[:start] + "xxxxx" + address[at:]
}

// bootTime is the clock less the uptime, rounded to the second as nothing finer
// stays the same from call to call.
func bootTime(now time.Time, uptime time.Duration) time.Time {
	return now.Add(-uptime).Round(time.Second)
}
