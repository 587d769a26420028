// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package v1alpha1

// Types of conditions of a WindowsInstance, in the order in which they are found out.
const (
	// ConditionResolved says whether spec.address resolves to at least one IP address that may be dialed.
	ConditionResolved = "Resolved"
	// ConditionReachable says whether an SSH server answers there.
	ConditionReachable = "Reachable"
	// ConditionHostKeyTrusted says whether the host presents a host key that is trusted.
	ConditionHostKeyTrusted = "HostKeyTrusted"
	// ConditionAuthenticated says whether the host accepts our credentials and opens a session.
	ConditionAuthenticated = "Authenticated"
	// ConditionCredentialsCurrent says whether the host accepts the key that its Secret has now, and none that
	// the Secret had before. An instance, and a pool, has it from the first rotation of the key on.
	ConditionCredentialsCurrent = "CredentialsCurrent"
	// ConditionPreflightPassed says whether the host is fit to be a node; the message lists all findings.
	ConditionPreflightPassed = "PreflightPassed"
	// ConditionConfigured says whether the host is configured completely.
	ConditionConfigured = "Configured"
	// ConditionRebootRequired says whether Windows waits for a reboot, and why.
	ConditionRebootRequired = "RebootRequired"
	// ConditionUpToDate says whether the host has the desired revision.
	ConditionUpToDate = "UpToDate"
	// ConditionNodeReady says whether the Node of the host is ready.
	ConditionNodeReady = "NodeReady"
	// ConditionReady sums up: the login works, and the host is fit, configured, and its Node ready.
	ConditionReady = "Ready"
	// ConditionRemoved is how far the removal of the host has come, once the object is deleted.
	ConditionRemoved = "Removed"
)

// Types of conditions of a WindowsNodePool.
const (
	// ConditionSourceSynced says whether everything in the source could be
	// turned into instances; the message has a line for each entry that could not. An instance
	// has it only while its source no longer asks for it and it is kept.
	ConditionSourceSynced = "SourceSynced"
	// ConditionUpdated says whether all hosts have the desired configuration, in the Machine Config Operator's meaning.
	ConditionUpdated = "Updated"
	// ConditionUpdating says whether hosts are being updated or restarted, or are next. It is not true while all that are left wait for
	// somebody or for a time, such as the window of the pool.
	ConditionUpdating = "Updating"
	// ConditionDegraded says whether a person has to act.
	ConditionDegraded = "Degraded"
	// ConditionPaused says whether the hosts of the pool are not changed.
	ConditionPaused = "Paused"
)

