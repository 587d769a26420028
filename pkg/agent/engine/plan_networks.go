// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package engine

import (
	"fmt"
	"maps"
	"slices"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
	"github.com/openshift/windows-instance-api/pkg/agent/api/config"
)

// addProgram is how a payload gets a program that is not built from modules.
const addProgram = "add it to the payload, out of an image of the Windows Machine Config Operator with hack/take-from-wmco.sh"

func (p *planner) removedNetworks() {
	networks, endpoints := hnsNames(&p.bundle.Document)
	for _, name := range p.inv.Networks {
		if p.bundle.Document.HNS.IsForeign(name) && p.seen.networks[fold(name)] {
			// What makes it would be removed, and with it the network of pods that run.
			p.conflicts = append(p.conflicts, fmt.Errorf("pods of the host are connected by network %s, which a service makes that the host would have no longer, as the payload does not have its program: "+
				"%s; or remove the host, and configure it again to have the network made by another program", name, addProgram))
		}
	}
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
	if e.Waiting && !p.seen.networks[fold(e.Network)] && p.bundle.Document.HNS.IsForeign(e.Network) {
		return // it was there, and comes with its network again
	}
	p.add(step{endpoint: e, afterService: after, notNow: !p.seen.networks[fold(e.Network)]}, api.ActionCreate, api.KindEndpoint, e.Name, "is missing", config.OnChange{})
}
