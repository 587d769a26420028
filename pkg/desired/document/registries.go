// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package document

import (
	"cmp"
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

// UniquePrefix returns the location of the mirror without the elements at the end of its path that
// it shares with the path of the source: containerd appends those. It is empty when all is shared, the registry as well.
func (m Mirror) UniquePrefix() string {
	source := strings.Split(withoutScheme(m.Source), "/")
	mirror := strings.Split(withoutScheme(m.Location), "/")
	for len(source) > 1 && len(mirror) > 1 && source[len(source)-1] == mirror[len(mirror)-1] {
		source, mirror = source[:len(source)-1], mirror[:len(mirror)-1]
	}
	if slices.Equal(source, mirror) {
		return ""
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

// Elsewhere returns where containerd looks for the images of the source behind [Mirror.Host], if that is not the mirror.
// It appends the path that an image has at its source, whatever its file says: override_path is about what is before that.
// Empty: it looks in the mirror, or has no such mirror because one of the two is no location of images.
func (m Mirror) Elsewhere() string {
	asked := m.Host()
	if path := RegistryPath(m.Source); path != "" {
		asked += "/" + path
	}
	mirror := withoutScheme(m.Location)
	if asked == mirror || !location.MatchString(withoutScheme(m.Source)) || !location.MatchString(mirror) {
		return ""
	}
	return asked
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
	// Mirrored: it names mirrors, so that credentials may belong into it.
	Mirrored bool
}

// Registries are the files that say where images are pulled from.
type Registries struct {
	// Files, one for each registry that is mirrored or that the Image config says something about, by directory.
	Files []RegistryFile
	// Warnings describe settings that cannot be configured as they are.
	Warnings []string
}

// registry is one registry, as the sources of images name it.
type registry struct {
	host         string
	mirrors      []mirrorEntry
	neverContact []string // sources with that policy
	allowContact []string
	// What the Image config says about it.
	insecure       bool
	blocked        bool     // with all that it has
	blockedSources []string // sources with mirrors that are blocked
	denied         bool     // it is not among those that are allowed
}

// mirrorEntry is one entry of a registry.
type mirrorEntry struct {
	host        string
	resolveTags bool
	credential  string
	// insecure: its certificate is not verified, and it may have none. For that, all mirrors behind it must be insecure.
	insecure bool
	// elsewhere: of none of the mirrors behind it the images are where containerd looks for them.
	elsewhere bool
}

// RegistriesOf returns the configuration of containerd for the registries of a cluster. Of each registry that is
// mirrored it has the mirrors for pulls by digest first, then those for pulls by tag, each in the order in
// which they are tried.
//
// containerd configures registries, not repositories, and knows no wildcards. So the mirrors of one repository hold
// for its whole registry, and what the Image config says about less than a registry, or about all of a domain, holds
// only as far as decision 29 says; a warning says where this changes anything.
func RegistriesOf(c *Cluster) Registries {
	b := &registriesBuilder{pullSecret: c.PullSecret, registries: map[string]*registry{}}
	b.readScopes(c.RegistrySources)
	for i := range c.ImageDigestMirrors {
		set := &c.ImageDigestMirrors[i]
		b.mirror(set.Source, set.Mirrors, set.MirrorSourcePolicy, false)
	}
	for i := range c.ImageTagMirrors {
		set := &c.ImageTagMirrors[i]
		b.mirror(set.Source, set.Mirrors, set.MirrorSourcePolicy, true)
	}
	b.applyScopes(cmp.Or(c.PauseImage, DefaultPauseImage))
	var out Registries
	for _, r := range b.registries {
		if r.denied {
			continue // as all that have no file
		}
		// An ImageContentSourcePolicy has no policy, and stays when it was migrated to an ImageDigestMirrorSet that has one.
		r.allowContact = slices.DeleteFunc(r.allowContact, func(source string) bool { return slices.Contains(r.neverContact, source) })
		if causes := slices.Concat(r.neverContact, r.blockedSources); len(causes) > 0 && len(r.allowContact) > 0 {
			slices.Sort(causes)
			slices.Sort(r.allowContact)
			b.warnf("registry %s is never contacted because of %s; that holds for %s too, which allows it",
				r.host, strings.Join(causes, ", "), strings.Join(slices.Compact(r.allowContact), ", "))
		}
		out.Files = append(out.Files, r.file(c.PullSecret))
	}
	if b.onlyAllowed {
		out.Files = append(out.Files, RegistryFile{Directory: allOthers, Content: nothingFrom("registry.invalid")})
	}
	slices.SortFunc(out.Files, func(a, b RegistryFile) int { return strings.Compare(a.Directory, b.Directory) })
	slices.Sort(b.warnings)
	out.Warnings = b.warnings
	return out
}

// allOthers is the directory for registries that have none.
const allOthers = "_default"

// registriesBuilder collects what is known about registries.
type registriesBuilder struct {
	pullSecret PullSecret
	registries map[string]*registry // by key
	sources    []string             // of mirrors
	mirrored   []string             // the registries of mirrors
	warnings   []string
	// Lists of the Image config.
	insecure, blocked, allowed scopes
	onlyAllowed                bool // allowed is enforced
}

func (b *registriesBuilder) warnf(format string, values ...any) {
	b.warnings = append(b.warnings, fmt.Sprintf(format, values...))
}

// registry returns that of a host.
func (b *registriesBuilder) registry(host string) *registry {
	r := b.registries[key(host)]
	if r == nil {
		r = &registry{host: host}
		b.registries[key(host)] = r
	}
	return r
}

// key is the same for hosts that containerd looks up in the same directory of Windows.
func key(host string) string { return strings.ToLower(directory(host)) }

// mirror adds the mirrors of a source.
func (b *registriesBuilder) mirror(source string, mirrors []configv1.ImageMirror, policy configv1.MirrorSourcePolicy, resolveTags bool) {
	if strings.HasPrefix(withoutScheme(source), "*.") {
		b.warnf("source %s is left out: containerd knows no wildcards", source)
		return
	}
	if !location.MatchString(withoutScheme(source)) {
		b.warnf("source %q is left out: it is not a location of images", source)
		return
	}
	b.sources = append(b.sources, source)
	r := b.registry(canonicalHub(RegistryHost(source)))
	switch {
	case policy == configv1.NeverContactSource:
		r.neverContact = append(r.neverContact, source)
	case b.blocked.cover(source):
		r.blockedSources = append(r.blockedSources, source)
	default:
		r.allowContact = append(r.allowContact, source)
	}
	for _, m := range mirrors {
		if !location.MatchString(withoutScheme(string(m))) {
			b.warnf("mirror %q of %s is left out: it is not a location of images", m, source)
			continue
		}
		b.mirrored = append(b.mirrored, hostOf(string(m)))
		r.add(Mirror{Source: source, Location: string(m)}, resolveTags, b.insecure.cover(hostOf(string(m))), b.pullSecret)
	}
}

// add adds a mirror, or lets an existing one resolve tags, too.
func (r *registry) add(m Mirror, resolveTags, insecure bool, pullSecret PullSecret) {
	host := m.Host()
	credential := pullSecret.lookup(withoutScheme(m.Location))
	for i := range r.mirrors {
		entry := &r.mirrors[i]
		if entry.host != host {
			continue
		}
		entry.resolveTags = entry.resolveTags || resolveTags
		entry.insecure = entry.insecure && insecure
		entry.elsewhere = entry.elsewhere && m.Elsewhere() != ""
		if entry.credential != credential {
			// Repositories behind one entry need different credentials: use those of the whole host.
			entry.credential = pullSecret.lookup(host)
		}
		return
	}
	r.mirrors = append(r.mirrors, mirrorEntry{host: host, resolveTags: resolveTags, credential: credential, insecure: insecure, elsewhere: m.Elsewhere() != ""})
}

// onlyMirrors says whether the registry itself is never contacted.
func (r *registry) onlyMirrors() bool {
	return r.blocked || len(r.neverContact)+len(r.blockedSources) > 0
}

// directory returns the name of the directory of a registry for containerd on Windows: a port
// is between underscores, and colons, which are not allowed in names there, are removed.
func directory(host string) string {
	if i := strings.LastIndexByte(host, ':'); i > 0 && !strings.HasSuffix(host, "]") {
		host = host[:i] + "_" + host[i+1:] + "_"
	}
	return strings.ReplaceAll(host, ":", "")
}

// nothingFrom returns a configuration by which nothing is pulled. A server that is written down has the
// capabilities that are written down; "push" is one that a host never uses.
func nothingFrom(server string) string {
	return fmt.Sprintf("server = %q\n\noverride_path = true\ncapabilities = [\"push\"]\n", endpoint(server, false))
}

// file returns the configuration of the registry.
func (r *registry) file(pullSecret PullSecret) RegistryFile {
	f := RegistryFile{Directory: directory(r.host), Mirrored: len(r.mirrors) > 0}
	// The server is used when no mirror has the image. By default it has all capabilities.
	server, capabilities := mirrorEntry{host: r.host, insecure: r.insecure}, ""
	switch {
	case r.onlyMirrors() && len(r.mirrors) == 0:
		f.Content = nothingFrom(r.host)
		return f
	case r.onlyMirrors():
		// There is no other server, so it is the first mirror once more, with its capabilities as a mirror: one for
		// pulls by digest must not resolve tags.
		server = r.mirrors[0]
		if !server.resolveTags {
			capabilities = capabilityList(false)
		}
	case len(r.mirrors) > 0:
		server.credential = pullSecret.lookup(r.host)
	case !r.insecure:
		return f // as if there were no file
	}
	var out strings.Builder
	fmt.Fprintf(&out, "server = %q\n\noverride_path = true\n", endpoint(server.host, server.insecure))
	if server.insecure {
		out.WriteString("skip_verify = true\n")
	}
	if capabilities != "" {
		fmt.Fprintf(&out, "capabilities = %s\n", capabilities)
	}
	if server.credential != "" {
		f.HasCredentials = true
		fmt.Fprintf(&out, "\n[header]\n  authorization = %q\n", basic(server.credential))
	}
	for _, m := range r.mirrors {
		url := endpoint(m.host, m.insecure)
		fmt.Fprintf(&out, "\n[host.%q]\n  capabilities = %s\n  override_path = true\n", url, capabilityList(m.resolveTags))
		if m.insecure {
			out.WriteString("  skip_verify = true\n")
		}
		if m.credential != "" {
			f.HasCredentials = true
			fmt.Fprintf(&out, "  [host.%q.header]\n    authorization = %q\n", url, basic(m.credential))
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

// endpoint returns the URL of the API of a registry for the repositories below location. With http and skip_verify,
// containerd tries https first, and speaks http with a registry that cannot do that; with port 80 it speaks http.
func endpoint(location string, insecure bool) string {
	host := RegistryHost(location)
	if slices.Contains(dockerHubNames, host) {
		host = dockerHubRegistry
	}
	scheme := "https"
	if insecure {
		scheme = "http"
	}
	url := scheme + "://" + host + "/v2"
	if path := RegistryPath(location); path != "" {
		url += "/" + path
	}
	return url
}

func basic(credential string) string {
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(credential))
}
