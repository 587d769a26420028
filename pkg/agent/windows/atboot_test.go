// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package windows

import (
	"slices"
	"testing"
)

// TestAtBoot: no host waits for a restart because files are removed then, whoever has removed
// them, and what is removed is known in each form in which Windows has it.
func TestAtBoot(t *testing.T) {
	const trash = `\??\C:\Windows\windows-node-agent\state\trash\d1x2`
	tests := []struct {
		name     string
		pairs    []string
		removed  []string
		replaced bool
	}{
		{name: "nothing"},
		{name: "a file that we replaced", pairs: []string{trash, ""}, removed: []string{trash[4:]}},
		{name: "in the form of newer versions", pairs: []string{`*1` + trash, "", `*2\??\C:\k\x.exe`, ""}, removed: []string{trash[4:], `C:\k\x.exe`}},
		{name: "both forms", pairs: []string{trash, "", `*1\??\c:\windows\Windows-Node-Agent`, ""}, removed: []string{trash[4:], `c:\windows\Windows-Node-Agent`}},
		{name: "files of somebody else are removed", pairs: []string{trash, "", `*1\??\C:\Program Files (x86)\Microsoft\Temp\old.exe`, ""}, removed: []string{trash[4:], `C:\Program Files (x86)\Microsoft\Temp\old.exe`}},
		{name: "what a removal left in use", pairs: []string{`\??\C:\ProgramData\containerd\root\x`, ""}, removed: []string{`C:\ProgramData\containerd\root\x`}},
		{name: "a file is replaced", pairs: []string{`\??\C:\Windows\new.dll`, `!\??\C:\Windows\old.dll`}, replaced: true},
		{name: "a file is replaced, in the form of newer versions", pairs: []string{`*1` + trash, "", `*1\??\C:\Windows\new.dll`, `*1!\??\C:\Windows\old.dll`}, removed: []string{trash[4:]}, replaced: true},
		{name: "a file is renamed", pairs: []string{trash, `\??\C:\x`}, replaced: true},
		{name: "empty pairs", pairs: []string{"", ""}},
		{name: "a source without a target", pairs: []string{trash}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := removedAtBoot(tt.pairs); !slices.Equal(got, tt.removed) {
				t.Errorf("removed are %q, want %q", got, tt.removed)
			}
			if got := replacedAtBoot(tt.pairs); got != tt.replaced {
				t.Errorf("something is replaced: %v, want %v", got, tt.replaced)
			}
		})
	}
}
