// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

// Command licenses collects the license texts that go with programs:
//
//	go run ./hack/licenses [-C DIR] [-platform GOOS/GOARCH] [-out DIR] PACKAGE...
//
// Of each package that is linked into the programs, those of its directory and of the directories above
// it in its module are copied, because a package may be the work of others than the rest of its module.
// They are in out/PATH@VERSION for each module, in out/std@VERSION for Go itself, and in out for the
// module that the packages are in. What is in out stays, so that several runs can fill it.
//
// It fails if a package has none, and names the module. Without -out it only looks for them.
package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "licenses:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, arguments []string) error {
	flags := flag.NewFlagSet("licenses", flag.ContinueOnError)
	dir := flags.String("C", "", "directory of the module that is built (default the working directory)")
	platform := flags.String("platform", "", "what the programs are built for, such as windows/amd64 (default what go builds for)")
	out := flags.String("out", "", "directory for the texts (default none: only look for them)")
	if err := flags.Parse(arguments); err != nil {
		return err
	}
	if flags.NArg() == 0 {
		return errors.New("name the packages of the programs")
	}
	environment := append(os.Environ(), "CGO_ENABLED=0")
	if *platform != "" {
		goos, goarch, found := strings.Cut(*platform, "/")
		if !found {
			return fmt.Errorf("-platform %s: want GOOS/GOARCH", *platform)
		}
		environment = append(environment, "GOOS="+goos, "GOARCH="+goarch)
	}
	tool := goTool{dir: *dir, environment: environment}
	packages, err := tool.linked(ctx, flags.Args())
	if err != nil {
		return err
	}
	texts, err := find(packages)
	if err != nil || *out == "" {
		return err
	}
	for name, source := range texts {
		if err := copyFile(filepath.Join(*out, name), source); err != nil {
			return err
		}
	}
	return nil
}

// linkedPackage is a package that is linked into a program.
type linkedPackage struct {
	path   string
	dir    string
	folder string // of the texts of its module; empty for the module that is built
	root   string // directory of its module
}

// goTool is the go command.
type goTool struct {
	dir         string // where it is run; empty: the working directory
	environment []string
}

// linked returns the packages of which programs consist.
func (t goTool) linked(ctx context.Context, programs []string) ([]linkedPackage, error) {
	text, err := t.output(ctx, "env", "GOROOT", "GOVERSION")
	if err != nil {
		return nil, err
	}
	goroot, version, _ := strings.Cut(strings.TrimSpace(string(text)), "\n")
	// Without -buildvcs=false it asks git about the programs.
	text, err = t.output(ctx, append([]string{"list", "-deps", "-buildvcs=false", "-json=ImportPath,Dir,Standard,Module"}, programs...)...)
	if err != nil {
		return nil, err
	}
	type module struct {
		Path, Version, Dir string
		Main               bool
		Replace            *struct{ Path, Version string }
	}
	var packages []linkedPackage
	for decoder := json.NewDecoder(bytes.NewReader(text)); ; {
		var found struct {
			ImportPath, Dir string
			Standard        bool
			Module          *module
		}
		if err := decoder.Decode(&found); errors.Is(err, io.EOF) {
			return packages, nil
		} else if err != nil {
			return nil, fmt.Errorf("read the answer of go list: %w", err)
		}
		p := linkedPackage{path: found.ImportPath, dir: found.Dir}
		switch m := found.Module; {
		case found.Standard:
			p.folder, p.root = "std@"+version, goroot
		case m == nil:
			return nil, fmt.Errorf("package %s is in no module", found.ImportPath)
		default:
			p.root = m.Dir
			if !m.Main {
				p.folder = m.Path + "@" + m.Version
			}
			if m.Replace != nil && m.Replace.Version != "" {
				p.folder = m.Replace.Path + "@" + m.Replace.Version
			}
		}
		packages = append(packages, p)
	}
}

func (t goTool) output(ctx context.Context, arguments ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, "go", arguments...)
	cmd.Dir, cmd.Env = t.dir, t.environment
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	text, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go %s: %w\n%s", arguments[0], err, stderr.Bytes())
	}
	return text, nil
}

var (
	// legal is how files are named that a license asks to pass on, and license are those of them with the terms themselves.
	legal   = regexp.MustCompile(`(?i)^((un)?licen[cs]es?|copying|copyright|notices?|patents|third[-_]?party[-_](licen[cs]es?|notices?))([-_.].*)?$`)
	license = regexp.MustCompile(`(?i)^((un)?licen[cs]e|copying)`)
	// code is what is no text, such as license.go and check-license.sh.
	code = regexp.MustCompile(`(?i)\.(go|s|c|h|sh|py|json|ya?ml|tmpl)$`)
)

// find returns the texts that go with packages: from their names below the directory for all of them to
// where they are now.
func find(packages []linkedPackage) (map[string]string, error) {
	texts := map[string]string{}
	missing := map[string]string{} // for each module without, one of its packages
	for _, p := range packages {
		licensed := false
		for dir := p.dir; ; dir = filepath.Dir(dir) {
			entries, err := os.ReadDir(dir)
			if err != nil {
				return nil, fmt.Errorf("package %s: %w", p.path, err)
			}
			for _, entry := range entries {
				name := entry.Name()
				if !legal.MatchString(name) || code.MatchString(name) {
					continue
				}
				source := filepath.Join(dir, name)
				info, err := os.Stat(source) // that of a link leads to the text
				if err != nil {
					return nil, err
				}
				if !info.Mode().IsRegular() || info.Size() == 0 {
					continue
				}
				below, err := filepath.Rel(p.root, source)
				if err != nil {
					return nil, err
				}
				texts[filepath.Join(p.folder, below)] = source
				licensed = licensed || license.MatchString(name)
			}
			if dir == p.root {
				break
			}
			if dir == filepath.Dir(dir) {
				return nil, fmt.Errorf("package %s is in %s, and that is not in its module, which is in %s", p.path, p.dir, p.root)
			}
		}
		if !licensed {
			module := cmp.Or(p.folder, "the module that is built")
			missing[module] = cmp.Or(missing[module], p.path)
		}
	}
	var errs []error
	for _, module := range slices.Sorted(maps.Keys(missing)) {
		errs = append(errs, fmt.Errorf("%s has no file with a license for package %s, which is linked: programs with it may not be passed on; ask its authors for one, or use another version", module, missing[module]))
	}
	return texts, errors.Join(errs...)
}

func copyFile(to, from string) error {
	text, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	return os.WriteFile(to, text, 0o644)
}