// Reasons of the conditions of a WindowsInstance.
const (
	// ReasonNotTried is the reason of every condition that waits for one before it.
	ReasonNotTried = "NotTried"
	// ReasonPaused: the instance or its pool is paused.
	ReasonPaused = "Paused"

	// ReasonAddressResolved (Resolved=True).
	ReasonAddressResolved = "AddressResolved"
	// ReasonNameNotResolved (Resolved=False): DNS does not know the name.
	ReasonNameNotResolved = "NameNotResolved"
	// ReasonAddressRefused (Resolved=False): policy refuses every address that the name resolves to.
	ReasonAddressRefused = "AddressRefused"
	// ReasonDuplicateHost (Resolved=False): another instance represents this host already.
	ReasonDuplicateHost = "DuplicateHost"
	// ReasonHostOfAnotherNamespace (Resolved=False): the Node of the host says that the host was configured
	// for an instance in another namespace.
	ReasonHostOfAnotherNamespace = "HostOfAnotherNamespace"

	// ReasonSSHAnswers (Reachable=True).
	ReasonSSHAnswers = "SSHAnswers"
	// ReasonConnectionRefused (Reachable=False): nothing listens on the port.
	ReasonConnectionRefused = "ConnectionRefused"
	// ReasonConnectionTimedOut (Reachable=False): no answer at all.
	ReasonConnectionTimedOut = "ConnectionTimedOut"
	// ReasonHostUnreachable (Reachable=False): no route to the host.
	ReasonHostUnreachable = "HostUnreachable"
	// ReasonConnectionReset (Reachable=False): the connection was closed before or during the handshake.
	ReasonConnectionReset = "ConnectionReset"
	// ReasonHandshakeTimedOut (Reachable=False): the port accepts connections and then sends nothing, or too slowly.
	ReasonHandshakeTimedOut = "HandshakeTimedOut"
	// ReasonNotSSH (Reachable=False): something other than an SSH server answers.
	ReasonNotSSH = "NotSSH"
	// ReasonHandshakeFailed (Reachable=False): no algorithm in common.
	ReasonHandshakeFailed = "HandshakeFailed"

	// ReasonBastionUnreachable (Reachable=False): the bastion of the host cannot be reached, or breaks off before the login.
	ReasonBastionUnreachable = "BastionUnreachable"
	// ReasonBastionHostKeyChanged (Reachable=False): the bastion presents another host key than the pinned ones.
	ReasonBastionHostKeyChanged = "BastionHostKeyChanged"
	// ReasonBastionRefused (Reachable=False): the bastion refuses our credentials, or to connect to the host.
	ReasonBastionRefused = "BastionRefused"

	// ReasonPinned (HostKeyTrusted=True): the key is one of spec.hostKeys.
	ReasonPinned = "Pinned"
	// ReasonFirstUse (HostKeyTrusted=True): the key is the first one the host ever presented.
	ReasonFirstUse = "FirstUse"
	// ReasonHostKeyChanged (HostKeyTrusted=False): the host presents another key than the trusted one, or at the first
	// contact another one than WMCO has met it with.
	ReasonHostKeyChanged = "HostKeyChanged"
	// ReasonHostKeyUnconfirmed (HostKeyTrusted=False): the object was restored without its status, so that
	// no key is trusted any more although something of ours is on the host.
	ReasonHostKeyUnconfirmed = "HostKeyUnconfirmed"
	// ReasonAnotherHost (HostKeyTrusted=False): spec.address leads to another machine than the one of this instance.
	ReasonAnotherHost = "AnotherHost"

	// ReasonLoggedIn (Authenticated=True).
	ReasonLoggedIn = "LoggedIn"
	// ReasonCredentialsMissing (Authenticated=False): the Secret or its key does not exist or cannot be used.
	ReasonCredentialsMissing = "CredentialsMissing"
	// ReasonCredentialsRefused (Authenticated=False): the host does not accept the key or the password.
	ReasonCredentialsRefused = "CredentialsRefused"
	// ReasonAuthenticationTimedOut (Authenticated=False): the host went silent while logging in.
	ReasonAuthenticationTimedOut = "AuthenticationTimedOut"
	// ReasonSessionRefused (Authenticated=False): logged in, but the host opens no session.
	ReasonSessionRefused = "SessionRefused"
	// ReasonConnectionLost (Authenticated=False): the connection broke after the host key was verified.
	ReasonConnectionLost = "ConnectionLost"

	// ReasonKeyRotated (CredentialsCurrent=True): the host accepts the key of its Secret, and the former ones were removed from it.
	ReasonKeyRotated = "KeyRotated"
	// ReasonKeyRotationPending (CredentialsCurrent=False): the host has a former key, and gets the new one without anybody's doing.
	ReasonKeyRotationPending = "KeyRotationPending"
	// ReasonKeyRotationFailed (CredentialsCurrent=False): the host could not be given the new key, or the former one could
	// not be removed from it. It is logged in to as before.
	ReasonKeyRotationFailed = "KeyRotationFailed"
	// ReasonKeyRotationInterrupted (CredentialsCurrent=False): the host did not answer, or the connection broke, while it was given the
	// new key. That says nothing about the key, and the host may have it.
	ReasonKeyRotationInterrupted = "KeyRotationInterrupted"
	// ReasonHostsRefuse (CredentialsCurrent=False), of a pool: hosts accept neither the key of their Secret nor one that was kept.
	ReasonHostsRefuse = "HostsRefuse"

	// ReasonPreflightPassed (PreflightPassed=True).
	ReasonPreflightPassed = "PreflightPassed"
	// ReasonHostnameTaken (PreflightPassed=False): another host has the same computer name, and is the Node of that name or comes before this
	// one.
	ReasonHostnameTaken = "HostnameTaken"
	// ReasonFindings (PreflightPassed=False): the message lists what is in the way.
	ReasonFindings = "Findings"
	// ReasonAgentNotInstalled (PreflightPassed=Unknown): our program could not be installed on the host.
	ReasonAgentNotInstalled = "AgentNotInstalled"
	// ReasonAgentFailed (PreflightPassed=Unknown): our program ran on the host and failed.
	ReasonAgentFailed = "AgentFailed"

	// ReasonConfigured (Configured=True): the host is configured completely.
	ReasonConfigured = "Configured"
	// ReasonConfiguring (Configured=False): the host is being configured, or will be soon.
	ReasonConfiguring = "Configuring"
	// ReasonConfigurationFailed (Configured=False): configuring the host failed; its Node may be cordoned.
	ReasonConfigurationFailed = "ConfigurationFailed"
	// ReasonKubeletCertificateUnusable (Configured=False): the kubelet has no client certificate that it can use, and the host will join again.
	ReasonKubeletCertificateUnusable = "KubeletCertificateUnusable"
	// ReasonInputsMissing (Configured=False, UpToDate=Unknown; of a pool Degraded=True): something in the cluster that hosts are configured with is missing or wrong.
	ReasonInputsMissing = "InputsMissing"
	// ReasonForeignNode (Configured=Unknown, UpToDate=Unknown): others made the host a node, and it is left to them.
	ReasonForeignNode = "ForeignNode"
	// ReasonManagedByWMCO (Configured=Unknown, UpToDate=Unknown): the Windows Machine Config Operator runs, and made the host a node or may be about to: the host is only watched.
	ReasonManagedByWMCO = "ManagedByWMCO"
	// ReasonNotManaged (Configured=Unknown): the controller has no payload, so that hosts are watched and not configured.
	ReasonNotManaged = "NotManaged"

	// ReasonRebootPending (RebootRequired=True).
	ReasonRebootPending = "RebootPending"
	// ReasonNoRebootPending (RebootRequired=False).
	ReasonNoRebootPending = "NoRebootPending"

	// ReasonRevisionCurrent (UpToDate=True).
	ReasonRevisionCurrent = "RevisionCurrent"
	// ReasonRevisionOutdated (UpToDate=False).
	ReasonRevisionOutdated = "RevisionOutdated"

	// ReasonUpdateFailed (UpToDate=False): bringing the host to the desired revision failed before
	// the host was changed, so that it works as it did.
	ReasonUpdateFailed = "UpdateFailed"
	// ReasonUpdateCanceled (UpToDate=False): the same, because a user canceled it.
	ReasonUpdateCanceled = "UpdateCanceled"

	// ReasonNodeReady (NodeReady=True).
	ReasonNodeReady = "NodeReady"
	// ReasonNodeNotReady (NodeReady=False): the Node exists and is not ready.
	ReasonNodeNotReady = "NodeNotReady"
	// ReasonNoNode (NodeReady=False): no Node has the address or provider ID of the host.
	ReasonNoNode = "NoNode"

	// ReasonAllChecksPassed (Ready=True).
	ReasonAllChecksPassed = "AllChecksPassed"

	// ReasonRemoving (Removed=False): the host is being cleaned.
	ReasonRemoving = "Removing"
	// ReasonRemovalFailed (Removed=False): the host could not be cleaned; the message explains why and what to do.
	ReasonRemovalFailed = "RemovalFailed"
)

