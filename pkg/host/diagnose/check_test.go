// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package diagnose

import (
	"context"
	"encoding/pem"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/host"
	"github.com/openshift/windows-instance-api/pkg/host/agentclient"
	"github.com/openshift/windows-instance-api/pkg/host/ssh"
	"github.com/openshift/windows-instance-api/test/hostsite"
	"github.com/openshift/windows-instance-api/test/winhost"
)

// site is a host that is checked.
type site struct {
	*hostsite.Site
	client  *agentclient.Client
	checker *Checker
	// reach is how hosts reach the API server, reachErr why nobody knows. Nil: hosts are only watched.
	reach    *api.ReachRequest
	reachErr error
}

func newSite(t *testing.T, o winhost.InProcessOptions) *site {
	t.Helper()
	s := &site{Site: hostsite.New(t, winhost.Options{InProcess: o})}
	server := httptest.NewTLSServer(http.NotFoundHandler())
	t.Cleanup(server.Close)
	s.reach = &api.ReachRequest{URL: server.URL, CA: string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))}
	s.connect(t)
	return s
}

// connect begins with what knows nothing of the host.
func (s *site) connect(t *testing.T) {
	t.Helper()
	agents, err := agentclient.LoadBundle(s.AgentDir)
	if err != nil {
		t.Fatal(err)
	}
	connector := host.New(host.Options{
		Pool: s.Pool, ReadSecret: s.Secrets.Read, ReadPool: hostsite.Pools, ClusterCredentials: hostsite.ClusterCredentials,
	})
	s.client = agentclient.New(agentclient.Options{Hosts: connector, Pool: s.Pool, Agents: agents})
	s.checker = NewChecker(connector, s.client, func(context.Context, *v1alpha1.WindowsInstance) (*api.ReachRequest, error) {
		return s.reach, s.reachErr
	})
}

// agentPath is where the agent is on this machine.
func (s *site) agentPath(t *testing.T) string {
	t.Helper()
	path, err := s.Host.LocalPath(s.client.AgentPath())
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// results writes the layers of a check up to the one that did not pass, with its reason.
// All after it must be skipped.
func results(t *testing.T, status *v1alpha1.WindowsInstanceCheckStatus) string {
	t.Helper()
	return resultsOf(t, status, slices.DeleteFunc(slices.Clone(checkLayers), func(l checkLayer) bool { return l.name == CheckBastion }))
}

func resultsOf(t *testing.T, status *v1alpha1.WindowsInstanceCheckStatus, layers []checkLayer) string {
	t.Helper()
	var names []string
	out := "everything"
	for _, l := range status.Layers {
		names = append(names, l.Name)
		switch {
		case out != "everything":
			if l.Result != v1alpha1.CheckSkipped || !strings.Contains(l.Message, "which") || l.Duration.Duration != 0 {
				t.Errorf("after the one that did not pass: %+v", l)
			}
		case l.Result == v1alpha1.CheckFailed:
			out = l.Name + " " + l.Reason
			if l.Reason == "" || l.Message == "" {
				t.Errorf("%+v says nothing", l)
			}
		case l.Result == v1alpha1.CheckSkipped:
			out = l.Name + " skipped"
		}
	}
	var want []string
	for _, l := range layers {
		want = append(want, l.name)
	}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Errorf("layers (-want +got):\n%s", diff)
	}
	if status.Passed != (out == "everything" || out == "Agent skipped") {
		t.Errorf("passed is %t", status.Passed)
	}
	return out
}

func layer(status *v1alpha1.WindowsInstanceCheckStatus, name string) v1alpha1.CheckLayer {
	i := slices.IndexFunc(status.Layers, func(l v1alpha1.CheckLayer) bool { return l.Name == name })
	return status.Layers[i]
}

