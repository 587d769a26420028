// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package winfs

import (
	"fmt"
	"os"
	"strings"

	"github.com/openshift/windows-instance-api/test/winpath"
)

// Below returns a function for FS.Local that finds drive C: in the directory root of a
// Unix machine. Names are matched exactly where that is possible and otherwise without
// regard to case, as Windows finds them.
func Below(root string) func(clean string) (string, error) {
	return func(clean string) (string, error) {
		drive, below, _ := strings.Cut(strings.Trim(clean, "/"), "/")
		if !strings.EqualFold(drive, "C:") {
			return "", fmt.Errorf("%s: the system cannot find the drive specified: %w", clean, os.ErrNotExist)
		}
		return winpath.Local(root, below), nil
	}
}
