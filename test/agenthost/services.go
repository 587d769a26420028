// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package agenthost

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/openshift/windows-instance-api/pkg/agent/api/config"
	"github.com/openshift/windows-instance-api/pkg/agent/engine"
)

// Service implements [engine.System].
func (s *System) Service(name string) (*engine.Service, error) {
	state, err := s.read()
	if err != nil {
		return nil, err
	}
	now := state.Services[strings.ToLower(name)]
	if now == nil {
		return nil, nil
	}
	service := &engine.Service{Settings: now.Settings, Recovery: now.Recovery, State: engine.ServiceStopped}
	if now.Running {
		service.State = engine.ServiceRunning
	}
	return service, nil
}

// CreateService implements [engine.System].
func (s *System) CreateService(name string, settings config.ServiceSettings, recovery *config.Recovery) error {
	return s.change(func(state *hostState) error {
		if state.Services[strings.ToLower(name)] != nil {
			return fmt.Errorf("service %s exists", name)
		}
		state.Services[strings.ToLower(name)] = &hostService{Settings: settings, Recovery: recovery}
		return nil
	})
}

func (s *System) changeService(name string, change func(*hostState, *hostService) error) error {
	return s.change(func(state *hostState) error {
		service := state.Services[strings.ToLower(name)]
		if service == nil {
			return fmt.Errorf("service %s does not exist", name)
		}
		return change(state, service)
	})
}

// ConfigureService implements [engine.System].
func (s *System) ConfigureService(name string, settings config.ServiceSettings, recovery *config.Recovery) error {
	return s.changeService(name, func(_ *hostState, service *hostService) error {
		service.Settings, service.Recovery = settings, recovery
		return nil
	})
}

// DeleteService implements [engine.System].
func (s *System) DeleteService(name string) error {
	return s.change(func(state *hostState) error {
		delete(state.Services, strings.ToLower(name))
		return nil
	})
}

// overlayService is the program that makes the networks of a host, and their names; see
// github.com/ovn-kubernetes/ovn-kubernetes, go-controller/hybrid-overlay.
const overlayService = "hybrid-overlay-node"

var overlayNetworks = []string{"BaseOVNKubernetesHybridOverlayNetwork", "OVNKubernetesHybridOverlayNetwork"}

// StartService implements [engine.System]. The program of a service must exist.
func (s *System) StartService(name string) error {
	return s.changeService(name, func(state *hostState, service *hostService) error {
		program := strings.Trim(service.Settings.CommandLine, `"`)
		program, _, _ = strings.Cut(program, `"`)
		if _, err := os.Stat(s.local(program)); err != nil {
			program, _, _ = strings.Cut(program, " ")
			if _, err := os.Stat(s.local(program)); err != nil {
				return fmt.Errorf("the program of service %s: %w", name, err)
			}
		}
		for _, dependency := range service.Settings.Dependencies {
			if d := state.Services[strings.ToLower(dependency)]; d != nil && !d.Running {
				return fmt.Errorf("service %s needs %s, which does not run", name, dependency)
			}
		}
		service.Running = true
		if name == overlayService {
			for _, network := range overlayNetworks {
				state.Networks[network] = true
			}
		}
		return nil
	})
}

// StopService implements [engine.System].
func (s *System) StopService(name string) error {
	return s.changeService(name, func(state *hostState, service *hostService) error {
		for other, o := range state.Services {
			if o.Running && slices.ContainsFunc(o.Settings.Dependencies, func(d string) bool { return strings.EqualFold(d, name) }) {
				return fmt.Errorf("service %s runs and needs %s", other, name)
			}
		}
		service.Running = false
		return nil
	})
}

// SetRecovery implements [engine.System].
func (s *System) SetRecovery(name string, recovery *config.Recovery) error {
	return s.changeService(name, func(_ *hostState, service *hostService) error {
		service.Recovery = recovery
		return nil
	})
}

// SetAutomatic implements [engine.System].
func (s *System) SetAutomatic(name string, recovery *config.Recovery) error {
	return s.changeService(name, func(_ *hostState, service *hostService) error {
		service.Settings.StartType, service.Recovery = config.StartAutomatic, recovery
		return nil
	})
}

// Processes implements [engine.System]. Services run no program.
func (s *System) Processes() ([]engine.Process, error) { return nil, nil }

// KillProcess implements [engine.System]. There is none.
func (s *System) KillProcess(engine.Process) error { return nil }
