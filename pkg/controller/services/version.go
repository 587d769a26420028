// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package services

import "strings"

// maxVersionLength keeps the name of a ConfigMap far below its limit, and fits a label.
const maxVersionLength = 63

// Version returns the version that a release is published under, which can be the end of
// the name of a ConfigMap: that of the release in lower case, with a hyphen for what
// cannot be in a name. It is also the version in the annotations of Nodes.
func Version(release string) string {
	version := []byte(strings.ToLower(release))
	for i, c := range version {
		alphanumeric := c >= 'a' && c <= 'z' || c >= '0' && c <= '9'
		// A dot must be between letters and digits.
		dot := c == '.' && i > 0 && version[i-1] != '.' && version[i-1] != '-'
		if !alphanumeric && !dot {
			version[i] = '-'
			if i > 0 && version[i-1] == '.' {
				version[i-1] = '-'
			}
		}
	}
	if trimmed := strings.Trim(string(version[:min(len(version), maxVersionLength)]), "-."); trimmed != "" {
		return trimmed
	}
	return "unknown"
}
