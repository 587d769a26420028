// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package windows

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/windows"

	"github.com/openshift/windows-instance-api/pkg/agent/updates"
)

// TestSearchSource: the host is told to look at itself only before it searches, and what keeps it from that is not hidden.
func TestSearchSource(t *testing.T) {
	const hiccup = 0x8024001e // WU_E_SERVICE_STOP
	for _, tt := range []struct {
		name   string
		source searchSource
		online uintptr // what put_Online answers
		calls  []string
		want   string
	}{
		{"the server is asked", askServer, 0, []string{"Search", "Release"}, "searching: "},
		{"the host is asked", askHost, 0, []string{"put_Online false", "Search", "Release"}, "searching: "},
		{"it cannot be told", askHost, hiccup, []string{"put_Online false", "Release"}, "preparing a search: "},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var calls []string
			searcher := &comObject[updateSearcher]{methods: &updateSearcher{}}
			searcher.methods.Release = windows.NewCallback(func(uintptr) uintptr { calls = append(calls, "Release"); return 0 })
			searcher.methods.PutOnline = windows.NewCallback(func(_, online uintptr) uintptr {
				calls = append(calls, map[bool]string{true: "put_Online true", false: "put_Online false"}[int16(online) != 0])
				return tt.online
			})
			searcher.methods.Search = windows.NewCallback(func(_, _, _ uintptr) uintptr { calls = append(calls, "Search"); return hiccup })
			session := &comObject[updateSession]{methods: &updateSession{}}
			session.methods.CreateUpdateSearcher = windows.NewCallback(func(_ uintptr, to **comObject[updateSearcher]) uintptr { *to = searcher; return 0 })
			err := searchUpdates(session, tt.source, func(*comObject[windowsUpdate]) error { return errors.New("nothing is found") })
			if !slices.Equal(calls, tt.calls) || err == nil || !strings.HasPrefix(err.Error(), tt.want) {
				t.Errorf("it calls %q: %v", calls, err)
			}
		})
	}
}

// TestTablesOfUpdates: the methods are where wuapi.h has them, whatever was added to the tables.
func TestTablesOfUpdates(t *testing.T) {
	for name, at := range map[string][2]uintptr{
		"IUpdateSession.CreateUpdateInstaller":                  {unsafe.Offsetof(updateSession{}.CreateUpdateInstaller), 14},
		"IUpdateSearcher.Search":                                {unsafe.Offsetof(updateSearcher{}.Search), 19},
		"IUpdateSearcher.put_Online":                            {unsafe.Offsetof(updateSearcher{}.PutOnline), 21},
		"IUpdateInstaller.get_RebootRequiredBeforeInstallation": {unsafe.Offsetof(updateInstaller{}.GetRebootRequiredBeforeInstallation), 27},
	} {
		if got := at[0] / unsafe.Sizeof(uintptr(0)); got != at[1] {
			t.Errorf("%s is method %d, want %d", name, got, at[1])
		}
	}
}

// TestUpdatesNotBegun: without a search nothing is known of any update. Wine cannot search; Windows does, and does not find this one.
func TestUpdatesNotBegun(t *testing.T) {
	id := updates.Identity{ID: "1", Revision: 1}
	if err := (updateAgent{}).Download(t.Context(), id); !errors.Is(err, updates.ErrNotBegun) && !errors.Is(err, updates.ErrNotOffered) {
		t.Errorf("download: %v", err)
	}
	results, err := (updateAgent{}).Install(t.Context(), []updates.Identity{id})
	if !errors.Is(err, updates.ErrNotBegun) && (err != nil || !errors.Is(results[0].Err, updates.ErrNotOffered)) {
		t.Errorf("install: %+v, %v", results, err)
	}
	if _, err := (updateAgent{}).RestartPending(t.Context()); err != nil {
		t.Errorf("whether Windows waits for a restart: %v", err)
	}
}
