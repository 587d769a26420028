// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package payloadtest

import (
	"testing"

	"github.com/openshift/windows-instance-api/pkg/payload"
)

// TestDir: what is built is a payload with everything that hosts need, and it is not built
// twice.
func TestDir(t *testing.T) {
	dir, err := Dir(t.Context(), Options{Logf: t.Logf})
	if err != nil {
		t.Fatal(err)
	}
	p, err := payload.Open(t.Context(), dir, payload.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if err := p.Verify(t.Context()); err != nil {
		t.Error(err)
	}
	for _, role := range []payload.Role{payload.RoleKubelet, payload.RoleLogRunner, payload.RoleContainerd, payload.RoleAgent} {
		if len(p.Manifest.ByRole(role)) != 1 {
			t.Errorf("there is no %s", role)
		}
	}
	again, err := Dir(t.Context(), Options{Logf: func(format string, args ...any) { t.Errorf("again: "+format, args...) }})
	if err != nil || again != dir {
		t.Errorf("the second time: %q, %v; want %q", again, err, dir)
	}
}
