// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

//go:build windows

// restart asks Windows to restart, as the agent does.
package main

import (
	"fmt"
	"os"

	"golang.org/x/sys/windows"
)

func main() {
	const planned = windows.SHTDN_REASON_MAJOR_OTHER | windows.SHTDN_REASON_MINOR_OTHER | windows.SHTDN_REASON_FLAG_PLANNED
	if err := windows.InitiateSystemShutdownEx(nil, nil, 0, true, true, planned); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
