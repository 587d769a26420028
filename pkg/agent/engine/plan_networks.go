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
	if p.seen.remade {
		for _, name := range networks {
			if p.seen.networks[fold(name)] && !containsFold(p.inv.Networks, name) {
				p.conflicts = append(p.conflicts, fmt.Errorf("network %s was made by others, and with another %s, which it would keep: remove the host from the cluster, and add it again", name, p.bundle.Document.HNS.Keep.Name))
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(p.inv.Endpoints)) {
		if reason, o := p.removal(endpoints, name); reason != "" && p.seen.endpoints[fold(name)] {
			p.add(step{}, api.ActionDelete, api.KindEndpoint, name, reason, o)
		}
	}
	for _, name := range p.inv.Networks {
		if reason, o := p.removal(networks, name); reason != "" && p.seen.networks[fold(name)] {
			p.add(step{}, api.ActionDelete, api.KindNetwork, name, reason, o)
		}
	}
}

// removal says why a network or an endpoint is removed, and what follows. Empty: it stays.
func (p *planner) removal(wanted []string, name string) (reason string, o config.OnChange) {
	switch {
	case !containsFold(wanted, name):
		return noLongerWanted, o
	case p.seen.remade:
		k := p.bundle.Document.HNS.Keep
		return "was made with another " + k.Name + ", and would keep it", k.OnChange
	}
	return "", o
}

// remakeNetworks has networks be made again if the document has another value of the argument that they keep. A repair leaves them: it
// does not change what they were made with.
func (a *application) remakeNetworks() {
	d := &a.bundle.Document
	if d.HNS == nil || d.HNS.Keep == nil || a.repairing {
		return
	}
	k := d.HNS.Keep
	i := indexOfService(d.Services, k.Service)
	if i < 0 {
		return
	}
	made, known := a.madeWith(k)
	if known && made == valueOf(k, d.Services[i].Arguments) {
		return
	}
	if !slices.ContainsFunc(d.HNS.Networks, func(name string) bool {
		return a.seen.networks[fold(name)] && (known || containsFold(a.Networks, name))
	}) {
		return
	}
	a.seen.remade = true
	for _, v := range d.Variables {
		if v.Network != "" { // the next networks may have others
			delete(a.seen.values, v.Name)
		}
	}
}

// madeWith returns with which value of the argument the service has made the networks. Somebody may have deleted the service. False: it is
// not known.
func (a *application) madeWith(k *config.KeptArgument) (value string, known bool) {
	if has := a.seen.services[fold(k.Service)]; has != nil {
		return valueOf(k, wordsOf(has.Settings.CommandLine)), true
	}
	applied, err := readApplied(a.System)
	if err != nil || applied == nil {
		return "", false
	}
	i := indexOfService(applied.Document.Services, k.Service)
	if i < 0 {
		return "", false
	}
	return valueOf(k, applied.Document.Services[i].Arguments), true
}

// valueOf returns the value of an argument of a service.
func valueOf(k *config.KeptArgument, arguments []string) string {
	if i := slices.Index(arguments, k.Name); i >= 0 && i+1 < len(arguments) {
		return arguments[i+1]
	}
	return k.Default
}

// endpoint compares the endpoint, which the first file that waits for a service may need.
func (p *planner) endpoint(after string) {
	e := p.bundle.Document.HNS.Endpoint
	if e == nil || p.seen.endpoints[fold(e.Name)] && !p.seen.remade || slices.ContainsFunc(p.plan.steps, func(s step) bool { return s.endpoint != nil && s.Name == e.Name }) {
		return
	}
	if e.Waiting && !p.seen.networks[fold(e.Network)] && p.bundle.Document.HNS.IsForeign(e.Network) {
		return // it was there, and comes with its network again
	}
	p.add(step{endpoint: e, afterService: after, notNow: !p.seen.networks[fold(e.Network)] || p.seen.remade}, api.ActionCreate, api.KindEndpoint, e.Name, "is missing", config.OnChange{})
}
