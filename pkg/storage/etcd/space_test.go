// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package etcd

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// smallQuota is filled in no time.
const smallQuota = 4 << 20

var value = strings.Repeat("x", 64<<10)

// fill writes one object over and over, until its old revisions have filled the database and nothing
// can be written any more.
func fill(t *testing.T, c *clientv3.Client) {
	t.Helper()
	for writes := 0; ; writes++ {
		_, err := c.Put(t.Context(), "key", value)
		if errors.Is(err, rpctypes.ErrNoSpace) {
			return
		}
		if err != nil || writes > 1000 {
			t.Fatalf("after %d writes: %v", writes, err)
		}
	}
}

func mustTakeWrites(t *testing.T, c *clientv3.Client) {
	t.Helper()
	if read, err := c.Get(t.Context(), "key"); err != nil || len(read.Kvs) != 1 || string(read.Kvs[0].Value) != value {
		t.Errorf("the object is not there: %v", err)
	}
	for range 10 {
		if _, err := c.Put(t.Context(), "key", value); err != nil {
			t.Fatalf("it takes no writes: %v", err)
		}
	}
}

func TestFullEtcdTakesWritesAgain(t *testing.T) {
	tick := make(chan time.Time)
	e, err := startEmbedded(t.Context(), t.TempDir(), smallQuota, tick)
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	c := client(t, e)
	fill(t, c)
	tick <- time.Now()
	tick <- time.Now() // the look before is over
	mustTakeWrites(t, c)
}

// TestFullOfObjects: where objects are what it is full of, it says so, does not defragment again and again, and takes writes as soon as
// enough of them are deleted.
func TestFullOfObjects(t *testing.T) {
	e, err := startEmbedded(t.Context(), t.TempDir(), smallQuota, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	c := client(t, e)
	// As long as free pages are part of what it has, it can make room.
	for n := 0; err == nil; {
		var full error
		for ; full == nil; n++ {
			_, full = c.Put(t.Context(), fmt.Sprintf("key%d", n), value)
		}
		if alarms := e.etcd.Server.Alarms(); !errors.Is(full, rpctypes.ErrNoSpace) || len(alarms) != 1 {
			t.Fatalf("%v, alarms: %v", full, alarms)
		}
		err = e.endAlarm(t.Context(), e.etcd.Server.Alarms()[0])
	}
	if !strings.Contains(err.Error(), "the objects that the embedded etcd has are") {
		t.Errorf("got %v", err)
	}
	if _, err := c.Put(t.Context(), "key", value); !errors.Is(err, rpctypes.ErrNoSpace) {
		t.Errorf("a write ends with %v", err)
	}
	// It may have more than the quota: until a batch of writes ends, its size is the one before. Half of the objects are enough nevertheless.
	if _, err := c.Delete(t.Context(), "key1", clientv3.WithRange("key5")); err != nil {
		t.Fatalf("nothing can be deleted: %v", err)
	}
	alarm := e.etcd.Server.Alarms()[0]
	for tries := 0; e.endAlarm(t.Context(), alarm) != nil; tries++ { // it hears of free pages with the next batch of writes
		if tries > 1000 {
			t.Fatal("it takes no writes any more")
		}
	}
	if _, err := c.Put(t.Context(), "key", value); err != nil {
		t.Errorf("after objects were deleted: %v", err)
	}
}

func TestFullEtcdTakesWritesAfterARestart(t *testing.T) {
	dir := t.TempDir()
	full, err := startEmbedded(t.Context(), dir, smallQuota, nil)
	if err != nil {
		t.Fatal(err)
	}
	fill(t, client(t, full))
	full.Close()
	// A copy that a defragmentation had begun would fill the volume in the end.
	leftover := filepath.Join(dir, "member", "snap", "db.tmp.123")
	if err := os.WriteFile(leftover, []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	again, err := startEmbedded(t.Context(), dir, smallQuota, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	mustTakeWrites(t, client(t, again))
	if _, err := os.Stat(leftover); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("it is still there: %v", err)
	}
}
