// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package blockedby

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestParse: what is written is read.
func TestParse(t *testing.T) {
	lines := []Line{
		{Names: []string{"win-1"}, Why: "Waits: for 3: things."},
		{Names: []string{"win-2", "a.example.com"}, More: 3, Why: "The window opens."},
	}
	text := lines[0].String() + "\n" + lines[1].String()
	if want := "win-1: Waits: for 3: things.\nwin-2, a.example.com and 3 more: The window opens."; text != want {
		t.Errorf("written is %s, want %s", text, want)
	}
	if diff := cmp.Diff(lines, Parse(text)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got := Parse(""); len(got) != 0 {
		t.Errorf("nothing is read as %v", got)
	}
}

// TestParseSlot: what is written is read, whatever follows it, and nothing else is a slot.
func TestParseSlot(t *testing.T) {
	for text, want := range map[string]Slot{
		"Waits for a slot: win-3 of pool p is out of service (its Node is cordoned); at most 1 may be at a time (spec.updateStrategy.rollingUpdate.maxUnavailable).": {
			InTheWay: "win-3 of pool p is out of service (its Node is cordoned)", Bound: "at most 1 may be at a time", SetBy: "spec.updateStrategy.rollingUpdate.maxUnavailable",
		},
		"Waits for a slot to be removed: another host is being changed: a; at most 2 of a namespace are.": {
			Removal: true, InTheWay: "another host is being changed: a", Bound: "at most 2 of a namespace are",
		},
	} {
		if want.String() != text {
			t.Errorf("written is %s, want %s", want, text)
		}
		for _, why := range []string{text, text + " Find out why: kubectl windows describe win-3 -n hosts"} {
			if got, ok := ParseSlot(why); !ok || got != want {
				t.Errorf("%s\nis read as %+v, want %+v", why, got, want)
			}
		}
	}
	for _, why := range []string{"", "The window of pool p opens at 2026-03-07T02:00:00Z.", "Waits for a slot: one host of pool p is updated first: a. The others follow when it works; or not.", "Sticks; at most 1 may."} {
		if got, ok := ParseSlot(why); ok {
			t.Errorf("%s\nis read as %+v", why, got)
		}
	}
}
