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
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// helperEnv makes the test binary run as the program that
// TestProcessEndsWithItsOwner kills.
const helperEnv = "CONTROLPLANE_TEST_OWNER"

// orderly ends with code 7 on SIGTERM, after saying so, and has a child in its
// process group that nobody ends.
const orderly = `
trap 'echo orderly end; exit 7' TERM
sleep 1000 & echo child $!
echo ready
wait`

// shell returns a command that runs the script and is ready once it has said so.
func shell(t *testing.T, script string) Command {
	t.Helper()
	log := filepath.Join(t.TempDir(), "test.log")
	return Command{
		Name:    "test",
		Path:    "/bin/sh",
		Args:    []string{"-c", script},
		LogFile: log,
		Ready: func(context.Context) error {
			if content, err := os.ReadFile(log); err != nil {
				return err
			} else if !bytes.Contains(content, []byte("ready\n")) {
				return errors.New("it has not said so")
			}
			return nil
		},
	}
}

// startShell starts the script and ends it with the test.
func startShell(t *testing.T, c Command) *Process {
	t.Helper()
	p, err := StartProcess(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Kill9)
	return p
}

// childPID returns the id of the child that the orderly script has.
func childPID(t *testing.T, logFile string) int {
	t.Helper()
	content, err := os.ReadFile(logFile)
	if err != nil {
		t.Fatal(err)
	}
	_, after, _ := strings.Cut(string(content), "child ")
	line, _, _ := strings.Cut(after, "\n")
	pid, err := strconv.Atoi(line)
	if err != nil {
		t.Fatalf("no child in the log: %q", content)
	}
	return pid
}

// running says whether the process exists and is no zombie.
func running(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, state, _ := bytes.Cut(stat, []byte(") "))
	return !bytes.HasPrefix(state, []byte("Z")) && !bytes.HasPrefix(state, []byte("X"))
}

// eventually waits until the condition holds.
func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	err := poll(ctx, nil, func(context.Context) error {
		if !condition() {
			return errors.New("not yet")
		}
		return nil
	})
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

func TestProcessStop(t *testing.T) {
	var deaths atomic.Int32
	c := shell(t, orderly)
	c.OnDeath = func(*ExitError) { deaths.Add(1) }
	p := startShell(t, c)
	child := childPID(t, p.LogFile())

	if p.ExitCode() != -1 || p.Err() != nil || !running(p.PID()) {
		t.Errorf("while running: ExitCode() = %d, Err() = %v, running = %v; want -1, nil, true", p.ExitCode(), p.Err(), running(p.PID()))
	}
	for range 2 { // the second does nothing
		if err := p.Stop(); err != nil {
			t.Errorf("Stop() = %v", err)
		}
	}
	if got := p.ExitCode(); got != 7 {
		t.Errorf("ExitCode() = %d, want 7, that of the end on SIGTERM", got)
	}
	if running(p.PID()) || p.Err() != nil || deaths.Load() != 0 {
		t.Errorf("after Stop: running = %v, Err() = %v, deaths = %d; want false, nil, 0", running(p.PID()), p.Err(), deaths.Load())
	}
	eventually(t, "the process group is ended with the process", func() bool { return !running(child) })
}

func TestProcessStopOfADeafProcess(t *testing.T) {
	c := shell(t, `trap '' TERM; echo ready; while :; do sleep 0.05; done`)
	c.StopTimeout = 100 * time.Millisecond
	p := startShell(t, c)
	err := p.Stop()
	if err == nil || !strings.Contains(err.Error(), "SIGTERM") {
		t.Errorf("Stop() = %v, want an error about SIGTERM", err)
	}
	if running(p.PID()) {
		t.Error("the process is still running")
	}
}

func TestProcessDeath(t *testing.T) {
	tests := []struct {
		name   string
		script string
		signal os.Signal
		want   string
	}{
		{name: "killed", script: `echo the last words; echo ready; sleep 1000`, signal: syscall.SIGKILL, want: "signal: killed"},
		{name: "gave up", script: `trap 'echo the last words; exit 3' USR1; echo ready; sleep 1000 & wait`, signal: syscall.SIGUSR1, want: "exit status 3"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			reported := make(chan *ExitError, 1)
			c := shell(t, test.script)
			c.OnDeath = func(err *ExitError) { reported <- err }
			p := startShell(t, c)
			if err := p.Signal(test.signal); err != nil {
				t.Fatal(err)
			}
			death := <-reported
			if death.Name != "test" || death.State != test.want || !strings.Contains(death.LogTail, "the last words") {
				t.Errorf("death = %+v, want test, %s, the last words", death, test.want)
			}
			var exit *ExitError
			if !errors.As(p.Err(), &exit) || exit != death {
				t.Errorf("Err() = %v, want what OnDeath got", p.Err())
			}
			if err := p.Stop(); err != nil {
				t.Errorf("Stop() of a dead process = %v", err)
			}
		})
	}
}

