// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package flags_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/openshift/windows-instance-api/pkg/desired/flags"
)

// TestOpenRemovesLeftovers: a program that starts removes what one that was killed has left in the cache of the payload.
func TestOpenRemovesLeftovers(t *testing.T) {
	cache := t.TempDir()
	left := filepath.Join(cache, ".download-1")
	if err := os.WriteFile(left, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(left, time.Unix(0, 0), time.Unix(0, 0)); err != nil {
		t.Fatal(err)
	}
	f := flags.Flags{Payload: t.TempDir(), PayloadCache: cache}
	if _, err := f.Open(t.Context()); err == nil {
		t.Error("an empty directory is a payload")
	}
	if _, err := os.Stat(left); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("it is there: %v", err)
	}
}
