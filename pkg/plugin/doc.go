// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

// Package plugin is kubectl-windows, which kubectl runs for `kubectl windows` and oc for
// `oc windows`: the commands, what they have in common, and how their answers look.
//
// It knows the API server alone. Everything that happens on a host is requested through
// subresources of WindowsInstance, so no command needs SSH, a credential of a host, or
// a way to it, and what a user may do is decided by the RBAC of the cluster.
//
// Each command is in a file of its own. A command finds its hosts with [client.targets],
// works on several of them with [env.each], and says how it ended with an [ExitError].
//
// It is one package because the commands are small and share all of that: how hosts are
// selected, how output and errors look, and how operations are followed. Only following
// logs, which no other command does, is a package of its own.
//
// The package imports the API, its clients, and the libraries of kubectl; nothing that
// runs in a server or on a host.
package plugin
