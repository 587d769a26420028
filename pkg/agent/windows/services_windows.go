// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package windows

import (
	"errors"
	"fmt"
	"time"
	"unicode/utf16"
	"unsafe"

	"golang.org/x/sys/windows"
	"golang.org/x/sys/windows/registry"

	"github.com/openshift/windows-instance-api/pkg/agent/api/config"
	"github.com/openshift/windows-instance-api/pkg/agent/engine"
)

// servicesKey is where the service control manager keeps its services.
const servicesKey = `SYSTEM\CurrentControlSet\Services`

// Deadlines for what the service control manager does by itself.
const (
	serviceGoneWithin = 30 * time.Second
	servicePoll       = 100 * time.Millisecond
)

// withManager calls use with the service control manager.
func withManager(access uint32, use func(windows.Handle) error) error {
	manager, err := windows.OpenSCManager(nil, nil, access)
	if err != nil {
		return fmt.Errorf("opening the service control manager: %w", err)
	}
	return errors.Join(use(manager), windows.CloseServiceHandle(manager))
}

// withService calls use with a service that is there.
func withService(name string, access uint32, use func(windows.Handle) error) error {
	return withManager(windows.SC_MANAGER_CONNECT, func(manager windows.Handle) error {
		n, err := windows.UTF16PtrFromString(name)
		if err != nil {
			return err
		}
		service, err := windows.OpenService(manager, n, access)
		if err != nil {
			return fmt.Errorf("opening service %s: %w", name, err)
		}
		return errors.Join(use(service), windows.CloseServiceHandle(service))
	})
}

func queryStatus(service windows.Handle) (windows.SERVICE_STATUS_PROCESS, error) {
	var status windows.SERVICE_STATUS_PROCESS
	var needed uint32
	err := windows.QueryServiceStatusEx(service, windows.SC_STATUS_PROCESS_INFO, (*byte)(unsafe.Pointer(&status)), uint32(unsafe.Sizeof(status)), &needed)
	if err != nil {
		return status, fmt.Errorf("reading the state: %w", err)
	}
	return status, nil
}

// Service implements [engine.System].
func (s *windowsSystem) Service(name string) (*engine.Service, error) {
	var out *engine.Service
	err := withService(name, windows.SERVICE_QUERY_CONFIG|windows.SERVICE_QUERY_STATUS, func(service windows.Handle) error {
		status, err := queryStatus(service)
		if err != nil {
			return err
		}
		read := &engine.Service{State: engineState(status.CurrentState)}
		if read.State == engine.ServiceStopped {
			read.ExitCode = status.Win32ExitCode
			if status.Win32ExitCode == uint32(windows.ERROR_SERVICE_SPECIFIC_ERROR) {
				read.ExitCode = status.ServiceSpecificExitCode
			}
		}
		if err := readSettings(service, name, &read.Settings); err != nil {
			return err
		}
		read.Recovery, err = readRecovery(service)
		if errors.Is(err, windows.ERROR_INVALID_LEVEL) {
			read.RecoveryUnknown, err = true, nil
		}
		out = read
		return err
	})
	if errors.Is(err, windows.ERROR_SERVICE_DOES_NOT_EXIST) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return out, nil
}

// engineState drops what is between the states that matter: services of ours cannot pause.
func engineState(state uint32) engine.ServiceState {
	switch state {
	case windows.SERVICE_STOPPED:
		return engine.ServiceStopped
	case windows.SERVICE_START_PENDING:
		return engine.ServiceStartPending
	case windows.SERVICE_STOP_PENDING:
		return engine.ServiceStopPending
	default:
		return engine.ServiceRunning
	}
}

