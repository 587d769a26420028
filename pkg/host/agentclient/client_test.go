// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package agentclient

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/host/ssh"
	"github.com/openshift/windows-instance-api/test/winhost"
	"github.com/openshift/windows-instance-api/test/winhost/hosttest"
	"github.com/openshift/windows-instance-api/test/winhost/opensshd"
)

// forgetful are hosts that count what is forgotten about them.
type forgetful struct {
	Hosts
	invalidated, forgotten int
}

func (f *forgetful) Invalidate(t ssh.Target)            { f.invalidated++; f.Hosts.Invalidate(t) }
func (f *forgetful) Forget(i *v1alpha1.WindowsInstance) { f.forgotten++; f.Hosts.Forget(i) }

// TestForget: nothing that was found out about a host is used once it may be another one, and no connection to it.
func TestForget(t *testing.T) {
	s := newSite(t, winhost.InProcessOptions{})
	sending := ssh.New(ssh.Options{})
	defer sending.Close()
	hosts := &forgetful{Hosts: s.connector}
	options := s.client.options
	options.Hosts, options.TransferPool = hosts, sending
	client := New(options)
	if _, err := client.Facts(t.Context(), s.Instance); err != nil {
		t.Fatal(err)
	}
	if err := sending.Ping(t.Context(), mustTarget(t, s)); err != nil {
		t.Fatal(err)
	}
	client.Forget(s.Instance)
	if hosts.forgotten != 1 || hosts.invalidated != 1 {
		t.Errorf("forgotten %d times, invalidated %d times", hosts.forgotten, hosts.invalidated)
	}
	if n, m := s.Pool.Stats().Connections, sending.Stats().Connections; n != 0 || m != 0 {
		t.Errorf("%d connections, and %d for sending, are left", n, m)
	}
	before := len(s.Host.Commands())
	if _, err := client.Facts(t.Context(), s.Instance); err != nil {
		t.Fatal(err)
	}
	if n := len(s.Host.Commands()) - before; n != 2 {
		t.Errorf("%d commands were run, want that the agent is verified and asked", n)
	}
	if _, err := client.Cleanup(t.Context(), s.Instance, nil); err != nil || hosts.invalidated != 2 {
		t.Errorf("a host that was cleaned was invalidated %d times, %v", hosts.invalidated, err)
	}
}

// TestFailedCleanup: what could not be removed needs the agent.
func TestFailedCleanup(t *testing.T) {
	s := newHostileSite(t, say(`{"result":{"outcome":"Failed","error":"a service does not stop"}}`+"\n"))
	result, err := s.client.Cleanup(t.Context(), s.Instance, nil)
	if err != nil || result.Error != "a service does not stop" {
		t.Errorf("got %+v, %v", result, err)
	}
	if s.place(t, "forgotten") != "hostile" {
		t.Error("the agent is thought to be gone")
	}
}

