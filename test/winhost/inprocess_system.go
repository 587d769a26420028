// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package winhost

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"syscall"

	"github.com/openshift/windows-instance-api/pkg/agent"
	"github.com/openshift/windows-instance-api/pkg/agent/api/config"
	"github.com/openshift/windows-instance-api/pkg/agent/engine"
	"github.com/openshift/windows-instance-api/test/agenthost"
)

// hostSystem is an in-process host as the engine changes it in one boot: files are real,
// services are functions of this process, and everything else is made up. When the boot is
// over every call fails, so that nothing is changed by somebody whose power was cut.
type hostSystem struct {
	*agenthost.System
	host *inProcessHost
	boot string
}

var _ agent.System = (*hostSystem)(nil)

// errNoPower is what ends those who go on after the end of their boot.
var errNoPower = errors.New("the host has lost its power")

// system is the host in its present boot.
func (h *inProcessHost) system() *hostSystem {
	s := &hostSystem{host: h, boot: h.bootID()}
	s.System = agenthost.NewSystem(h.driveC, func() (string, error) { return s.boot, s.alive() })
	return s
}

// System is a host as programs on it change it.
type System interface {
	agent.System
	// Link makes a symbolic link, or has one that is there lead elsewhere.
	Link(path, target string) error
	// OfferUpdates has the server of the host offer these updates of Windows from now on.
	OfferUpdates(list ...agenthost.Update) error
}

// SystemOf is an in-process host as programs on it change it in its present boot: what is started through it runs. It reports false for
// a host of another tier.
func SystemOf(h Host) (System, bool) {
	in, ok := h.(*inProcessHost)
	if !ok {
		return nil, false
	}
	return in.system(), true
}

// alive says whether the boot lasts.
func (s *hostSystem) alive() error {
	s.host.mu.Lock()
	defer s.host.mu.Unlock()
	if !s.host.on || s.host.boots[0].id != s.boot {
		return errNoPower
	}
	return nil
}

func (h *inProcessHost) bootID() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.boots) == 0 {
		return ""
	}
	return h.boots[0].id
}

// nameHost gives a new host its computer name. One whose files were kept has one.
func (h *inProcessHost) nameHost(name string) error {
	if _, err := os.Lstat(h.driveC + ".json"); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	// A name holds from the next boot on, which is the first.
	return agenthost.NewSystem(h.driveC, func() (string, error) { return "factory", nil }).SetHostname(name)
}

// hostname is how the host calls itself, and next how from its next boot on.
func (h *inProcessHost) hostname() (now, next string) {
	now, next, err := h.system().Hostname()
	if err != nil { // it is off
		return h.name, h.name
	}
	return now, next
}

// Value implements [engine.System].
func (s *hostSystem) Value(ctx context.Context, v config.Variable) (string, error) {
	switch v.Source {
	case config.SourceDefaultRouteAddress:
		return s.host.Address(), s.alive()
	case config.SourceAWSLocalHostname, config.SourceGCPHostname:
		return s.host.cloud.value(v.Source)
	default:
		return s.System.Value(ctx, v)
	}
}

// Lock implements [engine.System].
func (s *hostSystem) Lock(owner engine.Owner) (release func() error, err error) {
	if err := s.alive(); err != nil {
		return nil, err
	}
	return s.System.Lock(owner)
}

// change says why a file cannot be changed, or nil.
func (s *hostSystem) change(path string) error {
	if err := s.alive(); err != nil {
		return err
	}
	local, err := s.host.LocalPath(path)
	if err != nil {
		return err
	}
	if s.host.currentFault().Holds(path) || s.host.busy(local) {
		return fmt.Errorf("%s: %w", path, engine.ErrInUse)
	}
	return nil
}

// write is change for what takes room on the disk.
func (s *hostSystem) write(path string) error {
	if s.host.currentFault().DiskFull {
		return fmt.Errorf("%s: %w", path, syscall.ENOSPC)
	}
	return s.change(path)
}

// Stat implements [engine.FileSystem].
func (s *hostSystem) Stat(path string) (engine.FileInfo, error) {
	if err := s.alive(); err != nil {
		return engine.FileInfo{}, err
	}
	return s.System.Stat(path)
}

// Open implements [engine.FileSystem].
func (s *hostSystem) Open(path string) (io.ReadCloser, error) {
	if err := s.alive(); err != nil {
		return nil, err
	}
	return s.System.Open(path)
}

// Names implements [engine.FileSystem].
func (s *hostSystem) Names(directory string) ([]string, error) {
	if err := s.alive(); err != nil {
		return nil, err
	}
	return s.System.Names(directory)
}

// WriteFile implements [engine.FileSystem].
func (s *hostSystem) WriteFile(path string, content []byte, access config.Access) error {
	if err := s.write(path); err != nil {
		return err
	}
	return s.System.WriteFile(path, content, access)
}

