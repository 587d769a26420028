// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package keys

import (
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
)

// TestPacerHosts: those that hang, or could not be given the key before, keep no places from others.
func TestPacerHosts(t *testing.T) {
	fresh := func(name string) *v1alpha1.WindowsInstance { return instanceWith(name, "A", "") }
	hung := func(name string) *v1alpha1.WindowsInstance {
		return instanceWith(name, "A", "B", v1alpha1.ReasonKeyRotationInterrupted)
	}
	failed := func(name string) *v1alpha1.WindowsInstance {
		return instanceWith(name, "A", "B", v1alpha1.ReasonKeyRotationFailed)
	}
	for _, test := range []struct {
		name string
		// begun are those that get the key, and have for a time.
		begun []*v1alpha1.WindowsInstance
		since time.Duration
		next  *v1alpha1.WindowsInstance
		waits bool
	}{
		{"the first hosts get it", []*v1alpha1.WindowsInstance{fresh("a"), fresh("b"), fresh("c")}, placeFor - time.Second, fresh("next"), true},
		{"the first hosts hang", []*v1alpha1.WindowsInstance{fresh("a"), fresh("b"), fresh("c")}, placeFor, fresh("next"), false},
		{"hosts are tried again that hung", []*v1alpha1.WindowsInstance{hung("a"), hung("b"), hung("c")}, 0, fresh("next"), false},
		{"a few of these at a time", []*v1alpha1.WindowsInstance{hung("a"), hung("b"), hung("c")}, 0, hung("next"), true},
		{"hosts are tried again that failed", []*v1alpha1.WindowsInstance{failed("a"), failed("b")}, 0, fresh("next"), false},
		{"and do not wait for others", []*v1alpha1.WindowsInstance{fresh("a"), fresh("b"), fresh("c")}, 0, failed("next"), false},
	} {
		t.Run(test.name, func(t *testing.T) {
			objects := []client.Object{test.next}
			for _, i := range test.begun {
				objects = append(objects, i)
			}
			now := clocktesting.NewFakePassiveClock(time.Now())
			p := &Pacer{Client: newFixture(t, objects...).client, Cluster: clusterKey, Clock: now}
			var ends []func()
			for _, i := range test.begun {
				end, wait, err := p.Begin(t.Context(), i, "B")
				if err != nil || wait != "" {
					t.Fatalf("%s: %q, %v", i.Name, wait, err)
				}
				ends = append(ends, end)
			}
			now.SetTime(now.Now().Add(test.since))
			end, wait, err := p.Begin(t.Context(), test.next, "B")
			if err != nil || (wait != "") != test.waits {
				t.Fatalf("%q, %v", wait, err)
			}
			if end != nil {
				ends = append(ends, end)
			}
			for _, end := range ends {
				end() // those that gave their place up end as well
			}
			if len(p.running) > 0 {
				t.Errorf("still running: %v", p.running)
			}
		})
	}
}
