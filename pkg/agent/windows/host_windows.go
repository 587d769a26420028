// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package windows

import (
	"os"
	"time"

	"golang.org/x/sys/windows"

	"github.com/openshift/windows-instance-api/pkg/agent"
)

// logRoot is the log directory.
const logRoot = `C:\var\log`

// Host implements [agent.Host]. It has no state and is safe for concurrent use.
type Host struct{}

var _ agent.Host = (*Host)(nil)

// New returns the host that the process runs on.
func New() *Host { return &Host{} }

// LogRoot is the log directory.
func (h *Host) LogRoot() string { return logRoot }

// Now is the system clock in the system's time zone.
func (h *Host) Now() time.Time { return time.Now() }

// LowerPriority implements [agent.Host]. Where that is not possible the process does its work all
// the same.
func (h *Host) LowerPriority() {
	_ = windows.SetPriorityClass(windows.CurrentProcess(), windows.BELOW_NORMAL_PRIORITY_CLASS)
}

// Executable is the path of the running program.
func (h *Host) Executable() (string, error) { return os.Executable() }
