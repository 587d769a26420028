// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package shell

import (
	"errors"
	"os/exec"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestDetect(t *testing.T) {
	tests := []struct {
		name   string
		output string
		want   Shell
	}{
		{"cmd.exe", "Windows_NT$env:OS$PSNativeCommandArgumentPassing\r\n", Cmd},
		{"Windows PowerShell", "%OS%Windows_NT\r\n", PowerShell},
		{"PowerShell 7.3", "%OS%Windows_NTWindows\r\n", PowerShellCore},
		{"PowerShell 7.3 with a profile that changes it", "%OS%Windows_NTLegacy\n", PowerShellCore},
		{"sh", "%OS%:OS\n", POSIX},
		{"behind a greeting", "Welcome!\r\n\r\n%OS%Windows_NT\r\n\r\n", PowerShell},
		{"nothing", "", ""},
		{"PowerShell on Linux", "%OS%Standard\n", ""},
		{"something else", "%OS%$env:OS$PSNativeCommandArgumentPassing\n", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := Detect(tt.output)
			if got != tt.want || (err == nil) != (tt.want != "") {
				t.Errorf("got %q, %v; want %q", got, err, tt.want)
			}
		})
	}
}

// TestProbe runs the probe through the models and the sh of this machine.
func TestProbe(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "sh", "-c", Probe()).Output()
	if err != nil {
		t.Fatal(err)
	}
	if got, err := Detect(string(out)); got != POSIX {
		t.Errorf("sh: %q, %v", got, err)
	}
	if !keepsOnTerminal(Probe()) {
		t.Error("the probe is changed on the way to the shell of a terminal")
	}
	if got, err := Detect(strings.TrimPrefix(strings.ReplaceAll(Probe(), "%OS%", "Windows_NT"), "echo ")); got != Cmd {
		t.Errorf("cmd.exe: %q, %v", got, err)
	}
}

