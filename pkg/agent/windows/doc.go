// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

// Package windows is the host of the agent: Windows, through Win32 calls only. Decisions that
// need no call of Windows are tested on every system.
//
// No child process is started and no PowerShell is needed: both are slow, trigger malware
// scanners, and fail on a host that is in trouble.
//
// It is one package because all of it implements [agent.Host] and [agent.System] on the same
// wrappers of handles, buffers, the registry and HRESULTs.
package windows
