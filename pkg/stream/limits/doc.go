// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

// Package limits admits streams: so many on one host, by one user, of one namespace and in all, by
// kind. When the server stops it admits none, and waits until those that are open have ended.
//
// It must not import any other package of this module: who may open a stream, and what flows
// through it, is decided elsewhere.
package limits
