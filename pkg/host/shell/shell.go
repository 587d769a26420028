// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

// Package shell turns a list of arguments into the one command line that an SSH
// server can run. On Windows it passes through three parsers that know
// nothing of each other: the server's, the login shell's, and that of the program.
//
// # What the server does
//
// OpenSSH for Windows runs the shell that is set in the registry (DefaultShell), with
// the command line as the client sent it, in one of these ways (do_exec_windows in
// contrib/win32/win32compat/w32-doexec.c of PowerShell/openssh-portable):
//
//   - cmd.exe, no terminal: cmd.exe /c "LINE". cmd.exe takes the first and the last quote
//     off again, but for one case, see [CommandLine].
//   - another shell, no terminal: shell -c "LINE", quoted for CommandLineToArgvW.
//   - with a terminal: conhost.exe --headless ... -- shell -c LINE, not quoted. conhost
//     splits all of it as CommandLineToArgvW does and joins it with single spaces: up to
//     Windows Server 2019 without any quotes, later with quotes of its own
//     (microsoft/terminal#1815). Whatever depends on a quote or on two spaces in a row is lost.
//
// Hence what [TerminalCommandLine] returns has neither quotes nor runs of white space, and
// the line for PowerShell never has.
//
// # What programs do
//
// A Windows program gets one string and splits it itself. Nearly all do as
// CommandLineToArgvW and the C runtime do; arguments are quoted for these. A program
// that has rules of its own, above all cmd.exe /c, sees what it would see in a
// Windows container, where the kubelet quotes in the same way.
//
// The package decides only; it runs nothing and must not import anything of ours.
package shell

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// Shell is how a login shell reads a command line.
type Shell string

const (
	// Cmd is cmd.exe, the default on Windows.
	Cmd Shell = "Cmd"
	// PowerShell is Windows PowerShell 5, and PowerShell up to 7.2, which hand arguments to
	// programs without escaping the quotes in them.
	PowerShell Shell = "PowerShell"
	// PowerShellCore is PowerShell 7.3 and later, where $PSNativeCommandArgumentPassing
	// says how arguments are handed to programs.
	PowerShellCore Shell = "PowerShellCore"
	// POSIX is sh and what reads single quotes as it does, on any system.
	POSIX Shell = "POSIX"
)

// Lengths that a command line can have, in UTF-16 code units but for POSIX.
const (
	// maxCmd is what cmd.exe reads (8191) less what the server puts around the line:
	// "C:\Windows\System32\cmd.exe" /c "LINE".
	maxCmd = 8191 - len(`"C:\Windows\System32\cmd.exe" /c ""`)
	// maxPowerShell is what CreateProcess takes (32767) less the path of the shell, which is
	// at most 260, and its options.
	maxPowerShell = 32767 - 300
	// maxTerminal is the buffer of the server for the command of a terminal (MAX_CMD_LEN, 8191)
	// less the path and options of conhost.exe and of the shell. What is longer the server cuts off.
	maxTerminal = 8191 - 400
	// maxPOSIX is the longest single argument that Linux passes on (MAX_ARG_STRLEN), in bytes, less its NUL.
	maxPOSIX = 128<<10 - 1
)

// probe prints something else in every shell, and does nothing.
const probe = "echo %OS%$env:OS$PSNativeCommandArgumentPassing"

// Probe returns a command line whose output [Detect] understands. It is the same
// for all shells, has no character that needs quoting and changes nothing.
func Probe() string { return probe }

// What the probe prints, where the shell expands nothing but what is its own.
const (
	cmdSays        = "Windows_NT$env:OS$PSNativeCommandArgumentPassing"
	powerShellSays = "%OS%Windows_NT" // and, from 7.3 on, a word
	posixSays      = "%OS%:OS"
)

// Detect returns the shell by what it printed for [Probe]. Lines that a profile printed before
// do not matter.
func Detect(output string) (Shell, error) {
	lines := strings.FieldsFunc(output, func(r rune) bool { return r == '\n' || r == '\r' })
	for _, line := range slices.Backward(lines) {
		switch line = strings.TrimSpace(line); {
		case line == cmdSays:
			return Cmd, nil
		case line == powerShellSays:
			return PowerShell, nil
		case strings.HasPrefix(line, powerShellSays) && isWord(line[len(powerShellSays):]):
			return PowerShellCore, nil
		case line == posixSays:
			return POSIX, nil
		}
	}
	const most = 100
	said := strings.ToValidUTF8(output[:min(len(output), most)], "\uFFFD")
	return "", fmt.Errorf("the login shell of the host is not one of cmd.exe, PowerShell and sh: for %q it printed %q", probe, said)
}

func isWord(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return (r < 'A' || r > 'Z') && (r < 'a' || r > 'z') })
}

