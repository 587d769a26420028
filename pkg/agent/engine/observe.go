// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package engine

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
	"github.com/openshift/windows-instance-api/pkg/agent/api/config"
)

// observation is the state of a host, as far as a document and the inventory need it.
type observation struct {
	boot                   string
	atBoot                 []string // paths that are removed at the next one
	hostname, nextHostname string
	features               map[string]FeatureState
	directories            map[string]FileInfo        // by path in lower case
	names                  map[string][]string        // of directories with a retention
	files                  map[string]fileObservation // by path in lower case
	before                 map[string][][]byte        // contents that programs may run with of files that are compared and differ; nil in it: one that cannot be read
	generated              map[string]FileInfo        // by path in lower case
	until                  map[string]bool
	credentials            *kubeletCredentials
	staged                 map[string]bool   // digests of the payload that exist
	environment            map[string]string // by name in upper case
	certs                  map[string]bool
	firewall               map[string]*config.FirewallRule
	exclusions             map[string]bool
	networks, endpoints    map[string]bool
	remade                 bool // the networks are removed, and their service makes them again
	awaited                awaited
	services               map[string]*Service // by name in lower case
	values                 map[string]string   // of variables
	// volume is where files go, and freeBytes what can be written to it; empty when there
	// are no files.
	volume    string
	freeBytes int64
	arrived   map[string]int64 // bytes of files of the payload that are being sent, by digest
}

type fileObservation struct {
	FileInfo
	digest string // of a regular file
}

// observer reads a host. A digest is valid while the file keeps its size and time: the service,
// which inspects a host every minute, must not read every program each time.
type observer struct {
	system  System
	digests map[string]fileObservation // nil: nothing is kept
	// noFeatures: features of Windows are not inspected, which takes the servicing stack seconds,
	// and is refused while it installs an update.
	noFeatures bool
}

// observe reads what the document and the inventory name.
func (o *observer) observe(ctx context.Context, d *config.Document, inv *inventory) (*observation, error) {
	seen := &observation{environment: map[string]string{}, arrived: map[string]int64{}}
	var err error
	if seen.boot, err = o.system.Boot(ctx); err != nil {
		return nil, fmt.Errorf("read the identity of the boot: %w", err)
	}
	if seen.atBoot, err = o.system.RemovedAtBoot(); err != nil {
		return nil, fmt.Errorf("read what is removed at the next boot: %w", err)
	}
	if seen.hostname, seen.nextHostname, err = o.system.Hostname(); err != nil {
		return nil, fmt.Errorf("read the host name: %w", err)
	}
	if len(d.Environment)+len(inv.Environment) > 0 {
		environment, err := o.system.Environment()
		if err != nil {
			return nil, fmt.Errorf("read the environment of the machine: %w", err)
		}
		for name, value := range environment {
			seen.environment[strings.ToUpper(name)] = value
		}
	}
	if !o.noFeatures {
		seen.features = inspect(&err, "feature", names(d.Features, func(f config.Feature) string { return f.Name }),
			func(name string) (FeatureState, error) { return o.feature(ctx, name) })
	}
	stores := names(d.Certificates, func(c config.Certificate) string { return c.Store })
	for _, c := range inv.Certs {
		stores = append(stores, c.Store)
	}
	seen.certs = map[string]bool{}
	for store, fingerprints := range inspect(&err, "certificate store", stores, o.system.Certificates) {
		for _, f := range fingerprints {
			seen.certs[certificateKey(store, f)] = true
		}
	}
	rules := names(slices.AppendSeq(slices.Clone(d.Firewall), maps.Values(inv.Firewall)), func(r config.FirewallRule) string { return r.Name })
	seen.firewall = inspect(&err, "firewall rule", rules, o.system.FirewallRule)
	seen.exclusions = inspect(&err, "antivirus exclusion", slices.AppendSeq(slices.Clone(d.AntivirusExclusions), maps.Values(inv.Exclusions)), o.system.AntivirusExclusion)
	services := names(d.Services, func(s config.Service) string { return s.Name })
	for _, r := range inv.Services {
		services = append(services, r.Name)
	}
	seen.services = inspect(&err, "service", services, o.system.Service)
	o.paths(&err, seen, d, inv)
	if err != nil {
		return nil, err
	}
	if err := o.space(seen, d); err != nil {
		return nil, err
	}
	if err := o.hns(ctx, seen, d, inv); err != nil {
		return nil, err
	}
	seen.values, err = o.values(ctx, d, inv)
	return seen, err
}

