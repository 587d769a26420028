// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package winhost

import "testing"

func TestPendingComputerName(t *testing.T) {
	const registry = "WINE REGISTRY Version 2\n;; All keys relative to \\\\Machine\n\n" +
		"[System\\\\CurrentControlSet\\\\Control\\\\ComputerName\\\\ActiveComputerName] 1700000000\n#time=1\n\"ComputerName\"=\"ACTIVE\"\n\n"
	for _, tc := range []struct {
		name     string
		registry string
		want     string
	}{
		{"none", registry, ""},
		{"set", registry + "[System\\\\CurrentControlSet\\\\Control\\\\ComputerName\\\\ComputerName] 1700000000\n#time=1\n\"ComputerName\"=\"NEW-NAME\"\n\n", "new-name"},
		{"not first", registry + "[System\\\\CurrentControlSet\\\\Control\\\\ComputerName\\\\ComputerName] 1\n#time=1\n\"A\"=dword:00000001\n\"ComputerName\"=\"X\"\n", "x"},
		{"of another key", registry + "[System\\\\CurrentControlSet\\\\Control\\\\ComputerName\\\\ComputerName] 1\n#time=1\n\n[Other]\n\"ComputerName\"=\"X\"\n", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := pendingComputerName([]byte(tc.registry)); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

func TestWithBoot(t *testing.T) {
	const registry = "[System\\\\HardwareConfig] 1\n\"LastConfig\"=\"{old}\"\n\n[PrefetchParameters] 1\n#time=1\n\"BootId\"=dword:00000001\n\"Other\"=dword:00000001\n"
	const want = "[System\\\\HardwareConfig] 1\n\"LastConfig\"=\"{new}\"\n\n[PrefetchParameters] 1\n#time=1\n\"BootId\"=dword:0000001f\n\"Other\"=dword:00000001\n"
	if got := string(withBoot([]byte(registry), 31, "new")); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
