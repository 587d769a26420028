// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

// Package blockedby is the format of status.blockedBy of a WindowsNodePool: what its hosts wait for, in a line for each reason. The controller
// writes it, and "kubectl windows" reads it, to say of each host what it waits for. People read it as it is.
//
// The package must import nothing else of this module than pkg/words.
package blockedby

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/openshift/windows-instance-api/pkg/words"
)

// Line is one reason, and the hosts that wait for it: "win-1, win-2 and 3 more: The window of pool p opens at 2026-03-07T02:00:00Z."
type Line struct {
	// Names are those of the hosts, as far as they are named.
	Names []string
	// More is how many hosts there are besides.
	More int
	// Why is the reason, in one or more sentences. Those of a [Slot] can be parsed.
	Why string
}

// String returns the line.
func (l Line) String() string {
	head := strings.Join(l.Names, ", ")
	if l.More > 0 {
		head += fmt.Sprintf(" and %d more", l.More)
	}
	return head + ": " + l.Why
}

var more = regexp.MustCompile(` and (\d+) more$`)

// Parse returns the lines of a status.blockedBy. Of a line that names no hosts, as in what is said of the pool, Names is whatever stands before the
// first colon: who knows the hosts has to look whether they are among them.
func Parse(text string) []Line {
	var lines []Line
	for line := range strings.Lines(text) {
		head, why, _ := strings.Cut(strings.TrimRight(line, "\n"), ": ")
		l := Line{Why: why}
		if found := more.FindStringSubmatch(head); found != nil {
			l.More, _ = strconv.Atoi(found[1]) // digits
			head = strings.TrimSuffix(head, found[0])
		}
		l.Names = strings.Split(head, ", ")
		lines = append(lines, l)
	}
	return lines
}

// Slot is a reason of hosts that wait until others are done.
type Slot struct {
	// Removal says that they wait to be removed.
	Removal bool
	// InTheWay says what is done to the others: "win-3 of pool p is out of service (it is being changed)".
	InTheWay string
	// Bound says to how many that may be done: "at most 1 may be at a time".
	Bound string
	// SetBy is the field or the flag that says so. Empty: it cannot be changed.
	SetBy string
}

const (
	waitsForSlot    = "Waits for a slot: "
	waitsForRemoval = "Waits for a slot to be removed: "
)

// String returns the reason as a sentence.
func (s Slot) String() string {
	begin, end := waitsForSlot, ""
	if s.Removal {
		begin = waitsForRemoval
	}
	if s.SetBy != "" {
		end = " (" + s.SetBy + ")"
	}
	return begin + s.InTheWay + "; " + s.Bound + end + "."
}

// ParseSlot returns the slot that a reason is about, whatever sentences follow it. It reports false if that is none.
func ParseSlot(why string) (Slot, bool) {
	var s Slot
	rest, ok := strings.CutPrefix(words.FirstSentence(why), waitsForSlot)
	if !ok {
		rest, s.Removal = strings.CutPrefix(words.FirstSentence(why), waitsForRemoval)
		ok = s.Removal
	}
	inTheWay, bound, found := strings.Cut(rest, "; ")
	if !ok || !found {
		return Slot{}, false
	}
	s.InTheWay = inTheWay
	if s.Bound, s.SetBy, found = strings.Cut(bound, " ("); found {
		s.SetBy = strings.TrimSuffix(s.SetBy, ")")
	}
	return s, true
}
