// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

//go:build !linux && !windows

package sparse

import (
	"io/fs"
	"os"
)

func maybe(fs.FileInfo) bool { return false }

func firstData(*os.File, fs.FileInfo) (int64, error) { return 0, nil }

func release(*os.File, int64) error { return ErrUnsupported }
