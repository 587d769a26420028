// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package shell

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
)

var errSplitByPowerShell = errors.New("cannot be handed to a program by Windows PowerShell, which would split it at a space (it has quotes, and spaces in the wrong places between them); " +
	"send it on standard input, or make cmd.exe or PowerShell 7 the default shell of the host")

// Around the command. $LASTEXITCODE is what the last program returned, which may be one that
// a profile ran, and stays unset after a cmdlet: then $? says whether there was an error.
const (
	// legacyPassing makes PowerShell 7.3 and later build the command line of a program as
	// earlier ones do. Its other ways depend on the name of the program, and take --% away.
	legacyPassing = "$PSNativeCommandArgumentPassing='Legacy';"
	before        = "$LASTEXITCODE=$null;& "
	after         = ";$s=$?;if($null -ne $LASTEXITCODE){exit $LASTEXITCODE};if($s){exit 0};exit 1"
)

// powerShellLine is the line for PowerShell, with a terminal or without. The strings in it are single-quoted,
// and have no double quote and no run of spaces, see [literal].
func powerShellLine(s Shell, argv []string) (string, error) {
	var b strings.Builder
	if s == PowerShellCore {
		b.WriteString(legacyPassing)
	}
	b.WriteString(before)
	b.WriteString(literal(argv[0]))
	for i, arg := range argv[1:] {
		value, err := nativeArgument(s, arg)
		if err != nil {
			return "", &ArgumentError{i + 1, err}
		}
		b.WriteByte(' ')
		if isParameter(arg) {
			b.WriteString(arg)
		} else {
			b.WriteString(literal(value))
		}
	}
	b.WriteString(after)
	return b.String(), nil
}

// isParameter reports whether an argument can be written bare: a cmdlet takes -Name for the name of a parameter
// only then, and for a program it is the same text. A name with anything else in it, such as a dot or a
// colon, is not: PowerShell splits these.
func isParameter(arg string) bool {
	if len(arg) < 2 || arg[0] != '-' || !isLetter(arg[1]) {
		return false
	}
	for i := range arg[1:] {
		if c := arg[i+1]; !isLetter(c) && (c < '0' || c > '9') {
			return false
		}
	}
	return true
}

func isLetter(c byte) bool { return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' }

// nativeArgument returns the string that PowerShell has to be given for a program to get arg. PowerShell puts the strings
// behind each other, with quotes around those that have white space outside of quotes, and
// escapes nothing within; an empty one it leaves out. A string without quotes is given as it is, which is also right for cmdlets.
//
// What is outside of quotes is counted differently: PowerShell 7 takes \" for no quote, and Windows
// PowerShell for one. In 7 the quotes are therefore always ours. In Windows
// PowerShell there may be none of ours that it does not count wrongly, but where it will add some itself.
func nativeArgument(s Shell, arg string) (string, error) {
	switch {
	case arg == "" || arg == "--%":
		return `"` + arg + `"`, nil
	case !strings.ContainsRune(arg, '"') && (!strings.HasSuffix(arg, `\`) || !strings.ContainsFunc(arg, unicode.IsSpace)):
		return arg, nil
	}
	escaped := escapeQuotes(arg)
	quoted := `"` + escaped + doubled(arg) + `"`
	switch {
	case !strings.ContainsFunc(arg, unicode.IsSpace):
		return escaped, nil
	case s == PowerShellCore || !spaceOutside(quoted):
		return quoted, nil
	// A backslash at the end would escape the quote that it adds, or not, depending on the version.
	case spaceOutside(escaped) && !strings.HasSuffix(arg, `\`):
		return escaped, nil
	}
	return "", errSplitByPowerShell
}

// spaceOutside reports whether Windows PowerShell sees white space outside of quotes, and so adds some.
func spaceOutside(s string) bool {
	inside := false
	for _, r := range s {
		switch {
		case r == '"':
			inside = !inside
		case !inside && unicode.IsSpace(r):
			return true
		}
	}
	return false
}

// literal is an expression of a string. The server and conhost treat double quotes, tabs and spaces
// that follow a space differently, depending on the terminal and the version; these, and control characters, are
// put in by the operator -f from their numbers, and braces are doubled for it.
func literal(s string) string {
	var text strings.Builder
	var characters []string
	numbered := map[rune]int{}
	format := hasUnwritable(s)
	previous := rune(0)
	for _, r := range s {
		switch {
		case !writable(r, previous):
			if _, known := numbered[r]; !known {
				numbered[r] = len(characters)
				characters = append(characters, fmt.Sprintf("[char]%d", r))
			}
			fmt.Fprintf(&text, "{%d}", numbered[r])
			previous = 0
			continue
		case isSingleQuote(r), format && (r == '{' || r == '}'):
			text.WriteRune(r)
		}
		text.WriteRune(r)
		previous = r
	}
	if !format {
		return "'" + text.String() + "'"
	}
	return "('" + text.String() + "'-f" + strings.Join(characters, ",") + ")"
}

func hasUnwritable(s string) bool {
	previous := rune(0)
	for _, r := range s {
		if !writable(r, previous) {
			return true
		}
		previous = r
	}
	return false
}

// writable reports whether a character after another comes through to PowerShell.
func writable(r, previous rune) bool {
	return r != '"' && !unicode.IsControl(r) && (r != ' ' || previous != ' ')
}

// isSingleQuote reports whether PowerShell reads a character as a single quote (IsSingleQuote in
// CharTraits.cs of PowerShell/PowerShell). Each of them can end a string, and two in a row are one in it.
func isSingleQuote(r rune) bool {
	switch r {
	case '\'', '\u2018', '\u2019', '\u201a', '\u201b':
		return true
	}
	return false
}
