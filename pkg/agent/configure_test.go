// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package agent

import (
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
