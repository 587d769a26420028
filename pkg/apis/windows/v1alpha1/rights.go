// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package v1alpha1

// Rights that go beyond the verbs of instances and pools. Each is a verb on a resource that
// exists in RBAC rules only: a role may grant every verb on windowsinstances, as those of
// administrators of a namespace often do, and none of these.
const (
	// ResourceCredentials are the credentials that hosts are logged in to with. Users with the
	// verb [VerbUse] on the one that is named [CredentialsCluster], in the namespace of an
	// instance or pool, may let our programs use the cluster-wide key for it. The Secret of the
	// key itself may not be named: whoever could get it would have the key.
	ResourceCredentials = "windowscredentials"
	// CredentialsCluster is the cluster-wide key.
	CredentialsCluster = "cluster"
	// VerbUse is the verb on ResourceCredentials.
	VerbUse = "use"

	// ResourceHostKeys are the keys by which hosts are known, each with the name of the
	// instance. Who has the verb [VerbTrust] on it may change spec.hostKeys of the instance.
	ResourceHostKeys = "windowshostkeys"
	// VerbTrust is the verb on ResourceHostKeys.
	VerbTrust = "trust"

	// ResourceHosts are the hosts themselves, each with the name of the instance. Who has
	// the verb [VerbAbandon] on it may have the host left as it is when the instance is deleted.
	ResourceHosts = "windowshosts"
	// VerbAbandon is the verb on ResourceHosts.
	VerbAbandon = "abandon"
)
