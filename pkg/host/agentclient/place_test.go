// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package agentclient

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
	"github.com/openshift/windows-instance-api/pkg/host"
	"github.com/openshift/windows-instance-api/test/hostsite"
	"github.com/openshift/windows-instance-api/test/winhost"
	"github.com/openshift/windows-instance-api/test/winhost/hosttest"
)

// site is one host and what works with its agent.
type site struct {
	*hostsite.Site
	connector *host.Connector
	client    *Client
}

// newSite starts a host.
func newSite(t *testing.T, o winhost.InProcessOptions) *site {
	t.Helper()
	return newSiteOn(t, winhost.Options{InProcess: o})
}

// newSiteOn is newSite on any tier.
func newSiteOn(t *testing.T, o winhost.Options) *site {
	t.Helper()
	s := &site{Site: hostsite.New(t, o)}
	s.client = s.newClient(t)
	return s
}

// newClient is another Client with another Connector to the same host, as another replica has.
// The site has that connector from now on.
func (s *site) newClient(t *testing.T) *Client {
	t.Helper()
	agents, err := LoadBundle(s.AgentDir)
	if err != nil {
		t.Fatal(err)
	}
	s.connector = host.New(host.Options{
		Pool: s.Pool, ReadSecret: s.Secrets.Read, ReadPool: hostsite.Pools, ClusterCredentials: hostsite.ClusterCredentials,
	})
	return New(Options{Hosts: s.connector, Pool: s.Pool, Agents: agents})
}

