// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package transfer

import "testing"

// However many files are sent to however many hosts, what is under way has a bound; a few files have all that they can use, and
// none has nothing.
func TestRequestsAreShared(t *testing.T) {
	const few, files = 4, 128 * 4
	var r requests
	all := 0
	var ends []func()
	for i := range files {
		n, end := r.share()
		if i < few && n != requestsInFlight || n < 1 {
			t.Errorf("file %d has %d requests", i, n)
		}
		all += n
		ends = append(ends, end)
	}
	if size := all * 32 << 10; size > 256<<20 {
		t.Errorf("%d MiB are under way", size>>20)
	}
	for _, end := range ends {
		end()
	}
	if n, _ := r.share(); n != requestsInFlight {
		t.Errorf("when the others are over, a file has %d requests", n)
	}
}
