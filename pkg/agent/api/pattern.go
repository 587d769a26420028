// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package api

import (
	"fmt"
	"regexp/syntax"
)

// CheckLogPattern refuses a regular expression that is not in RE2 syntax, or that is too costly:
// the time of a match is at most that of the text times the number of its instructions, and few
// bytes can make millions of them. It returns that number, which is an estimate: the program is
// not made for it.
func CheckLogPattern(pattern string) (instructions int, err error) {
	parsed, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return 0, fmt.Errorf("is not a regular expression in RE2 syntax: %w", err)
	}
	instructions = instructionsOf(parsed)
	if instructions > MaxLogPatternInstructions {
		return 0, fmt.Errorf("is too costly: it makes a program of %d instructions, and at most %d are allowed; use smaller numbers of repetitions", instructions, MaxLogPatternInstructions)
	}
	return instructions, nil
}

// instructionsOf is how many instructions package regexp/syntax makes of an expression. Its
// parser refuses expressions that would overflow the sum.
func instructionsOf(re *syntax.Regexp) int {
	n := 0
	for _, sub := range re.Sub {
		n += instructionsOf(sub)
	}
	switch re.Op {
	case syntax.OpLiteral:
		return len(re.Rune)
	case syntax.OpCapture, syntax.OpStar:
		return n + 2
	case syntax.OpPlus, syntax.OpQuest:
		return n + 1
	case syntax.OpConcat:
		return n
	case syntax.OpAlternate:
		return n + len(re.Sub) - 1
	case syntax.OpRepeat:
		if re.Max < 0 {
			return max(re.Min, 1)*n + 2
		}
		return re.Max*n + re.Max - re.Min
	default:
		return 1
	}
}
