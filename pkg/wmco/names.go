// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package wmco

// Where the inputs of WMCO are.
const (
	// Namespace is where WMCO runs by default, and where its ConfigMaps and Secrets are.
	Namespace = "openshift-windows-machine-config-operator"
	// Deployment is what WMCO runs as.
	Deployment = "windows-machine-config-operator"
	// InstancesConfigMap is the ConfigMap that lists hosts that are not Machines: one
	// entry for each, key = address, value = username=<user>.
	InstancesConfigMap = "windows-instances"
	// HostKeysConfigMap is the ConfigMap with the SSH host keys that WMCO has met hosts with which are no Nodes yet: key = IPv4 address,
	// value = the key in base64. WMCO refuses a host that has another one.
	HostKeysConfigMap = "windows-ssh-host-keys"
	// PrivateKeySecret is the Secret with the key that opens every host.
	PrivateKeySecret = "cloud-private-key"
)

// Labels on Machines and on the templates of MachineSets.
const (
	// MachineOSLabel with the value MachineOSWindows marks a Machine that runs Windows.
	MachineOSLabel = "machine.openshift.io/os-id"
	// MachineOSWindows is the only value of MachineOSLabel with a meaning; case matters.
	MachineOSWindows = "Windows"
	// IgnoreLabel with exactly the value IgnoreValue on a Machine excludes it.
	IgnoreLabel = "windowsmachineconfig.openshift.io/ignore"
	// IgnoreValue is the only value of IgnoreLabel with a meaning.
	IgnoreValue = "true"
)

// Labels and annotations on Nodes.
const (
	// BYOHLabel marks the Node of a host that comes from InstancesConfigMap; its value is "true".
	BYOHLabel = "windowsmachineconfig.openshift.io/byoh"
	// UpgradingLabel is on a Node while WMCO upgrades it; its value is "true". WMCO counts such Nodes, and upgrades no more than one at a time.
	UpgradingLabel = "windowsmachineconfig.openshift.io/upgrading"
	// VersionAnnotation is the version that configured the Node completely.
	VersionAnnotation = "windowsmachineconfig.openshift.io/version"
	// DesiredVersionAnnotation is the version that the Node is to be configured by.
	DesiredVersionAnnotation = "windowsmachineconfig.openshift.io/desired-version"
	// PublicKeyHashAnnotation is the [PublicKeyHash] of the key that the host accepts. WMCO deletes the Machine of a Node that
	// has [VersionAnnotation] and the hash of another key than its own.
	PublicKeyHashAnnotation = "windowsmachineconfig.openshift.io/pub-key-hash"
	// RebootRequiredAnnotation asks for a drained restart of the host, whatever its value is; WMCO sets an empty one.
	RebootRequiredAnnotation = "windowsmachineconfig.openshift.io/reboot-required"
)

// Reasons of events that WMCO makes, on a Machine or on the ConfigMap of instances.
const (
	// MachineSetup and InstanceSetup say that a host was configured.
	MachineSetup  = "MachineSetup"
	InstanceSetup = "InstanceSetup"
	// MachineSetupFailure and InstanceSetupFailure say that it could not be. They are warnings.
	MachineSetupFailure  = "MachineSetupFailure"
	InstanceSetupFailure = "InstanceSetupFailure"
	// InstanceTeardown says that a host of the ConfigMap was cleaned.
	InstanceTeardown = "InstanceTeardown"
)

// User data of Machines.
const (
	// UserDataSecret is the Secret with the user data that MachineSets of Windows name.
	UserDataSecret = "windows-user-data"
	// UserDataKey is where it is in the Secret.
	UserDataKey = "userData"
	// BootstrapDataKey is where it is in the copy for Cluster API, too: its providers read no other key of the Secret that a Machine
	// names (spec.bootstrap.dataSecretName).
	BootstrapDataKey = "value"
	// MachineAPINamespace is where Machines, and the Secrets that they name, are.
	MachineAPINamespace = "openshift-machine-api"
	// ClusterAPINamespace is the same for Cluster API. Not every cluster has it.
	ClusterAPINamespace = "openshift-cluster-api"
)
