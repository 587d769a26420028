// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

// Package csr approves the certificate signing requests (CSRs) of the kubelets of
// hosts, for client certificates of a node and for those to serve with, and issues what hosts join with.
// Package policy decides; this package gathers the inputs of its decisions, and approves.
//
// What a host is called and where it is must come from elsewhere than from its kubelet,
// which writes the addresses of its Node itself: package identity knows from whom.
//
// The Node of an instance is found by its addresses, that is by what a kubelet says. So
// the instance is that Node here only if one of these sources, or DNS, knows the host
// by the name of the Node: else any kubelet could report the address of a host and get
// a certificate for it. The name of another Node is never a name of the host, whatever
// the host calls itself, and neither are the names of Services.
//
// A host joins the cluster with a client certificate of its node that [Issuer] gives it, good for
// an hour, with which its kubelet asks for its own, as that node. The key of the first request of a kubelet is only in its
// memory, so nobody can prove that such a request, made with a token that many may have, is that of a host; what the
// operation of an instance sends goes over a connection that has verified the host key, to nobody else. It is issued
// only if there is no Node of that name or the
// host is proven to be it: a host may be told to call itself as a node that it is not. A kubelet
// that has lost its certificate reports no more, so the Node of one that does is not given away.
//
// A request that is refused is not denied, because somebody else may be responsible for
// it. It stays pending; an event on the instance and the log say why, once, and only if
// it still is pending after 10 seconds. It is decided again when an
// instance changes, and now and then. An instance that was deleted counts until the removal of its host begins, which may
// wait for others. Requests that are not about an instance, and those
// of other signers, are left alone. Instances that are paused count as every other:
// nothing is done on the host.
//
// Approvals carry the resource version of the request that was decided about, so whatever
// happens to it meanwhile, it is neither approved twice nor after it was denied. Only the
// leader works.
//
// The package must not import another controller nor the packages that serve the API.
package csr
