// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// +genclient
// +genclient:method=GetScale,verb=get,subresource=scale,result=k8s.io/api/autoscaling/v1.Scale
// +genclient:method=UpdateScale,verb=update,subresource=scale,input=k8s.io/api/autoscaling/v1.Scale,result=k8s.io/api/autoscaling/v1.Scale
// +k8s:supportsSubresource="/status"
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// WindowsNodePool is a set of Windows Server hosts that come from one source and
// are treated alike. Pools of a MachineSet and of the windows-instances ConfigMap
// are created for you; create a pool of instances made by hand yourself.
type WindowsNodePool struct {
	metav1.TypeMeta `json:",inline"`
	// Standard object metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Where the hosts of the pool come from and what they have in common.
	// +optional
	Spec WindowsNodePoolSpec `json:"spec,omitempty"`
	// What is known of the pool. Written by the controller only.
	// +optional
	Status WindowsNodePoolStatus `json:"status,omitempty"`
}

// WindowsNodePoolSpec describes where the hosts of a pool come from and what they have in common.
type WindowsNodePoolSpec struct {
	// Where the hosts come from: exactly one member is set. It cannot be changed. Required.
	// +k8s:immutable
	Source PoolSource `json:"source"`
	// While true the controller leaves the hosts of the pool alone, as if each of
	// them were paused (spec.paused of an instance). Default false.
	// +optional
	Paused bool `json:"paused,omitempty"`
	// What every host of the pool gets.
	// +optional
	Template PoolTemplate `json:"template,omitempty"`
	// How the controller changes and removes the hosts of the pool.
	// +optional
	UpdateStrategy PoolUpdateStrategy `json:"updateStrategy,omitempty"`
	// When the controller restarts Windows on the hosts of the pool by itself.
	// +optional
	Restarts PoolRestarts `json:"restarts,omitempty"`
	// Which updates of Windows the controller installs on the hosts of the pool by itself.
	// +optional
	WindowsUpdates PoolWindowsUpdates `json:"windowsUpdates,omitempty"`
	// What the controller does about hosts whose Nodes are not ready although they can be logged in
	// to. Empty: nothing.
	// +optional
	// +k8s:optional
	Remediation *PoolRemediation `json:"remediation,omitempty"`
}

// PoolRestartPolicy is when the controller restarts Windows by itself.
// +enum
// +k8s:enum
type PoolRestartPolicy string

const (
	// RestartNever leaves hosts that wait for a restart as they are.
	RestartNever PoolRestartPolicy = "Never"
	// RestartWhenPending restarts hosts that wait for it, for example after Windows Update.
	RestartWhenPending PoolRestartPolicy = "WhenPending"
)

// PoolRestarts says when Windows is restarted on the hosts of a pool. Each host is drained first, with the options
// of spec.updateStrategy.drain, and uncordoned when its Node is ready again. It happens one host after the other, within
// maxUnavailable, maxFailures and window of spec.updateStrategy.
type PoolRestarts struct {
	// Whether hosts are restarted that wait for it, as their condition RebootRequired says. Never, or
	// WhenPending. A host that waits again after that is restarted again a day later at the earliest.
	// Default Never.
	// +optional
	// +k8s:optional
	Policy PoolRestartPolicy `json:"policy,omitempty"`
	// Restarts, once, every host that was last restarted before this time, when that has come. The
	// command kubectl windows rollout restart sets it to now. Empty: no host.
	// +optional
	After *metav1.Time `json:"after,omitempty"`
}

// WindowsUpdatesInstall is which updates of Windows are installed.
// +enum
// +k8s:enum
type WindowsUpdatesInstall string

const (
	// InstallNone installs no updates.
	InstallNone WindowsUpdatesInstall = "None"
	// InstallSecurity installs security updates, among them the monthly cumulative update.
	InstallSecurity WindowsUpdatesInstall = "Security"
	// InstallAll installs all updates that Windows would install by itself, but drivers, previews, other versions of
	// Windows and definitions of the antivirus.
	InstallAll WindowsUpdatesInstall = "All"
)

