// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package identity

import (
	"reflect"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
)

// identity is the part of an instance that hosts are recognized by.
type identity struct {
	address        string
	addresses      []string
	found, through string
	hostname, fqdn string
	told, joins    string
	node           string
	owner          *metav1.OwnerReference
	deleted        bool
	identified     bool
}

func identityOf(instance *v1alpha1.WindowsInstance) identity {
	id := identity{
		address: instance.Spec.Address, addresses: instance.Status.Addresses, found: instance.Status.HostIP, through: Through(instance),
		owner: MachineOf(instance), deleted: !instance.DeletionTimestamp.IsZero(), identified: instance.Status.Identified(),
	}
	if system := instance.Status.System; system != nil {
		id.hostname, id.fqdn, id.told = system.Hostname, system.FQDN, system.NodeName
	}
	id.joins = joinsAs(instance)
	if node := instance.Status.Node; node != nil {
		id.node = node.Name
	}
	return id
}

// Changed says whether something changed by which the host of an instance is recognized.
func Changed(before, after *v1alpha1.WindowsInstance) bool {
	return before.UID != after.UID || !reflect.DeepEqual(identityOf(before), identityOf(after))
}
