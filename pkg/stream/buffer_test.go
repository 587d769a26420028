// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package stream

import (
	"bytes"
	"testing"
	"testing/iotest"
)

// A stream that carries little has a small buffer, and one that carries much soon has chunks.
func TestBuffer(t *testing.T) {
	content := bytes.Repeat([]byte("0123456789abcdef"), 8*chunkSize/16)
	var little, much buffer
	from := iotest.OneByteReader(bytes.NewReader(content))
	for i := range 2 * minBufferSize {
		if data, err := little.read(from); err != nil || !bytes.Equal(data, content[i:i+1]) {
			t.Fatalf("got %q, %v", data, err)
		}
	}
	if n := len(little.space); n != minBufferSize {
		t.Errorf("bytes that come one by one are read into %d", n)
	}
	var got []byte
	largest := 0
	for all := bytes.NewReader(content); ; {
		data, err := much.read(all)
		if err != nil {
			break
		}
		got = append(got, data...)
		largest = max(largest, len(data))
	}
	if !bytes.Equal(got, content) {
		t.Error("something else was read")
	}
	if largest != chunkSize {
		t.Errorf("at most %d bytes were read at once, want %d", largest, chunkSize)
	}
}
