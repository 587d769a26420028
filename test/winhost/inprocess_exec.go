// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package winhost

import (
	"context"
	"fmt"
	"io"
	"os"
	"regexp"
	"strconv"
	"strings"

	"github.com/openshift/windows-instance-api/pkg/hostagent"
)

// agentPath matches the agent where the product puts it, under its final name or one that
// it has while it is being put there.
var agentPath = regexp.MustCompile(`(?i)^C:\\Windows\\windows-node-agent\\[^\\]*\.exe$`)

// exec is what the SSH server runs command lines with.
func (h *inProcessHost) exec(ctx context.Context, c CommandLine) uint32 {
	program, rest := splitProgram(c.Line)
	if agentPath.MatchString(program) {
		if code, exists := h.runAgent(ctx, program, strings.Fields(rest), c); exists {
			return code
		}
		return h.notFound(c.Stderr, program)
	}
	if code, exists := h.builtin(program, rest, c); exists {
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
	return uint32(hostagent.Main(ctx, &agentHost{h, local}, args, c.Stdin, c.Stdout, c.Stderr)), true
}

// builtin runs the few commands that tests of exec and of connections need.
func (h *inProcessHost) builtin(program, rest string, c CommandLine) (code uint32, exists bool) {
	var out string
	switch strings.ToLower(program) {
	case "ver":
		out = "\r\nMicrosoft Windows [Version " + windowsVersion + "]\r\n"
	case "hostname":
		out = h.name + "\r\n"
	case "echo":
		out = rest + "\r\n"
	case "more": // prints its standard input
		_, _ = io.Copy(c.Stdout, c.Stdin)
	case "exit":
		n, _ := strconv.ParseInt(rest, 10, 64) // 0 like cmd.exe
		return uint32(n), true
	default:
		return 0, false
	}
	_, _ = io.WriteString(c.Stdout, out)
	return 0, true
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
