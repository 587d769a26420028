// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package shell

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// The models of this file are of the parsers that a line passes through, written from their
// documentation and, where it is public, their source, without regard to the code under
// test. What they prove is that the code is right if the models are; test/winhost runs
// the lines for cmd.exe and sh through real ones.

// commandLineToArgvW splits as the function of that name does behind the program's name:
// 2n backslashes before a quote are n, 2n+1 are n and a literal quote, and two quotes in a
// quoted part are a literal one and the end of the part.
func commandLineToArgvW(s string) []string {
	var args []string
	i := 0
	for {
		for i < len(s) && (s[i] == ' ' || s[i] == '\t') {
			i++
		}
		if i == len(s) {
			return args
		}
		var arg []byte
		quoted := false
		for i < len(s) && (quoted || s[i] != ' ' && s[i] != '\t') {
			switch s[i] {
			case '\\':
				n := len(s[i:]) - len(strings.TrimLeft(s[i:], `\`))
				i += n
				if i == len(s) || s[i] != '"' {
					arg = append(arg, strings.Repeat(`\`, n)...)
					continue
				}
				arg = append(arg, strings.Repeat(`\`, n/2)...)
				if n%2 == 1 {
					arg = append(arg, '"')
					i++
				}
			case '"':
				i++
				if quoted && i < len(s) && s[i] == '"' {
					arg = append(arg, '"')
					i++
				}
				quoted = !quoted
			default:
				arg = append(arg, s[i])
				i++
			}
		}
		args = append(args, string(arg))
	}
}

// programAndArgs splits a whole command line, whose first part has rules of its own: a quoted program ends
// at the next quote, and backslashes are nothing special.
func programAndArgs(s string) []string {
	var program string
	if rest, ok := strings.CutPrefix(s, `"`); ok {
		program, s, _ = strings.Cut(rest, `"`)
	} else {
		i := strings.IndexAny(s, " \t")
		if i < 0 {
			i = len(s)
		}
		program, s = s[:i], s[i:]
	}
	return append([]string{program}, commandLineToArgvW(s)...)
}

// escapeAsServer has backslashes before quotes doubled, and one more before each quote. It also returns
// how many backslashes are at the end.
func escapeAsServer(s string) (escaped string, slashes int) {
	var b strings.Builder
	for _, c := range s {
		switch c {
		case '\\':
			slashes++
		case '"':
			b.WriteString(strings.Repeat(`\`, slashes+1))
			slashes = 0
		default:
			slashes = 0
		}
		b.WriteRune(c)
	}
	return b.String(), slashes
}

// conhosts are how conhost.exe puts together what it has split.
var conhosts = map[string]func([]string) string{
	"2019": func(args []string) string { return strings.Join(args, " ") },
	"2022": func(args []string) string {
		quoted := make([]string, len(args))
		for i, arg := range args {
			var slashes int
			quoted[i], slashes = escapeAsServer(arg)
			if arg == "" || strings.ContainsAny(arg, " \t") {
				quoted[i] = `"` + quoted[i] + strings.Repeat(`\`, slashes) + `"`
			}
		}
		return strings.Join(quoted, " ")
	},
}

// onTerminal is the command line that a shell is started with on a terminal.
func onTerminal(conhost func([]string) string, shell, option, line string) string {
	return conhost(programAndArgs(`"` + shell + `" ` + option + " " + line))
}

const cmdExe = `C:\Windows\System32\cmd.exe`

// withoutTerminal is the command line that the server starts cmd.exe with.
func withoutTerminal(line string) string { return `"` + cmdExe + `" /c "` + line + `"` }

// environment is a hostile one: there is a variable of every name that a variable can have, and its
// value runs something else. Only CD is what it is.
func environment(name string) (string, bool) {
	switch {
	case name == "" || strings.Contains(name, "="):
		return "", false
	case strings.EqualFold(name, "cd"):
		return `C:\Users\Administrator`, true
	}
	return `EXPANDED"&calc&"`, true
}

// cmdC is what cmd.exe makes of its own command line: the program that it starts and the rest, which the
// program gets as it is.
func cmdC(commandLine string) (program, rest string, err error) {
	_, line, ok := strings.Cut(commandLine, " /c ")
	if !ok {
		return "", "", errors.New("there is no /c")
	}
	if units(commandLine) > 8191 {
		return "", "", errors.New("too long")
	}
	line = stripQuotes(line)
	if line, err = expandPercent(line); err != nil {
		return "", "", err
	}
	return parseCmd(line)
}

// stripQuotes is the rule that cmd /? explains: the quotes around the line are kept if there are two, without anything special but
// with white space in between, and there is a program of that name, which is assumed here.
func stripQuotes(line string) string {
	if !strings.HasPrefix(line, `"`) {
		return line
	}
	last := strings.LastIndexByte(line, '"')
	between := line[1:max(1, last)]
	if strings.Count(line, `"`) == 2 && !strings.ContainsAny(between, "&<>()@^|") && strings.ContainsAny(between, " \t") {
		return line
	}
	return line[1:last] + line[last+1:]
}

// expandPercent is the first phase, as it is on a command line: a name ends at % or :, what is not defined is
// left as it is, and %% is nothing special.
func expandPercent(line string) (string, error) {
	var b strings.Builder
	for i := 0; i < len(line); {
		if line[i] != '%' {
			b.WriteByte(line[i])
			i++
			continue
		}
		rest := line[i+1:]
		end := strings.IndexAny(rest, "%:")
		if end < 0 {
			b.WriteString(line[i:])
			break
		}
		if rest[end] == ':' && end+1 < len(rest) && rest[end+1] == '%' {
			end++ // the colon is the end of the name
		}
		value, defined := environment(rest[:end])
		switch {
		case !defined:
			b.WriteByte('%')
			i++
		case rest[end] == '%':
			b.WriteString(value)
			i += 1 + end + 1
		default:
			stop := strings.IndexByte(rest[end:], '%')
			if stop < 0 {
				b.WriteByte('%')
				i++
				continue
			}
			modified, err := substring(value, rest[end+1:end+stop])
			if err != nil {
				return "", err
			}
			b.WriteString(modified)
			i += 1 + end + stop + 1
		}
	}
	return b.String(), nil
}

// substring is %name:~start,length%; anything else is taken for a replacement, which has the value in it.
func substring(value, modifier string) (string, error) {
	numbers, ok := strings.CutPrefix(modifier, "~")
	if !ok {
		return value, nil
	}
	start, length, ok := strings.Cut(numbers, ",")
	if !ok || start != "" || length != "" {
		return "", fmt.Errorf("a substring that is not modeled: %q", modifier)
	}
	return value[:0], nil
}

// parseCmd is the second phase: quotes, carets and what ends a command.
func parseCmd(line string) (program, rest string, err error) {
	line = strings.TrimLeft(line, " \t,;=@")
	var token strings.Builder
	quoted := false
	split := -1 // where the name of the program ends in token
	for i := 0; i < len(line); i++ {
		c := line[i]
		switch {
		case c == '\n' || c == '\r':
			return "", "", errors.New("the line ends in the middle")
		case quoted:
			quoted = c != '"'
		case c == '"':
			quoted = true
		case c == '^':
			i++
			if i == len(line) {
				return "", "", errors.New("a caret at the end")
			}
			c = line[i]
		case strings.IndexByte("&|<>()", c) >= 0:
			return "", "", fmt.Errorf("%q is acted upon in %q", c, line)
		case split < 0 && strings.IndexByte(" \t,;=/", c) >= 0:
			split = token.Len()
		}
		token.WriteByte(c)
	}
	if quoted {
		return "", "", errors.New("a quote that does not end")
	}
	text := token.String()
	if split < 0 {
		split = len(text)
	}
	program, rest = text[:split], text[split:]
	if strings.HasPrefix(program, ":") {
		return "", "", errors.New("a label")
	}
	return program, rest, nil
}

// viaServer is the command line that the server starts PowerShell with when there is no terminal: see
// build_commandline_string in misc.c. Backslashes at the end are not doubled, which is a mistake.
func viaServer(shell, line string) string {
	quoted, _ := escapeAsServer(line)
	if strings.Contains(line, " ") && !strings.HasPrefix(line, "'") {
		quoted = `"` + quoted + `"`
	}
	return `"` + shell + `" -c ` + quoted
}

// script is what PowerShell runs of its command line: all that follows -c, joined by spaces.
func script(t testing.TB, commandLine string) string {
	t.Helper()
	argv := programAndArgs(commandLine)
	if len(argv) < 3 || argv[1] != "-c" {
		t.Fatalf("no -c in %q", argv)
	}
	return strings.Join(argv[2:], " ")
}

// powerShell is how a version hands arguments to programs.
type powerShell struct {
	name string
	// escapes says whether \" is no quote when spaces are looked for.
	escapes bool
	// doubles says whether backslashes at the end are doubled when a quote is added.
	doubles bool
}

var (
	windowsPowerShell = powerShell{"5.1", false, false}
	// In case that a servicing update changed it.
	patchedPowerShell = powerShell{"5.1 that knows escapes", true, false}
	powerShell7       = powerShell{"7.3", true, true}
)

// psValue is an argument as the script has it.
type psValue struct {
	text string
	bare bool
}

// psParser reads the part of the language that is used.
type psParser struct{ rest []rune }

func (p *psParser) eat(s string) bool {
	if strings.HasPrefix(string(p.rest), s) {
		p.rest = p.rest[utf8.RuneCountInString(s):]
		return true
	}
	return false
}

// quoted reads a single-quoted string. All of the five characters begin and end one, and two of them in a row
// are the first.
func (p *psParser) quoted() (string, error) {
	isQuote := func(i int) bool { return i < len(p.rest) && strings.ContainsRune("'‘’‚‛", p.rest[i]) }
	if !isQuote(0) {
		return "", fmt.Errorf("no string at %q", string(p.rest))
	}
	var b strings.Builder
	for i := 1; i < len(p.rest); i++ {
		if isQuote(i) {
			if !isQuote(i + 1) {
				p.rest = p.rest[i+1:]
				return b.String(), nil
			}
			i++
			b.WriteRune(p.rest[i-1])
			continue
		}
		b.WriteRune(p.rest[i])
	}
	return "", errors.New("a string that does not end")
}

func (p *psParser) value() (psValue, error) {
	if p.eat("(") {
		text, err := p.quoted()
		if err != nil {
			return psValue{}, err
		}
		var operands []string
		for separator := "-f[char]"; p.eat(separator); separator = ",[char]" {
			n := 0
			for len(p.rest) > 0 && unicode.IsDigit(p.rest[0]) {
				n = 10*n + int(p.rest[0]-'0')
				p.rest = p.rest[1:]
			}
			operands = append(operands, string(rune(n)))
		}
		if !p.eat(")") {
			return psValue{}, fmt.Errorf("no end at %q", string(p.rest))
		}
		text, err = format(text, operands)
		return psValue{text: text}, err
	}
	if len(p.rest) > 0 && p.rest[0] == '-' {
		end := 1
		for end < len(p.rest) && p.rest[end] != ' ' && p.rest[end] != ';' {
			if r := p.rest[end]; r > unicode.MaxASCII || !unicode.IsLetter(r) && !unicode.IsDigit(r) {
				return psValue{}, fmt.Errorf("%q in a parameter", r)
			}
			end++
		}
		text := string(p.rest[:end])
		p.rest = p.rest[end:]
		return psValue{text, true}, nil
	}
	text, err := p.quoted()
	return psValue{text: text}, err
}

// format is String.Format.
func format(s string, operands []string) (string, error) {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		switch {
		case strings.HasPrefix(s[i:], "{{"), strings.HasPrefix(s[i:], "}}"):
			b.WriteByte(s[i])
			i++
		case s[i] == '{':
			number, _, ok := strings.Cut(s[i+1:], "}")
			n, err := strconv.Atoi(number)
			if !ok || err != nil || n >= len(operands) {
				return "", fmt.Errorf("bad format %q", s)
			}
			b.WriteString(operands[n])
			i += 1 + len(number)
		case s[i] == '}':
			return "", fmt.Errorf("bad format %q", s)
		default:
			b.WriteByte(s[i])
		}
	}
	return b.String(), nil
}

// runPowerShell returns what a program started by the script gets.
func (v powerShell) run(s string) ([]string, error) {
	p := &psParser{[]rune(s)}
	p.eat("$PSNativeCommandArgumentPassing='Legacy';")
	if !p.eat("$LASTEXITCODE=$null;& ") {
		return nil, fmt.Errorf("unexpected beginning of %q", s)
	}
	program, err := p.value()
	if err != nil || program.bare {
		return nil, fmt.Errorf("the program of %q: %w", s, err)
	}
	var commandLine strings.Builder
	for p.eat(" ") {
		arg, err := p.value()
		if err != nil {
			return nil, fmt.Errorf("an argument of %q: %w", s, err)
		}
		commandLine.WriteByte(' ')
		if arg.text == "--%" {
			return nil, errors.New("--% is not passed on")
		}
		commandLine.WriteString(v.native(arg.text))
	}
	if string(p.rest) != ";$s=$?;if($null -ne $LASTEXITCODE){exit $LASTEXITCODE};if($s){exit 0};exit 1" {
		return nil, fmt.Errorf("unexpected end of %q: %q", s, string(p.rest))
	}
	return append([]string{program.text}, commandLineToArgvW(commandLine.String())...), nil
}

func (v powerShell) native(arg string) string {
	quotes, backslash, need := 0, false, false
	for _, r := range arg {
		if r == '"' && (!v.escapes || !backslash) {
			quotes++
		} else if unicode.IsSpace(r) && quotes%2 == 0 {
			need = true
		}
		backslash = r == '\\'
	}
	if !need {
		return arg
	}
	if v.doubles {
		arg += arg[len(strings.TrimRight(arg, `\`)):]
	}
	return `"` + arg + `"`
}

// decodeUTF16 is the script in -EncodedCommand.
func decodeUTF16(t testing.TB, s string) string {
	t.Helper()
	b, err := base64.StdEncoding.DecodeString(s)
	if err != nil || len(b)%2 != 0 {
		t.Fatalf("%q: %v", s, err)
	}
	var u []uint16
	for ; len(b) > 0; b = b[2:] {
		u = append(u, binary.LittleEndian.Uint16(b))
	}
	return string(utf16.Decode(u))
}

// posixArgv splits as sh does, as far as the line may have anything: single quotes and \'.
func posixArgv(line string) ([]string, error) {
	var argv []string
	var word strings.Builder
	in := false
	for i := 0; i < len(line); i++ {
		switch c := line[i]; {
		case c == '\'':
			end := strings.IndexByte(line[i+1:], '\'')
			if end < 0 {
				return nil, errors.New("a quote that does not end")
			}
			word.WriteString(line[i+1 : i+1+end])
			i += 1 + end
			in = true
		case c == '\\' && i+1 < len(line):
			i++
			word.WriteByte(line[i])
			in = true
		case c == ' ':
			if in {
				argv = append(argv, word.String())
			}
			word.Reset()
			in = false
		default:
			return nil, fmt.Errorf("%q is not quoted", c)
		}
	}
	if in {
		argv = append(argv, word.String())
	}
	return argv, nil
}
