// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package wmco

// Where the inputs of WMCO are.
const (
	// Namespace is where WMCO runs by default, and where its ConfigMaps and Secrets are.
	Namespace = "openshift-windows-machine-config-operator"
	// InstancesConfigMap is the ConfigMap that lists hosts which are no Machines: one
	// entry for each, key = address, value = username=<user>.
	InstancesConfigMap = "windows-instances"
	// PrivateKeySecret is the Secret with the key that opens every host, below PrivateKeySecretKey.
	PrivateKeySecret = "cloud-private-key"
	// PrivateKeySecretKey is the key in PrivateKeySecret; its value is a PEM block.
	PrivateKeySecretKey = "private-key.pem"
)

// Labels on Machines and on the templates of MachineSets.
const (
	// MachineOSLabel with the value MachineOSWindows marks a Machine that runs Windows.
	MachineOSLabel = "machine.openshift.io/os-id"
	// MachineOSWindows is the one value of MachineOSLabel that counts; case matters.
	MachineOSWindows = "Windows"
	// IgnoreLabel with exactly the value IgnoreValue on a Machine says that it is left alone.
	IgnoreLabel = "windowsmachineconfig.openshift.io/ignore"
	// IgnoreValue is the one value of IgnoreLabel that counts.
	IgnoreValue = "true"
)

// Labels and annotations on Nodes.
const (
	// BYOHLabel marks the Node of a host that comes from InstancesConfigMap; its value is "true".
	BYOHLabel = "windowsmachineconfig.openshift.io/byoh"
	// UpgradingLabel is on a Node while it is upgraded; its value is "true".
	UpgradingLabel = "windowsmachineconfig.openshift.io/upgrading"
	// VersionAnnotation is the version that configured the Node completely.
	VersionAnnotation = "windowsmachineconfig.openshift.io/version"
	// DesiredVersionAnnotation is the version that the Node shall be configured by.
	DesiredVersionAnnotation = "windowsmachineconfig.openshift.io/desired-version"
	// RebootRequiredAnnotation asks for a drained reboot; its value is empty.
	RebootRequiredAnnotation = "windowsmachineconfig.openshift.io/reboot-required"
	// PublicKeyHashAnnotation is the PublicKeyHash of the key that the host lets in.
	PublicKeyHashAnnotation = "windowsmachineconfig.openshift.io/pub-key-hash"
	// UsernameAnnotation is the encrypted user of the host; see DecryptUsername.
	UsernameAnnotation = "windowsmachineconfig.openshift.io/username"
	// HostKeyAnnotation is the SSH host key that the host presented first, in base64.
	HostKeyAnnotation = "windowsmachineconfig.openshift.io/ssh-host-key"
	// HostKeyTypeAnnotation is the type of that key, for example ssh-ed25519.
	HostKeyTypeAnnotation = "windowsmachineconfig.openshift.io/ssh-host-key-type"
)
