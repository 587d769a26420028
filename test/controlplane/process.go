// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

//go:build linux

package controlplane

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// Far more than any process takes, also on a machine that does much else: they are there for those that hang.
	defaultReadyTimeout = 5 * time.Minute
	defaultStopTimeout  = 2 * time.Minute

	// probeInterval is how often Command.Ready is asked, probeTimeout how long
	// one answer may take.
	probeInterval = 25 * time.Millisecond
	probeTimeout  = 5 * time.Second

	// logTailBytes bounds how much of a log goes into an error. kube-apiserver
	// says why it gives up in its last lines, some of which are long.
	logTailBytes = 4 << 10
)

// Command says what a [Process] runs.
type Command struct {
	// Name is what errors call the process. Required.
	Name string

	// Path is the program, Args its arguments without the program's name.
	Path string
	Args []string

	// Env is the whole environment, as "KEY=value". Nil means that of this
	// process.
	Env []string

	// Dir is the working directory. Empty means that of this process.
	Dir string

	// LogFile takes what the process writes to stdout and stderr. It is created
	// when missing and appended to otherwise, so that it spans restarts.
	// Required.
	LogFile string

	// Ready returns nil once the process does what it is there for. It is asked
	// again and again until then; each call gets a context of five seconds. Nil
	// means that the process is ready when it runs.
	Ready func(ctx context.Context) error

	// ReadyTimeout bounds the wait for Ready. 0 means five minutes.
	ReadyTimeout time.Duration

	// StopTimeout is how long the process may take to end after SIGTERM before
	// it is killed. 0 means two minutes.
	StopTimeout time.Duration

	// OnDeath is called when the process has ended, after it got ready, without
	// having been asked to by Stop, Kill9 or Restart. The call comes from the
	// goroutine that owned the process. Nil means nobody wants to know.
	OnDeath func(*ExitError)
}

// ExitError reports a process that ended without having been asked to.
type ExitError struct {
	// Name is the command's name.
	Name string
	// State is how the process ended, such as "exit status 1" or "signal: killed".
	State string
	// LogFile is the process's log, LogTail its last lines.
	LogFile string
	LogTail string
}

// Error says how the process ended and quotes the end of its log.
func (e *ExitError) Error() string {
	if e.LogTail == "" {
		return fmt.Sprintf("%s ended unexpectedly (%s) with nothing in its log %s", e.Name, e.State, e.LogFile)
	}
	return fmt.Sprintf("%s ended unexpectedly (%s); end of %s:\n%s", e.Name, e.State, e.LogFile, e.LogTail)
}

// Process is a program that runs beside this one, in a process group of its own
// so that a Ctrl-C in the terminal does not reach it before Stop does.
//
// When this program ends in whatever way, the kernel kills the process
// (PR_SET_PDEATHSIG). The kernel ties that to the thread that started the
// process, not to the program, and the Go runtime may end threads. So one
// goroutine starts the process and then holds on to its thread until the
// process has ended: a thread per process, and no supervisor program that would
// have to be built, found and outlived. The signal is SIGKILL, as there is
// nobody left who could wait for an orderly end. It does not reach the process's
// own children, for which the process has to care in the same way (unshare has
// --kill-child); when the process ends first, its group is killed with it.
//
// All methods may be called from several goroutines, but Stop, Kill9 and
// Restart not at the same time as Restart.
type Process struct {
	command Command

	mu  sync.Mutex // guards run
	run *run
}

// StartProcess starts the command and waits until it is ready. ctx bounds the
// wait, not the life of the process, which lasts until Stop or Kill9. When it
// does not get ready it is killed, and the error has the end of its log.
func StartProcess(ctx context.Context, c Command) (*Process, error) {
	p := &Process{command: c}
	if err := p.start(ctx); err != nil {
		return nil, err
	}
	return p, nil
}

// Name returns the command's name.
func (p *Process) Name() string { return p.command.Name }

// LogFile returns the path of the process's log.
func (p *Process) LogFile() string { return p.command.LogFile }

// PID returns the id of the process, or of the last one when it has ended.
func (p *Process) PID() int { return p.current().process.Pid }

// Done returns a channel that is closed when the process has ended. After a
// Restart, Done returns another one.
func (p *Process) Done() <-chan struct{} { return p.current().done }

// Err returns nil while the process runs and after it was asked to end, and an
// [*ExitError] after it ended of its own accord.
func (p *Process) Err() error {
	r := p.current()
	select {
	case <-r.done:
		if r.death != nil {
			return r.death
		}
	default:
	}
	return nil
}

// ExitCode returns the exit code of a process that has ended, and -1 while it
// runs and when a signal ended it.
func (p *Process) ExitCode() int {
	r := p.current()
	select {
	case <-r.done:
		return r.state.ExitCode()
	default:
		return -1
	}
}

// Signal sends sig to the process. That the process ends of it counts as
// unexpected, which is how tests make it die.
func (p *Process) Signal(sig os.Signal) error {
	if err := p.current().process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("sending %v to %s: %w", sig, p.command.Name, err)
	}
	return nil
}

// Stop ends the process with SIGTERM and waits for its end. If that takes longer
// than the command's StopTimeout, it is killed and Stop returns an error.
// Stopping a process that has ended does nothing.
func (p *Process) Stop() error {
	r := p.current()
	r.asked.Store(true)
	// The error of a process that has ended just now is no news.
	_ = r.process.Signal(syscall.SIGTERM)

	limit := p.command.StopTimeout
	if limit == 0 {
		limit = defaultStopTimeout
	}
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-r.done:
		return nil
	case <-timer.C:
		r.kill()
		return fmt.Errorf("%s did not end within %v of SIGTERM and was killed; end of %s:\n%s",
			p.command.Name, limit, p.command.LogFile, p.LogTail())
	}
}

