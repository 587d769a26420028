// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package identity

import (
	"slices"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
)

// StandsFor says whether other stands for the host that it has in common with instance. An instance
// of another namespace, other than that of the operator, does so only if the host is proven to be
// its: who may write instances somewhere gets nobody off a host by naming it first.
//
// One that was deleted and stood for the host goes on until its host is clean, whoever comes: meanwhile
// nobody else may configure the host. One whose host was configured for another namespace has none.
func StandsFor(other, instance *v1alpha1.WindowsInstance, home string) bool {
	if other.Status.OfAnotherNamespace() {
		return false
	}
	return (other.Namespace == instance.Namespace || other.Namespace == home || HasHostOf(other, instance)) && first(other, instance, home)
}

// first says whether other comes before instance where both may stand for their host.
func first(other, instance *v1alpha1.WindowsInstance, home string) bool {
	if other.DeletionTimestamp.IsZero() {
		return Precedes(other, instance, home)
	}
	return slices.Contains(other.Finalizers, v1alpha1.HostFinalizer) && other.Status.KeptOff() == nil
}

// Precedes says which of two instances of the same host stands for it: the one that it was
// configured for; then one in the namespace of the operator before any other, so that nobody takes
// a host of the cluster over by naming its address elsewhere first, also not while that namespace
// is away; then the one that has found it configured; then the one for which it was logged in to;
// then the older one.
func Precedes(a, b *v1alpha1.WindowsInstance, home string) bool {
	for _, claims := range []func(instance, other *v1alpha1.WindowsInstance) bool{
		func(instance, other *v1alpha1.WindowsInstance) bool {
			return instance.Status.ChangedHost() && reaches(instance, other)
		},
		func(instance, _ *v1alpha1.WindowsInstance) bool { return instance.Namespace == home },
		func(instance, other *v1alpha1.WindowsInstance) bool {
			return instance.Status.MayHaveChangedHost() && reaches(instance, other)
		},
		HasHostOf,
	} {
		if claimsA, claimsB := claims(a, b), claims(b, a); claimsA != claimsB {
			return claimsA
		}
	}
	if !a.CreationTimestamp.Equal(&b.CreationTimestamp) {
		return a.CreationTimestamp.Before(&b.CreationTimestamp)
	}
	if a.Name != b.Name {
		return a.Name < b.Name
	}
	return a.Namespace < b.Namespace
}

// HasHostOf says whether the host that another instance names is the one that was logged in to for this
// one. Of a host that does not say which machine it is, each of its addresses is believed: otherwise
// two instances could configure it at the same time.
func HasHostOf(instance, other *v1alpha1.WindowsInstance) bool {
	return instance.Status.Identified() && (reaches(instance, other) ||
		instance.Status.MachineID == "" && Through(instance) == Through(other) && slices.ContainsFunc(instance.Status.FoundAt(), func(a string) bool {
			return slices.Contains(OfInstance(other), addressIdentity(a))
		}))
}

// reaches says whether the host of an instance is the one that another instance names. What counts
// is where it was logged in to, and through what, and not what the spec claims, such as a provider ID: whoever has
// one host, or a bastion, gets no other one by that.
func reaches(instance, other *v1alpha1.WindowsInstance) bool {
	if instance.Status.SameHost(&other.Status) {
		return true
	}
	// Where it is not recorded at which address that was: a name with several addresses does not say which of
	// them is that of its host. Those of a host that has not said which machine it is are those of its name,
	// whether it was found there or not.
	found := instance.Status.FoundAt()
	return instance.Status.MachineID != "" && len(found) == 1 && Through(instance) == Through(other) && slices.Contains(OfInstance(other), addressIdentity(found[0]))
}
