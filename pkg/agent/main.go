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
	"strings"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
	"github.com/openshift/windows-instance-api/pkg/agent/logs"
)

// Release is the version that the agent reports for people. The build sets it:
//
//	go build -ldflags '-X github.com/openshift/windows-instance-api/pkg/agent.Release=v1.2.3'
var Release = "v0.0.0-unreleased"

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
	var err error
	switch args[0] {
	case api.CommandVersion:
		err = writeJSON(stdout, versionOf(host))
	case api.CommandFacts:
		facts := host.Facts(ctx)
		facts.Agent = identityOf(host)
		err = answerFacts(ctx, host, stdout, facts)
	case api.CommandInspect:
		facts := host.Facts(ctx)
		host.Details(ctx, facts)
		collectRecentErrors(ctx, host, facts)
		facts.Agent = versionOf(host)
		err = answerFacts(ctx, host, stdout, facts)
	case api.CommandLogs:
		err = logs.Serve(ctx, host, stdin, stdout)
	case api.CommandBoot:
		err = bootCommand(ctx, host, stdout)
	case api.CommandRestart:
		err = restartCommand(ctx, host, stdin, stdout)
	case api.CommandRoutes:
		err = routesCommand(ctx, host, stdin, stdout)
	case api.CommandAuthorize:
		err = authorizeCommand(host, stdin, stdout)
	case api.CommandReach:
		err = reachCommand(ctx, stdin, stdout)
	case api.CommandFiles:
		err = filesCommand(ctx, host, stdin, stdout)
	case api.CommandCommit:
		err = commitCommand(ctx, host, stdin, stdout)
	case api.CommandPlan:
		err = planCommand(ctx, host, stdin, stdout)
	case api.CommandPlanAdoption:
		err = planAdoptionCommand(ctx, host, stdin, stdout)
	case api.CommandApply:
		err = applyCommand(ctx, host, stdin, stdout)
	case api.CommandAdopt:
		err = adoptCommand(ctx, host, stdin, stdout)
	case api.CommandRelease:
		err = releaseCommand(ctx, host, stdin, stdout)
	case api.CommandRestartServices:
		err = restartServicesCommand(ctx, host, stdout)
	case api.CommandCleanup:
		err = cleanupCommand(ctx, host, stdout)
	case api.CommandUpdates:
		err = updatesCommand(host, stdin, stdout)
	case api.CommandRun:
		err = runCommand(ctx, host, stderr)
	default:
		return usage(stderr, fmt.Sprintf("unknown sub-command %q", args[0]))
	}
	if err != nil {
		fmt.Fprintf(stderr, "windows-node-agent %s: %v\n", args[0], err) //nolint:errcheck // there is no other place to report it
		return api.ExitFailed
	}
	return api.ExitOK
}

func usage(stderr io.Writer, problem string) int {
	commands := []string{api.CommandVersion, api.CommandFacts, api.CommandInspect, api.CommandLogs, api.CommandBoot, api.CommandRestart, api.CommandRoutes, api.CommandAuthorize, api.CommandReach, api.CommandFiles, api.CommandCommit, api.CommandPlan, api.CommandPlanAdoption, api.CommandApply, api.CommandAdopt, api.CommandRelease, api.CommandRestartServices, api.CommandCleanup, api.CommandUpdates, api.CommandRun}
	fmt.Fprintf(stderr, "windows-node-agent: %s\nusage: windows-node-agent %s\n", problem, strings.Join(commands, "|")) //nolint:errcheck // there is no other place to report it
	return api.ExitUsage
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
