// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package etcd

import (
	"errors"
	"strings"
	"testing"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
)

// TestFullEtcdTakesWritesAfterARestart: one object that is written over and over fills the database
// with its old revisions, and then nothing can be written any more, for good.
func TestFullEtcdTakesWritesAfterARestart(t *testing.T) {
	const small = 4 << 20
	dir := t.TempDir()
	full, err := startEmbedded(t.Context(), dir, small)
	if err != nil {
		t.Fatal(err)
	}
	value, filling := strings.Repeat("x", 64<<10), client(t, full)
	for writes := 0; ; writes++ {
		_, err := filling.Put(t.Context(), "key", value)
		if errors.Is(err, rpctypes.ErrNoSpace) {
			break
		}
		if err != nil || writes > 1000 {
			t.Fatalf("after %d writes: %v", writes, err)
		}
	}
	full.Close()
	again, err := startEmbedded(t.Context(), dir, small)
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	c := client(t, again)
	if read, err := c.Get(t.Context(), "key"); err != nil || len(read.Kvs) != 1 || string(read.Kvs[0].Value) != value {
		t.Errorf("the object is not there: %v", err)
	}
	for range 10 {
		if _, err := c.Put(t.Context(), "key", value); err != nil {
			t.Fatalf("it takes no writes: %v", err)
		}
	}
}
