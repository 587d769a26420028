// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package v1alpha1

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// +genclient
// +genclient:method=Drain,verb=create,subresource=drain,input=WindowsInstanceDrain,result=WindowsInstanceDrain
// +genclient:method=Uncordon,verb=create,subresource=uncordon,input=WindowsInstanceUncordon,result=WindowsInstanceUncordon
// +genclient:method=Reboot,verb=create,subresource=reboot,input=WindowsInstanceReboot,result=WindowsInstanceReboot
// +genclient:method=Adopt,verb=create,subresource=adopt,input=WindowsInstanceAdopt,result=WindowsInstanceAdopt
// +genclient:method=Release,verb=create,subresource=release,input=WindowsInstanceRelease,result=WindowsInstanceRelease
// +genclient:method=Reconfigure,verb=create,subresource=reconfigure,input=WindowsInstanceReconfigure,result=WindowsInstanceReconfigure
// +genclient:method=Cancel,verb=create,subresource=cancel,input=WindowsInstanceCancel,result=WindowsInstanceCancel
// +genclient:method=Check,verb=create,subresource=check,input=WindowsInstanceCheck,result=WindowsInstanceCheck
// +genclient:method=Inspect,verb=get,subresource=inspect,result=WindowsInstanceInspection
// +k8s:supportsSubresource="/status"
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// WindowsInstance is one Windows Server host: how it is reached over SSH, and
// what is known of it. Most instances are created for you from an entry of the
// windows-instances ConfigMap or from a Machine; you may also create one by hand.
// Its logs can be read at any time through the subresource log, also when the
// kubelet of the host is dead or never ran.
type WindowsInstance struct {
	metav1.TypeMeta `json:",inline"`
	// Standard object metadata. The name is that of the Machine, or the address
	// of the ConfigMap entry, or what you choose for an instance created by hand.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// How the host is reached. Written by you, or by the source the host comes from.
	// +optional
	Spec WindowsInstanceSpec `json:"spec,omitempty"`
	// What is known of the host. Written by the controller only.
	// +optional
	Status WindowsInstanceStatus `json:"status,omitempty"`
}

