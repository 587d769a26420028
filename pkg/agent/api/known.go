// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package api

import (
	"slices"
	"strings"
)

// Areas of [FactError] that decisions are based on.
const (
	// AreaConfiguration is what our agent has written down of the configuration of the host.
	AreaConfiguration = "configuration"
	// AreaServices are all services; those of one are AreaServices, a slash and its name.
	AreaServices = "services"
)

// Service returns the service of a name, in whatever case. Nil: the host has none, or it could not be read; see [Facts.Unread].
func (f *Facts) Service(name string) *Service {
	i := slices.IndexFunc(f.Services, func(s Service) bool { return strings.EqualFold(s.Name, name) })
	if i < 0 {
		return nil
	}
	return &f.Services[i]
}

// Unread reports whether an area could not be read.
func (f *Facts) Unread(area string) bool {
	return slices.ContainsFunc(f.Errors, func(e FactError) bool { return strings.EqualFold(e.Area, area) })
}

// MayHaveService reports whether the host has a service of a name, or a service of it could not be read.
func (f *Facts) MayHaveService(name string) bool {
	return f.Service(name) != nil || slices.ContainsFunc(f.Errors, func(e FactError) bool {
		return e.Area == AreaServices || strings.HasPrefix(e.Area, AreaServices+"/")
	})
}

// Unconfigured reports whether nothing was ever configured on the host, nor was begun to be. What could not be read may say otherwise.
func (f *Facts) Unconfigured() bool {
	return f.Configuration.AppliedRevision == "" && f.Configuration.ApplyingRevision == "" && !f.Unread(AreaConfiguration)
}