// Kill9 ends the process and its process group with SIGKILL, as a crash or a
// power loss would, and returns when it is gone. Killing a process that has
// ended does nothing.
func (p *Process) Kill9() {
	r := p.current()
	r.asked.Store(true)
	r.kill()
}

// Restart stops the process if it still runs, starts the same command again and
// waits until it is ready. When that fails, the process is not running.
func (p *Process) Restart(ctx context.Context) error {
	if err := p.Stop(); err != nil {
		return fmt.Errorf("restarting: %w", err)
	}
	return p.start(ctx)
}

// RestartWith is Restart with other arguments: what edit returns for those of now. They stay.
func (p *Process) RestartWith(ctx context.Context, edit func(args []string) []string) error {
	if err := p.Stop(); err != nil {
		return fmt.Errorf("restarting: %w", err)
	}
	p.command.Args = edit(slices.Clone(p.command.Args))
	return p.start(ctx)
}

// LogTail returns the last lines of the process's log, at most 4 KiB of them.
func (p *Process) LogTail() string { return logTail(p.command.LogFile) }

func (p *Process) current() *run {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.run
}

// start starts the command and waits until it is ready.
func (p *Process) start(ctx context.Context) error {
	r, err := startRun(p.command)
	if err != nil {
		return err
	}
	p.mu.Lock()
	p.run = r
	p.mu.Unlock()

	if err := p.waitReady(ctx, r); err != nil {
		r.asked.Store(true)
		r.kill()
		return err
	}
	r.ready.Store(true)

	// An end that came before this line had nobody to report it.
	select {
	case <-r.done:
		if r.death != nil {
			return r.death
		}
	default:
	}
	return nil
}

func (p *Process) waitReady(ctx context.Context, r *run) error {
	if p.command.Ready == nil {
		return nil
	}
	limit := p.command.ReadyTimeout
	if limit == 0 {
		limit = defaultReadyTimeout
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()

	err := poll(ctx, r.done, func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, probeTimeout)
		defer cancel()
		return p.command.Ready(ctx)
	})
	switch {
	case err == nil:
		return nil
	case errors.Is(err, errEnded) && r.death != nil:
		return r.death
	default:
		return fmt.Errorf("%s is not ready: %w; end of %s:\n%s", p.command.Name, err, p.command.LogFile, p.LogTail())
	}
}

// run is one life of a Process.
type run struct {
	process *os.Process

	asked atomic.Bool // the end was asked for
	ready atomic.Bool // the process got ready once: only then is its end a death to report

	done  chan struct{}
	state *os.ProcessState // set when done is closed
	death *ExitError       // set when done is closed, unless the end was asked for
}

// startRun starts the command. The goroutine that does so ends with the process.
func startRun(c Command) (*run, error) {
	if err := os.MkdirAll(filepath.Dir(c.LogFile), 0o755); err != nil {
		return nil, fmt.Errorf("starting %s: %w", c.Name, err)
	}
	log, err := os.OpenFile(c.LogFile, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("starting %s: %w", c.Name, err)
	}

	// Not CommandContext: the life of the process is not that of a call.
	cmd := exec.Command(c.Path, c.Args...)
	cmd.Env, cmd.Dir, cmd.Stdout, cmd.Stderr = c.Env, c.Dir, log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}

	r := &run{done: make(chan struct{})}
	started := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // see Process
		defer runtime.UnlockOSThread()

		err := cmd.Start()
		r.process = cmd.Process
		// The child has its own descriptor by now.
		_ = log.Close()
		started <- err
		if err != nil {
			return
		}
		r.own(c, cmd)
		close(r.done)
		if r.death != nil && r.ready.Load() && c.OnDeath != nil {
			c.OnDeath(r.death)
		}
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("starting %s: %w", c.Name, err)
	}
	return r, nil
}

// own waits for the end of the process and clears up after it.
func (r *run) own(c Command, cmd *exec.Cmd) {
	// Until it is waited for, the process keeps its id and with it that of its
	// group, so this cannot hit anybody else's group.
	waitExited(cmd.Process.Pid)
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)

	err := cmd.Wait()
	r.state = cmd.ProcessState
	if r.asked.Load() {
		return
	}
	state := cmd.ProcessState.String()
	if cmd.ProcessState == nil {
		state = err.Error()
	}
	r.death = &ExitError{Name: c.Name, State: state, LogFile: c.LogFile, LogTail: logTail(c.LogFile)}
}

// kill ends the process and waits for its end; own ends the rest of the group.
func (r *run) kill() {
	// The only error is that it has ended already.
	_ = r.process.Kill()
	<-r.done
}

// waitExited returns when the child has ended, without taking its exit status.
func waitExited(pid int) {
	for {
		err := unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			return
		}
	}
}

// logTail returns the last lines of a file, at most logTailBytes of them, and
// nothing when it cannot be read: it is called to explain another error.
func logTail(path string) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil {
		return ""
	}
	offset := max(0, info.Size()-logTailBytes)
	buf := make([]byte, info.Size()-offset)
	n, _ := f.ReadAt(buf, offset)
	tail := string(buf[:n])
	if offset > 0 {
		// The first line is cut.
		if _, rest, found := strings.Cut(tail, "\n"); found {
			tail = rest
		}
	}
	return strings.TrimRight(tail, "\n")
}
