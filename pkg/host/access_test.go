// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package host

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/crypto/ssh"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	hostssh "github.com/openshift/windows-instance-api/pkg/host/ssh"
	"github.com/openshift/windows-instance-api/test/hostsite"
	"github.com/openshift/windows-instance-api/test/winhost"
	"github.com/openshift/windows-instance-api/test/winhost/hosttest"
)

// site is one host and what reaches it.
type site struct {
	*hostsite.Site
	access *Access
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
	s.access = s.newAccess(t)
	return s
}

// newAccess is another Access to the same host, as another replica has.
func (s *site) newAccess(t *testing.T) *Access {
	t.Helper()
	agents, err := LoadBundle(s.AgentDir)
	if err != nil {
		t.Fatal(err)
	}
	return New(Options{
		Pool: s.Pool, ReadSecret: s.Secrets.Read, ReadPool: hostsite.Pools, ClusterCredentials: hostsite.ClusterCredentials, Agents: agents,
	})
}

// agentPath is where the agent of the site is on this machine.
func (s *site) agentPath(t *testing.T) string {
	t.Helper()
	path, err := s.Host.LocalPath(s.access.AgentPath())
	if err != nil {
		t.Fatal(err)
	}
	return path
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

func TestLogin(t *testing.T) {
	s := newSite(t, winhost.InProcessOptions{})
	if err := s.access.Login(t.Context(), s.Instance); err != nil {
		t.Fatal(err)
	}
	addresses, err := s.access.Resolve(t.Context(), s.Instance)
	if err != nil || len(addresses) != 1 || addresses[0].String() != s.Host.Address() {
		t.Errorf("resolved to %v, %v", addresses, err)
	}
	if err := s.Host.SetAuthorizedKeys(); err != nil {
		t.Fatal(err)
	}
	s.access.Forget(s.Instance)
	if err := s.access.Login(t.Context(), s.Instance); hostsite.Reason(err) != hostssh.ReasonCredentialsRefused {
		t.Errorf("with a key that is no longer authorized: %v", err)
	}
}

func TestHostKeyPolicy(t *testing.T) {
	s := newSite(t, winhost.InProcessOptions{})
	recorded := func(key ssh.PublicKey) []v1alpha1.HostKeyStatus {
		typ, base64, _ := strings.Cut(hostsite.Line(key), " ")
		return []v1alpha1.HostKeyStatus{{Type: typ, Key: base64}}
	}
	other := hosttest.NewKey(t).PublicKey()
	for _, test := range []struct {
		name   string
		spec   []string
		status []v1alpha1.HostKeyStatus
		want   hostssh.Reason
	}{
		{"never met", nil, nil, hostssh.ReasonHostKeyUnknown},
		{"recorded", nil, recorded(s.Host.HostKey()), ""},
		{"recorded is another", nil, recorded(other), hostssh.ReasonHostKeyChanged},
		{"pinned", []string{hostsite.Line(s.Host.HostKey())}, nil, ""},
		{"pinned is another", []string{hostsite.Line(other)}, nil, hostssh.ReasonHostKeyChanged},
		{"one of those pinned", []string{hostsite.Line(other), hostsite.Line(s.Host.HostKey())}, nil, ""},
		{"pinned counts, not recorded", []string{hostsite.Line(other)}, recorded(s.Host.HostKey()), hostssh.ReasonHostKeyChanged},
	} {
		t.Run(test.name, func(t *testing.T) {
			instance := s.Instance.DeepCopy()
			instance.Spec.HostKeys, instance.Status.HostKeys = test.spec, test.status
			if err := s.access.Login(t.Context(), instance); hostsite.Reason(err) != test.want || (err == nil) != (test.want == "") {
				t.Errorf("got %v, want %q", err, test.want)
			}
			key, err := s.access.HostKey(t.Context(), instance)
			if err != nil || key != KeyOf(s.Host.HostKey()) {
				t.Errorf("the host presents %v, %v", key, err)
			}
		})
	}
	bad := s.Instance.DeepCopy()
	bad.Spec.HostKeys = []string{"nonsense"}
	if err := s.access.Login(t.Context(), bad); err == nil || !strings.Contains(err.Error(), "cannot be read") {
		t.Errorf("a key that is none: %v", err)
	}
	if got := s.Host.Commands(); len(got) > 0 {
		t.Errorf("logging in ran %q", got)
	}
}

func TestCredentials(t *testing.T) {
	s := newSite(t, winhost.InProcessOptions{})
	good := s.Secrets["operator/cloud-private-key"]
	_, encrypted, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	block, err := ssh.MarshalPrivateKeyWithPassphrase(encrypted, "", []byte("open sesame"))
	if err != nil {
		t.Fatal(err)
	}
	signer, err := ssh.NewSignerFromKey(encrypted)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Host.AuthorizeKey(signer.PublicKey()); err != nil {
		t.Fatal(err)
	}
	locked := pem.EncodeToMemory(block)
	short, err := rsa.GenerateKey(rand.Reader, 1024)
	if err != nil {
		t.Fatal(err)
	}
	weak := pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(short)})
	none := map[string][]byte{}
	for _, test := range []struct {
		name    string
		secrets hostsite.Secrets
		ref     string // spec.credentialsSecretRef
		pool    string // spec.poolRef
		want    string // part of the error; empty: logged in
	}{
		{"cluster-wide", hostsite.Secrets{"operator/cloud-private-key": good}, "", "", ""},
		{"of the pool", hostsite.Secrets{"default/of-pool": good}, "", "own-key", ""},
		{"its own before that of the pool", hostsite.Secrets{"default/mine": good, "default/of-pool": none}, "mine", "own-key", ""},
		{"pool without, so cluster-wide", hostsite.Secrets{"operator/cloud-private-key": good}, "", "plain", ""},
		{"pool cannot be read", hostsite.Secrets{"operator/cloud-private-key": good}, "", "broken", "storage is down"},
		{"encrypted", hostsite.Secrets{"default/mine": {"private-key.pem": locked, "passphrase": []byte("open sesame")}}, "mine", "", ""},

		{"missing", hostsite.Secrets{}, "mine", "", "Secret default/mine: not found"},
		{"of the pool is missing", hostsite.Secrets{"operator/cloud-private-key": good}, "", "own-key", "Secret default/of-pool: not found"},
		{"its own is missing: no fall back to another", hostsite.Secrets{"operator/cloud-private-key": good}, "mine", "", "Secret default/mine: not found"},
		{"pool that is not there: no fall back to the cluster-wide key", hostsite.Secrets{"operator/cloud-private-key": good}, "", "gone", "Secret of pool default/gone: the pool is not there"},
		{"forbidden", hostsite.Secrets{"default/mine": nil}, "mine", "", "windows-credentials-reader in namespace default"},
		{"empty", hostsite.Secrets{"default/mine": none}, "mine", "", "neither the key private-key.pem nor the key password"},
		{"no key", hostsite.Secrets{"default/mine": {"private-key.pem": []byte("s3cret")}}, "mine", "", "not a private key"},
		{"passphrase missing", hostsite.Secrets{"default/mine": {"private-key.pem": locked}}, "mine", "", "passphrase"},
		{"passphrase wrong", hostsite.Secrets{"default/mine": {"private-key.pem": locked, "passphrase": []byte("s3cret")}}, "mine", "", "passphrase"},
		{"weak", hostsite.Secrets{"default/mine": {"private-key.pem": weak}}, "mine", "", "at least 2048"},
	} {
		t.Run(test.name, func(t *testing.T) {
			access := s.newAccess(t)
			access.options.ReadSecret = test.secrets.Read
			instance := s.Instance.DeepCopy()
			if test.ref != "" {
				instance.Spec.CredentialsSecretRef = &v1alpha1.SecretReference{Name: test.ref}
			}
			if test.pool != "" {
				instance.Spec.PoolRef = &v1alpha1.PoolReference{Name: test.pool}
			}
			before := s.Pool.Stats().Connections
			err := access.Login(t.Context(), instance)
			if test.want == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Fatalf("got %v, want %q", err, test.want)
			}
			if strings.Contains(err.Error(), "s3cret") {
				t.Errorf("%q tells the secret", err)
			}
			var credentials *CredentialsError
			if test.pool != "broken" && !errors.As(err, &credentials) {
				t.Errorf("got a %T", err)
			}
			if after := s.Pool.Stats().Connections; after > before {
				t.Error("the host was called without credentials")
			}
		})
	}
}

