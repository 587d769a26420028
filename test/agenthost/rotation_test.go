// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package agenthost

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/openshift/windows-instance-api/pkg/agent"
	"github.com/openshift/windows-instance-api/pkg/agent/api"
	"github.com/openshift/windows-instance-api/pkg/agent/api/config"
	"github.com/openshift/windows-instance-api/pkg/agent/engine"
)

// lineOf is the n-th line of a log.
func lineOf(n int) string { return fmt.Sprintf("line %08d %s\n", n, strings.Repeat("x", n%90)) }

// linesOf are the lines up to the n-th.
func linesOf(n int) string {
	var out strings.Builder
	for i := 1; i <= n; i++ {
		out.WriteString(lineOf(i))
	}
	return out.String()
}

// rotatingHost is a host that has been told to rotate a log.
func rotatingHost(t *testing.T, r config.LogRotation) (host *Host, directory string) {
	t.Helper()
	drive := filepath.Join(t.TempDir(), "c")
	host = NewHost(Options{Drive: drive, LogRoot: filepath.Join(drive, "var", "log")})
	if err := os.MkdirAll(filepath.Join(drive, "Windows", "windows-node-agent"), 0o755); err != nil {
		t.Fatal(err)
	}
	document := config.Document{
		Version: config.SchemaVersion, Directories: []config.Directory{{Path: `C:\var\log\writer`}},
		LogRotation: []config.LogRotation{r},
	}
	result := (&engine.Engine{System: host.System()}).Apply(t.Context(), &api.ApplyRequest{Bundle: config.Bundle{Document: document}})
	if result.Outcome != api.OutcomeApplied {
		t.Fatalf("apply: %+v", result)
	}
	return host, filepath.Join(drive, "var", "log", "writer")
}

// rotated are the paths of the rotated logs, the oldest first.
func rotated(t *testing.T, directory string) []string {
	t.Helper()
	list, err := filepath.Glob(filepath.Join(directory, "writer-*.log"))
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(list)
	return list
}

// eventually waits for a condition.
func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	deadline := time.NewTimer(time.Minute)
	defer deadline.Stop()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !condition() {
		select {
		case <-deadline.C:
			t.Fatalf("never: %s", what)
		case <-tick.C:
		}
	}
}

// keep runs the service until the test ends or stop is called.
func keep(t *testing.T, host *Host) (stop func()) {
	t.Helper()
	e := &engine.Engine{System: host.System()}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		err := e.Run(ctx, engine.RunOptions{
			Every:  time.Millisecond,
			Report: func(d api.Drift) { t.Errorf("the service reports %+v", d) },
		})
		if err != nil {
			t.Error(err)
		}
	})
	stop = func() {
		cancel()
		running.Wait()
	}
	t.Cleanup(stop)
	return stop
}

// follower is somebody who follows the log of the host from its beginning.
type follower struct {
	*testing.T
	requests *io.PipeWriter
	ended    sync.WaitGroup

	mu   sync.Mutex
	text bytes.Buffer
}

func (f *follower) Write(b []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.text.Write(b)
}

// followed is the log as it was sent, without the header.
func (f *follower) followed() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	header, text, _ := strings.Cut(f.text.String(), "\n")
	if strings.Contains(header, "error") {
		f.Error(header)
	}
	return text
}

// waitFor waits until so many lines were sent.
func (f *follower) waitFor(lines int) {
	f.Helper()
	eventually(f.T, fmt.Sprintf("%d lines", lines), func() bool { return len(f.followed()) >= len(linesOf(lines)) })
}

func (f *follower) stop() {
	f.Helper()
	if _, err := io.WriteString(f.requests, api.StopLine+"\n"); err != nil {
		f.Error(err)
	}
	f.ended.Wait()
	if err := f.requests.Close(); err != nil {
		f.Error(err)
	}
}