func readSettings(service windows.Handle, name string, out *config.ServiceSettings) error {
	buf, err := grow(func(p *byte, size uint32, needed *uint32) error {
		return windows.QueryServiceConfig(service, (*windows.QUERY_SERVICE_CONFIG)(unsafe.Pointer(p)), size, needed)
	})
	if err != nil {
		return fmt.Errorf("reading the configuration: %w", err)
	}
	c := (*windows.QUERY_SERVICE_CONFIG)(unsafe.Pointer(&buf[0]))
	out.CommandLine = windows.UTF16PtrToString(c.BinaryPathName)
	out.Dependencies = multiString(c.Dependencies)
	if len(out.Dependencies) == 0 {
		// Not every service control manager tells them, but all keep them here.
		out.Dependencies, err = readStrings(servicesKey+`\`+name, "DependOnService")
		if err := notMissing(err); err != nil {
			return err
		}
	}
	out.StartType = config.StartType(startType(c.StartType))
	buf, err = grow(func(p *byte, size uint32, needed *uint32) error {
		return windows.QueryServiceConfig2(service, windows.SERVICE_CONFIG_DESCRIPTION, p, size, needed)
	})
	if err != nil {
		return fmt.Errorf("reading the description: %w", err)
	}
	out.Description = windows.UTF16PtrToString((*windows.SERVICE_DESCRIPTION)(unsafe.Pointer(&buf[0])).Description)
	return nil
}

func readRecovery(service windows.Handle) (*config.Recovery, error) {
	buf, err := grow(func(p *byte, size uint32, needed *uint32) error {
		return windows.QueryServiceConfig2(service, windows.SERVICE_CONFIG_FAILURE_ACTIONS, p, size, needed)
	})
	if err != nil {
		return nil, fmt.Errorf("reading the recovery actions: %w", err)
	}
	actions := (*windows.SERVICE_FAILURE_ACTIONS)(unsafe.Pointer(&buf[0]))
	if actions.ActionsCount == 0 || actions.Actions == nil {
		return nil, nil
	}
	r := &config.Recovery{ResetAfterSeconds: int64(actions.ResetPeriod)}
	for _, a := range unsafe.Slice(actions.Actions, actions.ActionsCount) {
		delay := int64(a.Delay)
		if a.Type != windows.SC_ACTION_RESTART {
			delay = 0 // no document asks for that, so it differs
		}
		r.RestartDelaysMilliseconds = append(r.RestartDelaysMilliseconds, delay)
	}
	return r, nil
}

// multiStringOf is a list of strings that ends with an empty one.
func multiStringOf(list []string) *uint16 {
	var out []uint16
	for _, s := range list {
		out = append(append(out, utf16.Encode([]rune(s))...), 0)
	}
	out = append(out, 0, 0)
	return &out[0]
}

func windowsStartType(t config.StartType) uint32 {
	if t == config.StartManual {
		return windows.SERVICE_DEMAND_START
	}
	return windows.SERVICE_AUTO_START
}

const serviceConfigAccess = windows.SERVICE_CHANGE_CONFIG | windows.SERVICE_START // an action that restarts needs it

// CreateService implements [engine.System].
func (s *windowsSystem) CreateService(name string, settings config.ServiceSettings, recovery *config.Recovery) error {
	err := withManager(windows.SC_MANAGER_CONNECT|windows.SC_MANAGER_CREATE_SERVICE, func(manager windows.Handle) error {
		n, err := windows.UTF16PtrFromString(name)
		if err != nil {
			return err
		}
		command, err := windows.UTF16PtrFromString(settings.CommandLine)
		if err != nil {
			return err
		}
		// No account means LocalSystem.
		service, err := windows.CreateService(manager, n, n, serviceConfigAccess, windows.SERVICE_WIN32_OWN_PROCESS, windowsStartType(settings.StartType),
			windows.SERVICE_ERROR_NORMAL, command, nil, nil, multiStringOf(settings.Dependencies), nil, nil)
		if err != nil {
			return fmt.Errorf("creating service %s: %w", name, err)
		}
		return errors.Join(configureDetails(service, settings, recovery), windows.CloseServiceHandle(service))
	})
	return errors.Join(err, flushServices())
}

// ConfigureService implements [engine.System].
func (s *windowsSystem) ConfigureService(name string, settings config.ServiceSettings, recovery *config.Recovery) error {
	err := withService(name, serviceConfigAccess, func(service windows.Handle) error {
		command, err := windows.UTF16PtrFromString(settings.CommandLine)
		if err != nil {
			return err
		}
		err = windows.ChangeServiceConfig(service, windows.SERVICE_WIN32_OWN_PROCESS, windowsStartType(settings.StartType), windows.SERVICE_ERROR_NORMAL,
			command, nil, nil, multiStringOf(settings.Dependencies), nil, nil, nil)
		if err != nil {
			return fmt.Errorf("configuring service %s: %w", name, err)
		}
		return configureDetails(service, settings, recovery)
	})
	return errors.Join(err, flushServices())
}

// configureDetails sets what the service control manager takes in calls of its own.
func configureDetails(service windows.Handle, settings config.ServiceSettings, recovery *config.Recovery) error {
	text, err := windows.UTF16PtrFromString(settings.Description)
	if err != nil {
		return err
	}
	description := windows.SERVICE_DESCRIPTION{Description: text}
	if err := windows.ChangeServiceConfig2(service, windows.SERVICE_CONFIG_DESCRIPTION, (*byte)(unsafe.Pointer(&description))); err != nil {
		return fmt.Errorf("setting the description: %w", err)
	}
	// An empty list takes away what is there; nil would leave it.
	list := []windows.SC_ACTION{{}}
	actions := windows.SERVICE_FAILURE_ACTIONS{Actions: &list[0]}
	if recovery != nil {
		list = list[:0]
		for _, delay := range recovery.RestartDelaysMilliseconds {
			list = append(list, windows.SC_ACTION{Type: windows.SC_ACTION_RESTART, Delay: uint32(delay)})
		}
		actions = windows.SERVICE_FAILURE_ACTIONS{ResetPeriod: uint32(recovery.ResetAfterSeconds), ActionsCount: uint32(len(list)), Actions: &list[0]}
	}
	if err := windows.ChangeServiceConfig2(service, windows.SERVICE_CONFIG_FAILURE_ACTIONS, (*byte)(unsafe.Pointer(&actions))); err != nil && !errors.Is(err, windows.ERROR_INVALID_LEVEL) {
		return fmt.Errorf("setting the recovery actions: %w", err)
	}
	// Programs that end with an error have failed as well as those that crash.
	flag := windows.SERVICE_FAILURE_ACTIONS_FLAG{FailureActionsOnNonCrashFailures: 1}
	if err := windows.ChangeServiceConfig2(service, windows.SERVICE_CONFIG_FAILURE_ACTIONS_FLAG, (*byte)(unsafe.Pointer(&flag))); err != nil && !errors.Is(err, windows.ERROR_INVALID_LEVEL) {
		return fmt.Errorf("setting when to recover: %w", err)
	}
	return nil
}

var procRegFlushKey = windows.NewLazySystemDLL("advapi32.dll").NewProc("RegFlushKey")

// flushServices writes the hive with the services to the disk.
func flushServices() error { return flushKey(servicesKey) }

func flushKey(path string) error {
	k, err := registry.OpenKey(registry.LOCAL_MACHINE, path, registry.QUERY_VALUE)
	if err != nil {
		return fmt.Errorf(`opening HKLM\%s: %w`, path, err)
	}
	defer k.Close() //nolint:errcheck // only read
	if code, _, _ := procRegFlushKey.Call(uintptr(k)); code != 0 {
		return fmt.Errorf(`writing HKLM\%s to the disk: %w`, path, windows.Errno(code))
	}
	return nil
}

// DeleteService implements [engine.System]. A service lasts until the last handle to it is
// closed, which may be somebody else's.
func (s *windowsSystem) DeleteService(name string) error {
	err := withService(name, windows.DELETE, func(service windows.Handle) error {
		if err := windows.DeleteService(service); err != nil && !errors.Is(err, windows.ERROR_SERVICE_MARKED_FOR_DELETE) {
			return fmt.Errorf("deleting service %s: %w", name, err)
		}
		return nil
	})
	if err != nil && !errors.Is(err, windows.ERROR_SERVICE_DOES_NOT_EXIST) {
		return err
	}
	for deadline := time.Now().Add(serviceGoneWithin); ; time.Sleep(servicePoll) {
		err := withService(name, windows.SERVICE_QUERY_STATUS, func(windows.Handle) error { return nil })
		if errors.Is(err, windows.ERROR_SERVICE_DOES_NOT_EXIST) {
			return flushServices()
		}
		if err != nil && !errors.Is(err, windows.ERROR_SERVICE_MARKED_FOR_DELETE) {
			return err
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("service %s is deleted, but another program, like the console of services, still holds it open", name)
		}
	}
}

// StartService implements [engine.System].
func (s *windowsSystem) StartService(name string) error {
	return withService(name, windows.SERVICE_START, func(service windows.Handle) error {
		if err := windows.StartService(service, 0, nil); err != nil && !errors.Is(err, windows.ERROR_SERVICE_ALREADY_RUNNING) {
			return err
		}
		return nil
	})
}

// StopService implements [engine.System].
func (s *windowsSystem) StopService(name string) error {
	return withService(name, windows.SERVICE_STOP, func(service windows.Handle) error {
		var status windows.SERVICE_STATUS
		if err := windows.ControlService(service, windows.SERVICE_CONTROL_STOP, &status); err != nil && !errors.Is(err, windows.ERROR_SERVICE_NOT_ACTIVE) {
			return err
		}
		return nil
	})
}

// KillService implements [engine.System].
func (s *windowsSystem) KillService(name string) error {
	return withService(name, windows.SERVICE_QUERY_STATUS, func(service windows.Handle) error {
		status, err := queryStatus(service)
		if err != nil || status.ProcessId == 0 {
			return err
		}
		process, err := windows.OpenProcess(windows.PROCESS_TERMINATE, false, status.ProcessId)
		if err != nil {
			return fmt.Errorf("opening process %d: %w", status.ProcessId, err)
		}
		err = windows.TerminateProcess(process, 1)
		if err != nil {
			err = fmt.Errorf("terminating process %d: %w", status.ProcessId, err)
		}
		return errors.Join(err, windows.CloseHandle(process))
	})
}