// WindowsInstanceSpec describes how a host is reached.
type WindowsInstanceSpec struct {
	// IPv4 address, IPv6 address or DNS name under which the host answers SSH.
	// A name is resolved at every connection, IPv4 first. Required.
	// +k8s:required
	// +k8s:maxLength=253
	Address string `json:"address"`
	// TCP port of the SSH server. Default 22.
	// +optional
	// +k8s:optional
	// +k8s:minimum=1
	// +k8s:maximum=65535
	Port int32 `json:"port,omitempty"`
	// User to log in as. The user must be an administrator of the host. Default Administrator.
	// +optional
	// +k8s:optional
	// +k8s:maxLength=104
	Username string `json:"username,omitempty"`
	// Public host keys the host may present, each as in an OpenSSH known_hosts or
	// authorized_keys line: type, space, base64; at most 4096 bytes. Set, they are the only keys that
	// are trusted. Empty, the first key that the host presents is recorded in
	// status.hostKeys before anything else is done, and from then on only that key
	// is trusted. Changing this field of an existing instance needs, besides update, the
	// verb trust on windowshostkeys with the name of the instance.
	// +optional
	// +listType=atomic
	// +k8s:optional
	// +k8s:listType=atomic
	// +k8s:maxItems=16
	// +k8s:eachVal=+k8s:maxBytes=4096
	HostKeys []string `json:"hostKeys,omitempty"`
	// Secret in the namespace of the instance with the credentials to log in: key
	// private-key.pem (with passphrase when it is encrypted), or key password.
	// private-key.pem-cert.pub is an OpenSSH certificate of the private key, which hosts are offered first.
	// private-key-NAME.pem are further private keys, any NAME, each with its own certificate
	// private-key-NAME.pem-cert.pub: a host that accepts one of them keeps it, and others get
	// private-key.pem. There are at most four keys and certificates. Which keys are compromised
	// is said by the annotation windows.openshift.io/compromised-keys of the Secret.
	// Empty: the Secret of the pool; where that is empty too, the cluster-wide key
	// (Secret cloud-private-key in the namespace of the controller). Creating an instance, and changing its address, port,
	// username, Secret, bastion or pool, needs get on the Secret that is used then; for the cluster-wide key
	// it needs the verb use on windowscredentials with the name cluster.
	// +optional
	// +k8s:optional
	CredentialsSecretRef *SecretReference `json:"credentialsSecretRef,omitempty"`
	// Bastion through which the host is reached. Empty: that of the pool; where that is empty too, the host is
	// connected to directly. With a bastion, spec.address is resolved by the controller and the API server, and what it
	// resolves to is the address of the host as the bastion sees it. Changing the host keys of the bastion of an
	// existing instance, or adding or removing one, needs, besides update, the verb trust on windowshostkeys with the name
	// of the instance.
	// +optional
	// +k8s:optional
	Bastion *Bastion `json:"bastion,omitempty"`
	// Pool the host belongs to, in the same namespace. A change to a pool whose bastion has other host keys needs the verb trust
	// as a change of bastion does. Empty: none.
	// +optional
	// +k8s:optional
	PoolRef *PoolReference `json:"poolRef,omitempty"`
	// While true the controller leaves the host alone: it neither connects to it
	// nor begins anything on it. An operation that has begun to change the host is completed. Drains and uncordons that
	// users request are run, and other requests fail; logs, sessions, inspect and check work. Default false.
	// +optional
	Paused bool `json:"paused,omitempty"`
	// The provider's ID of the machine behind the host, as in Node.spec.providerID.
	// Used to find the Node of the host, which gets it if it has none. IDs of Azure and vSphere are compared without regard to case; one that
	// ends with a slash names no machine, and is not used. Cannot be changed to that of another machine once the host was
	// logged in to. Empty: the Node is found by address.
	// +optional
	// +k8s:optional
	// +k8s:maxLength=512
	ProviderID string `json:"providerID,omitempty"`
	// Desired computer name of the host; its Node gets the same name. At most 15 lower-case letters,
	// digits and hyphens, and no number. The host is restarted once when it has another name. Cannot be
	// changed while the host is a Node. Empty: the host keeps its name.
	// +optional
	// +k8s:optional
	// +k8s:maxLength=15
	NodeName string `json:"nodeName,omitempty"`
	// What happens to the host when this object is deleted. Empty: what was installed on the
	// host is removed from it, however long that takes. When its namespace is deleted, the host is left as it is in any case, and
	// runs on.
	// +optional
	// +k8s:optional
	Removal *RemovalOptions `json:"removal,omitempty"`
}

// RemovalPolicy is what happens to a host whose WindowsInstance is deleted.
// +enum
// +k8s:enum
type RemovalPolicy string

const (
	// RemovalClean removes everything from the host that was installed on it, before the object is deleted.
	RemovalClean RemovalPolicy = "Clean"
	// RemovalAbandon leaves the host as it is; only its Node is deleted, if we have made it.
	RemovalAbandon RemovalPolicy = "Abandon"
)

// RemovalOptions describe what happens to a host whose WindowsInstance is deleted.
type RemovalOptions struct {
	// Clean (default): the Node is drained, everything that was installed on the host is removed
	// from it, and the Node is deleted; until that is done the object stays, with the
	// reason in the condition Removed. Abandon: the Node is deleted and the host is left
	// as it is, services and credentials included. A Node that others have made, or that was released, stays in both cases. Abandon needs, besides update or
	// create, the verb abandon on windowshosts with the name of the instance.
	// +optional
	// +k8s:optional
	Policy RemovalPolicy `json:"policy,omitempty"`
	// Seconds after the deletion for which cleaning is tried on a host that cannot be reached or logged in to, and for which a paused one
	// is waited for. Then it is abandoned, as with the policy Abandon, and needs the same verb; the host of a Machine not before that is gone. 0: after the first attempt.
	// Empty: without limit; the controller sets 300 for hosts of Machines.
	// +optional
	// +k8s:optional
	// +k8s:minimum=0
	// +k8s:maximum=315360000
	AfterSeconds *int64 `json:"afterSeconds,omitempty"`
	// Deprecated: the same as a duration, for example 5m. It is accepted in place of
	// afterSeconds, which it replaces, and not returned.
	// +optional
	After *metav1.Duration `json:"after,omitempty"`
}

