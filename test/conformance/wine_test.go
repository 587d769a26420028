// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

//go:build linux

package conformance

import (
	"runtime"
	"testing"

	"golang.org/x/crypto/ssh"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
	hostssh "github.com/openshift/windows-instance-api/pkg/host/ssh"
	"github.com/openshift/windows-instance-api/test/winhost"
	"github.com/openshift/windows-instance-api/test/winhost/hosttest"
)

// TestWine checks the host that the other tests have in place of Windows.
func TestWine(t *testing.T) {
	signer := hosttest.NewKey(t)
	host := hosttest.Start(t, winhost.Options{Tier: winhost.TierWine, AuthorizedKeys: []ssh.PublicKey{signer.PublicKey()}})
	run(t, build(t, Options{
		Target: hostssh.Target{
			Address: host.Address(), Port: host.Port(), User: host.User(), HostKeys: []ssh.PublicKey{host.HostKey()},
			Credential: hostssh.Credential{ID: "key", Signers: []ssh.Signer{signer}},
		},
		AllowRestart: true, InstallUpdates: api.UpdatesSecurity,
	}, runtime.GOARCH), MissingInWine)
}
