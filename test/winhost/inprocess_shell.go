// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package winhost

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"unicode/utf16"
)

// shell is an interactive default shell: it prompts, reads lines, and runs each.
func (h *inProcessHost) shell(ctx context.Context, c CommandLine, terminal *console) uint32 {
	prompt := `C:\Users\` + h.user + ">"
	if h.opts.PowerShell {
		prompt = `PS ` + prompt + " "
	}
	_, _ = io.WriteString(c.Stdout, "Microsoft Windows [Version "+windowsVersion+"]\r\n(c) Microsoft Corporation. All rights reserved.\r\n\r\n")
	if terminal != nil {
		terminal.onInterrupt(func() {}) // at the prompt
	}
	// A command reads what the shell has left, so there must not be two buffers.
	input := bufio.NewReader(c.Stdin)
	c.Stdin = input
	for code := uint32(0); ; {
		_, _ = io.WriteString(c.Stdout, prompt)
		line, err := input.ReadString('\n')
		line = strings.TrimRight(line, "\r\n")
		if name, rest := splitProgram(line); strings.EqualFold(name, "exit") {
			if n, err := strconv.ParseInt(rest, 10, 64); err == nil {
				code = uint32(n)
			}
			return code
		}
		if strings.TrimSpace(line) != "" {
			command := c
			command.Line = line
			code = h.interruptible(ctx, command, terminal)
		}
		if err != nil {
			return code
		}
	}
}

// interruptible runs a line that Ctrl-C ends; the shell goes on.
func (h *inProcessHost) interruptible(ctx context.Context, c CommandLine, terminal *console) uint32 {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if terminal != nil {
		before := terminal.onInterrupt(cancel)
		defer func() { terminal.onInterrupt(before) }()
	}
	return h.runLine(ctx, c)
}

// console is a terminal's line discipline: it echoes, hands out whole lines, and knows Ctrl-C and backspace.
// What is typed ahead is kept, however much.
type console struct {
	// writing is held while out is written to, which a channel of SSH has to be by one at a time. Programs write without mu.
	writing sync.Mutex
	out     io.Writer

	mu        sync.Mutex // guards what follows
	changed   *sync.Cond
	line      []byte // being typed
	ready     []byte
	ended     bool
	interrupt context.CancelFunc
}

// newConsole reads in until it ends, which it does with the session.
func newConsole(in io.Reader, out io.Writer, interrupt context.CancelFunc) *console {
	t := &console{out: out, interrupt: interrupt}
	t.changed = sync.NewCond(&t.mu)
	go func() {
		defer t.end()
		keys := make([]byte, 4<<10)
		for {
			n, err := in.Read(keys)
			for _, key := range keys[:n] {
				t.key(key)
			}
			if err != nil {
				return
			}
		}
	}()
	return t
}

func (t *console) key(key byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ended {
		return // nobody may write once the session is being closed
	}
	var echo string
	switch key {
	case 3:
		echo = "^C\r\n"
		t.line = nil
		t.interrupt()
	case '\r', '\n':
		echo = "\r\n"
		t.ready = append(append(t.ready, t.line...), '\n')
		t.line = nil
		t.changed.Broadcast()
	case '\b', 0x7f:
		if len(t.line) > 0 {
			echo = "\b \b"
			t.line = t.line[:len(t.line)-1]
		}
	default:
		echo = string([]byte{key})
		t.line = append(t.line, key)
	}
	_, _ = t.Write([]byte(echo)) // whoever left sees no echo
}

// onInterrupt sets what Ctrl-C does, and returns what it did.
func (t *console) onInterrupt(f context.CancelFunc) context.CancelFunc {
	t.mu.Lock()
	defer t.mu.Unlock()
	before := t.interrupt
	t.interrupt = f
	return before
}

// end is the end of the input, and of the echo.
func (t *console) end() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ended = true
	t.changed.Broadcast()
}

// Read implements [io.Reader].
func (t *console) Read(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for len(t.ready) == 0 {
		if t.ended {
			return 0, io.EOF
		}
		t.changed.Wait()
	}
	n := copy(p, t.ready)
	t.ready = t.ready[n:]
	return n, nil
}

// Write implements [io.Writer]. A terminal that nobody reads holds up its program, and keys at their echo.
func (t *console) Write(p []byte) (int, error) {
	t.writing.Lock()
	defer t.writing.Unlock()
	return t.out.Write(p)
}

// env are the variables of the host that command lines may use.
func (h *inProcessHost) env(name string) (string, bool) {
	switch strings.ToUpper(name) {
	case "OS":
		return "Windows_NT", true
	case "COMPUTERNAME":
		name, _ := h.hostname()
		return strings.ToUpper(name), true
	case "CD":
		return `C:\Users\` + h.user, true
	}
	return "", false
}

// cmdVariable matches a variable of cmd.exe, also the part of it that is nothing.
var cmdVariable = regexp.MustCompile(`%([^%:=]+)(:~,)?%`)

// readCmd does to a line what cmd.exe does before it runs a command: variables, quotes and carets. Of what
// is special outside of quotes nothing else is done; it stays.
func readCmd(line string, env func(string) (string, bool)) string {
	line = cmdVariable.ReplaceAllStringFunc(strings.TrimPrefix(line, "@"), func(text string) string {
		match := cmdVariable.FindStringSubmatch(text)
		value, known := env(match[1])
		switch {
		case !known:
			return text
		case match[2] != "":
			return ""
		}
		return value
	})
	var b strings.Builder
	quoted := false
	for i := 0; i < len(line); i++ {
		switch {
		case line[i] == '"':
			quoted = !quoted
		case line[i] == '^' && !quoted && i+1 < len(line):
			i++
		}
		b.WriteByte(line[i])
	}
	return b.String()
}

// encodedCommand returns the script of a line of cmd.exe that starts PowerShell with one.
func encodedCommand(line string) (script string, is bool) {
	fields := strings.Fields(line)
	n := len(fields)
	if n < 3 || !strings.EqualFold(fields[0], "@powershell.exe") || fields[n-2] != "-EncodedCommand" {
		return "", false
	}
	b, err := base64.StdEncoding.DecodeString(fields[n-1])
	if err != nil {
		return "", false
	}
	var units []uint16
	for ; len(b) > 1; b = b[2:] {
		units = append(units, binary.LittleEndian.Uint16(b))
	}
	return string(utf16.Decode(units)), true
}

var (
	// psCall matches the lines of package shell.
	psCall = regexp.MustCompile(`^(?:\$\w+='Legacy';)?\$LASTEXITCODE=\$null;& (.*);\$s=\$\?;.*exit 1$`)
	// psValue matches a value in them: a string, with characters by number or without, or a parameter.
	psValue = regexp.MustCompile(`^(?:\('((?:[^']|'')*)'-f((?:\[char\][0-9]+,?)+)\)|'((?:[^']|'')*)'|(-[A-Za-z0-9]+))(?: |$)`)
)

// psQuotes undoes the doubling of what PowerShell takes for single quotes.
var psQuotes = strings.NewReplacer("''", "'", "‘‘", "‘", "’’", "’", "‚‚", "‚", "‛‛", "‛")

// readPowerShell makes a command line as Windows has it of the few forms of PowerShell that a stand-in knows: the
// lines of package shell, and plain words.
func readPowerShell(line string) (string, bool) {
	match := psCall.FindStringSubmatch(line)
	if match == nil {
		line = strings.NewReplacer("$env:OS", "Windows_NT", "$PSNativeCommandArgumentPassing", "").Replace(line)
		return line, !strings.ContainsAny(line, "'`$;")
	}
	var b strings.Builder
	for rest := match[1]; rest != ""; {
		v := psValue.FindStringSubmatch(rest)
		if v == nil {
			return "", false
		}
		rest = rest[len(v[0]):]
		text := psQuotes.Replace(v[1]+v[3]) + v[4]
		if v[2] != "" {
			characters := []string{"{{", "{", "}}", "}"}
			for i, number := range strings.Split(v[2], ",") {
				n, _ := strconv.Atoi(strings.TrimPrefix(number, "[char]"))
				characters = append(characters, fmt.Sprintf("{%d}", i), string(rune(n)))
			}
			text = strings.NewReplacer(characters...).Replace(text)
		}
		if b.Len() > 0 {
			b.WriteByte(' ')
		}
		if spaceOutsideQuotes(text) {
			text = `"` + text + `"`
		}
		b.WriteString(text)
	}
	return b.String(), true
}

