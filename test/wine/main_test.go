// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

//go:build linux

package wine

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
	"k8s.io/client-go/kubernetes"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
	"github.com/openshift/windows-instance-api/pkg/agent/api/config"
	"github.com/openshift/windows-instance-api/pkg/desired/payload"
	hostssh "github.com/openshift/windows-instance-api/pkg/host/ssh"
	"github.com/openshift/windows-instance-api/test/controlplane"
	"github.com/openshift/windows-instance-api/test/payload/payloadtest"
	"github.com/openshift/windows-instance-api/test/winhost"
	"github.com/openshift/windows-instance-api/test/winhost/hosttest"
)

// cluster is a control plane that hosts can reach.
type cluster struct {
	*controlplane.ControlPlane
	kube kubernetes.Interface
	url  string // of the API server, for hosts
	ca   []byte
}

func startCluster(t *testing.T) *cluster {
	t.Helper()
	cp, err := controlplane.Start(t.Context(), controlplane.Options{ExtraSANs: []string{winhost.Gateway}, Logf: t.Logf})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cp.Stop(); err != nil {
			t.Error(err)
		}
	})
	c := &cluster{ControlPlane: cp}
	if c.kube, err = kubernetes.NewForConfig(cp.AdminConfig()); err != nil {
		t.Fatal(err)
	}
	if c.ca, err = os.ReadFile(cp.CAFile()); err != nil {
		t.Fatal(err)
	}
	u, err := url.Parse(cp.URL())
	if err != nil {
		t.Fatal(err)
	}
	relay, err := winhost.NewRelay(u.Host)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := relay.Close(); err != nil {
			t.Error(err)
		}
	})
	c.url = "https://" + relay.Address()
	return c
}

// host is a Wine host with a network of its own, and a payload for it.
type host struct {
	*testing.T
	winhost.Host
	pool    *hostssh.Pool
	target  hostssh.Target
	payload *payload.Payload // nil: none is needed
	agent   string           // its path
}

// mustHaveWine skips the test where there are no such hosts.
func mustHaveWine(t *testing.T) {
	t.Helper()
	hosttest.Require(t, winhost.TierWine)
	if err := winhost.NetworkAvailable(); err != nil {
		t.Skipf("no networks for hosts on this machine: %v", err)
	}
}

// startHost starts a host, and makes a payload with an agent for it.
func startHost(t *testing.T) *host {
	t.Helper()
	mustHaveWine(t)
	dir, err := payloadtest.Dir(t.Context(), payloadtest.Options{Logf: t.Logf})
	if err != nil {
		t.Fatal(err)
	}
	h := startBareHost(t)
	if h.payload, err = payload.Open(t.Context(), dir, payload.Options{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.payload.Close(); err != nil {
			t.Error(err)
		}
	})
	h.agent = h.payload.Manifest.ByRole(payload.RoleAgent)[0].Path
	return h
}

// startBareHost starts a host that has nothing of ours.
func startBareHost(t *testing.T) *host {
	t.Helper()
	h := &host{T: t, pool: hostssh.New(hostssh.Options{})}
	t.Cleanup(func() {
		if err := h.pool.Close(); err != nil {
			t.Error(err)
		}
	})
	signer := hosttest.NewKey(t)
	h.Host = hosttest.Start(t, winhost.Options{Tier: winhost.TierWine, Network: true, AuthorizedKeys: []ssh.PublicKey{signer.PublicKey()}, Logf: t.Logf})
	h.target = hostssh.Target{
		Address: h.Address(), Port: h.Port(), User: h.User(),
		Credential: hostssh.Credential{ID: "test", Signers: []ssh.Signer{signer}}, HostKeys: []ssh.PublicKey{h.HostKey()},
	}
	return h
}

// send puts a file of the payload on the host.
func (h *host) send(name, path string) {
	h.Helper()
	content, err := h.payload.Open(h.Context(), name)
	if err != nil {
		h.Fatal(err)
	}
	defer content.Close()
	files, err := h.pool.SFTP(h.Context(), h.target)
	if err != nil {
		h.Fatal(err)
	}
	defer files.Close()
	path = "/C:" + strings.ReplaceAll(path[2:], `\`, "/")
	if err := files.MkdirAll(path[:strings.LastIndexByte(path, '/')]); err != nil {
		h.Fatal(err)
	}
	to, err := files.Create(path)
	if err != nil {
		h.Fatal(err)
	}
	const parallel = 32 // parts on their way at a time
	if _, err := to.ReadFromWithConcurrency(content, parallel); err != nil {
		h.Fatal(err)
	}
	if err := to.Close(); err != nil {
		h.Fatal(err)
	}
}

// run runs a command that must succeed.
func (h *host) run(line string, stdin []byte) string {
	h.Helper()
	var out bytes.Buffer
	if err := h.pool.Run(h.Context(), h.target, line, stdin, &out); err != nil {
		h.Fatalf("%s: %v\n%s", line, err, out.String())
	}
	return out.String()
}

// plan asks the agent what is to be done.
func (h *host) plan(b *config.Bundle) api.Plan {
	h.Helper()
	text, err := b.Encode()
	if err != nil {
		h.Fatal(err)
	}
	var p api.Plan
	if err := json.Unmarshal([]byte(h.run(h.agent+" plan", text)), &p); err != nil {
		h.Fatal(err)
	}
	return p
}

// apply has the agent carry a document out, with whatever it costs.
func (h *host) apply(b *config.Bundle) api.Result {
	h.Helper()
	for _, f := range h.plan(b).Payload {
		h.send(f.Name, f.Path)
	}
	text, err := (&api.ApplyRequest{Allow: config.ImpactReboot, Bundle: *b}).Encode()
	if err != nil {
		h.Fatal(err)
	}
	return h.change("apply", text)
}

func (h *host) change(command string, stdin []byte) api.Result {
	h.Helper()
	ctx, cancel := context.WithTimeout(h.Context(), 4*time.Minute)
	defer cancel()
	began := time.Now()
	var out bytes.Buffer
	runErr := h.pool.Run(ctx, h.target, h.agent+" "+command, stdin, &out)
	var last api.Progress
	for line := range bytes.Lines(out.Bytes()) {
		last = api.Progress{}
		if err := json.Unmarshal(line, &last); err != nil {
			h.Fatalf("%s: %v: %s", command, err, line)
		}
		if e := last.Event; e != nil && e.State != api.EventStarted {
			h.Logf("%6.2f %s %s %s", e.Time.Sub(began).Seconds(), e.State, e.Item, e.Message)
		}
	}
	if last.Result == nil {
		h.Fatalf("%s has no result: %v\n%s", command, runErr, out.String())
	}
	h.Logf("%s: %s in %.1f s", command, last.Result.Outcome, time.Since(began).Seconds())
	return *last.Result
}

// eventually polls until there is no error any more.
func eventually(t *testing.T, within time.Duration, what string, condition func() error) {
	t.Helper()
	tick, patience := time.NewTicker(100*time.Millisecond), time.NewTimer(within)
	defer tick.Stop()
	defer patience.Stop()
	for {
		err := condition()
		if err == nil {
			return
		}
		select {
		case <-tick.C:
		case <-patience.C:
			t.Fatal(fmt.Errorf("gave up waiting until %s: %w", what, err))
		}
	}
}
