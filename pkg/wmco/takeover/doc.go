// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

// Package takeover reads what the Windows Machine Config Operator (WMCO) wrote on the
// Nodes that it created, and returns what of it is stopped and removed when such a Node is
// taken over.
//
// Nodes of WMCO are adopted without it, by package wmco alone; it writes on Nodes that are given back. It is pure: no I/O, no
// clients. Of this project it imports package wmco only.
package takeover
