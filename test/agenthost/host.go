// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

// Package agenthost is a host of the agent for test tiers on Unix. Its files are real, below a
// directory that is drive C; everything else that the agent configures is simulated in a file
// beside that directory. Package program below it is the agent with such a host.
//
// Only tests, the demo and benchmarks import it, never the product.
package agenthost

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/openshift/windows-instance-api/pkg/agent"
	"github.com/openshift/windows-instance-api/pkg/agent/api"
	"github.com/openshift/windows-instance-api/pkg/agent/facts"
	"github.com/openshift/windows-instance-api/pkg/agent/logs"
	"github.com/openshift/windows-instance-api/pkg/agent/updates"
)

// defaultDrive is where drive C is unless [Options] say otherwise.
const defaultDrive = "/var/lib/windows-node-agent/c"

// Options say where the host's things are. The zero value is a machine that is one host.
type Options struct {
	// Drive is the directory that is drive C.
	Drive string
	// LogRoot replaces the log directory, which is C:\var\log.
	LogRoot string
	// Executable replaces the file that is the agent, which is that of the process.
	Executable string
}

// Host implements [agent.Host]. It has no state and is safe for concurrent use.
type Host struct {
	logRoot, drive, executable string
}

var _ agent.Host = (*Host)(nil)

// NewHost returns a host.
func NewHost(o Options) *Host {
	if o.Drive == "" {
		o.Drive = defaultDrive
	}
	if o.LogRoot == "" {
		o.LogRoot = filepath.Join(o.Drive, "var", "log")
	}
	return &Host{logRoot: o.LogRoot, drive: o.Drive, executable: o.Executable}
}

// LogRoot is the log directory.
func (h *Host) LogRoot() string { return h.logRoot }

// Now is the system clock in the system's time zone.
func (h *Host) Now() time.Time { return time.Now() }

// Executable is the path of the file that is the agent.
func (h *Host) Executable() (string, error) {
	if h.executable != "" {
		return h.executable, nil
	}
	return os.Executable()
}

// EventLog fails: there is none outside Windows.
func (h *Host) EventLog() (logs.EventLog, error) { return nil, logs.ErrNoEventLog }

// BootTimes knows the present boot only.
func (h *Host) BootTimes(context.Context) ([]time.Time, error) {
	up, err := uptime()
	if err != nil {
		return nil, err
	}
	return []time.Time{facts.BootTime(h.Now(), up)}, nil
}

// KeyFiles implements [agent.Host]: they are those of an administrator.
func (h *Host) KeyFiles() ([]string, error) { return KeyFiles("Administrator"), nil }

// KeyFiles are the files from which OpenSSH on Windows takes the keys of an administrator.
func KeyFiles(user string) []string {
	return []string{`C:\ProgramData\ssh\administrators_authorized_keys`, `C:\Users\` + user + `\.ssh\authorized_keys`}
}

// System is the host as the engine changes it.
func (h *Host) System() agent.System { return h.stateOf() }

func (h *Host) stateOf() *System {
	return NewSystem(h.drive, func() (string, error) {
		boot, err := h.Boot(context.Background())
		return boot.ID, err
	})
}

// Updates is the Windows Update Agent of the stand-in.
func (h *Host) Updates() updates.Source { return h.stateOf().Updates() }

// Serve calls run: the host has no service control manager.
func (h *Host) Serve(ctx context.Context, run func(context.Context) error) error { return run(ctx) }

// LowerPriority does nothing: the process may be that of a test.
func (h *Host) LowerPriority() {}

// ReportDrift does nothing: the host has no event log.
func (h *Host) ReportDrift(string) error { return nil }

// EnsureRoute fails: the host has its network in common with the machine that it is on,
// whose routes are not ours.
func (h *Host) EnsureRoute(context.Context, api.Route) (bool, error) {
	return false, fmt.Errorf("routes are set on Windows only: %w", errors.ErrUnsupported)
}
