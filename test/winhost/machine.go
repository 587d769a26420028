// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package winhost

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// machine is a group of processes that lives and dies as one computer does. It has
// namespaces of its own for
//   - processes: one SIGKILL takes the power away from all of them,
//   - time: the uptime begins at zero,
//   - the host name,
//   - mounts.
//
// The network is that of this process, unless it is given one.
type machine struct {
	cmd     *exec.Cmd
	console *os.File
	stdin   io.WriteCloser // of the script; its end asks the machine to shut down
	ended   chan struct{}  // closed when no process is left
	bootSec int64          // uptime of this computer when the machine's began
}

// machineSpec says what runs on a machine.
type machineSpec struct {
	hostname string
	script   string   // for sh; ends when its standard input does
	args     []string // $1, $2, … of the script
	env      []string
	dir      string
	console  string   // file that takes what the machine prints
	after    *machine // the boot before, if there was one
	network  *network // nil: that of this process
	// fixedAddresses has the kernel put the memory of every process at the same addresses.
	fixedAddresses bool
}

// machineAvailable says what machines need and this computer lacks.
func machineAvailable() error {
	for _, tool := range []string{"unshare", "setarch", "mount", "hostname", "sh"} {
		if _, err := exec.LookPath(tool); err != nil {
			return fmt.Errorf("%s is missing: install util-linux, mount and hostname", tool)
		}
	}
	if _, err := os.Stat("/proc/self/ns/time"); err != nil {
		return errors.New("the kernel has no time namespaces (Linux 5.6 or newer)")
	}
	out, err := exec.CommandContext(context.Background(), "unshare", append(unshareArgs(0), "true")...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("this user may not make namespaces (run as root): unshare: %s", strings.TrimSpace(string(out)))
	}
	return nil
}

// unshareArgs are the options of unshare(1) for a machine whose uptime begins when that of
// this computer is uptime seconds. SIGKILL of init takes all its processes along, and
// unshare's own death kills init.
func unshareArgs(uptime int64) []string {
	offset := strconv.FormatInt(-uptime, 10)
	args := []string{
		"--uts", "--pid", "--fork", "--kill-child", "--mount-proc",
		"--time", "--boottime", offset, "--monotonic", offset,
	}
	if os.Geteuid() != 0 {
		args = append([]string{"--map-root-user"}, args...)
	}
	return args
}

// uptime is for how many seconds this computer is up.
func uptime() (int64, error) {
	b, err := os.ReadFile("/proc/uptime")
	if err != nil {
		return 0, err
	}
	seconds, _, _ := strings.Cut(string(b), ".")
	return strconv.ParseInt(seconds, 10, 64)
}

// nextBoot is the uptime at which a boot may begin that follows an earlier one. Namespaces
// count in seconds, and no two boots may seem to be the same one.
func nextBoot(after *machine) (int64, error) {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		now, err := uptime()
		if err != nil || after == nil || now > after.bootSec {
			return now, err
		}
		<-tick.C
	}
}

// startMachine switches a machine on. It does not wait for anything to come up.
func startMachine(s machineSpec) (*machine, error) {
	boot, err := nextBoot(s.after)
	if err != nil {
		return nil, err
	}
	console, err := os.OpenFile(s.console, os.O_CREATE|os.O_TRUNC|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	args := unshareArgs(boot)
	if s.fixedAddresses {
		args = append(args, "setarch", "--addr-no-randomize")
	}
	args = append(args, "sh", "-c", `hostname "$0" && `+s.script, s.hostname)
	// No context ends a machine: kill and shutdown do, and wait for all of its processes.
	cmd := exec.CommandContext(context.Background(), "unshare", append(args, s.args...)...)
	// Says whose they are to somebody who looks at processes that should not be there.
	cmd.Env = append(slices.Clone(s.env), "WINHOST_CONSOLE="+s.console)
	cmd.Dir = s.dir
	cmd.Stdout, cmd.Stderr = console, console
	// Setsid keeps a Ctrl-C at the terminal from the machine: its owner switches it off.
	// Pdeathsig is for the case that the owner can do nothing any more.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, errors.Join(err, console.Close())
	}
	m := &machine{cmd: cmd, console: console, stdin: stdin, ended: make(chan struct{}), bootSec: boot}
	started := make(chan error)
	go func() {
		// Pdeathsig is about the thread that forked, not about the process: the thread
		// must live as long as the child.
		runtime.LockOSThread()
		var err error
		if s.network == nil {
			defer runtime.UnlockOSThread()
		} else {
			// Of no use to others any more: it ends with this goroutine.
			err = s.network.enter()
		}
		if err == nil {
			err = cmd.Start()
		}
		started <- err
		if err == nil {
			_ = cmd.Wait() // killed, as a rule
			close(m.ended)
		}
	}()
	if err := <-started; err != nil {
		return nil, errors.Join(err, console.Close())
	}
	return m, nil
}

