// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package engine

import (
	"fmt"
	"slices"
	"strings"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
	"github.com/openshift/windows-instance-api/pkg/agent/api/config"
)

// missingValue returns the first variable in the texts that has no value, or "".
func missingValue(values map[string]string, texts ...string) string {
	for _, text := range texts {
		for _, name := range config.References(text) {
			if _, ok := values[name]; !ok {
				return name
			}
		}
	}
	return ""
}

func (p *planner) removedServices() {
	for _, r := range slices.Backward(p.inv.Services) {
		wanted := indexOfService(p.bundle.Document.Services, r.Name) >= 0
		if wanted || p.seen.services[fold(r.Name)] == nil || strings.EqualFold(r.Name, p.except) {
			continue
		}
		o := r.OnChange
		o.Services = nil
		if o.Impact == config.ImpactRestart || o.Impact == config.ImpactDrain {
			o.Services = []string{r.Name}
		}
		p.add(step{}, api.ActionDelete, api.KindService, r.Name, noLongerWanted, o)
	}
}

// services plans the services in the order of their start, each followed by the files that
// wait for it.
func (p *planner) services() {
	for i := range p.bundle.Document.Services {
		s := &p.bundle.Document.Services[i]
		if !strings.EqualFold(s.Name, p.except) {
			p.service(s)
		}
		files := slices.ContainsFunc(p.bundle.Document.Files, func(f config.File) bool { return strings.EqualFold(f.AfterService, s.Name) })
		if files && p.bundle.Document.HNS != nil {
			p.endpoint(s.Name)
		}
		p.files(s.Name)
	}
}

func (p *planner) service(s *config.Service) {
	seen := p.seen.services[fold(s.Name)]
	waits := missingValue(p.seen.values, s.Arguments...)
	if seen == nil {
		reason := "is missing"
		if waits != "" {
			reason += ", and $(" + waits + ") has no value yet"
		}
		p.add(step{service: s, notNow: waits != ""}, api.ActionCreate, api.KindService, s.Name, reason, s.OnChange)
		return
	}
	if !p.inv.hasService(s.Name) && !strings.HasPrefix(seen.Settings.Description, config.DescriptionTag) {
		p.conflicts = append(p.conflicts, fmt.Errorf("service %s exists and was not created by this agent", s.Name))
		return
	}
	if waits != "" && s.Waiting {
		return
	}
	if waits != "" {
		p.add(step{service: s, notNow: true}, api.ActionUpdate, api.KindService, s.Name, "$("+waits+") has no value yet", s.OnChange)
		return
	}
	if reason := serviceDifference(s, seen, p.seen.values); reason == recoveryDiffers {
		// They can be changed while it runs.
		p.add(step{service: s}, api.ActionUpdate, api.KindService, s.Name, reason, config.OnChange{})
	} else if reason != "" {
		p.add(step{service: s}, api.ActionUpdate, api.KindService, s.Name, reason, s.OnChange)
	} else if seen.State != ServiceRunning && !p.seen.awaited.stops(s) {
		p.add(step{service: s}, api.ActionUpdate, api.KindService, s.Name, "is not running", config.OnChange{})
	}
}

// recoveryDiffers is the difference of a service whose settings are the desired ones.
const recoveryDiffers = "the recovery actions differ"

// serviceDifference describes how a service differs from its document. Empty: it does not. The
// values of its variables must be known.
func serviceDifference(s *config.Service, seen *Service, values map[string]string) string {
	want, err := s.Settings(values)
	if err != nil {
		return err.Error()
	}
	switch {
	case seen.Settings.CommandLine != want.CommandLine:
		return "the command line differs"
	case !seen.Settings.Equal(want):
		return "the settings differ"
	case !seen.RecoveryUnknown && !sameRecovery(s.Recovery, seen.Recovery):
		return recoveryDiffers
	}
	return ""
}

func sameRecovery(a, b *config.Recovery) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.ResetAfterSeconds == b.ResetAfterSeconds && slices.Equal(a.RestartDelaysMilliseconds, b.RestartDelaysMilliseconds)
}
