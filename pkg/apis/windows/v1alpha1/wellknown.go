// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package v1alpha1

// What people and other programs may see of this project in the metadata of objects: who writes it, on which kind, and what
// happens if somebody removes it.

// Of WindowsInstances.
const (
	// MachineAnnotation is written by people and names the machine that the instance stands for from now on, as
	// status.machineID does: its host was moved to other hardware. Setting it needs the verb trust
	// on windowshostkeys with the name of the instance.
	MachineAnnotation = "windows.openshift.io/machine"
	// HostKeysAnnotation is written by windows-controller when it creates an instance. It has the host keys which an instance of the same host trusted that is
	// gone, as its status.hostKeys had them, in JSON. They are trusted from the first moment on, as
	// those of spec.hostKeys are, and recorded in place of the annotation. Later it means nothing.
	HostKeysAnnotation = "windows.openshift.io/host-keys"
	// HostFinalizer is written by windows-controller to every instance whose host has something of ours on it: the
	// object stays until the host is clean, or is abandoned, or its namespace is deleted.
	// Removing it by hand needs the verb abandon on windowshosts with the name of the instance.
	HostFinalizer = "windows.openshift.io/host"
	// FormerInstanceAnnotation is written by windows-controller and names the instance that represented the host before, and has handed it over
	// because its entry was renamed. What names instances, as a rollback of their pool does, follows it to the new name: without it, that no
	// longer finds the host.
	FormerInstanceAnnotation = "windows.openshift.io/former-instance"
)

// Of the Service windows-exporter in the namespace of windows-controller.
const (
	// MetricsAnnotation is written by people, and with the value none says that hosts serve no metrics, on OpenShift. Without it they do.
	MetricsAnnotation = "windows.openshift.io/metrics"
)

// Of WindowsInstances and WindowsNodePools.
const (
	// SourceAnnotation is written by windows-controller to every instance and pool that comes from a source. Its value names
	// the source for people, for example "ConfigMap openshift-windows-machine-config-operator/windows-instances, entry 10.1.42.1".
	// As long as it exists, people cannot delete the object; they remove the entry or the Machine.
	// Who removes it, so that the object can be deleted when its source is gone, gets it back if the source is still there.
	SourceAnnotation = "windows.openshift.io/source"
)

// Of WindowsNodePools, also of those of MachineSets.
const (
	// ConfirmRemovalAnnotation is written by people and confirms that the hosts may be removed that a condition of
	// the pool, or Removed of its instances, asks about. Its value is in the command there, and stands for exactly these hosts:
	// any other value confirms nothing. windows-controller removes it.
	ConfirmRemovalAnnotation = "windows.openshift.io/confirm-removal"
	// ReplaceMachinesAnnotation is written by people to the pool of a MachineSet, and with the value ReplaceMachinesNever keeps Machines whose
	// hosts refuse the key since they came. No other value has a meaning: such a Machine is deleted after five minutes.
	ReplaceMachinesAnnotation = "windows.openshift.io/replace-machines"
	// ReplaceMachinesNever is the only value of ReplaceMachinesAnnotation with a meaning.
	ReplaceMachinesNever = "Never"
	// ReplacedMachineAnnotation is written by windows-controller to the pool of a MachineSet before it deletes such a
	// Machine: its name, its UID and the time. Until a host that came later accepts the key, no other one is deleted.
	// Whoever removes it allows one more.
	ReplacedMachineAnnotation = "windows.openshift.io/replaced-machine"
)

// Of Secrets.
const (
	// CompromisedKeysAnnotation is written by people to a Secret with credentials and lists the SHA256 fingerprints of keys that somebody else may
	// have, separated by commas. Nobody logs in with them once the key of the Secret was replaced. Of them only the public
	// keys are kept, to be removed from hosts. Hosts that accept no other key have to be given the new one by hand. Of several keys
	// that the Secret has now, hosts that accept a named one get the first one that is not, and lose it.
	// On the Secret windows-keys-in-use it is about all Secrets of the namespace, also those that were deleted.
	CompromisedKeysAnnotation = "windows.openshift.io/compromised-keys"
)

// Of Nodes.
const (
	// NamespaceLabel is written by windows-controller: the namespace of the instance that the host of the Node was configured for. It
	// outlives the instance, and the namespace. A kubelet cannot write it, because of its prefix: the admission
	// plugin NodeRestriction, which clusters of kubeadm and OpenShift have, refuses that.
	// It is written again if somebody removes it from the Node of a host that is configured.
	NamespaceLabel = "windows.node-restriction.kubernetes.io/namespace"
	// ManagedTaintsAnnotation is written by windows-controller. It lists the taints of the Node that come from the template of a
	// pool, as kubectl writes taints: key=value:effect, separated by commas. A Node that has it was made by this project. It is
	// written again if somebody removes it; taints that the template had before, other than the default one, then stay.
	ManagedTaintsAnnotation = "windows.openshift.io/managed-taints"
	// WrittenVersionAnnotation is written by windows-controller. It is the value that this gave the annotation
	// windowsmachineconfig.openshift.io/version. Without it nobody could tell whether a Node that lacks the version, or has
	// another one, was never given it, has that of an earlier release, or was changed since. It is written again if somebody
	// removes it; what was asked for by a change of the version until then is forgotten.
	WrittenVersionAnnotation = "windows.openshift.io/written-version"
	// CordonedByAnnotation is written by windows-controller when an operation cordons the Node, and removed when that is undone.
	// Its value begins with what identifies the cordon, goes on with what it is for if that matters, and names who wanted it.
	// If somebody removes it, the Node counts as cordoned by people, and stays cordoned until somebody uncordons it.
	CordonedByAnnotation = "windows.openshift.io/cordoned-by"
)

// Of ControllerRevisions, which have the templates that a pool had.
const (
	// PoolLabel is written by windows-controller and names the WindowsNodePool. Which pool that is, is said by the owner reference;
	// the label is for finding the ControllerRevision: without it, it is not found. See [WindowsNodePool.RevisionLabels].
	PoolLabel = "windows.openshift.io/pool"
	// UndoOverAnnotation is written by windows-controller to the ControllerRevision that a pool has again: when was asked for what
	// somebody had undone of it before. That has ended with another template or payload, and a request in the spec, which nobody
	// has to remove, must not come alive again; it does if somebody removes the annotation.
	UndoOverAnnotation = "windows.openshift.io/undo-over"
)
