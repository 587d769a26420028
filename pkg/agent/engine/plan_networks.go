// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package engine

import (
	"maps"
	"slices"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
	"github.com/openshift/windows-instance-api/pkg/agent/api/config"
)

func (p *planner) removedNetworks() {
	networks, endpoints := hnsNames(&p.bundle.Document)
	for _, name := range slices.Sorted(maps.Keys(p.inv.Endpoints)) {
		if !containsFold(endpoints, name) && p.seen.endpoints[fold(name)] {
			p.add(step{}, api.ActionDelete, api.KindEndpoint, name, noLongerWanted, config.OnChange{})
		}
	}
	for _, name := range p.inv.Networks {
		if !containsFold(networks, name) && p.seen.networks[fold(name)] {
			p.add(step{}, api.ActionDelete, api.KindNetwork, name, noLongerWanted, config.OnChange{})
		}
	}
}

// endpoint compares the endpoint, which the first file that waits for a service may need.
func (p *planner) endpoint(after string) {
	e := p.bundle.Document.HNS.Endpoint
	if e == nil || p.seen.endpoints[fold(e.Name)] || slices.ContainsFunc(p.plan.steps, func(s step) bool { return s.Kind == api.KindEndpoint && s.Name == e.Name }) {
		return
	}
	p.add(step{endpoint: e, afterService: after, notNow: !p.seen.networks[fold(e.Network)]}, api.ActionCreate, api.KindEndpoint, e.Name, "is missing", config.OnChange{})
}
