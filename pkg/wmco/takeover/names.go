// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package takeover

import "github.com/openshift/windows-instance-api/pkg/wmco"

// StartWMCO is what people run to have WMCO take on the hosts that were released to it. It compares the user data of Machines with its own when it
// starts, deletes all Machines if there is a difference, and makes the Secret if there is none.
const StartWMCO = "oc delete secret " + wmco.UserDataSecret + " -n " + wmco.MachineAPINamespace + " --ignore-not-found, as it would delete all Machines for the user data of this operator, and then " +
	"oc scale deployment " + wmco.Deployment + " -n " + wmco.Namespace + " --replicas=1, or install it if it is not there"

// Annotations of Nodes that only WMCO sets.
const (
	// UsernameAnnotation is the encrypted user of the host; see [DecryptUsername].
	UsernameAnnotation = "windowsmachineconfig.openshift.io/username"
	// HostKeyAnnotation is the SSH host key that the host presented first, in base64.
	HostKeyAnnotation = "windowsmachineconfig.openshift.io/ssh-host-key"
	// HostKeyTypeAnnotation is the type of that key, for example ssh-ed25519.
	HostKeyTypeAnnotation = "windowsmachineconfig.openshift.io/ssh-host-key-type"
)
