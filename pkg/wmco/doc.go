// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

// Package wmco holds what must stay as the Windows Machine Config Operator
// (WMCO) has it, so that a cluster which ran it keeps its inputs and its nodes:
// names, the layout of a host, what differs between platforms, and by which address
// it goes to a host.
//
// Everything here is pure: no I/O, no clients. The package imports no other
// package of this project.
package wmco
