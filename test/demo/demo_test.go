// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

//go:build linux

package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/openshift/windows-instance-api/test/winhost"
)

// patience is how long the demo may take to start on a busy machine, when all that it builds was built before.
const patience = 20 * time.Minute

// tried are those of the commands, proposed for another terminal, that are run.
var tried = []string{"get", "reconfigure", "exec", "inspect", "check"}

// TestDemo starts the demo as make does, tries some of the commands that it proposes, and interrupts it. Nothing is left then.
func TestDemo(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("the demo needs root")
	}
	program := filepath.Join(t.TempDir(), "demo")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", program, ".").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	// The names are part of TMPDIR, and gcc leaves files where that has a "=".
	t.Run("Kubernetes", func(t *testing.T) { testDemo(t, program, "") })
	t.Run("OpenShift", func(t *testing.T) { testDemo(t, program, "AWS") })
}

func testDemo(t *testing.T, program, platform string) {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	work := t.TempDir()
	cmd := exec.CommandContext(ctx, program, "--openshift="+platform)
	cmd.Dir = filepath.Join("..", "..")
	cmd.Env = append(os.Environ(), "TMPDIR="+work)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = t.Output()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := false
	defer func() {
		if !ended {
			_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
			_ = cmd.Wait()
		}
	}()

	lines := bufio.NewScanner(out)
	said := readTo(t, lines, regexp.MustCompile(`Ctrl-C stops and removes everything`))
	mustSayTier(t, said)
	env := os.Environ()
	for _, m := range regexp.MustCompile(`(?m)^  export (\w+)=(\S+)$`).FindAllStringSubmatch(said, -1) {
		env = append(env, m[1]+"="+strings.ReplaceAll(m[2], "$PATH", os.Getenv("PATH")))
	}
	commands := regexp.MustCompile(`(?m)^  (kubectl windows (\S+)[^#\n]*)`).FindAllStringSubmatch(said, -1)
	for _, verb := range tried {
		found := false
		for _, m := range commands {
			if m[2] != verb || strings.Contains(m[1], " -w") {
				continue
			}
			found = true
			try := exec.CommandContext(ctx, "bash", "-c", m[1])
			try.Env = env
			text, err := try.CombinedOutput()
			t.Logf("%s\n%s", m[1], text)
			if exit, ok := errors.AsType[*exec.ExitError](err); ok && verb == "check" && exit.ExitCode() == 1 {
				err = nil // the kubelet of that host hangs
			}
			if err != nil {
				t.Errorf("%s: %v", m[1], err)
			}
			break
		}
		if !found {
			t.Errorf("kubectl windows %s is not proposed", verb)
		}
	}

	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	rest, _ := io.ReadAll(out)
	err = cmd.Wait()
	ended = true
	if err != nil {
		t.Errorf("interrupted, it ended with %v\n%s", err, rest)
	}
	if err := syscall.Kill(-cmd.Process.Pid, 0); !errors.Is(err, syscall.ESRCH) {
		t.Errorf("it left processes: %v", err)
	}
	if left, err := os.ReadDir(work); err != nil || len(left) > 0 {
		t.Errorf("it left %v, %v", left, err)
	}
}

// mustSayTier fails the test unless the demo has said that its first host runs under Wine, which CI needs and another machine may lack, and
// that the others are in process.
func mustSayTier(t *testing.T, said string) {
	t.Helper()
	first := winhost.TierWine
	if err := cmp.Or(winhost.WineAvailable(), winhost.NetworkAvailable()); err != nil {
		first = winhost.TierInProcess
		if os.Getenv("CI") == "true" {
			t.Errorf("no host runs our real programs: %v", err)
		}
		t.Logf("all hosts are in process: %v", err)
	}
	for hosts, tier := range map[string]string{`win-1 at \S+`: first, `win-2 to win-\d+`: winhost.TierInProcess} {
		if !regexp.MustCompile(hosts + ": " + regexp.QuoteMeta(tierText[tier])).MatchString(said) {
			t.Errorf("the demo does not say of %s that it is %s:\n%s", hosts, tierText[tier], said)
		}
	}
}

// readTo reads what the demo says up to a line, and returns it.
func readTo(t *testing.T, lines *bufio.Scanner, last *regexp.Regexp) string {
	t.Helper()
	var said strings.Builder
	for lines.Scan() {
		said.WriteString(lines.Text() + "\n")
		if last.MatchString(lines.Text()) {
			return said.String()
		}
	}
	t.Fatalf("it ended before it ran, %v:\n%s", lines.Err(), said.String())
	return ""
}
