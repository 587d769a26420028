// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package document

import (
	"encoding/base64"
	"fmt"
	"regexp"
	"slices"
	"strings"

	configv1 "github.com/openshift/api/config/v1"
)

// Mirror is where images are pulled from in place of their source.
type Mirror struct {
	// Source is the repository, or part of one, that is mirrored.
	Source string
	// Location is the mirror of it.
	Location string
}

// UniquePrefix returns the location of the mirror without the elements at its end that
// it shares with the source: containerd appends those. It is empty when they are all shared.
func (m Mirror) UniquePrefix() string {
	source := strings.Split(withoutScheme(m.Source), "/")
	mirror := strings.Split(withoutScheme(m.Location), "/")
	for len(source) > 0 && len(mirror) > 0 && source[len(source)-1] == mirror[len(mirror)-1] {
		source, mirror = source[:len(source)-1], mirror[:len(mirror)-1]
	}
	return strings.Join(mirror, "/")
}

// Host returns the mirror as containerd wants it: its unique prefix, or the registry
// alone where that is empty.
func (m Mirror) Host() string {
	if prefix := m.UniquePrefix(); prefix != "" {
		return prefix
	}
	return RegistryHost(m.Location)
}

// RegistryHost returns the registry of a location, with its port.
func RegistryHost(location string) string {
	host, _, _ := strings.Cut(withoutScheme(location), "/")
	return host
}

// RegistryPath returns what follows the registry in a location.
func RegistryPath(location string) string {
	_, path, _ := strings.Cut(withoutScheme(location), "/")
	return path
}

func withoutScheme(location string) string {
	if _, rest, found := strings.Cut(location, "://"); found {
		return rest
	}
	return location
}

// location matches a registry, perhaps with a port, and a path. It keeps everything
// out that could mean something in TOML or in a path of Windows.
var location = regexp.MustCompile(`^([A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?|\[[0-9A-Fa-f:]+\])(:[0-9]{1,5})?(/[A-Za-z0-9._@:-]+)*$`)

// RegistryFile is the configuration of one registry for containerd.
type RegistryFile struct {
	// Directory below the directory of all registries. The file in it is hosts.toml.
	Directory string
	// Content of the file. It is a secret when HasCredentials.
	Content        string
	HasCredentials bool
}

// Registries are the files that say where images are pulled from.
type Registries struct {
	// Files, one for each registry that is mirrored, by directory.
	Files []RegistryFile
	// Warnings describe mirrors that cannot be configured as they are.
	Warnings []string
}

// registry is one registry whose images are mirrored.
type registry struct {
	host         string
	mirrors      []mirrorEntry
	neverContact []string // sources with that policy
	allowContact []string
}

// mirrorEntry is one entry of a registry.
type mirrorEntry struct {
	host        string
	resolveTags bool
	credential  string
}

// RegistriesOf returns the configuration of containerd for the mirrors of a cluster:
// those for pulls by digest first, then those for pulls by tag, each in the order in
// which they are tried.
//
// containerd configures registries, not repositories. So the settings of one repository hold
// for its whole registry; a warning says where this changes anything.
func RegistriesOf(byDigest []configv1.ImageDigestMirrors, byTag []configv1.ImageTagMirrors, pullSecret PullSecret) Registries {
	var out Registries
	registries := map[string]*registry{}
	add := func(source string, mirrors []configv1.ImageMirror, policy configv1.MirrorSourcePolicy, resolveTags bool) {
		if strings.HasPrefix(withoutScheme(source), "*.") {
			out.warnf("source %s is left out: containerd knows no wildcards", source)
			return
		}
		if !location.MatchString(withoutScheme(source)) {
			out.warnf("source %q is left out: it is not a location of images", source)
			return
		}
		host := canonicalHub(RegistryHost(source))
		r := registries[host]
		if r == nil {
			r = &registry{host: host}
			registries[host] = r
		}
		if policy == configv1.NeverContactSource {
			r.neverContact = append(r.neverContact, source)
		} else {
			r.allowContact = append(r.allowContact, source)
		}
		for _, m := range mirrors {
			if !location.MatchString(withoutScheme(string(m))) {
				out.warnf("mirror %q of %s is left out: it is not a location of images", m, source)
				continue
			}
			r.add(Mirror{Source: source, Location: string(m)}, resolveTags, pullSecret)
		}
	}
	for _, set := range byDigest {
		add(set.Source, set.Mirrors, set.MirrorSourcePolicy, false)
	}
	for _, set := range byTag {
		add(set.Source, set.Mirrors, set.MirrorSourcePolicy, true)
	}
	for _, r := range registries {
		if len(r.neverContact) > 0 && len(r.allowContact) > 0 {
			slices.Sort(r.allowContact)
			out.warnf("registry %s is never contacted because of %s; that holds for %s too, which allows it",
				r.host, strings.Join(slices.Sorted(slices.Values(r.neverContact)), ", "), strings.Join(slices.Compact(r.allowContact), ", "))
		}
		out.Files = append(out.Files, r.file(pullSecret))
	}
	slices.SortFunc(out.Files, func(a, b RegistryFile) int { return strings.Compare(a.Directory, b.Directory) })
	slices.Sort(out.Warnings)
	return out
}

