// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package windows

import (
	"errors"
	"fmt"
	"unsafe"

	"golang.org/x/sys/windows"

	"github.com/openshift/windows-instance-api/pkg/agent/engine"
)

// Processes implements [engine.System]. Those of Windows that nobody may open are left out.
func (s *windowsSystem) Processes() ([]engine.Process, error) {
	snapshot, err := windows.CreateToolhelp32Snapshot(windows.TH32CS_SNAPPROCESS, 0)
	if err != nil {
		return nil, fmt.Errorf("listing the processes: %w", err)
	}
	defer windows.CloseHandle(snapshot) //nolint:errcheck // nothing was written
	var list []engine.Process
	entry := windows.ProcessEntry32{Size: uint32(unsafe.Sizeof(windows.ProcessEntry32{}))}
	for err = windows.Process32First(snapshot, &entry); err == nil; err = windows.Process32Next(snapshot, &entry) {
		p, err := openProcess(entry.ProcessID, 0)
		if err != nil {
			continue
		}
		process := engine.Process{PID: int(entry.ProcessID), Parent: int(entry.ParentProcessID), Started: p.started}
		if process.Path, err = p.path(); err == nil && !p.ended() {
			list = append(list, process)
		}
		p.close()
	}
	if !errors.Is(err, windows.ERROR_NO_MORE_FILES) {
		return nil, fmt.Errorf("listing the processes: %w", err)
	}
	return list, nil
}

// KillProcess implements [engine.System].
func (s *windowsSystem) KillProcess(process engine.Process) error {
	p, err := openProcess(uint32(process.PID), windows.PROCESS_TERMINATE)
	if errors.Is(err, windows.ERROR_INVALID_PARAMETER) {
		return nil // there is no such process
	}
	if err != nil {
		return err
	}
	defer p.close()
	if p.started != process.Started || p.ended() {
		return nil
	}
	err = windows.TerminateProcess(p.handle, 1)
	// One that is ending cannot be terminated again.
	if err != nil && !errors.Is(err, windows.ERROR_ACCESS_DENIED) {
		return fmt.Errorf("terminating it: %w", err)
	}
	return nil
}

// process is an open process.
type process struct {
	handle  windows.Handle
	started int64 // in units of 100 nanoseconds
}

func openProcess(pid, access uint32) (*process, error) {
	handle, err := windows.OpenProcess(access|windows.PROCESS_QUERY_LIMITED_INFORMATION|windows.SYNCHRONIZE, false, pid)
	if err != nil {
		return nil, fmt.Errorf("opening process %d: %w", pid, err)
	}
	var started, ended, kernel, user windows.Filetime
	if err := windows.GetProcessTimes(handle, &started, &ended, &kernel, &user); err != nil {
		return nil, errors.Join(fmt.Errorf("reading the times of process %d: %w", pid, err), windows.CloseHandle(handle))
	}
	return &process{handle: handle, started: int64(started.HighDateTime)<<32 | int64(started.LowDateTime)}, nil
}

func (p *process) close() { _ = windows.CloseHandle(p.handle) }

// ended reports whether the process has ended: it exists as long as somebody has it open.
func (p *process) ended() bool {
	event, err := windows.WaitForSingleObject(p.handle, 0)
	return err == nil && event == windows.WAIT_OBJECT_0
}

// path returns the path of the program.
func (p *process) path() (string, error) {
	buffer := make([]uint16, windows.MAX_LONG_PATH)
	size := uint32(len(buffer))
	if err := windows.QueryFullProcessImageName(p.handle, 0, &buffer[0], &size); err != nil {
		return "", err
	}
	return windows.UTF16ToString(buffer[:size]), nil
}
