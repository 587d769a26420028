// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

// Command pack puts programs that were built before into a payload. It is a step of
// hack/build-payload.sh.
package main

import (
	"context"
	"debug/buildinfo"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/openshift/windows-instance-api/pkg/desired/payload"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	switch {
	case errors.Is(err, flag.ErrHelp):
	case err != nil:
		fmt.Fprintf(os.Stderr, "pack: %v\n", err)
		os.Exit(1)
	}
}

// options are the command line.
type options struct {
	list, bin, out, version, overrides, licenses string
	image                                        bool
	added                                        []string
}

func run(ctx context.Context, args []string, stdout io.Writer) error {
	var o options
	flags := flag.NewFlagSet("pack", flag.ContinueOnError)
	flags.StringVar(&o.list, "list", "", "the file that lists what is in a payload")
	flags.StringVar(&o.bin, "bin", "", "the directory with the programs")
	flags.StringVar(&o.out, "out", "", "the payload to write; must not exist")
	flags.StringVar(&o.version, "version", "", "the version of the payload")
	flags.StringVar(&o.overrides, "overrides", "", "a file with what is taken from elsewhere: {\"kubelet.exe\": {\"url\": …, \"size\": …, \"sha256\": …}}")
	flags.StringVar(&o.licenses, "licenses", "", "the directory with the license texts that go with the programs")
	flags.BoolVar(&o.image, "image", false, "write an OCI image layout, not a directory")
	flags.Func("add", "name=file, for a listed name; may be repeated", func(v string) error {
		o.added = append(o.added, v)
		return nil
	})
	if err := flags.Parse(args); err != nil {
		return err
	}
	manifest, sources, err := collect(o)
	if err != nil {
		return err
	}
	if err := write(ctx, o, manifest, sources); err != nil {
		return err
	}
	return report(ctx, o.out, stdout)
}

// collect finds the content of everything that is listed.
func collect(o options) (payload.Manifest, []payload.Source, error) {
	var manifest payload.Manifest
	if err := readJSON(o.list, &manifest); err != nil {
		return manifest, nil, err
	}
	manifest.Version = o.version
	overrides := map[string]*payload.Override{}
	if o.overrides != "" {
		if err := readJSON(o.overrides, &overrides); err != nil {
			return manifest, nil, err
		}
	}
	var sources []payload.Source
	for _, f := range manifest.Files {
		sources = append(sources, payload.Source{File: f, LocalPath: filepath.Join(o.bin, f.Name)})
	}
	for _, added := range o.added {
		name, path, ok := strings.Cut(added, "=")
		if !ok {
			return manifest, nil, fmt.Errorf("--add %q: want name=file", added)
		}
		i := slices.IndexFunc(sources, func(s payload.Source) bool { return s.Name == name })
		if i >= 0 && sources[i].Role == payload.RoleAgent {
			return manifest, nil, fmt.Errorf("--add %s: %s", name, agentElsewhere)
		}
		slot := slices.IndexFunc(manifest.Slots, func(s payload.Slot) bool { return s.Name == name })
		switch {
		case i >= 0:
			sources[i].LocalPath = path
		case slot >= 0:
			sources = append(sources, payload.Source{File: payload.File{Slot: manifest.Slots[slot]}, LocalPath: path})
		default:
			return manifest, nil, fmt.Errorf("--add %s: a payload has no place for a file of this name", name)
		}
	}
	for i := range sources {
		s := &sources[i]
		s.Version, s.Source = origin(s.LocalPath, o.version)
		s.Override = overrides[s.Name]
		if s.Override != nil && s.Role == payload.RoleAgent {
			return manifest, nil, fmt.Errorf("%s: %s: %s", o.overrides, s.Name, agentElsewhere)
		}
		delete(overrides, s.Name)
	}
	for name := range overrides {
		return manifest, nil, fmt.Errorf("%s: there is no %s to override", o.overrides, name)
	}
	return manifest, sources, nil
}

// agentElsewhere is why a payload has no other agent than the one of its release.
const agentElsewhere = "hosts get the agent that windows-apiserver and windows-controller have in their --agent-dir: put yours there"

func readJSON(path string, v any) error {
	b, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(b, v); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// origin says which version of which package a Go program was built from, as the program
// itself does. What is built from this module has our version.
func origin(path, version string) (ofModule, source string) {
	info, err := buildinfo.ReadFile(path)
	if err != nil {
		return "", "" // no Go program: a site added it
	}
	ofModule = info.Main.Version
	if ofModule == "" || ofModule == "(devel)" {
		ofModule = version
	}
	return ofModule, info.Path + "@" + ofModule
}

func write(ctx context.Context, o options, m payload.Manifest, sources []payload.Source) error {
	if !o.image {
		return build(ctx, o, o.out, m, sources)
	}
	tmp, err := os.MkdirTemp(filepath.Dir(o.out), ".pack-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(tmp) }() // a copy of what is in the cache anyway
	dir := filepath.Join(tmp, "payload")
	if err := build(ctx, o, dir, m, sources); err != nil {
		return err
	}
	p, err := payload.Open(ctx, dir, payload.Options{})
	if err != nil {
		return err
	}
	return errors.Join(p.WriteImage(ctx, o.out), p.Close())
}

// build writes a payload with its licenses, which the manifest does not name: what hosts get does not depend on them.
func build(ctx context.Context, o options, dir string, m payload.Manifest, sources []payload.Source) error {
	if err := payload.Build(ctx, dir, m, sources); err != nil || o.licenses == "" {
		return err
	}
	return os.CopyFS(filepath.Join(dir, payload.LicensesDir), os.DirFS(o.licenses))
}

// report opens what was written, as its users will, and says what is in it.
func report(ctx context.Context, path string, stdout io.Writer) error {
	p, err := payload.Open(ctx, path, payload.Options{})
	if err != nil {
		return err
	}
	var size, gzip int64
	var text strings.Builder
	const mib = 1 << 20
	for _, f := range p.Manifest.Files {
		compressed := f.Size
		if f.Gzip != nil {
			compressed = f.Gzip.Size
		}
		size, gzip = size+f.Size, gzip+compressed
		fmt.Fprintf(&text, "%-32s %-10s %7.1f MiB %7.1f MiB compressed\n", f.Name, f.Version, float64(f.Size)/mib, float64(compressed)/mib)
	}
	fmt.Fprintf(&text, "%-32s %-10s %7.1f MiB %7.1f MiB compressed\n", "all", "", float64(size)/mib, float64(gzip)/mib)
	for _, s := range p.Manifest.Slots {
		fmt.Fprintf(&text, "%-32s not in it: add it if hosts need it\n", s.Name)
	}
	if _, err := io.WriteString(stdout, text.String()); err != nil {
		return errors.Join(err, p.Close())
	}
	return p.Close()
}