func TestCheckPasses(t *testing.T) {
	s := newSite(t, winhost.InProcessOptions{Facts: func(f *api.Facts) { f.PendingReboot.Pending = true }})
	// Before the agent is there nothing is put there.
	status := s.checker.Check(t.Context(), s.Instance)
	if got := results(t, status); got != "Agent skipped" {
		t.Errorf("without the agent: %s", got)
	}
	if l := layer(status, CheckAgent); !strings.HasPrefix(l.Message, "The way to the host works.") || l.Reason != "" {
		t.Errorf("without the agent it says %+v", l)
	}
	if _, err := os.Stat(s.agentPath(t)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the check put the agent on the host: %v", err)
	}
	if commands := s.Host.Commands(); len(commands) > 0 {
		t.Errorf("the check ran %q", commands)
	}

	if _, err := s.client.Facts(t.Context(), s.Instance); err != nil {
		t.Fatal(err)
	}
	pooled := s.Pool.Stats().Connections
	status = s.checker.Check(t.Context(), s.Instance)
	if got := results(t, status); got != "everything" {
		t.Errorf("with the agent: %s", got)
	}
	if want := []v1alpha1.CheckFinding{{Code: "RebootPending", Severity: v1alpha1.FindingWarning, Message: "Windows waits for a restart (it does not say why)"}}; !cmp.Equal(want, status.Findings) {
		t.Errorf("findings (-want +got):\n%s", cmp.Diff(want, status.Findings))
	}
	for name, says := range map[string]string{
		CheckResolve: s.Host.Address(), CheckConnect: s.Host.Address() + ":", CheckHandshake: "OpenSSH_for_Windows",
		CheckHostKey: host.KeyOf(s.Host.HostKey()).Describe() + ", pinned", CheckAuthenticate: "user Administrator, key SHA256:",
		CheckAgent: "digest ", CheckPreflight: "1 findings are worth knowing", CheckAPIServer: s.reach.URL,
	} {
		if got := layer(status, name).Message; !strings.Contains(got, says) {
			t.Errorf("%s says %q, want %q in it", name, got, says)
		}
	}
	// The connection of the check is gone, and that of the pool is not.
	if s.Pool.Stats().Connections != pooled {
		t.Errorf("the pool has %d connections, before it had %d", s.Pool.Stats().Connections, pooled)
	}
}

// TestCheckRemarks: what people should know of a Secret is said of each login with it, but not that a certificate was not taken where
// one was.
func TestCheckRemarks(t *testing.T) {
	const warning, remark = "Secret a/b still has key c.", "Secret a/b still has key c. The certificate expired."
	for _, test := range []struct {
		name       string
		credential ssh.Credential
		certified  bool
		want       string
	}{
		{"nothing", ssh.Credential{}, false, ""},
		{"a certificate was not taken", ssh.Credential{Remark: "The certificate expired."}, false, ". The certificate expired."},
		{"another one was", ssh.Credential{Remark: "The certificate expired."}, true, ""},
		{"a key is compromised", ssh.Credential{Remark: remark, Warning: warning}, false, ". " + remark},
		{"and a certificate was taken", ssh.Credential{Remark: remark, Warning: warning}, true, ". " + warning},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := &check{instance: &v1alpha1.WindowsInstance{}}
			trace := &host.Trace{Trace: &ssh.Trace{Certified: test.certified}, Target: ssh.Target{Credential: test.credential}}
			if got, want := c.describe(CheckAuthenticate, trace), "user , "+test.want; got != want {
				t.Errorf("of the host it says %q, want %q", got, want)
			}
			trace = &host.Trace{Trace: &ssh.Trace{Bastion: ssh.Peer{Certified: test.certified}}}
			trace.Target.Bastion = &ssh.Bastion{Credential: test.credential}
			if got := c.describe(CheckBastion, trace); !strings.HasSuffix(got, "user "+test.want) {
				t.Errorf("of the bastion it says %q, want %q in the end", got, test.want)
			}
		})
	}
}

// TestCheckWithoutAPIServer: where it is not known how hosts reach the API server, or they need not, that is said, and nothing has failed.
func TestCheckWithoutAPIServer(t *testing.T) {
	s := newSite(t, winhost.InProcessOptions{})
	if _, err := s.client.Facts(t.Context(), s.Instance); err != nil {
		t.Fatal(err)
	}
	s.reach = nil
	for want, err := range map[string]error{"need not reach": nil, "no source says": errors.New("no source says where it is")} {
		s.reachErr = err
		status := s.checker.Check(t.Context(), s.Instance)
		if l := layer(status, CheckAPIServer); l.Result != v1alpha1.CheckSkipped || !strings.Contains(l.Message, want) || !status.Passed {
			t.Errorf("passed is %t, and it says %+v", status.Passed, l)
		}
	}
}

