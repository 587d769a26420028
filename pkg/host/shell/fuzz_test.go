// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package shell

import (
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

// The fuzz targets build lists of arguments from one string, split at NUL, which no argument can have, and
// compare them with what a program gets in the end. That nothing is refused without need is part of it.

func seed(f *testing.F) {
	for _, argv := range hard {
		f.Add(strings.Join(argv, "\x00"))
	}
}

// arguments makes the list; the program is always the same, since it is subject to other rules.
func arguments(s string) []string {
	return append([]string{`C:\Program Files (x86)\100%\a.exe`}, strings.Split(s, "\x00")...)
}

func wantArgv(t *testing.T, where, line string, got, want []string, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("%s: %v\nof %q", where, err, line)
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Fatalf("%s: %s\nof %q", where, d, line)
	}
}

func FuzzCmd(f *testing.F) {
	seed(f)
	f.Fuzz(func(t *testing.T, s string) {
		argv := arguments(s)
		line, err := CommandLine(Cmd, argv)
		if refused(t, err, !utf8.ValidString(s) || strings.ContainsAny(s, "\r\n")) {
			return
		}
		program, rest, err := cmdC(withoutTerminal(line))
		wantArgv(t, "cmd.exe", line, programAndArgs(program+rest), argv, err)

		argv[0] = "echo"
		if line, err = CommandLine(Cmd, argv); err != nil {
			t.Fatal(err)
		}
		program, rest, err = cmdC(withoutTerminal(line))
		wantArgv(t, "echo", line, []string{program, rest}, []string{"echo", " " + strings.Join(argv[1:], " ")}, err)
	})
}

// FuzzCmdProgram is about the name of the program.
func FuzzCmdProgram(f *testing.F) {
	for _, argv := range hard {
		for _, arg := range argv {
			f.Add(arg)
		}
	}
	f.Fuzz(func(t *testing.T, name string) {
		line, err := CommandLine(Cmd, []string{name})
		if refused(t, err, name == "" || !utf8.ValidString(name) || strings.ContainsAny(name, "\x00\r\n\"")) {
			return
		}
		program, rest, err := cmdC(withoutTerminal(line))
		wantArgv(t, "cmd.exe", line, append(programAndArgs(program), strings.Fields(rest)...), []string{name}, err)
	})
}

func FuzzCmdTerminal(f *testing.F) {
	seed(f)
	f.Fuzz(func(t *testing.T, s string) {
		argv := arguments(s)
		if strings.Contains(s, "\x02") { // so that not all of them need quotes
			argv[0] = "program"
		}
		line, err := TerminalCommandLine(Cmd, argv)
		if refused(t, err, !utf8.ValidString(s) || strings.ContainsAny(s, "\r\n")) {
			return
		}
		for version, conhost := range conhosts {
			program, rest, err := cmdC(onTerminal(conhost, cmdExe, "/c", line))
			got := programAndArgs(program + rest)
			if i := len(got) - 1; err == nil && got[0] == "powershell.exe" && got[i-1] == "-EncodedCommand" {
				got, err = windowsPowerShell.run(decodeUTF16(t, got[i]))
			}
			wantArgv(t, "cmd.exe on a terminal of "+version, line, got, argv, err)
		}
	})
}

func FuzzPowerShell(f *testing.F) {
	seed(f)
	f.Fuzz(func(t *testing.T, s string) {
		for _, tt := range []struct {
			shell   Shell
			version powerShell
		}{{PowerShell, windowsPowerShell}, {PowerShell, patchedPowerShell}, {PowerShellCore, powerShell7}} {
			argv := arguments(s)
			line, err := CommandLine(tt.shell, argv)
			if refused(t, err, !utf8.ValidString(s)) {
				continue
			}
			// A space in the path of the shell itself is too much for the older conhost, whatever the line.
			const path = `C:\PowerShell\7\pwsh.exe`
			got, err := tt.version.run(script(t, viaServer(path, line)))
			wantArgv(t, tt.version.name, line, got, argv, err)

			if line, err = TerminalCommandLine(tt.shell, argv); err != nil {
				refused(t, err, false)
				continue
			}
			for version, conhost := range conhosts {
				got, err := tt.version.run(script(t, onTerminal(conhost, path, "-c", line)))
				wantArgv(t, tt.version.name+" on a terminal of "+version, line, got, argv, err)
			}
		}
	})
}

func FuzzPOSIX(f *testing.F) {
	seed(f)
	f.Fuzz(func(t *testing.T, s string) {
		argv := arguments(s)
		line, err := CommandLine(POSIX, argv)
		if refused(t, err, false) {
			return
		}
		got, err := posixArgv(line)
		wantArgv(t, "sh", line, got, argv, err)
	})
}

// refused reports whether there is no line. That must have a reason: the one that is given, the
// length, or the one kind of argument that Windows PowerShell splits.
func refused(t *testing.T, err error, reason bool) bool {
	t.Helper()
	switch {
	case err == nil && reason:
		t.Fatal("it was not refused")
	case err != nil && !reason && !errors.Is(err, errSplitByPowerShell) && !strings.Contains(err.Error(), "too long"):
		t.Fatalf("it was refused: %v", err)
	}
	return err != nil
}
