// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package logs

import (
	"errors"
	"io/fs"
	"testing"
	"testing/fstest"
)

// TestInfoOf: a file that cannot be opened is described as its directory does, and one that has gone is not.
func TestInfoOf(t *testing.T) {
	entries, err := fstest.MapFS{"a.log": {Data: []byte("as it was")}}.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	own, err := fstest.MapFS{"a.log": {Data: []byte("as it is now")}}.Stat("a.log")
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name string
		err  error // of the file itself
		want int64 // its size. 0: it is left out
	}{
		{"open", nil, own.Size()},
		{"in use by another process", errors.New("sharing violation"), 9},
		{"not to be read", fs.ErrPermission, 9},
		{"gone", fs.ErrNotExist, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			info, err := infoOf(entries[0], func() (fs.FileInfo, error) {
				if tt.err != nil {
					return nil, tt.err
				}
				return own, nil
			})
			switch {
			case tt.want == 0:
				if !errors.Is(err, tt.err) {
					t.Errorf("got %v, %v", info, err)
				}
			case err != nil:
				t.Error(err)
			case info.Size() != tt.want:
				t.Errorf("it has %d bytes, want %d", info.Size(), tt.want)
			}
		})
	}
}
