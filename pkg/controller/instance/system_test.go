// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package instance

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
)

// TestUpdatesStatus: what a host says of its updates gets into the status as it is, and causes no write each minute.
func TestUpdatesStatus(t *testing.T) {
	if got := updatesStatus(nil); got != nil {
		t.Errorf("a host that says nothing: %+v", got)
	}
	at := time.Date(2026, 3, 5, 12, 30, 10, 0, time.UTC)
	got := updatesStatus(&api.WindowsUpdates{SearchedAt: at, Total: 3, Security: 2, Error: "HRESULT 0x8024402c"})
	want := &v1alpha1.WindowsUpdatesStatus{SearchedAt: new(metav1.NewTime(at.Truncate(time.Minute))), Pending: 3, Security: 2, Message: "HRESULT 0x8024402c"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("status (-want +got):\n%s", diff)
	}
	got = updatesStatus(&api.WindowsUpdates{Failures: []api.UpdateFailure{
		{Name: "KB1", Security: true, RetryAt: at, Action: api.ActionDownload, Error: "HRESULT 0x8024402c"}, {Name: "KB2", RetryAt: at, Interactive: true}, {Name: "KB3", RetryAt: at},
	}})
	if diff := cmp.Diff([]v1alpha1.FailedUpdate{
		{Name: "KB1", Security: true, RetryAt: metav1.NewTime(at), Step: v1alpha1.StepDownloadUpdates, Message: "HRESULT 0x8024402c"},
		{Name: "KB2", RetryAt: metav1.NewTime(at), Interactive: true}, {Name: "KB3", RetryAt: metav1.NewTime(at)},
	}, got.Failed); diff != "" {
		t.Errorf("failed (-want +got):\n%s", diff)
	}
	if got := updatesStatus(&api.WindowsUpdates{Error: "HRESULT 0x8024402c"}); got.SearchedAt != nil {
		t.Errorf("no search has succeeded: %+v", got)
	}
}

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