func (r *Registries) warnf(format string, values ...any) {
	r.Warnings = append(r.Warnings, fmt.Sprintf(format, values...))
}

// add adds a mirror, or lets an existing one resolve tags, too.
func (r *registry) add(m Mirror, resolveTags bool, pullSecret PullSecret) {
	host := m.Host()
	credential := pullSecret.lookup(withoutScheme(m.Location))
	for i := range r.mirrors {
		entry := &r.mirrors[i]
		if entry.host != host {
			continue
		}
		entry.resolveTags = entry.resolveTags || resolveTags
		if entry.credential != credential {
			// Repositories behind one entry need different credentials: use those of the whole host.
			entry.credential = pullSecret.lookup(host)
		}
		return
	}
	r.mirrors = append(r.mirrors, mirrorEntry{host: host, resolveTags: resolveTags, credential: credential})
}

// directory returns the name of the directory of a registry for containerd on Windows: a port
// is between underscores, and colons, which are not allowed in names there, are removed.
func directory(host string) string {
	if i := strings.LastIndexByte(host, ':'); i > 0 && !strings.HasSuffix(host, "]") {
		host = host[:i] + "_" + host[i+1:] + "_"
	}
	return strings.ReplaceAll(host, ":", "")
}

// file returns the configuration of the registry.
func (r *registry) file(pullSecret PullSecret) RegistryFile {
	f := RegistryFile{Directory: directory(r.host)}
	never := len(r.neverContact) > 0
	if len(r.mirrors) == 0 && !never {
		return f
	}
	// The server is used when no mirror has the image. By default it has all capabilities.
	server, capabilities := r.host, ""
	credential := pullSecret.lookup(r.host)
	switch {
	case never && len(r.mirrors) == 0:
		// There is no other server, so it keeps one capability that a host never uses.
		capabilities, credential = `["push"]`, ""
	case never:
		// The first mirror once more, with its capabilities as a mirror: one for pulls by digest must
		// not resolve tags.
		server, credential = r.mirrors[0].host, r.mirrors[0].credential
		if !r.mirrors[0].resolveTags {
			capabilities = capabilityList(false)
		}
	}
	var out strings.Builder
	fmt.Fprintf(&out, "server = %q\n\noverride_path = true\n", endpoint(server))
	if capabilities != "" {
		fmt.Fprintf(&out, "capabilities = %s\n", capabilities)
	}
	if credential != "" {
		f.HasCredentials = true
		fmt.Fprintf(&out, "\n[header]\n  authorization = %q\n", basic(credential))
	}
	for _, m := range r.mirrors {
		fmt.Fprintf(&out, "\n[host.%q]\n  capabilities = %s\n  override_path = true\n", endpoint(m.host), capabilityList(m.resolveTags))
		if m.credential != "" {
			f.HasCredentials = true
			fmt.Fprintf(&out, "  [host.%q.header]\n    authorization = %q\n", endpoint(m.host), basic(m.credential))
		}
	}
	f.Content = out.String()
	return f
}

func capabilityList(resolveTags bool) string {
	if resolveTags {
		return `["pull", "resolve"]`
	}
	return `["pull"]`
}

// Names of Docker Hub: those in references of images, and that of its registry. containerd only
// replaces the former where no server is configured.
var dockerHubNames = []string{"docker.io", "index.docker.io"}

const dockerHubRegistry = "registry-1.docker.io"

// endpoint returns the URL of the API of a registry for the repositories below location.
func endpoint(location string) string {
	host := RegistryHost(location)
	if slices.Contains(dockerHubNames, host) {
		host = dockerHubRegistry
	}
	url := "https://" + host + "/v2"
	if path := RegistryPath(location); path != "" {
		url += "/" + path
	}
	return url
}

func basic(credential string) string {
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(credential))
}
