// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package main

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/openshift/windows-instance-api/pkg/stream"
)

// newTerminal returns the side of a terminal that programs have. It has 40 lines of 100 columns.
func newTerminal(t *testing.T) *os.File {
	t.Helper()
	open := func(path string) *os.File {
		f, err := os.OpenFile(path, os.O_RDWR|unix.O_NOCTTY, 0)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		return f
	}
	other := open("/dev/ptmx")
	fd := int(other.Fd())
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	number, err := unix.IoctlGetUint32(fd, unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	terminal := open(fmt.Sprintf("/dev/pts/%d", number))
	if err := unix.IoctlSetWinsize(int(terminal.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 40, Col: 100}); err != nil {
		t.Fatal(err)
	}
	return terminal
}

// isRaw says whether programs get each key at once.
func isRaw(t *testing.T, terminal *os.File) bool {
	t.Helper()
	state, err := unix.IoctlGetTermios(int(terminal.Fd()), unix.TCGETS)
	if err != nil {
		t.Error(err)
		return false
	}
	return state.Lflag&unix.ICANON == 0
}

// console is a program with a terminal. It says hello once it knows its size, and then ends, unless it stays.
type console struct {
	stays  bool
	sizes  chan string // takes the first size
	once   sync.Once
	output *io.PipeReader
	says   *io.PipeWriter
}

func (c *console) Write(p []byte) (int, error) { return len(p), nil } // what is typed
func (c *console) Stdin() io.WriteCloser       { return c }
func (c *console) Stdout() io.Reader           { return c.output }
func (c *console) Stderr() io.Reader           { return strings.NewReader("") }
func (c *console) Wait() (int, error)          { return 0, nil }
func (c *console) Close() error                { return c.says.Close() }

func (c *console) Resize(width, height uint16) error {
	c.once.Do(func() {
		c.sizes <- fmt.Sprintf("%dx%d", width, height)
		go func() {
			_, _ = c.says.Write([]byte("hello")) // the reader knows better
			if !c.stays {
				c.says.Close()
			}
		}()
	})
	return nil
}

// TestShellOnTerminal: a session has the size of the terminal of its user, also if the output goes elsewhere, and leaves the terminal as it was,
// however it ends.
func TestShellOnTerminal(t *testing.T) {
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name   string
		file   bool           // the output goes to a file
		unread bool           // the output goes to a pipe that nobody reads
		signal syscall.Signal // ends it. 0: the program does
		code   int
	}{
		{name: "all is a terminal"},
		{name: "output to a file", file: true},
		{name: "output to a program that has ended", unread: true, code: 141},
		{name: "hangup", signal: syscall.SIGHUP, code: 129},
		{name: "interrupt", signal: syscall.SIGINT, code: 130},
		{name: "quit", signal: syscall.SIGQUIT, code: 131},
		{name: "terminate", signal: syscall.SIGTERM, code: 143},
	} {
		t.Run(tt.name, func(t *testing.T) {
			terminal, sizes := newTerminal(t), make(chan string)
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if !strings.HasSuffix(r.URL.Path, "/exec") {
					w.WriteHeader(http.StatusForbidden)
					return
				}
				c := &console{stays: tt.signal != 0 || tt.unread, sizes: sizes}
				c.output, c.says = io.Pipe()
				stream.ServeExec(w, r, stream.ExecOptions{Stdin: true, Stdout: true, TTY: r.URL.Query().Get("tty") == "true"}, stream.Config{}, c)
			}))
			defer server.Close()
			out := terminal
			if tt.file {
				if out, err = os.Create(filepath.Join(t.TempDir(), "session.log")); err != nil {
					t.Fatal(err)
				}
				defer out.Close()
			}
			if tt.unread {
				var reader *os.File
				if reader, out, err = os.Pipe(); err != nil {
					t.Fatal(err)
				}
				reader.Close()
				defer out.Close()
			}
			var errOut bytes.Buffer
			cmd := exec.CommandContext(t.Context(), program, "shell", "win-1", "--server="+server.URL)
			cmd.Env = append(os.Environ(), asPlugin+"=1", "KUBECONFIG="+os.DevNull)
			cmd.Stdin, cmd.Stdout, cmd.Stderr = terminal, out, &errOut
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			ended := make(chan struct{})
			go func() {
				_ = cmd.Wait() // the state has its code
				close(ended)
			}()
			select {
			case got := <-sizes:
				if got != "100x40" {
					t.Errorf("the program has a terminal of %s", got)
				}
				if tt.signal != 0 {
					if !isRaw(t, terminal) {
						t.Error("the terminal is not raw during the session")
					}
					if err := cmd.Process.Signal(tt.signal); err != nil {
						t.Error(err)
					}
				}
				<-ended
			case <-ended:
				t.Error("it ended before the program knew its terminal")
			}
			if got := cmd.ProcessState.ExitCode(); got != tt.code || errOut.Len() > 0 {
				t.Errorf("exit code %d, want %d:\n%s", got, tt.code, errOut.String())
			}
			if isRaw(t, terminal) {
				t.Error("the terminal of the user is left raw")
			}
			if !tt.file {
				return
			}
			if text, err := os.ReadFile(out.Name()); err != nil || string(text) != "hello" {
				t.Errorf("the output is %q, %v", text, err)
			}
		})
	}
}