// TestWhatCannotBeRemoved is told with its reason, and nothing after it is touched.
func TestWhatCannotBeRemoved(t *testing.T) {
	for _, tt := range []struct {
		name  string
		there string // below the directory of the agent; a directory if it ends in a slash
		fault winhost.Fault
		says  string
	}{
		{"a state that is no directory", "state", winhost.Fault{}, `reading the directory C:\Windows\windows-node-agent\state`},
		{"a payload that is no directory", "payload", winhost.Fault{}, `reading the directory C:\Windows\windows-node-agent\payload`},
		{"an empty directory", "payload/", winhost.Fault{SFTPReadOnly: true}, `C:\Windows\windows-node-agent\payload cannot be removed`},
		{"a file", "payload/" + strings.Repeat("0", 64), winhost.Fault{SFTPReadOnly: true}, `in C:\Windows\windows-node-agent\payload cannot be removed, perhaps because it runs or is open`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newSite(t, winhost.InProcessOptions{})
			s.client.patience.removal = time.Millisecond
			root := filepath.Dir(s.agentPath(t))
			if err := os.MkdirAll(filepath.Join(root, filepath.Dir(tt.there+"x")), 0o755); err != nil {
				t.Fatal(err)
			}
			if !strings.HasSuffix(tt.there, "/") {
				if err := os.WriteFile(filepath.Join(root, tt.there), nil, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			agent := filepath.Join(root, "windows-node-agent-0123456789abcdef.exe")
			if err := os.WriteFile(agent, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			s.SetFault(t, tt.fault)
			err := s.client.removeAgent(t.Context(), mustTarget(t, s))
			if failed := (*Error)(nil); !errors.As(err, &failed) || failed.Step != StepRemove || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("got %v, want %q in it", err, tt.says)
			}
			if _, err := os.Stat(agent); err != nil {
				t.Errorf("the agent was removed: %v", err)
			}
			hosttest.Eventually(t, "the session is given back", func() bool { return s.Pool.Stats().Sessions == 0 })
		})
	}
}

// TestInstalled: the agent is verified where it is, and never put there.
func TestInstalled(t *testing.T) {
	s := newSite(t, winhost.InProcessOptions{})
	target := mustTarget(t, s)
	_, digest := s.client.Agent()
	installed, err := s.client.Installed(t.Context(), s.Pool, target)
	if !errors.Is(err, fs.ErrNotExist) || installed.Digest != digest {
		t.Errorf("before it was put there: %+v, %v", installed, err)
	}
	if _, err := s.client.Facts(t.Context(), s.Instance); err != nil {
		t.Fatal(err)
	}
	if installed, err = s.client.Installed(t.Context(), s.Pool, target); err != nil || installed.Digest != digest {
		t.Fatalf("got %+v, %v", installed, err)
	}
	if facts, err := installed.Facts(t.Context()); err != nil || facts.Name.Hostname != s.Host.Name() {
		t.Errorf("got %+v, %v", facts, err)
	}
	hosttest.Eventually(t, "the sessions are given back", func() bool { return s.Pool.Stats().Sessions == 0 })
	path := s.agentPath(t)
	if err := os.WriteFile(path, []byte("MZ"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err = s.client.Installed(t.Context(), s.Pool, target)
	if failed := (*Error)(nil); !errors.As(err, &failed) || failed.Step != StepVerify || !strings.Contains(err.Error(), "has 2 bytes on the host") {
		t.Errorf("another file: %v", err)
	}
	if err := os.RemoveAll(filepath.Dir(path)); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Dir(path), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err = s.client.Installed(t.Context(), s.Pool, target)
	if failed := (*Error)(nil); !errors.Is(err, fs.ErrNotExist) && (!errors.As(err, &failed) || failed.Step != StepVerify) {
		t.Errorf("a file in place of its directory: %v", err)
	}
	if facts, err := installed.Facts(t.Context()); err == nil {
		t.Errorf("an agent that is gone answered %+v", facts)
	}
	if n := s.uploads(); n != 1 {
		t.Errorf("it was put there %d times", n)
	}
}

// TestNoWindows: nothing is put on a host that does not run Windows.
func TestNoWindows(t *testing.T) {
	d := opensshd.Start(t, opensshd.Options{})
	pool := ssh.New(ssh.Options{})
	defer pool.Close()
	target := ssh.Target{
		Address: d.Host, Port: d.Port, User: d.User, Credential: ssh.Credential{ID: "1", Signers: []ssh.Signer{d.Signer}}, HostKeys: []ssh.PublicKey{d.HostKey()},
	}
	_, err := openSFTP(t.Context(), pool, target)
	if failed := (*Error)(nil); !errors.As(err, &failed) || failed.Step != StepUpload || !strings.Contains(err.Error(), "the host does not run Windows") {
		t.Errorf("got %v", err)
	}
	hosttest.Eventually(t, "the session is given back", func() bool { return pool.Stats().Sessions == 0 })
}

// TestNameIsTaken: what is in the place of the agent and cannot be replaced is not taken for it.
func TestNameIsTaken(t *testing.T) {
	s := newSite(t, winhost.InProcessOptions{})
	if err := os.MkdirAll(filepath.Join(s.agentPath(t), "x"), 0o755); err != nil {
		t.Fatal(err)
	}
	_, err := s.client.Facts(t.Context(), s.Instance)
	if failed := (*Error)(nil); !errors.As(err, &failed) || failed.Step != StepUpload || !strings.Contains(err.Error(), "renaming it") {
		t.Errorf("got %v", err)
	}
	left, err := os.ReadDir(filepath.Dir(s.agentPath(t)))
	if err != nil || len(left) != 1 {
		t.Errorf("left are %v, %v", left, err)
	}
}