var (
	errNoProgram = errors.New("the command has no program: its first argument is missing or empty")
	errNUL       = errors.New("no program can be given an argument with a NUL character")
	errNotUTF8   = errors.New("is not UTF-8: Windows has no way to pass on other bytes; send them on standard input")
)

// ArgumentError says which argument cannot be passed on, and why.
type ArgumentError struct {
	// Index is its place in the list; 0 is the program.
	Index int
	// Err says why, and what to do.
	Err error
}

// Error implements error. It does not repeat the argument, which may be a secret.
func (e *ArgumentError) Error() string {
	if e.Index == 0 {
		return "the program (argument 0): " + e.Err.Error()
	}
	return fmt.Sprintf("argument %d: %v", e.Index, e.Err)
}

// Unwrap returns the reason.
func (e *ArgumentError) Unwrap() error { return e.Err }

// CommandLine returns the line that makes a shell without a terminal run a program with exactly these arguments. What the shell
// has built in (dir and echo of cmd.exe, cmdlets) is found by its name, too. The exit
// code of the shell is that of the program. Errors say what cannot be expressed and what to
// do instead.
//
// For cmd.exe the line begins with @, which does nothing there. It has cmd.exe take the quotes off that the server has put around
// the line: it keeps them if there are no other quotes or special characters, @ being one, and
// the whole line happens to be the name of a file.
func CommandLine(s Shell, argv []string) (string, error) {
	if err := check(s, argv); err != nil {
		return "", err
	}
	switch s {
	case Cmd:
		line, err := cmdLine(argv)
		return bounded(line, err, maxCmd)
	case PowerShell, PowerShellCore:
		line, err := powerShellLine(s, argv)
		return bounded(line, err, maxPowerShell)
	case POSIX:
		line := posixLine(argv)
		if len(line) > maxPOSIX {
			return "", tooLong(len(line), maxPOSIX)
		}
		return line, nil
	}
	return "", fmt.Errorf("%q is not a known shell", s)
}

// TerminalCommandLine is [CommandLine] for a session with a terminal. Arguments that need quotes cannot
// reach cmd.exe there; for these the line starts PowerShell, which every Windows Server but Nano
// Server has, and which is given the command in Base64.
func TerminalCommandLine(s Shell, argv []string) (string, error) {
	if s == POSIX {
		return CommandLine(s, argv)
	}
	if err := check(s, argv); err != nil {
		return "", err
	}
	if s == Cmd {
		line, err := cmdTerminalLine(argv)
		return bounded(line, err, maxTerminal)
	}
	line, err := powerShellLine(s, argv)
	return bounded(line, err, maxTerminal)
}

// check finds what no shell of the kind can pass on.
func check(s Shell, argv []string) error {
	if len(argv) == 0 || argv[0] == "" {
		return errNoProgram
	}
	for i, arg := range argv {
		switch {
		case strings.ContainsRune(arg, 0):
			return &ArgumentError{i, errNUL}
		case s != POSIX && !utf8.ValidString(arg):
			return &ArgumentError{i, errNotUTF8}
		}
	}
	return nil
}

func bounded(line string, err error, limit int) (string, error) {
	if err != nil {
		return "", err
	}
	if n := units(line); n > limit {
		return "", tooLong(n, limit)
	}
	return line, nil
}

func tooLong(n, limit int) error {
	return fmt.Errorf("the command is too long for the shell of the host: quoted it has %d characters, and %d are possible; send what is long on standard input", n, limit)
}

// units counts UTF-16 code units, in which Windows measures.
func units(s string) int {
	n := 0
	for _, r := range s {
		n += utf16.RuneLen(r)
	}
	return n
}

// quoteArg quotes an argument so that CommandLineToArgvW and the C runtime of Microsoft read it
// as one, if it needs that: a backslash escapes a quote, and is itself only special before one.
// https://learn.microsoft.com/cpp/c-language/parsing-c-command-line-arguments
func quoteArg(arg string) string {
	if arg != "" && !strings.ContainsAny(arg, " \t\n\v\"") {
		return arg
	}
	return `"` + escapeQuotes(arg) + doubled(arg) + `"`
}

// escapeQuotes escapes the quotes of an argument, and the backslashes before them.
func escapeQuotes(arg string) string {
	var b strings.Builder
	backslashes := 0
	for i := range len(arg) {
		switch arg[i] {
		case '\\':
			backslashes++
		case '"':
			b.WriteString(strings.Repeat(`\`, backslashes+1))
			backslashes = 0
		default:
			backslashes = 0
		}
		b.WriteByte(arg[i])
	}
	return b.String()
}

// doubled are as many backslashes as an argument ends with: those that must be added before a closing quote.
func doubled(arg string) string {
	return arg[len(strings.TrimRight(arg, `\`)):]
}
