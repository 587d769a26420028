// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

// Package clusterapi turns what Cluster API (cluster.x-k8s.io) knows of Windows hosts into objects of this API, in the namespace of the
// Cluster that this very cluster is:
//
//   - A MachineDeployment whose template has the label machine.openshift.io/os-id=Windows or kubernetes.io/os=windows becomes a
//     WindowsNodePool of the same name, and so does a MachineSet that no MachineDeployment controls.
//   - A Machine with one of these labels becomes a WindowsInstance of the same name, as soon as its infrastructure is provisioned and it
//     has an address.
//
// Objects of other Clusters, which a management cluster has, mean nothing here. A host whose Machine has the user data of package
// userdata is configured here; one that a bootstrap provider makes a node is only observed. A Machine that has a Machine of the Machine API is left
// to package machine.
//
// While the Cluster is paused or is not there, its Machines may be on their way to another cluster: nothing is made or deleted, and
// instances are paused. That is also why these have no owner that the garbage collector knows.
//
// The controllers wait for Cluster API where it is not installed, or may not be read. What the two sources of Machines have in common is in
// package machine. This package knows nothing of SSH: whether a host answers is told by the instance.
package clusterapi