func TestCheckFails(t *testing.T) {
	for _, tt := range []struct {
		name   string
		fault  winhost.Fault
		change func(*site)
		want   string
		says   string
	}{
		{name: "closed port", fault: winhost.Fault{RefuseTCP: true}, want: "Connect ConnectionRefused", says: "install and start the OpenSSH server"},
		{name: "credentials refused", fault: winhost.Fault{DenyAuth: true}, want: "Authenticate CredentialsRefused", says: "administrators_authorized_keys"},
		{name: "host key changed", change: func(s *site) { s.Instance.Spec.HostKeys = []string{host.KeyOf(hostKeyOf(t, "other")).String()} }, want: "HostKey HostKeyChanged", says: "kubectl patch"},
		{name: "first contact", change: func(s *site) { s.Instance.Spec.HostKeys = nil }, want: "HostKey NotTried", says: "It presents ssh-ed25519 SHA256:"},
		{name: "recorded key that cannot be read", change: func(s *site) { s.Instance.Spec.HostKeys = []string{"nonsense"} }, want: "HostKey NotTried", says: "nonsense"},
		{name: "no Secret", change: func(s *site) { delete(s.Secrets, "operator/cloud-private-key") }, want: "Authenticate CredentialsMissing", says: "operator/cloud-private-key"},
		{name: "no name", change: func(s *site) { s.Instance.Spec.Address = "nowhere.invalid" }, want: "Resolve NameNotResolved", says: "nowhere.invalid"},
		{name: "agent that is another one", change: func(s *site) { truncateAgent(t, s) }, want: "Agent AgentNotInstalled", says: "bytes on the host"},
		{name: "agent of the same size with another digest", change: func(s *site) { tamperWithAgent(t, s) }, want: "Agent AgentNotInstalled", says: "it has the digest "},
		{name: "API server that is not there", change: func(s *site) { s.reach.URL = "https://api..example.com:6443" }, want: "APIServer APIServerUnreachable", says: "DNS of https://api..example.com:6443 fails at api..example.com:6443"},
		{name: "API server that has no such name", change: func(s *site) { s.reach.URL = strings.Replace(s.reach.URL, "127.0.0.1", "localhost", 1) }, want: "APIServer APIServerUnreachable", says: "find out who answers there"},
		{name: "agent that does not try it", fault: winhost.Fault{ExecMatch: "reach$", ExecExit: 3}, want: "APIServer AgentFailed", says: "3"},
		{name: "agent that fails", fault: winhost.Fault{ExecMatch: "facts$", ExecExit: 3}, want: "Preflight AgentFailed", says: "3"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newSite(t, winhost.InProcessOptions{})
			if _, err := s.client.Facts(t.Context(), s.Instance); err != nil {
				t.Fatal(err)
			}
			// Credentials that were read before are known for a while.
			s.connect(t)
			s.SetFault(t, tt.fault)
			if tt.change != nil {
				tt.change(s)
			}
			status := s.checker.Check(t.Context(), s.Instance)
			if got := results(t, status); got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
			name, _, _ := strings.Cut(tt.want, " ")
			if got := layer(status, name).Message; !strings.Contains(got, tt.says) {
				t.Errorf("%s says %q, want %q in it", name, got, tt.says)
			}
		})
	}
}

func truncateAgent(t *testing.T, s *site) {
	t.Helper()
	if err := os.Truncate(s.agentPath(t), 100); err != nil {
		t.Fatal(err)
	}
}

// tamperWithAgent changes a byte of the agent on the host.
func tamperWithAgent(t *testing.T, s *site) {
	t.Helper()
	content, err := os.ReadFile(s.agentPath(t))
	if err != nil {
		t.Fatal(err)
	}
	content[len(content)-1] ^= 1
	if err := os.WriteFile(s.agentPath(t), content, 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestCheckFindsWhatIsInTheWay(t *testing.T) {
	s := newSite(t, winhost.InProcessOptions{Facts: func(f *api.Facts) {
		f.PendingReboot.Pending = true
		f.Memory.TotalBytes = 1 << 30
	}})
	if _, err := s.client.Facts(t.Context(), s.Instance); err != nil {
		t.Fatal(err)
	}
	status := s.checker.Check(t.Context(), s.Instance)
	if got := results(t, status); got != "Preflight Findings" {
		t.Errorf("got %s", got)
	}
	var codes []string
	for _, f := range status.Findings {
		codes = append(codes, string(f.Severity)+" "+f.Code)
	}
	if diff := cmp.Diff([]string{"Error MemoryTooSmall", "Warning RebootPending"}, codes); diff != "" {
		t.Errorf("findings (-want +got):\n%s", diff)
	}
}

// TestCheckAnswers: a host that says nothing does not keep anybody waiting longer than the
// caller allows.
func TestCheckAnswers(t *testing.T) {
	s := newSite(t, winhost.InProcessOptions{})
	s.SetFault(t, winhost.Fault{HangAtAccept: true})
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	if got := results(t, s.checker.Check(ctx, s.Instance)); got != "Handshake HandshakeTimedOut" {
		t.Errorf("got %s", got)
	}
}
