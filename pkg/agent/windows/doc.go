// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

// Package windows has the real hosts of the agent: Windows, through Win32 calls
// only, and other systems, which the test tiers run on.
//
// No child process is started and no PowerShell is needed: both are slow, are
// what malware scanners look at first, and fail on a host that is in trouble.
package windows

import (
	"os"
	"time"

	"github.com/openshift/windows-instance-api/pkg/agent"
)

// Options change where the host's things are. The zero value is the real host.
type Options struct {
	// LogRoot replaces the log directory, C:\var\log or /var/log.
	LogRoot string
	// Drive replaces the directory that is drive C of a Unix host. Windows has its own.
	Drive string
}

// Host implements [agent.Host]. It has no state and is safe for concurrent use.
//
// [agent.Host]: https://pkg.go.dev/github.com/openshift/windows-instance-api/pkg/agent#Host
type Host struct {
	logRoot, drive string
}

var _ agent.Host = (*Host)(nil)

// New returns the host that the process runs on.
func New(o Options) *Host {
	if o.LogRoot == "" {
		o.LogRoot = defaultLogRoot
	}
	if o.Drive == "" {
		o.Drive = defaultDrive
	}
	return &Host{logRoot: o.LogRoot, drive: o.Drive}
}

// LogRoot is the log directory.
func (h *Host) LogRoot() string { return h.logRoot }

// Now is the system clock in the system's time zone.
func (h *Host) Now() time.Time { return time.Now() }

// Executable is the path of the running program.
func (h *Host) Executable() (string, error) { return os.Executable() }
