// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package v1alpha1

import (
	"regexp"
	"strings"
)

// MaxComputerName is how many characters NetBIOS allows in the name of a computer.
const MaxComputerName = 15

// computerName is what NetBIOS and the names of Nodes both allow.
var computerName = regexp.MustCompile(`^([a-z0-9]|[a-z0-9][a-z0-9-]{0,13}[a-z0-9])$`)

// IsComputerName says whether a host can have that name, and its Node too. Windows does not take a
// number.
func IsComputerName(name string) bool {
	return computerName.MatchString(name) && strings.Trim(name, "0123456789") != ""
}
