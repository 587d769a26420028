// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

//go:build windows

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/windows"

	"github.com/openshift/windows-instance-api/test/winhost/internal/sshserver"
)

const cmdExe = `C:\windows\system32\cmd.exe`

// wineNotFound is the exit code of Wine's cmd.exe /c for a command that does not exist; on
// Windows it is 1.
const wineNotFound = 9009

// runner runs command lines as the sessions of one account.
type runner struct {
	dir string   // where programs start
	env []string // what they find in their environment
}

func newRunner(user string) *runner {
	home := `C:\Users\` + user
	env := os.Environ()
	kept := env[:0]
	for _, kv := range env {
		if name, _, _ := strings.Cut(kv, "="); !strings.EqualFold(name, "USERPROFILE") {
			kept = append(kept, kv)
		}
	}
	return &runner{dir: home, env: append(kept, "USERPROFILE="+home)}
}

// run implements [sshserver.Server.Exec].
func (r *runner) run(ctx context.Context, c sshserver.Command) uint32 {
	if p := programOf(c.Line); p != "" {
		if _, err := os.Stat(p); err != nil {
			_, _ = io.WriteString(c.Stderr, notFound(p))
			return 1
		}
	}
	code, err := r.runInJob(ctx, c)
	if err != nil {
		logger.Printf("exec %q: %v", c.Line, err)
		_, _ = fmt.Fprintln(c.Stderr, err)
		return 1
	}
	return code
}

func (r *runner) runInJob(ctx context.Context, c sshserver.Command) (uint32, error) {
	job, err := newJob()
	if err != nil {
		return 0, err
	}
	defer windows.CloseHandle(job) //nolint:errcheck // ends what is left of the job
	line := cmdExe
	if c.Line != "" {
		line += ` /c "` + c.Line + `"` // as Win32-OpenSSH does
	}
	cmd := exec.CommandContext(ctx, cmdExe)
	cmd.SysProcAttr = &syscall.SysProcAttr{CmdLine: line}
	cmd.Cancel = func() error { return windows.TerminateJobObject(job, 255) }
	cmd.WaitDelay = 5 * time.Second
	cmd.Env, cmd.Dir = r.env, r.dir
	cmd.Stdout, cmd.Stderr = c.Stdout, c.Stderr
	// Not cmd.Stdin: Wait would wait for the client to close its side.
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return 0, err
	}
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	if err := assign(job, cmd.Process.Pid); err != nil {
		logger.Print("job object: ", err) // the process has ended already, or will not be ended with its session
	}
	go func() { // ends with the session's channel
		_, _ = io.Copy(stdin, c.Stdin)
		_ = stdin.Close()
	}()
	err = cmd.Wait()
	// A program that was left running has the output for longer than WaitDelay. What else is wrong
	// lost some of it, whatever the exit code says.
	if _, ended := errors.AsType[*exec.ExitError](err); err != nil && !ended && !errors.Is(err, exec.ErrWaitDelay) {
		return 0, fmt.Errorf("passing on the output: %w", err)
	}
	code := uint32(cmd.ProcessState.ExitCode())
	if code == wineNotFound {
		code = 1
	}
	return code, nil
}

var procSetInformationJobObject = windows.NewLazySystemDLL("kernel32.dll").NewProc("SetInformationJobObject")

// newJob makes a job object that ends its processes when it is closed.
func newJob() (windows.Handle, error) {
	job, err := windows.CreateJobObject(nil, nil)
	if err != nil {
		return 0, fmt.Errorf("CreateJobObject: %w", err)
	}
	limits := windows.JOBOBJECT_EXTENDED_LIMIT_INFORMATION{
		BasicLimitInformation: windows.JOBOBJECT_BASIC_LIMIT_INFORMATION{
			LimitFlags: windows.JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE | windows.JOB_OBJECT_LIMIT_BREAKAWAY_OK,
		},
	}
	if ok, _, err := procSetInformationJobObject.Call(uintptr(job), windows.JobObjectExtendedLimitInformation,
		uintptr(unsafe.Pointer(&limits)), unsafe.Sizeof(limits)); ok == 0 {
		_ = windows.CloseHandle(job)
		return 0, fmt.Errorf("SetInformationJobObject: %w", err)
	}
	return job, nil
}

func assign(job windows.Handle, pid int) error {
	p, err := windows.OpenProcess(windows.PROCESS_SET_QUOTA|windows.PROCESS_TERMINATE, false, uint32(pid))
	if err != nil {
		return err
	}
	defer windows.CloseHandle(p) //nolint:errcheck // nothing to be done
	return windows.AssignProcessToJobObject(job, p)
}