// PoolWindowsUpdates says which updates of Windows are installed on the hosts of a pool. They come from Windows Update,
// or from the server of the organization that the policy of the host names, which decides what is offered. A host
// downloads them while its pods run. Then it is drained with the options of spec.updateStrategy.drain, they are installed, Windows is
// restarted, and the host is uncordoned when its Node is ready again. It happens one host after the other, within maxUnavailable, maxFailures and window of
// spec.updateStrategy.
type PoolWindowsUpdates struct {
	// Which updates: None, Security or All. An update that fails is not tried again on its host before a day has passed, it
	// has another revision, or somebody asks. Default None.
	// +optional
	// +k8s:optional
	Install WindowsUpdatesInstall `json:"install,omitempty"`
}

// PoolRemediationAction is what is done about a host whose Node is not ready.
// +enum
// +k8s:enum
type PoolRemediationAction string

const (
	// RemediateRestartServices restarts the services of the node, such as containerd and the kubelet.
	RemediateRestartServices PoolRemediationAction = "RestartServices"
	// RemediateRestart drains the Node and restarts Windows.
	RemediateRestart PoolRemediationAction = "Restart"
)

// PoolRemediation describes what the controller does about hosts whose Nodes are not ready although they can be
// logged in to. Each action is tried once, in their order, until the Node is ready; what happens within an hour after
// that counts as the same trouble. Each is an operation of the instance, with events. It is done at any time, also outside of the window
// of spec.updateStrategy, because the host is out of service already; a restart waits for a slot of --max-disruptive-operations. Hosts of
// Machines are replaced by a MachineHealthCheck, if there is one, and not by this.
type PoolRemediation struct {
	// For how long, in seconds, a Node must not have been ready. After each action it begins again.
	// Default 600.
	// +optional
	// +k8s:optional
	// +k8s:minimum=60
	// +k8s:maximum=86400
	AfterSeconds *int64 `json:"afterSeconds,omitempty"`
	// What is tried, in this order: RestartServices, Restart. Default both.
	// +optional
	// +listType=atomic
	// +k8s:optional
	// +k8s:listType=atomic
	// +k8s:unique=set
	// +k8s:maxItems=2
	Actions []PoolRemediationAction `json:"actions,omitempty"`
	// How many Nodes of the pool may be not ready at most: a number, or a percentage of the hosts of the
	// pool that are nodes, which allows at least one, and which all Windows Nodes of the cluster must keep as well. With a number, at most
	// 40% of those of the cluster may be, or that number if it is more. Nodes of paused hosts that
	// have not been ready for an hour do not count. While more are, something else is wrong than one host, and nothing
	// is done. 0: nothing is ever done, as with a MachineHealthCheck. Default 40%.
	// +optional
	MaxUnhealthy *intstr.IntOrString `json:"maxUnhealthy,omitempty"`
}

// PoolUpdateStrategyType is when the hosts of a pool get a new configuration.
// +enum
// +k8s:enum
type PoolUpdateStrategyType string

const (
	// RollingUpdate has the controller update hosts by itself, as many at a time as rollingUpdate allows.
	RollingUpdate PoolUpdateStrategyType = "RollingUpdate"
	// OnRequest has hosts updated only when somebody asks for it, for one or for all.
	OnRequest PoolUpdateStrategyType = "OnRequest"
)

// PoolUpdateStrategy describes how the controller changes and removes the hosts of a pool.
type PoolUpdateStrategy struct {
	// When hosts get a new configuration. RollingUpdate: the controller updates them by itself, one
	// after the other, within rollingUpdate and window. OnRequest: hosts are updated only when somebody
	// asks for it: for one with its subresource reconfigure, for all with restarts.after or rollingUpdate.undo. Changes that restart no service, such as renewed
	// certificates of the cluster, reach all hosts at once in either case; so does what a new host needs to
	// become a node, and one that is broken to be one again. Updates of Windows and restarts are made in either case, if the pool says so. Default RollingUpdate.
	// +optional
	// +k8s:optional
	Type PoolUpdateStrategyType `json:"type,omitempty"`
	// How many hosts are updated at the same time, and when that stops.
	// +optional
	RollingUpdate PoolRollingUpdate `json:"rollingUpdate,omitempty"`
	// When hosts may be disturbed by an update that the controller makes by itself. One that has begun is
	// completed. Empty: at any time.
	// +optional
	// +k8s:optional
	Window *MaintenanceWindow `json:"window,omitempty"`
	// How the Nodes of the hosts are drained by all operations that the controller itself
	// records: updates, restarts, repairs and removals, and by a reconfigure that users request. Drains and reboots that
	// users request have options of their own.
	// +optional
	Drain PoolDrainOptions `json:"drain,omitempty"`
}

