// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package agenthost

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
)

// TestReplaceKeepingTwice: of two agents that replace a file at the same time, as when a controller was killed and the next one asks
// again, each replaces it as a whole.
func TestReplaceKeepingTwice(t *testing.T) {
	drive := t.TempDir()
	const path = `C:\keys`
	local := filepath.Join(drive, "keys")
	contents := [][]byte{bytes.Repeat([]byte("former "), 1<<12), bytes.Repeat([]byte("new "), 1<<10)}
	replace := func(content []byte) {
		if err := NewSystem(drive, nil).ReplaceKeeping(path, content); err != nil {
			t.Error(err)
		}
	}
	replace(contents[0])
	var all sync.WaitGroup
	for _, content := range contents {
		all.Go(func() {
			for range 50 {
				replace(content)
			}
		})
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		all.Wait()
	}()
	for over := false; !over; {
		select {
		case <-ended:
			over = true
		default:
		}
		found, err := os.ReadFile(local)
		if err != nil || !slices.ContainsFunc(contents, func(c []byte) bool { return bytes.Equal(c, found) }) {
			t.Errorf("the file has %d bytes, of %d or %d: %v", len(found), len(contents[0]), len(contents[1]), err)
			break
		}
	}
	<-ended
	if entries, err := os.ReadDir(drive); err != nil || len(entries) != 1 {
		t.Errorf("there are %v: %v", entries, err)
	}
}
