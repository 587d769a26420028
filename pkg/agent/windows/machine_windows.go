// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package windows

import (
	"strings"
	"unsafe"
)

var procGetSystemFirmwareTable = kernel32.NewProc("GetSystemFirmwareTable")

// MachineID is the UUID of the machine in its firmware, and the one that Windows chose when it
// was installed: copies of a disk have the same one of these, and other installations on a
// machine the same one of those.
func (*Host) MachineID() string {
	guid, err := readString(`SOFTWARE\Microsoft\Cryptography`, "MachineGuid")
	if err != nil {
		guid = ""
	}
	uuid := systemUUID(firmwareTables())
	if guid == "" && uuid == "" {
		return ""
	}
	return uuid + "/" + strings.ToLower(guid)
}

// firmwareTables returns the tables of SMBIOS, nil if there are none.
func firmwareTables() []byte {
	const provider = 'R'<<24 | 'S'<<16 | 'M'<<8 | 'B'
	if procGetSystemFirmwareTable.Find() != nil {
		return nil
	}
	size, _, _ := procGetSystemFirmwareTable.Call(provider, 0, 0, 0)
	if size == 0 {
		return nil
	}
	raw := make([]byte, size)
	written, _, _ := procGetSystemFirmwareTable.Call(provider, 0, uintptr(unsafe.Pointer(&raw[0])), size)
	if written > size {
		return nil
	}
	return raw[:written]
}
