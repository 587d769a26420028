// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package document

import (
	"regexp"
	"slices"
	"strings"
)

// scope is an entry of the registrySources of the Image config: a registry, repositories of one, or all
// registries of a domain.
type scope struct {
	// text of the entry, as messages cite it.
	text string
	// host is the registry, with its port. Empty: a domain.
	host string
	// path that repositories begin with. Empty: the whole registry.
	path string
	// domain of a wildcard, ".example.com".
	domain string
}

// domain matches what follows the asterisk of a wildcard.
var domain = regexp.MustCompile(`^(\.[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?)+$`)

// parseScope reads an entry, and says whether it is one.
func parseScope(text string) (scope, bool) {
	if rest, ok := strings.CutPrefix(text, "*"); ok {
		return scope{text: text, domain: strings.ToLower(rest)}, domain.MatchString(rest)
	}
	return scope{text: text, host: hostOf(text), path: RegistryPath(text)}, location.MatchString(text)
}

// hostOf returns the registry of a location as all that name it are compared.
func hostOf(location string) string { return strings.ToLower(canonicalHub(RegistryHost(location))) }

// wildcard says whether the scope is a domain.
func (s scope) wildcard() bool { return s.domain != "" }

// covers says whether everything below a location is in the scope.
func (s scope) covers(location string) bool {
	host, path := hostOf(location), RegistryPath(location)
	if s.wildcard() {
		// A domain has no port, so it holds for each.
		name, _, _ := strings.Cut(host, ":")
		return strings.HasSuffix(name, s.domain)
	}
	return host == s.host && (s.path == "" || path == s.path || strings.HasPrefix(path, s.path+"/"))
}

// scopes are the entries of one list.
type scopes []scope

// cover says whether a scope covers a location.
func (s scopes) cover(location string) bool {
	return slices.ContainsFunc(s, func(one scope) bool { return one.covers(location) })
}

// texts returns the entries that are as the function says.
func (s scopes) texts(is func(scope) bool) []string {
	var list []string
	for _, one := range s {
		if is(one) {
			list = append(list, one.text)
		}
	}
	return list
}