// SecretReference names a Secret in the namespace of the object that refers to it.
// +structType=atomic
type SecretReference struct {
	// Name of the Secret. Required.
	// +k8s:required
	// +k8s:maxLength=253
	Name string `json:"name"`
}

// Bastion is an SSH server through which hosts are reached that cannot be connected to directly: a jump host. The controller
// and the API server log in to it, have it connect to the address of the host, and log in to the host over that connection. The
// host proves its own host key as always, and the bastion learns neither what is sent nor the credentials of the host.
// +structType=atomic
type Bastion struct {
	// IPv4 address, IPv6 address or DNS name under which the bastion answers SSH. Required.
	// +k8s:required
	// +k8s:maxLength=253
	Address string `json:"address"`
	// TCP port of its SSH server. Default 22.
	// +optional
	// +k8s:optional
	// +k8s:minimum=1
	// +k8s:maximum=65535
	Port int32 `json:"port,omitempty"`
	// User to log in to the bastion as. It needs to be allowed to forward connections to the hosts, and nothing else. Required.
	// +k8s:required
	// +k8s:maxLength=104
	Username string `json:"username"`
	// Public host keys that the bastion may present, each as in an OpenSSH known_hosts or authorized_keys line: type,
	// space, base64; at most 4096 bytes. They are the only keys that are trusted: none is recorded at the first contact. Required.
	// +listType=atomic
	// +k8s:required
	// +k8s:listType=atomic
	// +k8s:maxItems=16
	// +k8s:eachVal=+k8s:maxBytes=4096
	HostKeys []string `json:"hostKeys"`
	// Secret in the same namespace with the credentials to log in to the bastion: key private-key.pem (with passphrase
	// when it is encrypted), or key password. Certificates and further keys are as in that of hosts, see credentialsSecretRef
	// of WindowsInstance; the bastion gets no keys. Required.
	CredentialsSecretRef SecretReference `json:"credentialsSecretRef"`
}

// PoolReference names a WindowsNodePool in the namespace of the object that refers to it.
// +structType=atomic
type PoolReference struct {
	// Name of the WindowsNodePool. Required.
	// +k8s:required
	// +k8s:maxLength=253
	Name string `json:"name"`
}

// WindowsInstancePhase is a one-word summary of a host for people. Programs read
// the conditions instead; later releases may have other phases.
// +enum
// +k8s:enum
type WindowsInstancePhase string

const (
	// InstancePending means that the controller has not tried the host yet, or the instance or its pool is paused.
	InstancePending WindowsInstancePhase = "Pending"
	// InstanceConnecting means that the controller connects to the host or inspects it.
	InstanceConnecting WindowsInstancePhase = "Connecting"
	// InstanceConnected means that the login works and the host is fit to be a node. It is not a node
	// yet, or it is only watched and its Node is not ready.
	InstanceConnected WindowsInstancePhase = "Connected"
	// InstanceReady means that the host is logged in to and its Node is ready.
	InstanceReady WindowsInstancePhase = "Ready"
	// InstanceDraining means that pods are leaving the Node of the host, by an operation.
	InstanceDraining WindowsInstancePhase = "Draining"
	// InstanceRebooting means that an operation restarts the host, prepares that, or waits for its slot.
	InstanceRebooting WindowsInstancePhase = "Rebooting"
	// InstanceConfiguring means that an operation configures the host, or waits for its slot, or has done so for the first time and the host was not probed since.
	InstanceConfiguring WindowsInstancePhase = "Configuring"
	// InstanceJoining means that the host is configured, and that its Node is not ready yet.
	InstanceJoining WindowsInstancePhase = "Joining"
	// InstanceRemoving means that the object was deleted, and the host is being cleaned.
	InstanceRemoving WindowsInstancePhase = "Removing"
	// InstanceUnreachable means that no SSH connection can be made, or that it breaks before the login is done.
	InstanceUnreachable WindowsInstancePhase = "Unreachable"
	// InstanceFailed means that a person has to act: see the conditions.
	InstanceFailed WindowsInstancePhase = "Failed"
)

