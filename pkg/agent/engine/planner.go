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

// planner compares the desired configuration with the observed state.
type planner struct {
	bundle *config.Bundle
	seen   *observation
	inv    *inventory
	// except is a service that is not touched.
	except string
	// repairing keeps steps out of the plan that cost more than a restart of services, or cannot
	// be done now.
	repairing bool
	// leave says which items are left as they are while repairing, and completes their reason. Nil: none.
	leave func(*api.Item) bool

	plan      plan
	conflicts []error
}

// diff returns the plan. It changes neither the observation nor the inventory.
func (p *planner) diff() (*plan, error) {
	p.plan.Impact, p.plan.Items = config.ImpactNone, []api.Item{}
	if c := p.seen.credentials; c != nil {
		p.plan.KubeletCertificate = &c.KubeletCertificate
	}
	// What may need a restart of the host.
	p.hostname()
	p.features()
	p.environment()
	p.certificates()
	// What is no longer wanted, dependents first.
	p.removedServices()
	p.removedNetworks()
	p.removedFiles()
	p.removedRules()
	// What is wanted, dependencies first.
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

// add adds a step. o is the impact in the document, of which the step gets what it is now.
func (p *planner) add(s step, action api.Action, kind api.Kind, name, reason string, o config.OnChange) {
	s.onChange = o
	s.Item = api.Item{Kind: kind, Name: name, Action: action, Reason: reason, Impact: p.impact(o)}
	if s.Impact == config.ImpactRestart || s.Impact == config.ImpactDrain {
		s.Services = slices.Clone(o.Services)
	}
	p.plan.steps = append(p.plan.steps, s)
}

// impact returns what a change costs on this host. On a host that is not configured yet there
// is nothing to restart and nothing to drain. A stopped service alone does not make a drain
// needless: containers continue when their runtime has stopped.
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

// serviceOrder returns all services of the document and the inventory, each after those that it
// depends on.
func (p *planner) serviceOrder() []serviceRecord {
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

// withDependents adds all services that depend on the given ones, now or by the document.
func (p *planner) withDependents(services []string) []string {
	all := slices.Clone(services)
	has := func(name string) bool { return containsFold(all, name) }
	for again := true; again; {
		again = false
		for _, s := range p.serviceOrder() {
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

// remaining returns the impact of a removal, without services that are removed, too.
func (p *planner) remaining(o config.OnChange) config.OnChange {
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

// finish computes the impact, the restarts and the reasons for a reboot of the plan.
func (p *planner) finish() {
	var restarted []string
	if p.repairing {
		p.plan.steps = slices.DeleteFunc(p.plan.steps, func(s step) bool {
			keepOut := s.notNow || costlier(s.Impact, config.ImpactRestart) || p.leave != nil && p.leave(&s.Item)
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
	for _, s := range slices.Backward(p.serviceOrder()) {
		seen := p.seen.services[fold(s.Name)]
		if containsFold(restarted, s.Name) && seen != nil && seen.State != ServiceStopped && !strings.EqualFold(s.Name, p.except) {
			p.plan.Restarts = append(p.plan.Restarts, s.Name)
		}
	}
	if p.goesAtBoot() {
		p.plan.Reboot = append(p.plan.Reboot, "what an earlier configuration left in use is removed then")
	}
	if r := p.inv.Reboot; r != nil && r.Boot == p.seen.boot {
		p.plan.Reboot = append(slices.Clone(r.Reasons), p.plan.Reboot...)
		slices.Sort(p.plan.Reboot)
		p.plan.Reboot = slices.Compact(p.plan.Reboot)
	}
}

// goesAtBoot reports whether something is removed at the next boot where programs of the document
// put their files: theirs, too, would be removed then.
func (p *planner) goesAtBoot() bool {
	return !p.repairing && slices.ContainsFunc(p.seen.atBoot, func(path string) bool {
		return slices.ContainsFunc(p.bundle.Document.Files, func(f config.File) bool { return strings.EqualFold(f.Path, path) }) ||
			slices.ContainsFunc(p.bundle.Document.Generated, func(generated string) bool { return config.Below(path, generated) })
	})
}
