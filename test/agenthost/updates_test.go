// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package agenthost

import (
	"path/filepath"
	"testing"

	"github.com/openshift/windows-instance-api/pkg/agent/updates"
)

// TestUpdatesChangeVersion: the version of Windows changes at the boot after an installation, unless that is taken back.
func TestUpdatesChangeVersion(t *testing.T) {
	for _, tt := range []struct {
		name string
		edit func(*Update)
		want string
	}{
		{"installed", func(*Update) {}, "10.0.20348.2966"},
		{"taken back", func(u *Update) { u.TakenBack = true }, ""},
		{"not installed", func(u *Update) { u.FailInstall = "HRESULT 0x80073712" }, ""},
		{"without one of its own", func(u *Update) { u.Version = "" }, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			boot := "boot-1"
			s := NewSystem(filepath.Join(t.TempDir(), "c"), func() (string, error) { return boot, nil })
			version := func() string {
				t.Helper()
				version, err := s.Version()
				if err != nil {
					t.Fatal(err)
				}
				return version
			}
			update := Update{Offer: updates.Offer{ID: "1", Revision: 200}, Version: "10.0.20348.2966"}
			tt.edit(&update)
			if err := s.OfferUpdates(update); err != nil {
				t.Fatal(err)
			}
			id := updates.Identity{ID: "1", Revision: 200}
			if err := s.Updates().Download(t.Context(), id); err != nil {
				t.Fatal(err)
			}
			if _, err := s.Updates().Install(t.Context(), []updates.Identity{id}); err != nil {
				t.Fatal(err)
			}
			if got := version(); got != "" {
				t.Errorf("before the boot it is %q", got)
			}
			boot = "boot-2"
			if got := version(); got != tt.want {
				t.Errorf("it is %q, want %q", got, tt.want)
			}
			if err := s.OfferUpdates(); err != nil {
				t.Fatal(err)
			}
			if got := version(); got != tt.want {
				t.Errorf("it is %q once others are offered, want %q", got, tt.want)
			}
		})
	}
}
