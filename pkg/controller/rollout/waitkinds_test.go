// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package rollout

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
)

// TestWaitKinds: of each kind of wait people learn what it is and what ends it, and each condition tells those that it is about.
func TestWaitKinds(t *testing.T) {
	var passing []string
	updating, upToDate := map[waitKind]string{}, []string{}
	for kind, facts := range waitKinds {
		waitedFor := outdated("h", v1alpha1.ImpactDrain)
		waitedFor.broken = &v1alpha1.Operation{ID: "op"}
		text := reason{kind: kind, most: 1, hosts: []*host{&waitedFor}, at: testNow, text: "it says so, see kubectl windows check h"}.describe(poolKey{"ns", "p"})
		if text == "" {
			t.Errorf("nothing is said of %s", kind)
		}
		told := slices.ContainsFunc([]string{"kubectl ", "spec.", "--", testNow.Format("2006-01-02T")}, func(what string) bool { return strings.Contains(text, what) })
		if facts.passes {
			passing = append(passing, string(kind))
		} else if !told {
			t.Errorf("%s: it is not said what ends it: %s", kind, text)
		}
		if (facts.updating.reason == "") != (facts.updating.text == "") {
			t.Errorf("%s: the condition Updating has %q", kind, facts.updating)
		} else if facts.updating.reason != "" {
			updating[kind] = facts.updating.reason
		}
		if facts.upToDate != "" {
			upToDate = append(upToDate, string(kind))
		}
	}
	slices.Sort(passing)
	if diff := cmp.Diff([]string{"Cluster", "Download", "First", "Plan", "Pool", "Renewals", "Restarts"}, passing); diff != "" {
		t.Errorf("what is over when it is the turn of the host (-want +got):\n%s", diff)
	}
	slices.Sort(upToDate)
	if diff := cmp.Diff([]string{"Broken", "Canary", "Failed", "Request", "Resume", "Window"}, upToDate); diff != "" {
		t.Errorf("what the condition UpToDate tells (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[waitKind]string{
		waitsForRequest: "UpdatesOnRequest", waitsForWindow: "WindowClosed", waitsForCanary: "CanariesUpdated", waitsForBroken: "HostsBroken", waitsForRepair: "HostsBroken",
		waitsForFailed: "UpdatesStopped", waitsForFailedUpdates: "UpdatesStopped", waitsForResume: "RolledBack", waitsForConfirmation: "ConfirmationNeeded",
		waitsForPool: "HostsOutOfService", waitsForPlan: "UpdateCostUnknown",
	}, updating); diff != "" {
		t.Errorf("reasons of the condition Updating (-want +got):\n%s", diff)
	}
}
