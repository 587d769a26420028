// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package rollout

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// TestDescribeSaysWhatToRun: whoever reads what hosts wait for learns how it ends, unless that is a matter of time.
func TestDescribeSaysWhatToRun(t *testing.T) {
	for _, tt := range []struct {
		why  reason
		want string
	}{
		{reason{kind: waitsForPlan, text: "The host is off."}, "What the update costs is not known: The host is off. Find out why: kubectl windows check NAME -n ns"},
		{reason{kind: waitsForPlan, text: desiredChanges}, "What the update costs is not known: What is desired is changing."},
		{reason{kind: waitsForPlan}, "The host is asked what its update costs."},
		{
			reason{kind: waitsForCanary, most: 2},
			`2 hosts of pool p were updated first. To update the others, raise or remove spec.updateStrategy.rollingUpdate.canary, for example: kubectl patch wnp p -n ns --type=merge -p '{"spec":{"updateStrategy":{"rollingUpdate":{"canary":null}}}}'`,
		},
		{
			reason{kind: waitsForCanary},
			`spec.updateStrategy.rollingUpdate.canary of pool p is 0, so that no host is updated. To update them, raise or remove it, for example: kubectl patch wnp p -n ns --type=merge -p '{"spec":{"updateStrategy":{"rollingUpdate":{"canary":null}}}}'`,
		},
		{
			reason{kind: waitsForHealth, most: 1, text: "3 of the pool are not"},
			"It is not repaired, because so many Nodes are not ready that the cause is probably not this host: 3 of the pool are not; at most 1 may be. Find out what they have in common: kubectl get nodes -l kubernetes.io/os=windows. Or raise spec.remediation.maxUnhealthy.",
		},
	} {
		if got := tt.why.describe(poolKey{"ns", "p"}); got != tt.want {
			t.Errorf("got %s\nwant %s", got, tt.want)
		}
	}
}

// TestBlockedByFits: however many hosts wait, each for something else, whatever their names are and whatever they say, the API accepts it, and
// whoever reads it finds whole lines with what to do.
func TestBlockedByFits(t *testing.T) {
	for _, length := range []int{5, 253} {
		waits := map[types.NamespacedName]reason{}
		for n := range 1000 {
			key := types.NamespacedName{Namespace: "ns", Name: fmt.Sprintf("h%0*d", length-1, n)}
			waits[key] = reason{kind: waitsForPlan, text: fmt.Sprintf("Host %d says: %s.", n, strings.Repeat("no", 4000))}
			if n > 900 {
				waits[key] = reason{kind: waitsForTime, at: testNow.Add(time.Duration(n) * time.Minute), text: "Windows waits for a restart, and is restarted"}
			}
		}
		got := describeWaits(poolKey{"ns", "p"}, waits)
		if len(got) > 4096 { // the limit of the field
			t.Fatalf("it has %d bytes", len(got))
		}
		lines := strings.Split(got, "\n")
		for _, line := range lines[:len(lines)-1] {
			if !strings.HasSuffix(line, "Find out why: kubectl windows check NAME -n ns") {
				t.Errorf("got %s", line)
			}
		}
		if last := lines[len(lines)-1]; !strings.HasSuffix(last, fmt.Sprintf(" and %d more: Each waits for something else, or for another time. Find out what was tried: kubectl windows describe NAME -n ns", 1000-len(lines)+1-maxNamed)) {
			t.Errorf("it ends with %s", last)
		}
	}
}

// TestBlockedByHasALineForEachReason: what a host says has no part in which line of status.blockedBy is about which hosts.
func TestBlockedByHasALineForEachReason(t *testing.T) {
	waits := map[types.NamespacedName]reason{{Namespace: "ns", Name: "a"}: {kind: waitsForPlan, text: "The service said:\r\nb, c: Waits for a slot.\n"}}
	if got := describeWaits(poolKey{"ns", "p"}, waits); strings.Contains(got, "\n") || !strings.Contains(got, "The service said: b, c: Waits for a slot.") {
		t.Errorf("got %q", got)
	}
}