// WindowsInstanceStatus is what is known of a host. It is written only when it changes.
type WindowsInstanceStatus struct {
	// The generation of the spec that this status is about.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// One word for people: Pending, Connecting, Connected, Ready, Draining, Rebooting,
	// Configuring, Joining, Removing, Unreachable or Failed. Later releases may have others:
	// programs should read the conditions.
	// +optional
	// +k8s:optional
	Phase WindowsInstancePhase `json:"phase,omitempty"`
	// Conditions of the host, in the order in which they are evaluated: Resolved,
	// Reachable, HostKeyTrusted, Authenticated, PreflightPassed, Configured,
	// RebootRequired, UpToDate, NodeReady, Ready, and Removed while the object is being
	// deleted; CredentialsCurrent from when the host first gets another key than it had; SourceSynced where its source no longer asks for the host as it did. Each has a reason and a message with what to do.
	// +optional
	// +patchMergeKey=type
	// +patchStrategy=merge
	// +listType=map
	// +listMapKey=type
	// +k8s:optional
	Conditions []metav1.Condition `json:"conditions,omitempty" patchStrategy:"merge" patchMergeKey:"type"`
	// IP addresses that spec.address resolves to, in the order in which they are tried.
	// +optional
	// +listType=atomic
	Addresses []string `json:"addresses,omitempty"`
	// IP address at which the host was logged in to: that of the connection, whatever else spec.address
	// resolves to. Whose host and whose Node it is goes by this one. Empty: no login has
	// succeeded since releases record this.
	// +optional
	// +k8s:optional
	// +k8s:maxLength=64
	HostIP string `json:"hostIP,omitempty"`
	// Bastion, as address:port, through which the host was logged in to. The addresses above are then as the bastion sees
	// them, and outside the operator's namespace do not prove which Node the host is. Empty: the host was connected to directly.
	// +optional
	// +k8s:optional
	// +k8s:maxLength=264
	Bastion string `json:"bastion,omitempty"`
	// Host keys that are trusted, and since when: those of spec.hostKeys from when the host has proven
	// to have them, else the first one that it presented.
	// +optional
	// +listType=atomic
	// +k8s:optional
	HostKeys []HostKeyStatus `json:"hostKeys,omitempty"`
	// Which of our credentials the host accepts. Empty: no login has succeeded since releases record this.
	// +optional
	Credentials *CredentialsStatus `json:"credentials,omitempty"`
	// The Node of the host. Empty: it is no node.
	// +optional
	Node *NodeReference `json:"node,omitempty"`
	// Identifies the machine behind the host: it tells this machine from another one that
	// presents the same host key, for example because both were made from one image. Empty: not
	// known.
	// +optional
	// +k8s:optional
	// +k8s:maxLength=128
	MachineID string `json:"machineID,omitempty"`
	// What the host reported about itself when it was last inspected.
	// +optional
	System *SystemStatus `json:"system,omitempty"`
	// Updates of Windows that wait to be installed, as the host said when it was last inspected. Empty:
	// it has not searched for any yet, for example because it is not configured.
	// +optional
	// +k8s:optional
	WindowsUpdates *WindowsUpdatesStatus `json:"windowsUpdates,omitempty"`
	// Version of this project's software on the host. Empty: there is none yet.
	// +optional
	Version string `json:"version,omitempty"`
	// Revision that the host is configured with now. When the controller has no payload, it
	// is the digest of the agent on the host. Empty: not known yet.
	// +optional
	CurrentRevision string `json:"currentRevision,omitempty"`
	// Names the desired configuration of the host. When the controller has no payload, it is
	// the digest of the agent. The host is up to date when it equals currentRevision.
	// +optional
	DesiredRevision string `json:"desiredRevision,omitempty"`
	// Name of the ControllerRevision of its pool that desiredRevision is of. While the revision of the pool is rolled back, a change that disturbs
	// the host waits for a disruption slot if this is another one, and for somebody who resumes the rollout if it is not. Empty: not known, or the host
	// is in no pool, or gets the template of one revision with the programs of another.
	// +optional
	// +k8s:optional
	// +k8s:maxLength=253
	DesiredPoolRevision string `json:"desiredPoolRevision,omitempty"`
	// Name of the ControllerRevision of its pool, with a template and programs, that the host worked with last: it had it
	// completely, and its Node was ready. Empty: none yet, or it is in no pool.
	// +optional
	// +k8s:optional
	// +k8s:maxLength=253
	PoolRevision string `json:"poolRevision,omitempty"`
	// ControllerRevision with other programs that the host worked with before poolRevision; the host still has these programs if
	// they fit on its disk. Empty: there is none, or the host has not kept its programs, for example because it has gone back.
	// +optional
	// +k8s:optional
	// +k8s:maxLength=253
	PreviousPoolRevision string `json:"previousPoolRevision,omitempty"`
	// The pool of the host, as it was last seen. A pool of the same name with another UID was made again, after the former one was lost.
	// Empty: none was seen.
	// +optional
	Pool *KnownPool `json:"pool,omitempty"`
	// Since when the host waits for somebody to confirm what it is to have: it was configured before this object, or its pool, was made, so
	// that what it was to have may be lost. While it has something else than is desired now, it is left as it is, and so are the labels and taints of
	// its Node; condition UpToDate says how to confirm it. Empty: it does not wait.
	// +optional
	UnconfirmedSince *metav1.Time `json:"unconfirmedSince,omitempty"`
	// When the Node of the host has gone from ready to not ready, while no operation ran on the host; the last times, the newest last.
	// +optional
	// +listType=atomic
	// +k8s:optional
	// +k8s:listType=atomic
	// +k8s:maxItems=5
	NodeNotReadyTimes []metav1.Time `json:"nodeNotReadyTimes,omitempty"`
	// When the host was last restarted by an operation, by the clock of windows-controller: when it answered
	// with another boot. Empty: never, or not since releases record this.
	// +optional
	RestartedAt *metav1.Time `json:"restartedAt,omitempty"`
	// The operation that runs or is pending, or else the last one.
	// +optional
	// +k8s:optional
	Operation *Operation `json:"operation,omitempty"`
	// The operations before it, newest first, at most ten. They have no steps. When there are more, the oldest are dropped, except those
	// that decided last how the host works: the latest reconfigure that succeeded or disturbed the host, the latest that changed it, and the
	// latest restart by the policy of the pool. A release ends that.
	// +optional
	// +listType=atomic
	// +k8s:optional
	// +k8s:maxItems=10
	// +k8s:eachVal=+k8s:opaqueType
	History []Operation `json:"history,omitempty"`
}

