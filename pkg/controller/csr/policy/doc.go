// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

// Package policy decides which certificate signing requests (CSRs) of hosts are
// approved: those by which a kubelet gets the certificate that it talks to the API
// server with, and the one that it serves with.
//
// Whoever gets such a certificate is that node, so everything is compared exactly:
// signer, requester, subject, usages and every name and address that is asked for.
// What does not match is refused with a reason; what is not about a host of ours is
// left to whom it concerns.
//
// Everything here is a pure decision about values that are given: no I/O, no
// clients. The package imports no other package of this project.
package policy
