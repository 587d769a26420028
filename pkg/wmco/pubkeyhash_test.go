// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package wmco_test

import (
	"testing"

	"github.com/openshift/windows-instance-api/pkg/wmco"
)

func TestPublicKeyHash(t *testing.T) {
	const key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIE4qJS2mKXYrE7qkYBHcGu2D0pVxLeHg8Gc8dOQ5vGvN"
	const want = "01eba3acce87064dc39d873ab90266348ba3ce68b2bcfb915f8ec5f9b4fa17df"
	if got := wmco.PublicKeyHash(key); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
