// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

// args prints its arguments as the Go runtime of its system finds them, each with a NUL behind it.
package main

import (
	"os"
)

func main() {
	for _, arg := range os.Args[1:] {
		_, _ = os.Stdout.WriteString(arg + "\x00")
	}
}
