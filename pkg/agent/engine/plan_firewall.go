// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package engine

import (
	"cmp"
	"maps"
	"slices"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
	"github.com/openshift/windows-instance-api/pkg/agent/api/config"
)

func (p *planner) rules() {
	for i, r := range p.bundle.Document.Firewall {
		s := step{rule: &p.bundle.Document.Firewall[i]}
		switch seen := p.seen.firewall[fold(r.Name)]; {
		case seen == nil:
			p.add(s, api.ActionCreate, api.KindFirewall, r.Name, "is missing", config.OnChange{})
		case *seen != normalRule(r):
			p.add(s, api.ActionUpdate, api.KindFirewall, r.Name, "differs", config.OnChange{})
		}
	}
	for _, program := range p.bundle.Document.AntivirusExclusions {
		if !p.seen.exclusions[fold(program)] {
			p.add(step{}, api.ActionCreate, api.KindAntivirus, program, "is missing", config.OnChange{})
		}
	}
}

// normalRule is a rule as a [System] reads it.
func normalRule(r config.FirewallRule) config.FirewallRule {
	r.DisplayName = cmp.Or(r.DisplayName, r.Name)
	return r
}

func (p *planner) removedRules() {
	rules := names(p.bundle.Document.Firewall, func(r config.FirewallRule) string { return r.Name })
	for _, key := range slices.Sorted(maps.Keys(p.inv.Firewall)) {
		if !containsFold(rules, key) && p.seen.firewall[key] != nil {
			p.add(step{}, api.ActionDelete, api.KindFirewall, p.inv.Firewall[key].Name, noLongerWanted, config.OnChange{})
		}
	}
	for _, key := range slices.Sorted(maps.Keys(p.inv.Exclusions)) {
		if !containsFold(p.bundle.Document.AntivirusExclusions, key) && p.seen.exclusions[key] {
			p.add(step{}, api.ActionDelete, api.KindAntivirus, p.inv.Exclusions[key], noLongerWanted, config.OnChange{})
		}
	}
}
