// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

// Package upgrade proves that the programs of this tree take over what those of an earlier
// release have left: objects in etcd, and files, services and settings on hosts.
//
// Below testdata is one directory for each release, which was captured while the programs of
// that release ran and is never changed: what is stored in a cluster cannot be changed
// either. See testdata/README.md for what is in it and how to capture one. Tests use the API
// and what runs beside the programs only, not how the programs are built.
package upgrade
