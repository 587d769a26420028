// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package winfs

import (
	"io/fs"
	"time"
)

// rootInfo describes what is no directory on this machine: "/" and the drives in it.
type rootInfo struct{ name string }

// Name implements [fs.FileInfo].
func (r rootInfo) Name() string { return r.name }

// Size implements [fs.FileInfo].
func (rootInfo) Size() int64 { return 0 }

// Mode implements [fs.FileInfo].
func (rootInfo) Mode() fs.FileMode { return fs.ModeDir | 0o755 }

// ModTime implements [fs.FileInfo].
func (rootInfo) ModTime() time.Time { return time.Time{} }

// IsDir implements [fs.FileInfo].
func (rootInfo) IsDir() bool { return true }

// Sys implements [fs.FileInfo].
func (rootInfo) Sys() any { return nil }
