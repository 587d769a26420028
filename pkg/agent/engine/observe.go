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
	"slices"
	"strings"
	"time"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
	"github.com/openshift/windows-instance-api/pkg/agent/api/config"
)

// observation is what a host is like, as far as a document and the inventory ask for it.
type observation struct {
	boot                   string
	hostname, nextHostname string
	features               map[string]FeatureState
	directories            map[string]FileInfo        // by path in lower case
	names                  map[string][]string        // of directories with a retention
	files                  map[string]fileObservation // by path in lower case
	generated              map[string]FileInfo        // by path in lower case
	until                  map[string]bool
	staged                 map[string]bool // digests of the payload that are there
	environment            map[string]string
	certs                  map[string]bool
	firewall               map[string]*config.FirewallRule
	exclusions             map[string]bool
	networks, endpoints    map[string]bool
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

// observer reads a host. The digests that it computed hold as long as a file keeps its
// size and time: a service that looks at a host all the time must not read every program
// each time.
type observer struct {
	system  System
	digests map[string]cachedDigest // nil: nothing is kept
}

type cachedDigest struct {
	size     int64
	modified time.Time
	digest   string
}

func (o *observer) observe(ctx context.Context, d *config.Document, inv *inventory) (*observation, error) {
	seen := &observation{
		features: map[string]FeatureState{}, directories: map[string]FileInfo{}, names: map[string][]string{},
		files: map[string]fileObservation{}, generated: map[string]FileInfo{}, until: map[string]bool{}, staged: map[string]bool{}, arrived: map[string]int64{},
		certs: map[string]bool{}, firewall: map[string]*config.FirewallRule{}, exclusions: map[string]bool{},
		networks: map[string]bool{}, endpoints: map[string]bool{}, services: map[string]*Service{},
	}
	var err error
	if seen.boot, err = o.system.Boot(ctx); err != nil {
		return nil, fmt.Errorf("find out which boot this is: %w", err)
	}
	for _, read := range []func() error{
		func() error { return o.machine(ctx, seen, d, inv) },
		func() error { return o.directories(seen, d, inv) },
		func() error { return o.files(seen, d, inv) },
		func() error { return o.space(seen, d) },
		func() error { return o.generated(seen, d, inv) },
		func() error { return o.services(seen, d, inv) },
		func() error { return o.hns(ctx, seen, d, inv) },
		func() error {
			seen.values, err = o.values(ctx, d)
			return err
		},
	} {
		if err := read(); err != nil {
			return nil, err
		}
	}
	return seen, nil
}

func (o *observer) machine(ctx context.Context, seen *observation, d *config.Document, inv *inventory) error {
	var err error
	if seen.hostname, seen.nextHostname, err = o.system.Hostname(); err != nil {
		return fmt.Errorf("read the host name: %w", err)
	}
	for _, f := range d.Features {
		if seen.features[f.Name], err = o.system.Feature(ctx, f.Name); err != nil {
			return fmt.Errorf("look for feature %s: %w", f.Name, err)
		}
	}
	if len(d.Environment)+len(inv.Environment) > 0 {
		if seen.environment, err = o.system.Environment(); err != nil {
			return fmt.Errorf("read the environment of the machine: %w", err)
		}
	}
	certificate := func(store, fingerprint string) error {
		if seen.certs[certificateKey(store, fingerprint)], err = o.system.HasCertificate(store, fingerprint); err != nil {
			return fmt.Errorf("look for certificate %s: %w", fingerprint, err)
		}
		return nil
	}
	for _, c := range d.Certificates {
		if err := certificate(c.Store, c.Fingerprint); err != nil {
			return err
		}
	}
	for _, c := range inv.Certs {
		if err := certificate(c.Store, c.Fingerprint); err != nil {
			return err
		}
	}
	rules := names(d.Firewall, func(r config.FirewallRule) string { return r.Name })
	for _, r := range inv.Firewall {
		rules = append(rules, r.Name)
	}
	for _, name := range rules {
		if seen.firewall[fold(name)], err = o.system.FirewallRule(name); err != nil {
			return fmt.Errorf("look for firewall rule %s: %w", name, err)
		}
	}
	programs := slices.Clone(d.AntivirusExclusions)
	for _, program := range inv.Exclusions {
		programs = append(programs, program)
	}
	for _, program := range programs {
		if seen.exclusions[fold(program)], err = o.system.AntivirusExclusion(program); err != nil {
			return fmt.Errorf("look for the antivirus exclusion of %s: %w", program, err)
		}
	}
	return nil
}

func names[T any](list []T, name func(T) string) []string {
	out := make([]string, 0, len(list))
	for _, v := range list {
		out = append(out, name(v))
	}
	return out
}

func certificateKey(store, fingerprint string) string { return fold(store + "/" + fingerprint) }

func (o *observer) directories(seen *observation, d *config.Document, inv *inventory) error {
	paths := wantedDirectories(d)
	for _, r := range inv.Directories {
		paths = append(paths, r.Path)
	}
	for _, path := range paths {
		info, err := o.system.Stat(path)
		if err != nil {
			return fmt.Errorf("look at %s: %w", path, err)
		}
		seen.directories[fold(path)] = info
	}
	for _, dir := range d.Directories {
		if dir.Retention == nil || seen.directories[fold(dir.Path)].Kind != FileDirectory {
			continue
		}
		list, err := o.system.Names(dir.Path)
		if err != nil {
			return fmt.Errorf("list %s: %w", dir.Path, err)
		}
		seen.names[fold(dir.Path)] = list
	}
	return nil
}

// wantedDirectories are the directories of a document with all that are above them and
// above its files, those above first.
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

// parent is the directory that path is in.
func parent(path string) string { return path[:strings.LastIndexByte(path, '\\')] }

// ancestors are the directories above path, without the drive, from the top.
func ancestors(path string) []string {
	var list []string
	for i, c := range path {
		if c == '\\' && i > 2 {
			list = append(list, path[:i])
		}
	}
	return list
}

func (o *observer) files(seen *observation, d *config.Document, inv *inventory) error {
	paths := names(d.Files, func(f config.File) string { return f.Path })
	for _, r := range inv.Files {
		paths = append(paths, r.Path)
	}
	for _, path := range paths {
		file, err := o.file(path)
		if err != nil {
			return err
		}
		seen.files[fold(path)] = file
	}
	for _, f := range d.Files {
		for _, path := range []string{f.UntilFile, stagedPath(f)} {
			if path == "" {
				continue
			}
			info, err := o.system.Stat(path)
			if err != nil {
				return fmt.Errorf("look at %s: %w", path, err)
			}
			if path == f.UntilFile {
				// The kubelet finds its certificate through a link.
				seen.until[fold(path)] = info.Kind == FileRegular || info.Kind == FileOther
			} else {
				seen.staged[f.Digest] = info.Kind == FileRegular
			}
		}
	}
	return nil
}

func stagedPath(f config.File) string {
	if f.Source.Payload == "" {
		return ""
	}
	return api.PayloadPath(f.Digest)
}

func (o *observer) file(path string) (fileObservation, error) {
	info, err := o.system.Stat(path)
	if err != nil {
		return fileObservation{}, fmt.Errorf("look at %s: %w", path, err)
	}
	file := fileObservation{FileInfo: info}
	if info.Kind != FileRegular {
		return file, nil
	}
	if c, ok := o.digests[fold(path)]; ok && c.size == info.Size && c.modified.Equal(info.Modified) {
		file.digest = c.digest
		return file, nil
	}
	file.digest, err = digestOf(o.system, path)
	if errors.Is(err, fs.ErrNotExist) { // removed meanwhile
		return fileObservation{}, nil
	}
	if err != nil {
		return fileObservation{}, fmt.Errorf("read %s: %w", path, err)
	}
	if o.digests != nil {
		o.digests[fold(path)] = cachedDigest{size: info.Size, modified: info.Modified, digest: file.digest}
	}
	return file, nil
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

func (o *observer) services(seen *observation, d *config.Document, inv *inventory) error {
	list := names(d.Services, func(s config.Service) string { return s.Name })
	for _, r := range inv.Services {
		list = append(list, r.Name)
	}
	for _, name := range list {
		s, err := o.system.Service(name)
		if err != nil {
			return fmt.Errorf("look at service %s: %w", name, err)
		}
		seen.services[fold(name)] = s
	}
	return nil
}

func (o *observer) hns(ctx context.Context, seen *observation, d *config.Document, inv *inventory) error {
	networks := slices.Clone(inv.Networks)
	var endpoints []string
	if d.HNS != nil {
		networks = append(networks, d.HNS.Networks...) // that of the endpoint is one of them
		if d.HNS.Endpoint != nil {
			endpoints = append(endpoints, d.HNS.Endpoint.Name)
		}
	}
	for _, e := range inv.Endpoints {
		endpoints = append(endpoints, e.Name)
	}
	for _, name := range networks {
		there, err := o.system.HNSNetwork(ctx, name)
		if err != nil {
			return fmt.Errorf("look for network %s: %w", name, err)
		}
		seen.networks[name] = there
	}
	for _, name := range endpoints {
		_, err := o.system.HNSEndpoint(ctx, name)
		there := err == nil
		if err != nil && !errors.Is(err, ErrNotYet) {
			return fmt.Errorf("look for endpoint %s: %w", name, err)
		}
		seen.endpoints[name] = there
	}
	return nil
}

// values of the variables that have one.
func (o *observer) values(ctx context.Context, d *config.Document) (map[string]string, error) {
	values := map[string]string{}
	for _, v := range d.Variables {
		if v.Source == config.SourceValue {
			values[v.Name] = v.Value
			continue
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
		if err != nil {
			return nil, fmt.Errorf("find the value of %s: %w", v.Name, err)
		}
		values[v.Name] = value
	}
	return values, nil
}
