// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package winhost

import (
	"bytes"
	"io"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// single is a writer for one at a time, as a channel of SSH is.
type single struct {
	busy, overlapped atomic.Bool
	text             bytes.Buffer // guarded by nothing: the race detector sees it as well
}

func (s *single) Write(p []byte) (int, error) {
	if !s.busy.CompareAndSwap(false, true) {
		s.overlapped.Store(true)
		return len(p), nil
	}
	defer s.busy.Store(false)
	runtime.Gosched()
	return s.text.Write(p)
}

// TestConsoleWritesOneAtATime: what is typed while a program writes is echoed before or after what it writes.
func TestConsoleWritesOneAtATime(t *testing.T) {
	const lines = 2000
	out := &single{}
	input, keys := io.Pipe()
	terminal := newConsole(input, out, func() {})
	var wg sync.WaitGroup
	wg.Go(func() {
		_, _ = io.WriteString(keys, strings.Repeat("x\r", lines))
		_ = keys.Close()
	})
	wg.Go(func() {
		for range lines {
			_, _ = io.WriteString(terminal, "program\r\n")
		}
	})
	typed, err := io.ReadAll(terminal) // until the last key was echoed
	wg.Wait()
	if err != nil || string(typed) != strings.Repeat("x\n", lines) {
		t.Errorf("a program reads %d bytes, %v", len(typed), err)
	}
	if out.overlapped.Load() {
		t.Error("the echo is written while the program writes")
	}
	if got := strings.Count(out.text.String(), "program\r\n"); got != lines {
		t.Errorf("%d lines of the program, want %d", got, lines)
	}
}
