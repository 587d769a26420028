// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

// Package updates is the part of the service of a host that knows the updates of Windows. Windows
// lets nobody download or install updates who is logged on over the network, as whoever starts the agent
// over SSH is.
//
// What is decided is the same on every operating system; the Windows Update Agent is behind [Source].
// It must not import package windows.
package updates
