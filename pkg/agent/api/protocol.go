// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package api

// ProtocolVersion is the version of the protocol between the agent and its
// caller. It grows when an old caller could misread a new agent or the other
// way round; added optional fields do not change it.
const ProtocolVersion = 1

// ServiceName is the name of the service that runs the agent. A document has it like any
// other, with "run" as the only argument.
const ServiceName = "windows-node-agent"

// TranscriptName is the name of the log of "apply", in a directory [ServiceName] below that
// of all logs.
const TranscriptName = "apply.log"

// Sub-commands of the agent. Each takes one document of JSON on standard input, or nothing, and answers one on standard
// output, or lines of JSON where that is said.
const (
	// CommandVersion takes nothing and answers a [Version].
	CommandVersion = "version"
	// CommandFacts takes nothing and answers [Facts].
	CommandFacts = "facts"
	// CommandInspect takes nothing and answers [Facts] with details: certificates, recent errors, networks.
	CommandInspect = "inspect"
	// CommandLogs takes a line with a [LogRequest] and answers a line with a [LogHeader], and then the bytes of the log.
	CommandLogs = "logs"
	// CommandBoot takes nothing and answers [BootFacts].
	CommandBoot = "boot"
	// CommandRestart takes a [RestartRequest] and answers a [RestartAnswer]. Then the host restarts, if it still is in the boot
	// of the request.
	CommandRestart = "restart"
	// CommandRoutes takes a [RoutesRequest] and answers a [RoutesAnswer].
	CommandRoutes = "routes"
	// CommandAuthorize takes an [AuthorizeRequest] and answers an [AuthorizeAnswer].
	CommandAuthorize = "authorize"
	// CommandReach takes a [ReachRequest] and answers a [ReachAnswer].
	CommandReach = "reach"
	// CommandFiles takes a [FilesRequest] and answers a [FilesAnswer]: which files exist.
	CommandFiles = "files"
	// CommandCommit takes a [CommitRequest] and answers a [CommitAnswer]. It moves a file that was sent to its path, if it has
	// the size and digest of the request.
	CommandCommit = "commit"
	// CommandPlan takes a [config.Bundle] and answers a [Plan]: what apply would do.
	CommandPlan = "plan"
	// CommandPlanAdoption takes an [AdoptRequest] and answers an [AdoptionPlan]: what apply would do after adopt.
	CommandPlanAdoption = "plan-adoption"
	// CommandApply takes an [ApplyRequest] and answers lines of [Progress], which it also writes to [TranscriptName].
	CommandApply = "apply"
	// CommandAdopt takes an [AdoptRequest] and answers lines of [Progress].
	CommandAdopt = "adopt"
	// CommandRelease takes a [ReleaseRequest] and answers lines of [Progress].
	CommandRelease = "release"
	// CommandRestartServices takes nothing and answers lines of [Progress]. It restarts the services of the applied configuration.
	CommandRestartServices = "restart-services"
	// CommandCleanup takes nothing and answers lines of [Progress]. It removes what apply has created.
	CommandCleanup = "cleanup"
	// CommandUpdates takes an [UpdatesRequest], which it leaves for the service, and answers an [UpdatesAnswer].
	CommandUpdates = "updates"
	// CommandRun is the service, which keeps the host at its applied configuration, rotates logs, searches for updates of Windows
	// and installs those that are requested. It answers nothing and ends with its context.
	CommandRun = "run"
)

// StopLine is what a caller writes to standard input of "logs", as a line, to
// end a follow in good order. Closing standard input means the same.
const StopLine = "stop"

// Exit codes of the agent.
const (
	ExitOK     = 0 // the answer is complete
	ExitFailed = 1 // the answer is missing or was cut short; standard error says why
	ExitUsage  = 2 // unknown sub-command or arguments
)

// Version says which agent answers.
type Version struct {
	// Protocol is the protocol that the agent speaks, see [ProtocolVersion].
	Protocol int `json:"protocol"`
	// Version is the release of the agent, for people.
	Version string `json:"version"`
	// SHA256 is the digest of the agent's own executable in lower-case
	// hexadecimal; empty when the executable could not be read, and in the answer
	// to [CommandFacts], which is asked for often.
	SHA256 string `json:"sha256,omitempty"`
	// OS and Arch are Go's names of the platform: "windows", "amd64".
	OS   string `json:"os"`
	Arch string `json:"arch"`
	// MachineID tells the machine that the agent runs on from others: the UUID of its firmware, a
	// slash, and what its Windows installation is known by. A part that cannot be read is empty;
	// so is all of it if both are.
	MachineID string `json:"machineID,omitempty"`
}