// agentPath is where the agent of the site is on this machine.
func (s *site) agentPath(t *testing.T) string {
	t.Helper()
	path, err := s.Host.LocalPath(s.client.AgentPath())
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// place has the client know a program as the agent of the host, unless it knows one. It returns
// which one it knows.
func (s *site) place(t *testing.T, program string) string {
	t.Helper()
	target, err := s.connector.Target(t.Context(), s.Instance)
	if err != nil {
		t.Fatal(err)
	}
	placed, err := s.client.placed.Get(t.Context(), target.Owner, target.Identity(), func(context.Context) (*placement, error) {
		return &placement{command: program}, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return placed.command
}

// uploads counts how often the agent was put on the host: it is verified under a
// temporary name each time.
func (s *site) uploads() int {
	n := 0
	for _, command := range s.Host.Commands() {
		if strings.Contains(command, "upload-") {
			n++
		}
	}
	return n
}

func TestFacts(t *testing.T) {
	s := newSite(t, winhost.InProcessOptions{})
	facts, err := s.client.Facts(t.Context(), s.Instance)
	if err != nil {
		t.Fatal(err)
	}
	if facts.Name.Hostname != s.Host.Name() || facts.System.Product != "Windows Server 2022 Datacenter" {
		t.Errorf("got %+v", facts)
	}
	version, digest := s.client.Agent()
	if version == "" || !strings.Contains(s.agentPath(t), digest) {
		t.Errorf("version %q, digest %q, but the file is %s", version, digest, s.agentPath(t))
	}
}

func TestAgentIsUploadedOnce(t *testing.T) {
	s := newSite(t, winhost.InProcessOptions{})
	for range 3 {
		if _, err := s.client.Facts(t.Context(), s.Instance); err != nil {
			t.Fatal(err)
		}
	}
	if n := s.uploads(); n != 1 {
		t.Errorf("the agent was uploaded %d times", n)
	}
	before := len(s.Host.Commands())
	if _, err := s.client.Facts(t.Context(), s.Instance); err != nil {
		t.Fatal(err)
	}
	if n := len(s.Host.Commands()) - before; n != 1 {
		t.Errorf("asking again takes %d commands", n)
	}
	// Another replica finds it, and makes sure that it is ours.
	if _, err := s.newClient(t).Facts(t.Context(), s.Instance); err != nil {
		t.Fatal(err)
	}
	if n := s.uploads(); n != 1 {
		t.Errorf("after another replica came, it was uploaded %d times", n)
	}
	left, err := filepath.Glob(filepath.Join(filepath.Dir(s.agentPath(t)), "*"))
	if err != nil || len(left) != 1 {
		t.Errorf("on the host are %v, %v", left, err)
	}
}

func TestConcurrentCallersUploadOnce(t *testing.T) {
	s := newSite(t, winhost.InProcessOptions{})
	var wait sync.WaitGroup
	for range 8 {
		wait.Go(func() {
			if _, err := s.client.Facts(t.Context(), s.Instance); err != nil {
				t.Error(err)
			}
		})
	}
	wait.Wait()
	if n := s.uploads(); n != 1 {
		t.Errorf("the agent was uploaded %d times", n)
	}
}

// TestForgottenWhileItIsPlaced: a host that is forgotten, because it may be another one by now, is
// asked again, also when it was just being asked.
func TestForgottenWhileItIsPlaced(t *testing.T) {
	s := newSite(t, winhost.InProcessOptions{})
	s.SetFault(t, winhost.Fault{ExecHang: true})
	ctx, cancel := context.WithCancel(t.Context())
	var wait sync.WaitGroup
	wait.Go(func() {
		if _, err := s.client.Facts(ctx, s.Instance); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
	})
	hosttest.Eventually(t, "the agent is verified", func() bool { return s.uploads() == 1 })
	s.SetFault(t, winhost.Fault{})
	s.client.invalidate(host.Address(s.Instance))
	if _, err := s.client.Facts(t.Context(), s.Instance); err != nil {
		t.Error(err)
	}
	cancel()
	wait.Wait()
}

// TestPlacedForAnotherInstance: instances that name one host share no attempt to place the agent, nor
// its failure.
func TestPlacedForAnotherInstance(t *testing.T) {
	s := newSite(t, winhost.InProcessOptions{})
	other := s.Instance.DeepCopy()
	other.Namespace = "theirs"
	s.SetFault(t, winhost.Fault{ExecHang: true})
	ctx, cancel := context.WithCancel(t.Context())
	var wait sync.WaitGroup
	wait.Go(func() {
		if _, err := s.client.Facts(ctx, other); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
	})
	hosttest.Eventually(t, "the agent is verified", func() bool { return s.uploads() == 1 })
	s.SetFault(t, winhost.Fault{})
	if _, err := s.client.Facts(t.Context(), s.Instance); err != nil {
		t.Error(err)
	}
	cancel()
	wait.Wait()
}

// TestReplicasUploadAtOnce covers two replicas that meet a new host together: one
// of them cannot replace the program that the other one runs already.
func TestReplicasUploadAtOnce(t *testing.T) {
	s := newSite(t, winhost.InProcessOptions{})
	var wait sync.WaitGroup
	for range 4 {
		client := s.newClient(t)
		wait.Go(func() {
			if _, err := client.Facts(t.Context(), s.Instance); err != nil {
				t.Error(err)
			}
		})
	}
	wait.Wait()
}

// TestAgentThatRuns: one that another replica has put there and runs cannot be replaced, and need not be.
func TestAgentThatRuns(t *testing.T) {
	s := newSite(t, winhost.InProcessOptions{})
	writeLog(t, s, "x.log", "line\n")
	stream, err := s.client.Logs(t.Context(), s.Instance, api.LogRequest{Queries: []string{"x.log"}, Follow: true})
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close()
	// This one does not find it, and puts it there once more.
	s.SetFault(t, winhost.Fault{ExecExit: 5, ExecMatch: `\\windows-node-agent-[0-9a-f]+\.exe version$`})
	if _, err := s.newClient(t).Facts(t.Context(), s.Instance); err != nil {
		t.Error(err)
	}
	if n := s.uploads(); n != 2 {
		t.Errorf("it was put there %d times", n)
	}
}

func TestTamperedAgentIsReplaced(t *testing.T) {
	s := newSite(t, winhost.InProcessOptions{})
	if _, err := s.client.Facts(t.Context(), s.Instance); err != nil {
		t.Fatal(err)
	}
	path := s.agentPath(t)
	ours, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string][]byte{
		"same size": bytes.Repeat([]byte("x"), len(ours)),
		"cut short": ours[:len(ours)/2],
		"empty":     nil,
	} {
		t.Run(name, func(t *testing.T) {
			if err := os.WriteFile(path, content, 0o600); err != nil {
				t.Fatal(err)
			}
			if _, err := s.newClient(t).Facts(t.Context(), s.Instance); err != nil {
				t.Fatal(err)
			}
			if now, err := os.ReadFile(path); err != nil || !bytes.Equal(now, ours) {
				t.Errorf("what is on the host is not ours, %v", err)
			}
		})
	}
}

// TestAgentDigest: what is on the host now counts. Who has just found the agent there does not ask again.
func TestAgentDigest(t *testing.T) {
	s := newSite(t, winhost.InProcessOptions{})
	other := s.newClient(t)
	for _, tt := range []struct {
		name   string
		before func(*testing.T)
		client *Client
		asked  int
		ours   bool
	}{
		{"it is put there, and may be replaced at once", nil, s.client, 2, true},
		{"it was put there before", nil, s.client, 1, true},
		{"it is found there", nil, other, 1, true},
		{"it was found there before", nil, other, 1, true},
		{"it is looked for again", func(*testing.T) { other.Forget(s.Instance) }, other, 1, true},
		{"it was replaced", func(t *testing.T) {
			if err := os.WriteFile(s.agentPath(t), []byte("another"), 0o600); err != nil {
				t.Fatal(err)
			}
		}, other, 1, false},
		{"it is looked for again, and put there", func(*testing.T) { other.Forget(s.Instance) }, other, 2, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if tt.before != nil {
				tt.before(t)
			}
			before := len(s.Host.Commands())
			got, err := tt.client.AgentDigest(t.Context(), s.Instance)
			if err != nil {
				t.Fatal(err)
			}
			asked := 0
			for _, command := range s.Host.Commands()[before:] {
				if strings.HasSuffix(command, " "+api.CommandVersion) {
					asked++
				}
			}
			if _, digest := tt.client.Agent(); strings.HasPrefix(got, digest) != tt.ours || len(got) != 64 || asked != tt.asked {
				t.Errorf("got %s after %d questions, want %d, ours %s: %t", got, asked, tt.asked, digest, tt.ours)
			}
		})
	}
	s.SetFault(t, winhost.Fault{ExecExit: 5, ExecMatch: " version$"})
	if digest, err := s.newClient(t).AgentDigest(t.Context(), s.Instance); err == nil {
		t.Errorf("an agent that cannot run has the digest %s", digest)
	}
}

func TestAgentErrors(t *testing.T) {
	for _, test := range []struct {
		name  string
		spoil func(*testing.T, *site)
		step  string
		want  string
	}{
		{"disk full", func(t *testing.T, s *site) { s.SetFault(t, winhost.Fault{DiskFull: true}) }, StepUpload, "is the disk full?"},
		{"read only", func(t *testing.T, s *site) { s.SetFault(t, winhost.Fault{SFTPReadOnly: true}) }, StepUpload, agentDir},
		{"our copy was replaced", func(t *testing.T, s *site) {
			path := filepath.Join(s.AgentDir, "windows-node-agent.exe")
			content, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, bytes.ToLower(content), 0o600); err != nil {
				t.Fatal(err)
			}
		}, StepVerify, "digest"},
		{"our copy is gone", func(t *testing.T, s *site) {
			if err := os.Remove(filepath.Join(s.AgentDir, "windows-node-agent.exe")); err != nil {
				t.Fatal(err)
			}
		}, StepUpload, "opening the local copy"},
		{"it cannot be run", func(t *testing.T, s *site) { s.SetFault(t, winhost.Fault{ExecExit: 5}) }, StepVerify, "5"},
		{"it fails", func(t *testing.T, s *site) { s.SetFault(t, winhost.Fault{ExecExit: 5, ExecMatch: " facts$"}) }, StepRun, "5"},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := newSite(t, winhost.InProcessOptions{})
			test.spoil(t, s)
			_, err := s.client.Facts(t.Context(), s.Instance)
			var agent *Error
			if !errors.As(err, &agent) || agent.Step != test.step || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want step %s with %q", err, test.step, test.want)
			}
			// A host that was put right is all right.
			s.SetFault(t, winhost.Fault{})
			if strings.HasPrefix(test.name, "our copy") {
				return
			}
			if _, err := s.client.Facts(t.Context(), s.Instance); err != nil {
				t.Errorf("afterwards: %v", err)
			}
		})
	}
}

