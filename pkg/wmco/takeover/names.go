// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package takeover

import "github.com/openshift/windows-instance-api/pkg/wmco"

// StartWMCO says how WMCO comes to have the hosts that were released to it, and ends with the commands. It compares the user data of Machines with its own when it
// starts, deletes all Machines if there is a difference, and makes the Secret if there is none.
const StartWMCO = "WMCO deletes all Machines if it finds the user data of this operator, so that goes first; if WMCO is not installed, install it in the place of the second command: " +
	"oc delete secret " + wmco.UserDataSecret + " -n " + wmco.MachineAPINamespace + " --ignore-not-found && " +
	"oc scale deployment " + wmco.Deployment + " -n " + wmco.Namespace + " --replicas=1"

// Annotations of Nodes that only WMCO sets.
const (
	// UsernameAnnotation is the encrypted user of the host; see [DecryptUsername].
	UsernameAnnotation = "windowsmachineconfig.openshift.io/username"
	// HostKeyAnnotation is the SSH host key that the host presented first, in base64.
	HostKeyAnnotation = "windowsmachineconfig.openshift.io/ssh-host-key"
	// HostKeyTypeAnnotation is the type of that key, for example ssh-ed25519.
	HostKeyTypeAnnotation = "windowsmachineconfig.openshift.io/ssh-host-key-type"
)
