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
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/openshift/windows-instance-api/pkg/version"
	"github.com/openshift/windows-instance-api/test/output"
	"github.com/openshift/windows-instance-api/test/system"
	"github.com/openshift/windows-instance-api/test/winhost"
)

// pluginCommand is `kubectl windows` on a system.
func pluginCommand(ctx context.Context, s *system.System, args ...string) *exec.Cmd {
	cmd := s.KubectlCommand(ctx, s.KubeconfigPath(), append([]string{"windows"}, args...)...)
	cmd.Env = append(cmd.Environ(), "PATH="+s.PluginDir()+string(os.PathListSeparator)+os.Getenv("PATH"))
	return cmd
}

// plugin runs `kubectl windows` to its end.
func plugin(t *testing.T, s *system.System, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var out, errOut output.Buffer
	cmd := pluginCommand(ctx, s, args...)
	cmd.Stdout, cmd.Stderr = &out, &errOut
	err := cmd.Run()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
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
	eventually(t, "the event of its first login is there", func() error { // events come a moment after what they tell of
		events, err := sys.Kube.CoreV1().Events(ns).List(t.Context(), metav1.ListOptions{FieldSelector: "reason=HostKeyRecorded"})
		if err == nil && len(events.Items) == 0 {
			err = errors.New("it is not")
		}
		return err
	})
	for _, tc := range []struct {
		name string
		args []string
		code int
		want []string
	}{
		{"get", []string{"get"}, 0, []string{"NAME", "ADDRESS", "PHASE", "w "}},
		{"describe", []string{"describe", "w"}, 0, []string{"Authenticated", "LoggedIn", "Host keys:", "HostKeyRecorded"}},
		{"releases", []string{"version"}, 0, []string{"kubectl-windows: ", "windows-apiserver: " + version.Version + "\n", "Kubernetes: "}},
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

// TestPluginOperations looks at a host that is a node, and takes the node away from its
// pods, in spite of a budget.
func TestPluginOperations(t *testing.T) {
	t.Parallel()
	h := newNodeHost(t, sys, hostSigner, "plugin")
	h.runPod(t, "plugin-free", 30)
	h.runPod(t, "plugin-kept", 30)
	h.protect(t, "plugin-kept")
	says := func(code int, want []string, args ...string) {
		t.Helper()
		stdout, stderr, got := plugin(t, sys, args...)
		if got != code {
			t.Errorf("kubectl windows %s exits with %d, want %d", args[0], got, code)
		}
		for _, w := range want {
			if !strings.Contains(stdout+stderr, w) {
				t.Errorf("kubectl windows %s does not say %q", args[0], w)
			}
		}
		if t.Failed() {
			t.Fatalf("%s\n%s", stdout, stderr)
		}
	}
	says(0, []string{"Resolve", "HostKey", "Agent", "The host is fit to be a node."}, "check", "plugin")
	says(0, []string{"Memory", "16.0 GiB", "sshd"}, "inspect", "plugin")
	says(0, []string{"DISK FREE", "plugin"}, "top", "node/plugin")

	drain := func() (stderr *output.Buffer, wait func() int) {
		t.Helper()
		stderr = &output.Buffer{}
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		cmd := pluginCommand(ctx, sys, "drain", "plugin", "--force")
		cmd.Stderr = stderr
		if err := cmd.Start(); err != nil {
			cancel()
			t.Fatal(err)
		}
		ended := make(chan int, 1)
		go func() {
			defer cancel()
			_ = cmd.Wait()
			ended <- cmd.ProcessState.ExitCode()
		}()
		return stderr, func() int { return <-ended }
	}
	untilItSays := func(stderr *output.Buffer, want string) {
		t.Helper()
		eventually(t, "the drain says "+want, func() error {
			if !strings.Contains(stderr.String(), want) {
				return fmt.Errorf("it says\n%s", stderr.String())
			}
			return nil
		})
	}

	stderr, wait := drain()
	untilItSays(stderr, "1/2 pods]; blocked by default/plugin-kept (PodDisruptionBudget plugin-kept)")
	says(6, []string{"requested a drain", "kubectl windows cancel plugin -n default"}, "uncordon", "plugin")
	says(0, []string{"canceled"}, "cancel", "plugin")
	if code := wait(); code != 4 {
		t.Errorf("a drain that is canceled exits with %d, want 4:\n%s", code, stderr.String())
	}
	h.mustBeCordoned(t, false)

	stderr, wait = drain()
	untilItSays(stderr, "blocked by")
	if err := sys.Kube.PolicyV1().PodDisruptionBudgets(metav1.NamespaceDefault).Delete(t.Context(), "plugin-kept", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if code := wait(); code != 0 || !strings.Contains(stderr.String(), "drain succeeded") {
		t.Errorf("the drain exits with %d:\n%s", code, stderr.String())
	}
	h.mustBeCordoned(t, true)
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
	createKnown(t, s, "w", host)
	writeLog(t, host, "kubelet/kubelet.log", "before\n"+numbered(0))

	ctx, cancel := context.WithCancel(t.Context())
	f := &follower{done: make(chan struct{}), stop: cancel}
	var stderr output.Buffer
	cmd := pluginCommand(ctx, s, "logs", "w", "kubelet", "-f", "--tail=1")
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
	if !strings.Contains(stderr.String(), "the log continues") {
		t.Errorf("it does not say that it went on:\n%s", stderr.String())
	}
}
