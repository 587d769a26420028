// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

// Package facts has the parts of collecting facts that are the same on every host: it reads
// the clock, finds proxies in environments, certificates in files, and what an SSH server does when it starts.
//
// It knows no operating system, and must not import package windows.
package facts

import (
	"slices"
	"strings"
	"time"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
)

// Time is what a clock says.
func Time(now time.Time) api.TimeFacts {
	zone, offset := now.Zone()
	return api.TimeFacts{Now: now, Zone: zone, OffsetSeconds: offset}
}

// IsProxyVariable says whether an environment variable configures a proxy.
func IsProxyVariable(name string) bool {
	return slices.Contains([]string{"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY"}, strings.ToUpper(name))
}

// WithoutUserinfo removes user name and password from a proxy's address. It does
// not parse: whatever stands before the last @ of the authority is replaced, so
// that an address which no parser would accept gives nothing away either.
func WithoutUserinfo(address string) string {
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

// BootTime is the clock less the uptime, rounded to the second as nothing finer
// stays the same from call to call.
func BootTime(now time.Time, uptime time.Duration) time.Time {
	return now.Add(-uptime).Round(time.Second)
}
