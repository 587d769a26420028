// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package agenthost

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"github.com/openshift/windows-instance-api/pkg/agent/api/config"
	"github.com/openshift/windows-instance-api/pkg/agent/engine"
)

// System is a host for test tiers. Files and directories are real, below a
// directory that is drive C. Everything else is in a JSON file beside it: services run no
// program, and certificates have no effect. The first call after a boot does what Windows does
// at a boot.
type System struct {
	drive, file string
	boot        func() (string, error)
}

var _ engine.System = (*System)(nil)

// NewSystem returns a host whose drive C is a directory. boot returns the identity of the boot.
func NewSystem(drive string, boot func() (string, error)) *System {
	return &System{drive: drive, file: drive + ".json", boot: boot}
}

// Boot implements [engine.System].
func (s *System) Boot(context.Context) (string, error) { return s.boot() }

// MachineID implements [engine.System].
func (s *System) MachineID() string { return MachineID(s.drive) }

// Lock implements [engine.System] with flock(2), which ends with the process.
func (s *System) Lock(owner engine.Owner) (release func() error, err error) {
	if err := os.MkdirAll(filepath.Dir(s.file), 0o755); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(s.drive+".lock", os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		defer f.Close()
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, err
		}
		var locked engine.LockedError
		// An owner that has just begun has not written it yet.
		_ = json.NewDecoder(f).Decode(&locked.Owner)
		return nil, &locked
	}
	text, err := json.Marshal(owner)
	if err == nil {
		err = f.Truncate(0)
	}
	if err == nil {
		_, err = f.WriteAt(text, 0)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f.Close, nil
}

// Value implements [engine.System] with made up values.
func (s *System) Value(_ context.Context, v config.Variable) (string, error) {
	state, err := s.read()
	if err != nil {
		return "", err
	}
	switch v.Source {
	case config.SourceDefaultRouteAddress:
		return "127.0.0.1", nil
	case config.SourceHostname, config.SourceFQDN:
		return state.Hostname, nil
	case config.SourceHNSSubnet, config.SourceHNSManagementAddress:
		if !state.Networks[v.Network] {
			return "", engine.ErrNotYet
		}
		if v.Source == config.SourceHNSSubnet {
			return "10.132.0.0/24", nil
		}
		return "10.132.0.2", nil
	case config.SourceValue, config.SourceHNSEndpointAddress:
	}
	return "", fmt.Errorf("the host does not know values of source %q", v.Source)
}

// Probe implements [engine.System]. Every service is healthy.
func (s *System) Probe(context.Context, config.Health) error { return nil }