// inspect calls read once for each name and returns the values by the names in lower case. It
// does nothing if err is set, and sets err when read fails.
func inspect[T any](err *error, kind string, names []string, read func(name string) (T, error)) map[string]T {
	found := map[string]T{}
	for _, name := range names {
		if _, done := found[fold(name)]; done || *err != nil {
			continue
		}
		value, readErr := read(name)
		if readErr != nil {
			*err = fmt.Errorf("inspect %s %s: %w", kind, name, readErr)
		}
		found[fold(name)] = value
	}
	return found
}

func names[T any](list []T, name func(T) string) []string {
	out := make([]string, 0, len(list))
	for _, v := range list {
		out = append(out, name(v))
	}
	return out
}

func certificateKey(store, fingerprint string) string { return fold(store + "/" + fingerprint) }

// paths reads files and directories.
func (o *observer) paths(err *error, seen *observation, d *config.Document, inv *inventory) {
	// The keys of the inventory are in lower case, and a directory may be case-sensitive.
	directories := wantedDirectories(d)
	for _, r := range inv.Directories {
		directories = append(directories, r.Path)
	}
	files := names(d.Files, func(f config.File) string { return f.Path })
	for _, r := range inv.Files {
		files = append(files, r.Path)
	}
	seen.directories = inspect(err, "directory", directories, o.system.Stat)
	seen.files = inspect(err, "file", files, o.file)
	seen.before = o.before(d, seen.files)
	seen.generated = inspect(err, "path", slices.AppendSeq(slices.Clone(d.Generated), maps.Values(inv.Generated)), o.system.Stat)
	var retained, until, staged []string
	for _, dir := range d.Directories {
		if dir.Retention != nil && seen.directories[fold(dir.Path)].Kind == FileDirectory {
			retained = append(retained, dir.Path)
		}
	}
	for _, f := range d.Files {
		if f.UntilFile != "" {
			until = append(until, f.UntilFile)
		}
		if f.Source.Payload != "" {
			staged = append(staged, f.Digest)
		}
	}
	seen.names = inspect(err, "directory", retained, o.system.Names)
	seen.until = inspect(err, "file", until, func(path string) (bool, error) {
		info, err := o.system.Stat(path)
		// The kubelet finds its certificate through a link.
		return info.Kind == FileRegular || info.Kind == FileOther, err
	})
	seen.staged = inspect(err, "payload", staged, func(digest string) (bool, error) {
		info, err := o.system.Stat(api.PayloadPath(digest))
		return info.Kind == FileRegular, err
	})
}

// wantedDirectories returns the directories of a document, with their parents and those of its
// files, parents first.
func wantedDirectories(d *config.Document) []string {
	seen := map[string]bool{}
	var paths []string
	add := func(path string) {
		for _, p := range append(ancestors(path), path) {
			if !seen[fold(p)] {
				seen[fold(p)] = true
				paths = append(paths, p)
			}
		}
	}
	for _, dir := range d.Directories {
		add(dir.Path)
	}
	for _, f := range d.Files {
		add(parent(f.Path))
	}
	slices.SortFunc(paths, func(a, b string) int { return strings.Compare(fold(a), fold(b)) })
	return paths
}

// parent returns the directory of a path.
func parent(path string) string { return path[:strings.LastIndexByte(path, '\\')] }

// ancestors returns the directories above path, without the drive, from the top.
func ancestors(path string) []string {
	var list []string
	for i, c := range path {
		if c == '\\' && i > 2 {
			list = append(list, path[:i])
		}
	}
	return list
}

func (o *observer) file(path string) (fileObservation, error) {
	info, err := o.system.Stat(path)
	file := fileObservation{FileInfo: info}
	if err != nil || info.Kind != FileRegular {
		return file, err
	}
	if c, ok := o.digests[fold(path)]; ok && c.Size == info.Size && c.Modified.Equal(info.Modified) {
		file.digest = c.digest
		return file, nil
	}
	file.digest, err = digestOf(o.system, path)
	if errors.Is(err, fs.ErrNotExist) { // removed meanwhile
		return fileObservation{}, nil
	}
	if err == nil && o.digests != nil {
		o.digests[fold(path)] = file
	}
	return file, err
}

