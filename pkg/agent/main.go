// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package agent

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
	"github.com/openshift/windows-instance-api/pkg/agent/logs"
)

// Release is the version that the agent reports for people. The build sets it:
//
//	go build -ldflags '-X github.com/openshift/windows-instance-api/pkg/agent.Release=v1.2.3'
var Release = "v0.0.0-unreleased"

// streams are those of the process.
type streams struct {
	in       io.Reader
	out, err io.Writer
}

// command is a sub-command.
type command struct {
	name, usage string
	run         func(ctx context.Context, host Host, s streams) error
}

// commands are the sub-commands. Package api says what each takes and answers.
var commands = []command{
	{api.CommandVersion, "says which agent this is", func(_ context.Context, host Host, s streams) error { return writeJSON(s.out, versionOf(host)) }},
	{api.CommandFacts, "says what the host is and does", factsCommand},
	{api.CommandInspect, "says it with details: certificates, recent errors, networks", inspectCommand},
	{api.CommandLogs, "prints a log", func(ctx context.Context, host Host, s streams) error { return logs.Serve(ctx, host, s.in, s.out) }},
	{api.CommandBoot, "says which boot this is", withoutInput(bootCommand)},
	{api.CommandRestart, "restarts Windows, if this is the boot of the request", withInput(restartCommand)},
	{api.CommandRoutes, "adds routes", withInput(routesCommand)},
	{api.CommandAuthorize, "authorizes a key in place of former ones", func(_ context.Context, host Host, s streams) error { return authorizeCommand(host, s.in, s.out) }},
	{api.CommandReach, "says whether the API server answers this host", func(ctx context.Context, _ Host, s streams) error { return reachCommand(ctx, s.in, s.out) }},
	{api.CommandFiles, "says which files exist", withInput(filesCommand)},
	{api.CommandCommit, "moves a file that was sent to its path", withInput(commitCommand)},
	{api.CommandPlan, "says what apply would do", withInput(planCommand)},
	{api.CommandPlanAdoption, "says what apply would do after adopt", withInput(planAdoptionCommand)},
	{api.CommandApply, "configures the host", withInput(applyCommand)},
	{api.CommandAdopt, "takes the host over from WMCO, as it is", withInput(adoptCommand)},
	{api.CommandRelease, "gives the host back to WMCO, as it is", withInput(releaseCommand)},
	{api.CommandRestartServices, "restarts the services of the applied configuration", withoutInput(restartServicesCommand)},
	{api.CommandCleanup, "removes what apply has created", withoutInput(cleanupCommand)},
	{api.CommandUpdates, "asks the service for updates of Windows", func(_ context.Context, host Host, s streams) error { return updatesCommand(host, s.in, s.out) }},
	{api.CommandRun, "is the service", func(ctx context.Context, host Host, s streams) error { return runCommand(ctx, host, s.err) }},
}

func withInput(run func(context.Context, Host, io.Reader, io.Writer) error) func(context.Context, Host, streams) error {
	return func(ctx context.Context, host Host, s streams) error { return run(ctx, host, s.in, s.out) }
}

func withoutInput(run func(context.Context, Host, io.Writer) error) func(context.Context, Host, streams) error {
	return func(ctx context.Context, host Host, s streams) error { return run(ctx, host, s.out) }
}

// Main runs the agent: args are the command line without the program's name.
// It returns the exit code of the process, one of the Exit constants.
//
// The end of ctx ends it promptly, without finishing what it was printing. One
// goroutine may outlive Main: the one that reads stdin during a follow, which
// ends with stdin, or with the process.
func Main(ctx context.Context, host Host, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	if len(args) != 1 {
		return usage(stderr, fmt.Sprintf("want exactly one sub-command, got %d arguments", len(args)))
	}
	i := slices.IndexFunc(commands, func(c command) bool { return c.name == args[0] })
	if i < 0 {
		return usage(stderr, fmt.Sprintf("unknown sub-command %q", args[0]))
	}
	if err := commands[i].run(ctx, host, streams{stdin, stdout, stderr}); err != nil {
		fmt.Fprintf(stderr, "windows-node-agent %s: %v\n", args[0], err) //nolint:errcheck // there is no other place to report it
		return api.ExitFailed
	}
	return api.ExitOK
}

func usage(stderr io.Writer, problem string) int {
	var text strings.Builder
	fmt.Fprintf(&text, "windows-node-agent: %s\nusage: windows-node-agent SUB-COMMAND\n", problem)
	for _, c := range commands {
		fmt.Fprintf(&text, "  %-16s  %s\n", c.name, c.usage)
	}
	io.WriteString(stderr, text.String()) //nolint:errcheck // there is no other place to report it
	return api.ExitUsage
}

func factsCommand(ctx context.Context, host Host, s streams) error {
	facts := host.Facts(ctx)
	facts.Agent = identityOf(host)
	return answerFacts(ctx, host, s.out, facts)
}

func inspectCommand(ctx context.Context, host Host, s streams) error {
	facts := host.Facts(ctx)
	host.Details(ctx, facts)
	collectRecentErrors(ctx, host, facts)
	facts.Agent = versionOf(host)
	return answerFacts(ctx, host, s.out, facts)
}

func writeJSON(w io.Writer, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encoding the answer: %w", err)
	}
	if _, err := w.Write(append(b, '\n')); err != nil {
		return fmt.Errorf("writing the answer: %w", err)
	}
	return nil
}

func answerFacts(ctx context.Context, host Host, stdout io.Writer, facts *api.Facts) error {
	collectConfiguration(ctx, host, facts)
	facts.Time.Answered = host.Now()
	return writeJSON(stdout, facts)
}

// identityOf is versionOf without the digest, for what is asked often: to read and to digest the program was half of what the
// answer cost.
func identityOf(host Host) api.Version {
	return api.Version{Protocol: api.ProtocolVersion, Version: Release, OS: runtime.GOOS, Arch: runtime.GOARCH, MachineID: host.MachineID()}
}

func versionOf(host Host) api.Version {
	v := identityOf(host)
	// The digest is for comparing with what was uploaded. An agent that cannot
	// read itself still answers; the empty digest will not compare as equal.
	if sum, err := digestOf(host); err == nil {
		v.SHA256 = sum
	}
	return v
}

func digestOf(host Host) (string, error) {
	path, err := host.Executable()
	if err != nil {
		return "", fmt.Errorf("finding the executable: %w", err)
	}
	f, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("opening the executable: %w", err)
	}
	defer f.Close()
	return hexDigest(f)
}

// hexDigest returns the SHA-256 of a content in hexadecimal digits.
func hexDigest(content io.Reader) (string, error) {
	h := sha256.New()
	if _, err := io.Copy(h, content); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
