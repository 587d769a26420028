// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

//go:build linux

package e2e

import (
	"bytes"
	"errors"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	hostssh "github.com/openshift/windows-instance-api/pkg/host/ssh"
	"github.com/openshift/windows-instance-api/test/payload/payloadtest"
	"github.com/openshift/windows-instance-api/test/system"
	"github.com/openshift/windows-instance-api/test/winhost"
	"github.com/openshift/windows-instance-api/test/winhost/hosttest"
)

// wineNode is how the Node of the Wine host must be called, and so the host itself.
const wineNode = "wine-node"

// wineHost is a host of TierWine, whose computer name is not that of its Node.
type wineHost struct {
	*siteHost
	before hosttest.Snapshot
	pool   *hostssh.Pool
	target hostssh.Target
}

// newWineHost starts a system with what real hosts are set up with, and a host.
func newWineHost(t *testing.T) *wineHost {
	t.Helper()
	hosttest.Require(t, winhost.TierWine)
	if err := winhost.NetworkAvailable(); err != nil {
		t.Skipf("no networks for hosts on this machine: %v", err)
	}
	dir, err := payloadtest.Dir(t.Context(), payloadtest.Options{Logf: t.Logf})
	if err != nil {
		t.Fatal(err)
	}
	key, signer, err := winhost.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	const name = "wine-host"
	// A real kubelet does not take a loopback address for that of its Node.
	host := hosttest.Start(t, winhost.Options{
		Tier: winhost.TierWine, Name: name, Network: true, Port: 22, AuthorizedKeys: []ssh.PublicKey{signer.PublicKey()}, Logf: t.Logf,
	})
	h := &wineHost{
		siteHost: &siteHost{
			site: &site{
				System: startSystem(t, system.Options{
					PrivateKey: key, MachineAPI: true, Payload: dir, HostNetworks: true,
					ControllerArgs: []string{"--dial-timeout=2s", "--recheck-interval=10s"},
				}),
				signer: signer, payload: dir,
			},
			host: host, namespace: system.Namespace, name: name,
		},
		before: hosttest.TakeSnapshot(t, host),
		pool:   hostssh.New(hostssh.Options{}),
		target: hostssh.Target{
			Address: host.Address(), Port: host.Port(), User: host.User(),
			Credential: hostssh.Credential{ID: "test", Signers: []ssh.Signer{signer}}, HostKeys: []ssh.PublicKey{host.HostKey()},
		},
	}
	t.Cleanup(func() {
		if err := h.pool.Close(); err != nil {
			t.Error(err)
		}
	})
	return h
}

// run runs a command as somebody on the host would.
func (h *wineHost) run(t *testing.T, line string) {
	t.Helper()
	var out bytes.Buffer
	if err := h.pool.Run(t.Context(), h.target, line, nil, &out); err != nil {
		t.Fatalf("%s: %v\n%s", line, err, out.String())
	}
}

// plugin runs `kubectl windows` on the system of the host, and returns what it prints.
func (h *wineHost) plugin(t *testing.T, args ...string) string {
	t.Helper()
	stdout, stderr, code := plugin(t, h.System, append(args, "-n", h.namespace)...)
	if code != 0 {
		t.Fatalf("kubectl windows %s exits with %d\n%s%s", strings.Join(args, " "), code, stdout, stderr)
	}
	return stdout
}

// inspect asks the host about itself.
func (h *wineHost) inspect(t *testing.T) *v1alpha1.WindowsInstanceInspection {
	t.Helper()
	inspection, err := h.instances(h.namespace).Inspect(t.Context(), h.name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return inspection
}

// processes are the IDs of the processes of services, by the names of these. A service that
// does not run has none.
type processes map[string]int64

func (h *wineHost) processes(t *testing.T) processes {
	t.Helper()
	found := processes{}
	for _, s := range h.inspect(t).Services {
		found[s.Name] = s.PID
	}
	return found
}

// restarted lists the services that have other processes now.
func (p processes) restarted(now processes) []string {
	var names []string
	for _, name := range slices.Sorted(maps.Keys(p)) {
		if p[name] != now[name] {
			names = append(names, name)
		}
	}
	return names
}

// applying says whether the disk of the host has it that it is being changed.
func (h *wineHost) applying(t *testing.T) bool {
	t.Helper()
	content, err := os.ReadFile(h.local(t, api.Root+`\state\inventory.json`))
	// It is replaced while it is read.
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	return strings.Contains(string(content), `"applying":`)
}

// dump shows what the host has to say.
func (h *wineHost) dump(t *testing.T) {
	const most = 8 << 10
	for _, path := range []string{`C:\var\log\kubelet\kubelet.log`, `C:\var\log\containerd\containerd.log`} {
		text := h.read(t, path)
		t.Logf("%s:\n%s", path, text[max(0, len(text)-most):])
	}
}