// TestCredentialID proves that a changed Secret does not use connections of the old one.
func TestCredentialID(t *testing.T) {
	seen := map[string]bool{}
	for _, data := range []map[string][]byte{
		{"password": []byte("a")},
		{"password": []byte("b")},
		{"password": []byte("a"), "passphrase": []byte("x")},
		{"password": []byte("ax")},
		{"passphrase": []byte("a"), "password": []byte("x")},
	} {
		credential, err := parseCredential(data)
		if err != nil {
			t.Fatal(err)
		}
		if seen[credential.ID] {
			t.Errorf("%v has the ID of another content", data)
		}
		seen[credential.ID] = true
	}
	first, _ := parseCredential(map[string][]byte{"password": []byte("a")})
	again, _ := parseCredential(map[string][]byte{"password": []byte("a"), "unrelated": []byte("y")})
	if first.ID != again.ID {
		t.Error("a key of no concern changes the ID")
	}
}

func TestFacts(t *testing.T) {
	s := newSite(t, winhost.InProcessOptions{})
	facts, err := s.access.Facts(t.Context(), s.Instance)
	if err != nil {
		t.Fatal(err)
	}
	if facts.Name.Hostname != s.Host.Name() || facts.System.Product != "Windows Server 2022 Datacenter" {
		t.Errorf("got %+v", facts)
	}
	version, revision := s.access.Revision()
	if version == "" || !strings.Contains(s.agentPath(t), revision) {
		t.Errorf("version %q, revision %q, but the file is %s", version, revision, s.agentPath(t))
	}
}

