// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package shell

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
	"strings"
	"unicode/utf16"
)

var (
	errLineBreak       = errors.New("has a line break, at which cmd.exe ends the command; send it on standard input, or make PowerShell the default shell of the host")
	errQuoteInName     = errors.New("has a double quote, which no file name on Windows has")
	errBuiltinTerminal = errors.New("is built into cmd.exe, which on a terminal cannot be given an argument that needs quotes; run it without a terminal (-t), or in an interactive shell")
)

// percent is what % becomes. cmd.exe looks for variables before anything else, in quotes too, and
// on a command line, unlike in a batch file, no character keeps it from that: of two % in a row the first
// stays. The second here begins the empty part of the variable CD, which always exists, so that between a %
// that is meant and the next there is never a name, whatever the environment holds.
const percent = "%%cd:~,%"

// cmdMeta are the characters that cmd.exe acts upon outside of quotes. ! is one where the registry turns delayed expansion on.
const cmdMeta = "\"^&|<>()!"

// cmdLine is the line for cmd.exe. Arguments are quoted for the program, and then each quote is escaped
// for cmd.exe, which so does not begin a quoted part: where that ends it and the
// program would disagree, as \" is a quote to the latter only.
//
// Two things are not escaped. The program's own quotes must be real ones, or cmd.exe would end its name
// at the first space; a name has no quotes, so both agree. And echo prints what it gets, so its
// arguments get no quotes.
func cmdLine(argv []string) (string, error) {
	name, err := cmdProgram(argv)
	if err != nil {
		return "", err
	}
	quote := quoteArg
	if isEcho(argv) {
		quote = asIs
	}
	line := []string{"@" + name}
	for _, arg := range argv[1:] {
		line = append(line, caret(quote(arg)))
	}
	return strings.Join(line, " "), nil
}

func asIs(arg string) string { return arg }

// cmdProgram returns the program quoted for cmd.exe, and refuses what cannot be given to it.
func cmdProgram(argv []string) (string, error) {
	for i, arg := range argv {
		if strings.ContainsAny(arg, "\r\n") {
			return "", &ArgumentError{i, errLineBreak}
		}
	}
	name := argv[0]
	switch {
	case strings.ContainsRune(name, '"'):
		return "", &ArgumentError{0, errQuoteInName}
	case !strings.ContainsFunc(name, unsafeInName) && name[0] != ':': // a colon begins a label
		return name, nil
	}
	return `"` + strings.ReplaceAll(name, "%", percent) + `"`, nil
}

// unsafeInName reports whether cmd.exe would read a character of a program's name as something else.
// What is not listed goes into quotes, where all but % is itself.
func unsafeInName(r rune) bool {
	switch {
	case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9':
		return false
	}
	return !strings.ContainsRune(`\:._-`, r)
}

func isEcho(argv []string) bool { return strings.EqualFold(argv[0], "echo") }

// caret escapes what cmd.exe acts upon outside of quotes.
func caret(s string) string {
	var b strings.Builder
	for i := range len(s) {
		switch {
		case s[i] == '%':
			b.WriteString(percent)
			continue
		case strings.IndexByte(cmdMeta, s[i]) >= 0:
			b.WriteByte('^')
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// cmdTerminalLine is the line for cmd.exe on a terminal, which must come without quotes. What
// needs them is run by PowerShell; what is built into cmd.exe is not known there.
func cmdTerminalLine(argv []string) (string, error) {
	line, err := cmdLine(argv)
	if err != nil {
		return "", err
	}
	if keepsOnTerminal(line) {
		return line, nil
	}
	if builtins[strings.ToLower(argv[0])] {
		return "", &ArgumentError{0, errBuiltinTerminal}
	}
	script, err := powerShellLine(PowerShell, argv)
	if err != nil {
		return "", err
	}
	return "@powershell.exe -NoLogo -NoProfile -EncodedCommand " + encodeUTF16(script), nil
}

// keepsOnTerminal reports whether a line reaches the shell of a terminal unchanged: it has
// nothing that is read as a quote, and single spaces only.
func keepsOnTerminal(line string) bool {
	return !strings.ContainsAny(line, "\"\t") && !strings.Contains(line, "  ") && !strings.HasSuffix(line, " ")
}

// builtins are the commands inside cmd.exe, from its HELP, as far as a single line can use them.
var builtins = map[string]bool{
	"assoc": true, "call": true, "cd": true, "chdir": true, "cls": true, "color": true, "copy": true, "date": true, "del": true,
	"dir": true, "echo": true, "erase": true, "ftype": true, "md": true, "mkdir": true, "mklink": true, "move": true, "path": true, "rd": true,
	"ren": true, "rename": true, "rmdir": true, "set": true, "start": true, "time": true, "title": true, "type": true, "ver": true,
	"verify": true, "vol": true,
}

// encodeUTF16 encodes a script for -EncodedCommand of PowerShell: Base64 of UTF-16 in little endian.
func encodeUTF16(s string) string {
	var b []byte
	for _, u := range utf16.Encode([]rune(s)) {
		b = binary.LittleEndian.AppendUint16(b, u)
	}
	return base64.StdEncoding.EncodeToString(b)
}