func TestFactsPutADeletedAgentBack(t *testing.T) {
	s := newSite(t, winhost.InProcessOptions{})
	if _, err := s.client.Facts(t.Context(), s.Instance); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(s.agentPath(t)); err != nil {
		t.Fatal(err)
	}
	if _, err := s.client.Facts(t.Context(), s.Instance); err != nil {
		t.Errorf("got %v", err)
	}
	if n := s.uploads(); n != 2 {
		t.Errorf("it was uploaded %d times", n)
	}
}

func TestBundle(t *testing.T) {
	if _, err := LoadBundle(t.TempDir()); !errors.Is(err, os.ErrNotExist) || !strings.Contains(fmt.Sprint(err), "windows-node-agent.exe") {
		t.Errorf("an empty directory: %v", err)
	}
}

// TestExecWithoutAgent: a session is what repairs a host on which the agent cannot be put.
func TestExecWithoutAgent(t *testing.T) {
	s := newSite(t, winhost.InProcessOptions{})
	s.SetFault(t, winhost.Fault{DiskFull: true})
	if _, err := s.client.Facts(t.Context(), s.Instance); err == nil {
		t.Fatal("the agent was put on a full disk, so this proves nothing")
	}
	session, err := s.connector.Exec(t.Context(), s.Instance, []string{"hostname"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = session.Close() }()
	stdout, err := io.ReadAll(session.Stdout())
	if err != nil || !strings.Contains(string(stdout), s.Host.Name()) {
		t.Errorf("got %q, %v", stdout, err)
	}
}
