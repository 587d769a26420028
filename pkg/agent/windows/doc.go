// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

// Package windows is the host of the agent: Windows, through Win32 calls only. What its
// files decide without asking Windows is tested on every system.
//
// No child process is started and no PowerShell is needed: both are slow, are
// what malware scanners inspect first, and fail on a host that is in trouble.
package windows