// PoolFailurePolicy is what happens to hosts that an update broke.
// +enum
// +k8s:enum
type PoolFailurePolicy string

const (
	// FailureStop leaves broken hosts to people. They are still tried again with what is desired.
	FailureStop PoolFailurePolicy = "Stop"
	// FailureRollback takes broken hosts back to the revision that they worked with.
	FailureRollback PoolFailurePolicy = "Rollback"
)

// PoolRollingUpdate describes how the hosts of a pool are updated one after the other.
type PoolRollingUpdate struct {
	// How many hosts of the pool may be out of service at the same time: a number, or a percentage of
	// the hosts of the pool that are nodes, so that those that are still to come take none away, which allows at least one; not 0. A host counts while its Node is not
	// ready, is cordoned or is gone, while it is broken by an update, and while the controller or somebody else drains, restarts or removes it. The controller
	// drains, restarts or removes no host that would exceed it, unless a person has asked for that or confirmed it, or the
	// Machine of the host is deleted. What restarts services and leaves pods running is not bounded by it: one host gets that first, and then
	// up to ten of all pools at a time, or as many as --max-disruptive-operations says if that is more. All pools together are bounded by the flag --max-disruptive-operations of windows-controller. Default 1.
	// +optional
	MaxUnavailable *intstr.IntOrString `json:"maxUnavailable,omitempty"`
	// How many hosts get a new configuration first: a number, or a percentage of the hosts that the
	// pool should have, or has if these are more, rounded up. 0: none. The others follow when it is raised or removed. It is about new
	// configurations that restart services or drain hosts, not about updates of Windows. Empty: all of them, one after the other.
	// +optional
	Canary *intstr.IntOrString `json:"canary,omitempty"`
	// How many hosts an update may break before no further host is updated. A host is broken when its
	// update has failed after the host was changed, or has succeeded and its Node went down. Broken hosts are
	// updated again in any case, so that a correction reaches them first. What restarts no service is stopped after more
	// than three at least. Updates of Windows that failed count on their own. Default 0.
	// +optional
	// +k8s:optional
	// +k8s:minimum=0
	MaxFailures *int32 `json:"maxFailures,omitempty"`
	// What happens when an update has broken more than maxFailures hosts. Stop: no further host is updated, and the
	// broken ones are left to you. Rollback: in addition, the broken ones get back the template of the pool and the
	// programs that they worked with, and the pool stays so until its template or the payload changes, or until
	// somebody resumes it (resumedAt); see status.rolledBack. What comes from the cluster, such as trust, credentials and network, and the
	// labels and taints of Nodes do not go back, nor does the kubelet to a version that does not suit the API server. Default Stop.
	// +optional
	// +k8s:optional
	OnFailure PoolFailurePolicy `json:"onFailure,omitempty"`
	// Ends a rollback that was made before this time: the hosts get the revision again that was rolled back. Hosts that wait for a
	// confirmation since before (status.unconfirmedSince of an instance) get what the pool says. The
	// command kubectl windows rollout resume sets it. A time more than five minutes from now is refused. Empty: none is ended, and nothing is confirmed.
	// +optional
	ResumedAt *metav1.Time `json:"resumedAt,omitempty"`
	// Has the hosts of the pool go back from a revision to one that all of them worked with before. The command kubectl windows
	// rollout undo sets it, and rollout resume removes it. It holds for the revision that it names: it ends by itself with another template or
	// payload. windows-controller says in status.rolledBack what it does about it. Empty: nothing is undone.
	// +optional
	// +k8s:optional
	Undo *PoolUndo `json:"undo,omitempty"`
	// For how many seconds the Node of a host must stay ready after services of it, or Windows, were restarted. Only
	// then that has succeeded: the Node is uncordoned, and the next host follows. 0: it need not stay so. After ten minutes that ends while hosts of other
	// pools wait for the slot of the host, as the operation then says; with more slots (--max-disruptive-operations) they wait for less. Empty: as the flag --node-settle-time of
	// windows-controller says, 30 by default.
	// +optional
	// +k8s:optional
	// +k8s:minimum=0
	// +k8s:maximum=86400
	SettleSeconds *int32 `json:"settleSeconds,omitempty"`
}

