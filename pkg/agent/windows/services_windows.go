// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package windows

import (
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf16"
	"unsafe"

	"golang.org/x/sys/windows"
	"golang.org/x/sys/windows/registry"
	"golang.org/x/sys/windows/svc"
	"golang.org/x/sys/windows/svc/mgr"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
	"github.com/openshift/windows-instance-api/pkg/agent/api/config"
	"github.com/openshift/windows-instance-api/pkg/agent/engine"
)

// servicesKey has the services of the service control manager.
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

// openService calls use with a service that exists.
func openService(manager windows.Handle, name string, access uint32, use func(*mgr.Service) error) error {
	n, err := windows.UTF16PtrFromString(name)
	if err != nil {
		return err
	}
	handle, err := windows.OpenService(manager, n, access)
	if err != nil {
		return fmt.Errorf("opening service %s: %w", name, err)
	}
	service := &mgr.Service{Name: name, Handle: handle}
	return errors.Join(use(service), service.Close())
}

// withService is openService with a manager for this one call.
func withService(name string, access uint32, use func(*mgr.Service) error) error {
	return withManager(windows.SC_MANAGER_CONNECT, func(manager windows.Handle) error {
		return openService(manager, name, access, use)
	})
}

// Service implements [engine.System].
func (s *windowsSystem) Service(name string) (*engine.Service, error) {
	out := &engine.Service{}
	err := withService(name, queryAccess, func(service *mgr.Service) error {
		var read api.Service
		if err := readService(service, &read); err != nil {
			return err
		}
		out.State, out.PID = engineState(read.State), int(read.PID)
		if out.State == engine.ServiceStopped {
			out.ExitCode = read.ExitCode
		}
		out.Settings = config.ServiceSettings{
			CommandLine: read.Path, Dependencies: read.Dependencies, Description: read.Description,
			StartType: config.StartType(strings.TrimSuffix(read.StartType, "Delayed")),
		}
		var err error
		if len(out.Settings.Dependencies) == 0 {
			// Not every service control manager reports them, but all keep them here.
			out.Settings.Dependencies, err = readValue(servicesKey+`\`+name, "DependOnService", registry.Key.GetStringsValue)
			if err := notMissing(err); err != nil {
				return err
			}
		}
		out.Recovery, err = readRecovery(service)
		if errors.Is(err, windows.ERROR_INVALID_LEVEL) {
			out.RecoveryUnknown, err = true, nil
		}
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

// engineState maps the states that services of ours cannot have, such as paused, to running.
func engineState(state string) engine.ServiceState {
	switch s := engine.ServiceState(state); s {
	case engine.ServiceStopped, engine.ServiceStartPending, engine.ServiceStopPending:
		return s
	default:
		return engine.ServiceRunning
	}
}

func readRecovery(service *mgr.Service) (*config.Recovery, error) {
	actions, err := service.RecoveryActions()
	if err != nil {
		return nil, fmt.Errorf("reading the recovery actions: %w", err)
	}
	if len(actions) == 0 {
		return nil, nil
	}
	reset, err := service.ResetPeriod()
	if err != nil {
		return nil, fmt.Errorf("reading when failures are forgotten: %w", err)
	}
	r := &config.Recovery{ResetAfterSeconds: int64(reset)}
	for _, a := range actions {
		delay := a.Delay.Milliseconds()
		if a.Type != mgr.ServiceRestart {
			delay = 0 // no document has that, so it differs
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
		handle, err := windows.CreateService(manager, n, n, serviceConfigAccess, windows.SERVICE_WIN32_OWN_PROCESS, windowsStartType(settings.StartType),
			windows.SERVICE_ERROR_NORMAL, command, nil, nil, multiStringOf(settings.Dependencies), nil, nil)
		if err != nil {
			return fmt.Errorf("creating service %s: %w", name, err)
		}
		service := &mgr.Service{Name: name, Handle: handle}
		return errors.Join(configureDetails(service, settings, recovery), service.Close())
	})
	return errors.Join(err, flushServices())
}

// ConfigureService implements [engine.System].
func (s *windowsSystem) ConfigureService(name string, settings config.ServiceSettings, recovery *config.Recovery) error {
	err := withService(name, serviceConfigAccess, func(service *mgr.Service) error {
		command, err := windows.UTF16PtrFromString(settings.CommandLine)
		if err != nil {
			return err
		}
		err = windows.ChangeServiceConfig(service.Handle, windows.SERVICE_WIN32_OWN_PROCESS, windowsStartType(settings.StartType), windows.SERVICE_ERROR_NORMAL,
			command, nil, nil, multiStringOf(settings.Dependencies), nil, nil, nil)
		if err != nil {
			return fmt.Errorf("configuring service %s: %w", name, err)
		}
		return configureDetails(service, settings, recovery)
	})
	return errors.Join(err, flushServices())
}

// SetAutomatic implements [engine.System].
func (s *windowsSystem) SetAutomatic(name string, recovery *config.Recovery) error {
	err := withService(name, serviceConfigAccess, func(service *mgr.Service) error {
		err := windows.ChangeServiceConfig(service.Handle, windows.SERVICE_NO_CHANGE, windows.SERVICE_AUTO_START, windows.SERVICE_NO_CHANGE, nil, nil, nil, nil, nil, nil, nil)
		if err != nil {
			return fmt.Errorf("setting the start type of service %s: %w", name, err)
		}
		return configureFailures(service, recovery)
	})
	return errors.Join(err, flushServices())
}

// configureDetails sets the details that have calls of their own.
func configureDetails(service *mgr.Service, settings config.ServiceSettings, recovery *config.Recovery) error {
	text, err := windows.UTF16PtrFromString(settings.Description)
	if err != nil {
		return err
	}
	description := windows.SERVICE_DESCRIPTION{Description: text}
	if err := windows.ChangeServiceConfig2(service.Handle, windows.SERVICE_CONFIG_DESCRIPTION, (*byte)(unsafe.Pointer(&description))); err != nil {
		return fmt.Errorf("setting the description: %w", err)
	}
	return configureFailures(service, recovery)
}

// configureFailures sets what follows when the program of a service ends by itself.
func configureFailures(service *mgr.Service, recovery *config.Recovery) error {
	if err := configureRecovery(service, recovery); err != nil {
		return err
	}
	// Programs that end with an error have failed as well as those that crash.
	if err := service.SetRecoveryActionsOnNonCrashFailures(true); err != nil && !errors.Is(err, windows.ERROR_INVALID_LEVEL) {
		return fmt.Errorf("setting when to recover: %w", err)
	}
	return nil
}

// SetRecovery implements [engine.System].
func (s *windowsSystem) SetRecovery(name string, recovery *config.Recovery) error {
	return withService(name, serviceConfigAccess, func(service *mgr.Service) error { return configureRecovery(service, recovery) })
}

// configureRecovery sets the recovery actions, where the service control manager has some.
func configureRecovery(service *mgr.Service, recovery *config.Recovery) (err error) {
	if recovery == nil {
		err = service.ResetRecoveryActions()
	} else {
		var actions []mgr.RecoveryAction
		for _, delay := range recovery.RestartDelaysMilliseconds {
			actions = append(actions, mgr.RecoveryAction{Type: mgr.ServiceRestart, Delay: time.Duration(delay) * time.Millisecond})
		}
		err = service.SetRecoveryActions(actions, uint32(recovery.ResetAfterSeconds))
	}
	if err != nil && !errors.Is(err, windows.ERROR_INVALID_LEVEL) {
		return fmt.Errorf("setting the recovery actions: %w", err)
	}
	return nil
}

var procRegFlushKey = windows.NewLazySystemDLL("advapi32.dll").NewProc("RegFlushKey")

// flushServices writes the hive with the services to the disk.
func flushServices() error { return flushKey(servicesKey) }

func flushKey(path string) error {
	return withKey(path, func(k registry.Key) error {
		if code, _, _ := procRegFlushKey.Call(uintptr(k)); code != 0 {
			return fmt.Errorf(`writing HKLM\%s to the disk: %w`, path, windows.Errno(code))
		}
		return nil
	})
}

// DeleteService implements [engine.System]. A service exists until the last handle to it is
// closed, which may be that of another program.
func (s *windowsSystem) DeleteService(name string) error {
	err := withService(name, windows.DELETE, func(service *mgr.Service) error {
		if err := service.Delete(); err != nil && !errors.Is(err, windows.ERROR_SERVICE_MARKED_FOR_DELETE) {
			return fmt.Errorf("deleting service %s: %w", name, err)
		}
		return nil
	})
	if err != nil && !errors.Is(err, windows.ERROR_SERVICE_DOES_NOT_EXIST) {
		return err
	}
	for deadline := time.Now().Add(serviceGoneWithin); ; time.Sleep(servicePoll) {
		err := withService(name, windows.SERVICE_QUERY_STATUS, func(*mgr.Service) error { return nil })
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
	return withService(name, windows.SERVICE_START, func(service *mgr.Service) error {
		err := service.Start()
		switch {
		case errors.Is(err, windows.ERROR_SERVICE_ALREADY_RUNNING):
			return nil
		case errors.Is(err, windows.ERROR_SERVICE_REQUEST_TIMEOUT):
			return fmt.Errorf("%w: %w", engine.ErrNoAnswer, err)
		}
		return err
	})
}

// StopService implements [engine.System].
func (s *windowsSystem) StopService(name string) error {
	return withService(name, windows.SERVICE_STOP|windows.SERVICE_ENUMERATE_DEPENDENTS, func(service *mgr.Service) error {
		_, err := service.Control(svc.Stop)
		switch {
		case errors.Is(err, windows.ERROR_SERVICE_NOT_ACTIVE):
			return nil
		case errors.Is(err, windows.ERROR_DEPENDENT_SERVICES_RUNNING):
			names, listErr := service.ListDependentServices(svc.Active)
			return errors.Join(fmt.Errorf("%w: %s", engine.ErrNeeded, strings.Join(names, ", ")), listErr)
		}
		return err
	})
}
