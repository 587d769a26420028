// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

// Package payloadtest makes the payload of tests in which hosts become Nodes: the real
// kubelet.exe and kube-log-runner.exe, the agent, and stand-ins for the rest, each under the
// name and at the place that a real payload has it. What takes long is built once.
//
// It is imported by tests and the demo only.
package payloadtest

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/openshift/windows-instance-api/pkg/desired/payload"
)

// modulePath is the Go module that this package is part of.
const modulePath = "github.com/openshift/windows-instance-api"

// Options say what a payload is like.
type Options struct {
	// Logf is told what takes long. Nil: nobody.
	Logf func(format string, args ...any)
}

// realProgram is a program of Kubernetes that is built from its source.
type realProgram struct{ module, pkg string }

// realPrograms are those in a payload, by the names of their files.
var realPrograms = map[string]realProgram{
	"kubelet.exe":         {"k8s.io/kubernetes", "k8s.io/kubernetes/cmd/kubelet"},
	"kube-log-runner.exe": {"k8s.io/component-base", "k8s.io/component-base/logs/kube-log-runner"},
}

// Dir returns the directory of a payload, see package payload. It is kept in the user's cache
// directory and must not be changed. The first time, the kubelet is built, which takes minutes.
// Several processes may call it at once. The working directory must be inside the checkout.
func Dir(ctx context.Context, o Options) (string, error) {
	b, err := newBuilder(ctx, o)
	if err == nil {
		var dir string
		if dir, err = b.dir(ctx); err == nil {
			return dir, nil
		}
	}
	return "", fmt.Errorf("making the payload of the tests: %w", err)
}

type builder struct {
	Options
	root  string // of the checkout
	cache string
}

func newBuilder(ctx context.Context, o Options) (*builder, error) {
	if o.Logf == nil {
		o.Logf = func(string, ...any) {}
	}
	gomod, err := output(ctx, "", "go", "env", "GOMOD")
	if err != nil {
		return nil, err
	}
	base, err := os.UserCacheDir()
	if err != nil {
		return nil, fmt.Errorf("no cache directory: %w", err)
	}
	b := &builder{Options: o, root: filepath.Dir(gomod), cache: filepath.Join(base, "windows-instance-api")}
	return b, os.MkdirAll(b.cache, 0o755)
}

func (b *builder) dir(ctx context.Context) (string, error) {
	kubernetes, versions, err := b.kubernetes(ctx)
	if err != nil {
		return "", err
	}
	work, err := os.MkdirTemp(b.cache, "payload-test-building-")
	if err != nil {
		return "", err
	}
	dir, err := b.pack(ctx, kubernetes, versions, work)
	return dir, errors.Join(err, os.RemoveAll(work))
}

// kubernetes returns the directory with the programs that are real, and the versions of their
// modules, which are those of hack/payload/kubernetes. It builds them if that has not been
// done yet.
func (b *builder) kubernetes(ctx context.Context) (dir string, versions map[string]string, err error) {
	module := filepath.Join(b.root, "hack", "payload", "kubernetes")
	versions = map[string]string{}
	var packages []string
	for _, name := range slices.Sorted(maps.Keys(realPrograms)) {
		p := realPrograms[name]
		if versions[p.module], err = output(ctx, module, "go", "list", "-m", "-f", "{{.Version}}", p.module); err != nil {
			return "", nil, err
		}
		packages = append(packages, p.pkg)
	}
	version := versions[realPrograms["kubelet.exe"].module]
	dir, err = b.programs(ctx, module, "kubelet.exe "+version, buildArguments(version), packages...)
	return dir, versions, err
}