// PoolUndo asks for a revision of a pool to be undone. Its hosts get the template and the programs of an earlier one, within the
// bounds of spec.updateStrategy but canary and type. What comes from the cluster, such as trust, credentials and network, does not go
// back, nor does the kubelet to a version that does not suit the API server.
type PoolUndo struct {
	// Name of the ControllerRevision that the hosts are not to have: status.updateRevision. Required.
	// +k8s:required
	// +k8s:maxLength=253
	Revision string `json:"revision"`
	// Name of the ControllerRevision that they go back to: one of status.workedRevisions. Required.
	// +k8s:required
	// +k8s:maxLength=253
	To string `json:"to"`
	// Why, for people. Empty: nobody says.
	// +optional
	// +k8s:optional
	// +k8s:maxBytes=512
	Reason string `json:"reason,omitempty"`
	// Who asked for it. The API sets it.
	// +optional
	// +k8s:optional
	// +k8s:maxBytes=1024
	RequestedBy string `json:"requestedBy,omitempty"`
	// When it was asked for. The API sets it. A request with a time before resumedAt, as in a file that was exported before, is over and is dropped.
	// +optional
	RequestedAt *metav1.Time `json:"requestedAt,omitempty"`
}

// MaintenanceWindow is a time in which hosts may be disturbed.
type MaintenanceWindow struct {
	// When the window opens, as the schedule of a CronJob: minute, hour, day of the month, month and day of the week,
	// for example "0 2 * * SAT". Required.
	// +k8s:required
	// +k8s:maxLength=128
	Schedule string `json:"schedule"`
	// For how long it stays open, in seconds. Required.
	// +k8s:required
	// +k8s:minimum=60
	// +k8s:maximum=604800
	DurationSeconds int64 `json:"durationSeconds"`
	// Time zone of the schedule, as in the database of IANA, for example Europe/Berlin. Default UTC.
	// +optional
	// +k8s:optional
	// +k8s:maxLength=64
	TimeZone string `json:"timeZone,omitempty"`
}

// PoolDrainOptions say how pods leave the Nodes of a pool before the controller changes or
// removes a host. Pods of DaemonSets stay, and PodDisruptionBudgets hold.
type PoolDrainOptions struct {
	// Seconds that each pod gets to end, in place of its own
	// terminationGracePeriodSeconds. 0 kills pods at once. Empty: that of each pod; 1 when the cluster
	// has not reached the Node for a minute, so that nothing there can end a pod gracefully.
	// +optional
	// +k8s:optional
	// +k8s:minimum=0
	// +k8s:maximum=604800
	GracePeriodSeconds *int64 `json:"gracePeriodSeconds,omitempty"`
	// Seconds after which the drain fails when pods are still there; the controller tries
	// again later. 0: never. While hosts of other pools wait, it gets an hour at most. Default 600.
	// +optional
	// +k8s:optional
	// +k8s:minimum=0
	// +k8s:maximum=604800
	TimeoutSeconds *int64 `json:"timeoutSeconds,omitempty"`
	// Whether pods with emptyDir volumes are evicted too; what they hold is lost.
	// While false the hosts that run any are neither drained for an update or a restart, nor
	// removed. Default true.
	// +optional
	DeleteEmptyDirData *bool `json:"deleteEmptyDirData,omitempty"`
	// Whether pods that no controller manages are evicted too; nothing recreates them.
	// While false the hosts that run any are neither drained for an update or a restart, nor
	// removed. Default true.
	// +optional
	Force *bool `json:"force,omitempty"`
	// Seconds after the end of its grace period from which on a pod that is being deleted is no longer waited for, for
	// example because its kubelet is dead. 0: it is waited for until the timeout. Empty: 60 while the Node is not ready,
	// and otherwise 0.
	// +optional
	// +k8s:optional
	// +k8s:minimum=0
	// +k8s:maximum=604800
	SkipWaitForDeleteTimeoutSeconds *int32 `json:"skipWaitForDeleteTimeoutSeconds,omitempty"`
}

