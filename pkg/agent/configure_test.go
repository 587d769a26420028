// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package agent

import (
	"bytes"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
)

// TestDriftMessage: people who read the event log learn why something is not repaired.
func TestDriftMessage(t *testing.T) {
	item := func(name string, left api.LeftReason) api.Item {
		return api.Item{Action: api.ActionUpdate, Kind: api.KindFile, Name: name, Reason: "has another content", Left: left}
	}
	want := `This host differed from its desired configuration.
Repaired:
  Update File a: has another content
Not repaired, because it would interrupt the workload or needs a file of the payload:
  Update File b: has another content
Not repaired for some time:
  Update File c: has another content
  Update File d: has another content
Failed: disk full`
	got := driftMessage(api.Drift{
		Repaired: []api.Item{item("a", "")}, Error: "disk full",
		Left: []api.Item{item("c", api.LeftContested), item("b", ""), item("d", api.LeftFailed)},
	})
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// TestServiceWarns: a service has no standard error, so that what goes wrong in it is in the event log. A person who runs it sees
// what that does not take.
func TestServiceWarns(t *testing.T) {
	for _, tt := range []struct {
		name   string
		err    error
		stderr string
	}{
		{"as a service", nil, ""},
		{"without an event log", errors.New("the event log is off"), "windows-node-agent run: the event log is off; it was to get: updates of Windows: no room\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := newFakeHost(t)
			h.warningErr = tt.err
			var stderr bytes.Buffer
			warn(h, &stderr, "updates of Windows: no room")
			if diff := cmp.Diff([]string{"updates of Windows: no room"}, h.warnings); diff != "" || stderr.String() != tt.stderr {
				t.Errorf("the event log got (-want +got)\n%s, and standard error %q", diff, stderr.String())
			}
		})
	}
}