// HostKeyTrust is why a host key is trusted.
// +enum
// +k8s:enum
type HostKeyTrust string

const (
	// TrustedBySpec means that the key is one of spec.hostKeys.
	TrustedBySpec HostKeyTrust = "Spec"
	// TrustedOnFirstUse means that the key is the first one the host ever presented.
	TrustedOnFirstUse HostKeyTrust = "FirstUse"
)

// CredentialsStatus is what a host accepts of us.
type CredentialsStatus struct {
	// SHA256 fingerprint, as ssh-keygen -l prints it, of the public key that the host accepts. While a host gets
	// another key it is that of the former one, until that is removed from the host. Empty: the host accepts a
	// password.
	// +optional
	KeyFingerprint string `json:"keyFingerprint,omitempty"`
	// SHA256 fingerprint of the public key that the host is to accept in place of it, which is that of the Secret
	// with the credentials. Condition CredentialsCurrent says how far that has come. Empty: it has the right one.
	// +optional
	RotatingTo string `json:"rotatingTo,omitempty"`
}

// HostKeyStatus is a host key that is trusted.
type HostKeyStatus struct {
	// Type of the key, for example ssh-ed25519.
	Type string `json:"type"`
	// SHA256 fingerprint as ssh-keygen -l prints it, for example SHA256:Jo2…
	Fingerprint string `json:"fingerprint"`
	// The key itself in base64.
	Key string `json:"key"`
	// When the key was first seen.
	FirstSeen metav1.Time `json:"firstSeen"`
	// Why the key is trusted: Spec or FirstUse.
	// +k8s:required
	TrustedBy HostKeyTrust `json:"trustedBy"`
}