func TestAgentIsUploadedOnce(t *testing.T) {
	s := newSite(t, winhost.InProcessOptions{})
	for range 3 {
		if _, err := s.access.Facts(t.Context(), s.Instance); err != nil {
			t.Fatal(err)
		}
	}
	if n := s.uploads(); n != 1 {
		t.Errorf("the agent was uploaded %d times", n)
	}
	before := len(s.Host.Commands())
	if _, err := s.access.Facts(t.Context(), s.Instance); err != nil {
		t.Fatal(err)
	}
	if n := len(s.Host.Commands()) - before; n != 1 {
		t.Errorf("asking again takes %d commands", n)
	}
	// Another replica finds it, and makes sure that it is ours.
	if _, err := s.newAccess(t).Facts(t.Context(), s.Instance); err != nil {
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
			if _, err := s.access.Facts(t.Context(), s.Instance); err != nil {
				t.Error(err)
			}
		})
	}
	wait.Wait()
	if n := s.uploads(); n != 1 {
		t.Errorf("the agent was uploaded %d times", n)
	}
}

// TestReplicasUploadAtOnce covers two replicas that meet a new host together: one
// of them cannot replace the program that the other one runs already.
func TestReplicasUploadAtOnce(t *testing.T) {
	s := newSite(t, winhost.InProcessOptions{})
	var wait sync.WaitGroup
	for range 4 {
		access := s.newAccess(t)
		wait.Go(func() {
			if _, err := access.Facts(t.Context(), s.Instance); err != nil {
				t.Error(err)
			}
		})
	}
	wait.Wait()
}

func TestTamperedAgentIsReplaced(t *testing.T) {
	s := newSite(t, winhost.InProcessOptions{})
	if _, err := s.access.Facts(t.Context(), s.Instance); err != nil {
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
			if _, err := s.newAccess(t).Facts(t.Context(), s.Instance); err != nil {
				t.Fatal(err)
			}
			if now, err := os.ReadFile(path); err != nil || !bytes.Equal(now, ours) {
				t.Errorf("what is on the host is not ours, %v", err)
			}
		})
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
		}, StepUpload, "opening our copy"},
		{"it cannot be run", func(t *testing.T, s *site) { s.SetFault(t, winhost.Fault{ExecExit: 5}) }, StepVerify, "5"},
		{"it fails", func(t *testing.T, s *site) { s.SetFault(t, winhost.Fault{ExecExit: 5, ExecMatch: " facts$"}) }, StepRun, "5"},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := newSite(t, winhost.InProcessOptions{})
			test.spoil(t, s)
			_, err := s.access.Facts(t.Context(), s.Instance)
			var agent *AgentError
			if !errors.As(err, &agent) || agent.Step != test.step || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want step %s with %q", err, test.step, test.want)
			}
			// A host that was put right is all right.
			s.SetFault(t, winhost.Fault{})
			if strings.HasPrefix(test.name, "our copy") {
				return
			}
			if _, err := s.access.Facts(t.Context(), s.Instance); err != nil {
				t.Errorf("afterwards: %v", err)
			}
		})
	}
}

func TestFactsPutADeletedAgentBack(t *testing.T) {
	s := newSite(t, winhost.InProcessOptions{})
	if _, err := s.access.Facts(t.Context(), s.Instance); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(s.agentPath(t)); err != nil {
		t.Fatal(err)
	}
	if _, err := s.access.Facts(t.Context(), s.Instance); err != nil {
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
