// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package winhost

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
)

// modulePath is the Go module that this package is part of.
const modulePath = "github.com/openshift/windows-instance-api"

// cacheDir is where things are kept that take long to build:
// ${XDG_CACHE_HOME:-$HOME/.cache}/windows-instance-api.
func cacheDir() (string, error) {
	base, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("no cache directory: %w", err)
	}
	dir := filepath.Join(base, "windows-instance-api")
	return dir, os.MkdirAll(dir, 0o755)
}

// locked runs f while no other process runs one under the same name.
func locked(dir, name string, f func() error) (err error) {
	l, err := os.OpenFile(filepath.Join(dir, name+".lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.Close()) }() // and so gives the lock back
	for {
		err = syscall.Flock(int(l.Fd()), syscall.LOCK_EX)
		if !errors.Is(err, syscall.EINTR) {
			break
		}
	}
	if err != nil {
		return fmt.Errorf("locking %s: %w", l.Name(), err)
	}
	return f()
}

// BuildProgram builds a main package of this module, given by its path within the module
// (cmd/agent), and returns the executable. Nothing is compiled or linked twice.
func BuildProgram(ctx context.Context, pkg, goos, goarch string) ([]byte, error) {
	return build(ctx, filepath.Base(pkg), pkg, goos, goarch, "build")
}

// BuildTests is BuildProgram for the tests of a package.
func BuildTests(ctx context.Context, pkg, goos, goarch string) ([]byte, error) {
	return build(ctx, filepath.Base(pkg)+"-tests", pkg, goos, goarch, "test", "-c")
}

func build(ctx context.Context, name, pkg, goos, goarch string, command ...string) (program []byte, err error) {
	dir, err := cacheDir()
	if err != nil {
		return nil, err
	}
	name = fmt.Sprintf("%s-%s-%s", name, goos, goarch)
	out := filepath.Join(dir, name)
	cmd := exec.CommandContext(ctx, "go", append(command, "-trimpath", "-ldflags=-s -w", "-o", out, modulePath+"/"+pkg)...)
	cmd.Env = append(os.Environ(), "GOOS="+goos, "GOARCH="+goarch, "CGO_ENABLED=0")
	cmd.Dir = sourceDir()
	err = locked(dir, name, func() error {
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
