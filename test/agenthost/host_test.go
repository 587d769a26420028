// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package agenthost

import (
	"os"
	"strings"
	"testing"
	"time"
)

// TestHostFacts runs on whatever machine the tests run on.
func TestHostFacts(t *testing.T) {
	f := NewHost(Options{}).Facts(t.Context())
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
		"host name":    strings.EqualFold(f.Name.Hostname, strings.Split(hostname, ".")[0]),
		"architecture": f.System.Architecture != "",
		"processors":   f.CPUs > 0,
		"boot":         f.Boot.Time.Before(f.Time.Now) && f.Boot.UptimeSeconds >= 0,
	} {
		if !ok {
			t.Errorf("%s: not as expected in %+v", name, f)
		}
	}
}

func TestHost(t *testing.T) {
	h := NewHost(Options{LogRoot: "x"})
	if got := h.LogRoot(); got != "x" {
		t.Errorf("LogRoot() = %q, want x", got)
	}
	if got, want := NewHost(Options{Drive: "/c"}).LogRoot(), "/c/var/log"; got != want {
		t.Errorf("LogRoot() = %q, want %q", got, want)
	}
	if path, err := h.Executable(); err != nil || path == "" {
		t.Errorf("Executable() = %q, %v", path, err)
	}
	if path, err := NewHost(Options{Executable: "/c/x.exe"}).Executable(); err != nil || path != "/c/x.exe" {
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
