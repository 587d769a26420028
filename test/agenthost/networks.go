// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package agenthost

import (
	"context"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
	"github.com/openshift/windows-instance-api/pkg/agent/api/config"
	"github.com/openshift/windows-instance-api/pkg/agent/engine"
)

// HNSNetwork implements [engine.System].
func (s *System) HNSNetwork(_ context.Context, name string) (bool, error) {
	return s.has(networks, name)
}

// HNSNetworks implements [engine.System]. There are those of [overlayService] only.
func (s *System) HNSNetworks(context.Context) ([]api.HNSNetwork, error) { return nil, nil }

// RemoveHNSNetwork implements [engine.System].
func (s *System) RemoveHNSNetwork(_ context.Context, name string) error {
	return s.put(networks, name, false)
}

// RemoveHNSPolicyLists implements [engine.System]. There are none.
func (s *System) RemoveHNSPolicyLists(context.Context, string) error { return nil }

// HNSEndpoint implements [engine.System].
func (s *System) HNSEndpoint(_ context.Context, name string) (string, error) {
	there, err := s.has(endpoints, name)
	if err == nil && !there {
		err = engine.ErrNotYet
	}
	return "10.132.0.3", err
}

// MakeHNSEndpoint implements [engine.System].
func (s *System) MakeHNSEndpoint(_ context.Context, e config.HNSEndpoint) error {
	return s.put(endpoints, e.Name, true)
}

// RemoveHNSEndpoint implements [engine.System].
func (s *System) RemoveHNSEndpoint(_ context.Context, name string) error {
	return s.put(endpoints, name, false)
}
