// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package document

import (
	"net"
	"slices"
	"strings"

	configv1 "github.com/openshift/api/config/v1"

	"github.com/openshift/windows-instance-api/pkg/words"
)

// maxCited bounds how many entries of a list a warning names.
const maxCited = 10

// Lists of the Image config, as warnings call them.
const (
	insecureList = "insecureRegistries"
	blockedList  = "blockedRegistries"
	allowedList  = "allowedRegistries"
)

// readScopes reads the lists of the Image config.
func (b *registriesBuilder) readScopes(s configv1.RegistrySources) {
	read := func(list string, entries []string) (found scopes, complete bool) {
		complete = true
		for _, text := range entries {
			if one, ok := parseScope(text); ok {
				found = append(found, one)
				continue
			}
			complete = false
			b.warnf("%s of the Image config: %q is left out: it is not a registry", list, text)
		}
		return found, complete
	}
	var complete bool
	b.insecure, _ = read(insecureList, s.InsecureRegistries)
	b.blocked, _ = read(blockedList, s.BlockedRegistries)
	b.allowed, complete = read(allowedList, s.AllowedRegistries)
	wildcards := b.allowed.texts(scope.wildcard)
	b.onlyAllowed = len(b.allowed) > 0 && complete && len(wildcards) == 0
	if !complete {
		b.warnf("%s of the Image config is not enforced on Windows hosts, because not all of its entries are registries: correct it", allowedList)
	}
	if len(wildcards) > 0 {
		b.warnf("%s of the Image config is not enforced on Windows hosts because of %s: containerd knows no wildcards; name the registries one by one",
			allowedList, words.Enumerate(wildcards, maxCited))
	}
}

// applyScopes applies what the Image config says to the registries, and says what of it does not hold.
func (b *registriesBuilder) applyScopes(pause string) {
	known := b.known(imageRegistry(pause))
	for _, host := range known {
		insecure, blocked := b.insecure.cover(host), b.blocked.cover(host)
		if !insecure && !blocked && !b.onlyAllowed {
			continue
		}
		r := b.registry(host)
		r.insecure, r.blocked = insecure, blocked
		if blocked && !hasPort(host) {
			// The same registry, to which containerd has another directory.
			b.registry(host + ":443").blocked = true
		}
		r.denied = b.onlyAllowed && !slices.ContainsFunc(b.allowed, func(s scope) bool { return s.host == host })
	}
	b.warnOfWildcards(insecureList, b.insecure, known)
	b.warnOfWildcards(blockedList, b.blocked, known)
	b.warnOfPaths()
	b.permitPause(pause)
}

// hasPort says whether a host is written with a port.
func hasPort(host string) bool {
	_, _, err := net.SplitHostPort(host)
	return err == nil
}

// known returns the registries that anything names, sorted.
func (b *registriesBuilder) known(others ...string) []string {
	hosts := slices.Concat(others, b.mirrored)
	for _, source := range b.sources {
		hosts = append(hosts, hostOf(source))
	}
	for _, s := range slices.Concat(b.insecure, b.blocked, b.allowed) {
		if s.host != "" {
			hosts = append(hosts, s.host)
		}
	}
	slices.Sort(hosts)
	return slices.Compact(hosts)
}

// warnOfWildcards says for which registries wildcards hold: those that have a name.
func (b *registriesBuilder) warnOfWildcards(list string, entries scopes, known []string) {
	for _, s := range entries {
		if !s.wildcard() {
			continue
		}
		where := "for no registry"
		if covered := slices.DeleteFunc(slices.Clone(known), func(host string) bool { return !s.covers(host) }); len(covered) > 0 {
			where = "only for " + words.Enumerate(covered, maxCited)
		}
		b.warnf("%s of the Image config: %s holds on Windows hosts %s: containerd knows no wildcards; name the registries one by one", list, s.text, where)
	}
}

// warnOfPaths says what holds of entries that are less than a registry.
func (b *registriesBuilder) warnOfPaths() {
	const why = "containerd configures registries, not repositories"
	if list := b.insecure.texts(func(s scope) bool { return s.path != "" && !b.insecure.cover(s.host) }); len(list) > 0 {
		b.warnf("%s of the Image config: %s does not hold on Windows hosts: %s; name the whole registry", insecureList, words.Enumerate(list, maxCited), why)
	}
	partly := func(s scope) bool { return s.path != "" && !b.blocked.cover(s.host) }
	mirrored := func(s scope) bool { return slices.ContainsFunc(b.sources, s.covers) }
	if list := b.blocked.texts(func(s scope) bool { return partly(s) && !mirrored(s) }); len(list) > 0 {
		b.warnf("%s of the Image config: %s is not blocked on Windows hosts: %s; block the whole registry", blockedList, words.Enumerate(list, maxCited), why)
	}
	if list := b.blocked.texts(func(s scope) bool { return partly(s) && mirrored(s) }); len(list) > 0 {
		b.warnf("%s of the Image config: because of %s, which is mirrored, Windows hosts pull from no repository of that registry but from its mirrors: %s", blockedList, words.Enumerate(list, maxCited), why)
	}
	if list := b.allowed.texts(func(s scope) bool { return b.onlyAllowed && s.path != "" && !b.allowed.cover(s.host) }); len(list) > 0 {
		b.warnf("%s of the Image config: %s permits its whole registry on Windows hosts: %s", allowedList, words.Enumerate(list, maxCited), why)
	}
}

// permitPause lets hosts pull the image without which no pod starts. The Machine Config Operator does the same for the
// images of OpenShift.
func (b *registriesBuilder) permitPause(image string) {
	r := b.registries[key(imageRegistry(image))]
	if r == nil || len(r.neverContact) > 0 && !r.denied {
		return
	}
	blocked := (r.blocked || len(r.blockedSources) > 0) && !r.serves(image)
	if !blocked && !r.denied {
		return
	}
	if blocked {
		r.blocked, r.allowContact, r.blockedSources = false, append(r.allowContact, r.blockedSources...), nil
	}
	r.denied = false
	b.warnf("registry %s stays permitted on Windows hosts, although the Image config does not permit it: without the pause image %s no pod starts; "+
		"mirror it with an ImageTagMirrorSet, or set spec.template.containerd.sandboxImage of the pools to one of another registry", r.host, image)
}

// serves says whether a mirror may have the image.
func (r *registry) serves(image string) bool {
	return slices.ContainsFunc(r.mirrors, func(m mirrorEntry) bool {
		return !m.elsewhere && (m.resolveTags || strings.Contains(image, "@"))
	})
}

// imageRegistry returns the registry of an image; one that names none is of Docker Hub.
func imageRegistry(image string) string {
	host, _, more := strings.Cut(image, "/")
	if !more || !strings.ContainsAny(host, ".:") && host != "localhost" {
		return dockerHubNames[0]
	}
	return hostOf(host)
}
