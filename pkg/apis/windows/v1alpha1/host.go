// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package v1alpha1

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// LostStatus says whether something of ours is on the host and nothing is known of the host: the
// object was restored from a backup without its status. The status has host keys from the first
// contact on, and the finalizer comes later.
func (i *WindowsInstance) LostStatus() bool {
	return slices.Contains(i.Finalizers, HostFinalizer) && len(i.Status.HostKeys) == 0
}

// GivenUpAt is when the host of an instance that is being deleted is given up if it cannot be reached. Zero: never.
func (i *WindowsInstance) GivenUpAt() time.Time {
	if i.DeletionTimestamp.IsZero() || i.Spec.Removal == nil || i.Spec.Removal.AfterSeconds == nil {
		return time.Time{}
	}
	return i.DeletionTimestamp.Add(time.Duration(*i.Spec.Removal.AfterSeconds) * time.Second)
}

// Identified says whether the controller has logged in to the host for this very instance, or for
// one that handed the host over to it. Whoever may write instances names any address and any public
// host key: without this, an instance says nothing about a host. It stays so while the host is down,
// its credentials or keys are replaced, and no controller runs. Releases that did not record
// status.machineID left the version of the agent that answered them, or an operation that has changed
// the host. An object that was restored without its status is not identified.
func (s *WindowsInstanceStatus) Identified() bool {
	return s.MachineID != "" || s.Version != "" || s.ChangedHost() || meta.IsStatusConditionTrue(s.Conditions, ConditionAuthenticated)
}

// FoundAt are the IP addresses at which the host was found. Releases that did not record
// status.hostIP left all those that spec.address resolved to, and of a host that was not logged in to
// there are no others.
func (s *WindowsInstanceStatus) FoundAt() []string {
	if s.HostIP != "" {
		return []string{s.HostIP}
	}
	return s.Addresses
}

// KeptOff is the condition that says why the host is not that of the instance: another one represents
// it, or it was configured for another namespace. Nil: nothing says so.
func (s *WindowsInstanceStatus) KeptOff() *metav1.Condition {
	c := meta.FindStatusCondition(s.Conditions, ConditionResolved)
	if c == nil || c.Reason != ReasonDuplicateHost && c.Reason != ReasonHostOfAnotherNamespace {
		return nil
	}
	return c
}

// OfAnotherNamespace says whether the host was found to be configured for another namespace. The instance then
// keeps nobody off it.
func (s *WindowsInstanceStatus) OfAnotherNamespace() bool {
	c := s.KeptOff()
	return c != nil && c.Reason == ReasonHostOfAnotherNamespace
}

// Machine is the machine that the instance stands for: the one that an administrator has named
// in [MachineAnnotation], else the one that was found at the first login. Empty: not known yet.
func (i *WindowsInstance) Machine() string {
	return cmp.Or(i.Annotations[MachineAnnotation], i.Status.MachineID)
}

// SameMachine says whether two identities, as status.machineID has them, may be those of one
// machine. What a host cannot say of itself, an empty part, tells no machines apart. Windows may
// have been reinstalled on a machine, whose firmware stays the same.
func SameMachine(a, b string) bool {
	firmwareA, windowsA, _ := strings.Cut(a, "/")
	firmwareB, windowsB, _ := strings.Cut(b, "/")
	if firmwareA != "" && firmwareB != "" {
		return firmwareA == firmwareB
	}
	return windowsA == "" || windowsB == "" || windowsA == windowsB
}

// SameHost says whether two statuses are about the same host, as far as hosts prove who they
// are: they are the same machine, which they only say, and have proven to have the same host key. Two machines that cannot be told
// apart, copies of one disk, have the same keys as well.
func (s *WindowsInstanceStatus) SameHost(other *WindowsInstanceStatus) bool {
	// Who says nothing of itself is not one that does.
	const silent = "/"
	return s.MachineID != "" && other.MachineID != "" && (s.MachineID == silent) == (other.MachineID == silent) && SameMachine(s.MachineID, other.MachineID) &&
		slices.ContainsFunc(s.HostKeys, func(a HostKeyStatus) bool {
			return slices.ContainsFunc(other.HostKeys, func(b HostKeyStatus) bool { return a.Type == b.Type && a.Key == b.Key })
		})
}