// programs returns the directory with programs of a module below hack/payload. It builds them if that has not been
// done yet; what says which those are, to people.
func (b *builder) programs(ctx context.Context, module, what string, arguments []string, packages ...string) (string, error) {
	goVersion, err := output(ctx, module, "go", "env", "GOVERSION")
	if err != nil {
		return "", err
	}
	key := sha256.New()
	_, _ = fmt.Fprintln(key, goVersion, arguments)
	for _, name := range []string{"go.mod", "go.sum"} {
		if err := hashFile(key, filepath.Join(module, name)); err != nil {
			return "", err
		}
	}
	dir := filepath.Join(b.cache, programsPrefix+filepath.Base(module)+"-"+hex.EncodeToString(key.Sum(nil))[:16])
	return dir, once(dir, func(tmp string) error {
		b.Logf("building %s for the tests; the first time this takes minutes", what)
		return forHosts(ctx, module, slices.Concat(arguments, []string{"-o", tmp + string(filepath.Separator)}, packages)...)
	})
}

// Exporter returns the path of the real windows_exporter.exe. It is in no payload of [Dir], because it would not start
// as a service under Wine: it asks Windows whether the service control manager has started it, which Wine does not
// answer as Windows does. It is kept as payloads are, and the working directory must be inside the checkout.
func Exporter(ctx context.Context, o Options) (string, error) {
	b, err := newBuilder(ctx, o)
	if err != nil {
		return "", fmt.Errorf("building windows_exporter: %w", err)
	}
	const name = "windows_exporter.exe"
	dir, err := b.programs(ctx, filepath.Join(b.root, "hack", "payload", "exporter"), name,
		[]string{"build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w"}, "github.com/prometheus-community/windows_exporter")
	if err != nil {
		return "", fmt.Errorf("building windows_exporter: %w", err)
	}
	return filepath.Join(dir, name), nil
}

// buildArguments are those of hack/build-payload.sh: what it has compiled is not compiled again.
func buildArguments(version string) []string {
	flags := []string{"-s", "-w"}
	major, minor, _ := strings.Cut(strings.TrimPrefix(version, "v"), ".")
	minor, _, _ = strings.Cut(minor, ".")
	for _, p := range []string{"k8s.io/component-base/version", "k8s.io/client-go/pkg/version"} {
		for _, set := range []string{"gitVersion=" + version, "gitMajor=" + major, "gitMinor=" + minor, "gitTreeState=clean"} {
			flags = append(flags, "-X", p+"."+set)
		}
	}
	return []string{"build", "-trimpath", "-buildvcs=false", "-ldflags=" + strings.Join(flags, " ")}
}

// pack builds the programs of this module and makes a payload of everything. Versions are
// those of the modules of the real programs.
func (b *builder) pack(ctx context.Context, kubernetes string, versions map[string]string, work string) (string, error) {
	for program, pkg := range map[string]string{
		"windows-node-agent.exe": "cmd/agent", "containerd.exe": "test/payload/containerd", "idle.exe": "test/payload/idle",
	} {
		err := forHosts(ctx, b.root, "build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-o", filepath.Join(work, program), modulePath+"/"+pkg)
		if err != nil {
			return "", err
		}
	}
	idle, err := os.ReadFile(filepath.Join(work, "idle.exe"))
	if err != nil {
		return "", err
	}
	list := filepath.Join(b.root, "hack", "payload", "files.json")
	text, err := os.ReadFile(list)
	if err != nil {
		return "", err
	}
	var m payload.Manifest
	if err := json.Unmarshal(text, &m); err != nil {
		return "", fmt.Errorf("%s: %w", list, err)
	}
	m.Version = "v0.0.0-test"
	var sources []payload.Source
	key := sha256.New()
	_, _ = key.Write(text)
	for _, f := range m.Files {
		s := payload.Source{File: f}
		s.Version, s.Source = m.Version, "stand-in"
		if p, ok := realPrograms[f.Name]; ok {
			// By what a manifest says people judge whether the control plane goes with it.
			s.Version, s.Source = versions[p.module], p.pkg+"@"+versions[p.module]
		}
		_, _ = fmt.Fprintln(key, s.Version, s.Source)
		for _, dir := range []string{kubernetes, work} {
			if path := filepath.Join(dir, f.Name); exists(path) {
				s.LocalPath = path
				break
			}
		}
		if s.LocalPath == "" {
			// What follows a program in its file does not matter to it, and so no two are equal.
			s.LocalPath = filepath.Join(work, f.Name)
			if err := os.WriteFile(s.LocalPath, append(slices.Clip(idle), f.Name...), 0o600); err != nil {
				return "", err
			}
		}
		if err := hashFile(key, s.LocalPath); err != nil {
			return "", err
		}
		sources = append(sources, s)
	}
	if err := errors.Join(removeUnused(b.cache, filesPrefix, unusedFiles, time.Now()), removeUnused(b.cache, programsPrefix, unusedPrograms, time.Now())); err != nil {
		return "", err
	}
	dir := filepath.Join(b.cache, filesPrefix+hex.EncodeToString(key.Sum(nil))[:16])
	return dir, once(dir, func(tmp string) error {
		// Build wants to make the directory itself.
		if err := os.Remove(tmp); err != nil {
			return err
		}
		return payload.Build(ctx, tmp, m, sources)
	})
}

