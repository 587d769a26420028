// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package wmco

import (
	"fmt"
	"path"
	"strings"
)

// ParseSHA256Sums reads the output of sha256sum: lines of a digest, two spaces and a
// path. It returns the digests by the last element of the path, which must be there
// once only. Empty lines and lines that end as on Windows are fine; the digests are
// returned as they are.
func ParseSHA256Sums(text string) (map[string]string, error) {
	sums := map[string]string{}
	for number, line := range strings.Split(text, "\n") {
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		sum, file, found := strings.Cut(line, "  ")
		if !found || sum == "" || file == "" {
			return nil, fmt.Errorf("line %d is not a digest, two spaces and a path", number+1)
		}
		name := path.Base(file)
		if _, twice := sums[name]; twice {
			return nil, fmt.Errorf("line %d: there is another digest of %s", number+1, name)
		}
		sums[name] = sum
	}
	return sums, nil
}