// spaceOutsideQuotes reports whether Windows PowerShell puts quotes around an argument.
func spaceOutsideQuotes(s string) bool {
	for i, part := range strings.Split(s, `"`) {
		if i%2 == 0 && strings.ContainsAny(part, " \t") {
			return true
		}
	}
	return false
}

// splitArgs splits as Windows programs do: a backslash escapes a quote, and is itself only special before one.
func splitArgs(s string) []string {
	var args []string
	var arg bytes.Buffer
	started, quoted := false, false
	for i := 0; i < len(s); i++ {
		c := s[i]
		if (c == ' ' || c == '\t') && !quoted {
			if started {
				args = append(args, arg.String())
			}
			arg.Reset()
			started = false
			continue
		}
		started = true
		backslashes := 0
		for i < len(s) && s[i] == '\\' {
			backslashes++
			i++
		}
		switch {
		case i == len(s) || s[i] != '"':
			arg.WriteString(strings.Repeat(`\`, backslashes))
			if backslashes > 0 {
				i--
			} else {
				arg.WriteByte(c)
			}
		case backslashes%2 == 1:
			arg.WriteString(strings.Repeat(`\`, backslashes/2) + `"`)
		default:
			arg.WriteString(strings.Repeat(`\`, backslashes/2))
			quoted = !quoted
		}
	}
	if started {
		args = append(args, arg.String())
	}
	return args
}