// NodeReference names the Node of a host.
type NodeReference struct {
	// Name of the Node.
	Name string `json:"name"`
	// UID of the Node.
	UID types.UID `json:"uid"`
}

// KnownPool is a pool that was seen.
type KnownPool struct {
	// Name of the WindowsNodePool.
	Name string `json:"name"`
	// UID of the WindowsNodePool.
	UID types.UID `json:"uid"`
}

// SystemStatus is what a host reports about itself. Values that change all the time
// are left out, so that an unchanged host causes no writes.
type SystemStatus struct {
	// Product name, for example Windows Server 2022 Datacenter.
	// +optional
	Product string `json:"product,omitempty"`
	// Build with its update revision, for example 10.0.20348.2700.
	// +optional
	Build string `json:"build,omitempty"`
	// Processor architecture as Go and Kubernetes name it, for example amd64.
	// +optional
	Architecture string `json:"architecture,omitempty"`
	// Host name.
	// +optional
	Hostname string `json:"hostname,omitempty"`
	// Name of the node that the kubelet of the host has from its platform. Empty: it calls its node
	// as the host is called.
	// +optional
	NodeName string `json:"nodeName,omitempty"`
	// Fully qualified domain name. Empty: the host has no domain.
	// +optional
	FQDN string `json:"fqdn,omitempty"`
	// Number of logical processors.
	// +optional
	CPUs int32 `json:"cpus,omitempty"`
	// Physical memory.
	// +optional
	Memory *resource.Quantity `json:"memory,omitempty"`
	// When the host was started, to the minute. It differs after each reboot.
	// +optional
	BootTime *metav1.Time `json:"bootTime,omitempty"`
}

// WindowsUpdatesStatus counts the updates of Windows that wait to be installed on a host, as Windows Update, or
// the server of the organization that its policy names, offers them. Drivers, previews, other versions of Windows, definitions of the antivirus
// and what an administrator has hidden do not count.
type WindowsUpdatesStatus struct {
	// When the host last searched for updates, by its clock, to the minute. It does so every 12 hours or so, and after
	// each boot. Empty: no search has succeeded.
	// +optional
	SearchedAt *metav1.Time `json:"searchedAt,omitempty"`
	// How many updates wait, those for security included.
	Pending int32 `json:"pending"`
	// How many security updates wait: those that Microsoft classifies so or rates the severity of.
	Security int32 `json:"security"`
	// Updates of these that could not be installed, or that only a person can install, the newest first, at most sixteen.
	// +optional
	// +listType=atomic
	// +k8s:optional
	// +k8s:listType=atomic
	// +k8s:maxItems=16
	Failed []FailedUpdate `json:"failed,omitempty"`
	// Why the last search failed. Empty: it did not.
	// +optional
	// +k8s:optional
	// +k8s:maxBytes=4096
	Message string `json:"message,omitempty"`
}

// FailedUpdate is an update of Windows that could not be installed on a host.
type FailedUpdate struct {
	// Its articles, for example KB5044281, or its title if it has none.
	Name string `json:"name"`
	// Whether it is a security update.
	// +optional
	Security bool `json:"security,omitempty"`
	// From when on the controller tries it again, by the clock of the host. It does not try interactive ones.
	RetryAt metav1.Time `json:"retryAt"`
	// The step of the operation in which it failed, for example InstallUpdates. What fails in DownloadUpdates has cost nothing, and
	// keeps updates from no other host of the pool. Empty: it was not tried, or an earlier release tried it.
	// +optional
	// +k8s:optional
	// +k8s:maxBytes=64
	Step string `json:"step,omitempty"`
	// Whether it may ask questions while it is installed. The controller leaves it to whoever is at the console of the host.
	// +optional
	Interactive bool `json:"interactive,omitempty"`
	// Why it could not be installed, with the code of Windows.
	// +optional
	// +k8s:optional
	// +k8s:maxBytes=4096
	Message string `json:"message,omitempty"`
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// WindowsInstanceList is a list of WindowsInstances.
type WindowsInstanceList struct {
	metav1.TypeMeta `json:",inline"`
	// Standard list metadata.
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`

	// The instances.
	Items []WindowsInstance `json:"items"`
}
