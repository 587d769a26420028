// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package windows

import (
	"slices"
	"testing"
)

// TestAtBoot: what the agent has replaced makes no host wait for a restart, and nothing else is
// taken for that.
func TestAtBoot(t *testing.T) {
	const trash = `\??\C:\Windows\windows-node-agent\state\trash\d1x2`
	tests := []struct {
		name    string
		pairs   []string
		removed []string
		others  bool
	}{
		{name: "nothing"},
		{name: "a file that we replaced", pairs: []string{trash, ""}, removed: []string{trash[4:]}},
		{name: "two of them", pairs: []string{trash, "", `\??\c:\windows\Windows-Node-Agent`, ""}, removed: []string{trash[4:], `c:\windows\Windows-Node-Agent`}},
		{name: "a file of somebody else", pairs: []string{trash, "", `\??\C:\Temp\setup.dll`, ""}, removed: []string{trash[4:], `C:\Temp\setup.dll`}, others: true},
		{name: "what a removal left in use", pairs: []string{`\??\C:\ProgramData\containerd\root\x`, ""}, removed: []string{`C:\ProgramData\containerd\root\x`}, others: true},
		{name: "a file is replaced", pairs: []string{`\??\C:\Windows\new.dll`, `!\??\C:\Windows\old.dll`}, others: true},
		{name: "a file of ours is renamed by somebody", pairs: []string{trash, `\??\C:\x`}, others: true},
		{name: "a directory beside ours", pairs: []string{`\??\C:\Windows\windows-node-agent2\x`, ""}, removed: []string{`C:\Windows\windows-node-agent2\x`}, others: true},
		{name: "empty pairs", pairs: []string{"", ""}},
		{name: "a source without a target", pairs: []string{trash}, others: true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := removedAtBoot(tt.pairs); !slices.Equal(got, tt.removed) {
				t.Errorf("removed are %q, want %q", got, tt.removed)
			}
			if got := othersAtBoot(tt.pairs); got != tt.others {
				t.Errorf("something else happens: %v, want %v", got, tt.others)
			}
		})
	}
}
