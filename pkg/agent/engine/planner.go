// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package engine

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
	"github.com/openshift/windows-instance-api/pkg/agent/api/config"
)

// planner compares what is desired with what is there.
type planner struct {
	bundle *config.Bundle
	seen   *observation
	inv    *inventory
	// except is a service that is left alone.
	except string
	// healing keeps what costs more than a restart of services out of the plan, and what
	// cannot be done at once.
	healing bool

	plan      plan
	conflicts []error
}

// diff returns what has to be done for a host to be as the bundle says. It changes
// neither the observation nor the inventory.
func (p *planner) diff() (*plan, error) {
	revision, err := p.bundle.Document.Revision()
	if err != nil {
		return nil, err
	}
	p.plan.Revision, p.plan.Impact, p.plan.Items = revision, config.ImpactNone, []api.Item{}
	// What a restart of the host may be for.
	p.hostname()
	p.features()
	p.environment()
	p.certificates()
	// What is no longer wanted, from the top down.
	p.removedServices()
	p.removedNetworks()
	p.removedFiles()
	p.removedRules()
	// What is wanted, from the bottom up.
	p.directories()
	p.files("")
	p.rules()
	p.services()
	p.removedGenerated()
	p.removedDirectories()
	if len(p.conflicts) > 0 {
		return nil, &Error{api.ReasonConflict, fmt.Errorf("something on the host is in the way: %w", errors.Join(p.conflicts...))}
	}
	p.finish()
	if err := p.space(); err != nil {
		return nil, err
	}
	return &p.plan, nil
}

// noLongerWanted is the reason of steps that remove what is ours.
const noLongerWanted = "is no longer wanted"

// add adds a step whose impact is what a document says, or what is left of it here.
func (p *planner) add(s step, action api.Action, kind api.Kind, name, reason string, o config.OnChange) {
	s.onChange = o
	s.Item = api.Item{Kind: kind, Name: name, Action: action, Reason: reason, Impact: p.impact(o)}
	if s.Impact == config.ImpactRestart || s.Impact == config.ImpactDrain {
		s.Services = slices.Clone(o.Services)
	}
	p.plan.steps = append(p.plan.steps, s)
}

// impact is what a change costs on this host. On a host that is not configured yet there
// is nothing to restart and nothing to drain. Containers go on when their runtime has
// stopped, so that alone makes no drain needless.
func (p *planner) impact(o config.OnChange) config.Impact {
	if o.Impact != config.ImpactRestart && o.Impact != config.ImpactDrain || len(o.Services) == 0 {
		return cmp.Or(o.Impact, config.ImpactNone)
	}
	for _, name := range p.withDependents(o.Services) {
		s := p.seen.services[fold(name)]
		if s != nil && (o.Impact == config.ImpactDrain || s.State != ServiceStopped) {
			return o.Impact
		}
	}
	return config.ImpactNone
}

// order is all services that are ours or are to be, each after those it depends on as far
// as the document and the inventory tell.
func (p *planner) order() []serviceRecord {
	var list []serviceRecord
	for _, s := range p.bundle.Document.Services {
		list = append(list, recordOf(&s))
	}
	for _, r := range p.inv.Services {
		if !slices.ContainsFunc(list, func(o serviceRecord) bool { return strings.EqualFold(o.Name, r.Name) }) {
			list = append(list, r)
		}
	}
	return list
}

// withDependents adds to services all that depend on them, now or by the document.
func (p *planner) withDependents(services []string) []string {
	all := slices.Clone(services)
	has := func(name string) bool { return containsFold(all, name) }
	for again := true; again; {
		again = false
		for _, s := range p.order() {
			dependencies := s.Dependencies
			if now := p.seen.services[fold(s.Name)]; now != nil {
				dependencies = append(slices.Clone(dependencies), now.Settings.Dependencies...)
			}
			if !has(s.Name) && slices.ContainsFunc(dependencies, has) {
				all = append(all, s.Name)
				again = true
			}
		}
	}
	return all
}

// stillThere is what follows when something goes, without services that are gone.
func (p *planner) stillThere(o config.OnChange) config.OnChange {
	if o.Impact != config.ImpactRestart && o.Impact != config.ImpactDrain || len(o.Services) == 0 {
		return o
	}
	wanted := names(p.bundle.Document.Services, func(s config.Service) string { return s.Name })
	left := slices.DeleteFunc(slices.Clone(o.Services), func(name string) bool { return !containsFold(wanted, name) })
	if len(left) == 0 {
		return config.OnChange{Impact: config.ImpactNone}
	}
	return config.OnChange{Impact: o.Impact, Services: left}
}

// finish unites the impacts.
func (p *planner) finish() {
	var restarted []string
	if p.healing {
		p.plan.steps = slices.DeleteFunc(p.plan.steps, func(s step) bool {
			keepOut := s.notNow || costlier(s.Impact, config.ImpactRestart)
			if keepOut {
				p.plan.left = append(p.plan.left, s.Item)
			}
			return keepOut
		})
	}
	for _, s := range p.plan.steps {
		p.plan.Items = append(p.plan.Items, s.Item)
		if costlier(s.Impact, p.plan.Impact) {
			p.plan.Impact = s.Impact
		}
		if s.onChange.Impact == config.ImpactRestart || s.onChange.Impact == config.ImpactDrain {
			restarted = append(restarted, s.onChange.Services...)
		}
	}
	restarted = p.withDependents(restarted)
	for _, s := range slices.Backward(p.order()) {
		seen := p.seen.services[fold(s.Name)]
		if containsFold(restarted, s.Name) && seen != nil && seen.State != ServiceStopped && !strings.EqualFold(s.Name, p.except) {
			p.plan.Restarts = append(p.plan.Restarts, s.Name)
		}
	}
	if r := p.inv.Reboot; r != nil && r.Boot == p.seen.boot {
		p.plan.Reboot = append(slices.Clone(r.Reasons), p.plan.Reboot...)
		slices.Sort(p.plan.Reboot)
		p.plan.Reboot = slices.Compact(p.plan.Reboot)
	}
}