// Reasons of the conditions of a WindowsNodePool.
const (
	// ReasonSynced (SourceSynced=True).
	ReasonSynced = "Synced"
	// ReasonInvalidEntries (SourceSynced=False, Degraded=True): some entries cannot be used.
	ReasonInvalidEntries = "InvalidEntries"
	// ReasonSourceNotFound (SourceSynced=False, Degraded=True): the source does not exist.
	ReasonSourceNotFound = "SourceNotFound"
	// ReasonConfirmationNeeded (SourceSynced=False, Degraded=True): the source no longer asks for
	// hosts that are kept until a user confirms that they are to be removed. Of an instance
	// (Removed=False): it was deleted with more others of its pool than may be removed without that. Of an instance
	// (UpToDate=False): its host was configured before the object or its pool was made, and is left as it is until somebody says what it is to have. Of
	// a pool (Updating=False): it has such hosts.
	ReasonConfirmationNeeded = "ConfirmationNeeded"
	// ReasonLabelRemoved (SourceSynced=False), of an instance: its Machine lives on, and is not one
	// of Windows any more by its label.
	ReasonLabelRemoved = "LabelRemoved"
	// ReasonReplacementsStopped (SourceSynced=False), of a pool: the hosts of its Machines refuse the key, also after
	// one of them was replaced, or none has come for long that accepts it.
	ReasonReplacementsStopped = "ReplacementsStopped"
	// ReasonInstancesFailed (Degraded=True): some hosts need a person to act.
	ReasonInstancesFailed = "InstancesFailed"
	// ReasonHostsBroken (Degraded=True): an update or a restart broke hosts, whose Nodes are not ready since.
	// (Updating=False): the others wait for that.
	ReasonHostsBroken = "HostsBroken"
	// ReasonRemediationExhausted (Degraded=True): everything was done to hosts that spec.remediation says, and their Nodes are still not ready.
	ReasonRemediationExhausted = "RemediationExhausted"
	// ReasonUpdatesStopped (Degraded=True, Updating=False): an update, or updates of Windows, failed on too many hosts, and reach no further one.
	ReasonUpdatesStopped = "UpdatesStopped"
	// ReasonUpdatesFailed (Degraded=False): hosts could not be brought to their desired
	// revision, lack updates of Windows that could not be installed or searched for, or could not be restarted as their pool asks for; they work as
	// they did.
	ReasonUpdatesFailed = "UpdatesFailed"
	// ReasonAllUpdated (Updated=True, Updating=False).
	ReasonAllUpdated = "AllUpdated"
	// ReasonUpdateOutstanding (Updated=False): some hosts have another configuration than the desired one.
	ReasonUpdateOutstanding = "UpdateOutstanding"
	// ReasonRolledBack (Updated=False, Degraded=True): the revision that the pool has now broke hosts, and is not rolled
	// out; see status.rolledBack. Updating=False: hosts are kept from it.
	ReasonRolledBack = "RolledBack"
	// ReasonUndone (Updated=True, Updating=False): all hosts have the revision that somebody has asked to go back to; see status.rolledBack.
	// Updated=False: not all have it yet.
	ReasonUndone = "Undone"
	// ReasonUndoRefused (Degraded=True): somebody has asked to go back to a revision, which the hosts cannot or must not have, or not any more.
	ReasonUndoRefused = "UndoRefused"
	// ReasonRevisionNotKept (Degraded=True): the API server does not accept the ControllerRevision of the template that the pool has now, so that
	// the change neither ends a rollback nor can be gone back to.
	ReasonRevisionNotKept = "RevisionNotKept"
	// ReasonRevisionLost (Degraded=True): the ControllerRevision that hosts go back to which the newest revision breaks (onFailure: Rollback) is gone,
	// so that they stay as they are.
	ReasonRevisionLost = "RevisionLost"
	// ReasonUpdateInProgress (Updating=True).
	ReasonUpdateInProgress = "UpdateInProgress"
	// ReasonWindowClosed (Updating=False): hosts wait for the window of the pool.
	ReasonWindowClosed = "WindowClosed"
	// ReasonUpdatesOnRequest (Updating=False): hosts are updated when somebody asks for it.
	ReasonUpdatesOnRequest = "UpdatesOnRequest"
	// ReasonCanariesUpdated (Updating=False): the canaries are updated, and the other hosts wait until somebody raises or removes their number.
	ReasonCanariesUpdated = "CanariesUpdated"
	// ReasonHostsOutOfService (Updating=False): hosts wait for others that are out of service, such as those whose Node somebody has cordoned, and on
	// which nothing is done; as many may be out of service at a time as spec.updateStrategy.rollingUpdate.maxUnavailable says.
	ReasonHostsOutOfService = "HostsOutOfService"
	// ReasonUpdateCostUnknown (Updating=False): hosts have not said for long what their update costs, and are not updated before.
	ReasonUpdateCostUnknown = "UpdateCostUnknown"
	// ReasonUpdateBlocked (Updating=False): hosts wait for somebody, or for a time, and not all for the same; see status.blockedBy.
	ReasonUpdateBlocked = "UpdateBlocked"
	// ReasonAsExpected (Degraded=False).
	ReasonAsExpected = "AsExpected"
	// ReasonNotPaused (Paused=False).
	ReasonNotPaused = "NotPaused"
)
