// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package hostaccess

import (
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/test/winhost"
)

func TestPlanIsTruthfulAndChangesNothing(t *testing.T) {
	s := newSite(t, winhost.InProcessOptions{})
	actions := func() []string {
		t.Helper()
		plan, err := s.newAccess(t).Plan(t.Context(), s.instance)
		if err != nil {
			t.Fatal(err)
		}
		var actions []string
		for _, change := range plan {
			if change.Impact != v1alpha1.ImpactNone || change.Message == "" {
				t.Errorf("got %+v", change)
			}
			actions = append(actions, change.Action+" "+change.Kind)
		}
		return actions
	}
	check := func(when string, want []string) {
		t.Helper()
		if diff := cmp.Diff(want, actions()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", when, diff)
		}
	}
	check("before the first contact", []string{"Create File"})
	if _, err := os.Stat(s.agentPath(t)); !os.IsNotExist(err) {
		t.Errorf("a plan put the agent on the host: %v", err)
	}
	if _, err := s.access.Facts(t.Context(), s.instance); err != nil {
		t.Fatal(err)
	}
	check("with the agent there", nil)
	if err := os.WriteFile(s.agentPath(t), []byte("MZ, cut"), 0o600); err != nil {
		t.Fatal(err)
	}
	check("with another file in its place", []string{"Update File"})
	s.secrets["operator/cloud-private-key"] = nil
	if _, err := s.newAccess(t).Plan(t.Context(), s.instance); err == nil {
		t.Error("a plan without credentials: got no error")
	}
}
