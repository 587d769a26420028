// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package rules

import (
	"fmt"
	"regexp"
	"slices"
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
	parityRule = "|---|---|---|"
)

// checkParity returns what is wrong with the table: rows without a verdict or twice, tests that there are not, and
// promises that are said to be kept without anything that shows it.
func checkParity(document string, tests []string) []string {
	var problems, seen []string
	for line := range strings.Lines(document) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), " | ")
		if !strings.HasPrefix(line, "|") || strings.HasPrefix(line, parityRule) || len(cells) > 1 && cells[1] == "Here" {
			continue
		}
		promise := strings.TrimSpace(cells[0])
		if len(cells) != 3 || !slices.Contains(verdicts, cells[1]) {
			problems = append(problems, fmt.Sprintf("%q has %d cells, or no verdict of %s", promise, len(cells), strings.Join(verdicts, ", ")))
			continue
		}
		if slices.Contains(seen, promise) && !strings.HasPrefix(promise, "…") {
			problems = append(problems, fmt.Sprintf("%q is there twice", promise))
		}
		seen = append(seen, promise)
		named := testName.FindAllStringSubmatch(cells[2], -1)
		for _, match := range named {
			if !slices.Contains(tests, match[1]) {
				problems = append(problems, fmt.Sprintf("%q names %s, which is not there", promise, match[1]))
			}
		}
		if cells[1] == "Yes" && len(named) == 0 && !strings.Contains(cells[2], "](") {
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
	for _, problem := range checkParity(document, tests) {
		t.Error(problem)
	}
}

func TestCheckParity(t *testing.T) {
	const head = "| Promise | Here | Shown by, or why not |\n|---|---|---|\n"
	for _, tt := range []struct {
		name, rows string
		want       []string
	}{
		{name: "good", rows: "| a | Yes | `TestA` |\n| b | No | nobody made it |\n| c | Yes | [page](a.md) |\n"},
		{name: "no verdict", rows: "| a | Perhaps | `TestA` |\n", want: []string{`"a" has 3 cells, or no verdict of Yes, Other, Part, No`}},
		{name: "a test that is not there", rows: "| a | Part | `TestB` |\n", want: []string{`"a" names TestB, which is not there`}},
		{name: "nothing shows it", rows: "| a | Yes | it is so |\n", want: []string{`"a" is kept, and nothing shows it`}},
		{name: "twice", rows: "| a | Yes | `TestA` |\n| a | No | x |\n", want: []string{`"a" is there twice`}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, checkParity(head+tt.rows, []string{"TestA"})); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
		})
	}
}
