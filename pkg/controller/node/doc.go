// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

// Package node keeps the metadata of the Nodes of hosts as it should be while they run:
// the labels and taints of the template of the pool, or of the one that its hosts have gone back to, the labels and annotations by which
// tools of OpenShift know the Nodes of hosts and which version configured them, and the
// provider's ID of the machine. What is taken out of the template is taken off the Nodes;
// what others set stays. Nothing else follows from a change: no host is contacted, no
// service restarted, no pod evicted but by a taint that says so.
//
// Labels and annotations are written by server-side apply, so that what is removed is
// known by who owns it. The taints of a Node are one list that belongs to nobody, as several
// write to it: which of them are ours is kept in [v1alpha1.ManagedTaintsAnnotation], in the same
// write, and that is refused if the Node changed meanwhile.
//
// Only Nodes that this project made are touched: the instance must have the finalizer of
// hosts with something of ours on them, and the host must have been configured once, and neither
// be released nor such that a release may have begun. A kubelet that reports the address of a host is not its Node yet, see package identity.
//
// The package must not import another controller, but for packages identity and policy of
// csr, nor the packages that serve the API, nor those that speak to hosts.
package node