// PoolSource is where the hosts of a pool come from. Exactly one member is set.
// +union
type PoolSource struct {
	// A MachineSet of group machine.openshift.io in the namespace of the pool, which has to have its name. The controller
	// makes the pool of each MachineSet of Windows by itself.
	// +optional
	// +k8s:optional
	// +k8s:unionMember
	MachineSet *SourceReference `json:"machineSet,omitempty"`
	// The ConfigMap windows-instances in the namespace of the controller (its flag --instances-configmap), for the pool of the same name
	// there; no other one is read. The controller makes that pool by itself.
	// +optional
	// +k8s:optional
	// +k8s:unionMember
	ConfigMap *SourceReference `json:"configMap,omitempty"`
	// WindowsInstances of this namespace that are created by hand and name the
	// pool in spec.poolRef.
	// +optional
	// +k8s:optional
	// +k8s:unionMember
	Instances *InstancesSource `json:"instances,omitempty"`
}

// SourceReference names an object in the namespace of the pool.
// +structType=atomic
type SourceReference struct {
	// Name of the object. Required.
	// +k8s:required
	// +k8s:maxLength=253
	Name string `json:"name"`
}

// InstancesSource stands for the WindowsInstances that name the pool in spec.poolRef.
type InstancesSource struct{}

// PoolTemplate is what every host of a pool gets.
type PoolTemplate struct {
	// Secret in the namespace of the pool with the credentials to log in to its
	// hosts; see credentialsSecretRef of WindowsInstance. Empty: the cluster-wide key. Needs the same rights.
	// +optional
	// +k8s:optional
	CredentialsSecretRef *SecretReference `json:"credentialsSecretRef,omitempty"`
	// Bastion through which the hosts are reached that have none of their own. Empty: they are connected to directly. A change
	// counts from the next connection on, and restarts nothing. Creating a pool with a bastion, changing the host keys of one,
	// and adding or removing one needs, besides create or update, the verb trust on windowshostkeys with the name of the
	// pool, and get on the Secret of the bastion.
	// +optional
	// +k8s:optional
	Bastion *Bastion `json:"bastion,omitempty"`
	// Labels that the Nodes of the hosts have besides their own. A label that is removed
	// here is removed from the Nodes too. Labels that kubelets and clouds set, such as
	// those of kubernetes.io, cannot be set here, nor can the role of a control plane; other roles and other labels of
	// node.kubernetes.io can.
	// +optional
	// +k8s:optional
	// +k8s:maxProperties=64
	NodeLabels map[string]string `json:"nodeLabels,omitempty"`
	// Taints that the Nodes of the hosts have, each pair of key and effect once. A taint that is
	// removed here is removed from the Nodes too; those that others set stay. An empty list: none.
	// Not set, or null: os=Windows:NoSchedule, which keeps pods for Linux away. Whoever sets the
	// list sets all of it.
	// +optional
	// +listType=atomic
	// +k8s:optional
	// +k8s:listType=atomic
	// +k8s:unique=map
	// +k8s:listMapKey=key
	// +k8s:listMapKey=effect
	// +k8s:maxItems=32
	NodeTaints []NodeTaint `json:"nodeTaints,omitzero"`
	// Settings of the kubelet. A change restarts the kubelet of each host, and its pods keep running. One by
	// which pods get less than before, as with fewer maxPods or more that is reserved, drains each host first,
	// one after the other: the kubelet would reject those that no longer fit.
	// +optional
	// +k8s:optional
	Kubelet *KubeletTemplate `json:"kubelet,omitempty"`
	// Settings of containerd. A change drains each host, one after the other.
	// +optional
	// +k8s:optional
	Containerd *ContainerdTemplate `json:"containerd,omitempty"`
	// When the logs of the services of a host are rotated, and how long they are kept.
	// +optional
	// +k8s:optional
	LogRotation *LogRotationTemplate `json:"logRotation,omitempty"`
}

// NodeTaintEffect is what a taint does to pods that do not tolerate it.
// +enum
// +k8s:enum
type NodeTaintEffect string

const (
	// NodeTaintNoSchedule keeps new pods away.
	NodeTaintNoSchedule NodeTaintEffect = "NoSchedule"
	// NodeTaintPreferNoSchedule keeps new pods away where they fit elsewhere.
	NodeTaintPreferNoSchedule NodeTaintEffect = "PreferNoSchedule"
	// NodeTaintNoExecute keeps new pods away and evicts those that run, on all hosts at once and without regard to
	// PodDisruptionBudgets. A pool of an earlier release may keep it; no pool gets it any more. Use NoSchedule.
	NodeTaintNoExecute NodeTaintEffect = "NoExecute"
)

