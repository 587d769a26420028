// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package agenthost

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/openshift/windows-instance-api/pkg/agent"
	"github.com/openshift/windows-instance-api/pkg/agent/api"
	"github.com/openshift/windows-instance-api/pkg/agent/api/config"
	"github.com/openshift/windows-instance-api/pkg/agent/engine"
	"github.com/openshift/windows-instance-api/pkg/agent/sparse"
)

// writerFlags makes this test binary a program that writes numbered lines to the file that
// is its argument, with these flags, until its standard input ends.
const writerFlags = "WRITER_FLAGS"

func TestMain(m *testing.M) {
	if flags := os.Getenv(writerFlags); flags != "" {
		if err := writeLines(os.Args[len(os.Args)-1], flags); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// writeLines prints how many lines it has written.
func writeLines(path, flags string) error {
	flag, err := strconv.Atoi(flags)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(path, flag, 0o644)
	if err != nil {
		return err
	}
	ended := make(chan struct{})
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		close(ended)
	}()
	for n := 1; ; n++ {
		if _, err := fmt.Fprintf(f, "line %08d %s\n", n, strings.Repeat("x", n%90)); err != nil {
			return err
		}
		select {
		case <-ended:
			fmt.Println(n)
			return f.Close()
		default:
		}
	}
}

// writer is a running program with a log.
type writer struct {
	*testing.T
	command *exec.Cmd
	stdin   io.Closer
	stdout  bytes.Buffer
}

func startWriter(t *testing.T, path string, flags int) *writer {
	t.Helper()
	w := &writer{T: t, command: exec.CommandContext(t.Context(), os.Args[0], path)}
	w.command.Env = append(os.Environ(), fmt.Sprintf("%s=%d", writerFlags, flags))
	w.command.Stdout, w.command.Stderr = &w.stdout, os.Stderr
	var err error
	if w.stdin, err = w.command.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := w.command.Start(); err != nil {
		t.Fatal(err)
	}
	return w
}

// stop ends the program and returns how many lines it has written.
func (w *writer) stop() int {
	w.Helper()
	if err := w.stdin.Close(); err != nil {
		w.Fatal(err)
	}
	if err := w.command.Wait(); err != nil {
		w.Fatal(err)
	}
	n, err := strconv.Atoi(strings.TrimSpace(w.stdout.String()))
	if err != nil {
		w.Fatal(err)
	}
	return n
}

// checkLines reports whether a text has all the lines, each once, in their order.
func checkLines(t *testing.T, what string, text io.Reader, want int) {
	t.Helper()
	n := 0
	for s := bufio.NewScanner(text); s.Scan(); {
		n++
		if want := fmt.Sprintf("line %08d %s", n, strings.Repeat("x", n%90)); s.Text() != want {
			t.Errorf("%s: line %d is %q, want %q", what, n, s.Text(), want)
			return
		}
	}
	if n != want {
		t.Errorf("%s: %d lines, want %d", what, n, want)
	}
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

// TestLogRotation: a program writes while its log is rotated and read. No line is lost, and
// none is there twice.
func TestLogRotation(t *testing.T) {
	for _, tt := range []struct {
		name  string
		flags int
	}{
		{name: "a program that appends", flags: os.O_CREATE | os.O_WRONLY | os.O_APPEND},
		{name: "a program that writes where it was", flags: os.O_CREATE | os.O_WRONLY},
	} {
		t.Run(tt.name, func(t *testing.T) {
			host, directory := rotatingHost(t, config.LogRotation{Path: `C:\var\log\writer\writer.log`, MaxBytes: 100 << 10})
			path := filepath.Join(directory, "writer.log")
			if err := os.WriteFile(path, nil, 0o644); err != nil {
				t.Fatal(err)
			}
			// Somebody follows it from its beginning.
			var followed bytes.Buffer
			request, requests := io.Pipe()
			var following sync.WaitGroup
			following.Go(func() {
				agent.Main(context.WithoutCancel(t.Context()), host, []string{api.CommandLogs}, request, &followed, os.Stderr)
			})
			if _, err := io.WriteString(requests, `{"queries":["writer"],"follow":true}`+"\n"); err != nil {
				t.Fatal(err)
			}

			w := startWriter(t, path, tt.flags)
			stop := keep(t, host)
			eventually(t, "five rotations", func() bool { return len(rotated(t, directory)) >= 5 })
			lines := w.stop()
			stop()

			if _, err := io.WriteString(requests, api.StopLine+"\n"); err != nil {
				t.Fatal(err)
			}
			following.Wait()
			if err := requests.Close(); err != nil {
				t.Fatal(err)
			}
			header, text, _ := strings.Cut(followed.String(), "\n")
			if strings.Contains(header, "error") {
				t.Fatal(header)
			}
			checkLines(t, "followed", strings.NewReader(text), lines)

			var all []io.Reader
			for _, name := range rotated(t, directory) {
				content, err := os.ReadFile(name)
				if err != nil {
					t.Fatal(err)
				}
				all = append(all, bytes.NewReader(content))
			}
			f, err := os.Open(path)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			start, err := sparse.TextStart(f)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := f.Seek(start, io.SeekStart); err != nil {
				t.Fatal(err)
			}
			checkLines(t, "files", io.MultiReader(append(all, f)...), lines)

			info, err := f.Stat()
			if err != nil {
				t.Fatal(err)
			}
			if used := info.Sys().(*syscall.Stat_t).Blocks * 512; used > info.Size()-start+4*sparse.Unit {
				t.Errorf("a text of %d bytes takes %d", info.Size()-start, used)
			}
		})
	}
}
