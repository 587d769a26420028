// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package engine

import (
	"encoding/pem"
	"maps"
	"slices"
	"strings"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
	"github.com/openshift/windows-instance-api/pkg/agent/api/config"
)

func (p *planner) hostname() {
	want := p.bundle.Document.Hostname
	if want == "" || strings.EqualFold(p.seen.nextHostname, want) {
		if want != "" && !strings.EqualFold(p.seen.hostname, want) {
			p.plan.Reboot = append(p.plan.Reboot, "the host takes its new name "+want)
		}
		return
	}
	p.add(step{}, api.ActionUpdate, api.KindHostname, want, "the host is called "+p.seen.nextHostname, config.OnChange{Impact: config.ImpactReboot})
}

// features are not repaired: that would need a restart of the host.
func (p *planner) features() {
	if p.repairing {
		return
	}
	for _, f := range p.bundle.Document.Features {
		switch p.seen.features[fold(f.Name)] {
		case FeatureEnabled:
		case FeaturePending:
			p.plan.Reboot = append(p.plan.Reboot, "feature "+f.Name+" is being enabled")
		default:
			p.add(step{}, api.ActionCreate, api.KindFeature, f.Name, "is not enabled", f.OnChange)
		}
	}
}

func (p *planner) environment() {
	desired, onChange := map[string]string{}, map[string]config.OnChange{}
	for _, v := range p.bundle.Document.Environment {
		desired[v.Name] = environmentValue(p.bundle, v)
		onChange[strings.ToUpper(v.Name)] = v.OnChange
	}
	existing := p.seen.environment
	changes, _ := config.EnvironmentChanges(desired, existing, p.inv.owned(existing))
	for _, c := range changes {
		key := strings.ToUpper(c.Name)
		_, exists := existing[key]
		name := c.Name
		o, wanted := onChange[key]
		if !wanted {
			// It is removed, or restored.
			record := p.inv.Environment[key]
			name, o = record.Name, p.remaining(record.OnChange)
		}
		s := step{environment: c.Value}
		action, reason := api.ActionCreate, "is missing"
		switch {
		case !wanted && c.Value != nil:
			action, reason = api.ActionDelete, "is no longer wanted, and its previous value is restored"
		case !wanted:
			action, reason = api.ActionDelete, noLongerWanted
		case exists:
			action, reason = api.ActionUpdate, "the value differs"
		}
		p.add(s, action, api.KindEnvironment, name, reason, o)
		if p.repairing {
			// Running programs have the value that they were started with, which was the right one.
			p.plan.steps[len(p.plan.steps)-1].Impact = config.ImpactNone
		}
	}
}

func environmentValue(b *config.Bundle, v config.EnvironmentVariable) string {
	if v.Secret != "" {
		return string(b.Secrets[v.Secret])
	}
	return v.Value
}

// owned returns the variables that are ours. After a crash a host may have the value from
// before our last change, which is ours, too.
func (inv *inventory) owned(existing map[string]string) map[string]config.OwnedVariable {
	owned := map[string]config.OwnedVariable{}
	for key, r := range inv.Environment {
		o := r.OwnedVariable
		if now, ok := existing[key]; ok && r.Previous != nil && now == *r.Previous {
			o.Value = now
		}
		owned[key] = o
	}
	return owned
}

func (p *planner) certificates() {
	wanted := map[string]bool{}
	for i, c := range p.bundle.Document.Certificates {
		key := certificateKey(c.Store, c.Fingerprint)
		wanted[key] = true
		if !p.seen.certs[key] {
			p.add(step{certificate: &p.bundle.Document.Certificates[i]}, api.ActionCreate, api.KindCertificate, c.Fingerprint, "is not in store "+c.Store, c.OnChange)
		}
	}
	if p.bundle.Document.KeepCertificates {
		return
	}
	for _, key := range slices.Sorted(maps.Keys(p.inv.Certs)) {
		r := p.inv.Certs[key]
		if !wanted[key] && p.seen.certs[key] {
			c := &config.Certificate{Store: r.Store, Fingerprint: r.Fingerprint}
			p.add(step{certificate: c}, api.ActionDelete, api.KindCertificate, r.Fingerprint, "is no longer wanted in store "+r.Store, p.remaining(r.OnChange))
		}
	}
}

// der returns the content of a certificate, which was validated.
func der(c *config.Certificate) []byte {
	block, _ := pem.Decode([]byte(c.PEM))
	return block.Bytes
}
