// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

// Package machineconfig reads what the MachineConfig of OpenShift's own workers says about
// their kubelets, as far as it holds for those of Windows hosts, too: a rendered one, in
// which the Machine Config Operator has merged all others of the pool.
//
// Units are read by a reader of its own: the parser of go-systemd ends a command at a comment between its lines, refuses long lines of files that
// systemd reads, and leaves quotes and escapes to its caller. See decision 65.
//
// It decides nothing about hosts, and does no I/O. It must not import anything of this repository.
package machineconfig