func TestCommandLine(t *testing.T) {
	const ps, end = "$LASTEXITCODE=$null;& ", ";$s=$?;if($null -ne $LASTEXITCODE){exit $LASTEXITCODE};if($s){exit 0};exit 1"
	tests := []struct {
		name  string
		shell Shell
		argv  []string
		want  string
	}{
		{"program", Cmd, []string{"hostname"}, "@hostname"},
		{"built in", Cmd, []string{"dir", "/b", `C:\Program Files`}, `@dir /b ^"C:\Program Files^"`},
		{"echo prints what it gets", Cmd, []string{"echo", "hello  world", "&", "%OS%"}, `@echo hello  world ^& %%cd:~,%OS%%cd:~,%`},
		{"program with a space", Cmd, []string{`C:\Program Files\a.exe`, "b"}, `@"C:\Program Files\a.exe" b`},
		{"quotes", Cmd, []string{"a", `say "hi" & go`}, `@a ^"say \^"hi\^" ^& go^"`},
		{"empty argument", Cmd, []string{"a", "", "b"}, `@a ^"^" b`},
		{"backslashes", Cmd, []string{"a", `C:\`, `C:\a b\`}, `@a C:\ ^"C:\a b\\^"`},
		{"percent", Cmd, []string{"a", "100%"}, `@a 100%%cd:~,%`},

		{"program", PowerShell, []string{"hostname"}, ps + "'hostname'" + end},
		{"cmdlet", PowerShell, []string{"Get-ChildItem", "-Path", `C:\Program Files`}, ps + `'Get-ChildItem' -Path 'C:\Program Files'` + end},
		{"single quotes", PowerShell, []string{"a", "it's ‘so’"}, ps + "'a' 'it''s ‘‘so’’'" + end},
		{"quotes", PowerShell, []string{"a", `say "hi"`}, ps + `'a' ('{0}say \{0}hi\{0}{0}'-f[char]34)` + end},
		{"quotes that PowerShell adds", PowerShell, []string{"a", `b "c d" "e f"`}, ps + `'a' ('b \{0}c d\{0} \{0}e f\{0}'-f[char]34)` + end},
		{"empty argument", PowerShell, []string{"a", ""}, ps + `'a' ('{0}{0}'-f[char]34)` + end},
		{"spaces and a line break", PowerShell, []string{"a", "b  {c}\n"}, ps + `'a' ('b {0}{{c}}{1}'-f[char]32,[char]10)` + end},
		{"no variable", PowerShell, []string{"$env:PATH", "$(calc)", "`"}, ps + "'$env:PATH' '$(calc)' '`'" + end},
		{"newer", PowerShellCore, []string{"a", `b"c d`}, "$PSNativeCommandArgumentPassing='Legacy';" + ps + `'a' ('{0}b\{0}c d{0}'-f[char]34)` + end},

		{"quotes", POSIX, []string{"echo", "it's", "$HOME", ""}, `'echo' 'it'\''s' '$HOME' ''`},
	}
	for _, tt := range tests {
		t.Run(string(tt.shell)+" "+tt.name, func(t *testing.T) {
			got, err := CommandLine(tt.shell, tt.argv)
			if err != nil {
				t.Fatal(err)
			}
			if got != tt.want {
				t.Errorf("got\n%s\nwant\n%s", got, tt.want)
			}
		})
	}
}

func TestNotExpressible(t *testing.T) {
	long := func(n int) []string { return []string{"a", strings.Repeat("x", n)} }
	tests := []struct {
		name     string
		shell    Shell
		terminal bool
		argv     []string
		index    int // of the argument; -1: not one alone
		says     string
	}{
		{"nothing", Cmd, false, nil, -1, "no program"},
		{"no program", POSIX, false, []string{""}, -1, "no program"},
		{"no shell", "fish", false, []string{"a"}, -1, "not a known shell"},
		{"NUL", POSIX, false, []string{"a", "b\x00"}, 1, "NUL"},
		{"NUL", PowerShell, false, []string{"a\x00"}, 0, "NUL"},
		{"no UTF-8", Cmd, false, []string{"a", "\xff"}, 1, "standard input"},
		{"line feed", Cmd, false, []string{"a", "b", "c\nd"}, 2, "line break"},
		{"carriage return", Cmd, true, []string{"a", "\r"}, 1, "line break"},
		{"a quote in the program", Cmd, false, []string{`a"b`}, 0, "double quote"},
		{"too long", Cmd, false, long(8200), -1, "standard input"},
		{"too long when quoted", Cmd, false, []string{"a", strings.Repeat("%", 1100)}, -1, "8156 are possible"},
		{"too long", PowerShell, false, long(33000), -1, "too long"},
		{"too long for a terminal", PowerShell, true, long(8000), -1, "too long"},
		{"too long for a terminal when encoded", Cmd, true, []string{"a", strings.Repeat("x ", 1500)}, -1, "too long"},
		{"too long", POSIX, false, long(131072), -1, "131071 are possible"},
		{"split by PowerShell", PowerShell, false, []string{"a", `3" of rain`}, 1, "PowerShell 7"},
		{"built in on a terminal", Cmd, true, []string{"DIR", "a b"}, 0, "without a terminal"},
	}
	for _, tt := range tests {
		t.Run(string(tt.shell)+" "+tt.name, func(t *testing.T) {
			line := CommandLine
			if tt.terminal {
				line = TerminalCommandLine
			}
			got, err := line(tt.shell, tt.argv)
			if err == nil {
				t.Fatalf("got %q", got)
			}
			if !strings.Contains(err.Error(), tt.says) {
				t.Errorf("%q does not say %q", err, tt.says)
			}
			var argument *ArgumentError
			if index := tt.index; errors.As(err, &argument) != (index >= 0) || index >= 0 && argument.Index != index {
				t.Errorf("got %#v, want argument %d", err, index)
			}
		})
	}
}

// TestLongest proves that the longest line still fits where it has to.
func TestLongest(t *testing.T) {
	longest := func(s Shell, build func(Shell, []string) (string, error)) string {
		t.Helper()
		var line string
		for low, high := 1, 200000; low < high; {
			middle := (low + high + 1) / 2
			if l, err := build(s, []string{"a", strings.Repeat("é", middle)}); err == nil {
				line, low = l, middle
			} else {
				high = middle - 1
			}
		}
		return line
	}
	conhost := `C:\Windows\system32\conhost.exe --headless --width 65535 --height 65535 --signal 0xffffffff -- `
	pwsh := `C:\Program Files\WindowsApps\Microsoft.PowerShell_7.4.6.0_x64__8wekyb3d8bbwe\pwsh.exe`
	for _, tt := range []struct {
		name  string
		got   string
		limit int
	}{
		{"cmd.exe", withoutTerminal(longest(Cmd, CommandLine)), 8191},
		{"cmd.exe on a terminal", conhost + `"` + cmdExe + `" /c ` + longest(Cmd, TerminalCommandLine), 8190},
		{"PowerShell", viaServer(pwsh, longest(PowerShell, CommandLine)), 32766},
		{"PowerShell on a terminal", conhost + `"` + pwsh + `" -c ` + longest(PowerShell, TerminalCommandLine), 8190},
	} {
		if n := units(tt.got); n > tt.limit || n < tt.limit-500 {
			t.Errorf("%s: the longest has %d, want at most %d and little less", tt.name, n, tt.limit)
		}
	}
}

// TestSh runs lines with the real one.
func TestSh(t *testing.T) {
	for _, argv := range hard {
		line, err := CommandLine(POSIX, append([]string{"printf", `%s\0`}, argv...))
		if err != nil {
			t.Fatal(err)
		}
		out, err := exec.CommandContext(t.Context(), "sh", "-c", line).Output()
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(strings.Join(argv, "\x00")+"\x00", string(out)); d != "" {
			t.Error(d)
		}
	}
}

// hard are arguments that something on the way would like to change.
var hard = [][]string{
	{"a", "b c", ""},
	{`C:\Program Files\a.exe`, `C:\`, `C:\a b\`, `\\server\share\`, `\\`},
	{`"`, `""`, `"""`, `\"`, `\\"`, `a"b`, `a"b c`, `a "b c" d`, `"a b"`, `x\" & calc & "`},
	{"%PATH%", "%", "%%", "%OS", "100%", "%a%b%", `"%PATH%"`, "%=C:%", "%cd:~,%", "%cd%", "^%PATH^%"},
	{"&", "a&b", "|", "<nul", ">nul", "^", "^^", "a^", "(", ")", "!PATH!", "@", ";", ",", "=", "'", "`"},
	{"$env:PATH", "$(calc)", "${x}", "@(1)", "--%", "--", "-", "-Path", "-a:b", "-a.b", "/c", "~", "~/x", "*", "?"},
	{"‘", "’", "‚", "‛", "“", "it's", "''", "{0}", "{", "}", "{{a}} b"},
	{"a  b", "   ", "\t", " a ", "\u00a0", "\u3000", "grüße", "😀", "\x01\x7f\u0085\u2028"},
}