// NodeTaint is a taint of a Node.
type NodeTaint struct {
	// Key of the taint. Required.
	// +k8s:required
	Key string `json:"key"`
	// Value of the taint.
	// +optional
	Value string `json:"value,omitempty"`
	// What it does to pods that do not tolerate it: NoSchedule or PreferNoSchedule. NoExecute only
	// where a pool of an earlier release has it. Required.
	// +k8s:required
	Effect NodeTaintEffect `json:"effect"`
}

// KubeletTemplate has the settings of the kubelets of a pool.
type KubeletTemplate struct {
	// How many pods a host may run. Empty: as many as the workers on OpenShift, by their maxPods and podsPerCore; where these
	// do not say it, and on other clusters, 250.
	// +optional
	// +k8s:optional
	// +k8s:minimum=1
	// +k8s:maximum=1000
	MaxPods *int32 `json:"maxPods,omitempty"`
	// What the operating system keeps for itself: cpu, memory, ephemeral-storage.
	// One that is missing is that of the workers on OpenShift, of memory 2Gi at least. Where these do not say it, and on other
	// clusters, it is 500m, 2Gi, 1Gi.
	// +optional
	// +k8s:opaqueType
	SystemReserved corev1.ResourceList `json:"systemReserved,omitempty"`
	// What the kubelet and the container runtime keep for themselves: cpu, memory,
	// ephemeral-storage. Default: nothing.
	// +optional
	// +k8s:opaqueType
	KubeReserved corev1.ResourceList `json:"kubeReserved,omitempty"`
	// When pods are evicted: memory.available, nodefs.available or imagefs.available to a
	// quantity above zero, or to a percentage below 100%; 0% is no threshold. One that is missing is that of the workers
	// on OpenShift. Where these have none, and on other clusters, it is 10% for nodefs.available, 15% for imagefs.available,
	// and none for memory.available.
	// +optional
	// +k8s:optional
	// +k8s:maxProperties=16
	// +k8s:eachVal=+k8s:maxLength=64
	EvictionHard map[string]string `json:"evictionHard,omitempty"`
	// How much the kubelet and kube-proxy log, from 0 to 10. Default 2 for the kubelet, and
	// 0 for kube-proxy.
	// +optional
	// +k8s:optional
	// +k8s:minimum=0
	// +k8s:maximum=10
	LogVerbosity *int32 `json:"logVerbosity,omitempty"`
}

// ContainerdLogLevel is how much containerd logs.
// +enum
// +k8s:enum
type ContainerdLogLevel string

const (
	// ContainerdLogTrace logs everything.
	ContainerdLogTrace ContainerdLogLevel = "trace"
	// ContainerdLogDebug logs what helps to debug.
	ContainerdLogDebug ContainerdLogLevel = "debug"
	// ContainerdLogInfo logs what happens.
	ContainerdLogInfo ContainerdLogLevel = "info"
	// ContainerdLogWarn logs warnings and errors.
	ContainerdLogWarn ContainerdLogLevel = "warn"
	// ContainerdLogError logs errors only.
	ContainerdLogError ContainerdLogLevel = "error"
)

// ContainerdTemplate has the settings of containerd on the hosts of a pool.
type ContainerdTemplate struct {
	// Image that keeps the network of a pod. Empty: mcr.microsoft.com/oss/kubernetes/pause:3.9, which a cluster that is cut off
	// from the internet has to mirror.
	// +optional
	// +k8s:optional
	// +k8s:maxLength=512
	SandboxImage string `json:"sandboxImage,omitempty"`
	// How much containerd logs: trace, debug, info, warn or error. Default info.
	// +optional
	// +k8s:optional
	LogLevel ContainerdLogLevel `json:"logLevel,omitempty"`
}