// ReplaceKeeping implements [agent.System].
func (s *hostSystem) ReplaceKeeping(path string, content []byte) error {
	if err := s.write(path); err != nil {
		return err
	}
	return s.System.ReplaceKeeping(path, content)
}

// Rename implements [engine.FileSystem]. A program that runs can be renamed, but not
// replaced.
func (s *hostSystem) Rename(from, to string) error {
	if s.host.currentFault().Holds(from) {
		return fmt.Errorf("%s: %w", from, engine.ErrInUse)
	}
	if err := s.change(to); err != nil {
		return err
	}
	return s.System.Rename(from, to)
}

// SetAccess implements [engine.FileSystem].
func (s *hostSystem) SetAccess(path string, access config.Access) error {
	if err := s.alive(); err != nil {
		return err
	}
	return s.System.SetAccess(path, access)
}

// MakeDirectory implements [engine.FileSystem].
func (s *hostSystem) MakeDirectory(path string, access config.Access) error {
	if err := s.write(path); err != nil {
		return err
	}
	return s.System.MakeDirectory(path, access)
}

// Remove implements [engine.FileSystem].
func (s *hostSystem) Remove(path string) error {
	if err := s.change(path); err != nil {
		return err
	}
	return s.System.Remove(path)
}

// RemoveAtBoot implements [engine.FileSystem].
func (s *hostSystem) RemoveAtBoot(path string) error {
	if err := s.alive(); err != nil {
		return err
	}
	s.host.mu.Lock()
	defer s.host.mu.Unlock()
	s.host.removeAtBoot = append(s.host.removeAtBoot, path)
	return nil
}

// RemovedAtBoot implements [engine.FileSystem].
func (s *hostSystem) RemovedAtBoot() ([]string, error) {
	s.host.mu.Lock()
	defer s.host.mu.Unlock()
	return slices.Clone(s.host.removeAtBoot), nil
}

// Create implements [agent.System].
func (s *hostSystem) Create(path string) (agent.ReceivedFile, error) {
	if s.host.currentFault().DiskFull {
		return nil, fmt.Errorf("%s: %w", path, agent.ErrDiskFull)
	}
	if err := s.change(path); err != nil {
		return nil, err
	}
	return s.System.Create(path)
}

// Volume implements [engine.FileSystem]. A host whose disk is full notices it only when
// it writes.
func (s *hostSystem) Volume(path string) (name string, freeBytes int64, err error) {
	if err := s.alive(); err != nil {
		return "", 0, err
	}
	return s.System.Volume(path)
}

// Service implements [engine.ServiceManager].
func (s *hostSystem) Service(name string) (*engine.Service, error) {
	now, err := s.System.Service(name)
	if err != nil || now == nil {
		return nil, err
	}
	if p := s.host.process(name); p != nil {
		now.State, now.ExitCode = p.state()
		now.PID = p.pid
	}
	return now, nil
}

// StartService implements [engine.ServiceManager].
func (s *hostSystem) StartService(name string) error {
	if f := s.host.currentFault(); strings.EqualFold(f.FailStart, name) {
		// ERROR_SERVICE_REQUEST_TIMEOUT
		return fmt.Errorf("%w: the service did not respond to the start or control request in a timely fashion", engine.ErrNoAnswer)
	}
	if p := s.host.process(name); p != nil {
		if state, _ := p.state(); state != engine.ServiceStopped {
			return nil
		}
	}
	if err := s.System.StartService(name); err != nil {
		return err
	}
	return s.host.startProcess(s, name)
}

// StopService implements [engine.ServiceManager].
func (s *hostSystem) StopService(name string) error {
	if err := s.System.StopService(name); err != nil {
		return err
	}
	if p := s.host.process(name); p != nil {
		p.stop(strings.EqualFold(s.host.currentFault().HangStop, name))
	}
	return nil
}

// Processes implements [engine.Processes]. In place of the path of a program, each has the name of
// its service.
func (s *hostSystem) Processes() ([]engine.Process, error) {
	s.host.mu.Lock()
	defer s.host.mu.Unlock()
	var list []engine.Process
	for name, p := range s.host.processes {
		if state, _ := p.state(); state != engine.ServiceStopped {
			list = append(list, engine.Process{PID: p.pid, Path: name})
		}
	}
	return list, nil
}

// KillProcess implements [engine.Processes].
func (s *hostSystem) KillProcess(p engine.Process) error {
	if running := s.host.process(p.Path); running != nil {
		running.kill()
	}
	return nil
}

// DeleteService implements [engine.ServiceManager].
func (s *hostSystem) DeleteService(name string) error {
	if err := s.System.DeleteService(name); err != nil {
		return err
	}
	s.host.forgetProcess(name)
	return nil
}
