// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

// Package inputs keeps what hosts shall be like current, for the controllers that bring
// them there: it reads from the cluster, again and again, what the configuration of hosts
// depends on, tells whoever wants to know when that has changed, and builds the
// configuration of one host.
//
// It reads by polling and not by watching: it is a handful of objects in namespaces that
// a cache would otherwise have to hold whole, some of them of kinds that a cluster may
// not have, and a change of them may take some seconds to arrive.
//
// The package must not import another controller nor the packages that serve the API.
package inputs
