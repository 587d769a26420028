// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package windows

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
)

// TestRestartWithSessions: a session that somebody has left behind holds up no restart, and
// people who work on the host do.
func TestRestartWithSessions(t *testing.T) {
	var (
		left   = api.Session{ID: 2, User: `W\ann`, Disconnected: true}
		atWork = api.Session{ID: 3, User: `W\bob`}
		denied = errors.New("access is denied")
	)
	tests := []struct {
		name     string
		force    bool
		refuses  error // what is not forced
		sessions []api.Session
		listErr  error
		forces   []bool // of the requests
		want     string
	}{
		{name: "nobody is logged on", forces: []bool{false}},
		{name: "somebody has left", refuses: errUsersLoggedOn, sessions: []api.Session{left}, forces: []bool{false, true}},
		{name: "somebody works", refuses: errUsersLoggedOn, sessions: []api.Session{left, atWork}, forces: []bool{false}, want: `W\bob (session 3)`},
		{name: "somebody has locked the console", refuses: errMachineLocked, sessions: []api.Session{atWork}, forces: []bool{false}, want: `W\bob (session 3)`},
		{name: "it is not known who", refuses: errUsersLoggedOn, listErr: denied, forces: []bool{false}, want: "access is denied"},
		{name: "it is forced", force: true, sessions: []api.Session{atWork}, forces: []bool{true}},
		{name: "another reason", refuses: denied, sessions: []api.Session{left}, forces: []bool{false}, want: "access is denied"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var forces []bool
			err := restartWithSessions(tt.force, func(force bool) error {
				if forces = append(forces, force); !force {
					return tt.refuses
				}
				return nil
			}, func() ([]api.Session, error) { return tt.sessions, tt.listErr })
			if !slices.Equal(forces, tt.forces) {
				t.Errorf("requested with force %v, want %v", forces, tt.forces)
			}
			if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}