// What the names of directories in the cache begin with, and for how long nobody has asked for those
// that are removed. Each version of the agent has a payload of its own, of some 170 MB; no test takes
// as long. What is real in it takes minutes to build.
const (
	filesPrefix    = "payload-test-files-"
	unusedFiles    = 4 * time.Hour
	programsPrefix = "payload-test-"
	unusedPrograms = 7 * 24 * time.Hour
)

// removeUnused removes directories with a prefix that once has not been asked for lately.
func removeUnused(cache, prefix string, unused time.Duration, now time.Time) error {
	list, err := filepath.Glob(filepath.Join(cache, prefix+"*"))
	if err != nil {
		return err
	}
	for _, dir := range list {
		if st, err := os.Stat(dir); err == nil && st.IsDir() && now.Sub(st.ModTime()) > unused {
			if err := os.RemoveAll(dir); err != nil {
				return err
			}
		}
	}
	return nil
}

// once has a directory made that is complete when it has its name, by one process.
func once(dir string, fill func(tmp string) error) (err error) {
	lock, err := os.OpenFile(dir+".lock", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lock.Close()) }() // and so gives the lock back
	for {
		if err = syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); !errors.Is(err, syscall.EINTR) {
			break
		}
	}
	if err != nil {
		return fmt.Errorf("locking %s: %w", lock.Name(), err)
	}
	now := time.Now()
	if err := os.Chtimes(dir, now, now); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	// What has this prefix was left by a process that was killed: the lock is ours.
	left, err := filepath.Glob(dir + ".tmp-*")
	if err != nil {
		return err
	}
	for _, l := range left {
		if err := os.RemoveAll(l); err != nil {
			return err
		}
	}
	tmp, err := os.MkdirTemp(filepath.Dir(dir), filepath.Base(dir)+".tmp-")
	if err != nil {
		return err
	}
	if err := fill(tmp); err != nil {
		return errors.Join(err, os.RemoveAll(tmp))
	}
	return os.Rename(tmp, dir)
}

// forHosts runs go as for a host.
func forHosts(ctx context.Context, dir string, args ...string) error {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = dir
	cmd.Env = append(slices.DeleteFunc(os.Environ(), func(v string) bool {
		return strings.HasPrefix(v, "GOFLAGS=") || strings.HasPrefix(v, "GOWORK=")
	}), "GOOS=windows", "GOARCH=amd64", "CGO_ENABLED=0", "GOWORK=off")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("go %s: %w\n%s", strings.Join(args, " "), err, strings.TrimSpace(string(out)))
	}
	return nil
}

// output runs a program and returns what it prints.
func output(ctx context.Context, dir, program string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir = dir
	out, err := cmd.Output()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		err = fmt.Errorf("%w: %s", err, strings.TrimSpace(string(exit.Stderr)))
	}
	if err != nil {
		return "", fmt.Errorf("%s %s: %w", program, strings.Join(args, " "), err)
	}
	return strings.TrimSpace(string(out)), nil
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func hashFile(to io.Writer, path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = io.Copy(to, f)
	return err
}
