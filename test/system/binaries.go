// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

//go:build linux

package system

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// binaries are our programs, built from this checkout.
type binaries struct {
	apiServer  string
	controller string
	agentDir   string
	pluginDir  string
}

// builds says what is built: output below the directory, package, environment.
var builds = []struct {
	output, pkg string
	env         []string
}{
	{"windows-apiserver", "./cmd/apiserver", nil},
	{"windows-controller", "./cmd/controller", nil},
	{"agent/windows-node-agent.exe", "./cmd/agent", []string{"GOOS=windows", "GOARCH=amd64", "CGO_ENABLED=0"}},
	{"plugin/kubectl-windows", "./cmd/kubectl-windows", nil},
}

// Build builds our programs into a directory of the user's cache that belongs to
// this checkout. What has not changed costs a second.
func Build(ctx context.Context, logf func(format string, args ...any)) (dir string, err error) {
	root, err := moduleRoot(ctx)
	if err != nil {
		return "", err
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("finding the cache directory: %w", err)
	}
	cache = filepath.Join(cache, "windows-instance-api")
	if dir, err = directoryOf(cache, root); err != nil {
		return "", err
	}
	if err := removeOfGone(cache); err != nil {
		return "", err
	}
	for _, b := range builds {
		logf("building %s", filepath.Base(b.output))
		// The linker replaces the file, so that a process that runs the old one goes on.
		// Without what only debuggers want it is done in half the time.
		cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags=-s -w", "-o", filepath.Join(dir, b.output), b.pkg)
		cmd.Dir = root
		cmd.Env = append(os.Environ(), b.env...)
		if out, err := cmd.CombinedOutput(); err != nil {
			return "", fmt.Errorf("building %s: %w\n%s", b.pkg, err, out)
		}
	}
	return dir, nil
}

// checkoutFile has the path of the checkout that a directory of the cache belongs to.
const checkoutFile = "checkout"

// directoryOf makes the directory of a checkout.
func directoryOf(cache, root string) (string, error) {
	sum := sha256.Sum256([]byte(root))
	dir := filepath.Join(cache, "checkout-"+hex.EncodeToString(sum[:8]))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	return dir, os.WriteFile(filepath.Join(dir, checkoutFile), []byte(root), 0o644)
}

// removeOfGone removes the directories of checkouts that are gone, which have 250 MB each.
func removeOfGone(cache string) error {
	files, err := filepath.Glob(filepath.Join(cache, "checkout-*", checkoutFile))
	if err != nil {
		return err
	}
	for _, file := range files {
		root, err := os.ReadFile(file)
		if errors.Is(err, fs.ErrNotExist) {
			continue // somebody else removes it
		}
		if err != nil {
			return err
		}
		// One that is empty is being written.
		if _, err := os.Stat(string(root)); len(root) > 0 && errors.Is(err, fs.ErrNotExist) {
			if err := os.RemoveAll(filepath.Dir(file)); err != nil {
				return err
			}
		}
	}
	return nil
}

func binariesIn(dir string) binaries {
	return binaries{
		apiServer:  filepath.Join(dir, "windows-apiserver"),
		controller: filepath.Join(dir, "windows-controller"),
		agentDir:   filepath.Join(dir, "agent"),
		pluginDir:  filepath.Join(dir, "plugin"),
	}
}

// Programs returns the directory of our programs, for [Options] of another system.
func (s *System) Programs() string { return s.options.Programs }

// PluginDir returns the directory that has kubectl-windows and nothing else, for the
// PATH of users.
func (s *System) PluginDir() string { return s.programs.pluginDir }

// moduleRoot is the directory of this checkout.
func moduleRoot(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", "github.com/openshift/windows-instance-api").Output()
	if err != nil {
		return "", fmt.Errorf("finding the checkout: %w", err)
	}
	return strings.TrimSpace(string(out)), nil
}
