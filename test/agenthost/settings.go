// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package agenthost

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"github.com/openshift/windows-instance-api/pkg/agent/api/config"
	"github.com/openshift/windows-instance-api/pkg/agent/engine"
)

// Hostname implements [engine.System].
func (s *System) Hostname() (current, next string, err error) {
	state, err := s.read()
	if err != nil {
		return "", "", err
	}
	return state.Hostname, state.NextHostname, nil
}

// SetHostname implements [engine.System].
func (s *System) SetHostname(name string) error {
	return s.change(func(state *hostState) error { state.NextHostname = name; return nil })
}

// Feature implements [engine.System].
func (s *System) Feature(_ context.Context, name string) (engine.FeatureState, error) {
	state, err := s.read()
	if err != nil {
		return "", err
	}
	if f, ok := state.Features[name]; ok {
		return f, nil
	}
	return engine.FeatureDisabled, nil
}

// EnableFeature implements [engine.System].
func (s *System) EnableFeature(_ context.Context, name string) error {
	return s.change(func(state *hostState) error { state.Features[name] = engine.FeaturePending; return nil })
}

// Environment implements [engine.System].
func (s *System) Environment() (map[string]string, error) {
	state, err := s.read()
	if err != nil {
		return nil, err
	}
	return state.Environment, nil
}

// SetEnvironment implements [engine.System].
func (s *System) SetEnvironment(name string, value *string) error {
	return s.change(func(state *hostState) error {
		for old := range state.Environment {
			if strings.EqualFold(old, name) {
				delete(state.Environment, old)
			}
		}
		if value != nil {
			state.Environment[name] = *value
		}
		return nil
	})
}

// Certificates implements [engine.System].
func (s *System) Certificates(store string) ([]string, error) {
	state, err := s.read()
	if err != nil {
		return nil, err
	}
	var fingerprints []string
	for key := range state.Certificates {
		if in, fingerprint, _ := strings.Cut(key, "/"); strings.EqualFold(in, store) {
			fingerprints = append(fingerprints, fingerprint)
		}
	}
	return fingerprints, nil
}

// AddCertificate implements [engine.System].
func (s *System) AddCertificate(store string, der []byte) error {
	sum := sha256.Sum256(der)
	return s.put(certificates, strings.ToLower(store+"/"+hex.EncodeToString(sum[:])), true)
}

// RemoveCertificate implements [engine.System].
func (s *System) RemoveCertificate(store, fingerprint string) error {
	return s.put(certificates, strings.ToLower(store+"/"+fingerprint), false)
}

// FirewallRule implements [engine.System].
func (s *System) FirewallRule(name string) (*config.FirewallRule, error) {
	state, err := s.read()
	if err != nil {
		return nil, err
	}
	if rule, ok := state.Firewall[strings.ToLower(name)]; ok {
		return &rule, nil
	}
	return nil, nil
}

// SetFirewallRule implements [engine.System].
func (s *System) SetFirewallRule(rule config.FirewallRule) error {
	return s.change(func(state *hostState) error { state.Firewall[strings.ToLower(rule.Name)] = rule; return nil })
}

// RemoveFirewallRule implements [engine.System].
func (s *System) RemoveFirewallRule(name string) error {
	return s.change(func(state *hostState) error { delete(state.Firewall, strings.ToLower(name)); return nil })
}

// AntivirusExclusion implements [engine.System].
func (s *System) AntivirusExclusion(program string) (bool, error) {
	return s.has(exclusions, strings.ToLower(program))
}

// SetAntivirusExclusion implements [engine.System].
func (s *System) SetAntivirusExclusion(program string, excluded bool) error {
	return s.put(exclusions, strings.ToLower(program), excluded)
}
