// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

// Package takeover has what the Windows Machine Config Operator (WMCO) records on Nodes of the
// host behind them, as it wants to find it on Nodes that are given back to it.
//
// It is pure: no I/O, no clients. Of this project it imports package wmco only.
package takeover
