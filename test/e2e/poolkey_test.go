// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

//go:build linux

package e2e

import (
	"errors"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/test/winhost"
)

// TestPoolKey gives a pool whose host has the cluster-wide key one of its own, by the commands of the user guide. Nothing of the instance
// changes when its pool names the other Secret, which has the former key as well.
func TestPoolKey(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	lendCredentials(t, sys, ns)
	host := startHost(t, winhost.Options{AuthorizedKeys: []ssh.PublicKey{hostSigner.PublicKey()}})
	kubectlIn(t, "apiVersion: windows.openshift.io/v1alpha1\nkind: WindowsNodePool\nmetadata: {name: edge}\nspec: {source: {instances: {}}}\n", "create", "-n", ns, "-f", "-").ok(t)
	createInstance(t, ns, "w", host, ", poolRef: {name: edge}")
	waitFor(t, ns, "w", loggedIn)

	g := &guided{System: sys, dir: t.TempDir(), names: strings.NewReplacer(" -n edge", " -n "+ns)}
	for _, command := range console(t, "Give a pool a key of its own") {
		if strings.HasPrefix(command, "rm ") {
			break // the test needs them
		}
		if out, err := g.try(t, command); err != nil {
			t.Fatalf("%s\n%v\n%s", command, err, out)
		}
	}
	signer := g.key(t, "pool-key")
	waitForInstance(t, ns, "w", "the host has the key of the pool", func(i *v1alpha1.WindowsInstance) error {
		if i.Status.Credentials == nil || i.Status.Credentials.KeyFingerprint != ssh.FingerprintSHA256(signer.PublicKey()) {
			return errors.New("it has not")
		}
		return loggedIn.among(i.Status.Conditions)
	})
	if was, is := accepts(t, host, hostSigner), accepts(t, host, signer); was || !is {
		t.Errorf("it accepts the former key: %t, that of the pool: %t", was, is)
	}
}
