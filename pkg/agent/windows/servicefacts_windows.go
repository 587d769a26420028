// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package windows

import (
	"errors"
	"fmt"
	"unsafe"

	"golang.org/x/sys/windows"

	"github.com/openshift/windows-instance-api/pkg/agent"
	"github.com/openshift/windows-instance-api/pkg/agent/api"
)

// collectServices reads the services of interest. Each fails for itself.
func collectServices(f *api.Facts) {
	f.Collect("services", func() error {
		// Not through package mgr: it asks for full access, and its Config
		// fails as a whole where one level of detail is not supported.
		scm, err := windows.OpenSCManager(nil, nil, windows.SC_MANAGER_CONNECT)
		if err != nil {
			return fmt.Errorf("opening the service control manager: %w", err)
		}
		defer windows.CloseServiceHandle(scm) //nolint:errcheck // only read
		for _, name := range agent.ServicesOfInterest() {
			f.Collect("services/"+name, func() error {
				s, err := readService(scm, name)
				if s != nil {
					f.Services = append(f.Services, *s)
				}
				return err
			})
		}
		return nil
	})
}

// readService returns nil for a service that does not exist.
func readService(scm windows.Handle, name string) (*api.Service, error) {
	n, err := windows.UTF16PtrFromString(name)
	if err != nil {
		return nil, err
	}
	h, err := windows.OpenService(scm, n, windows.SERVICE_QUERY_CONFIG|windows.SERVICE_QUERY_STATUS)
	if errors.Is(err, windows.ERROR_SERVICE_DOES_NOT_EXIST) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("opening the service: %w", err)
	}
	defer windows.CloseServiceHandle(h) //nolint:errcheck // only read

	var status windows.SERVICE_STATUS_PROCESS
	var needed uint32
	if err := windows.QueryServiceStatusEx(h, windows.SC_STATUS_PROCESS_INFO, (*byte)(unsafe.Pointer(&status)), uint32(unsafe.Sizeof(status)), &needed); err != nil {
		return nil, fmt.Errorf("reading the state: %w", err)
	}
	s := &api.Service{Name: name, State: serviceState(status.CurrentState), PID: status.ProcessId, ExitCode: status.Win32ExitCode}
	// ERROR_SERVICE_SPECIFIC_ERROR: the service has a code of its own.
	if status.Win32ExitCode == uint32(windows.ERROR_SERVICE_SPECIFIC_ERROR) {
		s.ExitCode = status.ServiceSpecificExitCode
	}
	return s, readServiceConfig(h, s)
}

func readServiceConfig(h windows.Handle, s *api.Service) error {
	buf, err := grow(func(p *byte, size uint32, needed *uint32) error {
		return windows.QueryServiceConfig(h, (*windows.QUERY_SERVICE_CONFIG)(unsafe.Pointer(p)), size, needed)
	})
	if err != nil {
		return fmt.Errorf("reading the configuration: %w", err)
	}
	c := (*windows.QUERY_SERVICE_CONFIG)(unsafe.Pointer(&buf[0]))
	s.Path = windows.UTF16PtrToString(c.BinaryPathName)
	s.DisplayName = windows.UTF16PtrToString(c.DisplayName)
	s.Account = windows.UTF16PtrToString(c.ServiceStartName)
	s.StartType = startType(c.StartType)
	s.Dependencies = multiString(c.Dependencies)

	buf, err = grow(func(p *byte, size uint32, needed *uint32) error {
		return windows.QueryServiceConfig2(h, windows.SERVICE_CONFIG_DESCRIPTION, p, size, needed)
	})
	if err == nil {
		s.Description = windows.UTF16PtrToString((*windows.SERVICE_DESCRIPTION)(unsafe.Pointer(&buf[0])).Description)
	} else if !errors.Is(err, windows.ERROR_INVALID_LEVEL) {
		return fmt.Errorf("reading the description: %w", err)
	}

	var delayed windows.SERVICE_DELAYED_AUTO_START_INFO
	var needed uint32
	err = windows.QueryServiceConfig2(h, windows.SERVICE_CONFIG_DELAYED_AUTO_START_INFO, (*byte)(unsafe.Pointer(&delayed)), uint32(unsafe.Sizeof(delayed)), &needed)
	if err == nil && delayed.IsDelayedAutoStartUp != 0 && c.StartType == windows.SERVICE_AUTO_START {
		s.StartType = "AutomaticDelayed"
	}
	if err != nil && !errors.Is(err, windows.ERROR_INVALID_LEVEL) {
		return fmt.Errorf("reading the delayed start: %w", err)
	}
	return nil
}

// grow calls a function with a buffer until that is large enough. The buffer is of
// words, as the structures in it have pointers.
func grow(call func(p *byte, size uint32, needed *uint32) error) ([]uint64, error) {
	buf := make([]uint64, 128)
	for range 4 {
		var needed uint32
		err := call((*byte)(unsafe.Pointer(&buf[0])), uint32(len(buf)*8), &needed)
		if err == nil {
			return buf, nil
		}
		if !errors.Is(err, windows.ERROR_INSUFFICIENT_BUFFER) {
			return nil, err
		}
		buf = make([]uint64, needed/8+1)
	}
	return nil, windows.ERROR_INSUFFICIENT_BUFFER
}

// multiString reads a list of strings that ends with an empty one.
func multiString(p *uint16) []string {
	var list []string
	for p != nil && *p != 0 {
		s := windows.UTF16PtrToString(p)
		list = append(list, s)
		for *p != 0 {
			p = (*uint16)(unsafe.Add(unsafe.Pointer(p), unsafe.Sizeof(*p)))
		}
		p = (*uint16)(unsafe.Add(unsafe.Pointer(p), unsafe.Sizeof(*p)))
	}
	return list
}

func serviceState(state uint32) string {
	switch state {
	case windows.SERVICE_STOPPED:
		return "Stopped"
	case windows.SERVICE_START_PENDING:
		return "StartPending"
	case windows.SERVICE_STOP_PENDING:
		return "StopPending"
	case windows.SERVICE_RUNNING:
		return "Running"
	case windows.SERVICE_CONTINUE_PENDING:
		return "ContinuePending"
	case windows.SERVICE_PAUSE_PENDING:
		return "PausePending"
	case windows.SERVICE_PAUSED:
		return "Paused"
	}
	return fmt.Sprintf("Unknown(%d)", state)
}

func startType(t uint32) string {
	switch t {
	case windows.SERVICE_BOOT_START:
		return "Boot"
	case windows.SERVICE_SYSTEM_START:
		return "System"
	case windows.SERVICE_AUTO_START:
		return "Automatic"
	case windows.SERVICE_DEMAND_START:
		return "Manual"
	case windows.SERVICE_DISABLED:
		return "Disabled"
	}
	return fmt.Sprintf("Unknown(%d)", t)
}
