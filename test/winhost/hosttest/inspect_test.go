// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package hosttest

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
	"github.com/openshift/windows-instance-api/test/winhost"
)

// inspect: the agent finds more than the facts, and what the tier lacks costs nothing else.
func (c contract) inspect(t *testing.T) {
	program, _ := installAgent(t, c.host, c.signer)
	inspect := func() (f api.Facts) {
		t.Helper()
		if err := json.Unmarshal(output(t, c.host, c.signer, program+" inspect", nil), &f); err != nil {
			t.Fatal(err)
		}
		return f
	}
	before := inspect()
	if before.Time.Now.IsZero() || before.Time.Answered.Before(before.Time.Now) {
		t.Errorf("the clock says %s, and %s later", before.Time.Now, before.Time.Answered)
	}
	line := before.Time.Now.Format("E0102 15:04:05.000000") + "    7 a.go:1] the kubelet is in trouble\n"
	log := filepath.Join(c.host.LogDir(), "kubelet.log")
	if err := os.WriteFile(log, []byte(line), 0o600); err != nil {
		t.Fatal(err)
	}
	defer os.Remove(log)
	after := inspect()
	if !slices.ContainsFunc(after.RecentErrors, func(e api.LoggedError) bool {
		return e.Source == "kubelet" && strings.HasSuffix(e.Message, "the kubelet is in trouble")
	}) {
		t.Errorf("the error is not among %+v", after.RecentErrors)
	}
	unknown := func(area string) bool {
		return slices.ContainsFunc(after.Errors, func(e api.FactError) bool { return e.Area == area })
	}
	if missing := c.host.Tier() == winhost.TierWine; unknown("network/hns") != missing {
		t.Errorf("networks for pods are unknown: %t, want %t; got %+v", !missing, missing, after.Errors)
	}
}
