// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package windows

import "fmt"

// hresultError is an HRESULT that has no code of Windows.
type hresultError uint32

// Error implements [error]. For codes of the servicing stack that people have to do something
// about, it says what; see learn.microsoft.com, "Windows Update error codes by component".
func (e hresultError) Error() string {
	text := fmt.Sprintf("HRESULT %#x", uint32(e))
	switch uint32(e) {
	case 0x800f081f, 0x800f0906, 0x800f0907, 0x800f0950, 0x800f0954:
		text += ": Windows does not have the files of the feature, and cannot get them from Windows Update. " +
			"Let the host reach it, or mount the installation medium of its version and run: " +
			`Install-WindowsFeature NAME -Source D:\sources\sxs`
	}
	return text
}
