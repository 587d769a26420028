// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package instance

import (
	"testing"
	"time"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
)

func TestMergeSystem(t *testing.T) {
	recorded := systemStatus(goodFacts())
	for _, test := range []struct {
		name     string
		change   func(*api.Facts)
		wantBoot time.Time
	}{
		{"the same", func(*api.Facts) {}, recorded.BootTime.Time},
		{"a clock that was corrected", func(f *api.Facts) { f.Boot.Time = f.Boot.Time.Add(100 * time.Second) }, recorded.BootTime.Time},
		{"not known this time", func(f *api.Facts) { f.Boot.Time = time.Time{} }, recorded.BootTime.Time},
		{"restarted", func(f *api.Facts) { f.Boot.Time = testNow.Add(10 * time.Second) }, testNow.Truncate(time.Minute)},
	} {
		t.Run(test.name, func(t *testing.T) {
			facts := goodFacts()
			test.change(facts)
			got := mergeSystem(&recorded, systemStatus(facts))
			if !got.BootTime.Time.Equal(test.wantBoot) {
				t.Errorf("got boot time %s, want %s", got.BootTime, test.wantBoot)
			}
		})
	}
	t.Run("memory in whole mebibytes", func(t *testing.T) {
		facts := goodFacts()
		facts.Memory.TotalBytes = 8*gib - 4096
		if got := systemStatus(facts).Memory.String(); got != "8191Mi" {
			t.Errorf("got %s", got)
		}
	})
	t.Run("no domain", func(t *testing.T) {
		if got := systemStatus(goodFacts()).FQDN; got != "" {
			t.Errorf("got %q", got)
		}
	})
}
