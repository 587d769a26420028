// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package windows

import (
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/windows"

	"github.com/openshift/windows-instance-api/pkg/agent/api/config"
	"github.com/openshift/windows-instance-api/pkg/agent/logs"
)

func TestXPath(t *testing.T) {
	since := time.Date(2026, 3, 5, 10, 0, 0, 1500, time.UTC)
	tests := []struct {
		name     string
		q        logs.EventQuery
		byRecord bool
		before   uint64
		want     string
	}{
		{name: "everything", want: "*"},
		{name: "provider", q: logs.EventQuery{Provider: "vm'tools"}, want: "*[System[Provider[@Name='vmtools']]]"},
		{name: "record", q: logs.EventQuery{AfterRecord: 7}, byRecord: true, want: "*[System[(EventRecordID > 7)]]"},
		{name: "what is older than a record", q: logs.EventQuery{NewestFirst: true}, byRecord: true, before: 9, want: "*[System[(EventRecordID < 9)]]"},
		{name: "record of a subscription", q: logs.EventQuery{AfterRecord: 7}, want: "*"},
		{
			name: "window, rounded outwards", q: logs.EventQuery{Since: since, Until: since},
			want: "*[System[TimeCreated[@SystemTime>='2026-03-05T10:00:00.000Z'] and TimeCreated[@SystemTime<='2026-03-05T10:00:00.001Z']]]",
		},
		{name: "errors", q: logs.EventQuery{ErrorsOnly: true, AfterRecord: 7}, byRecord: true, want: "*[System[(EventRecordID > 7) and (Level=1 or Level=2)]]"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, xpath(tt.q, tt.byRecord, tt.before)); diff != "" {
				t.Errorf("xpath (-want +got):\n%s", diff)
			}
		})
	}
}

func TestFileTime(t *testing.T) {
	// 1 January 1970 in units of 100 ns since 1601.
	if got := fileTime(116444736000000000 + 15); !got.Equal(time.Unix(0, 1500)) {
		t.Errorf("got %v", got)
	}
}

func TestLowerPriority(t *testing.T) {
	process := windows.CurrentProcess()
	before, err := windows.GetPriorityClass(process)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = windows.SetPriorityClass(process, before) })
	New().LowerPriority()
	if got, err := windows.GetPriorityClass(process); err != nil || got != windows.BELOW_NORMAL_PRIORITY_CLASS {
		t.Errorf("the priority class is %#x, %v", got, err)
	}
}

// Names of layers of containers and of what was put aside are long. Go makes its processes aware of
// that on all Windows that we know, so that our own calls need no prefix.
func TestLongPaths(t *testing.T) {
	system := &windowsSystem{}
	path, err := os.MkdirTemp("", "") //nolint:usetesting // Wine cannot remove one with files
	if err != nil {
		t.Fatal(err)
	}
	made := []string{path}
	for range 5 {
		path = filepath.Join(path, strings.Repeat("d", 60))
		if err := system.MakeDirectory(path, config.AccessInherited); err != nil {
			t.Fatal(err)
		}
		made = append(made, path)
	}
	t.Cleanup(func() {
		for _, path := range slices.Backward(made) {
			if err := system.Remove(path); err != nil {
				t.Error(err)
			}
		}
	})
	from, to := filepath.Join(path, "from"), filepath.Join(path, "to")
	if err := writeWhole(from, strings.NewReader("text"), config.AccessInherited); err != nil {
		t.Fatal(err)
	}
	if err := moveFile(from, to); err != nil {
		t.Fatal(err)
	}
	made = append(made, to)
	if content, err := os.ReadFile(to); err != nil || string(content) != "text" {
		t.Errorf("got %q, %v", content, err)
	}
}

func TestBootID(t *testing.T) {
	if got, want := bootID(134000000000000000+1234567), "2025-08-18T14:13:20.1234567Z"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	first, err := New().Boot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if again, err := New().Boot(t.Context()); err != nil || again.ID != first.ID {
		t.Errorf("one boot is called %s and %s, %v", first.ID, again.ID, err)
	}
}

// TestRouteTable reads the table that exists: with a wrong layout of its rows nothing in
// it would be an address.
func TestRouteTable(t *testing.T) {
	for _, version := range []netip.Addr{netip.IPv4Unspecified(), netip.IPv6Unspecified()} {
		table, err := routeTable(version)
		if err != nil {
			t.Fatal(err)
		}
		for _, row := range table {
			if e := entryOf(row); !e.destination.IsValid() || !e.gateway.IsValid() || e.destination.Addr().Is4() != version.Is4() || e.index == 0 {
				t.Errorf("got route %+v", e)
			}
		}
		if _, err := adapterMetrics(version); err != nil {
			t.Error(err)
		}
	}
	for _, addr := range []string{"169.254.169.254", "fe80::1"} {
		var sa windows.RawSockaddrInet
		setInet(&sa, netip.MustParseAddr(addr))
		if got := inetAddr(&sa); got.String() != addr {
			t.Errorf("wrote %s, read %s", addr, got)
		}
	}
}

func TestMultiString(t *testing.T) {
	text := []uint16{'a', 0, 'b', 'c', 0, 0}
	if diff := cmp.Diff([]string{"a", "bc"}, multiString(&text[0])); diff != "" {
		t.Errorf("strings (-want +got):\n%s", diff)
	}
	if got := multiString(nil); got != nil {
		t.Errorf("nothing: got %q", got)
	}
}

func TestVariants(t *testing.T) {
	for _, tt := range []struct {
		name string
		v    evtVariant
		want string
	}{
		{name: "null", v: evtVariant{}, want: ""},
		{name: "uint16", v: evtVariant{kind: variantUint16, value: 0xffff0007}, want: "7"},
		{name: "int32", v: evtVariant{kind: variantInt32, value: 0xffffffff}, want: "-1"},
		{name: "uint64", v: evtVariant{kind: variantUint64, value: 1 << 63}, want: "9223372036854775808"},
		{name: "bool", v: evtVariant{kind: variantBool, value: 1}, want: "true"},
		{name: "hex", v: evtVariant{kind: variantHexInt32, value: 255}, want: "0xff"},
		{name: "null string", v: evtVariant{kind: variantString}, want: ""},
		{name: "array", v: evtVariant{kind: variantString | variantArray, value: 1}, want: ""},
		{name: "file time", v: evtVariant{kind: variantFileTime, value: 116444736000000000}, want: "1970-01-01T00:00:00Z"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := tt.v.text(); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}
