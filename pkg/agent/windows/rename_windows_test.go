// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package windows

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/openshift/windows-instance-api/pkg/agent/engine"
)

// twoFiles makes two programs in a directory. Wine cannot remove one of [testing.T.TempDir].
func twoFiles(t *testing.T, from, to []byte) (string, string) {
	t.Helper()
	directory, err := os.MkdirTemp("", "") //nolint:usetesting // see above
	if err != nil {
		t.Fatal(err)
	}
	paths := []string{filepath.Join(directory, "from.exe"), filepath.Join(directory, "to.exe")}
	t.Cleanup(func() {
		for _, path := range append(paths, directory) {
			if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
				t.Error(err)
			}
		}
	})
	for i, content := range [][]byte{from, to} {
		if err := os.WriteFile(paths[i], content, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	return paths[0], paths[1]
}

// TestReplaceFile: a file that somebody reads is replaced, at the latest when they are done.
func TestReplaceFile(t *testing.T) {
	for name, open := range map[string]func(string) (*os.File, error){
		"for a reader that locks":        os.Open,
		"for a reader that does not":     func(path string) (*os.File, error) { return openShared(path, false) },
		"while nobody has the file open": func(string) (*os.File, error) { return os.Open(os.DevNull) },
	} {
		t.Run(name, func(t *testing.T) {
			from, to := twoFiles(t, []byte("from"), []byte("to"))
			reader, err := open(to)
			if err != nil {
				t.Fatal(err)
			}
			if err := replaceFile(from, to, func(time.Duration) { _ = reader.Close() }); err != nil {
				t.Error(err)
			}
			_ = reader.Close() // it may be closed
			if content, err := os.ReadFile(to); err != nil || string(content) != "from" {
				t.Errorf("it has %q, %v", content, err)
			}
		})
	}
}

// TestReplaceProgram: nobody waits for a program that runs.
func TestReplaceProgram(t *testing.T) {
	if os.Getenv("BE_A_PROGRAM") != "" {
		_, _ = os.Stdout.WriteString("running")
		_, _ = io.Copy(io.Discard, os.Stdin)
		return
	}
	content, err := os.ReadFile(os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	from, to := twoFiles(t, content, content)
	program := exec.CommandContext(t.Context(), to, "-test.run=^TestReplaceProgram$")
	program.Env = append(os.Environ(), "BE_A_PROGRAM=1")
	in, err1 := program.StdinPipe()
	out, err2 := program.StdoutPipe()
	if err := errors.Join(err1, err2, program.Start()); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(out, make([]byte, len("running"))); err != nil {
		t.Error(err)
	}
	err = replaceFile(from, to, func(time.Duration) { t.Error("it is waited for") })
	if !errors.Is(err, engine.ErrInUse) {
		t.Errorf("got %v", err)
	}
	_ = in.Close()
	if err := program.Wait(); err != nil {
		t.Error(err)
	}
}
