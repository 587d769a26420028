// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package api

import (
	"errors"
	"testing"
)

// TestKnown: what could not be read may be there, and nothing is decided as if it were not.
func TestKnown(t *testing.T) {
	unread := func(areas ...string) *Facts {
		f := &Facts{Services: []Service{{Name: "kubelet"}}}
		for _, area := range areas {
			f.AddError(area, errors.New("access is denied"))
		}
		return f
	}
	for _, tt := range []struct {
		name                                string
		facts                               *Facts
		kubelet, mayHaveProxy, unconfigured bool
	}{
		{"all was read", unread(), true, false, true},
		{"no service was read", unread("services"), true, true, true},
		{"a service was not read", unread("services/Kube-Proxy"), true, true, true},
		{"the inventory was not read", unread("configuration"), true, false, false},
		{"it is configured", &Facts{Configuration: ConfigurationFacts{AppliedRevision: "a"}}, false, false, false},
		{"it is being configured", &Facts{Configuration: ConfigurationFacts{ApplyingRevision: "a"}}, false, false, false},
	} {
		if got := tt.facts.Service("Kubelet") != nil; got != tt.kubelet {
			t.Errorf("%s: it has a kubelet: %v", tt.name, got)
		}
		if got := tt.facts.MayHaveService("kube-proxy"); got != tt.mayHaveProxy {
			t.Errorf("%s: it may have kube-proxy: %v", tt.name, got)
		}
		if got := tt.facts.Unconfigured(); got != tt.unconfigured {
			t.Errorf("%s: it was never configured: %v", tt.name, got)
		}
	}
	if !unread("services/Kube-Proxy").Unread("services/kube-proxy") || unread("services").Unread("services/kube-proxy") {
		t.Error("an area is taken for another one")
	}
}
