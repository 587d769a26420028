// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package windows

import (
	"encoding/binary"
	"fmt"
	"slices"
)

// noUUIDs are what firmware has that knows no UUID, and one that a maker of boards gave to all of them.
var noUUIDs = []string{
	"00000000-0000-0000-0000-000000000000", "ffffffff-ffff-ffff-ffff-ffffffffffff", "03000200-0400-0500-0006-000700080009",
}

// systemUUID reads the UUID of the machine from the tables that GetSystemFirmwareTable returns for
// the provider RSMB: RawSMBIOSData of its documentation, then structures as in chapter 6 of the
// SMBIOS specification (DSP0134). Empty: there is none, or one that says nothing.
func systemUUID(raw []byte) string {
	const (
		rawHeader = 8 // of RawSMBIOSData
		header    = 4 // type, length and handle of a structure
		system    = 1 // the type System Information, with the UUID at offset 8
		uuidAt    = 8
	)
	for t := raw[min(rawHeader, len(raw)):]; len(t) >= header; {
		kind, length := t[0], int(t[1])
		if length < header || length > len(t) {
			return ""
		}
		if kind == system && length >= uuidAt+16 {
			return formatUUID(t[uuidAt : uuidAt+16])
		}
		// Strings follow, the last one ends with two zero bytes.
		for t = t[length:]; len(t) >= 2 && (t[0] != 0 || t[1] != 0); t = t[1:] {
		}
		t = t[min(2, len(t)):]
	}
	return ""
}

// formatUUID writes a UUID as Windows and "dmidecode" do: its first three fields are little-endian.
func formatUUID(b []byte) string {
	uuid := fmt.Sprintf("%08x-%04x-%04x-%x-%x",
		binary.LittleEndian.Uint32(b), binary.LittleEndian.Uint16(b[4:]), binary.LittleEndian.Uint16(b[6:]), b[8:10], b[10:16])
	if slices.Contains(noUUIDs, uuid) {
		return ""
	}
	return uuid
}
