// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package agenthost

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/openshift/windows-instance-api/pkg/agent/api/config"
	"github.com/openshift/windows-instance-api/pkg/agent/engine"
	"github.com/openshift/windows-instance-api/pkg/wmco"
)

// hostState is what is in the JSON file. Names are in lower case.
type hostState struct {
	Boot         string
	Hostname     string
	NextHostname string
	Features     map[string]engine.FeatureState
	Environment  map[string]string
	Certificates map[string]bool
	Firewall     map[string]config.FirewallRule
	Exclusions   map[string]bool
	Services     map[string]*hostService
	Networks     map[string]bool
	Endpoints    map[string]bool
	Updates      []Update
	Version      string // of Windows; empty: as the host came
}

type hostService struct {
	Settings config.ServiceSettings
	Recovery *config.Recovery
	Running  bool
}

// read returns the state in the current boot.
func (s *System) read() (*hostState, error) {
	boot, err := s.boot()
	if err != nil {
		return nil, err
	}
	state := &hostState{Boot: boot}
	content, err := os.ReadFile(s.file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if err == nil {
		if err := json.Unmarshal(content, state); err != nil {
			return nil, fmt.Errorf("reading %s: %w", s.file, err)
		}
	}
	if state.Hostname == "" {
		if state.Hostname, err = os.Hostname(); err != nil {
			return nil, err
		}
		state.NextHostname = state.Hostname
	}
	fill(&state.Features)
	fill(&state.Environment)
	fill(&state.Certificates)
	fill(&state.Firewall)
	fill(&state.Exclusions)
	fill(&state.Services)
	fill(&state.Networks)
	fill(&state.Endpoints)
	if state.Boot != boot {
		state.start(boot)
	}
	return state, nil
}

func fill[T any](m *map[string]T) {
	if *m == nil {
		*m = map[string]T{}
	}
}

// start is what Windows does at a boot.
func (s *hostState) start(boot string) {
	s.Boot, s.Hostname = boot, s.NextHostname
	for name, state := range s.Features {
		if state == engine.FeaturePending {
			s.Features[name] = engine.FeatureEnabled
		}
	}
	s.completeUpdates()
	daemon := s.Services[wmco.WICDService] // starts the others
	for _, service := range s.Services {
		service.Running = service.Settings.StartType == config.StartAutomatic || daemon != nil && strings.HasPrefix(service.Settings.Description, config.DescriptionTag)
	}
}

// change changes the state. The service of the agent does so while others configure the host.
func (s *System) change(change func(*hostState) error) error {
	if err := os.MkdirAll(filepath.Dir(s.file), 0o755); err != nil {
		return err
	}
	lock, err := os.OpenFile(s.file+".lock", os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	defer lock.Close()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return err
	}
	state, err := s.read()
	if err != nil {
		return err
	}
	if err := change(state); err != nil {
		return err
	}
	content, err := json.MarshalIndent(state, "", "\t")
	if err != nil {
		return err
	}
	return writeWhole(s.file, bytes.NewReader(content), 0o600)
}

// has reports whether something exists.
func (s *System) has(set func(*hostState) map[string]bool, name string) (bool, error) {
	state, err := s.read()
	if err != nil {
		return false, err
	}
	return set(state)[name], nil
}

// put creates or removes something.
func (s *System) put(set func(*hostState) map[string]bool, name string, there bool) error {
	return s.change(func(state *hostState) error {
		delete(set(state), name)
		if there {
			set(state)[name] = true
		}
		return nil
	})
}

func certificates(s *hostState) map[string]bool { return s.Certificates }
func exclusions(s *hostState) map[string]bool   { return s.Exclusions }
func networks(s *hostState) map[string]bool     { return s.Networks }
func endpoints(s *hostState) map[string]bool    { return s.Endpoints }
