// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

// Package machine turns what the Machine API of OpenShift (machine.openshift.io)
// knows of Windows hosts into objects of this API, in the namespace of the
// Machines:
//
//   - A MachineSet whose template has the label machine.openshift.io/os-id=Windows
//     becomes a WindowsNodePool of the same name.
//   - A Machine with that label becomes a WindowsInstance of the same name, as soon
//     as it is Provisioned and has an address. Case matters in the label.
//
// A Machine with the label windowsmachineconfig.openshift.io/ignore=true is left
// alone: no instance is made, and one that is there is paused. A Machine that is
// being deleted loses its instance, once no hook keeps the Machine API from draining its
// Node. In every other phase, Failed for example, its instance
// stays as it is. It also does when the label machine.openshift.io/os-id is taken off, because one
// command does that to all Machines; a condition of the instance says what to do then.
//
// The controllers wait for the Machine API where it is not installed. This package
// knows nothing of SSH: whether a host answers is told by the instance.
package machine
