// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package engine

import (
	"slices"

	"github.com/openshift/windows-instance-api/pkg/agent/api/config"
)

// present returns a document without what waits and is not on the host. What waits and is there
// is desired as it is.
func present(d *config.Document, inv *inventory) config.Document {
	out := *d
	out.Services = slices.DeleteFunc(slices.Clone(d.Services), func(s config.Service) bool { return s.Waiting && !inv.hasService(s.Name) })
	out.Files = slices.DeleteFunc(slices.Clone(d.Files), func(f config.File) bool {
		_, ours := inv.Files[fold(f.Path)]
		return f.Waiting && !ours
	})
	if d.HNS != nil {
		hns := *d.HNS
		if e := hns.Endpoint; e != nil && (e.Waiting || hns.Waiting) {
			if _, ours := inv.Endpoints[e.Name]; !ours {
				hns.Endpoint = nil
			}
		}
		if out.HNS = &hns; hns.Waiting && len(inv.Networks) == 0 {
			out.HNS = nil
		}
	}
	out.Variables = slices.DeleteFunc(slices.Clone(d.Variables), func(v config.Variable) bool {
		return v.Network != "" && out.HNS == nil || v.Source == config.SourceHNSEndpointAddress && out.HNS.Endpoint == nil
	})
	return out
}

// keptValue returns the value of a variable that is not known now, as the host last had it. That
// of a metadata service never changes, and the service may be out of reach for a while, after a
// restart for example.
func keptValue(v config.Variable, inv *inventory) (value string, ok bool) {
	switch v.Source {
	case config.SourceKept, config.SourceAWSLocalHostname, config.SourceGCPHostname:
		value, ok = inv.Values[v.Name]
	default:
	}
	return value, ok
}

// keepValues records the values that [keptValue] returns later.
func (a *application) keepValues() {
	a.Values = nil
	for _, v := range a.bundle.Document.Variables {
		switch v.Source {
		case config.SourceValue, config.SourceKept, config.SourceAWSLocalHostname, config.SourceGCPHostname:
			if value, ok := a.seen.values[v.Name]; ok {
				makeMap(&a.Values)
				a.Values[v.Name] = value
			}
		default:
		}
	}
}
