// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package winhost

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"regexp"
	"strconv"
	"strings"

	"github.com/openshift/windows-instance-api/pkg/agent"
)

// agentPath matches the agent where the product puts it, under its final name or one that
// it has while it is being put there.
var agentPath = regexp.MustCompile(`(?i)^C:\\Windows\\windows-node-agent\\[^\\]*\.exe$`)

// exec is what the SSH server runs command lines, and shells, with.
func (h *inProcessHost) exec(ctx context.Context, c CommandLine) uint32 {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var terminal *console
	if c.Terminal != nil {
		terminal = newConsole(c.Stdin, c.Stdout, cancel)
		c.Stdin, c.Stdout, c.Stderr = terminal, terminal, terminal
		defer terminal.end()
		// What reads its input ends with its session.
		stop := context.AfterFunc(ctx, terminal.end)
		defer stop()
	}
	if c.Line == "" {
		return h.shell(ctx, c, terminal)
	}
	return h.runLine(ctx, c)
}

// runLine runs one command line of the default shell.
func (h *inProcessHost) runLine(ctx context.Context, c CommandLine) uint32 {
	line, ok := c.Line, true
	if h.opts.PowerShell {
		line, ok = readPowerShell(line)
	} else if script, is := encodedCommand(line); is {
		line, ok = readPowerShell(script)
	} else {
		line = readCmd(line, h.env)
	}
	if !ok {
		_, _ = io.WriteString(c.Stderr, "this PowerShell reads no such line\r\n")
		return 1
	}
	program, rest := splitProgram(line)
	if agentPath.MatchString(program) {
		if code, exists := h.runAgent(ctx, program, strings.Fields(rest), c); exists {
			return code
		}
		return h.notFound(c.Stderr, program)
	}
	if code, exists := h.builtin(ctx, program, rest, c); exists {
		return code
	}
	if h.opts.Command != nil {
		if code, exists := h.opts.Command(ctx, c); exists {
			return code
		}
	}
	return h.notFound(c.Stderr, program)
}

// splitProgram takes the program, quoted or not, off a command line.
func splitProgram(line string) (program, rest string) {
	line = strings.TrimSpace(line)
	if quoted, ok := strings.CutPrefix(line, `"`); ok {
		program, rest, _ = strings.Cut(quoted, `"`)
	} else {
		program, rest, _ = strings.Cut(line, " ")
	}
	return program, strings.TrimSpace(rest)
}

// runAgent runs the agent's code in this process, if its file was uploaded.
func (h *inProcessHost) runAgent(ctx context.Context, program string, args []string, c CommandLine) (code uint32, exists bool) {
	local, err := h.LocalPath(program)
	if err != nil {
		return 0, false
	}
	st, err := os.Stat(local)
	if err != nil || !st.Mode().IsRegular() {
		return 0, false
	}
	if st.Size() == 0 {
		_, _ = io.WriteString(c.Stderr, "This version of "+program+" is not compatible with the version of Windows you're running.\r\n")
		return 1, true
	}
	unlock := h.lock(local)
	defer unlock()
	ctx, done, on := h.inBoot(ctx)
	if !on {
		return 1, true
	}
	defer done()
	return uint32(agent.Main(ctx, &agentHost{h, local}, args, c.Stdin, c.Stdout, c.Stderr)), true
}

// inBoot is a context that also ends with the present boot, which does not end before done
// was called. It reports false if the host is off.
func (h *inProcessHost) inBoot(ctx context.Context) (_ context.Context, done func(), on bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.on {
		return nil, nil, false
	}
	h.programs.Add(1)
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(h.bootContext, cancel)
	return ctx, func() {
		stop()
		cancel()
		h.programs.Done()
	}, true
}

// builtin runs the few commands that tests of exec and of connections need: those of Windows
// ver, hostname, echo, more, exit, mode con and ping -t (which runs until it is ended), and
//
//	args ...    prints its arguments, one per line, as a Windows program sees them
//	digest      prints the length and the SHA-256 digest of its standard input
//	flood N     writes N bytes to standard output, and flood N err to standard error
//	fail N ...  writes the rest to standard error and exits with N
func (h *inProcessHost) builtin(ctx context.Context, program, rest string, c CommandLine) (code uint32, exists bool) {
	var out string
	switch strings.ToLower(program) {
	case "ver":
		out = "\r\nMicrosoft Windows [Version " + windowsVersion + "]\r\n"
	case "hostname":
		name, _ := h.hostname()
		out = name + "\r\n"
	case "echo":
		out = rest + "\r\n"
	case "more": // prints its standard input
		_, _ = io.Copy(c.Stdout, c.Stdin)
	case "exit":
		n, _ := strconv.ParseInt(rest, 10, 64) // 0 like cmd.exe
		return uint32(n), true
	case "mode":
		out = modeCon(c)
	case "ping":
		_, _ = io.WriteString(c.Stdout, "Pinging 127.0.0.1 with 32 bytes of data:\r\n")
		<-ctx.Done()
		return exitInterrupted, true
	case "args":
		for _, arg := range splitArgs(rest) {
			out += arg + "\r\n"
		}
	case "digest":
		hash := sha256.New()
		n, _ := io.Copy(hash, c.Stdin) // a session that was closed has an end, too
		out = fmt.Sprintf("%d %x\r\n", n, hash.Sum(nil))
	case "flood":
		flood(c, rest)
	case "fail":
		number, text, _ := strings.Cut(rest, " ")
		n, _ := strconv.ParseInt(number, 10, 64)
		_, _ = io.WriteString(c.Stderr, text+"\r\n")
		return uint32(n), true
	default:
		return 0, false
	}
	_, _ = io.WriteString(c.Stdout, out)
	return 0, true
}

// exitInterrupted is STATUS_CONTROL_C_EXIT, with which Windows ends programs at Ctrl-C.
const exitInterrupted = 0xC000013A

// modeCon is the part of mode con that has the size of the terminal.
func modeCon(c CommandLine) string {
	if c.Terminal == nil {
		return "The device CON is not currently available.\r\n"
	}
	columns, rows := c.Terminal.Size()
	return fmt.Sprintf("\r\nStatus for device CON:\r\n----------------------\r\n    Lines:          %d\r\n    Columns:        %d\r\n", rows, columns)
}

func flood(c CommandLine, rest string) {
	number, stream, _ := strings.Cut(rest, " ")
	n, _ := strconv.Atoi(number)
	w := c.Stdout
	if stream == "err" {
		w = c.Stderr
	}
	block := bytes.Repeat([]byte("0123456789abcdef"), 2<<10)
	for n > 0 {
		if _, err := w.Write(block[:min(n, len(block))]); err != nil {
			return
		}
		n -= len(block)
	}
}

// notFound says what the default shell says of a program that does not exist.
func (h *inProcessHost) notFound(stderr io.Writer, program string) uint32 {
	if h.opts.PowerShell {
		_, _ = fmt.Fprintf(stderr, "%[1]s : The term '%[1]s' is not recognized as the name of a cmdlet, function, script file, or operable program.\r\n"+
			"    + CategoryInfo          : ObjectNotFound: (%[1]s:String) [], CommandNotFoundException\r\n"+
			"    + FullyQualifiedErrorId : CommandNotFoundException\r\n", program)
		return 1
	}
	_, _ = fmt.Fprintf(stderr, "'%s' is not recognized as an internal or external command,\r\noperable program or batch file.\r\n", program)
	return 1
}