// LogRotationTemplate describes when the logs of the services of a host are rotated.
type LogRotationTemplate struct {
	// Size at which a log is rotated, 64Ki at least. 0: logs are not rotated, and rotated ones not removed. Default 100Mi.
	// +optional
	MaxSize *resource.Quantity `json:"maxSize,omitempty"`
	// Age in seconds at which a rotated log is removed. 0: never. Default 604800, a week.
	// +optional
	// +k8s:optional
	// +k8s:minimum=0
	// +k8s:maximum=315360000
	MaxAgeSeconds *int64 `json:"maxAgeSeconds,omitempty"`
	// Deprecated: the same as a duration, for example 72h. It is accepted in place of
	// maxAgeSeconds, which it replaces, and not returned.
	// +optional
	MaxAge *metav1.Duration `json:"maxAge,omitempty"`
}

// WindowsNodePoolPhase is a one-word summary of a pool for people. Programs read the
// conditions instead; later releases may have other phases.
// +enum
// +k8s:enum
type WindowsNodePoolPhase string

const (
	// PoolPending means that the controller has not seen the pool yet.
	PoolPending WindowsNodePoolPhase = "Pending"
	// PoolReady means that every host of the source is ready.
	PoolReady WindowsNodePoolPhase = "Ready"
	// PoolProgressing means that some hosts are not ready.
	PoolProgressing WindowsNodePoolPhase = "Progressing"
	// PoolPaused means that the hosts of the pool are not changed.
	PoolPaused WindowsNodePoolPhase = "Paused"
	// PoolDegraded means that a person has to act: see the conditions.
	PoolDegraded WindowsNodePoolPhase = "Degraded"
)

// PoolRemoval is the removal of a host of a pool.
type PoolRemoval struct {
	// Name of the WindowsInstance. Required.
	// +k8s:required
	// +k8s:maxLength=253
	Name string `json:"name"`
	// When the removal was decided. Required.
	Time metav1.Time `json:"time"`
	// Whether somebody confirmed it. Then it counts only as long as the WindowsInstance exists.
	// +optional
	Confirmed bool `json:"confirmed,omitempty"`
}

// PoolConfirmedRemovals stands for hosts whose removal somebody has confirmed.
type PoolConfirmedRemovals struct {
	// How many hosts of the pool: those that wait to be removed since the earliest times. Required.
	// +k8s:required
	// +k8s:minimum=1
	Count int32 `json:"count"`
	// Digest of the names and UIDs of their WindowsInstances, so that the confirmation is for no others. Required.
	// +k8s:required
	// +k8s:maxLength=64
	Digest string `json:"digest"`
}

// PoolRollback says that a pool does not roll out a revision, because that broke hosts or somebody has undone it.
type PoolRollback struct {
	// Name of the ControllerRevision that is not rolled out. Hosts that work with it keep it, unless somebody has undone it. When
	// updateRevision is another one, this no longer holds. Required.
	// +k8s:required
	// +k8s:maxLength=253
	Revision string `json:"revision"`
	// Name of the ControllerRevision that new hosts get, and broken ones that had no other before. If somebody has undone the
	// revision: that all hosts get. Required.
	// +k8s:required
	// +k8s:maxLength=253
	To string `json:"to"`
	// When it was decided, by the clock of windows-controller, or asked for. Required.
	Time metav1.Time `json:"time"`
	// Who has undone the revision (spec.updateStrategy.rollingUpdate.undo). Empty: nobody; it was rolled back because it broke hosts.
	// +optional
	// +k8s:optional
	// +k8s:maxBytes=1024
	RequestedBy string `json:"requestedBy,omitempty"`
	// Names of the WindowsInstances that the revision broke. If somebody has undone it since: those of them that have not gone back yet.
	// +optional
	// +listType=atomic
	// +k8s:optional
	// +k8s:listType=atomic
	// +k8s:maxItems=1024
	Instances []string `json:"instances,omitempty"`
	// Names of the WindowsInstances that keep the revision though somebody has undone it: neither their hosts nor
	// windows-controller have the programs of the other one, or those do not suit the API servers any more.
	// +optional
	// +listType=atomic
	// +k8s:optional
	// +k8s:listType=atomic
	// +k8s:maxItems=1024
	WithoutPrograms []string `json:"withoutPrograms,omitempty"`
	// Why, for people.
	// +optional
	// +k8s:optional
	// +k8s:maxBytes=4096
	Message string `json:"message,omitempty"`
}

