// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

// Package backend is what the subresources of the API server use: the way to hosts, the
// plans of dry runs, the MachineSets that pools are scaled by, and the events about
// sessions. It implements the interfaces of the registry, which knows none of this, and
// turns errors into those of the API.
//
// The package must not import a controller. It has no flags and starts nothing by itself;
// cmd/apiserver does.
package backend
