// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package windows

import (
	"cmp"
	"errors"
	"fmt"
	"time"
	"unsafe"

	"golang.org/x/sys/windows"
	"golang.org/x/sys/windows/svc/mgr"

	"github.com/openshift/windows-instance-api/pkg/agent"
	"github.com/openshift/windows-instance-api/pkg/agent/api"
)

// collectServices reads the services of interest. Each one has its own error.
func collectServices(f *api.Facts) {
	f.Collect("services", func() error {
		return withManager(windows.SC_MANAGER_CONNECT, func(manager windows.Handle) error {
			for _, name := range agent.ServicesOfInterest() {
				f.Collect("services/"+name, func() error {
					err := openService(manager, name, queryAccess, func(service *mgr.Service) error {
						s := &api.Service{Name: name}
						err := readService(service, s)
						if s.State != "" {
							f.Services = append(f.Services, *s)
						}
						return err
					})
					if errors.Is(err, windows.ERROR_SERVICE_DOES_NOT_EXIST) {
						return nil
					}
					return err
				})
			}
			return nil
		})
	})
}

// queryAccess is the access that [readService] needs.
const queryAccess = windows.SERVICE_QUERY_CONFIG | windows.SERVICE_QUERY_STATUS

// readService reads the state and the configuration of a service. With an error, what could
// be read is set. It does not use mgr.Service.Config, which fails as a whole where one level
// of detail is not supported.
func readService(service *mgr.Service, s *api.Service) error {
	status, err := service.Query()
	if err != nil {
		return fmt.Errorf("reading the state: %w", err)
	}
	s.State, s.PID, s.ExitCode = nameOf(serviceStates, uint32(status.State)), status.ProcessId, status.Win32ExitCode
	// ERROR_SERVICE_SPECIFIC_ERROR: the service has a code of its own.
	if status.Win32ExitCode == uint32(windows.ERROR_SERVICE_SPECIFIC_ERROR) {
		s.ExitCode = status.ServiceSpecificExitCode
	}
	s.StartedAt = startOf(status.ProcessId)

	c, err := grow(serviceBytes, windows.ERROR_INSUFFICIENT_BUFFER, func(c *windows.QUERY_SERVICE_CONFIG, size *uint32) error {
		return windows.QueryServiceConfig(service.Handle, c, *size, size)
	})
	if err != nil {
		return fmt.Errorf("reading the configuration: %w", err)
	}
	s.Path = windows.UTF16PtrToString(c.BinaryPathName)
	s.DisplayName = windows.UTF16PtrToString(c.DisplayName)
	s.Account = windows.UTF16PtrToString(c.ServiceStartName)
	s.StartType = nameOf(startTypes, c.StartType)
	s.Dependencies = multiString(c.Dependencies)

	description, err := readConfig2[windows.SERVICE_DESCRIPTION](service, windows.SERVICE_CONFIG_DESCRIPTION)
	if err != nil {
		return fmt.Errorf("reading the description: %w", err)
	}
	s.Description = windows.UTF16PtrToString(description.Description)
	delayed, err := readConfig2[windows.SERVICE_DELAYED_AUTO_START_INFO](service, windows.SERVICE_CONFIG_DELAYED_AUTO_START_INFO)
	if err != nil {
		return fmt.Errorf("reading the delayed start: %w", err)
	}
	if delayed.IsDelayedAutoStartUp != 0 && c.StartType == windows.SERVICE_AUTO_START {
		s.StartType = "AutomaticDelayed"
	}
	return nil
}

// startOf is when a process was started. Nil: there is none, or it cannot be opened, as some of those of Windows.
func startOf(pid uint32) *time.Time {
	if pid == 0 {
		return nil
	}
	p, err := openProcess(pid, 0)
	if err != nil {
		return nil
	}
	defer p.close()
	return new(fileTime(uint64(p.started)))
}

// readConfig2 reads one level of detail. It is the zero value where the service control
// manager does not support the level.
func readConfig2[T any](service *mgr.Service, level uint32) (*T, error) {
	detail, err := grow(serviceBytes, windows.ERROR_INSUFFICIENT_BUFFER, func(p *T, size *uint32) error {
		return windows.QueryServiceConfig2(service.Handle, level, (*byte)(unsafe.Pointer(p)), *size, size)
	})
	if errors.Is(err, windows.ERROR_INVALID_LEVEL) {
		return new(T), nil
	}
	return detail, err
}

// serviceStates and startTypes are names for values of winsvc.h.
var (
	serviceStates = map[uint32]string{
		windows.SERVICE_STOPPED:          "Stopped",
		windows.SERVICE_START_PENDING:    "StartPending",
		windows.SERVICE_STOP_PENDING:     "StopPending",
		windows.SERVICE_RUNNING:          "Running",
		windows.SERVICE_CONTINUE_PENDING: "ContinuePending",
		windows.SERVICE_PAUSE_PENDING:    "PausePending",
		windows.SERVICE_PAUSED:           "Paused",
	}
	startTypes = map[uint32]string{
		windows.SERVICE_BOOT_START:   "Boot",
		windows.SERVICE_SYSTEM_START: "System",
		windows.SERVICE_AUTO_START:   "Automatic",
		windows.SERVICE_DEMAND_START: "Manual",
		windows.SERVICE_DISABLED:     "Disabled",
	}
)

func nameOf(names map[uint32]string, value uint32) string {
	return cmp.Or(names[value], fmt.Sprintf("Unknown(%d)", value))
}
