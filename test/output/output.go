// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

// Package output takes the output of programs in tests.
package output

import (
	"bytes"
	"sync"
)

// Buffer takes the output of a program while a test reads it. The zero value is ready; it is safe
// for concurrent use.
type Buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

// Write implements [io.Writer].
func (b *Buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

// String is what was written so far.
func (b *Buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}
