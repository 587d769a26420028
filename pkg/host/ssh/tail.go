// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package ssh

import (
	"strings"
	"sync"
)

// stderrLimit is how much of the end of standard error is kept, in bytes.
const stderrLimit = 8 << 10

// tail is a writer that keeps the last limit bytes.
type tail struct {
	limit int

	mu   sync.Mutex
	data []byte
}

// Write implements io.Writer; it never fails.
func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := len(p)
	p = p[max(0, n-t.limit):]
	if drop := len(t.data) + len(p) - t.limit; drop > 0 {
		t.data = t.data[:copy(t.data, t.data[drop:])]
	}
	t.data = append(t.data, p...)
	return n, nil
}

// String returns what was kept. Bytes that are not UTF-8, be it because a character was cut in two or
// because Windows programs use the code page of the console, are replaced.
func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.ToValidUTF8(string(t.data), "\uFFFD")
}
