// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

// Package programs builds the programs of this module that tests run, and has the directory in
// which tests keep what takes long to make. It also serves tests that run on Windows.
package programs

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
)

// modulePath is the Go module that this package is part of.
const modulePath = "github.com/openshift/windows-instance-api"

// CacheDir is where things are kept that take long to build:
// ${XDG_CACHE_HOME:-$HOME/.cache}/windows-instance-api, on Windows in %LocalAppData%.
func CacheDir() (string, error) {
	base, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("no cache directory: %w", err)
	}
	dir := filepath.Join(base, "windows-instance-api")
	return dir, os.MkdirAll(dir, 0o755)
}

// Locked runs f while no other process runs one under the same name.
func Locked(dir, name string, f func() error) (err error) {
	l, err := os.OpenFile(filepath.Join(dir, name+".lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.Close()) }() // and so gives the lock back
	if err := lock(l); err != nil {
		return fmt.Errorf("locking %s: %w", l.Name(), err)
	}
	return f()
}

// Build builds a main package of this module, given by its path within the module
// (cmd/agent), and returns the executable. Nothing is compiled or linked twice.
func Build(ctx context.Context, pkg, goos, goarch string) ([]byte, error) {
	return build(ctx, filepath.Base(pkg), pkg, goos, goarch, "build")
}

// BuildTests is Build for the tests of a package.
func BuildTests(ctx context.Context, pkg, goos, goarch string) ([]byte, error) {
	return build(ctx, filepath.Base(pkg)+"-tests", pkg, goos, goarch, "test", "-c")
}

func build(ctx context.Context, name, pkg, goos, goarch string, command ...string) (program []byte, err error) {
	dir, err := CacheDir()
	if err != nil {
		return nil, err
	}
	name = fmt.Sprintf("%s-%s-%s", name, goos, goarch)
	out := filepath.Join(dir, name)
	cmd := exec.CommandContext(ctx, "go", append(command, "-trimpath", "-ldflags=-s -w", "-o", out, modulePath+"/"+pkg)...)
	cmd.Env = append(os.Environ(), "GOOS="+goos, "GOARCH="+goarch, "CGO_ENABLED=0")
	cmd.Dir = sourceDir()
	err = Locked(dir, name, func() error {
		if b, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("building %s for %s/%s: %w\n%s", pkg, goos, goarch, err, strings.TrimSpace(string(b)))
		}
		program, err = os.ReadFile(out) // before somebody else builds another version
		return err
	})
	return program, err
}

// sourceDir is a directory of this module: where this file was compiled, or else the
// working directory, which is a package of the module for every test.
func sourceDir() string {
	_, file, _, _ := runtime.Caller(0)
	if dir := filepath.Dir(file); filepath.IsAbs(dir) {
		if _, err := os.Stat(dir); err == nil {
			return dir
		}
	}
	return ""
}
