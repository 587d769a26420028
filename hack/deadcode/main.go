// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

// Command deadcode fails when the product has functions that no program reaches:
//
//	go run ./hack/deadcode [-allowed FILE] DEADCODE
//
// DEADCODE is the program of golang.org/x/tools/cmd/deadcode. It analyzes one platform
// at a time, from the programs that are built for it, so it also reports what only
// another platform reaches: the servers compile the protocol of the agent, whose other
// end is a program for Windows. A function is dead here when every platform that
// compiles it says so, and so is a package that no program has at all.
//
// FILE lists what may be dead, each line the name of a function or of a package and the
// reason. An entry that is not dead, or is gone, fails too. Generated code is left out.
package main

import (
	"bytes"
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
	"slices"
	"strings"
)

const (
	module = "github.com/openshift/windows-instance-api"
	// generated packages have what clients of other people may need.
	generated = "pkg/generated"
)

// programs are the main packages by platform. The one below hack makes the payload image.
var programs = map[string][]string{
	"linux":   {"./cmd/apiserver", "./cmd/controller", "./cmd/kubectl-windows", "./hack/payload/pack"},
	"windows": {"./cmd/agent", "./cmd/kubectl-windows"},
	"darwin":  {"./cmd/kubectl-windows"},
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "deadcode:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, arguments []string, out io.Writer) error {
	flags := flag.NewFlagSet("deadcode", flag.ContinueOnError)
	allowedFile := flags.String("allowed", "hack/deadcode-allowed.txt", "file with what may be dead")
	if err := flags.Parse(arguments); err != nil {
		return err
	}
	if flags.NArg() != 1 {
		return errors.New("usage: deadcode [-allowed FILE] DEADCODE")
	}
	text, err := os.ReadFile(*allowedFile)
	if err != nil {
		return fmt.Errorf("read what may be dead: %w", err)
	}
	allowed, err := parseAllowed(string(text))
	if err != nil {
		return fmt.Errorf("%s: %w", *allowedFile, err)
	}
	var platforms []platform
	for _, goos := range slices.Sorted(maps.Keys(programs)) {
		p, err := analyze(ctx, goos, flags.Arg(0))
		if err != nil {
			return fmt.Errorf("%s: %w", goos, err)
		}
		platforms = append(platforms, p)
	}
	problems := check(platforms, allowed)
	for _, problem := range problems {
		if _, err := fmt.Fprintln(out, problem); err != nil {
			return err
		}
	}
	if len(problems) > 0 {
		return fmt.Errorf("%d problems: remove what no program calls, move it to the test that calls it, or name it in %s with a reason", len(problems), *allowedFile)
	}
	return nil
}

// function is a function of the product that is not reached on a platform.
type function struct {
	name     string // package below the module, a dot, and the name
	file     string // below the module
	position string
}

// platform is what is known of the programs of one platform.
type platform struct {
	compiled map[string]bool // files of this module that its programs are compiled of
	packages map[string]bool // packages of the product, by whether its programs have them
	dead     []function
}

// analyze lists what the programs of a platform consist of, and what of it they do not reach.
func analyze(ctx context.Context, goos, deadcode string) (platform, error) {
	p := platform{compiled: map[string]bool{}, packages: map[string]bool{}}
	environment := append(os.Environ(), "GOOS="+goos, "GOARCH=amd64", "CGO_ENABLED=0")
	type goPackage struct {
		ImportPath string
		GoFiles    []string
	}
	list := func(patterns ...string) ([]goPackage, error) {
		text, err := output(ctx, environment, "go", append([]string{"list", "-e", "-json=ImportPath,GoFiles"}, patterns...)...)
		if err != nil {
			return nil, err
		}
		var packages []goPackage
		for decoder := json.NewDecoder(bytes.NewReader(text)); ; {
			var found goPackage
			if err := decoder.Decode(&found); errors.Is(err, io.EOF) {
				return packages, nil
			} else if err != nil {
				return nil, fmt.Errorf("read the answer of go list: %w", err)
			}
			if below, ours := strings.CutPrefix(found.ImportPath, module+"/"); ours {
				packages = append(packages, goPackage{below, found.GoFiles})
			}
		}
	}
	all, err := list("./pkg/...")
	if err != nil {
		return p, err
	}
	for _, found := range all {
		if len(found.GoFiles) > 0 {
			p.packages[found.ImportPath] = false
		}
	}
	linked, err := list(append([]string{"-deps"}, programs[goos]...)...)
	if err != nil {
		return p, err
	}
	for _, found := range linked {
		p.packages[found.ImportPath] = true
		for _, file := range found.GoFiles {
			p.compiled[found.ImportPath+"/"+file] = true
		}
	}
	text, err := output(ctx, environment, deadcode, append([]string{"-json"}, programs[goos]...)...)
	if err != nil {
		return p, err
	}
	root, err := os.Getwd()
	if err != nil {
		return p, err
	}
	p.dead, err = parseDead(text, root)
	return p, err
}

