// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package engine

import (
	"errors"
	"strings"
	"testing"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
	"github.com/openshift/windows-instance-api/pkg/agent/api/config"
)

// TestUnreadableFeature: what the servicing stack does not say is not taken for a feature that is
// missing. It stops nothing on a host where the feature was there when it was configured.
func TestUnreadableFeature(t *testing.T) {
	first, second := bundles(t)
	refused := errors.New("DismOpenSession: HRESULT 0x800f082f")
	says := []string{refused.Error(), "dism.exe /Online /Get-FeatureInfo /FeatureName:Containers", `C:\Windows\Logs\DISM\dism.log`}
	f := usedHost(t, first)
	mustSay := func(text string) {
		t.Helper()
		for _, want := range says {
			if !strings.Contains(text, want) {
				t.Errorf("got %q, want %q in it", text, want)
			}
		}
	}

	f.failing["Feature"] = refused
	if plan, err := engineOf(f).Plan(t.Context(), &first); err == nil {
		t.Errorf("a host that was never configured: got the plan %+v", plan)
	} else {
		mustSay(err.Error())
	}
	before := f.mutations
	r := engineOf(f).Apply(t.Context(), &api.ApplyRequest{Allow: config.ImpactReboot, Bundle: first})
	if r.Outcome != api.OutcomeFailed || f.features["Containers"] != "" || f.mutations != before {
		t.Errorf("a host that was never configured: %+v", r)
	}
	mustSay(r.Error)

	delete(f.failing, "Feature")
	send(t, f, first)
	f.failing["EnableFeature Containers"] = refused
	r = engineOf(f).Apply(t.Context(), &api.ApplyRequest{Allow: config.ImpactReboot, Bundle: first})
	if r.Outcome != api.OutcomeFailed {
		t.Errorf("a feature that cannot be enabled: %+v", r)
	}
	mustSay(r.Error)

	clear(f.failing)
	converge(t, f, first)
	f.failing["Feature"] = refused
	converge(t, f, second)
	other := second
	other.Document.Features = append([]config.Feature{{Name: "Other"}}, other.Document.Features...)
	if _, err := engineOf(f).Plan(t.Context(), &other); err == nil || !strings.Contains(err.Error(), "FeatureName:Other") {
		t.Errorf("a feature that is new in the document: %v", err)
	}
}
