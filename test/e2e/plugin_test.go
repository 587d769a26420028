// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

//go:build linux

package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/openshift/windows-instance-api/test/system"
	"github.com/openshift/windows-instance-api/test/winhost"
)

// pluginDir builds kubectl-windows once, and returns the directory that has it, which
// goes away with the system that the tests share.
var pluginDir = sync.OnceValues(func() (string, error) {
	dir := filepath.Join(sys.Dir(), "plugin")
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, "go", "build", "-trimpath", "-o", filepath.Join(dir, "kubectl-windows"), "../../cmd/kubectl-windows").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("building the plugin: %w\n%s", err, out)
	}
	return dir, nil
})

// pluginCommand is `kubectl windows` on a system.
func pluginCommand(ctx context.Context, t *testing.T, s *system.System, args ...string) *exec.Cmd {
	t.Helper()
	dir, err := pluginDir()
	if err != nil {
		t.Fatal(err)
	}
	cmd := s.KubectlCommand(ctx, s.KubeconfigPath(), append([]string{"windows"}, args...)...)
	path := os.Getenv("PATH")
	for _, value := range cmd.Environ() {
		if rest, ok := strings.CutPrefix(value, "PATH="); ok {
			path = rest
		}
	}
	cmd.Env = append(cmd.Environ(), "PATH="+dir+string(os.PathListSeparator)+path)
	return cmd
}

// plugin runs `kubectl windows` to its end.
func plugin(t *testing.T, s *system.System, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	var out, errOut lockedBuffer
	cmd := pluginCommand(ctx, t, s, args...)
	cmd.Stdout, cmd.Stderr = &out, &errOut
	err := cmd.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		code, err = exit.ExitCode(), nil
	}
	if err != nil {
		t.Fatalf("kubectl windows: %v\n%s", err, errOut.String())
	}
	return out.String(), errOut.String(), code
}

func TestPlugin(t *testing.T) {
	t.Parallel()
	ns, host := newLogHost(t, winhost.Options{})
	writeLog(t, host, "kubelet/kubelet.log", numbered(0)+numbered(1))
	for _, tc := range []struct {
		name string
		args []string
		code int
		want []string
	}{
		{"get", []string{"get"}, 0, []string{"NAME", "ADDRESS", "PHASE", "w "}},
		{"describe", []string{"describe", "w"}, 0, []string{"Authenticated", "LoggedIn", "Host keys:", "HostKeyRecorded"}},
		{"log", []string{"logs", "w", "kubelet", "--tail=1"}, 0, []string{numbered(1)}},
		{"index of logs", []string{"logs", "w"}, 0, []string{"kubelet/kubelet.log"}},
		{"exit code of a program", []string{"exec", "w", "--", "no-such-program"}, 1, []string{"not recognized"}},
		{"drain without a node", []string{"drain", "w"}, 3, []string{"drain failed"}},
		{"unknown name", []string{"get", "nope"}, 1, []string{`no Windows instance or node "nope"`}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			stdout, stderr, code := plugin(t, sys, append([]string{tc.args[0], "-n", ns}, tc.args[1:]...)...)
			if code != tc.code {
				t.Errorf("exit code %d, want %d", code, tc.code)
			}
			for _, want := range tc.want {
				if !strings.Contains(stdout+stderr, want) {
					t.Errorf("it does not say %q", want)
				}
			}
			if t.Failed() {
				t.Logf("%s\n%s", stdout, stderr)
			}
		})
	}
}

// TestPluginFollowsThroughRestart kills windows-apiserver while a log is followed.
func TestPluginFollowsThroughRestart(t *testing.T) {
	t.Parallel()
	key, signer, err := winhost.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	s := startSystem(t, system.Options{PrivateKey: key, WithoutController: true})
	host := startHost(t, winhost.Options{AuthorizedKeys: []ssh.PublicKey{signer.PublicKey()}})
	createPinned(t, s, "w", host)
	writeLog(t, host, "kubelet/kubelet.log", "before\n"+numbered(0))

	ctx, cancel := context.WithCancel(t.Context())
	f := &follower{done: make(chan struct{}), stop: cancel}
	var stderr lockedBuffer
	cmd := pluginCommand(ctx, t, s, "logs", "w", "kubelet", "-f", "--tail=1")
	cmd.Stdout, cmd.Stderr = &f.out, &stderr
	if err := cmd.Start(); err != nil {
		cancel()
		t.Fatal(err)
	}
	go func() {
		defer close(f.done)
		f.err = cmd.Wait()
	}()
	t.Cleanup(func() { cancel(); <-f.done })
	f.waitFor(t, numbered(0))
	n := 1
	for range 3 {
		for range 20 {
			writeLog(t, host, "kubelet/kubelet.log", numbered(n))
			n++
		}
		f.waitFor(t, numbered(n-10))
		s.Server.Kill9()
		for range 5 {
			writeLog(t, host, "kubelet/kubelet.log", numbered(n))
			n++
		}
		if err := s.Server.Restart(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	f.waitFor(t, numbered(n-1))
	mustBeComplete(t, "kubectl windows logs -f", f.lines(), n)
	if !strings.Contains(stderr.String(), "the log goes on") {
		t.Errorf("it does not say that it went on:\n%s", stderr.String())
	}
}
