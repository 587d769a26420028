// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package api

import (
	"regexp/syntax"
	"strings"
	"testing"
)

// TestCheckLogPattern compares the estimate with the program that is made.
func TestCheckLogPattern(t *testing.T) {
	for _, pattern := range []string{
		"", "error", "(?i)error|warning|fatal", `\pL+\s*\d{1,3}`, "^E[0-9]{4} .*(a|b)?$", "(?:.?){1000}", "(?:.?){1000}(?:.?){1000}",
		"(ab*){3,}", "((a{10}){10}){10}", "[a-z]{0,900}", "x{5}", "(?:a|bc|)*", strings.Repeat(`(?:\pL\pN){10}`, 300),
		`\pL{1000}` + strings.Repeat("a", 8000), strings.Repeat(`\pL{1000}`, 450), strings.Repeat("(?:.?){1000}", 341), `(?:\bx\B){1000}`,
	} {
		parsed, err := syntax.Parse("(?m)"+pattern, syntax.Perl)
		if err != nil {
			t.Fatal(err)
		}
		program, err := syntax.Compile(parsed.Simplify())
		if err != nil {
			t.Fatal(err)
		}
		made := len(program.Inst)
		n, err := CheckLogPattern(pattern)
		name := pattern[:min(len(pattern), 40)]
		switch {
		case err == nil && made > MaxLogPatternInstructions+10:
			t.Errorf("%s: taken with %d instructions", name, made)
		case err == nil && (n+10 < made || n > 2*made):
			t.Errorf("%s: %d instructions estimated, %d made", name, n, made)
		case err != nil && made < MaxLogPatternInstructions:
			t.Errorf("%s: refused with %d instructions: %v", name, made, err)
		}
	}
	for _, pattern := range []string{"(", "a)(?:b", "(?=x)"} {
		if _, err := CheckLogPattern(pattern); err == nil || !strings.Contains(err.Error(), "RE2") {
			t.Errorf("%s: %v", pattern, err)
		}
	}
}
