// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

//go:build linux

package controlplane

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
)

// BinDirEnv names the environment variable with the directory of the binaries:
// etcd, kube-apiserver, kube-controller-manager, kubectl.
const BinDirEnv = "CONTROLPLANE_BIN"

// BinDir returns the directory of the binaries: what BinDirEnv says, or else
// what hack/build-controlplane.sh prints, which builds them the first time. logf
// gets the script's progress and may be nil. The working directory must be
// inside the checkout unless the environment variable is set.
func BinDir(ctx context.Context, logf func(format string, args ...any)) (string, error) {
	dir := os.Getenv(BinDirEnv)
	if dir == "" {
		root, err := moduleRoot(ctx)
		if err != nil {
			return "", fmt.Errorf("finding hack/build-controlplane.sh: %w; set %s to a directory with the binaries", err, BinDirEnv)
		}
		dir, err = runBuildScript(ctx, filepath.Join(root, "hack", "build-controlplane.sh"), logf)
		if err != nil {
			return "", err
		}
	}
	return dir, checkBinaries(dir)
}

func checkBinaries(dir string) error {
	for _, name := range []string{"etcd", "kube-apiserver", "kube-controller-manager", "kubectl"} {
		if _, err := os.Stat(filepath.Join(dir, name)); errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("%s has no %s; hack/build-controlplane.sh builds it", dir, name)
		} else if err != nil {
			return fmt.Errorf("looking for control plane binaries: %w", err)
		}
	}
	return nil
}

// runBuildScript returns the last line of the script's stdout and passes what it
// says on stderr to logf.
func runBuildScript(ctx context.Context, script string, logf func(string, ...any)) (string, error) {
	cmd := exec.CommandContext(ctx, script)
	var stdout bytes.Buffer
	cmd.Stdout = &stdout
	stderr, err := cmd.StderrPipe()
	if err != nil {
		return "", fmt.Errorf("running %s: %w", script, err)
	}
	if err := cmd.Start(); err != nil {
		return "", fmt.Errorf("running %s: %w", script, err)
	}
	var said []string
	for lines := bufio.NewScanner(stderr); lines.Scan(); {
		said = append(said, lines.Text())
		if logf != nil {
			logf("%s", lines.Text())
		}
	}
	if err := cmd.Wait(); err != nil {
		return "", fmt.Errorf("running %s: %w; it said:\n%s", script, err, strings.Join(said[max(0, len(said)-10):], "\n"))
	}
	lines := strings.Split(strings.TrimSpace(stdout.String()), "\n")
	dir := lines[len(lines)-1]
	return dir, use(dir)
}

// inUse has the locks of the directories that this process uses, by their names.
var inUse sync.Map

// use keeps the script, until this process ends, from removing a directory that it has made when it
// makes those of later versions.
func use(dir string) error {
	lock, err := os.Open(dir + ".lock")
	if err != nil {
		return err
	}
	for {
		if err = syscall.Flock(int(lock.Fd()), syscall.LOCK_SH); !errors.Is(err, syscall.EINTR) {
			break
		}
	}
	if err != nil {
		return errors.Join(fmt.Errorf("locking %s: %w", lock.Name(), err), lock.Close())
	}
	if _, there := inUse.LoadOrStore(dir, lock); there {
		return lock.Close()
	}
	return nil
}

// moduleRoot returns the root of the module the working directory belongs to.
func moduleRoot(ctx context.Context) (string, error) {
	gomod, err := goOutput(ctx, "", "env", "GOMOD")
	if err != nil {
		return "", err
	}
	if gomod == "" || gomod == os.DevNull {
		return "", errors.New("the working directory is in no Go module")
	}
	return filepath.Dir(gomod), nil
}

// goOutput runs the go command in dir and returns what it prints.
func goOutput(ctx context.Context, dir string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = dir
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("go %s: %w: %s", strings.Join(args, " "), err, bytes.TrimSpace(stderr.Bytes()))
	}
	return strings.TrimSpace(string(out)), nil
}
