// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package hosttest

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
	"github.com/openshift/windows-instance-api/test/winhost"
)

func startInProcess(t *testing.T, o winhost.Options) (winhost.Host, ssh.Signer) {
	t.Helper()
	signer := NewKey(t)
	o.AuthorizedKeys = append(o.AuthorizedKeys, signer.PublicKey())
	return Start(t, o), signer
}

// fakeAgent uploads something that in-process hosts take for the agent: they need no more
// than a file under its name.
func fakeAgent(t *testing.T, h winhost.Host, signer ssh.Signer) (program, digest string) {
	t.Helper()
	content := []byte("not a program")
	sum := sha256.Sum256(content)
	digest = hex.EncodeToString(sum[:])
	files := sftpClient(t, h, signer)
	name := uploadDir(t, files) + "/windows-node-agent-" + digest[:16] + ".exe"
	upload(t, files, name, content)
	return strings.ReplaceAll(name[1:], "/", `\`), digest
}

func TestInProcessAgent(t *testing.T) {
	clock := time.Date(2031, 5, 6, 7, 8, 9, 0, time.FixedZone("W. Europe Standard Time", 3600))
	h, signer := startInProcess(t, winhost.Options{
		Name: "facts",
		InProcess: winhost.InProcessOptions{
			Clock: func() time.Time { return clock },
			Facts: func(f *api.Facts) { f.Memory.TotalBytes = 1 << 30 },
		},
	})
	program, digest := fakeAgent(t, h, signer)
	var v api.Version
	if err := json.Unmarshal(output(t, h, signer, `"`+program+`" version`, nil), &v); err != nil {
		t.Fatal(err)
	}
	if v.SHA256 != digest {
		t.Errorf("digest %s, want %s", v.SHA256, digest)
	}
	var f api.Facts
	if err := json.Unmarshal(output(t, h, signer, program+" facts", nil), &f); err != nil {
		t.Fatal(err)
	}
	if f.Name.Hostname != "facts" || f.Memory.TotalBytes != 1<<30 || !f.Time.Now.Equal(clock) || f.Time.OffsetSeconds != 3600 || !f.System.Server || f.Boot.ID == "" || len(f.Errors) > 0 {
		t.Errorf("got %+v", f)
	}
	if err := h.Reboot(); err != nil {
		t.Fatal(err)
	}
	var again api.Facts
	if err := json.Unmarshal(output(t, h, signer, program+" facts", nil), &again); err != nil {
		t.Fatal(err)
	}
	if again.Boot.ID == f.Boot.ID || !again.Boot.Time.After(f.Boot.Time) {
		t.Errorf("two boots: %+v and %+v", f.Boot, again.Boot)
	}
}

// TestInProcessLogs follows a log through the agent in process, and ends the follow by
// closing the session.
func TestInProcessLogs(t *testing.T) {
	h, signer := startInProcess(t, winhost.Options{})
	program, _ := fakeAgent(t, h, signer)
	log := filepath.Join(h.LogDir(), "kubelet.log")
	if err := os.WriteFile(log, []byte("one\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := dial(t, h, signer).NewSession()
	if err != nil {
		t.Fatal(err)
	}
	stdin, err := s.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := s.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Start(program + " logs"); err != nil {
		t.Fatal(err)
	}
	request, err := json.Marshal(api.LogRequest{Queries: []string{"./kubelet.log"}, Follow: true})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Fprintf(stdin, "%s\n", request); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewReader(stdout)
	read := func(want string) {
		t.Helper()
		if got, err := lines.ReadString('\n'); err != nil || !strings.Contains(got, want) {
			t.Fatalf("read %q, %v, want %q", got, err, want)
		}
	}
	read("protocol")
	read("one")
	f, err := os.OpenFile(log, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteString("two\n"); err != nil {
		t.Fatal(err)
	}
	read("two")

	// A running program is in nobody's way but of those who want to replace it.
	files := sftpClient(t, h, signer)
	running := "/" + strings.ReplaceAll(program, `\`, "/")
	if _, err := files.Create(running); err == nil {
		t.Error("a running program was overwritten")
	}
	if err := files.Remove(running); err == nil {
		t.Error("a running program was removed")
	}
	if err := files.Rename(running, running+".old"); err != nil {
		t.Errorf("a running program cannot be renamed: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	Eventually(t, "the program has ended", func() bool {
		return !strings.Contains(goroutinesOfHosts(), "pkg/agent.Main")
	})
}

func TestInProcessCommands(t *testing.T) {
	h, signer := startInProcess(t, winhost.Options{InProcess: winhost.InProcessOptions{
		Command: func(_ context.Context, c winhost.CommandLine) (uint32, bool) {
			if c.Line != "sort /r" {
				return 0, false
			}
			_, _ = io.Copy(c.Stdout, c.Stdin)
			return 9, true
		},
		PowerShell: true,
	}})
	if got := try(t, h, signer, "sort /r", ""); got != (outcome{atOutput, "exit 9"}) {
		t.Errorf("got %+v", got)
	}
	s, err := dial(t, h, signer).NewSession()
	if err != nil {
		t.Fatal(err)
	}
	var stderr bytes.Buffer
	s.Stderr = &stderr
	var exit *ssh.ExitError
	if err := s.Run("nosuch"); !errors.As(err, &exit) || exit.ExitStatus() != 1 || !strings.Contains(stderr.String(), "The term 'nosuch' is not recognized") {
		t.Errorf("got %v and %q", err, stderr.String())
	}
}

func TestPassword(t *testing.T) {
	for _, tier := range []string{winhost.TierInProcess, winhost.TierWine} {
		t.Run(tier, func(t *testing.T) {
			h := Start(t, winhost.Options{Tier: tier, Password: "correct horse"})
			for password, want := range map[string]bool{"correct horse": true, "battery staple": false} {
				cl, err := ssh.Dial("tcp", fmt.Sprintf("%s:%d", h.Address(), h.Port()), &ssh.ClientConfig{
					User: h.User(), Auth: []ssh.AuthMethod{ssh.Password(password)}, HostKeyCallback: ssh.FixedHostKey(h.HostKey()),
				})
				if got := err == nil; got != want {
					t.Errorf("password %q: %v", password, err)
				}
				if err == nil {
					_ = cl.Close()
				}
			}
		})
	}
	if _, err := winhost.Start(t.Context(), winhost.Options{Tier: winhost.TierOpenSSH, Password: "x"}); err == nil {
		t.Error("openssh: no error")
	}
}
