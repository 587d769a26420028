// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
)

// switches is added to the package: which mutant is on, and who asked.
const switches = `package %s

import (
	cmp__ "cmp"
	os__ "os"
	strconv__ "strconv"
	sync__ "sync"
)

var (
	on__, _    = strconv__.Atoi(os__.Getenv("MUTANT"))
	reached__  = os__.Getenv("MUTANTS_REACHED")
	recorded__ sync__.Map
)

func mutate__(n int) bool {
	if reached__ != "" {
		if _, again := recorded__.LoadOrStore(n, true); !again {
			if f, err := os__.OpenFile(reached__, os__.O_APPEND|os__.O_CREATE|os__.O_WRONLY, 0o666); err == nil {
				f.WriteString(strconv__.Itoa(n) + "\n")
				f.Close()
			}
		}
	}
	return n == on__
}

func lt__[T cmp__.Ordered](n int, a, b T) bool { return a < b || a == b && mutate__(n) }
func le__[T cmp__.Ordered](n int, a, b T) bool { return a < b || a == b && !mutate__(n) }
func gt__[T cmp__.Ordered](n int, a, b T) bool { return a > b || a == b && mutate__(n) }
func ge__[T cmp__.Ordered](n int, a, b T) bool { return a > b || a == b && !mutate__(n) }

func text__[T ~string](n int, v T) T {
	if mutate__(n) {
		return v + "Mutant"
	}
	return v
}

func number__[T ~int | ~int8 | ~int16 | ~int32 | ~int64 | ~uint | ~uint8 | ~uint16 | ~uint32 | ~uint64 | ~uintptr](n int, v T) T {
	if mutate__(n) {
		return v + 1
	}
	return v
}

func zero__[T any](n int, v T) T {
	if mutate__(n) {
		return *new(T)
	}
	return v
}

func call__(n int, f func() error) error {
	if mutate__(n) {
		return nil
	}
	return f()
}
`

// source is a package as the go command knows it.
type source struct {
	Dir, ImportPath, Name, Export      string
	GoFiles, TestGoFiles, XTestGoFiles []string
	Module                             *struct{ Dir string }
}

// list asks the go command for packages.
func list(ctx context.Context, arguments ...string) ([]source, error) {
	out, err := exec.CommandContext(ctx, "go", append([]string{"list", "-trimpath", "-json"}, arguments...)...).Output()
	if err != nil {
		if exit, ok := errors.AsType[*exec.ExitError](err); ok {
			err = fmt.Errorf("%w: %s", err, exit.Stderr)
		}
		return nil, fmt.Errorf("go list: %w", err)
	}
	var packages []source
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var s source
		if err := dec.Decode(&s); errors.Is(err, io.EOF) {
			return packages, nil
		} else if err != nil {
			return nil, err
		}
		packages = append(packages, s)
	}
}

// digest is that of the files of the package.
func (s source) digest(files ...string) (string, error) {
	h := sha256.New()
	for _, name := range files {
		text, err := os.ReadFile(filepath.Join(s.Dir, name))
		if err != nil {
			return "", err
		}
		fmt.Fprintf(h, "%s %d\n%s", name, len(text), text)
	}
	return fmt.Sprintf("%x", h.Sum(nil)[:8]), nil
}

// compileError begins with the file and the line, which are those of the code without mutants.
var compileError = regexp.MustCompile(`(?m)([\w.-]+\.go):(\d+):\d+: `)

// build compiles the tests of the package with all mutants in it, into the program bin.
// Mutants that do not compile are left out; their number is returned, too.
func (s source) build(ctx context.Context, work, bin string) (mutants []mutant, invalid int, err error) {
	deps, err := list(ctx, "-export", "-deps", s.ImportPath)
	if err != nil {
		return nil, 0, err
	}
	exports := map[string]string{}
	for _, d := range deps {
		exports[d.ImportPath] = d.Export
	}
	fset, skip := token.NewFileSet(), map[string]bool{}
	var files []*ast.File
	for _, name := range s.GoFiles {
		file, err := parser.ParseFile(fset, filepath.Join(s.Dir, name), nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, 0, err
		}
		files = append(files, file)
	}
	info := &types.Info{Types: map[ast.Expr]types.TypeAndValue{}, Uses: map[*ast.Ident]types.Object{}, Defs: map[*ast.Ident]types.Object{}}
	config := types.Config{Importer: importer.ForCompiler(fset, "gc", func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) })}
	pkg, err := config.Check(s.ImportPath, fset, files, info)
	if err != nil {
		return nil, 0, err
	}
	rel, err := filepath.Rel(s.Module.Dir, s.Dir)
	if err != nil {
		return nil, 0, err
	}
	for first := 0; ; {
		mutants = nil
		replace := map[string]string{filepath.Join(s.Dir, "zz_mutate.go"): filepath.Join(work, "zz_mutate.go")}
		if err := os.WriteFile(filepath.Join(work, "zz_mutate.go"), fmt.Appendf(nil, switches, s.Name), 0o644); err != nil {
			return nil, 0, err
		}
		next := 0
		for i, name := range s.GoFiles {
			path := filepath.Join(s.Dir, name)
			src, err := os.ReadFile(path)
			if err != nil {
				return nil, 0, err
			}
			f := finder{place: filepath.Join(rel, name), src: src, fset: fset, info: info, pkg: pkg, skip: skip, next: &next, imports: map[string]string{}}
			for _, spec := range files[i].Imports {
				path, _ := strconv.Unquote(spec.Path.Value)
				f.imports[path] = ""
				if spec.Name != nil {
					f.imports[path] = spec.Name.Name
				}
			}
			found, mutated := f.find(files[i])
			mutants = append(mutants, found...)
			replace[path] = filepath.Join(work, name)
			if err := os.WriteFile(replace[path], mutated, 0o644); err != nil {
				return nil, 0, err
			}
		}
		if first == 0 {
			first = len(mutants)
		}
		overlay, err := json.Marshal(map[string]any{"Replace": replace})
		if err != nil {
			return nil, 0, err
		}
		if err := os.WriteFile(filepath.Join(work, "overlay.json"), overlay, 0o644); err != nil {
			return nil, 0, err
		}
		cmd := exec.CommandContext(ctx, "go", "test", "-c", "-vet=off", "-trimpath", "-gcflags=-e", "-overlay", filepath.Join(work, "overlay.json"), "-o", bin, s.ImportPath)
		out, err := cmd.CombinedOutput()
		if err == nil {
			return mutants, first - len(mutants), nil
		}
		known := len(skip)
		fmt.Fprintf(os.Stderr, "left out, they do not compile:\n%s", out)
		for _, m := range compileError.FindAllSubmatch(out, -1) {
			skip[filepath.Join(rel, string(m[1]))+":"+string(m[2])] = true
		}
		if len(skip) == known {
			return nil, 0, fmt.Errorf("build %s: %w\n%s", s.ImportPath, err, out)
		}
	}
}