func follow(t *testing.T, host *Host) *follower {
	t.Helper()
	request, requests := io.Pipe()
	f := &follower{T: t, requests: requests}
	f.ended.Go(func() {
		agent.Main(context.WithoutCancel(t.Context()), host, []string{api.CommandLogs}, request, f, os.Stderr)
	})
	if _, err := io.WriteString(requests, `{"queries":["writer"],"follow":true}`+"\n"); err != nil {
		t.Fatal(err)
	}
	return f
}

// TestLogRotation: the agent rotates the log of a program that keeps it open, and somebody
// follows it. No line is lost, and none is there twice.
func TestLogRotation(t *testing.T) {
	// All batches of so many lines have the same size: when a log has it, all of it is written.
	const rotations, lines = 5, 450
	size := len(linesOf(lines))
	host, directory := rotatingHost(t, config.LogRotation{Path: `C:\var\log\writer\writer.log`, MaxBytes: int64(size)})
	path := filepath.Join(directory, "writer.log")
	program, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	defer program.Close()
	if _, err := program.WriteString(linesOf(1)); err != nil {
		t.Fatal(err)
	}
	f := follow(t, host)
	defer f.stop()
	f.waitFor(1) // it begins with the present file
	stop := keep(t, host)
	text := linesOf(rotations * lines)
	for n := range rotations {
		if _, err := program.WriteString(text[max(n*size, len(linesOf(1))) : (n+1)*size]); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the log is rotated", func() bool {
			info, err := os.Stat(path)
			return err == nil && info.Size() == 0
		})
	}
	stop()
	f.waitFor(rotations * lines)
	if f.followed() != text {
		t.Error("what was followed is not what was written")
	}
	var all strings.Builder
	for _, name := range rotated(t, directory) {
		content, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		all.Write(content)
	}
	if all.String() != text {
		t.Error("what is in the rotated files is not what was written")
	}
}

// TestFollowLogRunner: the real kube-log-runner rotates the log of a program and removes old
// ones, and somebody follows it. No line is lost, and none is there twice.
func TestFollowLogRunner(t *testing.T) {
	root := t.TempDir()
	directory := filepath.Join(root, "log", "writer")
	host := NewHost(Options{Drive: filepath.Join(root, "c"), LogRoot: filepath.Join(root, "log")})
	if err := os.MkdirAll(directory, 0o755); err != nil {
		t.Fatal(err)
	}
	runner := filepath.Join(root, "kube-log-runner")
	build := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-o", runner, "k8s.io/component-base/logs/kube-log-runner")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	// It gives what it runs no standard input.
	pipe := filepath.Join(root, "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	command := exec.CommandContext(t.Context(), runner, "-log-file="+filepath.Join(directory, "writer.log"),
		"-log-file-size=4Ki", "-log-file-age=1h", "cat", pipe)
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	program, err := os.OpenFile(pipe, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	f := follow(t, host)
	defer f.stop()
	written := 0
	write := func() {
		t.Helper()
		text := linesOf(written + 10)[len(linesOf(written)):]
		if _, err := program.WriteString(text); err != nil {
			t.Fatal(err)
		}
		written += 10
		f.waitFor(written)
	}
	for n := range 3 {
		var now []string
		for old := rotated(t, directory); len(now) == 0 || slices.Equal(now, old); now = rotated(t, directory) {
			write()
		}
		eventually(t, "what was rotated before is removed", func() bool { now = rotated(t, directory); return len(now) == 1 })
		// It was rotated long ago. Files that are rotated in the same second have the same name.
		old := filepath.Join(directory, fmt.Sprintf("writer-20200101-00000%d.log", n))
		if err := errors.Join(os.Rename(now[0], old), os.Chtimes(old, time.Time{}, time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC))); err != nil {
			t.Fatal(err)
		}
	}
	write()
	if err := errors.Join(program.Close(), command.Wait()); err != nil {
		t.Error(err)
	}
	if f.followed() != linesOf(written) {
		t.Error("what was followed is not what was written")
	}
}
