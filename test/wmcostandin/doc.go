// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

// Package wmcostandin stands in for the Windows Machine Config Operator (WMCO) 11: what it decides about Machines, entries of
// ConfigMap windows-instances and Nodes, and what it does then to the cluster and to a host, as far as others can see it. Names
// and formats are written here once more, by the facts of that release, so that a mistake in those of the product is found.
//
// The daemon that WMCO puts on hosts (WICD) writes the version of their Nodes, which WMCO waits for; it runs on while WMCO does not, until
// its service is gone from the host. User data of others has Machines deleted.
//
// It is stricter than the real one where that only helps hosts: it deletes a Machine at once, whereas the real one waits for the other
// Machines of the MachineSet, and for five minutes when a host refuses its key. It neither restarts hosts for an annotation nor writes
// registries, nor compares what its ConfigMap of services has; but it removes those of others whenever it may, and it reads the user of each Windows Node, as all that goes through Nodes does.
package wmcostandin