// kill takes the power away and returns when no process is left.
func (m *machine) kill() {
	// A PID namespace ends completely before its init can be waited for, and unshare
	// waits for it; so init is what must be killed, and unshare be waited for.
	if init := m.init(); init > 0 {
		_ = syscall.Kill(init, syscall.SIGKILL)
	} else {
		_ = m.cmd.Process.Kill()
	}
	<-m.ended
	_ = m.console.Close()
}

// init is the process ID of the machine's first process, or 0 before it is there and
// after it has ended.
func (m *machine) init() int {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%[1]d/task/%[1]d/children", m.cmd.Process.Pid))
	if err != nil {
		return 0
	}
	n, err := strconv.Atoi(string(bytes.TrimSpace(b)))
	if err != nil {
		return 0
	}
	return n
}

// processes are the names of the machine's processes but for init. Those that are only
// waiting to be noticed by their parents do not count.
func (m *machine) processes() []string {
	init := m.init()
	if init == 0 {
		return nil
	}
	own, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/pid", init))
	if err != nil {
		return nil
	}
	dirs, _ := filepath.Glob("/proc/[0-9]*") // the pattern is right
	var names []string
	for _, dir := range dirs {
		namespace, err := os.Readlink(dir + "/ns/pid")
		if err != nil || namespace != own || dir == fmt.Sprintf("/proc/%d", init) {
			continue
		}
		// PID (NAME) STATE ..., see proc(5).
		b, err := os.ReadFile(dir + "/stat")
		open, end := bytes.IndexByte(b, '('), bytes.LastIndexByte(b, ')')
		if err == nil && open >= 0 && end+2 < len(b) && b[end+2] != 'Z' {
			names = append(names, string(b[open+1:end]))
		}
	}
	return names
}

// shutdown asks the machine to end in good order and takes the power away if it has not
// after a while.
func (m *machine) shutdown(patience time.Duration) {
	_ = m.stdin.Close()
	t := time.NewTimer(patience)
	defer t.Stop()
	select {
	case <-m.ended:
		_ = m.console.Close()
	case <-t.C:
		m.kill()
	}
}

// await waits for a program of the machine to write a file, and returns its content. It
// reports false when the machine has ended without.
func (m *machine) await(file string) (content string, written bool) {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-m.ended:
			return "", false
		case <-tick.C:
		}
		if b, err := os.ReadFile(file); err == nil {
			return string(b), true
		}
	}
}

// poll calls ready until it reports true, the machine has ended or ctx is done. It returns
// an error with the last lines of the console.
func (m *machine) poll(ctx context.Context, what string, ready func() bool) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !ready() {
		select {
		case <-m.ended:
			return fmt.Errorf("the machine went down before %s%s", what, m.tail())
		case <-ctx.Done():
			return fmt.Errorf("%w while waiting for %s%s", ctx.Err(), what, m.tail())
		case <-tick.C:
		}
	}
	return nil
}

// tail is the end of what the machine printed, as a part of an error message.
func (m *machine) tail() string {
	const most = 2 << 10
	b, err := os.ReadFile(m.console.Name())
	if err != nil || len(b) == 0 {
		return ""
	}
	return "; its console says: " + string(bytes.TrimSpace(b[max(0, len(b)-most):]))
}
