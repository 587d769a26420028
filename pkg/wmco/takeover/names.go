// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package takeover

// Annotations of Nodes that only WMCO sets.
const (
	// UsernameAnnotation is the encrypted user of the host; see [DecryptUsername].
	UsernameAnnotation = "windowsmachineconfig.openshift.io/username"
	// HostKeyAnnotation is the SSH host key that the host presented first, in base64.
	HostKeyAnnotation = "windowsmachineconfig.openshift.io/ssh-host-key"
	// HostKeyTypeAnnotation is the type of that key, for example ssh-ed25519.
	HostKeyTypeAnnotation = "windowsmachineconfig.openshift.io/ssh-host-key-type"
)
