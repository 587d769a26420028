// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package takeover_test

import (
	"testing"

	"golang.org/x/crypto/ssh"

	"github.com/openshift/windows-instance-api/pkg/wmco/takeover"
)

func TestPublicKeyHash(t *testing.T) {
	const line = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIE4qJS2mKXYrE7qkYBHcGu2D0pVxLeHg8Gc8dOQ5vGvN"
	const want = "01eba3acce87064dc39d873ab90266348ba3ce68b2bcfb915f8ec5f9b4fa17df"
	for _, text := range []string{line, line + " core@example.com", line + "\n"} {
		key, _, _, _, err := ssh.ParseAuthorizedKey([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		if got := takeover.PublicKeyHash(key); got != want {
			t.Errorf("PublicKeyHash(%q) = %s, want %s", text, got, want)
		}
	}
}
