// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package stream

import (
	"io"
	"sync"
)

// buffer is what data is copied through. It begins small, because thousands of streams may carry little and seldom, and
// grows while it is filled, up to a chunk.
type buffer struct{ space []byte }

// minBufferSize is the first size of a buffer.
const minBufferSize = 2 << 10

// read reads once. What it returns is valid until it is called again.
func (b *buffer) read(from io.Reader) ([]byte, error) {
	if b.space == nil {
		b.space = make([]byte, minBufferSize)
	}
	n, err := from.Read(b.space)
	data := b.space[:n]
	if n == len(b.space) && n < chunkSize {
		b.space = make([]byte, min(2*n, chunkSize))
	}
	return data, err
}

// writeBuffers are those of WebSocket connections, which need one only while they write.
var writeBuffers sync.Pool