// parseDead reads the answer of deadcode, which was run in root.
func parseDead(text []byte, root string) ([]function, error) {
	var packages []struct {
		Path  string
		Funcs []struct {
			Name     string
			Position struct {
				File string
				Line int
			}
			Generated, Marker bool
		}
	}
	if err := json.Unmarshal(text, &packages); err != nil {
		return nil, fmt.Errorf("read the answer of deadcode: %w", err)
	}
	var dead []function
	for _, p := range packages {
		for _, f := range p.Funcs {
			if f.Generated || f.Marker {
				continue
			}
			file := f.Position.File
			if filepath.IsAbs(file) {
				below, err := filepath.Rel(root, file)
				if err != nil {
					return nil, fmt.Errorf("position of %s: %w", f.Name, err)
				}
				file = below
			}
			file = filepath.ToSlash(file)
			dead = append(dead, function{
				name:     strings.TrimPrefix(p.Path, module+"/") + "." + f.Name,
				file:     file,
				position: fmt.Sprintf("%s:%d", file, f.Position.Line),
			})
		}
	}
	return dead, nil
}

// output runs a program and returns what it writes.
func output(ctx context.Context, environment []string, program string, arguments ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, program, arguments...)
	cmd.Env = environment
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	text, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%s: %w\n%s", filepath.Base(program), err, stderr.Bytes())
	}
	return text, nil
}

// parseAllowed reads lines of a name and a reason. Empty lines and comments are skipped.
func parseAllowed(text string) ([]string, error) {
	var names []string
	for number, line := range strings.Split(text, "\n") {
		if line = strings.TrimSpace(line); line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		name, reason, _ := strings.Cut(line, " ")
		if strings.TrimSpace(reason) == "" {
			return nil, fmt.Errorf("line %d: say after %s why it may be dead", number+1, name)
		}
		if slices.Contains(names, name) {
			return nil, fmt.Errorf("line %d: %s is listed twice", number+1, name)
		}
		names = append(names, name)
	}
	return names, nil
}

// check returns what is dead and not allowed, and what is allowed and not dead.
func check(platforms []platform, allowed []string) []string {
	dead := map[string]string{} // name to what to say about it
	for _, f := range deadEverywhere(platforms) {
		dead[f.name] = fmt.Sprintf("%s: no program calls %s", f.position, f.name)
	}
	for _, name := range packagesOfNobody(platforms) {
		dead[name] = fmt.Sprintf("%s: no program has this package", name)
	}
	var problems []string
	for _, name := range allowed {
		if _, isDead := dead[name]; !isDead {
			problems = append(problems, fmt.Sprintf("%s is not dead, or is gone: take it off the list of what may be dead", name))
		}
		delete(dead, name)
	}
	return append(problems, slices.Sorted(maps.Values(dead))...)
}

// deadEverywhere returns the functions that each platform reports which compiles them.
func deadEverywhere(platforms []platform) []function {
	reports := map[function]int{}
	for _, p := range platforms {
		for _, f := range p.dead {
			reports[f]++
		}
	}
	var dead []function
	for f, count := range reports {
		compilers := 0
		for _, p := range platforms {
			if p.compiled[f.file] {
				compilers++
			}
		}
		if count == compilers && !strings.HasPrefix(f.name, generated) {
			dead = append(dead, f)
		}
	}
	return dead
}

// packagesOfNobody returns the packages that are in the programs of no platform.
func packagesOfNobody(platforms []platform) []string {
	linked := map[string]bool{}
	for _, p := range platforms {
		for name, isLinked := range p.packages {
			linked[name] = linked[name] || isLinked
		}
	}
	maps.DeleteFunc(linked, func(name string, isLinked bool) bool {
		return isLinked || strings.HasPrefix(name, generated)
	})
	return slices.Sorted(maps.Keys(linked))
}
