// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package plugin

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	mobyterm "github.com/moby/term"
	textwidth "golang.org/x/text/width"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/kubectl/pkg/util/term"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/words"
)

// Escape sequences of ECMA-48, and of DEC for what a line does at the edge of the terminal.
const (
	escapeUp      = "\x1b[%dA"
	escapeRest    = "\x1b[J"
	escapeLine    = "\x1b[K"
	escapeCutting = "\x1b[?7l"
	escapeWraps   = "\x1b[?7h"
)

// rolloutView shows lines on a terminal that are drawn again where they are.
type rolloutView struct {
	out io.Writer
	// size is that of the terminal, which may change.
	size func() (width, height int)
	// drawn is how many lines there are.
	drawn int
}

func newRolloutView(out io.Writer) *rolloutView {
	v := &rolloutView{out: out, size: func() (width, height int) { return terminalSize(out) }}
	if out == os.Stderr {
		_, _, v.out = mobyterm.StdStreams() // has consoles of Windows obey escape sequences
	}
	return v
}

// terminalSize is 80 by 24 where it is not known.
func terminalSize(out io.Writer) (width, height int) {
	if size := (term.TTY{Out: out}).GetSize(); size != nil && size.Width > 0 && size.Height > 0 {
		return int(size.Width), int(size.Height)
	}
	return 80, 24
}

// draw replaces what is shown by lines, of which there may be so many.
func (v *rolloutView) draw(lines func(height int) []string) {
	width, height := v.size()
	var b bytes.Buffer
	b.WriteString(escapeCutting)
	v.back(&b)
	room := max(height-1, 0) // the cursor is below them
	var shown []string
	for _, line := range lines(room) {
		shown = append(shown, strings.Split(line, "\n")...)
	}
	shown = shown[:min(len(shown), room)]
	for _, line := range shown {
		b.WriteString(cut(visible(strings.ReplaceAll(line, "\t", " ")), width) + escapeLine + "\n")
	}
	b.WriteString(escapeRest + escapeWraps)
	v.drawn = len(shown)
	_, _ = v.out.Write(b.Bytes()) // as in note of env
}

// note writes a text above what is shown, which is to be drawn after that.
func (v *rolloutView) note(text string) {
	var b bytes.Buffer
	v.back(&b)
	b.WriteString(escapeRest + visible(text) + "\n")
	v.drawn = 0
	_, _ = v.out.Write(b.Bytes())
}

// back goes to where the first line is.
func (v *rolloutView) back(b *bytes.Buffer) {
	if v.drawn > 0 {
		fmt.Fprintf(b, "\r"+escapeUp, v.drawn)
	}
}

// cut shortens a line to the width of a terminal.
func cut(text string, width int) string {
	if cells(text) < width {
		return text
	}
	room := width - len("...") - 1
	for i, r := range text {
		if room -= cells(string(r)); room < 0 {
			return text[:i] + "..."
		}
	}
	return text + "..."
}

// cells is how wide a text is on a terminal, which shows characters that are wide by UAX #11 in two cells. Those that take none count as one.
func cells(text string) int {
	n := 0
	for _, r := range text {
		switch n++; textwidth.LookupRune(r).Kind() {
		case textwidth.EastAsianWide, textwidth.EastAsianFullwidth:
			n++
		case textwidth.Neutral, textwidth.EastAsianAmbiguous, textwidth.EastAsianNarrow, textwidth.EastAsianHalfwidth:
		}
	}
	return n
}

// viewLines are a pool and those of its hosts that have not all that it rolls out, or are not ready, in so many lines at the most: first those that
// something is done to.
func viewLines(pool *v1alpha1.WindowsNodePool, hosts []*v1alpha1.WindowsInstance, height int, now time.Time) []string {
	type row struct {
		hostState
		name string
	}
	why := whyWaits(pool, hosts)
	var rows []row
	for _, host := range hosts {
		state := stateOf(host, pool, why[host.Name])
		if state.active {
			state.text = progressLine(host.Status.Operation, false, now)
		}
		if state.active || state.outstanding || why[host.Name] != "" || !meta.IsStatusConditionTrue(host.Status.Conditions, v1alpha1.ConditionReady) {
			rows = append(rows, row{state, host.Name})
		}
	}
	slices.SortStableFunc(rows, func(a, b row) int { return cmp.Compare(rank(a.hostState), rank(b.hostState)) })
	head := headLines(pool, hosts)
	shown, hidden := fitting(len(head), max(height-len(rows), (height+1)/2)) // half of them are for hosts
	if shown == 0 {
		shown, hidden = 1, 0
	}
	lines := head[:shown:shown]
	if hidden > 0 {
		lines = append(lines, fmt.Sprintf("  … and %s", words.Count(hidden, "more line")))
	}
	if height <= len(lines) {
		return lines[:max(height, 0)]
	}
	shown, hidden = fitting(len(rows), height-len(lines))
	var table [][]string
	for _, r := range rows[:shown] {
		table = append(table, []string{"  " + r.name, r.text})
	}
	for line := range strings.Lines(columns(table)) {
		lines = append(lines, strings.TrimRight(line, "\n"))
	}
	if hidden > 0 {
		text := fmt.Sprintf("  … and %d more", hidden)
		if rank(rows[shown].hostState) > 0 {
			text += " wait"
		}
		lines = append(lines, text)
	}
	return lines
}

// fitting is how many of so many lines are shown where there is room for some, and how many are not, for which one line stands then.
func fitting(lines, room int) (shown, hidden int) {
	if lines <= room {
		return lines, 0
	}
	shown = max(room-1, 0)
	return shown, lines - shown
}

// rank is where hosts are shown: first those that something is done to.
func rank(s hostState) int {
	if s.active {
		return 0
	}
	return 1
}
