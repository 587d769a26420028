// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package rollout

import "github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"

// waitKind is what hosts wait for.
type waitKind string

const (
	waitsForPlan            waitKind = "Plan"
	waitsForRequest         waitKind = "Request"
	waitsForWindow          waitKind = "Window"
	waitsForCanary          waitKind = "Canary"
	waitsForBroken          waitKind = "Broken"
	waitsForFailed          waitKind = "Failed"
	waitsForPool            waitKind = "Pool"
	waitsForCluster         waitKind = "Cluster"
	waitsForFirst           waitKind = "First"
	waitsForServiceRestarts waitKind = "Restarts"
	waitsForFailedUpdates   waitKind = "FailedUpdates"
	waitsForDownload        waitKind = "Download"
	waitsForRenewals        waitKind = "Renewals"
	waitsForHealth          waitKind = "Health"
	waitsForExhausted       waitKind = "Exhausted"
	waitsForForgotten       waitKind = "Forgotten"
	waitsForUncordon        waitKind = "Uncordon"
	waitsForTime            waitKind = "Time"
	waitsForResume          waitKind = "Resume"
	waitsForPrograms        waitKind = "Programs"
	// waitsForConfirmation is for hosts of which nobody knows what they were to have.
	waitsForConfirmation waitKind = "Confirmation"
	// waitsForRepair is for hosts that are broken, and that nothing is tried on.
	waitsForRepair waitKind = "Repair"
	// The others are for hosts that the pool wants something of that cannot be begun, see [unfit].
	waitsForUnpause waitKind = "Unpause"
	waitsForLogin   waitKind = "Login"
	waitsForFitness waitKind = "Fitness"
	waitsForInputs  waitKind = "Inputs"
	// waitsForOperation is for hosts that are drained for long because a person has asked for that.
	waitsForOperation waitKind = "Operation"
	// waitsForDuplicate is for instances whose host is that of another one.
	waitsForDuplicate waitKind = "Duplicate"
	// waitsForTakeover is for hosts that are left to others, and waitsForPayload for those that are only watched as there is no payload.
	waitsForTakeover waitKind = "Takeover"
	waitsForPayload  waitKind = "Payload"
)

// waitTold is the reason and the text of a condition.
type waitTold struct{ reason, text string }

// waitKinds says of each kind of wait what conditions tell of it. What status.blockedBy does is in [reason.describe], as it is about hosts and bounds.
var waitKinds = map[waitKind]struct {
	// passes: it is over when it is the turn of the host. Else nobody knows when it is.
	passes bool
	// updating is the reason and the text of the condition Updating of a pool of which all hosts that are left wait for it, beside those of
	// [asides]. Empty: they wait for somebody or for a time.
	updating waitTold
	// upToDate is what the condition UpToDate of an instance tells, with [1] the pool, [2] the instance and [3] its namespace. Empty: nothing. All others
	// are over when it is the turn of the host, or their conditions say it anyway. None is about certain hosts or times: each is written once,
	// however many hosts come before, or how often a window opens.
	upToDate string
}{
	waitsForPlan: {
		passes:   true,
		updating: waitTold{v1alpha1.ReasonUpdateCostUnknown, "Hosts do not say what their update costs"},
	},
	waitsForRequest: {
		updating: waitTold{v1alpha1.ReasonUpdatesOnRequest, "Hosts are updated when somebody asks for it (spec.updateStrategy.type)"},
		upToDate: "It is updated when somebody asks for it (spec.updateStrategy.type of %[1]s): kubectl windows reconfigure %[2]s -n %[3]s",
	},
	waitsForWindow: {
		updating: waitTold{v1alpha1.ReasonWindowClosed, "Hosts wait for the window of the pool (spec.updateStrategy.window)"},
		upToDate: "It is updated when it gets a disruption slot in the window of %[1]s (spec.updateStrategy.window).",
	},
	waitsForCanary: {
		updating: waitTold{v1alpha1.ReasonCanariesUpdated, "As many hosts are updated as spec.updateStrategy.rollingUpdate.canary says, and the others wait until it is raised or removed"},
		upToDate: "As many hosts of %[1]s as spec.updateStrategy.rollingUpdate.canary says are updated first. It follows when that is raised or removed.",
	},
	waitsForBroken: {
		updating: waitTold{v1alpha1.ReasonHostsBroken, "An update or a restart broke hosts, and the others wait for that"},
		upToDate: "It is not updated while hosts of %[1]s are broken by an update or a restart.",
	},
	waitsForFailed: {
		updating: waitTold{v1alpha1.ReasonUpdatesStopped, "The update failed on hosts, and the others wait for that"},
		upToDate: "It is not updated because the update failed on others of %[1]s.",
	},
	waitsForPool: {
		passes:   true,
		updating: waitTold{v1alpha1.ReasonHostsOutOfService, "Hosts wait for others that are out of service (spec.updateStrategy.rollingUpdate.maxUnavailable)"},
	},
	waitsForCluster:         {passes: true},
	waitsForFirst:           {passes: true},
	waitsForServiceRestarts: {passes: true},
	waitsForFailedUpdates: {
		updating: waitTold{v1alpha1.ReasonUpdatesStopped, "Updates of Windows could not be installed on hosts, and the others wait for that"},
	},
	waitsForDownload:  {passes: true},
	waitsForRenewals:  {passes: true},
	waitsForHealth:    {},
	waitsForExhausted: {},
	waitsForForgotten: {},
	waitsForUncordon:  {},
	waitsForTime:      {},
	waitsForResume: {
		updating: waitTold{v1alpha1.ReasonRolledBack, "Hosts are kept from the revision of the pool, which was rolled back"},
		upToDate: "It is not updated because the revision of %[1]s was rolled back (status.rolledBack).",
	},
	waitsForPrograms: {},
	waitsForConfirmation: {
		updating: waitTold{v1alpha1.ReasonConfirmationNeeded, "Hosts wait until somebody confirms what they are to have"},
	},
	waitsForRepair: {
		updating: waitTold{v1alpha1.ReasonHostsBroken, "An update or a restart broke hosts"},
	},
	waitsForUnpause:   {},
	waitsForLogin:     {},
	waitsForFitness:   {},
	waitsForInputs:    {},
	waitsForOperation: {},
	waitsForDuplicate: {},
	waitsForTakeover:  {},
	waitsForPayload:   {},
}

// asides are what single hosts of a pool wait for, which does not keep the others. First come those that their pool does not update at all: what
// the others wait for is news to somebody who has paused a host. The later ones are said if only those are left.
var asides = []waitKind{waitsForUnpause, waitsForTakeover, waitsForDuplicate, waitsForPayload, waitsForTime, waitsForPlan}

// lasts says whether it is more than the turn of other hosts, so that nobody knows when it is over.
func (k waitKind) lasts() bool { return !waitKinds[k].passes }
