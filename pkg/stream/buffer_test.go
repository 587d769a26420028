// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package stream

import (
	"bytes"
	"errors"
	"io"
	"testing"
	"testing/iotest"
)

// A stream that carries little has a small buffer, and one that carries much soon has chunks.
func TestBuffer(t *testing.T) {
	content := bytes.Repeat([]byte("0123456789abcdef"), 8*chunkSize/16+1)
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

// A message that comes in pieces is handed on in as few parts as there is room for.
func TestWhole(t *testing.T) {
	content := bytes.Repeat([]byte("x"), 2*chunkSize+1)
	message, p := whole{iotest.HalfReader(bytes.NewReader(content))}, make([]byte, chunkSize)
	for _, want := range []struct {
		n   int
		err error
	}{{chunkSize, nil}, {chunkSize, nil}, {1, io.EOF}, {0, io.EOF}} {
		if n, err := message.Read(p); n != want.n || !errors.Is(err, want.err) {
			t.Errorf("read %d, %v, want %d, %v", n, err, want.n, want.err)
		}
	}
	broken := whole{iotest.TimeoutReader(bytes.NewReader(content))}
	if _, err := broken.Read(make([]byte, len(content)+1)); !errors.Is(err, iotest.ErrTimeout) {
		t.Errorf("a message that broke off ends with %v", err)
	}
}
