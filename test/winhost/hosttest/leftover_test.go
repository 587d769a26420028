// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package hosttest

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"

	"github.com/openshift/windows-instance-api/test/winhost"
)

// childTier makes the test binary a process that starts a host of that tier and waits to
// be killed.
const childTier = "WINHOST_TEST_CHILD_TIER"

func TestMain(m *testing.M) {
	tier := os.Getenv(childTier)
	if tier == "" {
		m.Run()
		return
	}
	said := "started"
	if _, err := winhost.Start(context.Background(), winhost.Options{Tier: tier}); err != nil {
		said = err.Error()
	}
	_, _ = fmt.Fprintln(os.Stdout, said)
	select {} // until it is killed
}

// TestNothingLeft: after Close there is no process, no file, no goroutine, also if clients
// were busy.
func TestNothingLeft(t *testing.T) {
	for _, tier := range winhost.Tiers() {
		t.Run(tier, func(t *testing.T) {
			Require(t, tier)
			tmp := t.TempDir()
			t.Setenv("TMPDIR", tmp)
			signer := NewKey(t)
			h, err := winhost.Start(t.Context(), winhost.Options{Tier: tier, AuthorizedKeys: []ssh.PublicKey{signer.PublicKey()}})
			if err != nil {
				t.Fatal(err)
			}
			cl := dial(t, h, signer)
			s, err := cl.NewSession()
			if err != nil {
				t.Fatal(err)
			}
			if _, err := s.StdinPipe(); err != nil {
				t.Fatal(err)
			}
			line := map[string]string{winhost.TierOpenSSH: "cat"}[tier]
			if line == "" {
				line = "more"
			}
			if err := s.Start(line); err != nil {
				t.Fatal(err)
			}
			sftpClient(t, h, signer)
			if tier != winhost.TierInProcess && len(processesOf(t, tmp)) == 0 {
				t.Error("the test does not find the host's processes")
			}

			if err := h.Close(); err != nil {
				t.Error(err)
			}
			if left := processesOf(t, tmp); len(left) > 0 {
				t.Errorf("processes left: %q", left)
			}
			if left, err := os.ReadDir(tmp); err != nil || len(left) > 0 {
				t.Errorf("files left: %v, %v", left, err)
			}
			_ = cl.Close()
			if err := h.Close(); err != nil {
				t.Errorf("closing twice: %v", err)
			}
			var left string
			Eventually(t, "no goroutine is left", func() bool {
				left = goroutinesOfHosts()
				return left == ""
			})
		})
	}
}

// TestKilledTestProcess: a host does not outlive the process that started it.
func TestKilledTestProcess(t *testing.T) {
	for _, tier := range []string{winhost.TierOpenSSH, winhost.TierWine} {
		t.Run(tier, func(t *testing.T) {
			Require(t, tier)
			tmp := t.TempDir()
			exe, err := os.Executable()
			if err != nil {
				t.Fatal(err)
			}
			cmd := exec.CommandContext(t.Context(), exe)
			cmd.Env = append(os.Environ(), childTier+"="+tier, "TMPDIR="+tmp)
			stdout, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			if line, err := bufio.NewReader(stdout).ReadString('\n'); line != "started\n" {
				t.Errorf("the child said %q, %v", line, err)
			}
			if len(processesOf(t, tmp)) < 2 {
				t.Error("the test does not find the host's processes")
			}
			if err := cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			_ = cmd.Wait() // killed
			Eventually(t, "its processes are gone", func() bool { return len(processesOf(t, tmp)) == 0 })
		})
	}
}

// processesOf lists the processes whose environment names a directory.
func processesOf(t *testing.T, dir string) []string {
	t.Helper()
	environs, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	self := fmt.Sprintf("/proc/%d/environ", os.Getpid())
	for _, e := range environs {
		b, err := os.ReadFile(e)
		if err == nil && e != self && bytes.Contains(b, []byte(dir)) {
			cmdline, _ := os.ReadFile(filepath.Join(filepath.Dir(e), "cmdline"))
			found = append(found, string(bytes.ReplaceAll(cmdline, []byte{0}, []byte{' '})))
		}
	}
	return found
}

// goroutinesOfHosts returns the stacks of the goroutines that run code of the stand-ins.
func goroutinesOfHosts() string {
	buf := make([]byte, 4<<20)
	buf = buf[:runtime.Stack(buf, true)]
	var of []string
	for g := range strings.SplitSeq(string(buf), "\n\n") {
		if strings.Contains(g, "test/winhost.") || strings.Contains(g, "test/winhost/internal/") {
			of = append(of, g)
		}
	}
	return strings.Join(of, "\n\n")
}
