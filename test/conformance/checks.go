// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package conformance

import (
	"context"
	"errors"
	"time"
)

// Check proves one thing. Checks are done in order: each finds the host as those before it
// have left it.
type Check struct {
	Name string
	// Needs is the API that it is about, as in [MissingInWine]. Empty: Wine has what it needs.
	Needs string
	// Essential checks are what others build on. After a failure there is no sense in those.
	Essential bool
	// Timeout is how long it may take. 0: some minutes.
	Timeout time.Duration
	// Run says what is wrong, or nil. The error is [ErrNotAllowed], [ErrNotAsked] or [ErrNotThere] when it cannot be
	// tried.
	Run func(ctx context.Context, h *Host) error
}

// ErrNotThere says that the host lacks what a check is about, as hosts may.
var ErrNotThere = errors.New("the host does not have it")

// ErrNotAllowed says that a check would do to the host what is not allowed.
var ErrNotAllowed = errors.New("the host may not be restarted (-allow-restart)")

// ErrNotAsked says that a check would change Windows itself, which is done only when it is asked for.
var ErrNotAsked = errors.New("updates of Windows are not to be installed (-install-updates=Security, with -allow-restart)")

// Checks are all of them.
func Checks() []Check {
	return []Check{
		{Name: "the agent is what was sent", Essential: true, Run: sameAgent},
		{Name: "the tests of the agent that need Windows", Run: testsPass},
		{Name: "facts", Run: factsAreComplete},
		{Name: "networks for pods are listed", Needs: apiHNS, Run: hnsAnswers},
		{Name: "logs in files", Run: logsOfFiles},
		{Name: "logs in event channels", Needs: apiEvents, Run: logsOfEvents},
		{Name: "logs in analytic channels", Needs: apiEvents, Run: logsOfDirectChannel},
		{Name: "a boot has a name", Run: bootIsStable},
		{Name: "host name", Run: hostnameIsCompared},
		{Name: "state of a feature", Run: featureIsKnown},

		{Name: "configure", Essential: true, Run: configure},
		{Name: "configure again", Run: configureAgain},
		{Name: "files", Run: filesAreThere},
		{Name: "secrets are for administrators", Needs: apiPowerShell, Run: secretsAreProtected},
		{Name: "programs are for administrators to change", Needs: apiPowerShell, Run: programsAreProtected},
		{Name: "rights are read as they were written", Needs: apiSecurity, Run: rightsAreRepaired},
		{Name: "services run", Run: servicesRun},
		{Name: "descriptions of services", Run: servicesAreTagged},
		{Name: "dependencies of services in the registry", Run: dependenciesInRegistry},
		{Name: "dependencies of services", Needs: apiDependencies, Run: dependenciesAreTold},
		{Name: "recovery of services, in milliseconds", Needs: apiRecovery, Run: recoveryIsSet},
		{Name: "services that are killed come back", Needs: apiRecovery, Run: servicesRecover},
		{Name: "environment", Run: environmentIsSet},
		{Name: "certificate", Run: certificateIsTrusted},
		{Name: "antivirus exclusion", Run: exclusionIsSet},
		{Name: "antivirus exclusion, as Defender has it", Needs: apiPowerShell, Run: exclusionCounts},

		{Name: "reconfigure services", Run: reconfigure},
		{Name: "replace a program that runs", Run: replaceProgram},
		{Name: "what was replaced needs no restart", Run: replacedNeedsNoRestart},
		{Name: "what goes at the next boot is known", Run: removalIsKnown},
		{Name: "what somebody reads is replaced", Needs: apiPowerShell, Run: replaceWhatIsRead},
		{Name: "firewall rule", Run: openFirewall},
		{Name: "firewall rule, as netsh has it", Needs: apiNetsh, Run: firewallIsOpen},
		{Name: "what others change is seen", Run: driftIsSeen},
		{Name: "two at a time", Run: oneAtATime},
		{Name: "apply is killed in the middle", Run: killApply},
		{Name: "a shutdown of others is not taken for ours", Needs: apiShutdown, Run: othersShutDown},
		{Name: "restart", Run: restart},

		{Name: "the service puts right what others change", Run: driftIsRepaired},
		{Name: "updates of Windows are searched for", Needs: apiUpdates, Run: updatesAreFound},
		{Name: "updates of Windows are installed", Needs: apiUpdates, Timeout: updatesTimeout, Run: updatesAreInstalled},
		{Name: "drift is in the event log", Needs: apiEvents, Run: driftIsLogged},
		{Name: "logs that a program keeps open are rotated", Run: logIsRotated},

		{Name: "a file and a directory that administrators may not touch are made", Needs: apiSecurity, Run: protectFile},
		{Name: "clean up", Essential: true, Run: cleanUp},
		{Name: "nothing is left", Run: nothingIsLeft},
		{Name: "what was there before is there again", Run: restored},
	}
}