func TestProcessDoesNotGetReady(t *testing.T) {
	tests := []struct {
		name    string
		command func(t *testing.T) Command
		want    []string
	}{
		{
			name:    "ends first",
			command: func(t *testing.T) Command { return shell(t, `echo cannot go on; exit 2`) },
			want:    []string{"test ended unexpectedly", "exit status 2", "cannot go on"},
		},
		{
			name: "takes too long",
			command: func(t *testing.T) Command {
				c := shell(t, `echo still thinking; sleep 1000`)
				c.ReadyTimeout = 5 * time.Second // in which it says that
				return c
			},
			want: []string{"test is not ready", "deadline exceeded", "it has not said so", "still thinking"},
		},
		{
			name: "is no program",
			command: func(t *testing.T) Command {
				c := shell(t, "")
				c.Path = "/nonexistent"
				return c
			},
			want: []string{"starting test", "no such file"},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			c := test.command(t)
			c.OnDeath = func(err *ExitError) { t.Errorf("OnDeath got %v for a process that was never ready", err) }
			p, err := StartProcess(t.Context(), c)
			if err == nil {
				p.Kill9()
				t.Fatal("StartProcess() succeeded")
			}
			for _, want := range test.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("StartProcess() = %v\nwant it to say %q", err, want)
				}
			}
		})
	}
}

func TestProcessRestart(t *testing.T) {
	tests := []struct {
		name string
		end  func(p *Process)
	}{
		{name: "running", end: func(*Process) {}},
		{name: "stopped", end: func(p *Process) { _ = p.Stop() }},
		{name: "killed", end: func(p *Process) { p.Kill9() }},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			c := shell(t, orderly)
			c.OnDeath = func(err *ExitError) { t.Errorf("OnDeath got %v for an end that was asked for", err) }
			p := startShell(t, c)
			first, done := p.PID(), p.Done()
			test.end(p)
			if err := p.Restart(t.Context()); err != nil {
				t.Fatal(err)
			}
			<-done
			if p.PID() == first || !running(p.PID()) || running(first) {
				t.Errorf("process %d running: %v, process %d running: %v; want a new one only", first, running(first), p.PID(), running(p.PID()))
			}
			eventually(t, "the log has both lives", func() bool {
				content, err := os.ReadFile(p.LogFile())
				return err == nil && strings.Count(string(content), "ready\n") == 2
			})
		})
	}
}

// The kernel ends a process with the thread that started it, and a goroutine
// that ends while locked to its thread takes the thread with it.
func TestProcessOutlivesTheThreadOfItsCaller(t *testing.T) {
	c := shell(t, orderly)
	var p *Process
	var err error
	var thread int
	onThreadThatEnds(func() {
		p, err = StartProcess(t.Context(), c)
		thread = syscall.Gettid()
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Kill9)
	eventually(t, "the thread of the caller ends", func() bool {
		_, err := os.Stat(fmt.Sprintf("/proc/self/task/%d", thread))
		return os.IsNotExist(err)
	})
	if err := p.Stop(); err != nil {
		t.Fatal(err)
	}
	if got := p.ExitCode(); got != 7 {
		t.Errorf("ExitCode() = %d, want 7: the process was not there any more to end on SIGTERM", got)
	}
}

// onThreadThatEnds runs f on a thread that ends after it. The first thread of a
// program never does, so f gets another one.
func onThreadThatEnds(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread()
		if syscall.Gettid() == syscall.Getpid() {
			onThreadThatEnds(f)
			runtime.UnlockOSThread()
			return
		}
		f()
	}()
	<-done
}

func TestProcessEndsWithItsOwner(t *testing.T) {
	if logFile := os.Getenv(helperEnv); logFile != "" {
		c := shell(t, `exec sleep 1000`)
		c.LogFile, c.Ready = logFile, nil
		p, err := StartProcess(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Printf("pid %d\n", p.PID())
		select {} // until killed
	}

	owner := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$")
	dir := t.TempDir()
	// It is killed, and would leave its own temporary directory behind elsewhere.
	owner.Env = append(os.Environ(), helperEnv+"="+filepath.Join(dir, "helper.log"), "TMPDIR="+dir)
	stdout, err := owner.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := owner.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	var pid int
	if _, err := fmt.Sscanf(line, "pid %d", &pid); err != nil {
		t.Fatalf("%q: %v", line, err)
	}
	if !running(pid) {
		t.Fatal("the process does not run to begin with")
	}
	if err := owner.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = owner.Wait() // it was killed
	eventually(t, "the process ends with its owner", func() bool { return !running(pid) })
}

func TestLogTail(t *testing.T) {
	long := strings.Repeat("0123456789abcdef\n", 1000)
	tests := []struct {
		name    string
		content string
		want    string
	}{
		{name: "empty", content: "", want: ""},
		{name: "short", content: "a\nb\n", want: "a\nb"},
		{name: "long is cut at a line", content: long, want: strings.TrimRight(strings.Repeat("0123456789abcdef\n", logTailBytes/17), "\n")},
		{name: "one long line is cut anywhere", content: strings.Repeat("x", 2*logTailBytes), want: strings.Repeat("x", logTailBytes)},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "log")
			if err := os.WriteFile(path, []byte(test.content), 0o600); err != nil {
				t.Fatal(err)
			}
			if got := logTail(path); got != test.want {
				t.Errorf("logTail() = %d bytes %.40q…, want %d bytes %.40q…", len(got), got, len(test.want), test.want)
			}
		})
	}
	if got := logTail("/nonexistent"); got != "" {
		t.Errorf("logTail() of a missing file = %q", got)
	}
}
