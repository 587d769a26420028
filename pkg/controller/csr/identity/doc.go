// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

// Package identity answers whose Node a Node is. It knows what hosts are called and where
// they are, from everybody but their kubelets.
//
// The Node of an instance is found by its provider ID and its addresses ([Nodes.Find]), and
// the kubelet itself writes those: it could report the address of any host. So before
// something is done with a Node in the name of an instance that a kubelet could profit from,
// the Node must be confirmed here ([Nodes.Verify], [Nodes.Host]): somebody else has to know
// the host by the name of the Node. Those are
//
//   - spec.address, which is written by whoever may make instances, and the addresses
//     that it resolves to (status.addresses);
//   - the addresses that the platform gave to its Machine, where there is one;
//   - the names that our agent found on the host, over SSH (status.system): how the host is called, and
//     how its platform calls it, which it says first when it joins (status.operation.joinsAs);
//   - DNS, if the name of the Node has an address of the host there.
//
// The package must not import a controller, nor the packages that serve the API.
package identity