// WindowsNodePoolStatus is what is known of a pool.
type WindowsNodePoolStatus struct {
	// The generation of the spec that this status is about.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// One word for people: Pending, Ready, Progressing, Paused or Degraded. Later releases may
	// have others: programs should read the conditions.
	// +optional
	// +k8s:optional
	Phase WindowsNodePoolPhase `json:"phase,omitempty"`
	// Number of hosts in the source. Bad entries of a ConfigMap do not count.
	// +optional
	DesiredReplicas int32 `json:"desiredReplicas"`
	// Number of WindowsInstances of the pool.
	// +optional
	Replicas int32 `json:"replicas"`
	// Number of them that are ready, but for those that are being deleted.
	// +optional
	ReadyReplicas int32 `json:"readyReplicas"`
	// Number of them whose current revision is the desired one. Those that a rollback keeps from updateRevision do not
	// count.
	// +optional
	UpdatedReplicas int32 `json:"updatedReplicas"`
	// Number of hosts in the source that are not ready.
	// +optional
	UnavailableReplicas int32 `json:"unavailableReplicas"`
	// Name of the ControllerRevision with the template that the pool has now, and with the programs that its hosts
	// are to have. Those before it, at most nine, those that hosts have and those of workedRevisions, are kept as well: kubectl windows rollout history.
	// +optional
	// +k8s:optional
	// +k8s:maxLength=253
	UpdateRevision string `json:"updateRevision,omitempty"`
	// Name of the ControllerRevision that all hosts of the pool had last, with none of them broken, or that they go back to because
	// somebody has undone the one after it. Hosts that never became Nodes do not count; nor, in a pool without a canary, do those that are
	// paused or could not be logged in to for an hour, as long as no more Nodes are left out than work with it. Empty: none yet.
	// +optional
	// +k8s:optional
	// +k8s:maxLength=253
	CurrentRevision string `json:"currentRevision,omitempty"`
	// Names of the ControllerRevisions that all hosts of the pool had, with none of them broken, and that nobody has undone since,
	// the newest last: those that kubectl windows rollout undo can go back to. The same hosts count as for currentRevision.
	// +optional
	// +listType=atomic
	// +k8s:optional
	// +k8s:listType=atomic
	// +k8s:maxItems=10
	WorkedRevisions []string `json:"workedRevisions,omitempty"`
	// Set while updateRevision is not rolled out because it broke hosts, and spec.updateStrategy.rollingUpdate.onFailure
	// asks for a rollback, or because somebody has undone it. Empty: nothing was rolled back, or that is over.
	// +optional
	// +k8s:optional
	RolledBack *PoolRollback `json:"rolledBack,omitempty"`
	// What hosts wait for that are to be updated, restarted, repaired or removed, for people: the bound, the window or
	// the failure, the hosts that it is about, and what to do. Empty: none waits.
	// +optional
	// +k8s:optional
	// +k8s:maxBytes=4096
	BlockedBy string `json:"blockedBy,omitempty"`
	// Hosts that were removed lately, because the source no longer has them or somebody deleted
	// their WindowsInstances. They are counted so that a mistake, which would remove many hosts in
	// a short time, is noticed before all of them are gone. Removals by the Machine API are not
	// among them. What no longer counts may stay here until the next removal.
	// +optional
	// +listType=atomic
	// +k8s:optional
	// +k8s:listType=atomic
	// +k8s:maxItems=1024
	RecentRemovals []PoolRemoval `json:"recentRemovals,omitempty"`
	// Hosts whose removal somebody has confirmed together with that of others, and for which recentRemovals has had no space yet.
	// They are recorded there, and removed, as those before them are done. Absent: there are none.
	// +optional
	// +k8s:optional
	ConfirmedRemovals *PoolConfirmedRemovals `json:"confirmedRemovals,omitempty"`
	// Conditions of the pool: SourceSynced, Updated, Updating, Degraded, Paused, and CredentialsCurrent from when its hosts
	// first get another key than they had. Each has a reason and a message with what to do.
	// +optional
	// +patchMergeKey=type
	// +patchStrategy=merge
	// +listType=map
	// +listMapKey=type
	// +k8s:optional
	Conditions []metav1.Condition `json:"conditions,omitempty" patchStrategy:"merge" patchMergeKey:"type"`
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// WindowsNodePoolList is a list of WindowsNodePools.
type WindowsNodePoolList struct {
	metav1.TypeMeta `json:",inline"`
	// Standard list metadata.
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`

	// The pools.
	Items []WindowsNodePool `json:"items"`
}
