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

// Sub-commands of the agent.
const (
	CommandVersion = "version"
	CommandFacts   = "facts"
	CommandInspect = "inspect"
	CommandLogs    = "logs"
	CommandBoot    = "boot"
	CommandRestart = "restart"
	CommandRoutes  = "routes"
	// CommandAuthorize takes an [AuthorizeRequest] and answers an [AuthorizeAnswer].
	CommandAuthorize = "authorize"
	// CommandReach takes a [ReachRequest] and answers a [ReachAnswer].
	CommandReach = "reach"
	// CommandFiles takes a [FilesRequest] and answers a [FilesAnswer].
	CommandFiles = "files"
	// CommandCommit takes a [CommitRequest] and answers a [CommitAnswer].
	CommandCommit = "commit"
	// CommandPlan takes a [config.Bundle] and answers a [Plan].
	CommandPlan = "plan"
	// CommandPlanAdoption takes an [AdoptRequest] and answers an [AdoptionPlan].
	CommandPlanAdoption = "plan-adoption"
	// CommandApply takes an [ApplyRequest] and answers [Progress].
	CommandApply = "apply"
	// CommandAdopt takes an [AdoptRequest] and answers [Progress].
	CommandAdopt = "adopt"
	// CommandRelease takes a [ReleaseRequest] and answers [Progress].
	CommandRelease = "release"
	// CommandRestartServices takes nothing and answers [Progress].
	CommandRestartServices = "restart-services"
	// CommandCleanup takes nothing and answers [Progress].
	CommandCleanup = "cleanup"
	// CommandUpdates takes an [UpdatesRequest] and answers an [UpdatesAnswer].
	CommandUpdates = "updates"
	// CommandRun is the service; it answers nothing and ends with its context.
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
