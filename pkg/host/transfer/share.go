// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package transfer

import "sync/atomic"

const (
	// requestsShared are shared by the files that are under way: they are 64 MiB.
	requestsShared = 2048
	// minRequests are those of a file in any case.
	minRequests = 2
)

// requests bounds the memory of what is under way to all hosts together: 241 MiB for 128 hosts, which have four files each. No
// file waits for another one, as one of them may go to a host that hangs.
type requests struct{ files atomic.Int64 }

// share is how many writes a file may have under way that begins now, until end is called.
func (r *requests) share() (n int, end func()) {
	n = int(requestsShared / r.files.Add(1))
	return max(minRequests, min(n, requestsInFlight)), func() { r.files.Add(-1) }
}
