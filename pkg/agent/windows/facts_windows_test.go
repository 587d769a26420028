// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package windows

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
)

// TestHostFacts runs on whatever Windows the tests run on, Wine included.
func TestHostFacts(t *testing.T) {
	f := New().Facts(t.Context())
	for _, e := range f.Errors {
		t.Errorf("%s: %s", e.Area, e.Message)
	}
	if d := time.Since(f.Time.Now); d < 0 || d > time.Minute {
		t.Errorf("the clock is off by %v", d)
	}
	hostname, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	for name, ok := range map[string]bool{
		"host name":        strings.EqualFold(f.Name.Hostname, strings.Split(hostname, ".")[0]),
		"architecture":     f.System.Architecture != "",
		"product":          f.System.Product != "",
		"version":          f.System.Version != "",
		"processors":       f.CPUs > 0,
		"memory":           f.Memory.TotalBytes > 64<<20 && f.Memory.AvailableBytes > 0 && f.Memory.AvailableBytes <= f.Memory.TotalBytes,
		"system disk":      len(f.Disks) > 0 && f.Disks[0].System && f.Disks[0].TotalBytes >= f.Disks[0].FreeBytes && f.Disks[0].TotalBytes > 0,
		"boot":             f.Boot.Time.Before(f.Time.Now) && f.Boot.UptimeSeconds >= 0,
		"user":             f.User.Name != "" && f.User.ID != "",
		"network adapters": len(f.Network.Interfaces) > 0,
		"loopback address": hasAddress(f.Network.Interfaces, "127.0.0.1/8"),
	} {
		if !ok {
			t.Errorf("%s: not as expected in %+v", name, f)
		}
	}
}

// TestStartOf: a process was started before now, and no process never was.
func TestStartOf(t *testing.T) {
	if started := startOf(uint32(os.Getpid())); started == nil || time.Since(*started) < 0 || time.Since(*started) > time.Hour {
		t.Errorf("this process was started at %v", started)
	}
	if started := startOf(0); started != nil {
		t.Errorf("no process was started at %v", started)
	}
}

func hasAddress(list []api.Interface, cidr string) bool {
	for _, i := range list {
		if slices.Contains(i.Addresses, cidr) {
			return true
		}
	}
	return false
}

func TestHost(t *testing.T) {
	h := New()
	if got := h.LogRoot(); got != `C:\var\log` {
		t.Errorf("LogRoot() = %q", got)
	}
	if path, err := h.Executable(); err != nil || path == "" {
		t.Errorf("Executable() = %q, %v", path, err)
	}
	boots, err := h.BootTimes(t.Context())
	if err != nil || len(boots) == 0 || !boots[0].Before(h.Now()) {
		t.Errorf("BootTimes() = %v, %v", boots, err)
	}
	for i := 1; i < len(boots); i++ {
		if !boots[i].Before(boots[i-1]) {
			t.Errorf("boots are not from the newest to the oldest: %v", boots)
		}
	}
}