// before returns the contents with which programs may have been started, of the files that are compared with
// their document and differ: what is there now, and, as somebody may have changed it since, what was applied last.
func (o *observer) before(d *config.Document, files map[string]fileObservation) map[string][][]byte {
	contents := map[string][][]byte{}
	for _, f := range d.Files {
		now := files[fold(f.Path)]
		if f.Format == "" || now.digest == f.Digest {
			continue
		}
		var all [][]byte
		if now.Kind != FileMissing {
			content, err := readFile(o.system, f.Path)
			if err != nil {
				content = nil // it is too large, or was removed meanwhile: nobody knows
			}
			all = append(all, content)
		}
		// One that is damaged says nothing, and does not keep the host from getting another one.
		if applied, err := readApplied(o.system); err == nil && applied != nil {
			if text, ok := applied.Document.Text(f.Path); ok {
				all = append(all, []byte(text))
			}
		}
		contents[fold(f.Path)] = all
	}
	return contents
}

func digestOf(s FileSystem, path string) (string, error) {
	in, err := s.Open(path)
	if err != nil {
		return "", err
	}
	defer in.Close()
	h := sha256.New()
	if _, err := io.Copy(h, in); err != nil {
		return "", err
	}
	return "sha256:" + hex.EncodeToString(h.Sum(nil)), nil
}

// hnsNames returns the names of the networks of a document, without those of others, and of its endpoints.
func hnsNames(d *config.Document) (networks, endpoints []string) {
	if d.HNS == nil {
		return nil, nil
	}
	if d.HNS.Endpoint != nil {
		endpoints = []string{d.HNS.Endpoint.Name}
	}
	return slices.Clone(d.HNS.Networks), endpoints
}

// hns reads networks and endpoints.
func (o *observer) hns(ctx context.Context, seen *observation, d *config.Document, inv *inventory) (err error) {
	networks, endpoints := hnsNames(d)
	if d.HNS != nil {
		networks = append(networks, d.HNS.Foreign...)
	}
	seen.networks = inspect(&err, "network", append(networks, inv.Networks...), func(name string) (bool, error) { return o.system.HNSNetwork(ctx, name) })
	seen.endpoints = inspect(&err, "endpoint", slices.AppendSeq(endpoints, maps.Keys(inv.Endpoints)), func(name string) (bool, error) {
		_, err := o.system.HNSEndpoint(ctx, name)
		if errors.Is(err, ErrNotYet) {
			return false, nil
		}
		return err == nil, err
	})
	return err
}

// renamed returns the full name that a host has when it is called by another name, which it may get with its
// next restart only: by that it is known from then on, and that is the name to join with.
func renamed(fqdn, hostname string) string {
	host, domain, inDomain := strings.Cut(fqdn, ".")
	switch {
	case strings.EqualFold(host, hostname):
		return fqdn
	case inDomain:
		return hostname + "." + domain
	default:
		return hostname
	}
}

// values returns the values of the variables that have one.
func (o *observer) values(ctx context.Context, d *config.Document, inv *inventory) (map[string]string, error) {
	values := map[string]string{}
	for _, v := range d.Variables {
		if v.Source == config.SourceValue {
			values[v.Name] = v.Value
			continue
		}
		kept, known := keptValue(v, inv)
		if v.Source == config.SourceKept {
			if known {
				values[v.Name] = kept
			}
			continue
		}
		if known {
			stays, err := o.isNodeAs(d, v, kept, inv)
			if err != nil {
				return nil, err
			}
			if stays {
				values[v.Name] = kept
				continue
			}
		}
		var value string
		var err error
		if v.Source == config.SourceHNSEndpointAddress {
			value, err = o.system.HNSEndpoint(ctx, d.HNS.Endpoint.Name)
		} else {
			value, err = o.system.Value(ctx, v)
		}
		if errors.Is(err, ErrNotYet) {
			continue
		}
		if err != nil && known {
			value, err = kept, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read the value of %s: %w", v.Name, err)
		}
		if v.Source == config.SourceFQDN && d.Hostname != "" {
			value = renamed(value, d.Hostname)
		}
		values[v.Name] = value
	}
	return values, nil
}
