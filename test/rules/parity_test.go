// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package rules

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// parity is what users of the peer are promised, with the tests that show it.
const parity = "docs/parity.md"

var (
	testName   = regexp.MustCompile("`(Test[A-Za-z0-9_]+)`")
	testsOf    = regexp.MustCompile(`(?m)^func (Test[A-Za-z0-9_]+)\(t \*testing\.T\)`)
	verdicts   = []string{"Yes", "Other", "Part", "No"}
	parityRule = "|---|---|---|---|"
	// promised are the numbers of promises, or from one to another.
	promised = regexp.MustCompile(`\b(?:([ABCT])(\d+)(?:–[ABCT](\d+))?|OCP-\d{5})\b`)
)

// series are how many promises there are of each kind, and a number that none has; 0: there is none. cases are those of tests on
// installed clusters.
var series = map[string]struct{ count, absent int }{"A": {71, 23}, "B": {71, 0}, "C": {39, 0}, "T": {39, 0}}

const cases = 30

// checkPromises returns which numbers are not in the document, and which are that do not exist.
func checkPromises(document string) (problems []string) {
	found := map[string]bool{}
	for _, match := range promised.FindAllStringSubmatch(document, -1) {
		kind := match[1]
		if kind == "" {
			found[match[0]] = true
			continue
		}
		first, _ := strconv.Atoi(match[2])
		last, err := strconv.Atoi(match[3])
		if err != nil {
			last = first
		}
		for n := first; n <= last; n++ {
			found[kind+strconv.Itoa(n)] = true
		}
	}
	for kind, s := range series {
		for n := 1; n <= s.count; n++ {
			number := kind + strconv.Itoa(n)
			if n != s.absent && !found[number] {
				problems = append(problems, "promise "+number+" is not there")
			}
			delete(found, number)
		}
	}
	slices.Sort(problems)
	others := 0
	for _, number := range slices.Sorted(maps.Keys(found)) {
		if strings.HasPrefix(number, "OCP-") {
			others++
		} else {
			problems = append(problems, "there is no promise "+number)
		}
	}
	if others != cases {
		problems = append(problems, fmt.Sprintf("there are %d cases of tests on installed clusters, want %d", others, cases))
	}
	return problems
}

// checkParity returns what is wrong with the table: rows without a verdict or twice, tests that there are not, and
// promises that are said to be kept without anything that shows it.
func checkParity(document string, tests []string) []string {
	var problems, seen []string
	for line := range strings.Lines(document) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), " | ")
		if !strings.HasPrefix(line, "|") || strings.HasPrefix(line, parityRule) || len(cells) > 2 && cells[2] == "Here" {
			continue
		}
		promise := cells[min(1, len(cells)-1)] // behind its numbers
		if len(cells) != 4 || !slices.Contains(verdicts, cells[2]) {
			problems = append(problems, fmt.Sprintf("%q has %d cells, or no verdict of %s", promise, len(cells), strings.Join(verdicts, ", ")))
			continue
		}
		if slices.Contains(seen, promise) && !strings.HasPrefix(promise, "…") {
			problems = append(problems, fmt.Sprintf("%q is there twice", promise))
		}
		seen = append(seen, promise)
		named := testName.FindAllStringSubmatch(cells[3], -1)
		for _, match := range named {
			if !slices.Contains(tests, match[1]) {
				problems = append(problems, fmt.Sprintf("%q names %s, which is not there", promise, match[1]))
			}
		}
		if cells[2] == "Yes" && len(named) == 0 && !strings.Contains(cells[3], "](") {
			problems = append(problems, fmt.Sprintf("%q is kept, and nothing shows it", promise))
		}
	}
	return problems
}

func TestParity(t *testing.T) {
	var document string
	var tests []string
	for _, f := range readTree(t) {
		if f.path == parity {
			document = f.content
		}
		if strings.HasSuffix(f.path, "_test.go") {
			for _, match := range testsOf.FindAllStringSubmatch(f.content, -1) {
				tests = append(tests, match[1])
			}
		}
	}
	if strings.Count(document, parityRule) < 5 {
		t.Fatalf("%s has no tables", parity)
	}
	for _, problem := range slices.Concat(checkParity(document, tests), checkPromises(document)) {
		t.Error(problem)
	}
}

func TestCheckParity(t *testing.T) {
	const head = "| No. | Promise | Here | Shown by, or why not |\n|---|---|---|---|\n"
	for _, tt := range []struct {
		name, rows string
		want       []string
	}{
		{name: "good", rows: "| A1 | a | Yes | `TestA` |\n| – | b | No | nobody made it |\n| B2–B4 | c | Yes | [page](a.md) |\n"},
		{name: "no verdict", rows: "| A1 | a | Perhaps | `TestA` |\n", want: []string{`"a" has 4 cells, or no verdict of Yes, Other, Part, No`}},
		{name: "a test that is not there", rows: "| A1 | a | Part | `TestB` |\n", want: []string{`"a" names TestB, which is not there`}},
		{name: "nothing shows it", rows: "| A1 | a | Yes | it is so |\n", want: []string{`"a" is kept, and nothing shows it`}},
		{name: "twice", rows: "| A1 | a | Yes | `TestA` |\n| A1 | a | No | x |\n", want: []string{`"a" is there twice`}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, checkParity(head+tt.rows, []string{"TestA"})); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
		})
	}
}

func TestCheckPromises(t *testing.T) {
	all := "| A1–A22, A24–A71, B1–B71 | C1–C39 T1–T39"
	for n := range cases {
		all += fmt.Sprintf(" OCP-%d", 10000+n)
	}
	for _, tt := range []struct {
		name, from, to string
		want           []string
	}{
		{name: "one is missing", from: "A1–A22", to: "A1–A20, A22", want: []string{"promise A21 is not there"}},
		{name: "one is not there", from: "T39", to: "T40", want: []string{"there is no promise T40"}},
		{name: "a case is missing", from: "OCP-10003", want: []string{"there are 29 cases of tests on installed clusters, want 30"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, checkPromises(strings.ReplaceAll(all, tt.from, tt.to))); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
		})
	}
	if problems := checkPromises(all); len(problems) > 0 {
		t.Errorf("got %q", problems)
	}
}
